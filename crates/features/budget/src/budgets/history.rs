//! The accepted numbers of a test over the commits that changed them, from git.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::file::Numbers;
use super::{BudgetError, BudgetFolder, Number, numbers_name};
use crate::git::git;
use crate::revisions::{Repository, RevisionError};
use allotrope_profile::Metric;

use thiserror::Error;

/// Why there is no history.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// Git could not be asked.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// The budgets cannot be read.
    #[error(transparent)]
    Budget(#[from] BudgetError),
}

/// The versions of a test's budgets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The file of the numbers, relative to the repository.
    pub file: PathBuf,
    /// The commits that changed a number, the latest first; uncommitted changes before
    /// them.
    pub versions: Vec<Version>,
    /// The repository lacks older commits (`git clone --depth`).
    pub is_shallow: bool,
}

/// A version of the budgets that differs from the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The commit; `None` for what is not committed yet.
    pub commit: Option<Commit>,
    /// The numbers that changed.
    pub changes: Vec<NumberChange>,
    /// Why this version cannot be read.
    pub problem: Option<String>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The full hash.
    pub hash: String,
    /// The author's name (`.mailmap` applied).
    pub author: String,
    /// The author's time, strict ISO 8601.
    pub time: String,
    /// The first line of its message.
    pub subject: String,
}

/// A number that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberChange {
    /// The platform whose number it is; `None` for the shared one.
    pub platform: Option<String>,
    /// The case.
    pub case: String,
    /// The metric.
    pub metric: Metric,
    /// The number before.
    pub was: Option<Number>,
    /// The number from this version on.
    pub is: Option<Number>,
}

/// The history of the numbers of a test, or of one of its cases.
///
/// # Errors
/// The folder is in no repository, or git fails. A version that cannot be read is part of
/// the history.
pub fn history(
    folder: &BudgetFolder,
    test: &str,
    case: Option<&str>,
) -> Result<History, HistoryError> {
    let file = folder.numbers_file(test);
    let base = folder.path().parent().unwrap_or(Path::new("."));
    let base = match base.as_os_str().is_empty() {
        true => Path::new("."),
        false => base,
    };
    let repository = Repository::containing(base)?;
    let root = repository.root();
    let absolute = std::path::absolute(&file).unwrap_or_else(|_| file.clone());
    let inside = absolute.parent().and_then(|parent| {
        // The folder of budgets itself may be gone.
        let outer = parent.parent()?.canonicalize().ok()?;
        let outer = outer.strip_prefix(root).ok()?;
        Some(outer.join(parent.file_name()?).join(absolute.file_name()?))
    });
    let inside = inside.unwrap_or_else(|| file.clone());
    let mut versions = Vec::new();
    let mut before = Numbers::default();
    for (commit, path) in commits(root, &inside)?.into_iter().rev() {
        let object = format!("{}:{path}", commit.hash);
        // A commit that removes the file has no such object.
        let text = git(root, ["cat-file", "blob", &object]).unwrap_or_default();
        versions.extend(version(Some(commit), &text, &mut before, case));
    }
    let text = folder.text(&numbers_name(test))?.unwrap_or_default();
    versions.extend(version(None, &text, &mut before, case));
    versions.reverse();
    let shallow = git(root, ["rev-parse", "--is-shallow-repository"])?;
    Ok(History {
        file: inside,
        versions,
        is_shallow: shallow == "true",
    })
}

/// The commits that changed a file, the latest first, each with the file's path then.
fn commits(root: &Path, file: &Path) -> Result<Vec<(Commit, String)>, RevisionError> {
    // NUL, which no commit has, separates the fields.
    const FORMAT: &str = "--format=%x00%H%x00%aN%x00%aI%x00%s%x00";
    const FIELDS: usize = 5;
    let name = file.as_os_str();
    // The file is short, and a new name changes several of its lines: git would not see a
    // rename at its limit of 50 %.
    let words = [
        "-c",
        "core.quotePath=false",
        "log",
        "--follow",
        "--find-renames=25%",
    ];
    let words = words.map(AsRef::as_ref);
    let more = ["--name-only", FORMAT, "--"].map(AsRef::as_ref);
    let log = match git(root, words.into_iter().chain(more).chain([name])) {
        // A repository without commits.
        Err(RevisionError::Git { stderr, .. }) if stderr.contains("does not have any commits") => {
            String::new()
        }
        log => log?,
    };
    let fields: Vec<&str> = log.split('\0').skip(1).collect();
    let mut path = file.to_string_lossy().into_owned();
    let mut commits = Vec::new();
    for fields in fields.chunks_exact(FIELDS) {
        let [hash, author, time, subject, names] = fields else {
            continue;
        };
        // A merge names no files.
        if let Some(name) = names.lines().find(|line| !line.is_empty()) {
            name.clone_into(&mut path);
        }
        let commit = Commit {
            hash: (*hash).to_owned(),
            author: (*author).to_owned(),
            time: (*time).to_owned(),
            subject: (*subject).to_owned(),
        };
        commits.push((commit, path.clone()));
    }
    Ok(commits)
}

/// What a version of the file changes; `None` if no number. `before` becomes its numbers.
fn version(
    commit: Option<Commit>,
    text: &str,
    before: &mut Numbers,
    case: Option<&str>,
) -> Option<Version> {
    let now = match text.trim() {
        "" => Ok(Numbers::default()),
        _ => Numbers::parse(text, Path::new("")),
    };
    let now = match now {
        Ok(now) => now,
        Err(error) => {
            let problem = match error {
                BudgetError::Invalid { line, problem, .. } => format!("line {line}: {problem}"),
                BudgetError::Conflict { line, .. } => format!("line {line}: a merge conflict"),
                error => error.to_string(),
            };
            return Some(Version {
                commit,
                changes: Vec::new(),
                problem: Some(problem),
            });
        }
    };
    let mut changes = changes(before, &now);
    changes.retain(|change| case.is_none_or(|case| change.case == case));
    *before = now;
    (!changes.is_empty()).then_some(Version {
        commit,
        changes,
        problem: None,
    })
}

fn changes(before: &Numbers, now: &Numbers) -> Vec<NumberChange> {
    type Key = (Option<String>, String, Metric);
    let keys = |numbers: &Numbers| -> BTreeSet<Key> {
        let shared = numbers.shared.iter().map(|section| (None, section));
        let platforms = numbers.platforms.iter();
        let all = shared.chain(platforms.map(|(name, section)| (Some(name.clone()), section)));
        all.flat_map(|(platform, section)| {
            let cases = section.cases.iter();
            cases.flat_map(move |(case, budget)| {
                let platform = platform.clone();
                let metrics = budget.numbers.keys();
                metrics.map(move |&metric| (platform.clone(), case.clone(), metric))
            })
        })
        .collect()
    };
    let number = |numbers: &Numbers, (platform, case, metric): &Key| {
        let section = match platform {
            None => numbers.shared.as_ref(),
            Some(name) => numbers.platforms.get(name),
        };
        section?.cases.get(case)?.numbers.get(metric).cloned()
    };
    let all: BTreeSet<Key> = keys(before).union(&keys(now)).cloned().collect();
    let changed = all.into_iter().filter_map(|key| {
        let (was, is) = (number(before, &key), number(now, &key));
        let (platform, case, metric) = key;
        (was != is).then_some(NumberChange {
            platform,
            case,
            metric,
            was,
            is,
        })
    });
    changed.collect()
}
