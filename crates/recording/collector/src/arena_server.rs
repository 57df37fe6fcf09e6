//! The file-descriptor server: passes the arena's descriptors to recorders that cannot
//! open `/proc/PID/fd`, over an abstract Unix socket. A peer gets them after it has
//! proved that it knows the recording's secret ([`allotrope_shm::handshake`]).
//! `recording` starts the server's thread and stops it at the end.

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

/// Time limit for each message of a connection; connections are served one after the
/// other. Also the pause after a failed `accept`.
const PEER_TIMEOUT: Duration = Duration::from_millis(250);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// The descriptors that a recorder receives: of the arena file and of the control file.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub(crate) memory: OwnedFd,
    pub(crate) control: OwnedFd,
}

/// The listening thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ArenaServer {
    name: Vec<u8>,
    stopping: Arc<AtomicBool>,
}

impl ArenaServer {
    /// Starts a thread that listens on the abstract `name` and passes `descriptors` to
    /// peers that know `secret`.
    pub(crate) fn start(name: &[u8], secret: u128, descriptors: Descriptors) -> io::Result<Self> {
        let listener = packet_socket()?;
        bind(&listener, &SocketAddrUnix::new_abstract_name(name)?)?;
        listen(&listener, BACKLOG)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        std::thread::Builder::new()
            .name("arena server".into())
            .spawn(move || serve(&listener, secret, &descriptors, &stop))?;
        let name = name.to_owned();
        Ok(Self { name, stopping })
    }
}

fn packet_socket() -> io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    Ok(socket)
}

/// Connects to the socket of a server.
fn connect_to(name: &[u8]) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new_abstract_name(name)?;
    let socket = packet_socket()?;
    connect(&socket, &address)?;
    Ok(socket)
}

impl Drop for ArenaServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the thread; if that fails it ends with the process.
        let _ = connect_to(&self.name);
    }
}

fn serve(listener: &OwnedFd, secret: u128, descriptors: &Descriptors, stopping: &AtomicBool) {
    loop {
        let connection = accept_with(listener, SocketFlags::CLOEXEC);
        if stopping.load(Ordering::Acquire) {
            return;
        }
        match connection {
            // A peer that disconnects or does not know the secret gets nothing.
            Ok(peer) => drop(serve_peer(&peer, secret, descriptors)),
            // EMFILE, most likely: retry later.
            Err(_) => std::thread::sleep(PEER_TIMEOUT),
        }
    }
}

/// Whether a process with the peer's credentials can belong to a recording of this
/// process's user. This is not the access check, which is the secret; it rejects other
/// users' connections before these delay the recording's own.
///
/// If the collector runs as root, recorded programs may have become any user. If the
/// peer is root, it may have become so by `sudo`. In a user namespace of its own (a
/// container) a program can have any user id that was delegated to the namespace's
/// owner (`subuid(5)`).
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

/// Whether user ids are mapped differently in the process `pid` than in this one.
fn is_in_another_user_namespace(pid: i32) -> bool {
    let ids_of = |process: &str| fs::read_to_string(format!("/proc/{process}/uid_map"));
    match (ids_of(&pid.to_string()), ids_of("self")) {
        (Ok(its), Ok(own)) => its != own,
        _ => false,
    }
}

fn serve_peer(peer: &OwnedFd, secret: u128, descriptors: &Descriptors) -> io::Result<()> {
    if !may_belong(peer) {
        return Ok(());
    }
    set_socket_timeout(peer, Timeout::Recv, Some(PEER_TIMEOUT))?;
    set_socket_timeout(peer, Timeout::Send, Some(PEER_TIMEOUT))?;
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

/// Receives a nonce or proof; `None` if the packet has another length.
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

    /// Receives a packet and the descriptors sent with it.
    fn receive(socket: &OwnedFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 64];
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        let message = recvmsg(socket, &mut buffers, &mut rights, RecvFlags::CMSG_CLOEXEC)?;
        let descriptors = rights.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        Ok((bytes[..message.bytes].to_vec(), descriptors.collect()))
    }

    /// Runs the handshake with `secret`; returns the descriptors received.
    fn request_files(name: &[u8], secret: u128) -> Vec<OwnedFd> {
        let socket = connect_to(name).unwrap();
        let nonce = [7; PART];
        send(&socket, &nonce, SendFlags::empty()).unwrap();
        let (reply, none) = receive(&socket).unwrap();
        assert!(none.is_empty(), "no descriptor before the proof");
        let collector: Nonce = reply[..PART].try_into().unwrap();
        let its_proof = proof(SECRET, Side::Collector, &nonce, &collector);
        assert_eq!(reply[PART..], its_proof, "the collector's proof is first");
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
        assert!(request_files(&name, SECRET + 1).is_empty());
        let files = request_files(&name, SECRET).into_iter().map(File::from);
        let got: Vec<u64> = files.map(|it| it.metadata().unwrap().ino()).collect();
        assert_eq!(got, inodes);
        drop(server);
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while connect_to(&name).is_ok() {
            assert!(std::time::Instant::now() < deadline, "still listens");
        }
    }

    #[test]
    fn garbage_gets_nothing_and_stops_nobody() {
        let served = served("garbage");
        for garbage in [&b""[..], b"x", &[0; PART + 1], &[0xff; 4096]] {
            let socket = connect_to(&served.name).unwrap();
            let _ = send(&socket, garbage, SendFlags::NOSIGNAL);
            if let Ok((reply, descriptors)) = receive(&socket) {
                assert!(reply.is_empty() && descriptors.is_empty(), "{garbage:?}");
            }
        }
        // The collector's own proof, sent back, is not accepted.
        let socket = connect_to(&served.name).unwrap();
        send(&socket, &[1; PART], SendFlags::empty()).unwrap();
        let (reply, _) = receive(&socket).unwrap();
        send(&socket, &reply[PART..], SendFlags::empty()).unwrap();
        let (reply, descriptors) = receive(&socket).unwrap();
        assert!(reply.is_empty() && descriptors.is_empty());
        assert_eq!(request_files(&served.name, SECRET).len(), 2);
    }
}
