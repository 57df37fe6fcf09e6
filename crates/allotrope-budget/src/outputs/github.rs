//! Writes the text, followed by workflow commands with which GitHub Actions
//! annotates the responsible source lines
//! (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>).

use std::io::{self, Write};

use allotrope_text::{shown, shown_lines};

use super::{TextOptions, text, wording};
use crate::result::{CaseResult, Outcome, Report, TestResult};

/// Writes the text and the annotations.
///
/// # Errors
/// Errors of `out`.
pub fn write(report: &Report, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut log = Vec::new();
    text::write(report, options, &mut log)?;
    out.write_all(without_commands(&String::from_utf8_lossy(&log)).as_bytes())?;
    for test in &report.tests {
        for trouble in wording::troubles(test) {
            annotation(out, "error", None, &test.name, &trouble)?;
        }
        for case in &test.cases {
            annotate_case(test, case, out)?;
        }
    }
    Ok(())
}

fn annotate_case(test: &TestResult, case: &CaseResult, out: &mut dyn Write) -> io::Result<()> {
    let level = match case.outcome() {
        Outcome::Passed => return Ok(()),
        Outcome::Improved => "notice",
        Outcome::Failed => "error",
    };
    for check in &case.checks {
        if check.status.passes() {
            continue;
        }
        let mut message = wording::sentence(check);
        for suspect in &test.suspects {
            message.push_str(&format!("\nsuspect: {}", wording::suspect(suspect)));
        }
        let explained = case
            .explanations
            .iter()
            .find(|it| it.metric == check.metric);
        let entry =
            explained.and_then(|it| Some((it, wording::explaining_entries(&it.diff).next()?)));
        let mut location = None;
        if let Some((explanation, entry)) = entry
            && let Some(frame) = wording::blamed(&explanation.diff, entry)
        {
            let difference = wording::signed(entry.difference);
            message.push_str(&format!("\n{difference} in {}", frame.function));
            // Only files of the project can be annotated.
            if !frame.file.is_empty() && !frame.file.starts_with('/') && !frame.file.contains(':') {
                location = Some((frame.file.as_str(), frame.line));
            }
        }
        annotation(out, level, location, &case.name, &message)?;
    }
    Ok(())
}

/// Breaks up workflow commands in a log, which a test's output may contain. The
/// runner accepts `::` at the start of a line, after blanks, and `##[` anywhere
/// (`ActionCommand` of <https://github.com/actions/runner>).
fn without_commands(log: &str) -> String {
    let mut without = String::with_capacity(log.len());
    for line in log.split_inclusive('\n') {
        let text = line.trim_start();
        match text.strip_prefix("::") {
            Some(rest) => {
                without.push_str(&line[..line.len() - text.len()]);
                without.push_str(": :");
                without.push_str(&rest.replace("##[", "## ["));
            }
            None => without.push_str(&line.replace("##[", "## [")),
        }
    }
    without
}

fn annotation(
    out: &mut dyn Write,
    level: &str,
    location: Option<(&str, u32)>,
    name: &str,
    message: &str,
) -> io::Result<()> {
    let location =
        location.map(|(file, line)| format!("file={},line={},", property(file), line.max(1)));
    let title = property(&format!("allocations of {name}"));
    let message = data(message);
    writeln!(
        out,
        "::{level} {}title={title}::{message}",
        location.unwrap_or_default()
    )
}

/// Escapes a message, as `toCommandData` of `@actions/core` does.
fn data(text: &str) -> String {
    shown_lines(text)
        .replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes the value of a property, as `toCommandProperty` does.
fn property(text: &str) -> String {
    data(&shown(text)).replace(':', "%3A").replace(',', "%2C")
}
