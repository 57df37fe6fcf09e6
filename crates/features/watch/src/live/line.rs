//! A line of the view: spans of text, each in a style, and how a terminal gets them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A colour of a terminal's own palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Bright black.
    Grey,
    /// Red.
    Red,
    /// Yellow.
    Yellow,
}

/// How text looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Bold.
    pub bold: bool,
    /// Not that of the terminal.
    pub colour: Option<Colour>,
}

/// Text in one style.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// The text; names in it are escaped.
    pub text: String,
    /// Its style.
    pub style: Style,
}

/// A line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(pub Vec<Span>);

impl Line {
    /// A line in one style.
    pub(super) fn styled(text: String, style: Style) -> Self {
        Self(vec![Span { text, style }])
    }

    /// The line in at most this many columns, with the control sequences of its styles (ECMA-48,
    /// "SGR").
    pub fn encoded(&self, columns: usize) -> String {
        let mut line = String::new();
        let mut left = columns;
        for span in &self.0 {
            let text = span.cut(&mut left);
            let colour = span.style.colour.map(|it| match it {
                Colour::Grey => "90",
                Colour::Red => "31",
                Colour::Yellow => "33",
            });
            let codes = span.style.bold.then_some("1").into_iter().chain(colour);
            let codes = codes.collect::<Vec<_>>().join(";");
            match codes.is_empty() {
                true => line.push_str(&text),
                false => line.push_str(&format!("\x1b[{codes}m{text}\x1b[0m")),
            }
        }
        line
    }
}

impl Span {
    /// The text in at most `left` columns, of which those that it takes are subtracted.
    fn cut(&self, left: &mut usize) -> String {
        let mut text = String::new();
        for c in self.text.chars().filter(|it| !it.is_control()) {
            let Some(rest) = left.checked_sub(c.width().unwrap_or(0)) else {
                *left = 0;
                break;
            };
            *left = rest;
            text.push(c);
        }
        text
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::styled(text, Style::default())
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The columns of a text.
pub(super) fn wide(text: &str) -> usize {
    text.width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_columns() {
        let line = Line::from("a漢字é");
        for (columns, text) in [(6, "a漢字é"), (5, "a漢字"), (4, "a漢"), (1, "a"), (0, "")] {
            assert_eq!(line.encoded(columns), text);
        }
        // A combining character has no column of its own.
        assert_eq!(Line::from("e\u{301}x").encoded(1), "e\u{301}");
    }

    #[test]
    fn styles_end_with_their_text() {
        let red = Style {
            bold: true,
            colour: Some(Colour::Red),
        };
        let mut line = Line::styled("grows".to_owned(), red);
        line.0.push(Span {
            text: " f\x1b[2J".to_owned(),
            style: Style::default(),
        });
        assert_eq!(line.encoded(80), "\x1b[1;31mgrows\x1b[0m f[2J");
    }
}
