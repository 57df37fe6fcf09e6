//! How a configuration was made from Cargo's tests.

use std::path::PathBuf;

/// How a [`Configuration`](crate::Configuration) was made from Cargo's tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CargoTests {
    /// The options with which cargo was called.
    pub arguments: Vec<String>,
    /// The configuration file that was named; `None` if it is the usual one, which need not
    /// exist.
    pub config: Option<PathBuf>,
    /// The names of all test programs of the workspace, chosen or not.
    pub names: Vec<String>,
}
