//! What the command prints for its reader. A reader that has read enough (`|
//! head`) ends the printing quietly; anything else that stops it is a failure.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use anyhow::Context;
use rustix::io::Errno;

use crate::exit_status::{FAILED, Failure, WithStatus};

/// The standard output without what [`StdoutLock`] does for lines: it looks for the
/// last newline in all that it is given, which for JSON is one long line.
struct Unbuffered(StdoutLock<'static>);

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::io::write(&self.0, bytes) {
            // There is nobody to read it, which is no failure for `StdoutLock` either.
            Err(Errno::BADF) => Ok(bytes.len()),
            written => Ok(written?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Lets `write` print.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut output = Unbuffered(io::stdout().lock());
    // What was printed otherwise comes first.
    let _ = output.flush();
    let mut output = BufWriter::new(output);
    match write(&mut output).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            // What is still in the buffer is not to be tried again.
            let _ = output.into_parts();
            Ok(())
        }
        result => result
            .context("cannot write to the standard output")
            .status(FAILED),
    }
}
