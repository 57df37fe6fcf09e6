//! The contents of `allotrope.toml`: the build command, the tests and what they
//! may allocate. The modules below `configuration/` read and check the file.

mod document;
mod read;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use allotrope_files::read_stored_text;
use allotrope_text::Shown;

use thiserror::Error;

use crate::allowance::Allowance;
use crate::budgets::{BudgetFolder, FOLDER};
use crate::cargo_tests::CargoTests;
use crate::paths::Project;
use crate::tolerance::Tolerance;
use allotrope_attribution::{Glue, Suppressions};
use allotrope_profile::Metric;

/// The file's usual name.
pub const FILE_NAME: &str = "allotrope.toml";

/// The most bytes of the file, and of each list that it names: a repository from elsewhere may
/// have any file there.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

/// A starting file, with every key explained.
pub const STARTING_FILE: &str = include_str!("configuration/starting.toml");

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error(
        "{}; `allotrope test --init` writes one to start from",
        unreadable(file, error)
    )]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause, which is part of the sentence.
        error: std::io::Error,
    },
    /// The file is no valid TOML, or has an invalid value.
    #[error("{}:{line}: {}{problem}", file.shown(), prefix(key))]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The full name of the key, like `tests.encode.runs`; empty if no key
        /// is at fault.
        key: String,
        /// The problem and its remedy.
        problem: String,
    },
}

fn unreadable(file: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no {}", file.shown()),
        _ => format!("cannot read {}: {error}", file.shown()),
    }
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
    /// The file.
    pub file: PathBuf,
    /// The folder of the file; paths are relative to it.
    pub folder: PathBuf,
    /// The build command, run once before the tests.
    pub build: Option<Vec<String>>,
    /// The time limit of the build.
    pub build_timeout: Duration,
    /// The folder of the budgets; `None` if it is beside the file.
    pub budget_folder: Option<PathBuf>,
    /// The name of the platform, with the placeholders `{arch}`, `{os}` and
    /// `{libc}`.
    pub platform: String,
    /// Files with the versions of dependencies, relative to the folder.
    pub dependencies: Vec<PathBuf>,
    /// The largest number of stacks that the accepted profile of a case keeps.
    pub profile_stacks: usize,
    /// The tests, in the file's order.
    pub tests: Vec<Test>,
    /// How tests are run and checked that say nothing else.
    pub defaults: Protocol,
    /// How tests of Cargo are run and checked, by name. They have no command.
    pub cargo_tests: BTreeMap<String, Test>,
    /// Set if the tests are Cargo's and not those of a file.
    pub cargo: Option<CargoTests>,
}

/// A test: a program and what it may allocate.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// The name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment variables that are set for it.
    pub environment: BTreeMap<String, String>,
    /// Working directory of the program.
    pub folder: PathBuf,
    /// The file that is its standard input; nothing can be read if there is none.
    pub stdin: Option<PathBuf>,
    /// How it is run and checked.
    pub protocol: Protocol,
    /// Overrides for platforms, by name.
    pub platforms: BTreeMap<String, ProtocolOverrides>,
}

/// How a test is run and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Protocol {
    /// Measured runs.
    pub runs: u32,
    /// Runs before the measured ones, whose results are discarded.
    pub warmup: u32,
    /// Iterations in a run, if the program does not report them.
    pub iterations: Option<u64>,
    /// The metrics that are checked.
    pub gate: Vec<Metric>,
    /// How far each may be from its budget.
    pub tolerance: BTreeMap<Metric, Tolerance>,
    /// The largest number of each that is allowed, whatever was accepted.
    pub limit: BTreeMap<Metric, i64>,
    /// Metrics that are stored and whose changes are mentioned, even if they are not checked.
    pub watch: Vec<Metric>,
    /// Additional allocations of some stacks that are allowed.
    pub allow: Vec<Allowance>,
    /// Overrides for windows, by name.
    pub windows: BTreeMap<String, ProtocolOverrides>,
    /// The least number of all runs is compared, as SwiftNIO's scripts do.
    pub least_counts: bool,
    /// The time limit of one run.
    pub timeout: Duration,
    /// What becomes of processes that the program leaves behind.
    pub left_behind: LeftBehind,
    /// Count without recording stacks.
    pub counts_only: bool,
    /// The frames that are not the user's own.
    pub glue: Glue,
    /// The leaks that are expected; they are marked in explanations, and counted.
    pub suppressions: Suppressions,
}

impl Default for Protocol {
    fn default() -> Self {
        Self {
            runs: 10,
            warmup: 1,
            iterations: None,
            gate: vec![Metric::Allocations, Metric::Remaining],
            tolerance: BTreeMap::new(),
            limit: BTreeMap::new(),
            watch: vec![Metric::Bytes],
            allow: Vec::new(),
            windows: BTreeMap::new(),
            least_counts: false,
            timeout: Duration::from_secs(600),
            left_behind: LeftBehind::End,
            counts_only: false,
            glue: Glue::default(),
            suppressions: Suppressions::default(),
        }
    }
}

/// Values that replace those of a [`Protocol`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProtocolOverrides {
    runs: Option<u32>,
    warmup: Option<u32>,
    iterations: Option<u64>,
    gate: Option<Vec<Metric>>,
    tolerance: Option<BTreeMap<Metric, Tolerance>>,
    limit: Option<BTreeMap<Metric, i64>>,
    watch: Option<Vec<Metric>>,
    timeout: Option<Duration>,
    left_behind: Option<LeftBehind>,
    counts_only: Option<bool>,
}

/// What becomes of recorded processes that run on after the end of a test's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftBehind {
    /// They are ended.
    End,
    /// They run on.
    Leave,
}

impl LeftBehind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::End, Self::Leave];

    /// Returns the name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Leave => "leave",
        }
    }
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
        set(self.watch.as_ref(), &mut to.watch);
        set(self.timeout.as_ref(), &mut to.timeout);
        set(self.left_behind.as_ref(), &mut to.left_behind);
        set(self.counts_only.as_ref(), &mut to.counts_only);
        to.tolerance.extend(self.tolerance.iter().flatten());
        to.limit.extend(self.limit.iter().flatten());
        if self.iterations.is_some() {
            to.iterations = self.iterations;
        }
    }
}

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// A file that cannot be read or is invalid.
    pub fn read(file: &Path) -> Result<Self, ConfigurationError> {
        Self::parse(&Self::text_of(file)?, file)
    }

    /// The text of a configuration file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn text_of(file: &Path) -> Result<String, ConfigurationError> {
        read_stored_text(file, MAX_BYTES).map_err(|error| {
            let file = file.to_owned();
            ConfigurationError::Unreadable { file, error }
        })
    }

    /// Parses a configuration for tests that Cargo lists. It need not have tests.
    ///
    /// # Errors
    /// Invalid text.
    pub fn parse_for_cargo(text: &str, file: &Path) -> Result<Self, ConfigurationError> {
        read::configuration(text, file, false)
    }

    /// The tests to which budgets beside this configuration may belong: its own, and those
    /// of the other configurations in the same folder.
    ///
    /// # Errors
    /// The folder or a file of it cannot be read, or a file is no TOML: it may be a
    /// configuration.
    pub fn tests_of_folder(&self) -> Result<BTreeSet<String>, ConfigurationError> {
        let mut names: BTreeSet<String> = self.tests.iter().map(|test| test.name.clone()).collect();
        if let Some(cargo) = &self.cargo {
            // Their budgets are in a folder of their own.
            names.extend(cargo.names.iter().cloned());
            return Ok(names);
        }
        let unreadable = |file: &Path| {
            let file = file.to_owned();
            |error| ConfigurationError::Unreadable { file, error }
        };
        let entries = std::fs::read_dir(&self.folder).map_err(unreadable(&self.folder))?;
        for entry in entries {
            let file = entry.map_err(unreadable(&self.folder))?.path();
            if file.extension().is_some_and(|it| it == "toml") && file.is_file() {
                let text = Self::text_of(&file)?;
                names.extend(read::names_of_tests(&text, &file)?);
            }
        }
        Ok(names)
    }

    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// Invalid text.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigurationError> {
        read::configuration(text, file, true)
    }

    /// The words of the command that runs these tests, up to the names of tests. The file is
    /// relative to `root` if it is below it.
    pub fn command(&self, root: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["allotrope".into(), "test".into()];
        let mut named = (self.file != Path::new(FILE_NAME)).then_some(&self.file);
        if let Some(cargo) = &self.cargo {
            words.insert(0, "cargo".into());
            words.extend(cargo.arguments.iter().map(OsString::from));
            words.push("--".into());
            named = cargo.config.as_ref();
        }
        if let Some(file) = named {
            words.push("--config".into());
            let file = file.canonicalize().unwrap_or_else(|_| file.clone());
            words.push(file.strip_prefix(root).unwrap_or(&file).into());
        }
        words
    }

    /// The folder of the budgets. Those of Cargo's tests are in a folder of their own, so
    /// that those of the file's tests are not taken for budgets of no test.
    pub fn budgets(&self) -> BudgetFolder {
        let beside = || Cow::Owned(self.folder.join(FOLDER));
        let path = self
            .budget_folder
            .as_ref()
            .map_or_else(beside, Cow::Borrowed);
        let folder = BudgetFolder::named_by(&self.folder, &path);
        match &self.cargo {
            Some(_) => folder.of_cargo(),
            None => folder,
        }
    }

    /// The repository of the configuration.
    pub fn repository(&self) -> Project {
        Project::containing(&self.folder)
    }

    /// The project of the tests. Its sources are beside the budgets, while a configuration
    /// that a build system writes may be in a build folder elsewhere.
    pub fn project(&self) -> Project {
        let beside = self.budget_folder.as_ref();
        let folder = beside.and_then(|budgets| budgets.parent());
        Project::containing(folder.unwrap_or(&self.folder))
    }
}

impl Test {
    /// The protocol on a platform.
    pub fn protocol_on(&self, platform: &str) -> Protocol {
        let mut protocol = self.protocol.clone();
        if let Some(changes) = self.platforms.get(platform) {
            changes.apply(&mut protocol);
        }
        protocol
    }
}

impl Protocol {
    /// The tolerance of a metric; exact if none is configured.
    pub fn tolerance_of(&self, metric: Metric) -> Tolerance {
        self.tolerance.get(&metric).copied().unwrap_or_default()
    }

    /// The protocol of a case of a test: that of the test with the overrides of its window.
    pub fn of_case(&self, test: &str, case: &str) -> Cow<'_, Self> {
        let Some(changes) = self.windows.get(window_of(test, case)) else {
            return Cow::Borrowed(self);
        };
        let mut protocol = self.clone();
        changes.apply(&mut protocol);
        Cow::Owned(protocol)
    }

    /// Whether a case may have to know which file descriptors a window left open.
    pub fn needs_descriptors(&self) -> bool {
        let has = |gate: &[Metric], limit: &BTreeMap<Metric, i64>| {
            gate.contains(&Metric::LeakedFds) || limit.contains_key(&Metric::LeakedFds)
        };
        let none = BTreeMap::new();
        let of_window = |changes: &ProtocolOverrides| {
            let gate = changes.gate.as_deref().unwrap_or_default();
            has(gate, changes.limit.as_ref().unwrap_or(&none))
        };
        has(&self.gate, &self.limit) || self.windows.values().any(of_window)
    }

    /// Replaces the checked metrics, those of windows included.
    pub fn set_gate(&mut self, gate: Vec<Metric>) {
        self.gate = gate;
        for changes in self.windows.values_mut() {
            changes.gate = None;
        }
    }

    /// Removes what is no comparison with accepted numbers: the limits.
    pub fn remove_limits(&mut self) {
        self.limit.clear();
        for changes in self.windows.values_mut() {
            changes.limit = None;
        }
    }
}

/// The name of the window of a case: what follows the test's name, or the test's name.
pub fn window_of<'a>(test: &str, case: &'a str) -> &'a str {
    let window = case.strip_prefix(test);
    let window = window.and_then(|rest| rest.strip_prefix('/'));
    window.unwrap_or(case)
}
