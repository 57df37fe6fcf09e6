//! Messages on the standard error output. They contain names of files, programs
//! and tests, and a name may contain escape sequences: control characters are
//! escaped.

use std::fmt::Display;

use allotrope_text::{shown, shown_lines};

/// Prints a message of one line.
pub fn print(message: impl Display) {
    eprintln!("allotrope: {}", shown(&message.to_string()));
}

/// Prints a message that may have several lines, such as a build's output.
pub fn print_lines(message: impl Display) {
    eprintln!("allotrope: {}", shown_lines(&message.to_string()));
}
