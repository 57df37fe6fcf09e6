//! A connection on which an answer is written within a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::answer::Answer;

/// How much is read and dropped after a refusal, so that the client gets to read it.
const DRAINED: usize = 64 << 10;

/// A connection that gets its answer.
pub struct Connection {
    pub stream: TcpStream,
}

impl Connection {
    fn read(&mut self, part: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(remaining(deadline)?))?;
            match self.stream.read(part) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    pub fn send(&mut self, answer: &Answer, is_head: bool, deadline: Instant) -> io::Result<()> {
        self.write(answer.head().as_bytes(), deadline)?;
        match is_head {
            true => Ok(()),
            false => self.write(&answer.body, deadline),
        }
    }

    fn write(&mut self, mut rest: &[u8], deadline: Instant) -> io::Result<()> {
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(remaining(deadline)?))?;
            match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what the client still sends: to close a socket with unread bytes resets the
    /// connection, and the client may lose the answer.
    pub fn drain(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut part = [0; 4096];
        let mut drained = 0;
        while drained < DRAINED {
            match self.read(&mut part, deadline) {
                Ok(read) if read > 0 => drained += read,
                _ => return,
            }
        }
    }
}

/// The time that is left; an error if there is none.
fn remaining(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}
