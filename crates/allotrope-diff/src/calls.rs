//! Calls that explain everything below them, seen from the outside in: the
//! function is new or gone, or all that is allocated below it is by the same
//! factor more or less, as if it were called that much more often.

use crate::Side;
use crate::assign::main_class;
use crate::classes::Classes;
use crate::match_by_name::Match;

/// What is known of the functions of differences.
pub(crate) struct Calls<'c, 'a> {
    classes: &'c Classes<'a>,
    /// By loosest name: everything below it changed by one factor.
    scaled: Vec<bool>,
}

/// What changed below a function.
#[derive(Clone, Copy, Default)]
struct Below {
    /// Classes that did.
    changed: u32,
    /// A part of them, before and after, if all changed by the factor that
    /// these two have.
    factor: Option<(u64, u64)>,
    factors_differ: bool,
    /// All classes.
    all: u32,
}

impl Below {
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

impl<'c, 'a> Calls<'c, 'a> {
    pub(crate) fn new<'t>(
        classes: &'c Classes<'a>,
        matches: impl Iterator<Item = &'t Match>,
    ) -> Self {
        let mut below = vec![Below::default(); classes.table.names()];
        let mut seen = Seen::new(classes);
        for matched in matches {
            for &class in &matched.classes {
                seen.for_each(class, |name| below[name].add(matched.before, matched.after));
            }
        }
        for class in 0..classes.classes.len() as u32 {
            seen.for_each(class, |name| below[name].all += 1);
        }
        let scaled = |below: &Below| below.changed == below.all && !below.factors_differ;
        Self {
            scaled: below.iter().map(scaled).collect(),
            classes,
        }
    }

    /// The outermost function by whose call everything in the stack of a
    /// difference is explained. What a thread starts with is none: there is
    /// nothing beside it that did not change.
    pub(crate) fn explaining(&self, matched: &Match) -> Option<u32> {
        let table = &self.classes.table;
        let mut stack = Vec::new();
        self.classes
            .stack(main_class(self.classes, matched), &mut stack);
        let own = stack.iter().rev().filter(|&&frame| !table.is_glue(frame));
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

/// Visits the functions of a class once each.
struct Seen<'c, 'a> {
    classes: &'c Classes<'a>,
    last: Vec<u32>,
    visits: u32,
}

impl<'c, 'a> Seen<'c, 'a> {
    fn new(classes: &'c Classes<'a>) -> Self {
        Self {
            classes,
            last: vec![0; classes.table.names()],
            visits: 0,
        }
    }

    fn for_each(&mut self, class: u32, mut visit: impl FnMut(usize)) {
        // A wrap is met after 2³² visits; what is visited twice then is one
        // function of one class.
        self.visits = self.visits.wrapping_add(1).max(1);
        for frame in self.classes.outwards(class) {
            let name = self.classes.table.loosest(frame) as usize;
            if self.last[name] != self.visits {
                self.last[name] = self.visits;
                visit(name);
            }
        }
    }
}
