//! Exporters of stack sets. An exporter is a module here and an entry in
//! [`EXPORTERS`].

pub(crate) mod dhat;
mod folded;
pub(crate) mod groups;
mod json;
mod merged;
pub(crate) mod modules;
pub(crate) mod naming;
pub(crate) mod pprof;
mod stacks;

use std::io::Write;

use allotrope_profile::{Metric, StackSet};

use crate::error::ExportError;

pub use pprof::write_pprof;

/// Writes a set of stacks in one format.
pub trait Exporter: Sync {
    /// The name of the format on the command line.
    fn name(&self) -> &'static str;
    /// One line: the format, and the programs that open it.
    fn description(&self) -> &'static str;
    /// The usual file name extension, without a dot.
    fn extension(&self) -> &'static str;
    /// Notes for the user on what the format cannot express of this set, a sentence each.
    fn notes(&self, _set: &StackSet) -> Vec<String> {
        Vec::new()
    }
    /// Writes the set. Equal sets give equal output.
    fn write(
        &self,
        set: &StackSet,
        options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError>;
}

/// Options of an export.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions {
    /// The metric, for formats with one number a stack.
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

/// The exporter with this name.
pub fn exporter(name: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS.iter().copied().find(|e| e.name() == name)
}

/// Fails if the source does not have the metric.
fn require(set: &StackSet, metric: Metric) -> Result<(), ExportError> {
    if set.known.has(metric) {
        Ok(())
    } else {
        Err(ExportError::Unknown(metric))
    }
}

#[cfg(test)]
mod tests;
