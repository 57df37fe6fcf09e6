//! Writes the history of a test's numbers, as text and as JSON
//! (`allotrope-history/1`).

use std::io::{self, Write};

use allotrope_text::{LogWriter, Role, Shown, Style, TextWriter, shown};
use serde::Serialize;

use super::wording;
use crate::budgets::Number;
use crate::budgets::history::{History, NumberChange, Version};

const FORMAT: &str = "allotrope-history/1";

/// Writes the history as text, the latest version first.
///
/// # Errors
/// Errors of `out`.
pub fn write_text(history: &History, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let out: &mut dyn Write = &mut TextWriter::new(LogWriter::new(out), style.color);
    if history.versions.is_empty() {
        writeln!(out, "{}: no numbers were accepted", history.file.shown())?;
    }
    for (index, version) in history.versions.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write_version(version, style, out)?;
    }
    if history.is_shallow {
        writeln!(
            out,
            "\nThe repository lacks older commits: `git fetch --unshallow` gets them."
        )?;
    }
    out.flush()
}

fn write_version(version: &Version, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let head = match &version.commit {
        None => "not committed".to_owned(),
        Some(commit) => {
            let date = commit.time.get(..10).unwrap_or(&commit.time);
            let hash = commit.hash.get(..12).unwrap_or(&commit.hash);
            let (author, subject) = (shown(&commit.author), shown(&commit.subject));
            format!("{date}  {hash}  {author}: {subject}")
        }
    };
    writeln!(out, "{}", style.paint(Role::Title, &head))?;
    if let Some(problem) = &version.problem {
        writeln!(out, "  cannot be read: {}", shown(problem))?;
    }
    for change in &version.changes {
        write_change(change, out)?;
    }
    Ok(())
}

fn write_change(change: &NumberChange, out: &mut dyn Write) -> io::Result<()> {
    let number = |number: &Option<Number>| {
        let number = number.as_ref();
        number.map_or_else(|| "none".to_owned(), |it| wording::spread(it.spread))
    };
    let (was, is) = (number(&change.was), number(&change.is));
    let mut line = match was == is {
        true => format!("{} {is}", change.metric),
        false => format!("{} {was} → {is}", change.metric),
    };
    if let (Some(was), Some(is)) = (&change.was, &change.is) {
        let difference = is.spread.typical.saturating_sub(was.spread.typical);
        if difference != 0 {
            line.push_str(&format!(" ({})", wording::signed(difference)));
        }
    }
    if let Some(because) = change.is.as_ref().and_then(|it| it.because.as_ref()) {
        line.push_str(&format!("  because: {}", shown(because)));
    }
    let platform = change.platform.as_ref();
    let platform = platform.map_or_else(String::new, |it| format!(" on {}", shown(it)));
    writeln!(out, "  {}{platform}  {line}", shown(&change.case))
}

#[derive(Serialize)]
struct Form<'a> {
    format: &'static str,
    test: &'a str,
    file: String,
    is_shallow: bool,
    versions: Vec<VersionForm<'a>>,
}

#[derive(Serialize)]
struct VersionForm<'a> {
    /// Null for what is not committed.
    commit: Option<&'a str>,
    author: Option<&'a str>,
    time: Option<&'a str>,
    subject: Option<&'a str>,
    problem: Option<&'a str>,
    changes: Vec<ChangeForm<'a>>,
}

#[derive(Serialize)]
struct ChangeForm<'a> {
    platform: Option<&'a str>,
    case: &'a str,
    metric: &'static str,
    was: Option<NumberForm>,
    is: Option<NumberForm>,
    because: Option<&'a str>,
}

#[derive(Serialize)]
struct NumberForm {
    least: i64,
    typical: i64,
    most: i64,
}

/// Writes the history as one JSON object, followed by a newline.
///
/// # Errors
/// Errors of `out`.
pub fn write_json(test: &str, history: &History, out: &mut dyn Write) -> io::Result<()> {
    let form = Form {
        format: FORMAT,
        test,
        file: history.file.to_string_lossy().into_owned(),
        is_shallow: history.is_shallow,
        versions: history.versions.iter().map(version_form).collect(),
    };
    allotrope_text::to_json_writer(&mut *out, &form)?;
    writeln!(out)
}

fn version_form(version: &Version) -> VersionForm<'_> {
    let commit = version.commit.as_ref();
    VersionForm {
        commit: commit.map(|commit| commit.hash.as_str()),
        author: commit.map(|commit| commit.author.as_str()),
        time: commit.map(|commit| commit.time.as_str()),
        subject: commit.map(|commit| commit.subject.as_str()),
        problem: version.problem.as_deref(),
        changes: version.changes.iter().map(change_form).collect(),
    }
}

fn change_form(change: &NumberChange) -> ChangeForm<'_> {
    let number = |number: &Option<Number>| {
        let spread = number.as_ref()?.spread;
        Some(NumberForm {
            least: spread.least,
            typical: spread.typical,
            most: spread.most,
        })
    };
    let because = change.is.as_ref().and_then(|it| it.because.as_deref());
    ChangeForm {
        platform: change.platform.as_deref(),
        case: &change.case,
        metric: change.metric.name(),
        was: number(&change.was),
        is: number(&change.is),
        because,
    }
}
