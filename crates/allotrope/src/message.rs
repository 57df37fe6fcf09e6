//! What the command says on the standard error output. Messages name files,
//! programs and tests, whose names may hold anything: they are shown and never
//! obeyed.

use std::fmt::Display;

use allotrope_text::{shown, shown_lines};

/// Says it on one line.
pub fn say(message: impl Display) {
    eprintln!("allotrope: {}", shown(&message.to_string()));
}

/// Says what may have lines of its own, such as a build's output.
pub fn say_lines(message: impl Display) {
    eprintln!("allotrope: {}", shown_lines(&message.to_string()));
}
