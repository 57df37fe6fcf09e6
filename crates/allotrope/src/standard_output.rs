//! What the command prints for its reader. A reader that has read enough (`|
//! head`) ends the printing quietly; anything else that stops it is a failure.

use std::io::{self, BufWriter, ErrorKind, Write};

use anyhow::Context;

use crate::exit_status::{FAILED, Failure, WithStatus};

/// Lets `write` print.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut output = BufWriter::new(io::stdout().lock());
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
