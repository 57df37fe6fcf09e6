//! Escapes text from outside before it is printed. Names of programs, files,
//! functions, threads, windows and tests come from files that anybody may have
//! written. Printed unescaped, they could control a terminal (control characters),
//! forge lines of a report or of a log (newlines), or look like other names
//! (bidirectional and invisible characters). All code that prints such a name calls one
//! of these functions:
//!
//! | destination | function |
//! | --- | --- |
//! | within a line | [`shown`], [`shown_bytes`]; [`Shown::shown`] for paths |
//! | text of several lines, such as a program's own output | [`shown_lines`] |
//! | a command that the reader may paste into a shell | [`word`], [`quoted`] |
//! | a whole text output, as a second filter | [`TextWriter`] |
//! | what a CI system may have in its log, after all of these | [`without_commands`], [`LogWriter`] |
//! | JSON | [`JsonFormatter`], [`to_json_writer`] |
//!
//! [`wrap`] and [`cut`] fit text into a number of columns, [`Style`] has the width and the colours
//! of an output, and [`document`] lays out tables, lists and headings, as text and as Markdown.
//!
//! A character that is not shown as it is becomes `\n`, `\t`, `\r`, `\x1b` or
//! `\u{202e}`, a byte that is not part of any UTF-8 character `\xff`. The
//! backslash itself stays as it is: the escaped form is for reading and is
//! never read back.
#![forbid(unsafe_code)]

mod columns;
mod commands;
pub mod document;
mod json;
pub mod numbers;
mod shell;
mod style;
mod wrap;
mod writer;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use columns::{columns, cut, cut_middle, cut_start};
pub use commands::{LogWriter, without_commands};
pub use json::{JsonFormatter, to_json_string, to_json_writer};
pub use shell::{quoted, word};
pub use style::{Role, Style};
pub use wrap::{words, wrap};
pub use writer::TextWriter;

/// Whether a character is printed unescaped: it has a glyph, combines with the one
/// before it, or is a space.
pub fn is_shown(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    match c {
        // Paragraph and line separators, the C1 line break.
        '\u{2028}' | '\u{2029}' | '\u{85}' => false,
        c if c.is_whitespace() => true,
        // Variation selectors: they choose the glyph of an emoji.
        '\u{fe0e}' | '\u{fe0f}' => true,
        // These have no glyph, although their category is not that of format characters
        // (Unicode's Default_Ignorable_Code_Point).
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0d}'
        | '\u{ffa0}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        c => is_printable(c),
    }
}

/// Whether the standard library's table lists the character as printable: it is no
/// control, format, surrogate, private-use or unassigned character.
fn is_printable(c: char) -> bool {
    // `escape_debug` escapes a combining character only at the start of a text.
    let mut buffer = [b'a'; 5];
    let length = c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..=length])
        .is_ok_and(|text| text.escape_debug().nth(1) != Some('\\'))
}

/// The text on one line: every character that [`is_shown`] refuses is escaped.
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, is_shown)
}

/// As [`shown`], but tabs stay: for a line of a program's output.
pub fn shown_with_tabs(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\t' || is_shown(c))
}

/// As [`shown`], but line breaks and tabs stay: for text of several lines.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t') || is_shown(c))
}

/// Same as [`shown`], but escapes bytes that are not UTF-8, too.
pub fn shown_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match text_of(bytes) {
        Cow::Borrowed(text) => shown(text),
        Cow::Owned(text) => Cow::Owned(shown(&text).into_owned()),
    }
}

/// Same as [`shown_bytes`], for a path.
pub fn shown_path(path: &Path) -> Cow<'_, str> {
    shown_bytes(path.as_os_str().as_bytes())
}

/// Same as [`shown_bytes`], for a string of the system.
pub fn shown_os(text: &OsStr) -> Cow<'_, str> {
    shown_bytes(text.as_bytes())
}

/// Names and paths as they are shown within a line.
pub trait Shown {
    /// See [`shown_bytes`].
    fn shown(&self) -> Cow<'_, str>;
}

impl Shown for Path {
    fn shown(&self) -> Cow<'_, str> {
        shown_path(self)
    }
}

impl Shown for OsStr {
    fn shown(&self) -> Cow<'_, str> {
        shown_os(self)
    }
}

impl Shown for str {
    fn shown(&self) -> Cow<'_, str> {
        shown(self)
    }
}

/// The text with only invalid UTF-8 bytes escaped: for storage, such as JSON or
/// another tool's format, not for display.
pub fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    Cow::Owned(text)
}

/// Same as [`text_of`], for a string of the system.
pub fn text_of_os(text: &OsStr) -> Cow<'_, str> {
    text_of(text.as_bytes())
}

/// Same as [`text_of`], for a path.
pub fn text_of_path(path: &Path) -> Cow<'_, str> {
    text_of(path.as_os_str().as_bytes())
}

fn escaped(text: &str, is_shown: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(|c| !is_shown(c)) else {
        return Cow::Borrowed(text);
    };
    let (head, rest) = text.split_at(first);
    let mut escaped = String::with_capacity(text.len() + 8);
    escaped.push_str(head);
    for c in rest.chars() {
        match c {
            c if is_shown(c) => escaped.push(c),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if c.is_ascii() => drop(write!(escaped, "\\x{:02x}", u32::from(c))),
            c => drop(write!(escaped, "\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests;
