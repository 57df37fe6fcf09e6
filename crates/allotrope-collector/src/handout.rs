//! Hands the arena to recorders that can not open `/proc/PID/fd`: over an
//! abstract Unix socket, to whoever knows the recording's key.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, recv, sendmsg, socket_with,
};

/// How long a connection may take to say the key: others wait behind it.
const PATIENCE: Duration = Duration::from_millis(250);
/// Connections that may wait.
const BACKLOG: i32 = 128;

/// The listening thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Handout {
    name: String,
    over: Arc<AtomicBool>,
}

/// Abstract name of the socket of the collector `pid` with `key`. A message
/// is one packet: the key there, the descriptor back.
pub(crate) fn socket_name(pid: u32, key: u64) -> String {
    format!("allotrope-{pid}-{key:x}")
}

impl Handout {
    pub(crate) fn start(name: String, key: u64, memory: OwnedFd) -> io::Result<Self> {
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        let listener = packet_socket()?;
        bind(&listener, &address)?;
        listen(&listener, BACKLOG)?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        std::thread::Builder::new()
            .name("handout".into())
            .spawn(move || serve(&listener, key, &memory, &seen))?;
        Ok(Self { name, over })
    }
}

fn packet_socket() -> io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    Ok(socket)
}

/// Connects to the collector's socket.
fn call(name: &str) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let socket = packet_socket()?;
    connect(&socket, &address)?;
    Ok(socket)
}

impl Drop for Handout {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // Wakes the thread; if that fails it ends with the process.
        let _ = call(&self.name);
    }
}

fn serve(listener: &OwnedFd, key: u64, memory: &OwnedFd, over: &AtomicBool) {
    loop {
        let connection = accept_with(listener, SocketFlags::CLOEXEC);
        if over.load(Ordering::Acquire) {
            return;
        }
        match connection {
            // A peer that gives up, or does not know the key, gets nothing.
            Ok(peer) => drop(answer(&peer, key, memory)),
            // Out of descriptors, most likely: not to be hurried.
            Err(_) => std::thread::sleep(PATIENCE),
        }
    }
}

fn answer(peer: &OwnedFd, key: u64, memory: &OwnedFd) -> io::Result<()> {
    set_socket_timeout(peer, Timeout::Recv, Some(PATIENCE))?;
    set_socket_timeout(peer, Timeout::Send, Some(PATIENCE))?;
    let mut said = [0; 8];
    let (length, _) = recv(peer, &mut said, RecvFlags::empty())?;
    if length != said.len() || u64::from_le_bytes(said) != key {
        return Ok(());
    }
    let descriptors = [memory.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&descriptors));
    // A descriptor travels with at least one byte (unix(7)).
    let byte = [IoSlice::new(b"A")];
    sendmsg(peer, &byte, &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::IoSliceMut;
    use std::os::unix::fs::MetadataExt;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, recvmsg, send};

    use super::*;

    /// What whoever says `key` gets.
    fn ask(name: &str, key: u64) -> Option<OwnedFd> {
        let stream = call(name).unwrap();
        send(&stream, &key.to_le_bytes(), SendFlags::empty()).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut bytes = [IoSliceMut::new(&mut byte)];
        recvmsg(&stream, &mut bytes, &mut rights, RecvFlags::CMSG_CLOEXEC).unwrap();
        rights.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        })
    }

    #[test]
    fn who_knows_the_key_gets_the_file() {
        let file = tempfile::tempfile().unwrap();
        let inode = file.metadata().unwrap().ino();
        let name = socket_name(std::process::id(), 0x1234_5678_9abc_def0);
        let handout = Handout::start(name.clone(), 42, file.into()).unwrap();
        assert!(ask(&name, 41).is_none());
        let got = File::from(ask(&name, 42).unwrap());
        assert_eq!(got.metadata().unwrap().ino(), inode);
        drop(handout);
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while call(&name).is_ok() {
            assert!(std::time::Instant::now() < deadline, "still listens");
        }
    }
}
