//! Writes the text, followed by workflow commands with which GitHub Actions
//! annotates the responsible source lines
//! (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>).

use std::io::{self, Write};

use allotrope_text::{LogWriter, shown, shown_lines, without_commands};

use super::{TextOptions, text, wording};
use crate::check::{Check, CheckStatus};
use crate::result::{CaseResult, Explanation, Report, TestResult};
use allotrope_diff::Diff;
use allotrope_report::diff::short_function;

/// The most annotations that are written: GitHub shows ten of a step.
const MAX: usize = 10;
/// The columns of a function's name in an annotation.
const NAME: usize = 60;

/// An annotation of a line, or of the whole run.
pub(super) struct Annotation {
    pub(super) is_error: bool,
    /// How much worse the worst number is than its budget.
    pub(super) weight: f64,
    pub(super) location: Option<(String, u32)>,
    /// The metrics and cases it is about: `allocations of encode`.
    pub(super) subjects: Vec<String>,
    pub(super) message: String,
}

/// Writes the text and the annotations, at most ten, the worst first.
///
/// # Errors
/// Errors of `out`.
pub fn write(report: &Report, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    text::write(report, options, &mut LogWriter::new(&mut *out))?;
    let mut annotations = Vec::new();
    for test in &report.tests {
        for trouble in wording::troubles(test) {
            annotations.push(Annotation {
                is_error: true,
                weight: f64::INFINITY,
                location: test.definition.clone(),
                subjects: vec![test.name.clone()],
                message: trouble,
            });
        }
        for case in &test.cases {
            annotations.extend(annotations_of(test, case));
        }
    }
    write_annotations(annotations, out)
}

/// Writes annotations: one for each line, at most ten, the worst first.
pub(super) fn write_annotations(
    annotations: Vec<Annotation>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut annotations = one_a_line(annotations);
    annotations.sort_by(|a, b| {
        let worst = b.is_error.cmp(&a.is_error);
        worst.then(b.weight.total_cmp(&a.weight))
    });
    for annotation in annotations.iter().take(MAX) {
        annotation.write(out)?;
    }
    Ok(())
}

/// An annotation for each number of a case that does not pass.
fn annotations_of(test: &TestResult, case: &CaseResult) -> Vec<Annotation> {
    let checks = case.checks.iter().filter(|check| !check.status.passes());
    let annotations = checks.map(|check| {
        let explains = |it: &&Explanation| it.metric == check.metric;
        let explanation = case.explanations.iter().find(explains);
        let blamed = explanation.and_then(|explanation| blamed(&explanation.diff));
        let location = explanation.and_then(|explanation| explanation.location.clone());
        let mut message = wording::sentence(check);
        for suspect in &test.suspects {
            message.push_str(&format!("\nsuspect: {}", wording::suspect(suspect)));
        }
        if let Some(blamed) = blamed {
            message.push_str(&format!("\n{blamed}"));
        }
        let remarks = explanation.into_iter().flat_map(|it| &it.remarks);
        let unexplained = case.unexplained.iter();
        let unexplained = unexplained.filter(|it| it.metric == check.metric);
        for remark in remarks.chain(unexplained.map(|it| &it.remark)) {
            message.push_str(&format!("\n{remark}"));
        }
        Annotation {
            is_error: check.status != CheckStatus::Improved,
            weight: weight(check),
            location: location.or_else(|| test.definition.clone()),
            subjects: vec![format!("{} of {}", check.metric, case.name)],
            message,
        }
    });
    annotations.collect()
}

/// How bad a number is; one that could not be compared is worse than any other.
pub(super) fn weight(check: &Check) -> f64 {
    match check.status {
        CheckStatus::Exceeded | CheckStatus::Improved => wording::weight(check),
        _ => f64::INFINITY,
    }
}

/// What the largest entry of a difference adds.
pub(super) fn blamed(diff: &Diff) -> Option<String> {
    let entry = wording::explaining_entries(diff).next()?;
    let frame = wording::blamed(diff, entry)?;
    let difference = wording::signed(entry.difference);
    let mut message = format!("{difference} in {}", short_function(frame, NAME));
    if let Some(called) = wording::called(diff, entry) {
        message.push_str(&format!(" through {}", short_function(called, NAME)));
    }
    Some(message)
}

/// Joins the annotations of each source line.
fn one_a_line(annotations: Vec<Annotation>) -> Vec<Annotation> {
    let mut joined: Vec<Annotation> = Vec::new();
    for annotation in annotations {
        let same = joined.iter_mut().find(|other| {
            other.location.is_some()
                && other.location == annotation.location
                && other.is_error == annotation.is_error
        });
        match same {
            Some(other) => {
                other.weight = other.weight.max(annotation.weight);
                other.subjects.extend(annotation.subjects);
                other.message.push_str(&format!("\n{}", annotation.message));
            }
            None => joined.push(annotation),
        }
    }
    joined
}

impl Annotation {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let level = if self.is_error { "error" } else { "notice" };
        let location = self.location.as_ref().map(|(file, line)| {
            let (file, line) = (property(file), line.max(&1));
            format!("file={file},line={line},")
        });
        let title = match &self.subjects[..] {
            [] => String::new(),
            [subject] => subject.clone(),
            [subject, others @ ..] => format!("{subject} and {} more", others.len()),
        };
        writeln!(
            out,
            "::{level} {}title={}::{}",
            location.unwrap_or_default(),
            property(&title),
            data(&self.message)
        )
    }
}

/// Escapes a message, as `toCommandData` of `@actions/core` does. A message cannot begin another
/// command.
fn data(text: &str) -> String {
    without_commands(&shown_lines(text))
        .replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes the value of a property, as `toCommandProperty` does.
fn property(text: &str) -> String {
    data(&shown(text)).replace(':', "%3A").replace(',', "%2C")
}
