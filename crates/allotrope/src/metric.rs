//! Metrics as values of command-line options: `--metric bytes`.

use allotrope_profile::Metric;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parses the name of a metric that the command line offers. Help and
/// completions list the names and what each counts.
pub fn parser() -> impl TypedValueParser<Value = Metric> {
    let values = Metric::OFFERED.map(|it| PossibleValue::new(it.name()).help(it.words()));
    PossibleValuesParser::new(values).try_map(|name| named(&name))
}

/// The offered metric of this name.
pub fn named(name: &str) -> Result<Metric, String> {
    Metric::named(name, &Metric::OFFERED).ok_or_else(|| format!("there is no metric {name}"))
}
