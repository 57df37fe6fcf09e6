//! `allotrope show FILE --why RULE`: the candidates of a rule with the numbers beside its limits.

use allotrope_attribution::Attributed;
use allotrope_findings::{Rule, Tried, Why, explain};
use allotrope_report::text::{self, Screen, Subject, TextOptions};
use allotrope_report::write_why_json;

use super::Format;
use crate::exit_status::Failure;
use crate::findings::{self, FindingArguments};
use crate::pager::PagerArguments;
use crate::standard_output;

/// Most candidates of a rule that are shown.
const MOST: usize = 3;
/// In place of a rule: all of them.
const ALL: &str = "all";

/// The rules that are explained.
#[derive(Debug, Clone)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// The rule of this name, or `all`.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            ALL => Ok(Self(Rule::ALL.to_vec())),
            name => match findings::parse(name) {
                Ok(rule) => Ok(Self(vec![rule])),
                Err(sentence) => Err(format!("{sentence}; {ALL} explains each of them")),
            },
        }
    }
}

/// Prints why the rules have a finding or none, about all sites or those of a subject.
pub fn print(
    screen: &Screen<'_>,
    rules: &Rules,
    subject: Option<&Subject<'_>>,
    (arguments, options): (&FindingArguments, &TextOptions),
    (format, pager): (Format, PagerArguments),
) -> Result<(), Failure> {
    let why = Why {
        rules: rules.0.iter().copied().collect(),
        sites: subject.map(|subject| subject.sites.iter().copied().collect()),
        process: options.process,
        most: MOST,
    };
    let tried = tried(screen.attributed, &why, arguments, options)?;
    let explained = (&*rules.0, &*tried);
    let about = subject.map(|subject| &*subject.title);
    match format {
        Format::Json => standard_output::print(|output| {
            write_why_json(screen.attributed.profile, explained, about, output)
        }),
        Format::Text => {
            pager.print(|output| text::write_why(screen, explained, about, options, output))
        }
    }
}

fn tried(
    attributed: &Attributed<'_>,
    why: &Why,
    arguments: &FindingArguments,
    options: &TextOptions,
) -> Result<Vec<Tried>, Failure> {
    let how = arguments.options(&options.suppressions)?;
    Ok(explain(attributed, &how, why))
}
