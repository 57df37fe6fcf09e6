//! The sections of a report for people, as blocks: sentences, lists, tables and commands. Both
//! forms, text and Markdown, print the same blocks.

mod markdown;
mod sections;
mod text;

pub use markdown::write as write_markdown;
pub use text::write as write_text;

use crate::report::Report;

/// A document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub(crate) title: String,
    pub(crate) sections: Vec<Section>,
}

/// A section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// 1, or 2 for a section within one.
    pub(crate) level: usize,
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

/// A part of a section. Names in it may be hostile: both forms escape them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    /// A sentence or more.
    Text(String),
    /// Sentences that belong together.
    List(Vec<String>),
    /// Numbers, with names in the last column.
    Table {
        /// The titles of the columns. Cells of all but the last column are aligned at the
        /// right.
        columns: Vec<&'static str>,
        rows: Vec<Vec<String>>,
        /// Rows that were left out.
        more: usize,
    },
    /// Lines for a shell.
    Commands(Vec<String>),
}

impl Document {
    /// The document of a report, with at most `top` rows in each table.
    pub fn new(report: &Report, top: usize) -> Self {
        sections::document(report, top)
    }
}
