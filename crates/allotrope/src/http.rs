//! A small HTTP server: one request of each connection, answered by a [`Responder`]. `watch` and
//! `view` use it. `httparse` parses; the limits are here.
//!
//! One thread accepts; each connection has a thread of its own, so that a slow client holds up
//! nobody else. A client may be hostile or slow. Limits: [`CONNECTIONS`] at once, [`LONGEST_HEAD`] bytes and
//! [`HEADERS`] headers of a request, [`READ_TIME`] for all of it and
//! [`Responder::write_time`] for the whole answer, however often a byte comes or goes. Bodies are not read. Each connection is closed
//! after its answer.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Most connections at once; further ones are closed.
const CONNECTIONS: usize = 16;
const LONGEST_HEAD: usize = 8 << 10;
const HEADERS: usize = 64;
const READ_TIME: Duration = Duration::from_secs(5);
/// How much is read and dropped after a refusal, so that the client gets to read it.
const DRAINED: usize = 64 << 10;
/// The pause after a failed accept, when descriptors are short.
const PAUSE: Duration = Duration::from_millis(100);

/// What answers the requests. It is called by several threads at once.
pub trait Responder: Send + Sync + 'static {
    /// Refuses a client by its address, with a sentence.
    fn check_client(&self, _client: SocketAddr) -> Result<(), &'static str> {
        Ok(())
    }

    /// Refuses a `Host` header, with a sentence that says what it must be: a web page whose name
    /// is made to lead here (DNS rebinding) sends its own name.
    fn check_host(&self, host: &str) -> Result<(), &'static str>;

    /// The answer to GET; of that to HEAD, the body is not sent.
    fn answer(&self, target: &str) -> Answer;

    /// How long a client may take to read an answer.
    fn write_time(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// An answer over HTTP.
#[derive(Debug, Clone)]
pub struct Answer {
    /// 200, or one of those that [`Answer::head`] has words for.
    pub status: u16,
    /// The content type.
    pub kind: &'static str,
    /// Further header lines, each with its end.
    pub more: Cow<'static, str>,
    /// Answers to several clients may share it.
    pub body: Arc<[u8]>,
}

impl Answer {
    /// A sentence.
    pub fn text(status: u16, text: impl fmt::Display) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            more: Cow::Borrowed(match status {
                405 => "Allow: GET, HEAD\r\n",
                _ => "",
            }),
            body: format!("{text}\n").into_bytes().into(),
        }
    }

    /// The status line and the headers.
    fn head(&self) -> String {
        let words = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        };
        format!(
            "HTTP/1.1 {} {words}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len(),
            self.more,
        )
    }
}

/// A place among the connections; free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Accepts connections in a thread that ends with the process.
pub fn start(listener: TcpListener, responder: impl Responder) -> io::Result<()> {
    let taken = Arc::new(AtomicUsize::new(0));
    let responder = Arc::new(responder);
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
            let responder = Arc::clone(&responder);
            let connection = Connection { stream };
            // Without a thread, the connection is closed and its place is free again.
            let _ = thread::Builder::new()
                .name("allotrope-http".to_owned())
                .spawn(move || {
                    connection.serve(&*responder);
                    drop(place);
                });
        }
    };
    thread::Builder::new()
        .name("allotrope-listen".to_owned())
        .spawn(accept)
        .map(drop)
}

/// What is asked for.
struct Request {
    is_head: bool,
    target: String,
}

struct Connection {
    stream: TcpStream,
}

impl Connection {
    fn serve(mut self, responder: &impl Responder) {
        let (is_head, answer) = match self.request(responder) {
            Ok(Ok(request)) => (request.is_head, self.answer(&request, responder)),
            Ok(Err(refusal)) => (false, refusal),
            // It has gone, or was too slow: nobody reads an answer.
            Err(_) => return,
        };
        // The head and the body are written one after the other.
        let _ = self.stream.set_nodelay(true);
        let deadline = Instant::now() + responder.write_time();
        if self.send(&answer, is_head, deadline).is_ok() {
            let _ = self.stream.shutdown(Shutdown::Write);
            self.drain();
        }
    }

    fn answer(&self, request: &Request, responder: &impl Responder) -> Answer {
        let client = self.stream.peer_addr();
        match client.map(|client| responder.check_client(client)) {
            Ok(Ok(())) => responder.answer(&request.target),
            Ok(Err(sentence)) => Answer::text(403, sentence),
            Err(_) => Answer::text(403, "the client has gone"),
        }
    }

    /// Reads the request. `Ok(Err)`: it is refused.
    fn request(&mut self, responder: &impl Responder) -> io::Result<Result<Request, Answer>> {
        let deadline = Instant::now() + READ_TIME;
        let mut head = Vec::new();
        loop {
            let mut part = [0; 1024];
            let read = self.read(&mut part, deadline)?;
            head.extend_from_slice(part.get(..read).unwrap_or_default());
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            match request.parse(&head) {
                Ok(httparse::Status::Complete(_)) => return Ok(check(&request, responder)),
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

    fn read(&mut self, part: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(remaining(deadline)?))?;
            match self.stream.read(part) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn send(&mut self, answer: &Answer, is_head: bool, deadline: Instant) -> io::Result<()> {
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

/// Checks a request whose head was parsed.
fn check(
    request: &httparse::Request<'_, '_>,
    responder: &impl Responder,
) -> Result<Request, Answer> {
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
    if let Err(sentence) = responder.check_host(host) {
        return Err(Answer::text(403, sentence));
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Answer::text(405, "only GET and HEAD are answered")),
    };
    Ok(Request {
        is_head,
        target: request.path.unwrap_or_default().to_owned(),
    })
}

/// The time that is left; an error if there is none.
fn remaining(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}
