//! `allotrope report --flamegraph`.

use std::path::Path;

use allotrope_profile::{Metric, StackSet};
use allotrope_report::flame_graph;
use anyhow::anyhow;

use super::arguments::Arguments;
use crate::exit_status::{BAD_INPUT, FINE, Failure};
use crate::replacing;
use crate::to_write::ToWrite;

/// The file of a flame graph.
pub fn file<'a>(arguments: &Arguments, path: &'a Path) -> ToWrite<'a> {
    ToWrite {
        path,
        kind: replacing::FLAME_GRAPH,
        force: arguments.force,
    }
}

/// Writes a flame graph of the stacks that match the filter; `about`: what part of the recording
/// they are.
pub fn write(
    arguments: &Arguments,
    path: &Path,
    mut set: StackSet,
    metric: Metric,
    about: Option<&str>,
    output: &Path,
) -> Result<u8, Failure> {
    if !set.known.has(metric) {
        let sentence = anyhow!("what is drawn does not have {}", metric.words());
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let filter = arguments.filter.filter();
    if let Some(filter) = &filter {
        set.filter(filter);
    }
    let pattern = filter.map(|filter| format!("stacks with {}", filter.pattern()));
    let about: Vec<&str> = about.into_iter().chain(pattern.as_deref()).collect();
    let about = (!about.is_empty()).then(|| about.join("; "));
    file(arguments, output).create([&path.to_owned()], |out| {
        flame_graph::write(&set, metric, about.as_deref(), out)
    })?;
    Ok(FINE)
}
