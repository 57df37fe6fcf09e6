//! Renames the budgets of a test or of one of its cases, and finds tests that were renamed.

use std::path::{Path, PathBuf};

use allotrope_diff::{DiffOptions, Kind};
use allotrope_profile::StackSet;
use thiserror::Error;
use toml_edit::{DocumentMut, Item, Table};

use super::{BudgetError, BudgetFolder, BudgetScope, CallTree, OpenFolder, fold_like};
use super::{file, numbers_name, profile, stacks_name};
use crate::result::{CaseResult, Rename, Report, TestResult};
use allotrope_text::Shown;

/// Likeness from which on two sets of stacks are taken for those of one test.
const LIKE: f64 = 0.8;

/// Why budgets could not be renamed.
#[derive(Debug, Error)]
pub enum RenameError {
    /// There is nothing to rename.
    #[error("{name} has no accepted numbers in {}", folder.shown())]
    Unknown {
        /// The test or case.
        name: String,
        /// The folder of budgets.
        folder: PathBuf,
    },
    /// There are numbers under the new name.
    #[error("{name} has accepted numbers already, in {}; remove them first", file.shown())]
    Exists {
        /// The test or case.
        name: String,
        /// The file of the accepted numbers.
        file: PathBuf,
    },
    /// A case cannot move to another test.
    #[error("`{old}` and `{new}` must both be tests, or both cases of one test (TEST/WINDOW)")]
    Different {
        /// The old name as the user gave it.
        old: String,
        /// The new name as the user gave it.
        new: String,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Budget(#[from] BudgetError),
}

/// The name of a case after its test, or itself, got another name.
fn renamed(case: &str, old: &str, new: &str) -> Option<String> {
    let rest = case.strip_prefix(old)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{new}{rest}"))
}

impl BudgetFolder {
    /// Gives the budgets and stacks of a test, or of one of its cases, another name. Returns
    /// the files that were written.
    ///
    /// # Errors
    /// There are no numbers under the old name, or there are some under the new one; files
    /// that cannot be read or written.
    pub fn rename(&self, old: &str, new: &str) -> Result<Vec<PathBuf>, RenameError> {
        let test_of = |name: &str| name.split_once('/').map(|(test, _)| test.to_owned());
        let (old_test, new_test) = match (test_of(old), test_of(new)) {
            (None, None) => (old.to_owned(), new.to_owned()),
            (Some(a), Some(b)) if a == b => (a.clone(), b),
            _ => {
                return Err(RenameError::Different {
                    old: old.to_owned(),
                    new: new.to_owned(),
                });
            }
        };
        let unknown = || RenameError::Unknown {
            name: old.to_owned(),
            folder: self.path.clone(),
        };
        let folder = self.open()?.ok_or_else(unknown)?;
        let [from, to] = [&old_test, &new_test].map(|test| numbers_name(test));
        let exists = || RenameError::Exists {
            name: new.to_owned(),
            file: folder.file(&to),
        };
        let text = folder.read(&from)?.ok_or_else(unknown)?;
        let numbers = file::Numbers::parse(&text, &folder.file(&from))?;
        let sections = || numbers.shared.iter().chain(numbers.platforms.values());
        let has = |case: &str| sections().any(|section| section.cases.contains_key(case));
        let whole = old_test == old;
        if !whole && !has(old) {
            return Err(unknown());
        }
        if whole && folder.has(&to)? || !whole && has(new) {
            return Err(exists());
        }
        let mut scopes = vec![BudgetScope::Shared];
        scopes.extend(numbers.platforms.keys().cloned().map(BudgetScope::Platform));
        let names = scopes
            .iter()
            .map(|scope| [&old_test, &new_test].map(|test| stacks_name(test, scope)));
        let names: Vec<[String; 2]> = names.collect();
        // Before anything is written.
        for to in names.iter().map(|[_, to]| to).chain([&to]) {
            folder.check_writable(to)?;
        }
        let mut written = Vec::new();
        for [from, to] in &names {
            let Some(text) = folder.read(from)? else {
                continue;
            };
            let cases = profile::parse(&text, &folder.file(from))?.into_iter();
            let cases = cases.map(|(case, tree)| match renamed(&case, old, new) {
                Some(case) => (case, tree),
                None => (case, tree),
            });
            written.extend(folder.write(to, &profile::text(&cases.collect()))?);
            remove(&folder, from, to)?;
        }
        let text = text_renamed(&text, old, new);
        written.extend(folder.write(&to, &text)?);
        remove(&folder, &from, &to)?;
        Ok(written)
    }
}

/// The stacks of budgets whose test, or case of a test, no longer exists.
struct Gone {
    /// The test or case whose name is to be changed.
    name: String,
    case: String,
    stacks: CallTree,
}

/// The tests and cases without budgets whose stacks are those of budgets that belong to no
/// test or case any more.
pub(crate) fn renames(folder: &BudgetFolder, report: &Report) -> Vec<Rename> {
    let mut renames = Vec::new();
    let orphaned = report.orphaned_budgets.iter();
    let mut tests: Vec<Gone> = orphaned
        .filter_map(|file| gone_test(folder, file))
        .collect();
    for test in report.tests.iter().filter(|test| test.problem.is_none()) {
        let Some(budgets) = &test.budgets else {
            renames.extend(rename_of_test(test, &mut tests));
            continue;
        };
        // What cannot be read is no candidate.
        let mut profiles = folder
            .profiles(&test.name, &budgets.scope)
            .unwrap_or_default();
        let gone = test.not_measured.iter().filter_map(|case| {
            Some(Gone {
                name: case.clone(),
                case: case.clone(),
                stacks: profiles.remove(case)?,
            })
        });
        let mut gone: Vec<Gone> = gone.collect();
        for case in &test.cases {
            if !budgets.cases.contains_key(&case.name)
                && let Some(old) = taken(&mut gone, |_| true, case)
            {
                let new = case.name.clone();
                renames.push(Rename { old, new });
            }
        }
    }
    renames
}

/// A test whose budgets are there, by one of its cases.
fn gone_test(folder: &BudgetFolder, file: &Path) -> Option<Gone> {
    if file.extension()? != "toml" {
        return None;
    }
    let name = file.file_stem()?.to_str()?.to_owned();
    // What cannot be read is no candidate.
    let profiles = folder.profiles(&name, &BudgetScope::Shared).ok()?;
    let (case, stacks) = profiles.into_iter().next()?;
    Some(Gone { name, case, stacks })
}

fn rename_of_test(test: &TestResult, gone: &mut Vec<Gone>) -> Option<Rename> {
    test.cases.iter().find_map(|case| {
        // The window has the same name in a test of another name.
        let same =
            |gone: &Gone| renamed(&gone.case, &gone.name, &test.name) == Some(case.name.clone());
        let old = taken(gone, same, case)?;
        let new = test.name.clone();
        Some(Rename { old, new })
    })
}

/// Removes the budgets that are most like a case, if they are like it at all; returns
/// their name.
fn taken(gone: &mut Vec<Gone>, may: impl Fn(&Gone) -> bool, case: &CaseResult) -> Option<String> {
    let now = &case.runs.first()?.stacks;
    let candidates = gone.iter().enumerate().filter(|(_, gone)| may(gone));
    let likeness = candidates.map(|(index, gone)| (index, likeness(&gone.stacks, now)));
    let best = likeness.max_by(|(_, a), (_, b)| a.total_cmp(b));
    let (index, _) = best.filter(|(_, likeness)| *likeness >= LIKE)?;
    Some(gone.swap_remove(index).name)
}

fn remove(folder: &OpenFolder, from: &str, to: &str) -> Result<(), BudgetError> {
    match from == to {
        true => Ok(()),
        false => folder.remove(from),
    }
}

/// The text of a file of numbers with other names of its cases; comments are preserved.
fn text_renamed(text: &str, old: &str, new: &str) -> String {
    let Ok(mut document) = text.parse::<DocumentMut>() else {
        return text.to_owned();
    };
    let root = document.as_table_mut();
    let mut sections: Vec<&mut Item> = Vec::new();
    for (name, item) in root.iter_mut() {
        match name.get() {
            "shared" => sections.push(item),
            "platforms" => {
                let platforms = item.as_table_like_mut().into_iter();
                sections.extend(platforms.flat_map(|it| it.iter_mut()).map(|(_, item)| item));
            }
            _ => {}
        }
    }
    for section in sections {
        let cases = section
            .as_table_like_mut()
            .and_then(|it| it.get_mut("cases"));
        if let Some(cases) = cases.and_then(Item::as_table_mut) {
            rename_cases(cases, old, new);
        }
    }
    let text = document.to_string();
    // The comment that `file::edited` writes.
    let comment = |name: &str| format!("What the test {name} may allocate.");
    let command = |name: &str| format!(" --accept {name}` writes");
    text.replace(&comment(old), &comment(new))
        .replace(&command(old), &command(new))
}

fn rename_cases(cases: &mut Table, old: &str, new: &str) {
    let names: Vec<String> = cases.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        if let Some(now) = renamed(&name, old, new)
            && let Some(case) = cases.remove(&name)
        {
            cases.insert(&now, case);
        }
    }
    cases.sort_values();
}

/// The part of the allocations of two sets of stacks that have the same stack, from 0 to 1.
fn likeness(accepted: &CallTree, now: &StackSet) -> f64 {
    let accepted = accepted.stacks(now);
    let now = fold_like(now, &accepted);
    let before = std::slice::from_ref(&accepted);
    let Ok(diff) = allotrope_diff::compare(before, &[now], &DiffOptions::default()) else {
        return 0.0;
    };
    let all = diff.before.saturating_add(diff.after) as f64;
    let changed = diff
        .entries
        .iter()
        .filter(|entry| entry.kind != Kind::Moved);
    let different: u64 = changed.map(|entry| entry.difference.unsigned_abs()).sum();
    match all {
        0.0 => 0.0,
        all => (1.0 - different as f64 / all).max(0.0),
    }
}
