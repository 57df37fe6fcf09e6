//! The options `--filter` and `--filter-case`, which several commands have.

use std::collections::BTreeSet;

use allotrope_profile::{Filter, Profile, StackSet};
use allotrope_text::shown;
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, Failure};

/// Least similarity (Jaro-Winkler, 0 to 1) of a name that is proposed.
const MIN_SIMILARITY: f64 = 0.7;
/// Largest number of names that are proposed.
const MAX_PROPOSED: usize = 3;

/// What `--filter` was given.
#[derive(Debug, Default, clap::Args)]
pub struct FilterArguments {
    /// Show only stacks with PATTERN in a frame
    ///
    /// In the name of a function, file or module; `*` stands for any text.
    #[arg(long = "filter", alias = "stack", value_name = "PATTERN")]
    filter: Option<String>,
    /// Let upper and lower case differ in the pattern of --filter
    #[arg(long = "filter-case", requires = "filter", hide_short_help = true)]
    is_case_sensitive: bool,
}

impl FilterArguments {
    /// Whether there is a filter.
    pub fn is_given(&self) -> bool {
        self.filter.is_some()
    }

    /// The filter, if there is one.
    pub fn filter(&self) -> Option<Filter> {
        let pattern = self.filter.as_deref()?;
        Some(Filter::new(pattern, self.is_case_sensitive))
    }

    /// Fails if the filter matches no frame of the profile.
    pub fn check_profile(&self, profile: &Profile) -> Result<(), Failure> {
        let frames = || profile.frames.iter();
        self.check(
            |filter| {
                let mut frames = frames();
                frames.any(|frame| {
                    filter.matches(&frame.function, &frame.file, &profile.module_name(frame))
                })
            },
            frames().map(|frame| &*frame.function),
        )
    }

    /// Fails if the filter matches no frame of any of the sets.
    pub fn check_sets<'a>(
        &self,
        sets: impl Iterator<Item = &'a StackSet> + Clone,
    ) -> Result<(), Failure> {
        let frames = || sets.clone().flat_map(|set| &set.frames);
        self.check(
            |filter| frames().any(|frame| filter.selects(frame)),
            frames().map(|frame| &*frame.function),
        )
    }

    fn check<'a>(
        &self,
        matches: impl FnOnce(&Filter) -> bool,
        functions: impl Iterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        let Some(filter) = self.filter() else {
            return Ok(());
        };
        if matches(&filter) {
            return Ok(());
        }
        let pattern = shown(filter.pattern());
        let nearest = nearest(filter.pattern(), functions);
        let remedy = match &nearest[..] {
            [] => "no function has a similar name".to_owned(),
            names => format!("nearest: {}", names.join(", ")),
        };
        let sentence = anyhow!("nothing matches --filter '{pattern}'; {remedy}");
        Err(Failure::new(BAD_INPUT, sentence))
    }
}

/// The functions whose names are most similar to the pattern, the most similar first.
pub fn nearest<'a>(pattern: &str, functions: impl Iterator<Item = &'a str>) -> Vec<String> {
    let pattern = pattern.to_lowercase();
    let similarity = |function: &str| {
        let function = function.to_lowercase();
        let last = function.rsplit("::").next().unwrap_or_default();
        let whole = strsim::jaro_winkler(&pattern, &function);
        whole.max(strsim::jaro_winkler(&pattern, last))
    };
    let functions: BTreeSet<&str> = functions.collect();
    let mut similar: Vec<(f64, &str)> = functions
        .into_iter()
        .map(|function| (similarity(function), function))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    similar.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let names = similar.iter().take(MAX_PROPOSED);
    names
        .map(|(_, function)| shown(function).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_resemble_the_pattern_are_proposed() {
        let functions = ["json::parse_header", "json::parse_body", "main", "free"];
        assert_eq!(
            nearest("parse_haeder", functions.into_iter()),
            ["json::parse_header", "json::parse_body"]
        );
        assert!(nearest("zzz", functions.into_iter()).is_empty());
    }
}
