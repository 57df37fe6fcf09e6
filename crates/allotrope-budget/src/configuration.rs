//! What `allotrope.toml` says: how to build, which tests there are, what they
//! may allocate. Reading and checking the file are in `configuration/`; what a
//! test did is not here.

mod document;
mod read;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use allotrope_text::Shown;

use thiserror::Error;

use crate::tolerance::Tolerance;
use allotrope_profile::Metric;

/// The file's usual name.
pub const FILE_NAME: &str = "allotrope.toml";

/// A starting file, with every key explained.
pub const STARTING_FILE: &str = include_str!("configuration/starting.toml");

/// Why a configuration can not be used.
#[derive(Debug, Error)]
pub enum ConfigurationError {
    /// The file can not be read.
    #[error("cannot read {}: {source}; `allotrope test --init` writes a starting file", file.shown())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or says what can not be.
    #[error("{}:{line}: {}{problem}", file.shown(), prefix(key))]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key with the tables it is in, `tests.encode.runs`; empty where
        /// none is at fault.
        key: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

fn prefix(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("{key}: ")
    }
}

/// A configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The file it was read from.
    pub file: PathBuf,
    /// The folder that paths in it are relative to.
    pub folder: PathBuf,
    /// Words of the command that is run once before the tests.
    pub build: Option<Vec<String>>,
    /// How long the build may take.
    pub build_timeout: Duration,
    /// What budgets are kept apart by, with `{arch}`, `{os}` and `{libc}`
    /// still in it.
    pub platform: String,
    /// Files, relative to the folder, that name the versions of dependencies.
    pub dependencies: Vec<PathBuf>,
    /// Most stacks that the accepted profile of a case keeps.
    pub profile_stacks: usize,
    /// The tests, in the file's order.
    pub tests: Vec<Test>,
}

/// A test: a program and what it may allocate.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables that are set for it.
    pub environment: BTreeMap<String, String>,
    /// Where it runs.
    pub folder: PathBuf,
    /// How it is run and judged.
    pub protocol: Protocol,
    /// What is different on platforms of these names.
    pub platforms: BTreeMap<String, ProtocolOverrides>,
}

/// How a test is run and judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Protocol {
    /// Measured runs.
    pub runs: u32,
    /// Runs before them that do not count.
    pub warmup: u32,
    /// Iterations a run, where the program does not say.
    pub iterations: Option<u64>,
    /// What is compared with the budgets.
    pub gate: Vec<Metric>,
    /// How far from them it may be.
    pub tolerance: BTreeMap<Metric, Tolerance>,
    /// How long one start of the program may take.
    pub timeout: Duration,
    /// Without stacks.
    pub counts_only: bool,
}

impl Default for Protocol {
    fn default() -> Self {
        Self {
            runs: 10,
            warmup: 1,
            iterations: None,
            gate: vec![Metric::Allocations, Metric::Remaining],
            tolerance: BTreeMap::new(),
            timeout: Duration::from_secs(600),
            counts_only: false,
        }
    }
}

/// What is different from a [`Protocol`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProtocolOverrides {
    runs: Option<u32>,
    warmup: Option<u32>,
    iterations: Option<u64>,
    gate: Option<Vec<Metric>>,
    tolerance: Option<BTreeMap<Metric, Tolerance>>,
    timeout: Option<Duration>,
    counts_only: Option<bool>,
}

impl ProtocolOverrides {
    fn apply(&self, to: &mut Protocol) {
        fn set<T: Clone>(change: Option<&T>, field: &mut T) {
            if let Some(change) = change {
                *field = change.clone();
            }
        }
        set(self.runs.as_ref(), &mut to.runs);
        set(self.warmup.as_ref(), &mut to.warmup);
        set(self.gate.as_ref(), &mut to.gate);
        set(self.timeout.as_ref(), &mut to.timeout);
        set(self.counts_only.as_ref(), &mut to.counts_only);
        to.tolerance.extend(self.tolerance.iter().flatten());
        if self.iterations.is_some() {
            to.iterations = self.iterations;
        }
    }
}

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// A file that can not be read or says what can not be.
    pub fn read(file: &Path) -> Result<Self, ConfigurationError> {
        let text = std::fs::read_to_string(file).map_err(|source| {
            let file = file.to_owned();
            ConfigurationError::Unreadable { file, source }
        })?;
        Self::parse(&text, file)
    }

    /// Makes a configuration of a file's text.
    ///
    /// # Errors
    /// A text that says what can not be.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigurationError> {
        read::configuration(text, file)
    }
}

impl Test {
    /// How it is run and judged on a platform.
    pub fn protocol_on(&self, platform: &str) -> Protocol {
        let mut protocol = self.protocol.clone();
        if let Some(changes) = self.platforms.get(platform) {
            changes.apply(&mut protocol);
        }
        protocol
    }
}

impl Protocol {
    /// How far a metric may be from its budget.
    pub fn tolerance_of(&self, metric: Metric) -> Tolerance {
        self.tolerance.get(&metric).copied().unwrap_or_default()
    }
}
