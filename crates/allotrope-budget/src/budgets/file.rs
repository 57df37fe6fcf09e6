//! Reads and writes the file `TEST.toml`: one number per line, so that a code review
//! shows which one changed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

use super::{Budget, BudgetError};
use allotrope_profile::Metric;

const FORMAT: &str = "allotrope-budgets/1";

/// All budgets of a test.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) shared: Option<Section>,
    pub(super) platforms: BTreeMap<String, Section>,
}

/// The budgets of one platform, or of all.
#[derive(Debug)]
pub(super) struct Section {
    /// The fingerprint of the toolchain.
    pub(super) toolchain: String,
    pub(super) cases: BTreeMap<String, Budget>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    format: toml::Spanned<String>,
    shared: Option<SectionForm>,
    #[serde(default)]
    platforms: BTreeMap<String, SectionForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SectionForm {
    #[serde(rename = "made-with")]
    toolchain: String,
    #[serde(default)]
    cases: BTreeMap<String, BTreeMap<toml::Spanned<String>, i64>>,
}

impl Numbers {
    pub(super) fn parse(text: &str, file: &Path) -> Result<Self, BudgetError> {
        let form: FileForm = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            invalid(text, file, at, error.message().replace('\n', "; "))
        })?;
        if form.format.get_ref() != FORMAT {
            let problem = format!(
                "the format is {}, but this version reads {FORMAT}",
                form.format.get_ref()
            );
            return Err(invalid(text, file, form.format.span().start, problem));
        }
        let section = |form: SectionForm| -> Result<Section, BudgetError> {
            let mut cases = BTreeMap::new();
            for (name, lines) in form.cases {
                cases.insert(name, budget(lines, text, file)?);
            }
            Ok(Section {
                toolchain: form.toolchain,
                cases,
            })
        };
        let platforms = form.platforms.into_iter();
        Ok(Self {
            shared: form.shared.map(section).transpose()?,
            platforms: platforms
                .map(|(name, form)| Ok((name, section(form)?)))
                .collect::<Result<_, BudgetError>>()?,
        })
    }

    pub(super) fn text(&self, test: &str) -> String {
        let mut text = format!(
            "# What the test {test} may allocate. `allotrope test --accept {test}` writes this file.\n\
             format = \"{FORMAT}\"\n"
        );
        if let Some(section) = &self.shared {
            section.write("shared", &mut text);
        }
        for (platform, section) in &self.platforms {
            section.write(&format!("platforms.{}", quoted(platform)), &mut text);
        }
        text
    }
}

impl Section {
    fn write(&self, name: &str, text: &mut String) {
        let toolchain = quoted(&self.toolchain);
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "\n[{name}]\nmade-with = {toolchain}");
        for (case, budget) in &self.cases {
            let _ = writeln!(text, "\n[{name}.cases.{}]", quoted(case));
            if let Some(iterations) = budget.iterations {
                let _ = writeln!(text, "iterations = {iterations}");
            }
            for metric in Metric::OF_RUNS {
                if let Some(figure) = budget.figures.get(&metric) {
                    let _ = writeln!(text, "{metric} = {figure}");
                }
            }
        }
    }
}

fn budget(
    lines: BTreeMap<toml::Spanned<String>, i64>,
    text: &str,
    file: &Path,
) -> Result<Budget, BudgetError> {
    let mut budget = Budget::default();
    for (name, figure) in lines {
        let at = name.span().start;
        match (name.get_ref().as_str(), u64::try_from(figure)) {
            ("iterations", Ok(iterations)) => budget.iterations = Some(iterations),
            (name, _) => {
                let metric = Metric::named(name, &Metric::OF_RUNS).ok_or_else(|| {
                    let known = Metric::OF_RUNS.map(Metric::name).join(", ");
                    let problem = format!("\"{name}\" is no metric; there are {known}");
                    invalid(text, file, at, problem)
                })?;
                budget.figures.insert(metric, figure);
            }
        }
    }
    Ok(budget)
}

/// An error at the byte `at` of `text`.
pub(super) fn invalid(text: &str, file: &Path, at: usize, problem: String) -> BudgetError {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    BudgetError::Invalid {
        file: file.to_owned(),
        line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
        problem,
    }
}

/// Quotes a text as a TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
