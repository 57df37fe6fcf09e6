use allotrope_diff::{DiffOptions, compare};
use allotrope_profile::{CountedStack, Metric, MetricSet, StackFrame};

use super::*;

/// Letters that deflate cannot make much shorter.
fn name(state: &mut u64, characters: usize) -> String {
    let letters = (0..characters).map(|_| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'A' + ((*state >> 33) % 26) as u8)
    });
    letters.collect()
}

/// Stacks of two functions each below `main`: the stack with index `i` has `figure(i)`
/// allocations.
fn set(stacks: u64, characters: usize, figure: impl Fn(u64) -> u64) -> StackSet {
    let mut state = 7;
    let mut set = StackSet {
        title: "x".to_owned(),
        known: MetricSet::of(&[Metric::Allocations]),
        ..StackSet::default()
    };
    let mut frame = |function: String| {
        set.frames.push(StackFrame {
            function: function.into(),
            file: "/home/me/main.c".into(),
            line: 1,
            ..StackFrame::default()
        });
        set.frames.len() as u32 - 1
    };
    let main = frame("main".to_owned());
    for index in 0..stacks {
        let inner = frame(name(&mut state, characters));
        let caller = frame(name(&mut state, characters));
        let mut figures = allotrope_profile::MetricValues::default();
        figures[Metric::Allocations as usize] = figure(index);
        set.stacks.push(CountedStack {
            frames: [inner, caller, main].into(),
            figures,
            maximum: None,
        });
    }
    set
}

struct Sets {
    before: StackSet,
    after: StackSet,
    diffs: Vec<Diff>,
    glue: Glue,
}

impl Sets {
    fn new(before: StackSet, after: StackSet) -> Self {
        let one = |set| std::slice::from_ref(set);
        let diff = compare(one(&before), one(&after), &DiffOptions::default());
        Self {
            diffs: vec![diff.expect("they can be compared")],
            before,
            after,
            glue: Glue::default(),
        }
    }

    fn comparison(&self) -> Comparison<'_> {
        let side = |set| ComparedSide {
            titles: &[],
            sets: std::slice::from_ref(set),
            profile: None,
        };
        Comparison {
            diffs: &self.diffs,
            sides: [side(&self.before), side(&self.after)],
            glue: &self.glue,
            filter: None,
            notes: &[],
        }
    }

    /// What is left out of the only comparison when there may be so much of it.
    fn left_out(&self, limits: &Limits) -> (LeftOut, EntryColumns) {
        let comparison = self.comparison();
        let selected = Selected::of(&comparison, &self.diffs[0]);
        let mut columns = EntryColumns::default();
        let left_out = columns.add(
            &selected,
            limits,
            &mut Frames::new(&self.glue),
            &mut Stacks::default(),
            &mut Names::with_at_most(limits.characters),
        );
        (left_out, columns)
    }
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    // Ten stacks rise by 10, 20, …, 100; the first ten are the same.
    let before = set(20, 20, |_| 1000);
    let after = set(20, 20, |index| 1000 + index.saturating_sub(9) * 10);
    let sets = Sets::new(before, after);
    assert_eq!(sets.diffs[0].entries.len(), 10);
    let (left_out, columns) = sets.left_out(&Limits {
        entries: 4,
        stacks: 3,
        same: 2,
        characters: 100,
    });
    // Those that rise by 10 to 60, in all by 210.
    assert_eq!(left_out.entries, 6);
    assert_eq!(left_out.after - left_out.before, 210);
    assert_eq!((left_out.stacks, left_out.same), (1, 8));
    let of = |name: &str| columns.columns[name].clone();
    assert_eq!(of("entry.after"), [1100, 1090, 1080, 1070]);
    assert_eq!(of("entry.stacks"), [1, 1, 1, 0]);
    assert_eq!(of("entry.all_stacks"), [1, 1, 1, 1]);
    assert_eq!(of("same.figure"), [1000, 1000]);
}

#[test]
fn a_page_is_made_to_fit() {
    let sets = |stacks, characters| {
        let before = set(stacks, characters, |_| 1000);
        Sets::new(before, set(stacks, characters, |index| 1000 + index))
    };
    let size = |sets: &Sets, most| {
        let parts = parts(&sets.comparison(), most);
        let sizes = parts.iter().map(|(_, data)| data.len() + 100);
        sizes.sum::<usize>()
    };
    // 600 names of 2,000 characters.
    assert!(size(&sets(300, 2_000), 300_000) <= 300_000);
    // 4,000 names of 40, of which cutting cannot save enough.
    assert!(size(&sets(2_000, 40), 50_000) <= 50_000);
    let small = sets(10, 20);
    assert_eq!(size(&small, usize::MAX), size(&small, 50_000));
}
