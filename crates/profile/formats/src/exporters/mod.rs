//! Exporters of stack sets and recordings. An exporter is a module here and an entry in
//! [`EXPORTERS`].

mod cells;
mod csv;
mod curve;
pub(crate) mod dhat;
mod firefox;
mod folded;
pub(crate) mod groups;
mod heaptrack;
mod input;
mod json;
mod merged;
pub(crate) mod modules;
pub(crate) mod naming;
mod perfetto;
pub(crate) mod pprof;
mod speedscope;
mod stacks;

use std::io::Write;

use allotrope_profile::{Metric, StackSet};

use crate::error::ExportError;

/// The lines of a file's beginning, without one that may go on.
fn complete_lines(head: &str) -> impl Iterator<Item = &str> {
    let end = head.rfind('\n').map_or(0, |end| end + 1);
    head.get(..end).unwrap_or_default().lines()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

pub use input::{Events, Input, Recorded};
pub use pprof::write_pprof;

/// Writes stacks, or a recording, in one format.
pub trait Exporter: Sync {
    /// The name of the format on the command line.
    fn name(&self) -> &'static str;
    /// One line: the format, and the programs that open it.
    fn description(&self) -> &'static str;
    /// The usual file name extension, without a dot.
    fn extension(&self) -> &'static str;
    /// What the format is made of, apart from stacks and their figures.
    fn wanted(&self) -> Wanted {
        Wanted::Stacks
    }
    /// Fails if the input lacks something without which the format has no meaning.
    fn check(&self, _input: &Input<'_>) -> Result<(), ExportError> {
        Ok(())
    }
    /// Notes for the user on what the format cannot express of this input, a sentence each.
    fn notes(&self, _input: &Input<'_>) -> Vec<String> {
        Vec::new()
    }
    /// How a file's name must end for its viewer to open it.
    fn suffix(&self) -> Option<&'static str> {
        None
    }
    /// Whether the format is no text, which a terminal cannot show.
    fn is_binary(&self) -> bool {
        false
    }
    /// Whether a file that begins so was written by this exporter, as far as that can be seen:
    /// by a mark where the format has a place for one, else by its form. `head` may end
    /// anywhere.
    fn is_own(&self, head: &[u8]) -> bool;
    /// Writes the input, which passed [`Self::check`]. Equal inputs give equal output.
    fn write(
        &self,
        input: &Input<'_>,
        options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError>;
}

/// What a format is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Stacks and their figures.
    Stacks,
    /// The time tables of recordings, too.
    Times,
    /// The single events of recordings, too.
    Events,
}

/// Options of an export.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions {
    /// The metric, for formats with one number a stack.
    pub metric: Metric,
    /// Keep the frames that start the program or a thread, in formats that leave them out.
    pub all_frames: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            metric: Metric::Allocations,
            all_frames: false,
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
    &csv::Csv,
    &speedscope::Speedscope,
    &firefox::Firefox,
    &perfetto::Perfetto,
    &heaptrack::Heaptrack,
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
