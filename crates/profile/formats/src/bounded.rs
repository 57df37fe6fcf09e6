//! Reads at most as much as the limits of a file allow: an uncompressed file, or what comes out
//! of a decompressor.

use std::io::{self, BufRead, Read};

use crate::budget::Budget;
use crate::limits::{Excess, Limits};

/// A reader that fails after the bytes that are allowed.
pub(crate) struct Bounded<R> {
    input: R,
    left: u64,
    budget: Budget,
}

impl<R> Bounded<R> {
    /// Reads at most the unpacked data that the budget allows, from `input`.
    pub fn new(input: R, budget: &Budget) -> Self {
        Self {
            input,
            left: budget.limits().input(),
            budget: budget.clone(),
        }
    }
}

/// Reads at most the unpacked data that the limits allow; more is an error that says so. For
/// readers of other crates.
pub fn bounded(input: impl BufRead, limits: Limits) -> impl BufRead {
    Bounded::new(input, &Budget::new(limits))
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let amount = available.len().min(buffer.len());
        buffer[..amount].copy_from_slice(&available[..amount]);
        self.consume(amount);
        Ok(amount)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let available = self.input.fill_buf()?;
        // A file may end exactly at the limit.
        if self.left == 0 && !available.is_empty() {
            let exceeded = self.budget.exceed(Excess::Input);
            return Err(io::Error::other(exceeded.to_string()));
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        Ok(&available[..available.len().min(most)])
    }

    fn consume(&mut self, amount: usize) {
        self.left = self.left.saturating_sub(amount as u64);
        self.input.consume(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_is_allowed_is_read_and_no_more() {
        let budget = Budget::new(Limits::of_input(4));
        let mut text = Vec::new();
        let read = Bounded::new(&b"abcd"[..], &budget).read_to_end(&mut text);
        assert_eq!((read.unwrap(), &text[..]), (4, &b"abcd"[..]));
        assert_eq!(budget.exceeded(), None);
        text.clear();
        let read = Bounded::new(&b"abcde"[..], &budget).read_to_end(&mut text);
        assert!(read.is_err());
        assert_eq!(text, b"abcd");
        assert_eq!(budget.exceeded().unwrap().excess, Excess::Input);
    }
}
