//! Reads a text file as numbered lines of bounded length.

use std::borrow::Cow;
use std::io::{BufRead, Read};

use crate::error::{Fault, Location, Problem};

/// The longest line in bytes: a folded stack of 4,096 frames with names of 4
/// KiB.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// Reads lines in order.
pub(crate) struct Lines<'a> {
    input: &'a mut dyn BufRead,
    line: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    pub fn new(input: &'a mut dyn BufRead) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
        }
    }

    /// The next line without its line ending; `None` at the end of the file.
    pub fn next_bytes(&mut self) -> Result<Option<&[u8]>, Fault> {
        self.line.clear();
        self.number += 1;
        let location = Location::Line(self.number);
        let read = (&mut *self.input)
            .take(MAX_LINE as u64 + 1)
            .read_until(b'\n', &mut self.line)
            .map_err(|error| Fault {
                location,
                problem: error.into(),
            })?;
        if read == 0 {
            return Ok(None);
        }
        if read > MAX_LINE {
            return Err(self.fault(Problem::LineTooLong(MAX_LINE)));
        }
        while let [.., b'\n' | b'\r'] = self.line[..] {
            self.line.pop();
        }
        Ok(Some(&self.line))
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
        let mut lines = Lines::new(&mut input);
        let mut all = Vec::new();
        while let Some(line) = lines.next_text().unwrap() {
            all.push(line.into_owned());
        }
        assert_eq!(all, ["a", "", "b\u{fffd}"]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut input = std::io::BufReader::new(std::io::repeat(b'x'));
        let fault = Lines::new(&mut input).next_bytes().unwrap_err();
        assert_eq!(fault.location, Location::Line(1));
        assert!(matches!(fault.problem, Problem::LineTooLong(MAX_LINE)));
    }
}
