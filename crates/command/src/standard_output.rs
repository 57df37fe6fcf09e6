//! Printing to the standard output. A reader that closes its end of the pipe
//! (`| head`) ends the printing without an error; any other error is a failure.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use allotrope_text::document::Document;
use allotrope_text::{LogWriter, Style, columns};
use anyhow::Context;
use rustix::io::Errno;

use crate::exit_status::{FAILED, Failure, WithStatus};
use crate::limited_output::Limited;

/// The standard output without the line buffer of [`StdoutLock`], which would search
/// all bytes of JSON's one long line for a newline.
struct Unbuffered(StdoutLock<'static>);

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::io::write(&self.0, bytes) {
            // The stream is closed. `StdoutLock` ignores that as well.
            Err(Errno::BADF) => Ok(bytes.len()),
            written => Ok(written?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Calls `write` with a buffered standard output.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut output = Unbuffered(io::stdout().lock());
    // What was printed through `print!` comes first.
    let _ = output.flush();
    let mut output = BufWriter::new(output);
    match write(&mut Limited::new(&mut output)).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            // Dropping the writer would write the rest of its buffer.
            let _ = output.into_parts();
            Ok(())
        }
        result => result
            .context("cannot write to the standard output")
            .status(FAILED),
    }
}

/// Same as [`print()`], for lines that may be in the log of a CI system: names in them give it no
/// commands.
pub fn print_log(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    print(|output| write(&mut LogWriter::new(output)))
}

/// Same as [`print_log`], for text that people read: where the user's locale has only ASCII, other
/// characters are replaced.
pub fn print_text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    if !locale_is_ascii(|name| std::env::var(name).ok()) {
        return print_log(write);
    }
    let mut text = Vec::new();
    render_text(&mut text, write)?;
    print_log(|output| output.write_all(&text))
}

/// As [`print_text`], for a document.
pub fn print_document(document: &Document, style: Style) -> Result<(), Failure> {
    print_text(|out| document.write_text(style, out))
}

/// As [`print_text`], for text that has commands of its own for a CI system.
pub fn print_commands(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut text = Vec::new();
    render_text(&mut text, write)?;
    print(|output| output.write_all(&text))
}

/// Renders such text into `text`.
pub fn render_text(
    text: &mut Vec<u8>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    write(text)
        .context("cannot lay the text out")
        .status(FAILED)?;
    if locale_is_ascii(|name| std::env::var(name).ok()) {
        *text = ascii(&String::from_utf8_lossy(text)).into_bytes();
    }
    Ok(())
}

/// Whether the locale of the environment is the C locale, by name. Without any of the
/// variables it is, too, but then nobody chose it, as in containers: text stays as it is.
fn locale_is_ascii(variable: impl Fn(&str) -> Option<String>) -> bool {
    // In this order (POSIX, "Internationalization Variables").
    let chosen = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable);
    let locale = chosen.into_iter().find(|locale| !locale.is_empty());
    locale.is_some_and(|locale| locale == "C" || locale == "POSIX")
}

/// The text with each other character replaced by as many of ASCII as it has columns.
fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.replace('±', "+-").chars() {
        let one = match c {
            '\0'..='\x7f' => c,
            '…' => '~',
            '←' => '<',
            '→' | '▸' => '>',
            '·' | '–' | '•' => '-',
            '×' => 'x',
            'µ' => 'u',
            '│' | '┤' => '|',
            '└' => '+',
            '─' => '-',
            '▲' => '^',
            '▁' | '▂' => '.',
            '▃' | '▄' | '▅' => 'o',
            '▆' | '▇' | '█' => '#',
            c => {
                ascii.extend(std::iter::repeat_n(
                    '?',
                    columns(c.encode_utf8(&mut [0; 4])),
                ));
                continue;
            }
        };
        ascii.push(one);
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_the_c_locale_is_ascii() {
        assert_eq!(
            ascii("a ← b … c · 3 µs, ±5 × 2 é"),
            "a < b ~ c - 3 us, +-5 x 2 ?"
        );
        assert_eq!(ascii("漢a\u{301}│"), "??a|");
    }

    #[test]
    fn the_first_variable_that_is_set_chooses_the_locale() {
        let is_ascii = |variables: &[(&str, &str)]| {
            let variables = variables.to_owned();
            locale_is_ascii(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(is_ascii(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(is_ascii(&[("LC_ALL", ""), ("LC_CTYPE", "POSIX")]));
        assert!(is_ascii(&[("LANG", "C")]));
        assert!(!is_ascii(&[("LC_ALL", "C.UTF-8"), ("LANG", "C")]));
        assert!(!is_ascii(&[]));
    }
}
