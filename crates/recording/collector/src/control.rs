//! The control socket of a recording: other processes of the same user name a moment of it
//! (`allotrope mark`). [`mark`] is the client; the server is a thread of the collector,
//! which passes valid requests to the draining thread and sends its answers back.
//!
//! # Who may do what
//!
//! The socket is an abstract one, whose name every user sees in `/proc/net/unix`. Both
//! ends ask the kernel who the other is (`SO_PEERCRED`). The server closes the connection
//! of a user that is neither its own nor root, before it reads a byte. The client skips
//! servers of other users except root, so a socket with a forged name learns nothing. A
//! request is one packet of at most 4 KiB; the name in it is checked again by the server
//! ([`check_name`]). A peer has a quarter of a second for its packet, and connections are
//! served one after the other, so that a user can at most delay own marks.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, connect, listen, recv, send, socket_with,
};
use rustix::process::{Uid, geteuid};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::random;

/// How the names of all control sockets begin; a random number follows.
const PREFIX: &str = "allotrope-control-";
/// Largest number of bytes of a request or an answer.
const MAX_BYTES: usize = 4096;
/// Largest number of bytes of a mark's name.
pub const MAX_NAME_BYTES: usize = 100;
/// Time limit for a peer's packet.
const PEER_TIMEOUT: Duration = Duration::from_millis(250);
/// How long the server waits for the draining thread, which answers within milliseconds
/// unless the disk is slow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Requests that wait for the draining thread.
const QUEUE: usize = 16;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// Which recording is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The one that records this process, or that this process (`allotrope record`)
    /// started.
    Process(u32),
    /// The one that writes this trace.
    File {
        /// The file's device number.
        device: u64,
        /// The file's inode number.
        inode: u64,
    },
}

/// A request to name the present moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Request {
    mark: String,
    target: Target,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The mark is in the trace.
    Marked {
        /// Time of the mark in nanoseconds since the start of the first recorded process.
        ns: u64,
    },
    /// The target is of another recording.
    OtherRecording,
    /// The request is invalid.
    Refused,
}

/// A request on its way to the draining thread.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) mark: String,
    pub(crate) target: Target,
    pub(crate) answer: Sender<Answer>,
}

/// Why a mark was not set.
#[derive(Debug, Error)]
pub enum MarkError {
    /// No recording of this user matches the target.
    #[error("none of the {0} recordings of this user that run now")]
    NoRecording(usize),
    /// The list of sockets cannot be read.
    #[error("cannot list the recordings that run: {0}")]
    List(#[source] io::Error),
    /// The recording did not answer.
    #[error("the recording does not answer: {0}")]
    NoAnswer(#[source] io::Error),
}

/// Checks a mark's name: 1 to [`MAX_NAME_BYTES`] bytes without control characters.
///
/// # Errors
/// What is wrong with it, as the end of a sentence about the name.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.trim().is_empty() {
        return Err("is empty");
    }
    if name.len() > MAX_NAME_BYTES {
        return Err("is longer than 100 bytes");
    }
    if name.chars().any(char::is_control) {
        return Err("contains control characters");
    }
    Ok(())
}

/// The listening thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ControlServer {
    name: Vec<u8>,
    stopping: Arc<AtomicBool>,
}

impl ControlServer {
    /// Starts the thread. The draining thread has to answer the requests from the queue.
    pub(crate) fn start() -> io::Result<(Self, Receiver<Received>)> {
        let number = u64::from_ne_bytes(random::bytes()?);
        Self::listen(format!("{PREFIX}{number:016x}").into_bytes())
    }

    fn listen(name: Vec<u8>) -> io::Result<(Self, Receiver<Received>)> {
        let listener = packet_socket()?;
        bind(&listener, &SocketAddrUnix::new_abstract_name(&name)?)?;
        listen(&listener, BACKLOG)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let (requests, received) = sync_channel(QUEUE);
        std::thread::Builder::new()
            .name("control".into())
            .spawn(move || serve(&listener, &requests, &stop))?;
        Ok((Self { name, stopping }, received))
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the thread; if that fails it ends with the process.
        let _ = connect_to(&self.name);
    }
}

fn packet_socket() -> io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    Ok(socket)
}

fn connect_to(name: &[u8]) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    // Connecting waits for a server that accepts nothing, which may be anybody's.
    set_socket_timeout(&socket, Timeout::Send, Some(PEER_TIMEOUT))?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(socket)
}

fn serve(listener: &OwnedFd, requests: &SyncSender<Received>, stopping: &AtomicBool) {
    loop {
        let connection = accept_with(listener, SocketFlags::CLOEXEC);
        if stopping.load(Ordering::Acquire) {
            return;
        }
        match connection {
            // A peer that disconnects or may not ask gets no answer.
            Ok(peer) => drop(serve_peer(&peer, requests)),
            // EMFILE, most likely: retry later.
            Err(_) => std::thread::sleep(PEER_TIMEOUT),
        }
    }
}

/// Whether the other end is of this process's user or of root.
fn is_trusted(peer: &OwnedFd) -> bool {
    socket_peercred(peer).is_ok_and(|it| it.uid == geteuid() || it.uid == Uid::ROOT)
}

fn serve_peer(peer: &OwnedFd, requests: &SyncSender<Received>) -> io::Result<()> {
    if !is_trusted(peer) {
        return Ok(());
    }
    set_socket_timeout(peer, Timeout::Recv, Some(PEER_TIMEOUT))?;
    set_socket_timeout(peer, Timeout::Send, Some(PEER_TIMEOUT))?;
    let answer = match receive::<Request>(peer)? {
        Some(request) if check_name(&request.mark).is_ok() => ask(request, requests)?,
        _ => Answer::Refused,
    };
    send_packet(peer, &answer)
}

/// Passes a request to the draining thread and waits for its answer.
fn ask(request: Request, requests: &SyncSender<Received>) -> io::Result<Answer> {
    let ended = || io::Error::other("the recording has ended");
    let (answer, answers) = channel();
    let Request { mark, target } = request;
    let received = Received {
        mark,
        target,
        answer,
    };
    requests.send(received).map_err(|_| ended())?;
    answers
        .recv_timeout(ANSWER_TIMEOUT)
        .map_err(|error| match error {
            RecvTimeoutError::Timeout => io::ErrorKind::TimedOut.into(),
            RecvTimeoutError::Disconnected => ended(),
        })
}

/// Receives a packet; `None` if it is none of the protocol.
fn receive<T: for<'a> Deserialize<'a>>(peer: &OwnedFd) -> io::Result<Option<T>> {
    let mut packet = [0; MAX_BYTES + 1];
    let (length, _) = recv(peer, &mut packet, RecvFlags::empty())?;
    if length > MAX_BYTES {
        return Ok(None);
    }
    Ok(serde_json::from_slice(&packet[..length]).ok())
}

fn send_packet(peer: &OwnedFd, packet: &impl Serialize) -> io::Result<()> {
    let packet = serde_json::to_vec(packet)?;
    send(peer, &packet, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Names the present moment of the recording `target`; returns its time in nanoseconds
/// since the start of the first recorded process. Everything that was recorded before is
/// in the trace when this returns.
///
/// # Errors
/// If no recording of this user, or of root, has the target, or it does not answer.
pub fn mark(target: Target, name: &str) -> Result<u64, MarkError> {
    let request = Request {
        mark: name.to_owned(),
        target,
    };
    let mut recordings = 0;
    let mut failure = None;
    for socket in control_sockets().map_err(MarkError::List)? {
        // The recording may have ended since.
        let Ok(server) = connect_to(&socket) else {
            continue;
        };
        if !is_trusted(&server) {
            continue;
        }
        match request_mark(&server, &request) {
            Ok(Some(Answer::Marked { ns })) => return Ok(ns),
            Ok(Some(Answer::OtherRecording)) => recordings += 1,
            Ok(Some(Answer::Refused) | None) => {
                failure = Some(io::Error::other("it is of another version of allotrope"));
            }
            Err(error) => failure = Some(error),
        }
    }
    Err(match failure {
        Some(error) => MarkError::NoAnswer(error),
        None => MarkError::NoRecording(recordings),
    })
}

fn request_mark(server: &OwnedFd, request: &Request) -> io::Result<Option<Answer>> {
    set_socket_timeout(server, Timeout::Recv, Some(ANSWER_TIMEOUT + PEER_TIMEOUT))?;
    send_packet(server, request)?;
    receive(server)
}

/// The names of all control sockets, without the leading `@` of `/proc/net/unix`
/// (`proc_net_unix(5)`), each once.
fn control_sockets() -> io::Result<Vec<Vec<u8>>> {
    let list = fs::read("/proc/net/unix")?;
    let lines = list.split(|&byte| byte == b'\n');
    let names = lines.filter_map(|line| {
        let name = line.rsplit(|&byte| byte == b' ').next()?;
        let name = name.strip_prefix(b"@")?;
        name.starts_with(PREFIX.as_bytes()).then(|| name.to_vec())
    });
    // Each accepted connection is one more line with the name.
    let mut names: Vec<Vec<u8>> = names.collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(test: &str) -> (ControlServer, Receiver<Received>) {
        let name = format!("allotrope-test-{test}-{}", std::process::id());
        ControlServer::listen(name.into_bytes()).unwrap()
    }

    #[test]
    fn a_request_reaches_the_draining_thread_and_its_answer_comes_back() {
        let (server, received) = server("mark");
        let drain = std::thread::spawn(move || {
            let request = received.recv().unwrap();
            assert_eq!(
                (&*request.mark, request.target),
                ("warm", Target::Process(7))
            );
            request.answer.send(Answer::Marked { ns: 5 }).unwrap();
        });
        let request = Request {
            mark: "warm".into(),
            target: Target::Process(7),
        };
        let socket = connect_to(&server.name).unwrap();
        assert!(is_trusted(&socket));
        let answer = request_mark(&socket, &request).unwrap();
        assert_eq!(answer, Some(Answer::Marked { ns: 5 }));
        drain.join().unwrap();
    }

    #[test]
    fn hostile_packets_are_refused_and_reach_nobody() {
        let (server, received) = server("hostile");
        let long = format!(
            r#"{{"mark":"{}","target":{{"process":1}}}}"#,
            "x".repeat(101)
        );
        let big = format!(
            r#"{{"mark":"{}","target":{{"process":1}}}}"#,
            "x".repeat(5000)
        );
        for packet in [
            "garbage",
            "{}",
            r#"{"mark":"","target":{"process":1}}"#,
            r#"{"mark":"a\u001b[2J","target":{"process":1}}"#,
            r#"{"mark":"two\nlines","target":{"process":1}}"#,
            r#"{"mark":"x","target":{"process":-1}}"#,
            r#"{"mark":"x","target":"everything"}"#,
            &long,
            &big,
        ] {
            let socket = connect_to(&server.name).unwrap();
            send(&socket, packet.as_bytes(), SendFlags::NOSIGNAL).unwrap();
            let answer = receive::<Answer>(&socket).unwrap();
            assert_eq!(answer, Some(Answer::Refused), "{packet}");
        }
        // One that sends nothing and one that disconnects delay others only.
        let silent = connect_to(&server.name).unwrap();
        drop(connect_to(&server.name).unwrap());
        let socket = connect_to(&server.name).unwrap();
        send(&socket, b"x", SendFlags::NOSIGNAL).unwrap();
        assert_eq!(receive::<Answer>(&socket).unwrap(), Some(Answer::Refused));
        drop(silent);
        assert!(received.try_recv().is_err());
    }

    #[test]
    fn a_server_that_accepts_nothing_is_given_up() {
        let name = format!("allotrope-test-deaf-{}", std::process::id()).into_bytes();
        let listener = packet_socket().unwrap();
        bind(
            &listener,
            &SocketAddrUnix::new_abstract_name(&name).unwrap(),
        )
        .unwrap();
        listen(&listener, 0).unwrap();
        let waiting: Vec<_> = (0..4).map(|_| connect_to(&name)).collect();
        assert!(waiting.iter().any(Result::is_err));
    }

    #[test]
    fn a_recording_that_has_ended_answers_nothing() {
        let (server, received) = server("ended");
        drop(received);
        let request = Request {
            mark: "x".into(),
            target: Target::Process(1),
        };
        let socket = connect_to(&server.name).unwrap();
        let answer = request_mark(&socket, &request);
        assert!(!matches!(answer, Ok(Some(_))), "{answer:?}");
    }

    #[test]
    fn names_are_short_and_have_no_control_characters() {
        assert!(check_name("warm").is_ok());
        assert!(check_name("nach dem Laden ü").is_ok());
        for wrong in ["", "  ", "a\tb", "a\u{7f}", "\u{9b}31m", &"x".repeat(101)] {
            assert!(check_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
