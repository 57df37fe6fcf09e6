//! Finds calls that explain every difference below them: the called function is
//! new or gone, or everything allocated below it changed by the same factor, as
//! if only the number of its calls changed.

use crate::Side;
use crate::assign::main_class;
use crate::classes::Classes;
use crate::match_by_name::Match;

/// Which functions explain the differences below them.
pub(crate) struct CallChanges<'c, 'a> {
    classes: &'c Classes<'a>,
    /// By name at the loosest level: everything below the function changed by
    /// one factor.
    scaled: Vec<bool>,
}

/// The differences in the stacks that contain a function.
#[derive(Clone, Copy, Default)]
struct SubtreeChange {
    /// The number of classes that changed.
    changed: u32,
    /// The figures (before, after) of the first of them. All changed by the
    /// factor after / before of this one, unless `factors_differ`.
    factor: Option<(u64, u64)>,
    factors_differ: bool,
    /// The number of all classes.
    all: u32,
}

impl SubtreeChange {
    fn add(&mut self, before: u64, after: u64) {
        self.changed += 1;
        match self.factor {
            None => self.factor = Some((before, after)),
            Some((b, a)) => {
                let same = u128::from(b) * u128::from(after) == u128::from(before) * u128::from(a);
                self.factors_differ |= !same;
            }
        }
    }
}

impl<'c, 'a> CallChanges<'c, 'a> {
    pub(crate) fn new<'t>(
        classes: &'c Classes<'a>,
        matches: impl Iterator<Item = &'t Match>,
    ) -> Self {
        let mut below = vec![SubtreeChange::default(); classes.table.names()];
        let mut functions = DistinctFunctions::new(classes);
        for matched in matches {
            for &class in &matched.classes {
                functions.for_each(class, |name| below[name].add(matched.before, matched.after));
            }
        }
        for class in 0..classes.classes.len() as u32 {
            functions.for_each(class, |name| below[name].all += 1);
        }
        let scaled = |below: &SubtreeChange| below.changed == below.all && !below.factors_differ;
        Self {
            scaled: below.iter().map(scaled).collect(),
            classes,
        }
    }

    /// The outermost function whose call explains the whole difference. Never the
    /// function that a thread starts with: all stacks of the thread contain it, so there
    /// are no unchanged stacks to compare with.
    pub(crate) fn explaining_call(&self, matched: &Match) -> Option<u32> {
        let table = &self.classes.table;
        let mut stack = Vec::new();
        self.classes
            .stack(main_class(self.classes, matched), &mut stack);
        let is_own = table.own_in(stack.iter().copied());
        let own = stack.iter().rev().filter(|&&frame| is_own(frame));
        let mut names = own.map(|&frame| table.loosest(frame));
        let other = matched.only_side().map(|side| match side {
            Side::Before => Side::After,
            Side::After => Side::Before,
        });
        let only_here = |name| other.is_some_and(|other| table.occurrences(name, other) == 0);
        let root = names.next()?;
        if only_here(root) {
            return None;
        }
        names.find(|&name| only_here(name) || self.scaled[name as usize])
    }
}

/// Visits each distinct function of a class once.
struct DistinctFunctions<'c, 'a> {
    classes: &'c Classes<'a>,
    last: Vec<u32>,
    visits: u32,
}

impl<'c, 'a> DistinctFunctions<'c, 'a> {
    fn new(classes: &'c Classes<'a>) -> Self {
        Self {
            classes,
            last: vec![0; classes.table.names()],
            visits: 0,
        }
    }

    fn for_each(&mut self, class: u32, mut visit: impl FnMut(usize)) {
        // The counter wraps after 2³² classes; at worst, a function of one
        // class is then skipped.
        self.visits = self.visits.wrapping_add(1).max(1);
        for frame in self.classes.frames_of(class) {
            let name = self.classes.table.loosest(frame) as usize;
            if self.last[name] != self.visits {
                self.last[name] = self.visits;
                visit(name);
            }
        }
    }
}
