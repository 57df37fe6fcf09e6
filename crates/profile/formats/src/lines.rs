//! Reads a text file as numbered lines of bounded length.

use std::borrow::Cow;
use std::io::{BufRead, Read};

use memchr::memchr;

use crate::budget::Budget;
use crate::error::{Fault, Location, Problem};

/// The longest line in bytes: a folded stack of 4,096 frames with names of 4
/// KiB.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// Reads lines in order.
pub(crate) struct Lines<'a> {
    input: &'a mut dyn BufRead,
    budget: Budget,
    /// Bytes of the last line that are still in the buffer.
    shown: usize,
    /// A line that is in several buffers.
    line: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    /// The lines of `input`, whose reader may use this budget.
    pub fn new(input: &'a mut dyn BufRead, budget: &Budget) -> Self {
        Self {
            input,
            budget: budget.clone(),
            shown: 0,
            line: Vec::new(),
            number: 0,
        }
    }

    /// What the reader of the lines may use.
    pub fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// The next line without its line ending; `None` at the end of the file.
    pub fn next_bytes(&mut self) -> Result<Option<&[u8]>, Fault> {
        self.input.consume(std::mem::take(&mut self.shown));
        self.number += 1;
        let taken = self.budget.take_record();
        taken.map_err(|problem| self.fault(problem))?;
        // Nearly all lines are whole in the buffer, and need not be copied.
        let end = self.input.fill_buf().map(|buffer| memchr(b'\n', buffer));
        let end = end.map_err(|error| self.fault(error))?;
        let line = match end {
            Some(end) if end < MAX_LINE => {
                self.shown = end + 1;
                let buffer = self.input.fill_buf().map_err(|error| Fault {
                    location: Location::Line(self.number),
                    problem: error.into(),
                })?;
                &buffer[..end]
            }
            _ => match self.copied()? {
                true => &self.line,
                false => return Ok(None),
            },
        };
        let ending = line.iter().rev();
        let ending = ending.take_while(|byte| matches!(byte, b'\n' | b'\r'));
        Ok(Some(&line[..line.len() - ending.count()]))
    }

    /// Copies the next line, which the buffer does not have as a whole; `false` at the end.
    fn copied(&mut self) -> Result<bool, Fault> {
        self.line.clear();
        let read = (&mut *self.input)
            .take(MAX_LINE as u64 + 1)
            .read_until(b'\n', &mut self.line)
            .map_err(|error| self.fault(error))?;
        if read > MAX_LINE {
            return Err(self.fault(Problem::LineTooLong(MAX_LINE)));
        }
        Ok(read > 0)
    }

    /// The next line as text; invalid UTF-8 is replaced.
    pub fn next_text(&mut self) -> Result<Option<Cow<'_, str>>, Fault> {
        Ok(self.next_bytes()?.map(String::from_utf8_lossy))
    }

    /// A problem in the last line that was read.
    pub fn fault(&self, problem: impl Into<Problem>) -> Fault {
        Fault {
            location: Location::Line(self.number),
            problem: problem.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_no_line_endings() {
        let mut input: &[u8] = b"a\r\n\nb\xff";
        let mut lines = Lines::new(&mut input, &Budget::default());
        let mut all = Vec::new();
        while let Some(line) = lines.next_text().unwrap() {
            all.push(line.into_owned());
        }
        assert_eq!(all, ["a", "", "b\u{fffd}"]);
    }

    /// With buffers of each size, lines are in one buffer or in several.
    #[test]
    fn lines_are_the_same_whatever_the_buffer() {
        let text = b"a;b 1\n\n\r\nlong long line 22\nc\r\r\n\xff\nend";
        let expected = ["a;b 1", "", "", "long long line 22", "c", "\u{fffd}", "end"];
        for size in 1..=text.len() {
            let mut input = std::io::BufReader::with_capacity(size, &text[..]);
            let mut lines = Lines::new(&mut input, &Budget::default());
            for (number, expected) in (1..).zip(expected) {
                assert_eq!(lines.next_text().unwrap().unwrap(), expected, "{size}");
                assert_eq!(lines.fault(Problem::Empty).location, Location::Line(number));
            }
            assert!(lines.next_text().unwrap().is_none());
            assert!(lines.next_text().unwrap().is_none());
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut input = std::io::BufReader::new(std::io::repeat(b'x'));
        let fault = Lines::new(&mut input, &Budget::default())
            .next_bytes()
            .unwrap_err();
        assert_eq!(fault.location, Location::Line(1));
        assert!(matches!(fault.problem, Problem::LineTooLong(MAX_LINE)));
    }
}
