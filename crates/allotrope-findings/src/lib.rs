//! What stands out in a profile: queues, growth, leaks and other findings, best first.
//!
//! A finding is what one of the [`Rule`]s found in one process. It has the numbers and
//! the thresholds of the rule, so that whoever reads it can judge it.

mod finding;

pub use finding::{Finding, Number, Rule, Severity, Value};
