//! Documents of blocks: headings, sentences, lists, tables, text as it is. Each form, text for a
//! terminal and Markdown, prints the same blocks. Both forms escape what is in them: no name
//! controls a terminal or becomes markup. What a CI system may have in its log is
//! [`LogWriter`](crate::LogWriter)'s business.

mod markdown;
mod table;
mod terminal;

use std::io::{self, Write};

pub use table::{Column, Table, left, right};

use crate::shown;
use crate::style::{Role, Style};

/// A text on one line, in pieces with a role each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(Vec<(Role, String)>);

impl Text {
    /// A text in a role.
    pub fn of(role: Role, text: impl Into<String>) -> Self {
        Self(vec![(role, text.into())])
    }

    /// The text, followed by another one.
    pub fn and(mut self, role: Role, text: impl Into<String>) -> Self {
        self.0.push((role, text.into()));
        self
    }

    /// The characters, escaped.
    fn shown(&self) -> String {
        self.0.iter().map(|(_, text)| shown(text)).collect()
    }

    /// The role of its start.
    fn role(&self) -> Role {
        self.0.first().map_or(Role::Plain, |(role, _)| *role)
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self::of(Role::Plain, text)
    }
}

/// Blocks, in the order in which they are read.
#[derive(Debug, Clone, Default)]
pub struct Document(Vec<Block>);

/// A part of a document.
#[derive(Debug, Clone)]
enum Block {
    /// The title of what follows. The document's own is of level 1.
    Heading(usize, Text),
    /// Sentences.
    Sentences(Text),
    /// A sentence that limits what the document is worth.
    Warning(String),
    List(Vec<Text>),
    /// A list with numbers.
    Numbered(Vec<Text>),
    Table(Table),
    /// Distance between blocks, where there is none otherwise.
    Gap,
    /// Lines for a shell.
    Commands(Vec<String>),
    /// Lines that stay as they are.
    Lines(String),
    /// A part that is closed at first, where that is possible.
    Folded(String, Document),
}

impl Document {
    /// Appends a heading; the title of the document is of level 1.
    pub fn heading(&mut self, level: usize, text: impl Into<Text>) {
        self.0.push(Block::Heading(level, text.into()));
    }

    /// Appends sentences.
    pub fn text(&mut self, text: impl Into<Text>) {
        self.0.push(Block::Sentences(text.into()));
    }

    /// Appends a warning.
    pub fn warning(&mut self, text: impl Into<String>) {
        self.0.push(Block::Warning(text.into()));
    }

    /// Appends a list, if it has items.
    pub fn list(&mut self, items: impl IntoIterator<Item = impl Into<Text>>) {
        let items: Vec<Text> = items.into_iter().map(Into::into).collect();
        if !items.is_empty() {
            self.0.push(Block::List(items));
        }
    }

    /// Appends a list with numbers.
    pub fn numbered(&mut self, items: impl IntoIterator<Item = impl Into<Text>>) {
        let items = items.into_iter().map(Into::into).collect();
        self.0.push(Block::Numbered(items));
    }

    /// Appends a table.
    pub fn table(&mut self, table: Table) {
        self.0.push(Block::Table(table));
    }

    /// Appends a blank line in the text, where blocks are not apart as they are in Markdown.
    pub fn gap(&mut self) {
        self.0.push(Block::Gap);
    }

    /// Appends commands for a shell.
    pub fn commands(&mut self, commands: impl IntoIterator<Item = String>) {
        self.0.push(Block::Commands(commands.into_iter().collect()));
    }

    /// Appends lines that stay as they are.
    pub fn lines(&mut self, lines: impl Into<String>) {
        self.0.push(Block::Lines(lines.into()));
    }

    /// Appends a part that is closed at first.
    pub fn folded(&mut self, summary: impl Into<String>, part: Document) {
        self.0.push(Block::Folded(summary.into(), part));
    }

    /// Writes the document as text for a terminal.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_text(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        write_lines(out, terminal::lines(self, style))
    }

    /// Writes the document as Markdown (CommonMark with GitHub's tables).
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        markdown::write(self, out)
    }
}

/// Writes lines.
///
/// # Errors
/// Those of `out`.
pub fn write_lines(
    out: &mut dyn Write,
    lines: impl IntoIterator<Item = impl AsRef<str>>,
) -> io::Result<()> {
    let mut lines = lines.into_iter();
    lines.try_for_each(|line| writeln!(out, "{}", line.as_ref()))
}

#[cfg(test)]
mod tests;
