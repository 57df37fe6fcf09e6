//! One request of one connection. `httparse` parses; the limits are here.
//!
//! A client may be hostile or slow. Limits: [`CONNECTIONS`] at once, [`LONGEST_HEAD`] bytes and
//! [`HEADERS`] headers of a request, [`READ_TIME`] for all of it and [`WRITE_TIME`] for the whole
//! answer, however often a byte comes or goes. Bodies are not read. Each connection is closed
//! after its answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Served;
use super::answers::{Answer, Answers, Page};

/// Most connections at once; further ones are closed.
const CONNECTIONS: usize = 16;
const LONGEST_HEAD: usize = 8 << 10;
const HEADERS: usize = 64;
const READ_TIME: Duration = Duration::from_secs(5);
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How much is read and dropped after a refusal, so that the client gets to read it.
const DRAINED: usize = 64 << 10;
/// The pause after a failed accept, when descriptors are short.
const PAUSE: Duration = Duration::from_millis(100);

/// A place among the connections; free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Accepts connections in a thread that ends with the process.
pub fn start(
    listener: TcpListener,
    served: Served,
    answers: Arc<Mutex<Answers>>,
) -> io::Result<()> {
    let is_loopback = listener.local_addr()?.ip().is_loopback();
    let taken = Arc::new(AtomicUsize::new(0));
    let accept = move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(PAUSE);
                continue;
            };
            let place = Place(Arc::clone(&taken));
            // Only this thread adds.
            if taken.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS {
                continue;
            }
            let answers = Arc::clone(&answers);
            let connection = Connection {
                stream,
                served,
                is_loopback,
            };
            // Without a thread, the connection is closed and its place is free again.
            let _ = thread::Builder::new()
                .name("allotrope-http".to_owned())
                .spawn(move || {
                    connection.serve(&answers);
                    drop(place);
                });
        }
    };
    thread::Builder::new()
        .name("allotrope-listen".to_owned())
        .spawn(accept)
        .map(drop)
}

struct Connection {
    stream: TcpStream,
    served: Served,
    is_loopback: bool,
}

impl Connection {
    fn serve(mut self, answers: &Mutex<Answers>) {
        let (is_head, answer) = match self.request() {
            Ok(Ok((is_head, page))) => {
                // A panic in another answer has broken nothing: it keeps no state.
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                (is_head, answers.answer(page))
            }
            Ok(Err(refusal)) => (false, refusal),
            // It has gone, or was too slow: nobody reads an answer.
            Err(_) => return,
        };
        if self.send(&answer, is_head).is_ok() {
            let _ = self.stream.shutdown(Shutdown::Write);
            self.drain();
        }
    }

    /// Reads the request. `Ok(Err)`: it is refused.
    fn request(&mut self) -> io::Result<Result<(bool, Page), Answer>> {
        let deadline = Instant::now() + READ_TIME;
        let mut head = Vec::new();
        loop {
            let mut part = [0; 1024];
            let read = self.read(&mut part, deadline)?;
            head.extend_from_slice(part.get(..read).unwrap_or_default());
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            match request.parse(&head) {
                Ok(httparse::Status::Complete(_)) => return Ok(self.check(&request)),
                Ok(httparse::Status::Partial) if read == 0 => {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                Ok(httparse::Status::Partial) if head.len() < LONGEST_HEAD => {}
                Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                    return Ok(Err(Answer::text(431, "the request's headers are too long")));
                }
                Err(_) => return Ok(Err(Answer::text(400, "this is no HTTP request"))),
            }
        }
    }

    fn check(&self, request: &httparse::Request<'_, '_>) -> Result<(bool, Page), Answer> {
        let mut hosts = request
            .headers
            .iter()
            .filter(|it| it.name.eq_ignore_ascii_case("host"));
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => std::str::from_utf8(host.value).ok(),
            (None, _) if request.version == Some(0) => Some("localhost"),
            _ => None,
        };
        let Some(host) = host else {
            return Err(Answer::text(400, "the request needs one Host header"));
        };
        // A web page whose name is made to lead here (DNS rebinding) sends its own name.
        if self.is_loopback && !is_local_host(host) {
            return Err(Answer::text(
                403,
                "the Host header must be an IP address or localhost",
            ));
        }
        let is_head = match request.method {
            Some("GET") => false,
            Some("HEAD") => true,
            _ => return Err(Answer::text(405, "only GET and HEAD are answered")),
        };
        let target = request.path.unwrap_or_default();
        Ok((is_head, Page::of(target, self.served)?))
    }

    fn read(&mut self, part: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(remaining(deadline)?))?;
            match self.stream.read(part) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn send(&mut self, answer: &Answer, is_head: bool) -> io::Result<()> {
        let deadline = Instant::now() + WRITE_TIME;
        let mut bytes = answer.head().into_bytes();
        if !is_head {
            bytes.extend_from_slice(&answer.body);
        }
        let mut rest = &*bytes;
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
    fn drain(&mut self) {
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

/// Whether a Host header is an IP address or `localhost`, with a port or without.
fn is_local_host(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|it| it.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.ends_with(':') => name,
        _ => host,
    };
    if let Some(address) = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        return matches!(address.parse(), Ok(IpAddr::V6(_)));
    }
    name.eq_ignore_ascii_case("localhost") || matches!(name.parse(), Ok(IpAddr::V4(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_host_is_an_address_or_localhost() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:6060",
            "[::1]",
            "[::1]:0",
            "10.0.0.1",
        ] {
            assert!(is_local_host(host), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example:6060",
            "127.0.0.1.evil.example",
            "[::1",
            "::1",
            "localhost:80:80",
            "localhost:x",
            "[127.0.0.1]",
            "[localhost]",
        ] {
            assert!(!is_local_host(host), "{host}");
        }
    }
}
