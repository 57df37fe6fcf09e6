//! How large an output may be: as large as the memory that the command may take. Some outputs have
//! the names of all frames of each stack, and would make a file of any size from a small recording.

use std::io::{self, Write};

use allotrope_text::numbers::bytes;

use crate::memory;

/// An output that takes so many bytes and then fails.
pub struct Limited<W> {
    output: W,
    most: u64,
    left: u64,
}

impl<W: Write> Limited<W> {
    /// Takes as many bytes as the command may take memory; any number if that is not limited.
    pub fn new(output: W) -> Self {
        Self::to(output, memory::limited_to().unwrap_or(u64::MAX))
    }

    fn to(output: W, most: u64) -> Self {
        Self {
            output,
            most,
            left: most,
        }
    }
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if part.len() as u64 > self.left {
            return Err(io::Error::other(format!(
                "the output would have more than {}; --input-limit SIZE allows more",
                bytes(self.most)
            )));
        }
        let written = self.output.write(part)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_takes_as_much_as_is_allowed() {
        let mut written = Vec::new();
        let mut output = Limited::to(&mut written, 5);
        assert!(output.write_all(b"abc").is_ok());
        assert!(output.write_all(b"de").is_ok());
        let error = output.write_all(b"f").map_err(|it| it.to_string());
        assert!(error.is_err_and(|it| it.contains("more than 5 B; --input-limit")));
        assert_eq!(written, b"abcde");
    }
}
