//! Breaks up the commands that a CI system reads in the log of a job. A name of a window, test,
//! function or file may contain one, and whoever chose the name would set variables or outputs of
//! the job.
//!
//! | system | a command is | source |
//! | --- | --- | --- |
//! | GitHub Actions, Forgejo, Gitea | `::` at the start of a line, after blanks; `##[` anywhere | `ActionCommand` of <https://github.com/actions/runner> |
//! | Azure Pipelines | `##vso[` anywhere, `##[` at the start | `Command` of <https://github.com/microsoft/azure-pipelines-agent> |
//! | TeamCity | `##teamcity[` anywhere | its manual, "Service messages" |
//! | GitLab, Travis, Buildkite, Jenkins | a marker with control characters | those are escaped by [`shown`](crate::shown) and [`TextWriter`](crate::TextWriter) |
//!
//! So a backslash is put between the two colons, and before the bracket that follows `##` and a
//! word: `:\:set-output`, `##\[group]`, `##vso\[task.complete]`. No blank is put in: logs of
//! SwiftNIO's tests are read word by word. In Markdown, the backslash is not visible outside of
//! code.
//!
//! The runners compare as their locale's collation does, which ignores characters such as variation
//! selectors. So characters that are not ASCII do not end the blanks at the start of a line, or the
//! word after `##`.

use std::borrow::Cow;
use std::io::{self, Write};

/// The text with such commands broken up.
pub fn without_commands(text: &str) -> Cow<'_, str> {
    let mut scanner = Scanner::default();
    let mut without = String::new();
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        if scanner.completes(byte) {
            without.push_str(&text[done..at]);
            without.push('\\');
            done = at;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    without.push_str(&text[done..]);
    Cow::Owned(without)
}

/// Writes text or XML to `inner` with such commands broken up.
#[derive(Debug)]
pub struct LogWriter<W: Write> {
    inner: W,
    scanner: Scanner,
    is_xml: bool,
}

impl<W: Write> LogWriter<W> {
    /// A writer of text, at the start of a line.
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            scanner: Scanner::default(),
            is_xml: false,
        }
    }

    /// A writer of XML. Character references break up the commands, so that a parser reads the
    /// same values.
    pub fn of_xml(inner: W) -> Self {
        Self {
            is_xml: true,
            ..Self::new(inner)
        }
    }
}

impl<W: Write> Write for LogWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        let mut at = 0;
        while at < bytes.len() {
            if self.scanner.is_idle() {
                let rest = &bytes[at..];
                let next = rest.iter().position(|byte| Scanner::wakes(*byte));
                at += next.unwrap_or(rest.len());
                if at == bytes.len() {
                    break;
                }
            }
            let byte = bytes[at];
            if self.scanner.completes(byte) {
                self.inner.write_all(&bytes[done..at])?;
                done = at;
                if self.is_xml {
                    write!(self.inner, "&#{byte};")?;
                    done += 1;
                } else {
                    self.inner.write_all(b"\\")?;
                }
            }
            at += 1;
        }
        self.inner.write_all(&bytes[done..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Reads a text byte by byte.
#[derive(Debug, Default, Clone, Copy)]
struct Scanner {
    start: Start,
    hashes: Hashes,
    color: Color,
}

/// What the line has so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Blanks.
    #[default]
    Blank,
    /// Blanks and a colon.
    Colon,
    /// Anything else.
    Over,
}

/// What is before the next byte.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Hashes {
    #[default]
    None,
    One,
    /// At least two number signs, and maybe a word.
    Two,
}

/// The part of a colour sequence (ECMA-48 SGR) that was read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Color {
    #[default]
    None,
    Escape,
    Parameters,
}

impl Scanner {
    /// Whether only [`Scanner::wakes`] decides about the next byte.
    fn is_idle(&self) -> bool {
        self.start == Start::Over && self.hashes == Hashes::None && self.color == Color::None
    }

    /// Whether an idle scanner has to read this byte.
    fn wakes(byte: u8) -> bool {
        matches!(byte, b'\n' | b'\r' | b'#' | 0x1b)
    }

    /// Reads a byte. Whether a command would begin with it.
    fn completes(&mut self, byte: u8) -> bool {
        match (self.color, byte) {
            (Color::None, 0x1b) => {
                self.color = Color::Escape;
                return false;
            }
            (Color::Escape, b'[') => {
                self.color = Color::Parameters;
                return false;
            }
            (Color::Parameters, b'0'..=b'9' | b';') => return false,
            (Color::Parameters, b'm') => {
                self.color = Color::None;
                return false;
            }
            _ => self.color = Color::None,
        }
        let is_ignored = !byte.is_ascii();
        let (start, is_second_colon) = match (self.start, byte) {
            (_, b'\n' | b'\r') => (Start::Blank, false),
            (start, _) if is_ignored => (start, false),
            (Start::Blank, b' ' | b'\t' | 0x0b | 0x0c) => (Start::Blank, false),
            (Start::Blank, b':') => (Start::Colon, false),
            (Start::Colon, b':') => (Start::Over, true),
            _ => (Start::Over, false),
        };
        let (hashes, is_bracket) = match (self.hashes, byte) {
            (hashes, _) if is_ignored => (hashes, false),
            (Hashes::None, b'#') => (Hashes::One, false),
            (Hashes::One | Hashes::Two, b'#') => (Hashes::Two, false),
            (Hashes::Two, b'[') => (Hashes::None, true),
            (Hashes::Two, b'-' | b'_' | b'.') => (Hashes::Two, false),
            (Hashes::Two, byte) if byte.is_ascii_alphanumeric() => (Hashes::Two, false),
            _ => (Hashes::None, false),
        };
        (self.start, self.hashes) = (start, hashes);
        is_second_colon || is_bracket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text through the function and through the writer, in pieces of each size.
    fn broken_up(text: &str) -> String {
        let all = without_commands(text).into_owned();
        for size in 1..=text.len().max(1) {
            let mut written = Vec::new();
            let mut writer = LogWriter::new(&mut written);
            for piece in text.as_bytes().chunks(size) {
                writer.write_all(piece).expect("memory takes it");
            }
            assert_eq!(String::from_utf8_lossy(&written), all, "pieces of {size}");
        }
        assert_eq!(without_commands(&all), all, "once is enough");
        all
    }

    #[test]
    fn commands_are_broken_up() {
        for (text, expected) in [
            ("::set-output name=x::y", r":\:set-output name=x::y"),
            ("a\n \t::error::b", "a\n \t:\\:error::b"),
            ("a\r::error::b", "a\r:\\:error::b"),
            ("\u{a0}::error::b", "\u{a0}:\\:error::b"),
            (":\u{fe0f}:error::b", ":\u{fe0f}\\:error::b"),
            ("\u{1b}[31m::error::b", "\u{1b}[31m:\\:error::b"),
            ("\u{1b}::error::b", "\u{1b}:\\:error::b"),
            ("see ##[group]x", r"see ##\[group]x"),
            ("##vso[task.complete]x", r"##vso\[task.complete]x"),
            ("a ##teamcity[x 'y']", r"a ##teamcity\[x 'y']"),
            ("###[x] ####a.b-c_1[", r"###\[x] ####a.b-c_1\["),
            ("##v\u{fe0e}so[x]", "##v\u{fe0e}so\\[x]"),
            ("##\u{1b}[1m[x]", "##\u{1b}[1m\\[x]"),
            ("#\u{fe0f}#[x]", "#\u{fe0f}#\\[x]"),
            ("::::x", r":\:::x"),
        ] {
            assert_eq!(broken_up(text), expected);
        }
    }

    #[test]
    fn other_text_stays() {
        for text in [
            "",
            "std::vec::Vec<u8>::new",
            "a ::operator new",
            ": :x :",
            "### Allocations: 1 case [more](x)",
            "## [x] #[derive(Debug)] ##\n[x]",
            "|---:|:---:|",
            r":\: ##\[x]",
        ] {
            assert_eq!(broken_up(text), text);
        }
    }

    #[test]
    fn xml_has_the_same_values() {
        let mut written = Vec::new();
        let mut writer = LogWriter::of_xml(&mut written);
        let text = "<a b=\"##vso[x]\">\n::error::x</a>";
        writer.write_all(text.as_bytes()).expect("memory takes it");
        let expected = "<a b=\"##vso&#91;x]\">\n:&#58;error::x</a>";
        assert_eq!(String::from_utf8_lossy(&written), expected);
    }
}
