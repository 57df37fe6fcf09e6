//! Width and colours of text, and sentences in lines. The caller queries the terminal, not this
//! file.

use crate::{columns, cut_middle, shown, shown_with_tabs, wrap};

/// Narrower lines are not made.
const MIN_WIDTH: usize = 40;

/// Width and colours of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours may be used.
    pub color: bool,
    /// Columns; lines are never longer. Values below 40 count as 40.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            color: false,
            width: 80,
        }
    }
}

/// The role of a piece of text, which has a colour, and a mark in Markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// None.
    #[default]
    Plain,
    /// The title of a section or table, or what is important.
    Title,
    /// The name of a function.
    Function,
    /// A source location, and what else is secondary.
    Location,
    /// A warning.
    Warning,
    /// Something passed.
    Good,
    /// Something failed.
    Bad,
    /// A name, a path or a command.
    Code,
    /// Advice.
    Emphasis,
}

impl Style {
    /// Without colours.
    pub fn plain(width: usize) -> Self {
        Self {
            color: false,
            width,
        }
    }

    /// The width of lines.
    pub fn columns(&self) -> usize {
        self.width.max(MIN_WIDTH)
    }

    /// The text in the colour of its role (ECMA-48 SGR), if colours may be used.
    pub fn paint(&self, role: Role, text: &str) -> String {
        let code = match role {
            Role::Plain | Role::Code | Role::Emphasis => "",
            Role::Title => "1",
            Role::Function => "36",
            Role::Location => "2",
            Role::Warning => "33",
            Role::Good => "32",
            Role::Bad => "31",
        };
        if !self.color || text.is_empty() || code.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// The escaped text in lines; the first one begins with `first`, the others with `rest`. They
    /// are broken between words; of a wider word the middle is left out, but not of a command in
    /// backticks, which is to be pasted.
    pub fn fitted(&self, text: &str, [first, rest]: [&str; 2], role: Role) -> Vec<String> {
        let room = self.room([first, rest]);
        let lines = wrap(shown(text).trim(), ["", ""], room).into_iter();
        let lines = lines.map(|line| match line.contains(' ') {
            true => line,
            false => cut_middle(&line, room),
        });
        self.indented(lines, [first, rest], role)
    }

    /// As [`Style::fitted`], but no word is cut, for paths are to be pasted, too, and tabs stay.
    pub fn wrapped(&self, text: &str, indents: [&str; 2], role: Role) -> Vec<String> {
        let lines = wrap(&shown_with_tabs(text), ["", ""], self.room(indents));
        self.indented(lines.into_iter(), indents, role)
    }

    /// Terms in a column, each with its text beside it, in lines as those of [`Style::fitted`].
    pub fn terms(&self, terms: &[(impl AsRef<str>, impl AsRef<str>)]) -> Vec<String> {
        let shown = terms
            .iter()
            .map(|(term, text)| (shown(term.as_ref()), text));
        let widest = shown.clone().map(|(term, _)| columns(&term)).max();
        let widest = widest.unwrap_or(0);
        let rest = " ".repeat(2 + widest + 2);
        let lines = shown.flat_map(|(term, text)| {
            let pad = widest - columns(&term);
            let first = format!("  {term}{:pad$}  ", "");
            self.fitted(text.as_ref(), [&first, &rest], Role::Plain)
        });
        lines.collect()
    }

    fn room(&self, indents: [&str; 2]) -> usize {
        let [first, rest] = indents.map(columns);
        self.columns().saturating_sub(first.max(rest))
    }

    fn indented(
        &self,
        lines: impl Iterator<Item = String>,
        [first, rest]: [&str; 2],
        role: Role,
    ) -> Vec<String> {
        let indents = std::iter::once(first).chain(std::iter::repeat(rest));
        let lines = indents.zip(lines);
        lines
            .map(|(indent, line)| format!("{indent}{}", self.paint(role, &line)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_escaped_wrapped_and_coloured() {
        let style = Style {
            color: true,
            width: 0,
        };
        let text = format!("one\x1b[2J {} `a {}`", "x".repeat(60), "y".repeat(60));
        assert_eq!(
            style.fitted(&text, ["! ", "  "], Role::Warning),
            [
                "! \x1b[33mone\\x1b[2J\x1b[0m".to_owned(),
                format!("  \x1b[33m{}…{}\x1b[0m", "x".repeat(18), "x".repeat(19)),
                format!("  \x1b[33m`a {}`\x1b[0m", "y".repeat(60)),
            ]
        );
        let terms = [("漢", "one"), ("term", &*"two ".repeat(9))];
        assert_eq!(
            Style::plain(40).terms(&terms),
            [
                "  漢    one".to_owned(),
                format!("  term  {}two", "two ".repeat(7)),
                "        two".to_owned(),
            ]
        );
        let whole = style.wrapped(&text, ["", ""], Role::Plain);
        assert_eq!(whole[1], "x".repeat(60));
    }
}
