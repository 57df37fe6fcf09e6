//! Passes the arena's descriptors to recorders that can not open
//! `/proc/PID/fd`: over an abstract Unix socket, to who proves that he knows
//! the recording's secret ([`allotrope_shm::handshake`]).

use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use allotrope_shm::handshake::{Nonce, PART, Side, proof};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, recv, send, sendmsg, socket_with,
};
use rustix::process::{Uid, geteuid};

use crate::random;

/// How long a connection may take for each of its messages: others wait behind
/// it.
const PATIENCE: Duration = Duration::from_millis(250);
/// Connections that may wait.
const BACKLOG: i32 = 128;

/// What a recorder gets: the arena file's descriptor and the control file's.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub(crate) memory: OwnedFd,
    pub(crate) control: OwnedFd,
}

/// The listening thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ArenaServer {
    name: Vec<u8>,
    over: Arc<AtomicBool>,
}

impl ArenaServer {
    /// Listens on the abstract `name`, and passes `descriptors` to who knows
    /// `secret`.
    pub(crate) fn start(name: &[u8], secret: u128, descriptors: Descriptors) -> io::Result<Self> {
        let listener = packet_socket()?;
        bind(&listener, &SocketAddrUnix::new_abstract_name(name)?)?;
        listen(&listener, BACKLOG)?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        std::thread::Builder::new()
            .name("arena server".into())
            .spawn(move || serve(&listener, secret, &descriptors, &seen))?;
        let name = name.to_owned();
        Ok(Self { name, over })
    }
}

fn packet_socket() -> io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    Ok(socket)
}

/// Connects to a collector's socket.
fn call(name: &[u8]) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new_abstract_name(name)?;
    let socket = packet_socket()?;
    connect(&socket, &address)?;
    Ok(socket)
}

impl Drop for ArenaServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // Wakes the thread; if that fails it ends with the process.
        let _ = call(&self.name);
    }
}

fn serve(listener: &OwnedFd, secret: u128, descriptors: &Descriptors, over: &AtomicBool) {
    loop {
        let connection = accept_with(listener, SocketFlags::CLOEXEC);
        if over.load(Ordering::Acquire) {
            return;
        }
        match connection {
            // A peer that gives up, or does not know the secret, gets nothing.
            Ok(peer) => drop(answer(&peer, secret, descriptors)),
            // Out of descriptors, most likely: not to be hurried.
            Err(_) => std::thread::sleep(PATIENCE),
        }
    }
}

/// Whether a process with the peer's credentials can belong to a recording of
/// this process's user. Strangers are turned away before they can make others
/// wait; what decides is the secret.
///
/// Root's programs may take any user's rights, and a program that became root
/// (`sudo`) needs no leave. In a user namespace of its own (a container) a
/// program can have the ids of any user that was delegated to its owner
/// (`subuid(5)`).
fn may_belong(peer: &OwnedFd) -> bool {
    let own = geteuid();
    let Ok(credentials) = socket_peercred(peer) else {
        return false;
    };
    own == Uid::ROOT
        || credentials.uid == own
        || credentials.uid == Uid::ROOT
        || is_in_another_user_namespace(credentials.pid.as_raw_nonzero().get())
}

/// Whether `pid` sees other user ids than this process does.
fn is_in_another_user_namespace(pid: i32) -> bool {
    let ids_of = |process: &str| fs::read_to_string(format!("/proc/{process}/uid_map"));
    match (ids_of(&pid.to_string()), ids_of("self")) {
        (Ok(its), Ok(own)) => its != own,
        _ => false,
    }
}

fn answer(peer: &OwnedFd, secret: u128, descriptors: &Descriptors) -> io::Result<()> {
    if !may_belong(peer) {
        return Ok(());
    }
    set_socket_timeout(peer, Timeout::Recv, Some(PATIENCE))?;
    set_socket_timeout(peer, Timeout::Send, Some(PATIENCE))?;
    let Some(recorder) = receive_part(peer)? else {
        return Ok(());
    };
    let collector: Nonce = random::bytes()?;
    let own_proof = proof(secret, Side::Collector, &recorder, &collector);
    let message = [collector, own_proof].concat();
    send(peer, &message, SendFlags::NOSIGNAL)?;
    let expected = proof(secret, Side::Recorder, &recorder, &collector);
    if receive_part(peer)? != Some(expected) {
        return Ok(());
    }
    let passed = [descriptors.memory.as_fd(), descriptors.control.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&passed));
    // Descriptors travel with at least one byte (unix(7)).
    let byte = [IoSlice::new(b"A")];
    sendmsg(peer, &byte, &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A packet of the handshake; `None` if it has another length.
fn receive_part(peer: &OwnedFd) -> io::Result<Option<[u8; PART]>> {
    let mut packet = [0; PART + 1];
    let (length, _) = recv(peer, &mut packet, RecvFlags::empty())?;
    Ok((length == PART)
        .then(|| packet.first_chunk().copied())
        .flatten())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::IoSliceMut;
    use std::os::unix::fs::MetadataExt;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, recvmsg};

    use super::*;

    const SECRET: u128 = 0x1234_5678_9abc_def0_1122_3344_5566_7788;

    struct Served {
        server: ArenaServer,
        name: Vec<u8>,
        inodes: Vec<u64>,
    }

    fn served(test: &str) -> Served {
        let name = format!("allotrope-test-{test}-{}", std::process::id()).into_bytes();
        let files = [(); 2].map(|()| tempfile::tempfile().unwrap());
        let inodes = files.each_ref().map(|it| it.metadata().unwrap().ino());
        let [memory, control] = files.map(OwnedFd::from);
        let server = ArenaServer::start(&name, SECRET, Descriptors { memory, control }).unwrap();
        Served {
            server,
            name,
            inodes: inodes.to_vec(),
        }
    }

    /// What the collector sends after `parts` were sent, and the descriptors
    /// with it.
    fn receive(socket: &OwnedFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 64];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let message = recvmsg(socket, &mut parts, &mut rights, RecvFlags::CMSG_CLOEXEC)?;
        let descriptors = rights.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        Ok((bytes[..message.bytes].to_vec(), descriptors.collect()))
    }

    /// What who knows `secret` gets.
    fn ask(name: &[u8], secret: u128) -> Vec<OwnedFd> {
        let socket = call(name).unwrap();
        let nonce = [7; PART];
        send(&socket, &nonce, SendFlags::empty()).unwrap();
        let (answer, none) = receive(&socket).unwrap();
        assert!(none.is_empty(), "nothing is given before the proof");
        let collector: Nonce = answer[..PART].try_into().unwrap();
        let its_proof = proof(SECRET, Side::Collector, &nonce, &collector);
        assert_eq!(answer[PART..], its_proof, "the collector proves it first");
        let own = proof(secret, Side::Recorder, &nonce, &collector);
        send(&socket, &own, SendFlags::empty()).unwrap();
        receive(&socket).map_or(Vec::new(), |(_, descriptors)| descriptors)
    }

    #[test]
    fn who_knows_the_secret_gets_the_files() {
        let Served {
            server,
            name,
            inodes,
        } = served("secret");
        assert!(ask(&name, SECRET + 1).is_empty());
        let files = ask(&name, SECRET).into_iter().map(File::from);
        let got: Vec<u64> = files.map(|it| it.metadata().unwrap().ino()).collect();
        assert_eq!(got, inodes);
        drop(server);
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while call(&name).is_ok() {
            assert!(std::time::Instant::now() < deadline, "still listens");
        }
    }

    #[test]
    fn garbage_gets_nothing_and_stops_nobody() {
        let served = served("garbage");
        for garbage in [&b""[..], b"x", &[0; PART + 1], &[0xff; 4096]] {
            let socket = call(&served.name).unwrap();
            let _ = send(&socket, garbage, SendFlags::NOSIGNAL);
            if let Ok((answer, descriptors)) = receive(&socket) {
                assert!(answer.is_empty() && descriptors.is_empty(), "{garbage:?}");
            }
        }
        // The proof of another exchange, seen by somebody, is worth nothing.
        let socket = call(&served.name).unwrap();
        send(&socket, &[1; PART], SendFlags::empty()).unwrap();
        let (answer, _) = receive(&socket).unwrap();
        send(&socket, &answer[PART..], SendFlags::empty()).unwrap();
        let (answer, descriptors) = receive(&socket).unwrap();
        assert!(answer.is_empty() && descriptors.is_empty());
        assert_eq!(ask(&served.name, SECRET).len(), 2);
    }
}
