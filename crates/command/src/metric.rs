//! Metrics as values of command-line options, such as `--metric bytes`.

use allotrope_profile::Metric;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parses the name of a metric that the command line offers. Help and
/// completions list the names and what each counts.
pub fn parser() -> impl TypedValueParser<Value = Metric> {
    let values = Metric::OFFERED.map(|it| PossibleValue::new(it.name()).help(it.words()));
    PossibleValuesParser::new(values).try_map(|name| named(&name))
}

/// The offered metric with this name.
pub fn named(name: &str) -> Result<Metric, String> {
    Metric::named(name, &Metric::OFFERED).ok_or_else(|| {
        let names = Metric::OFFERED.map(Metric::name).join(", ");
        format!("there is no metric {name}; the metrics are {names}")
    })
}
