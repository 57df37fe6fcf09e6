//! The options `--no-finding` and `--suppress-findings`: which rules look for findings.

use std::collections::BTreeSet;
use std::path::PathBuf;

use allotrope_attribution::Suppressions;
use allotrope_findings::{FindingOptions, Rule};
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, Failure, WithStatus};

/// What these options were given.
#[derive(Debug, Default, clap::Args)]
pub struct FindingArguments {
    /// Leave out the findings of RULE
    ///
    /// docs/findings.md has the rules. May be given several times.
    #[arg(long = "no-finding", value_name = "RULE", value_parser = parse, hide_short_help = true)]
    off: Vec<Rule>,
    /// Leave out the findings of the rules that FILE lists, one per line
    #[arg(
        long = "suppress-findings",
        alias = "findings",
        value_name = "FILE",
        hide_short_help = true
    )]
    files: Vec<PathBuf>,
}

impl FindingArguments {
    /// The rules that are switched off.
    ///
    /// # Errors
    /// A file that cannot be read, or a line of it that is no rule.
    pub fn off(&self) -> Result<BTreeSet<Rule>, Failure> {
        let mut off: BTreeSet<Rule> = self.off.iter().copied().collect();
        for file in &self.files {
            let name = file.shown();
            let list = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read the list of findings {name}"))
                .status(BAD_INPUT)?;
            for (number, line) in (1..).zip(list.lines()) {
                let word = line.split('#').next().unwrap_or_default().trim();
                if word.is_empty() {
                    continue;
                }
                let rule = parse(word).map_err(|sentence| {
                    Failure::new(BAD_INPUT, anyhow!("{name}, line {number}: {sentence}"))
                })?;
                off.insert(rule);
            }
        }
        Ok(off)
    }

    /// How findings are made, with the leaks that are expected.
    pub fn options(&self, suppressions: &Suppressions) -> Result<FindingOptions, Failure> {
        Ok(FindingOptions {
            suppressions: suppressions.clone(),
            off: self.off()?,
        })
    }
}

/// The rule of this name.
pub fn parse(name: &str) -> Result<Rule, String> {
    Rule::of_name(name).ok_or_else(|| {
        let names: Vec<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
        format!(
            "there is no finding \"{}\"; the findings are {}",
            allotrope_text::shown(name),
            names.join(", ")
        )
    })
}
