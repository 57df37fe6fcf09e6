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
//!
//! A repository may be from elsewhere: links in it are not followed (`folder`), and what is
//! removed must be ours.

mod call_tree;
mod file;
mod folder;
pub mod history;
mod profile;
mod rename;
mod toolchains;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use allotrope_files::Folder;
use allotrope_text::Shown;

use thiserror::Error;

pub use crate::budget::{Budget, Number};
use crate::location;
use crate::paths::Project;
use crate::toolchain::Toolchain;

use folder::{IsOurs, OpenFolder, cannot};

pub use call_tree::CallTree;
pub use profile::{fold_like, profile};
pub use rename::RenameError;
pub(crate) use rename::renames;

/// The folder's name.
pub const FOLDER: &str = "allotrope-budgets";

/// The name of the file with git's attributes.
const ATTRIBUTES_NAME: &str = ".gitattributes";

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
    /// A link, or something else that is no file or folder, is in the way.
    #[error("cannot {verb} {}: {why}", file.shown())]
    InTheWay {
        /// `read`, `write` or `remove`.
        verb: &'static str,
        /// The file or folder.
        file: PathBuf,
        /// What is in the way.
        why: io::Error,
    },
    /// The folder is outside of the configuration's repository.
    #[error(
        "the folder of budgets, {}, is outside of the repository {}; name one inside as `budgets`",
        folder.shown(),
        repository.shown()
    )]
    Outside {
        /// The folder of budgets.
        folder: PathBuf,
        /// The repository.
        repository: PathBuf,
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
        matches!(self, Self::Conflict { .. } | Self::Invalid { .. })
    }

    /// Whether the system has failed, and not the project.
    pub fn is_of_system(&self) -> bool {
        matches!(self, Self::Io { .. })
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
    /// The repository, whose path has no links.
    root: PathBuf,
    /// The path in the repository; `None` if it is outside, where nothing is read or written.
    inside: Option<PathBuf>,
    /// The command that writes it, for the comments in its files.
    command: &'static str,
}

/// What [`BudgetFolder::prune`] has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    /// The files that were removed.
    pub removed: Vec<PathBuf>,
    /// The files that were not, although no test has their name, with the reason.
    pub left: Vec<(PathBuf, String)>,
}

impl BudgetFolder {
    /// The folder beside a configuration. It need not exist.
    pub fn beside(folder: &Path) -> Self {
        Self::at(&folder.join(FOLDER))
    }

    /// The folder at a path. It need not exist.
    pub fn at(path: &Path) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut above = absolute.ancestors().skip(1);
        let existing = above.find(|above| above.is_dir());
        let existing = existing.unwrap_or(Path::new("/"));
        let below = absolute.strip_prefix(existing).unwrap_or(&absolute);
        let project = Project::containing(existing);
        let existing = existing.canonicalize();
        let inside = existing.ok().and_then(|existing| {
            let inside = existing.strip_prefix(project.root()).ok()?;
            Some(inside.join(below))
        });
        Self::new(path, project.root(), inside)
    }

    /// The folder that a configuration in the folder `of` names. If that is in a repository, so
    /// must the budgets be: the configuration may be from elsewhere. Outside of a repository, a
    /// build system may have written it.
    pub fn named_by(of: &Path, path: &Path) -> Self {
        let real = of.canonicalize().unwrap_or_else(|_| of.to_owned());
        let named = path.strip_prefix(of).unwrap_or(path);
        let named = real.join(named);
        let project = Project::containing(&real);
        let inside = location::relative(project.root(), &named);
        if inside.is_none() && !project.root().join(".git").exists() {
            return Self::at(path);
        }
        Self::new(path, project.root(), inside)
    }

    fn new(path: &Path, root: &Path, inside: Option<PathBuf>) -> Self {
        Self {
            path: path.to_owned(),
            root: root.to_owned(),
            inside,
            command: "allotrope test",
        }
    }

    /// The folder in this folder for the tests of `cargo allotrope test`.
    #[must_use]
    pub fn of_cargo(&self) -> Self {
        Self {
            path: self.path.join("cargo"),
            root: self.root.clone(),
            inside: self.inside.as_ref().map(|inside| inside.join("cargo")),
            command: "cargo allotrope test --",
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open folder; `None` if it does not exist.
    fn open(&self) -> Result<Option<OpenFolder>, BudgetError> {
        let inside = self.inside()?;
        let root = match Folder::open(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            root => root.map_err(cannot("read", &self.root))?,
        };
        let folder = root.folder(inside).map_err(cannot("read", &self.path))?;
        Ok(folder.map(|folder| OpenFolder::new(folder, &self.path)))
    }

    /// The open folder, which is created if it does not exist.
    fn create(&self) -> Result<OpenFolder, BudgetError> {
        let inside = self.inside()?;
        let root = Folder::open(&self.root).map_err(cannot("read", &self.root))?;
        let folder = root.create_folder(inside);
        let folder = folder.map_err(cannot("write", &self.path))?;
        Ok(OpenFolder::new(folder, &self.path))
    }

    fn inside(&self) -> Result<&Path, BudgetError> {
        self.inside.as_deref().ok_or_else(|| BudgetError::Outside {
            folder: self.path.clone(),
            repository: self.root.clone(),
        })
    }

    /// The text of a file of the folder; `None` if there is none.
    fn text(&self, name: &str) -> Result<Option<String>, BudgetError> {
        let folder = self.open()?;
        folder.map_or(Ok(None), |folder| folder.read(name))
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
        let name = stacks_name(test, scope);
        let text = self.text(&name)?;
        let file = self.path.join(name);
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
        let folder = self.create()?;
        let made_with = folder.created_subfolder(toolchains::FOLDER)?;
        let toolchain = budgets.toolchain.clone().unwrap_or_default();
        let fingerprint = toolchain.fingerprint();
        let [numbers, stacks] = [numbers_name(test), stacks_name(test, &budgets.scope)];
        let toolchain_name = toolchain_name(&fingerprint);
        // Before anything is written.
        folder.check_writable(&numbers)?;
        folder.check_writable(&stacks)?;
        made_with.check_writable(&toolchain_name)?;
        let section = file::Section {
            toolchain: fingerprint.clone(),
            cases: budgets.cases.clone(),
        };
        let header = format!(
            "# What the test {test} may allocate. `{} --accept {test}` writes this file.\n",
            self.command
        );
        let before = folder.read(&numbers)?;
        let text = file::edited(before.as_deref(), &header, &budgets.scope, &section);
        let mut changed = Vec::new();
        changed.extend(folder.write(&numbers, &text)?);
        changed.extend(folder.write(&stacks, &profile::text(profiles))?);
        let text = toolchains::text(&fingerprint, &toolchain);
        changed.extend(made_with.write(&toolchain_name, &text)?);
        if !folder.has(ATTRIBUTES_NAME)? {
            changed.extend(folder.write(ATTRIBUTES_NAME, ATTRIBUTES)?);
        }
        self.tidy_toolchains(&folder, Some(made_with))?;
        Ok(changed)
    }

    /// Removes the toolchains to which no budget refers, and moves those of older versions
    /// to files of their own. Does nothing if a budget cannot be read.
    fn tidy_toolchains(
        &self,
        folder: &OpenFolder,
        made_with: Option<OpenFolder>,
    ) -> Result<(), BudgetError> {
        let Ok(used) = self.used_toolchains(folder) else {
            return Ok(());
        };
        let old = toolchains::FILE;
        if folder.why_not_ours(old, toolchains::is_ours).is_none() {
            let text = folder.read(old)?.unwrap_or_default();
            if let Ok(known) = toolchains::Toolchains::parse(&text, &folder.file(old)) {
                let made_with = folder.created_subfolder(toolchains::FOLDER)?;
                let known = known.texts();
                for (fingerprint, text) in known.filter(|(name, _)| is_fingerprint(name)) {
                    made_with.write(&toolchain_name(fingerprint), &text)?;
                }
            }
            folder.remove(old)?;
        }
        let Some(made_with) = made_with else {
            return Ok(());
        };
        for name in made_with.names()? {
            let fingerprint = name.strip_suffix(".toml");
            let is_unused = fingerprint.is_some_and(|it| is_fingerprint(it) && !used.contains(it));
            if is_unused && made_with.why_not_ours(&name, toolchains::is_ours).is_none() {
                made_with.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Removes the budgets whose test is not in `tests`, and the toolchains to which no budget
    /// refers. Files that are no budgets are left.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn prune(&self, tests: &BTreeSet<String>) -> Result<Pruned, BudgetError> {
        let mut pruned = Pruned::default();
        let Some(folder) = self.open()? else {
            return Ok(pruned);
        };
        // Before anything is removed.
        let made_with = folder.subfolder(toolchains::FOLDER)?;
        for (name, is_ours) in orphaned(&folder, tests)? {
            let file = folder.file(&name);
            match folder.why_not_ours(&name, is_ours) {
                Some(why) => pruned.left.push((file, why)),
                None => {
                    folder.remove(&name)?;
                    pruned.removed.push(file);
                }
            }
        }
        self.tidy_toolchains(&folder, made_with)?;
        Ok(pruned)
    }

    /// The budgets whose test is not in `tests`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn orphaned_files(&self, tests: &BTreeSet<String>) -> Result<Vec<PathBuf>, BudgetError> {
        let Some(folder) = self.open()? else {
            return Ok(Vec::new());
        };
        let mut orphaned = orphaned(&folder, tests)?;
        orphaned.retain(|(name, is_ours)| folder.why_not_ours(name, *is_ours).is_none());
        let files = orphaned.iter().map(|(name, _)| folder.file(name));
        Ok(files.collect())
    }

    fn numbers(&self, test: &str) -> Result<Option<file::Numbers>, BudgetError> {
        let name = numbers_name(test);
        let text = self.text(&name)?;
        let file = self.path.join(name);
        text.map(|text| file::Numbers::parse(&text, &file))
            .transpose()
    }

    /// The toolchain with this fingerprint.
    fn toolchain(&self, fingerprint: &str) -> Result<Option<Toolchain>, BudgetError> {
        let folder = self.open()?.filter(|_| is_fingerprint(fingerprint));
        let Some(folder) = folder else {
            return Ok(None);
        };
        let made_with = folder.subfolder(toolchains::FOLDER)?;
        let new = made_with.map(|it| (it, toolchain_name(fingerprint)));
        let old = (folder, toolchains::FILE.to_owned());
        for (folder, name) in new.into_iter().chain([old]) {
            if let Some(text) = folder.read(&name)? {
                let known = toolchains::Toolchains::parse(&text, &folder.file(&name))?;
                if let Some(toolchain) = known.get(fingerprint) {
                    return Ok(Some(toolchain));
                }
            }
        }
        Ok(None)
    }

    /// The fingerprints that budgets refer to.
    fn used_toolchains(&self, folder: &OpenFolder) -> Result<BTreeSet<String>, BudgetError> {
        let mut used = BTreeSet::new();
        for name in folder.names()? {
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
        self.path.join(numbers_name(test))
    }
}

fn numbers_name(test: &str) -> String {
    format!("{test}.toml")
}

fn stacks_name(test: &str, scope: &BudgetScope) -> String {
    match scope {
        BudgetScope::Shared => format!("{test}.stacks"),
        BudgetScope::Platform(platform) => format!("{test}.{platform}.stacks"),
    }
}

fn toolchain_name(fingerprint: &str) -> String {
    format!("{fingerprint}.toml")
}

/// Whether a text may be a fingerprint, and so part of a file's name.
fn is_fingerprint(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The files in the folder that have the name of a budget whose test is not in `tests`, each with
/// the function that recognises its text.
fn orphaned(
    folder: &OpenFolder,
    tests: &BTreeSet<String>,
) -> Result<Vec<(String, IsOurs)>, BudgetError> {
    let mut orphaned: Vec<(String, IsOurs)> = Vec::new();
    for name in folder.names()? {
        let numbers = name.strip_suffix(".toml");
        let numbers = numbers.map(|stem| (stem, file::is_ours as IsOurs));
        let stacks = name.strip_suffix(".stacks");
        let stacks = stacks.map(|stem| (stem, profile::is_ours as IsOurs));
        let Some((stem, is_ours)) = numbers.or(stacks) else {
            continue;
        };
        // The stacks of a platform are in TEST.PLATFORM.stacks, and test names may contain dots.
        let of = |test: &String| {
            stem.strip_prefix(test.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if name != toolchains::FILE && !tests.iter().any(of) {
            orphaned.push((name, is_ours));
        }
    }
    Ok(orphaned)
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

#[cfg(test)]
mod tests;
