//! Messages on the standard error output. They contain names of files, programs
//! and tests, and a name may contain escape sequences: control characters are
//! escaped. Commands of CI systems, whose logs have this output, too, are broken up.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use allotrope_text::{shown, shown_lines, without_commands, wrap};

/// Messages that wait while a screen is up; `None`: they are printed at once.
static HELD: Mutex<Option<Held>> = Mutex::new(None);

#[derive(Default)]
struct Held {
    /// All, to be printed at the end.
    all: Vec<String>,
    /// Messages that [`unseen`] has not returned yet.
    unseen: Vec<String>,
}

/// Largest number of messages that wait; later ones replace the oldest.
const MAX_HELD: usize = 100;

/// Makes messages of one line wait from now on, because a screen is up.
pub fn hold() {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.get_or_insert_default();
}

/// The messages that wait and have come since the last call, for the screen.
pub fn unseen() -> Vec<String> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let held = held.as_mut().map(|it| std::mem::take(&mut it.unseen));
    held.unwrap_or_default()
}

/// Prints the messages that have waited, and those that come at once.
pub fn release() {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    held.into_iter().flat_map(|it| it.all).for_each(print);
}

/// Prints a message of one line.
pub fn print(message: impl Display) {
    let message = message.to_string();
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    match held.as_mut() {
        Some(held) => {
            for list in [&mut held.all, &mut held.unseen] {
                if list.len() == MAX_HELD {
                    list.remove(0);
                }
                list.push(message.clone());
            }
        }
        // A terminal that has gone is no reason to panic.
        None => {
            let width = terminal_size::terminal_size_of(io::stderr());
            let width = width.map(|(width, _)| usize::from(width.0));
            let _ = writeln!(io::stderr(), "{}", lines(&message, width));
        }
    }
}

/// A message as it is printed: one line, or lines of at most this width for a terminal.
fn lines(message: &str, width: Option<usize>) -> String {
    let line = format!("allotrope: {}", shown(message));
    let lines = match width {
        Some(width) => wrap(&line, ["", "  "], width).join("\n"),
        None => line,
    };
    without_commands(&lines).into_owned()
}

/// Prints a message that may have several lines, such as a build's output.
pub fn print_lines(message: impl Display) {
    let message = message.to_string();
    // As above.
    let message = shown_lines(&message);
    let _ = writeln!(io::stderr(), "allotrope: {}", without_commands(&message));
}

/// An error and its causes as one sentence. A cause that is part of what is said already is not
/// repeated.
pub fn sentence(error: &anyhow::Error) -> String {
    let mut all = String::new();
    for part in error.chain().map(|it| without_error_number(it.to_string())) {
        if all.is_empty() {
            all = part;
        } else if !all.contains(&part) {
            all = format!("{all}: {part}");
        }
    }
    all
}

/// The text without what the standard library adds to the words of the C library.
fn without_error_number(mut text: String) -> String {
    const NUMBER: &str = " (os error ";
    while let Some(at) = text.find(NUMBER) {
        let Some(end) = text[at..].find(')') else {
            break;
        };
        text.replace_range(at..=at + end, "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let error =
            anyhow::anyhow!("no such file").context("cannot read x: no such file; name one");
        assert_eq!(sentence(&error), "cannot read x: no such file; name one");
        let error = anyhow::anyhow!("no such file (os error 2)").context("cannot read x");
        assert_eq!(sentence(&error), "cannot read x: no such file");
    }

    #[test]
    fn a_message_is_one_line_except_on_a_terminal() {
        let message = "warning: a\nb `allotrope report x` is there";
        let line = "allotrope: warning: a\\nb `allotrope report x` is there";
        assert_eq!(lines(message, None), line);
        assert_eq!(
            lines(message, Some(33)),
            "allotrope: warning: a\\nb\n  `allotrope report x` is there"
        );
    }

    #[test]
    fn a_message_has_no_commands() {
        let line = lines("no file ##vso[x]y ::z", Some(30));
        assert_eq!(line, "allotrope: no file ##vso\\[x]y\n  :\\:z");
    }
}
