//! Shared by the tests of readers: parses a text, and prints stacks on a line
//! each.

use allotrope_profile::StackSet;

use crate::budget::Budget;
use crate::error::Fault;
use crate::lines::Lines;
use crate::readers::Parsed;

/// Parses a valid text.
pub(crate) fn parse(text: &str, read: fn(&mut Lines<'_>) -> Result<Parsed, Fault>) -> Parsed {
    let mut input = text.as_bytes();
    read(&mut Lines::new(&mut input, &Budget::default())).unwrap()
}

/// ``module`function+offset … = allocations``, innermost frame first.
pub(crate) fn describe(set: &StackSet) -> Vec<String> {
    let frame = |index: &u32| {
        let frame = &set.frames[*index as usize];
        let offset = frame
            .offset
            .map_or(String::new(), |offset| format!("+{offset}"));
        format!("{}`{}{offset}", frame.module, frame.function)
    };
    let stacks = set.stacks.iter().map(|stack| {
        let frames: Vec<String> = stack.frames.iter().map(frame).collect();
        format!("{} = {}", frames.join(" "), stack.figures[0])
    });
    stacks.collect()
}
