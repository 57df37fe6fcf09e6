//! Allocation budgets for tests: the library of `allotrope test` and `allotrope
//! compare`.
//!
//! A [`Configuration`] lists the tests and their programs. A [`Session`] runs them:
//! for each test a [`TestRunner`] runs the program under the recorder, compares its
//! allocations with the accepted numbers (the budget) and explains differences by
//! their call stacks. The [`outputs`] modules write the result.
//!
//! The command `allotrope record`, which this crate starts, records the programs;
//! `allotrope-profile` reads the recordings.
#![forbid(unsafe_code)]

pub mod acceptance;
pub mod allowance;
mod budget;
pub mod budgets;
pub mod cargo;
mod cargo_tests;
mod case;
pub mod case_run;
pub mod check;
pub mod comparison;
pub mod configuration;
mod definition;
mod explanation;
pub mod fluctuation;
mod git;
pub mod limit;
pub mod location;
pub mod measure;
pub mod nio_log;
pub mod notes;
pub mod outputs;
mod own_files;
pub mod paths;
mod problem;
pub mod program;
pub mod result;
mod revision_error;
pub mod revisions;
mod scratch;
pub mod session;
mod session_error;
pub mod shell;
pub mod spread;
pub mod starting;
pub mod test_runner;
pub mod tolerance;
pub mod toolchain;
pub mod windows;

pub use configuration::{Configuration, ConfigurationError};
pub use result::{Outcome, Report};
pub use session::Session;
pub use session_error::SessionError;
pub use test_runner::{BudgetSource, TestRunner};
