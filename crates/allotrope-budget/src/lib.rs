//! Allocation budgets for tests.
//!
//! A [`Configuration`] says which programs are tests; a [`TestRunner`] runs them with
//! the recorder preloaded, compares what they allocate with the numbers that
//! were accepted before, and explains what is different by its call stacks; an
//! [`outputs`] module shows it.
//!
//! Not here: recording (the command `allotrope record` does it), the model of a
//! recording (`allotrope-profile`), the command line.
#![forbid(unsafe_code)]

pub mod acceptance;
pub mod budgets;
pub mod check;
pub mod comparison;
pub mod configuration;
pub mod fluctuation;
pub mod measure;
pub mod metric;
pub mod nio_log;
pub mod outputs;
pub mod paths;
pub mod program;
pub mod result;
pub mod revisions;
pub mod sample;
pub mod session;
pub mod shell;
pub mod test_runner;
pub mod tolerance;
pub mod toolchain;
pub mod windows;

pub use configuration::{Configuration, ConfigurationError};
pub use result::{Outcome, Report};
pub use session::{Session, SessionError};
pub use test_runner::{BudgetSource, TestRunner};
