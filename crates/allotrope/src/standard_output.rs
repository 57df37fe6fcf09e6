//! Printing to the standard output. A reader that closes its end of the pipe
//! (`| head`) ends the printing without an error; any other error is a failure.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use anyhow::Context;
use rustix::io::Errno;

use crate::exit_status::{FAILED, Failure, WithStatus};

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
    match write(&mut output).and_then(|()| output.flush()) {
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
