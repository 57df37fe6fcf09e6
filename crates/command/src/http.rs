//! A small HTTP server: one request of each connection, answered by a [`Responder`]. `watch` and
//! `view` use it. `httparse` parses; the limits are here.
//!
//! One thread accepts and reads the heads of all requests, without waiting for any of them; each
//! answer has a thread of its own, so that a slow client holds up nobody else. A client may be
//! hostile or slow. Limits: [`ANSWERS`] at once, [`WAITING`] other connections,
//! 8 KiB and 64 headers of a request (`request.rs`), [`READ_TIME`] for all of it and
//! [`Responder::write_time`] for the whole answer, however often a byte comes or goes. Bodies
//! are not read. Each connection is closed after its answer.
//!
//! # Shares
//! One client, which is a user of this machine or an address of another one, gets a quarter of
//! the answers and of the waiting connections, and all clients but the user who serves get three
//! quarters together. A connection without a whole head takes part in no answer; it is closed if
//! its client, or whoever else has a right to it, needs its place for a newer one.

mod answer;
mod client;
mod connection;
mod request;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use client::{Client, Full, place};
use connection::Connection;
use request::{Request, parse};

pub use answer::{Answer, Responder};

/// Largest number of answers at once.
const ANSWERS: usize = 16;
/// Largest number of connections that have no answer yet.
const WAITING: usize = 128;
const READ_TIME: Duration = Duration::from_secs(5);
/// The pause after a failed accept, when descriptors are short.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that has no answer yet.
struct Waiting {
    stream: TcpStream,
    client: Client,
    since: Instant,
    head: Vec<u8>,
    /// The request, or its refusal, once its head is whole.
    request: Option<Result<Request, Answer>>,
}

impl Waiting {
    /// Reads what has come. `false`: the client has gone.
    fn read(&mut self, responder: &impl Responder) -> bool {
        let mut part = [0; 1024];
        loop {
            let read = match self.stream.read(&mut part) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            };
            self.head
                .extend_from_slice(part.get(..read).unwrap_or_default());
            self.request = parse(&self.head, responder);
            if self.request.is_some() {
                return true;
            }
        }
    }
}

/// What the threads that answer leave for the one that accepts.
struct Ended {
    clients: Mutex<Vec<Client>>,
    /// A byte wakes it.
    wake: UnixStream,
}

/// A place among the answers; free again when it is dropped.
struct Place {
    client: Client,
    ended: Arc<Ended>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let clients = self.ended.clients.lock();
        clients
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.client);
        // If it would block, there is a byte already.
        let _ = (&self.ended.wake).write(&[0]);
    }
}

/// Accepts connections in a thread that ends with the process.
pub fn start(listener: TcpListener, responder: impl Responder) -> io::Result<()> {
    start_for(listener, responder, Client::of)
}

/// Same as [`start`]; `client` is who connects.
fn start_for(
    listener: TcpListener,
    responder: impl Responder,
    client: fn(&TcpStream) -> Client,
) -> io::Result<()> {
    let (woken, wake) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    wake.set_nonblocking(true)?;
    listener.set_nonblocking(true)?;
    let mut server = Server {
        listener,
        paused: None,
        client,
        responder: Arc::new(responder),
        waiting: Vec::new(),
        answered: Vec::new(),
        woken,
        ended: Arc::new(Ended {
            clients: Mutex::default(),
            wake,
        }),
    };
    let serve = move || {
        loop {
            server.turn();
        }
    };
    thread::Builder::new()
        .name("allotrope-listen".to_owned())
        .spawn(serve)
        .map(drop)
}

/// The thread that accepts.
struct Server<R> {
    listener: TcpListener,
    /// No connection is accepted before.
    paused: Option<Instant>,
    client: fn(&TcpStream) -> Client,
    responder: Arc<R>,
    waiting: Vec<Waiting>,
    /// The clients that are being answered.
    answered: Vec<Client>,
    woken: UnixStream,
    ended: Arc<Ended>,
}

impl<R: Responder> Server<R> {
    /// Waits until something happens, and deals with it.
    fn turn(&mut self) {
        let (accepts, readable) = self.wait();
        let responder = &*self.responder;
        let mut index = 0;
        self.waiting.retain_mut(|it| {
            let has_come = readable.get(index) == Some(&true);
            index += 1;
            let is_there = !has_come || it.read(responder);
            is_there && (it.request.is_some() || it.since.elapsed() < READ_TIME)
        });
        if accepts {
            self.accept();
        }
        self.answer();
    }

    /// Waits. Returns whether connections can be accepted, and by waiting connection whether
    /// there is something to read.
    fn wait(&mut self) -> (bool, Vec<bool>) {
        let now = Instant::now();
        self.paused = self.paused.filter(|until| *until > now);
        let reading = |it: &&Waiting| it.request.is_none();
        let heads = self.waiting.iter().filter(reading);
        let ends = heads.map(|it| it.since + READ_TIME).chain(self.paused);
        let time = ends
            .min()
            .and_then(|end| Timespec::try_from(end.saturating_duration_since(now)).ok());
        let mut files = vec![PollFd::new(&self.woken, PollFlags::IN)];
        if self.paused.is_none() {
            files.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let first = files.len();
        let heads = self.waiting.iter().filter(reading);
        files.extend(heads.map(|it| PollFd::new(&it.stream, PollFlags::IN)));
        if poll(&mut files, time.as_ref()).is_err() {
            return (false, Vec::new());
        }
        let has_come = |file: &PollFd<'_>| !file.revents().is_empty();
        let accepts = files.get(1..first).unwrap_or_default().iter().any(has_come);
        let mut come = files.get(first..).unwrap_or_default().iter().map(has_come);
        let readable = self.waiting.iter();
        let readable = readable.map(|it| it.request.is_none() && come.next() == Some(true));
        let readable = readable.collect();
        drop(come);
        let mut bytes = [0; 64];
        while matches!((&self.woken).read(&mut bytes), Ok(read) if read > 0) {}
        let mut ended = self.ended.clients.lock();
        let ended = ended.as_deref_mut();
        for client in ended.map(std::mem::take).unwrap_or_default() {
            if let Some(at) = self.answered.iter().position(|it| *it == client) {
                self.answered.swap_remove(at);
            }
        }
        (accepts, readable)
    }

    fn accept(&mut self) {
        // Others may connect as fast as this accepts.
        for _ in 0..WAITING {
            match self.listener.accept() {
                Ok((stream, _)) => self.take(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.paused = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }

    /// Takes a connection, if it gets a place.
    fn take(&mut self, stream: TcpStream) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let client = (self.client)(&stream);
        let own = Client::own();
        let taken: Vec<Client> = self.waiting.iter().map(|it| it.client).collect();
        if let Err(full) = place(&taken, client, own, WAITING) {
            let gives_way = |it: &Waiting| match full {
                Full::Share => it.client.is(client),
                Full::Others => !it.client.is(own),
                Full::All => true,
            };
            let mut all = self.waiting.iter();
            // They are in the order in which they came.
            let Some(oldest) = all.position(|it| it.request.is_none() && gives_way(it)) else {
                return;
            };
            self.waiting.remove(oldest);
        }
        let mut waiting = Waiting {
            stream,
            client,
            since: Instant::now(),
            head: Vec::new(),
            request: None,
        };
        if waiting.read(&*self.responder) {
            self.waiting.push(waiting);
        }
    }

    /// Answers those for whom there is a place.
    fn answer(&mut self) {
        let own = Client::own();
        let answered = &mut self.answered;
        let chosen = self.waiting.extract_if(.., |it| {
            let has_place =
                it.request.is_some() && place(answered, it.client, own, ANSWERS).is_ok();
            if has_place {
                answered.push(it.client);
            }
            has_place
        });
        for waiting in chosen.collect::<Vec<_>>() {
            let place = Place {
                client: waiting.client,
                ended: Arc::clone(&self.ended),
            };
            let responder = Arc::clone(&self.responder);
            // Without a thread, the connection is closed and its place is free again.
            let _ = thread::Builder::new()
                .name("allotrope-http".to_owned())
                .spawn(move || {
                    serve(waiting, &*responder);
                    drop(place);
                });
        }
    }
}

/// Answers a request.
fn serve(waiting: Waiting, responder: &impl Responder) {
    let (is_head, answer) = match waiting.request {
        Some(Ok(request)) => match responder.check_client(waiting.client.owner()) {
            Ok(()) => (request.is_head, responder.answer(&request.target)),
            Err(sentence) => (request.is_head, Answer::text(403, sentence)),
        },
        Some(Err(refusal)) => (false, refusal),
        None => return,
    };
    let stream = waiting.stream;
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    // The head and the body are written one after the other.
    let _ = stream.set_nodelay(true);
    let deadline = Instant::now() + responder.write_time();
    let mut connection = Connection { stream };
    if connection.send(&answer, is_head, deadline).is_ok() {
        let _ = connection.stream.shutdown(Shutdown::Write);
        connection.drain();
    }
}
