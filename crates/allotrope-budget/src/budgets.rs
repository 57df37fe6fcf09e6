//! The accepted numbers and stacks as files, in the folder `allotrope-budgets`
//! beside `allotrope.toml`:
//!
//! - `TEST.toml`: the numbers of a test, one per line (`file`);
//! - `TEST.stacks`, `TEST.PLATFORM.stacks`: the stacks of these numbers
//!   (`profile`);
//! - `made-with/FINGERPRINT.toml`: a toolchain that built programs (`toolchains`);
//! - `.gitattributes`: merges stacks without conflicts.
//!
//! All platforms share the numbers of a test, unless a platform has its own.

mod call_tree;
mod file;
pub mod history;
mod profile;
mod rename;
mod toolchains;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use allotrope_text::Shown;

use thiserror::Error;

use crate::spread::Spread;
use crate::toolchain::Toolchain;
use allotrope_profile::Metric;

pub use call_tree::CallTree;
pub use profile::{fold_like, profile};
pub(crate) use rename::renames;
pub use rename::{Rename, RenameError};

/// The folder's name.
pub const FOLDER: &str = "allotrope-budgets";

/// How git merges the files: of two versions of a call tree, it takes the lines of both,
/// as is right for stacks that two branches add. If both changed one number, the numbers
/// conflict, and accepting them writes the stacks again.
const ATTRIBUTES: &str = "\
# `allotrope test --accept` writes this file, if there is none.
*.stacks merge=union linguist-generated
";

/// Budgets that cannot be read or written.
#[derive(Debug, Error)]
pub enum BudgetError {
    /// A file cannot be read or written.
    #[error("cannot {verb} {}: {source}", file.shown())]
    Io {
        /// `read` or `write`.
        verb: &'static str,
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file in which git left a merge conflict.
    #[error("merge conflict in {}, line {line}", file.shown())]
    Conflict {
        /// The file.
        file: PathBuf,
        /// The line where it begins, from 1.
        line: usize,
    },
    /// An invalid file.
    #[error("{}:{line}: {problem}", file.shown())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
}

impl BudgetError {
    /// Whether accepting again repairs the file.
    pub fn is_of_contents(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}

/// The accepted numbers of a case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budget {
    /// Iterations in a run.
    pub iterations: Option<u64>,
    /// The numbers.
    pub numbers: BTreeMap<Metric, Number>,
}

/// An accepted number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// Its spread over the runs.
    pub spread: Spread,
    /// Why it was accepted, if somebody said so.
    pub because: Option<String>,
}

impl From<Spread> for Number {
    fn from(spread: Spread) -> Self {
        Self {
            spread,
            because: None,
        }
    }
}

impl Budget {
    /// The accepted spread of a metric.
    pub fn spread(&self, metric: Metric) -> Option<Spread> {
        self.numbers.get(&metric).map(|number| number.spread)
    }
}

/// The platforms to which budgets apply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BudgetScope {
    /// All platforms that have no budgets of their own.
    Shared,
    /// This platform only.
    Platform(String),
}

/// The accepted numbers of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budgets {
    /// The platforms to which they apply.
    pub scope: BudgetScope,
    /// The toolchain that built the program when the numbers were accepted.
    pub toolchain: Option<Toolchain>,
    /// The numbers, by case.
    pub cases: BTreeMap<String, Budget>,
}

/// The folder of budgets.
#[derive(Debug, Clone)]
pub struct BudgetFolder {
    path: PathBuf,
    /// The command that writes it, for the comments in its files.
    command: &'static str,
}

impl BudgetFolder {
    /// The folder beside a configuration. It need not exist.
    pub fn beside(folder: &Path) -> Self {
        Self::at(&folder.join(FOLDER))
    }

    /// The folder at a path. It need not exist.
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            command: "allotrope test",
        }
    }

    /// The folder in this folder for the tests of `cargo allotrope test`.
    #[must_use]
    pub fn of_cargo(&self) -> Self {
        Self {
            path: self.path.join("cargo"),
            command: "cargo allotrope test --",
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The budgets of a test on a platform; `None` if there are none.
    ///
    /// # Errors
    /// A file that cannot be read or is invalid.
    pub fn read(&self, test: &str, platform: &str) -> Result<Option<Budgets>, BudgetError> {
        let Some(mut numbers) = self.numbers(test)? else {
            return Ok(None);
        };
        let own = numbers.platforms.remove(platform);
        let scope = match own {
            Some(_) => BudgetScope::Platform(platform.to_owned()),
            None => BudgetScope::Shared,
        };
        let Some(section) = own.or(numbers.shared) else {
            return Ok(None);
        };
        let toolchain = self.toolchain(&section.toolchain);
        Ok(Some(Budgets {
            scope,
            // Without it, only what has changed since is not known.
            toolchain: toolchain.ok().flatten(),
            cases: section.cases,
        }))
    }

    /// The call trees of the accepted stacks of a test, by case.
    ///
    /// # Errors
    /// A file that cannot be read or is invalid.
    pub fn profiles(
        &self,
        test: &str,
        scope: &BudgetScope,
    ) -> Result<BTreeMap<String, CallTree>, BudgetError> {
        let file = self.stacks_file(test, scope);
        let text = read(&file)?;
        text.map_or_else(|| Ok(BTreeMap::new()), |text| profile::parse(&text, &file))
    }

    /// Writes the budgets of a test and their stacks. Returns the files that
    /// changed.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn write(
        &self,
        test: &str,
        budgets: &Budgets,
        profiles: &BTreeMap<String, CallTree>,
    ) -> Result<Vec<PathBuf>, BudgetError> {
        let made_with = self.path.join(toolchains::FOLDER);
        fs::create_dir_all(&made_with).map_err(cannot("write", &made_with))?;
        let file = self.numbers_file(test);
        let toolchain = budgets.toolchain.clone().unwrap_or_default();
        let fingerprint = toolchain.fingerprint();
        let section = file::Section {
            toolchain: fingerprint.clone(),
            cases: budgets.cases.clone(),
        };
        let header = format!(
            "# What the test {test} may allocate. `{} --accept {test}` writes this file.\n",
            self.command
        );
        let text = file::edited(read(&file)?.as_deref(), &header, &budgets.scope, &section);
        let stacks = profile::text(profiles);
        let mut changed = Vec::new();
        changed.extend(write(&file, &text)?);
        changed.extend(write(&self.stacks_file(test, &budgets.scope), &stacks)?);
        let text = toolchains::text(&fingerprint, &toolchain);
        changed.extend(write(&self.toolchain_file(&fingerprint), &text)?);
        let attributes = self.path.join(".gitattributes");
        if !attributes.exists() {
            changed.extend(write(&attributes, ATTRIBUTES)?);
        }
        self.tidy_toolchains()?;
        Ok(changed)
    }

    /// Removes the toolchains to which no budget refers, and moves those of older versions
    /// to files of their own. Does nothing if a budget cannot be read.
    fn tidy_toolchains(&self) -> Result<(), BudgetError> {
        let Ok(used) = self.used_toolchains() else {
            return Ok(());
        };
        let file = self.path.join(toolchains::FILE);
        if let Some(text) = read(&file)? {
            if let Ok(known) = toolchains::Toolchains::parse(&text, &file) {
                for (fingerprint, text) in known.texts() {
                    write(&self.toolchain_file(fingerprint), &text)?;
                }
            }
            fs::remove_file(&file).map_err(cannot("remove", &file))?;
        }
        for file in files(&self.path.join(toolchains::FOLDER))? {
            let fingerprint = file.file_stem().unwrap_or_default().to_string_lossy();
            if !used.contains(&*fingerprint) {
                fs::remove_file(&file).map_err(cannot("remove", &file))?;
            }
        }
        Ok(())
    }

    /// Removes the files whose test is not in `tests`, and the toolchains to which no
    /// budget refers. Returns the files.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn prune(&self, tests: &BTreeSet<String>) -> Result<Vec<PathBuf>, BudgetError> {
        let files = self.orphaned_files(tests)?;
        for file in &files {
            fs::remove_file(file).map_err(cannot("remove", file))?;
        }
        self.tidy_toolchains()?;
        Ok(files)
    }

    /// The files whose test is not in `tests`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn orphaned_files(&self, tests: &BTreeSet<String>) -> Result<Vec<PathBuf>, BudgetError> {
        let mut others: Vec<PathBuf> = files(&self.path)?;
        others.retain(|file| {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let stem = name
                .strip_suffix(".toml")
                .or_else(|| name.strip_suffix(".stacks"));
            // The stacks of a platform are in TEST.PLATFORM.stacks, and test
            // names may contain dots.
            stem.is_some_and(|stem| {
                let of = |test: &String| {
                    stem.strip_prefix(test.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                name != toolchains::FILE && !tests.iter().any(of)
            })
        });
        others.sort();
        Ok(others)
    }

    fn numbers(&self, test: &str) -> Result<Option<file::Numbers>, BudgetError> {
        let file = self.numbers_file(test);
        let text = read(&file)?;
        text.map(|text| file::Numbers::parse(&text, &file))
            .transpose()
    }

    /// The toolchain with this fingerprint.
    fn toolchain(&self, fingerprint: &str) -> Result<Option<Toolchain>, BudgetError> {
        if !fingerprint.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Ok(None);
        }
        for file in [
            self.toolchain_file(fingerprint),
            self.path.join(toolchains::FILE),
        ] {
            if let Some(text) = read(&file)? {
                let known = toolchains::Toolchains::parse(&text, &file)?;
                if let Some(toolchain) = known.get(fingerprint) {
                    return Ok(Some(toolchain));
                }
            }
        }
        Ok(None)
    }

    /// The fingerprints that budgets refer to.
    fn used_toolchains(&self) -> Result<BTreeSet<String>, BudgetError> {
        let mut used = BTreeSet::new();
        for file in files(&self.path)? {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if let Some(test) = name.strip_suffix(".toml")
                && name != toolchains::FILE
                && let Some(numbers) = self.numbers(test)?
            {
                let sections = numbers.shared.iter().chain(numbers.platforms.values());
                used.extend(sections.map(|section| section.toolchain.clone()));
            }
        }
        Ok(used)
    }

    fn numbers_file(&self, test: &str) -> PathBuf {
        self.path.join(format!("{test}.toml"))
    }

    fn stacks_file(&self, test: &str, scope: &BudgetScope) -> PathBuf {
        self.path.join(match scope {
            BudgetScope::Shared => format!("{test}.stacks"),
            BudgetScope::Platform(platform) => format!("{test}.{platform}.stacks"),
        })
    }

    fn toolchain_file(&self, fingerprint: &str) -> PathBuf {
        let name = format!("{fingerprint}.toml");
        self.path.join(toolchains::FOLDER).join(name)
    }
}

/// The files in a folder; none if it does not exist.
fn files(folder: &Path) -> Result<Vec<PathBuf>, BudgetError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot("read", folder)(error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths
        .collect::<io::Result<_>>()
        .map_err(cannot("read", folder))
}

fn cannot(verb: &'static str, file: &Path) -> impl FnOnce(io::Error) -> BudgetError + use<> {
    let file = file.to_owned();
    move |source| BudgetError::Io { verb, file, source }
}

/// Checks that a text has no merge conflict.
fn check_merged(text: &str, file: &Path) -> Result<(), BudgetError> {
    let mut lines = text.lines();
    match lines.position(|line| line.starts_with("<<<<<<< ")) {
        Some(index) => Err(BudgetError::Conflict {
            file: file.to_owned(),
            line: index + 1,
        }),
        None => Ok(()),
    }
}

/// The text of a file; `None` if it does not exist.
fn read(file: &Path) -> Result<Option<String>, BudgetError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read", file)(error)),
    }
}

/// Writes a file, unless it has that text already. Returns the path if it
/// changed.
fn write(file: &Path, text: &str) -> Result<Option<PathBuf>, BudgetError> {
    if fs::read(file).is_ok_and(|before| before == text.as_bytes()) {
        return Ok(None);
    }
    allotrope_files::write(file, text).map_err(cannot("write", file))?;
    Ok(Some(file.to_owned()))
}

#[cfg(test)]
mod tests;
