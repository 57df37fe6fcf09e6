//! The conditions of a rule about one candidate: what decides is also what explains.
//!
//! A rule asks for its conditions one after the other. Without an explanation the first one that is not
//! met ends the rule, which then returns `None` by `?`, and nothing is kept. With one the rule goes on
//! to its end, and each condition is kept with the measured number, its limit, and whether it is met.
//! In both cases [`Conditions::hold`] is the decision.

use std::cmp::Ordering;

use crate::finding::Value;

/// The limit of a measured number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// A floor.
    AtLeast(Value),
    /// A ceiling.
    AtMost(Value),
    /// A floor that is not enough itself.
    MoreThan(Value),
    /// A ceiling that is too much itself.
    LessThan(Value),
}

impl Limit {
    /// The number.
    pub fn value(self) -> Value {
        match self {
            Self::AtLeast(value)
            | Self::AtMost(value)
            | Self::MoreThan(value)
            | Self::LessThan(value) => value,
        }
    }

    /// Whether a number keeps the limit. A number that is none, or has another unit, does not.
    fn is_kept(self, measured: Value) -> bool {
        let order = measured.compared(self.value());
        order.is_some_and(|order| match self {
            Self::AtLeast(_) => order != Ordering::Less,
            Self::AtMost(_) => order != Ordering::Greater,
            Self::MoreThan(_) => order == Ordering::Greater,
            Self::LessThan(_) => order == Ordering::Less,
        })
    }
}

impl Value {
    /// The order of two numbers of the same unit.
    fn compared(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Count(a), Self::Count(b))
            | (Self::Bytes(a), Self::Bytes(b))
            | (Self::Nanoseconds(a), Self::Nanoseconds(b)) => Some(a.cmp(&b)),
            (Self::Share(a), Self::Share(b)) | (Self::Number(a), Self::Number(b)) => {
                a.partial_cmp(&b)
            }
            _ => None,
        }
    }
}

/// What a condition asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// A number that keeps a limit.
    Number {
        /// The number of this process.
        measured: Value,
        /// The limit of the rule.
        limit: Limit,
    },
    /// That what its words say is so.
    Fact,
    /// At least one of these.
    AnyOf(Vec<Check>),
    /// All of these.
    AllOf(Vec<Check>),
}

/// A condition that was evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Its name in JSON, in snake case.
    pub name: &'static str,
    /// What is measured, or what must be so.
    pub words: &'static str,
    /// Whether it is met.
    pub met: bool,
    /// What it asks for.
    pub ask: Ask,
}

/// How the conditions of a group are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Join {
    All,
    Any,
}

/// Conditions that are being evaluated.
#[derive(Debug)]
pub(crate) struct Conditions {
    join: Join,
    met: bool,
    /// The evaluated ones, if they are to be explained.
    checks: Option<Vec<Check>>,
}

impl Conditions {
    /// Conditions all of which must be met.
    pub(crate) fn new(is_explained: bool) -> Self {
        Self {
            join: Join::All,
            met: true,
            checks: is_explained.then(Vec::new),
        }
    }

    /// Conditions that cannot hold: they are only evaluated to explain them.
    pub(crate) fn in_vain() -> Self {
        Self {
            met: false,
            ..Self::new(true)
        }
    }

    /// Whether those that were evaluated decide in favour.
    pub(crate) fn hold(&self) -> bool {
        self.met
    }

    /// Those that were evaluated, in order; none if they are not to be explained.
    pub(crate) fn into_checks(self) -> Vec<Check> {
        self.checks.unwrap_or_default()
    }

    /// Adds a condition. `None` if the decision is known and nothing is to be explained.
    fn add(&mut self, met: bool, check: impl FnOnce() -> Check) -> Option<()> {
        let is_decided = match self.join {
            Join::All => {
                self.met &= met;
                !self.met
            }
            Join::Any => {
                self.met |= met;
                self.met
            }
        };
        match &mut self.checks {
            Some(checks) => {
                checks.push(check());
                Some(())
            }
            None => (!is_decided).then_some(()),
        }
    }

    fn number(
        &mut self,
        name: &'static str,
        words: &'static str,
        measured: Value,
        limit: Limit,
    ) -> Option<()> {
        let met = limit.is_kept(measured);
        self.add(met, || Check {
            name,
            words,
            met,
            ask: Ask::Number { measured, limit },
        })
    }

    /// A number is at least `least`.
    pub(crate) fn at_least(
        &mut self,
        name: &'static str,
        words: &'static str,
        measured: Value,
        least: Value,
    ) -> Option<()> {
        self.number(name, words, measured, Limit::AtLeast(least))
    }

    /// A number is at most `most`.
    pub(crate) fn at_most(
        &mut self,
        name: &'static str,
        words: &'static str,
        measured: Value,
        most: Value,
    ) -> Option<()> {
        self.number(name, words, measured, Limit::AtMost(most))
    }

    /// A number is more than `bound`.
    pub(crate) fn more_than(
        &mut self,
        name: &'static str,
        words: &'static str,
        measured: Value,
        bound: Value,
    ) -> Option<()> {
        self.number(name, words, measured, Limit::MoreThan(bound))
    }

    /// A number is less than `bound`.
    pub(crate) fn less_than(
        &mut self,
        name: &'static str,
        words: &'static str,
        measured: Value,
        bound: Value,
    ) -> Option<()> {
        self.number(name, words, measured, Limit::LessThan(bound))
    }

    /// What the words say is so.
    pub(crate) fn fact(
        &mut self,
        name: &'static str,
        words: &'static str,
        met: bool,
    ) -> Option<()> {
        self.add(met, || Check {
            name,
            words,
            met,
            ask: Ask::Fact,
        })
    }

    /// At least one of the conditions that `of` evaluates is met.
    pub(crate) fn any_of(
        &mut self,
        name: &'static str,
        words: &'static str,
        of: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.group(name, words, Join::Any, of)
    }

    /// All conditions that `of` evaluates are met: one of several alternatives.
    pub(crate) fn all_of(
        &mut self,
        name: &'static str,
        words: &'static str,
        of: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.group(name, words, Join::All, of)
    }

    /// At least one of several parts of the candidate meets all conditions that `of` evaluates. Returns
    /// what `of` makes of those that do. An explanation is about the part with the largest weight, and
    /// goes on with what `of` makes of it if there are no others.
    pub(crate) fn some_part<P, R>(
        &mut self,
        name: &'static str,
        words: &'static str,
        parts: impl IntoIterator<Item = P>,
        weight: impl Fn(&P) -> u64,
        of: impl Fn(&P, &mut Self) -> Option<R>,
    ) -> Option<Vec<R>> {
        let is_explained = self.checks.is_some();
        let mut found = Vec::new();
        // What the explanation is about: whether it is met and its weight, its checks, and what comes
        // nearest if none is met.
        let (mut most, mut checks, mut nearest) = (None, Vec::new(), None);
        for part in parts {
            let mut conditions = Self::new(is_explained);
            let made = of(&part, &mut conditions);
            let met = conditions.hold();
            let is_shown = is_explained && Some((met, weight(&part))) > most;
            if is_shown {
                most = Some((met, weight(&part)));
                checks = conditions.into_checks();
            }
            match met {
                true => found.extend(made),
                false if is_shown => nearest = made,
                false => {}
            }
        }
        let met = !found.is_empty();
        if !met {
            found.extend(nearest);
        }
        self.add(met, || Check {
            name,
            words,
            met,
            ask: Ask::AllOf(checks),
        })?;
        Some(found)
    }

    fn group(
        &mut self,
        name: &'static str,
        words: &'static str,
        join: Join,
        of: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let mut group = Self {
            join,
            met: join == Join::All,
            checks: self.checks.is_some().then(Vec::new),
        };
        // Without an explanation it ends as soon as it is decided.
        let _ = of(&mut group);
        let met = group.met;
        self.add(met, || {
            let checks = group.into_checks();
            let ask = match join {
                Join::All => Ask::AllOf(checks),
                Join::Any => Ask::AnyOf(checks),
            };
            Check {
                name,
                words,
                met,
                ask,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Value::{Bytes, Count, Share};

    /// A rule of three conditions, and how many of them it came past.
    fn rule(conditions: &mut Conditions, [a, b, c]: [u64; 3], passed: &mut u32) -> Option<()> {
        conditions.at_least("a", "first", Count(a), Count(10))?;
        *passed += 1;
        conditions.any_of("either", "one of two", |any| {
            any.at_least("b", "second", Count(b), Count(10))?;
            *passed += 1;
            any.less_than("c", "third", Count(c), Count(10))
        })?;
        *passed += 1;
        conditions.hold().then_some(())
    }

    #[test]
    fn the_first_condition_that_is_not_met_ends_a_rule() {
        let mut passed = 0;
        let mut conditions = Conditions::new(false);
        assert_eq!(rule(&mut conditions, [9, 10, 0], &mut passed), None);
        assert_eq!(passed, 0);
        assert!(!conditions.hold());
        assert_eq!(conditions.into_checks(), []);
    }

    #[test]
    fn the_first_alternative_that_is_met_ends_a_group() {
        let mut passed = 0;
        let mut conditions = Conditions::new(false);
        assert_eq!(rule(&mut conditions, [10, 10, 10], &mut passed), Some(()));
        assert_eq!(passed, 2, "not past the second, but past the group");
    }

    #[test]
    fn an_explanation_has_all_conditions_and_decides_the_same() {
        for a in [9, 10] {
            for b in [9, 10] {
                for c in [9, 10] {
                    let (mut passed, mut all) = (0, 0);
                    let decided = rule(&mut Conditions::new(false), [a, b, c], &mut passed);
                    let mut explained = Conditions::new(true);
                    assert_eq!(rule(&mut explained, [a, b, c], &mut all), decided);
                    assert_eq!(all, 3, "it goes on to its end");
                    let checks = explained.into_checks();
                    let met: Vec<bool> = checks.iter().map(|check| check.met).collect();
                    assert_eq!(met, [a >= 10, b >= 10 || c < 10]);
                    let Ask::AnyOf(of) = &checks[1].ask else {
                        panic!("{checks:?}");
                    };
                    let met: Vec<bool> = of.iter().map(|check| check.met).collect();
                    assert_eq!(met, [b >= 10, c < 10]);
                }
            }
        }
    }

    #[test]
    fn an_explanation_is_about_the_largest_part_that_is_met() {
        let parts = |conditions: &mut Conditions, least: u64| {
            conditions.some_part(
                "part",
                "of a part",
                [3, 5, 4],
                |part| *part,
                |part, all| {
                    all.at_most("few", "not too many", Count(*part), Count(4))?;
                    all.at_least("many", "enough", Count(*part), Count(least))?;
                    Some(*part)
                },
            )
        };
        for is_explained in [false, true] {
            let mut conditions = Conditions::new(is_explained);
            assert_eq!(parts(&mut conditions, 3), Some(vec![3, 4]));
            assert!(conditions.hold());
        }
        let mut conditions = Conditions::new(true);
        parts(&mut conditions, 3);
        let checks = conditions.into_checks();
        let Ask::AllOf(of) = &checks[0].ask else {
            panic!("{checks:?}");
        };
        let measured = Ask::Number {
            measured: Count(4),
            limit: Limit::AtMost(Count(4)),
        };
        assert_eq!(of[0].ask, measured);
        // If no part is met, the largest one of all.
        assert_eq!(parts(&mut Conditions::new(false), 5), None);
        let mut conditions = Conditions::new(true);
        assert_eq!(parts(&mut conditions, 5), Some(vec![5]));
        assert!(!conditions.hold());
    }

    #[test]
    fn what_is_evaluated_in_vain_does_not_hold() {
        let mut conditions = Conditions::in_vain();
        conditions.fact("is", "it is so", true);
        assert!(!conditions.hold());
        assert!(conditions.into_checks()[0].met);
    }

    #[test]
    fn limits_are_kept_by_numbers_of_their_unit() {
        assert!(Limit::AtLeast(Count(3)).is_kept(Count(3)));
        assert!(!Limit::MoreThan(Count(3)).is_kept(Count(3)));
        assert!(Limit::AtMost(Share(0.5)).is_kept(Share(0.5)));
        assert!(!Limit::LessThan(Share(0.5)).is_kept(Share(0.5)));
        assert!(!Limit::AtLeast(Count(3)).is_kept(Bytes(4)), "another unit");
        assert!(
            !Limit::AtMost(Share(1.0)).is_kept(Share(f64::NAN)),
            "no number"
        );
        // Two numbers that are the same as floating-point numbers.
        let most = u64::MAX;
        assert!(!Limit::AtLeast(Bytes(most)).is_kept(Bytes(most - 1)));
    }
}
