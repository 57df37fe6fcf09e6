//! The candidates of a rule, with their conditions and what became of them: the answer to why a
//! rule has a finding or has none.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use allotrope_profile::Site;
use allotrope_trace::model::ImageId;
use rustc_hash::FxHashSet;

use crate::candidate::{Candidate, TriedId};
use crate::conditions::{Check, Conditions};
use crate::context::{Context, Group};
use crate::finding::Rule;

/// Which rules are explained.
#[derive(Debug, Clone, Default)]
pub struct Why {
    /// The rules.
    pub rules: BTreeSet<Rule>,
    /// Only candidates with one of these sites, by their numbers; `None`: all.
    pub sites: Option<FxHashSet<u32>>,
    /// Only candidates of this process.
    pub process: Option<ImageId>,
    /// Keep so many candidates of each rule.
    pub most: usize,
}

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is the finding with this index.
    Shown(usize),
    /// Not all conditions are met.
    NotMet,
    /// The conditions would be met without suppressions: so many blocks are expected to leak, by a rule
    /// such as `leak:NAME`.
    Suppressed {
        /// The blocks that are expected to leak.
        blocks: u64,
        /// The rule that expects the first of them.
        rule: String,
        /// The list that has this rule, in words.
        list: String,
    },
    /// It is a part of another finding of the rule, about this frame.
    PartOf(Option<u32>),
    /// Its function says nothing, for this reason.
    SaysNothing(&'static str),
    /// The rule is switched off.
    Off,
    /// A finding of this rule says it better: the one with this index, unless that is silent, too.
    SaidBetter(Rule, Option<usize>),
    /// So many better findings of the same rule and process are shown.
    TooMany(usize),
}

/// A candidate of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The rule.
    pub rule: Rule,
    /// The process.
    pub process: ImageId,
    /// The line that the finding names, or would name: an index into
    /// [`Profile::frames`](allotrope_profile::Profile::frames); `None` for the process as a whole.
    pub frame: Option<u32>,
    /// The numbers of its sites.
    pub sites: Vec<u32>,
    /// The conditions about the process, in order.
    pub of_process: Vec<Check>,
    /// The conditions about the candidate, in order.
    pub conditions: Vec<Check>,
    /// What became of it.
    pub outcome: Outcome,
    id: TriedId,
    /// The number by which its rule puts candidates in order.
    size: u64,
}

impl Tried {
    /// The conditions that are not met.
    pub fn unmet(&self) -> usize {
        let all = self.of_process.iter().chain(&self.conditions);
        all.filter(|check| !check.met).count()
    }

    /// All conditions.
    pub fn all(&self) -> usize {
        self.of_process.len() + self.conditions.len()
    }

    /// Those that met all conditions first, as their findings are in order; then those with the fewest
    /// conditions that are not met, and the largest.
    fn rank(&self) -> impl Ord + use<> {
        let order = match self.outcome {
            Outcome::Shown(index) => (0, index),
            Outcome::NotMet => (2, self.unmet()),
            _ => (1, 0),
        };
        (order, Reverse(self.size), self.id)
    }
}

/// The explained candidates of all rules and processes.
pub(crate) struct AllTried<'w> {
    why: &'w Why,
    tried: Vec<Tried>,
    next: TriedId,
    /// The explained ones that other findings say better.
    weaker: Vec<Candidate>,
}

impl<'w> AllTried<'w> {
    pub(crate) fn new(why: &'w Why) -> Self {
        Self {
            why,
            tried: Vec::new(),
            next: 0,
            weaker: Vec::new(),
        }
    }

    /// The candidates of a rule in a process, which are about to be tried.
    pub(crate) fn of<'a>(&'a mut self, rule: Rule, context: &'a Context<'a>) -> Trials<'a, 'w> {
        let process = self.why.process;
        let is_wanted = process.is_none_or(|process| process == context.process.id);
        Trials {
            is_explained: is_wanted && self.why.rules.contains(&rule),
            first: self.tried.len(),
            all: self,
            rule,
            context,
            of_process: Vec::new(),
            are_possible: true,
            has_candidates: false,
        }
    }

    /// Says what became of a candidate, if it is explained.
    pub(crate) fn end(&mut self, id: Option<TriedId>, outcome: Outcome) {
        if let Some(tried) = self.of_id(id) {
            tried.outcome = outcome;
        }
    }

    /// Keeps a candidate that another finding says better, if it is explained, until the findings are in
    /// order.
    pub(crate) fn keep_weaker(&mut self, candidate: Candidate) {
        if candidate.tried.is_some() {
            self.weaker.push(candidate);
        }
    }

    /// Those that were kept.
    pub(crate) fn take_weaker(&mut self) -> Vec<Candidate> {
        std::mem::take(&mut self.weaker)
    }

    fn of_id(&mut self, id: Option<TriedId>) -> Option<&mut Tried> {
        let id = id?;
        self.tried.iter_mut().find(|tried| tried.id == id)
    }

    /// The best ones of each rule, in the order of the rules: those that meet all conditions, or, if
    /// there are none, those that come nearest.
    pub(crate) fn best(mut self) -> Vec<Tried> {
        self.tried.sort_by_key(|tried| (tried.rule, tried.rank()));
        let mut best: Vec<Tried> = Vec::new();
        for tried in self.tried {
            let of_rule = best.iter().rev();
            let of_rule = of_rule.take_while(|it| it.rule == tried.rule);
            let is_better =
                |last: &Tried| last.outcome != Outcome::NotMet && tried.outcome == Outcome::NotMet;
            let is_wanted = !of_rule.clone().next().is_some_and(is_better);
            if is_wanted && of_rule.count() < self.why.most {
                best.push(tried);
            }
        }
        best
    }
}

#[cfg(test)]
impl AllTried<'_> {
    /// A candidate without conditions.
    pub(crate) fn for_test(&mut self, rule: Rule) -> TriedId {
        let id = self.next;
        self.next += 1;
        self.tried.push(Tried {
            rule,
            process: 0,
            frame: None,
            sites: Vec::new(),
            of_process: Vec::new(),
            conditions: Vec::new(),
            outcome: Outcome::NotMet,
            id,
            size: u64::from(id),
        });
        id
    }

    /// What became of each, in the order in which they were tried.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        let outcomes = self.tried.iter().map(|tried| tried.outcome.clone());
        outcomes.collect()
    }
}

/// The candidates of one rule in one process.
pub(crate) struct Trials<'a, 'w> {
    all: &'a mut AllTried<'w>,
    rule: Rule,
    context: &'a Context<'a>,
    is_explained: bool,
    /// The conditions about the process.
    of_process: Vec<Check>,
    /// Whether these are met.
    are_possible: bool,
    /// Whether there was a candidate.
    has_candidates: bool,
    /// Index of the first candidate of this rule and process.
    first: usize,
}

impl Trials<'_, '_> {
    /// Evaluates the conditions about the process. Whether to go on to the candidates: the conditions
    /// are met, or the candidates are explained.
    pub(crate) fn process(&mut self, of: impl FnOnce(&mut Conditions) -> Option<()>) -> bool {
        let mut conditions = Conditions::new(self.is_explained);
        let _ = of(&mut conditions);
        self.are_possible = conditions.hold();
        self.of_process = conditions.into_checks();
        self.is_explained || self.are_possible
    }

    /// Whether the conditions about the process are met.
    pub(crate) fn are_possible(&self) -> bool {
        self.are_possible
    }

    /// Evaluates the conditions of a candidate with these sites (indexes) and size. What its
    /// rule makes of it is kept only if they hold.
    pub(crate) fn candidate<T>(
        &mut self,
        sites: &[u32],
        size: impl FnOnce() -> u64,
        of: impl FnOnce(&mut Conditions) -> Option<T>,
    ) -> (Option<TriedId>, Option<T>) {
        self.has_candidates = true;
        if !self.is_explained {
            return (None, of(&mut Conditions::new(false)));
        }
        let mut conditions = match self.are_possible {
            true => Conditions::new(true),
            false => Conditions::in_vain(),
        };
        let decided = of(&mut conditions).filter(|_| conditions.hold());
        let numbers = sites.iter().map(|&site| self.context.site(site).number);
        let numbers: Vec<u32> = numbers.collect();
        let wanted = self.all.why.sites.as_ref();
        let is_other = |wanted: &FxHashSet<u32>| {
            !numbers.is_empty() && !numbers.iter().any(|site| wanted.contains(site))
        };
        if wanted.is_some_and(is_other) {
            return (None, decided);
        }
        let weight = |site: &Site| site.bytes_at_peak.saturating_add(site.allocations);
        let id = self.all.next;
        self.all.next += 1;
        self.all.tried.push(Tried {
            rule: self.rule,
            process: self.context.process.id,
            frame: self.context.frame(sites, weight),
            sites: numbers,
            of_process: Vec::new(),
            conditions: conditions.into_checks(),
            outcome: Outcome::NotMet,
            id,
            size: size(),
        });
        (Some(id), decided)
    }

    /// Evaluates further conditions of a candidate, and whether they hold.
    pub(crate) fn further(
        &mut self,
        id: Option<TriedId>,
        of: impl FnOnce(&mut Conditions) -> Option<()>,
    ) -> bool {
        let mut conditions = Conditions::new(id.is_some());
        let _ = of(&mut conditions);
        let holds = conditions.hold();
        if let Some(tried) = self.all.of_id(id) {
            tried.conditions.append(&mut conditions.into_checks());
        }
        holds
    }

    /// The candidates among these groups, of which `of` makes findings.
    pub(crate) fn groups<'g>(
        &mut self,
        groups: impl IntoIterator<Item = &'g Group>,
        size: impl Fn(&Group) -> u64,
        of: impl Fn(&Group, &mut Conditions) -> Option<Candidate>,
    ) -> Vec<Candidate> {
        let mut found = Vec::new();
        for group in groups {
            let (id, decided) = self.candidate(
                &group.sites,
                || size(group),
                |conditions| of(group, conditions),
            );
            found.extend(decided.map(|candidate| candidate.tried_as(id)));
        }
        found
    }

    /// A candidate is no finding of its own.
    pub(crate) fn end(&mut self, id: Option<TriedId>, outcome: Outcome) {
        self.all.end(id, outcome);
    }

    /// Adds to each candidate the conditions about the process, and to those that are found their
    /// lines; drops all but the best of the others.
    pub(crate) fn finish(mut self, found: &[Candidate]) {
        if self.is_explained && !self.has_candidates {
            // Only the conditions about the process, which are not met, or nothing to apply the others to.
            self.candidate(&[], || 0, |_| None::<()>);
        }
        for candidate in found {
            if let Some(tried) = self.all.of_id(candidate.tried) {
                tried.frame = candidate.finding.frame;
            }
        }
        let mut of_rule = self.all.tried.split_off(self.first);
        let is_found = |id| found.iter().any(|candidate| candidate.tried == Some(id));
        let is_kept = |tried: &Tried| is_found(tried.id) || tried.outcome != Outcome::NotMet;
        for tried in &mut of_rule {
            tried.of_process.clone_from(&self.of_process);
        }
        of_rule.sort_by_key(|tried| (!is_kept(tried), tried.rank()));
        let kept = of_rule.iter().filter(|tried| is_kept(tried)).count();
        of_rule.truncate(kept.max(self.all.why.most));
        self.all.tried.append(&mut of_rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_those_that_meet_all_conditions_or_come_nearest() {
        let why = Why {
            most: 2,
            ..Why::default()
        };
        let mut all = AllTried::new(&why);
        let unmet = |all: &mut AllTried<'_>, number: usize| {
            let id = all.for_test(Rule::Leak);
            let mut conditions = Conditions::new(true);
            for _ in 0..number {
                conditions.fact("is", "it is so", false);
            }
            all.of_id(Some(id)).expect("tried").conditions = conditions.into_checks();
            id
        };
        let leaks = [3, 1, 2, 1].map(|number| unmet(&mut all, number));
        let shown = [Outcome::SaidBetter(Rule::Leak, None), Outcome::Shown(4)];
        let peaks = shown.map(|outcome| {
            let id = all.for_test(Rule::Peak);
            all.end(Some(id), outcome);
            id
        });
        all.for_test(Rule::Spike);
        let failed = all.for_test(Rule::Spike);
        let found = all.for_test(Rule::Spike);
        all.end(Some(found), Outcome::Off);
        let best: Vec<TriedId> = all.best().iter().map(|tried| tried.id).collect();
        // The largest of equals, which is the last one; the finding before what is silent; and not what
        // failed beside what did not.
        assert_eq!(best, [leaks[3], leaks[1], found, peaks[1], peaks[0]]);
        assert!(failed < found);
    }
}
