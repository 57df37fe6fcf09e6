//! Builds the result: the sorted entries, and one table of the frames they use.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::align::Aligner;
use crate::assign::main_class;
use crate::blame::{Group, shown_stack, thread_root};
use crate::classes::Classes;
use crate::differing_frame::differing;
use crate::match_by_name::Match;
use crate::match_level::MatchLevel;
use crate::{DifferingFrame, Entry, EntryStack, Kind};
use allotrope_profile::StackFrame;

/// An entry, and the key that orders entries of equal size.
struct Draft {
    entry: Entry,
    key: u128,
}

/// Builds the entries and the frames they refer to.
pub(crate) fn entries(
    classes: &Classes<'_>,
    changed: Vec<Group>,
    jitter: Vec<Match>,
    moved: Vec<Match>,
) -> (Vec<StackFrame>, Vec<Entry>) {
    let mut drafts: Vec<Draft> = changed
        .into_iter()
        .map(|group| draft(classes, None, group.blame, &group.matches))
        .collect();
    drafts.extend(by_thread(classes, jitter));
    drafts.extend(by_rename(classes, moved));
    drafts.sort_by_key(|Draft { entry, key }| {
        let size = entry.difference.unsigned_abs();
        let folded = entry.kind == Kind::Moved;
        (
            folded,
            Reverse(size),
            Reverse(entry.before.max(entry.after)),
            *key,
        )
    });
    let mut entries: Vec<Entry> = drafts.into_iter().map(|draft| draft.entry).collect();
    let frames = frames_used(classes, &mut entries);
    (frames, entries)
}

fn by_thread(classes: &Classes<'_>, jitter: Vec<Match>) -> Vec<Draft> {
    let mut threads: FxHashMap<u32, (u32, Vec<Match>)> = FxHashMap::default();
    for matched in jitter {
        let stack = shown_stack(classes, main_class(classes, &matched));
        let root = thread_root(&classes.table, &stack);
        let name = classes.table.name(root, MatchLevel::Canonical);
        let thread = threads.entry(name).or_insert((root, Vec::new()));
        thread.0 = thread.0.min(root);
        thread.1.push(matched);
    }
    threads
        .into_values()
        .map(|(root, matches)| draft(classes, Some(Kind::Jitter), root, &matches))
        .collect()
}

/// One entry for each frame that was renamed, inserted or removed, for all
/// stacks that contain it.
fn by_rename(classes: &Classes<'_>, moved: Vec<Match>) -> Vec<Draft> {
    let aligner = Aligner::new(&classes.table);
    let mut renames: FxHashMap<_, (DifferingFrame, Vec<Match>)> = FxHashMap::default();
    for matched in moved {
        let found = differing(classes, &aligner, &matched);
        let name = |frame: u32| classes.table.name(frame, MatchLevel::Exact);
        let names = (found.before.map(name), found.after.map(name));
        let rename = renames.entry(names).or_insert_with(|| (found, Vec::new()));
        // Offsets differ from stack to stack. The least frame is shown, so that
        // the order of the stacks does not matter.
        rename.0.before = rename.0.before.min(found.before);
        rename.0.after = rename.0.after.min(found.after);
        rename.1.push(matched);
    }
    renames
        .into_values()
        .map(|(found, matches)| {
            let blame = found.after.or(found.before).unwrap_or_default();
            let mut draft = draft(classes, Some(Kind::Moved), blame, &matches);
            draft.entry.differs = Some(found);
            draft
        })
        .collect()
}

/// Sums matches to one entry. Without a given kind, the sums determine it.
fn draft(classes: &Classes<'_>, kind: Option<Kind>, blame: u32, matches: &[Match]) -> Draft {
    let before: u64 = matches.iter().map(|matched| matched.before).sum();
    let after: u64 = matches.iter().map(|matched| matched.after).sum();
    let all = || matches.iter().flat_map(|matched| &matched.classes).copied();
    let mut stacks: Vec<EntryStack> = all().flat_map(|class| stacks(classes, class)).collect();
    stacks.sort_by(|a, b| {
        let size = |stack: &EntryStack| {
            (
                stack.after.abs_diff(stack.before),
                stack.after.max(stack.before),
            )
        };
        size(b)
            .cmp(&size(a))
            .then_with(|| first_spelling(a).cmp(first_spelling(b)))
    });
    let entry = Entry {
        kind: kind.unwrap_or(match (before, after) {
            (0, _) => Kind::New,
            (_, 0) => Kind::Gone,
            _ => Kind::Changed,
        }),
        before,
        after,
        difference: after as i64 - before as i64,
        confidence: matches
            .iter()
            .map(|matched| matched.confidence)
            .fold(1.0, f64::min),
        blame,
        through: None,
        differs: None,
        suppressed: None,
        interval: None,
        stacks,
    };
    Draft {
        entry,
        key: all()
            .map(|class| classes.key(class))
            .min()
            .unwrap_or_default(),
    }
}

/// Figures of a stack, before and after, and the stacks of the sets that have them.
#[derive(Default)]
struct Counted {
    figures: [u64; 2],
    sources: [Vec<u32>; 2],
}

/// The key that orders stacks; exchanging the sides gives the same one.
fn first_spelling(stack: &EntryStack) -> &[u32] {
    match &stack.frames_before {
        Some(before) if *before < stack.frames => before,
        _ => &stack.frames,
    }
}

/// The stacks of a class, each distinct sequence of frames once. Those on one
/// side only differ from the others in offsets or lines. If both sides have the
/// same number of them, they are paired in order.
fn stacks(classes: &Classes<'_>, class: u32) -> Vec<EntryStack> {
    let mut counted: BTreeMap<Vec<u32>, Counted> = BTreeMap::new();
    let mut frames = Vec::new();
    for &occurrence in classes.occurrences(class) {
        let Some(side) = classes.side(occurrence) else {
            continue;
        };
        classes
            .table
            .stack(occurrence.run, occurrence.stack, &mut frames);
        if !counted.contains_key(&frames) {
            counted.insert(frames.clone(), Counted::default());
        }
        if let Some(figures) = counted.get_mut(&frames) {
            figures.figures[side as usize] += classes.value(occurrence);
            if classes.has_sources {
                figures.sources[side as usize].push(occurrence.stack);
            }
        }
    }
    let (mut stacks, mut gone, mut new) = (Vec::new(), Vec::new(), Vec::new());
    for (frames, counted) in counted {
        let [before, after] = counted.figures;
        let stack = EntryStack {
            before,
            after,
            frames: frames.into_boxed_slice(),
            frames_before: None,
            sources: counted.sources,
        };
        match (before, after) {
            (_, 0) => gone.push(stack),
            (0, _) => new.push(stack),
            _ => stacks.push(stack),
        }
    }
    if gone.len() == new.len() {
        stacks.extend(gone.into_iter().zip(new).map(|(gone, new)| EntryStack {
            before: gone.before,
            after: new.after,
            frames: new.frames,
            frames_before: Some(gone.frames),
            sources: {
                let [[before, _], [_, after]] = [gone.sources, new.sources];
                [before, after]
            },
        }));
    } else {
        stacks.extend(gone.into_iter().chain(new));
    }
    stacks
}

/// Collects the frames that the entries use, and replaces their indexes by
/// indexes into that table.
fn frames_used(classes: &Classes<'_>, entries: &mut [Entry]) -> Vec<StackFrame> {
    let mut is_used = vec![false; classes.table.len()];
    for_each_frame(entries, |frame| is_used[*frame as usize] = true);
    let used: Vec<u32> = (0..)
        .zip(&is_used)
        .filter_map(|(frame, &is_used)| is_used.then_some(frame))
        .collect();
    let mut indexes = vec![0; is_used.len()];
    for (index, &frame) in (0..).zip(&used) {
        indexes[frame as usize] = index;
    }
    for_each_frame(entries, |frame| *frame = indexes[*frame as usize]);
    used.into_iter()
        .map(|frame| classes.table.frame(frame).clone())
        .collect()
}

fn for_each_frame(entries: &mut [Entry], mut visit: impl FnMut(&mut u32)) {
    for entry in entries {
        visit(&mut entry.blame);
        let differs = entry.differs.iter_mut();
        for frame in differs.flat_map(|d| d.before.iter_mut().chain(&mut d.after)) {
            visit(frame);
        }
        for stack in &mut entry.stacks {
            let before = stack.frames_before.iter_mut().flatten();
            stack.frames.iter_mut().chain(before).for_each(&mut visit);
        }
    }
}
