//! Readers, one module for each format.

use allotrope_profile::StackSet;

pub(crate) mod bpftrace;
pub(crate) mod dhat;
pub(crate) mod dtrace;
pub(crate) mod folded;
pub(crate) mod heap_profile;
pub(crate) mod heaptrack;
pub(crate) mod heaptrack_print;
pub(crate) mod json;
mod json_input;
pub(crate) mod massif;
pub(crate) mod pprof;
mod protobuf;

/// The result of a format's reader.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub set: StackSet,
    pub notes: Vec<String>,
}

/// The start of a text from the file, for a message.
fn excerpt(text: &str) -> &str {
    const MAX_LENGTH: usize = 100;
    text.char_indices()
        .nth(MAX_LENGTH)
        .map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
pub(crate) mod tests;
