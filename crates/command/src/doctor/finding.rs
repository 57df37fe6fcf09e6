//! A finding of `allotrope doctor`, and the layout of findings as text.

use allotrope_text::Style;
use allotrope_text::document::{Table, left};
use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing to do.
    Ok,
    /// Recording works, with a limitation.
    Note,
    /// Recording does not work.
    Problem,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was checked, in a few words.
    pub topic: &'static str,
    /// What was found.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    /// A finding without a remedy.
    pub fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            topic,
            text: text.into(),
            remedy: None,
        }
    }

    /// A limitation.
    pub fn note(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            level: Level::Note,
            remedy: Some(remedy.into()),
            ..Self::ok(topic, text)
        }
    }

    /// A reason why recording does not work.
    pub fn problem(
        topic: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Problem,
            ..Self::note(topic, text, remedy)
        }
    }
}

/// A line for each finding, its remedy below. They are as long as they are: a remedy may be a
/// command.
pub fn as_text(findings: &[&Finding]) -> Vec<String> {
    let mut table = Table::new([left("").at_least(7), left(""), left("")]).indent(0);
    for finding in findings {
        let level = match finding.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Problem => "problem",
        };
        table.row([level, finding.topic, &finding.text]);
        if let Some(remedy) = &finding.remedy {
            table.row(["", "", &format!("→ {remedy}")]);
        }
    }
    table.lines(Style::plain(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_aligned() {
        let findings = [
            Finding::ok("C library", "glibc 2.36"),
            Finding::problem("/proc", "is not mounted", "mount it"),
        ];
        let lines = as_text(&findings.iter().collect::<Vec<_>>());
        let columns: Vec<_> = ["glibc", "is not", "→"]
            .iter()
            .zip(&lines)
            .map(|(what, line)| line.find(what))
            .collect();
        // The level takes 8 columns and a space, the longest topic 9 and two.
        assert_eq!(columns, [Some(20), Some(20), Some(20)]);
    }
}
