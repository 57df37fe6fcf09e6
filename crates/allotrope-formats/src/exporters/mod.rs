//! What a set of stacks can be written as. An exporter is one file here and
//! one line in [`EXPORTERS`].

pub(crate) mod dhat;
mod folded;
mod groups;
mod json;
mod merged;
mod naming;
mod pprof;
mod stacks;

use std::io::Write;

use allotrope_profile::{Metric, StackSet};

use crate::error::ExportError;

/// Writes a set of stacks in one format.
pub trait Exporter: Sync {
    /// The name that people ask for it by.
    fn name(&self) -> &'static str;
    /// What it is and what opens it, in one line.
    fn description(&self) -> &'static str;
    /// The usual end of its files' names, without a dot before it.
    fn extension(&self) -> &'static str;
    /// Writes the whole set. The output is the same for the same set.
    fn write(
        &self,
        set: &StackSet,
        options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError>;
}

/// What an exporter is told besides the set.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions {
    /// The metric to write, for formats that hold one number a stack.
    pub metric: Metric,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            metric: Metric::Allocations,
        }
    }
}

/// All exporters.
pub const EXPORTERS: &[&dyn Exporter] = &[
    &folded::Folded,
    &stacks::Stacks,
    &dhat::Dhat,
    &pprof::Pprof,
    &json::Json,
];

/// The exporter of a name.
pub fn exporter(name: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS.iter().copied().find(|e| e.name() == name)
}

/// Refuses to write figures that the source does not have.
fn require(set: &StackSet, metric: Metric) -> Result<(), ExportError> {
    if set.known.has(metric) {
        Ok(())
    } else {
        Err(ExportError::Unknown(metric))
    }
}

#[cfg(test)]
mod tests;
