//! Gets the arena's descriptors from the collector over a Unix socket, where
//! `/proc` cannot provide them (another user id, no `/proc`): an abstract socket
//! needs neither permission nor a file. See [`allotrope_shm::handshake`].

use allotrope_shm::handshake::{Nonce, PART, Side, proof};
use allotrope_shm::location::{Location, SOCKET_NAME};

use crate::sys::kernel::{self, Message, Part};
use crate::sys::system::{self, Descriptor};

/// Longest wait for each of the collector's answers, in seconds: it serves one
/// after another.
const PATIENCE: u64 = 5;

/// User id that stands for those unknown in a user namespace (`user_namespaces(7)`).
const OVERFLOW_USER: u32 = 65534;

/// Descriptors of the arena file and of the control file, if the collector
/// answers and proves to be the one that belongs to `location`.
pub fn receive(location: &Location) -> Option<[Descriptor; 2]> {
    let socket = connect(&location.socket_name())?;
    exchange(&socket, location)
}

fn connect(name: &[u8; SOCKET_NAME]) -> Option<Descriptor> {
    // `struct sockaddr_un` with an abstract name: the family, a zero byte, the name.
    let mut address = [0; 3 + SOCKET_NAME];
    address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    address[3..].copy_from_slice(name);
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let socket = Descriptor::returned(kernel::socket(libc::AF_UNIX, kind))?;
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        // `struct timeval`.
        kernel::set_timeout(socket.number(), option, &[PATIENCE, 0]);
    }
    let is_connected = kernel::connect(socket.number(), &address) == 0;
    (is_connected && may_be_ours(&socket)).then_some(socket)
}

/// Whether who listens can be the collector of a program with this process's
/// rights: the same user's, root's, or one whose id is unknown in this user
/// namespace. A program that became root by `sudo` may have any. What decides
/// is the proof.
fn may_be_ours(socket: &Descriptor) -> bool {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut bytes = size_of_val(&credentials) as u32;
    if kernel::get_peer(socket.number(), &mut credentials, &mut bytes) != 0 {
        return false;
    }
    let own = system::users();
    let peer = credentials.uid;
    peer == 0 || peer == OVERFLOW_USER || own.contains(&peer) || own.contains(&0)
}

/// Proves the secret, has it proved, and gets the descriptors.
fn exchange(socket: &Descriptor, location: &Location) -> Option<[Descriptor; 2]> {
    let secret = location.secret;
    let recorder: Nonce = system::random()?;
    send(socket, &recorder)?;
    let mut answer = [0u8; 2 * PART + 1];
    let (length, passed) = receive_packet(socket, &mut answer)?;
    let (collector, its_proof) = answer.split_first_chunk::<PART>()?;
    let expected = proof(secret, Side::Collector, &recorder, collector);
    if passed.is_some() || length != 2 * PART || its_proof[..PART] != expected {
        return None;
    }
    send(socket, &proof(secret, Side::Recorder, &recorder, collector))?;
    receive_packet(socket, &mut answer)?.1
}

fn send(socket: &Descriptor, packet: &[u8; PART]) -> Option<()> {
    let sent = kernel::send(socket.number(), packet, libc::MSG_NOSIGNAL);
    (sent == PART as isize).then_some(())
}

/// The next packet's length, and the two descriptors that came with it.
fn receive_packet(
    socket: &Descriptor,
    into: &mut [u8],
) -> Option<(usize, Option<[Descriptor; 2]>)> {
    // Space for two descriptors: a header of 16 bytes, twice 4 bytes.
    let mut control = [0u64; 3];
    let mut part = Part::new(into);
    let mut message = Message::new(&mut part, &mut control);
    let flags = libc::MSG_CMSG_CLOEXEC;
    let received = kernel::receive(socket.number(), &mut message, flags);
    let length = usize::try_from(received).ok().filter(|&it| it > 0)?;
    const RIGHTS: u64 = libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32;
    let [bytes, kind, descriptors] = control;
    let descriptor = |number: u64| Descriptor::returned(number as u32 as isize);
    let passed = match (kind == RIGHTS, bytes) {
        (true, 24) => descriptor(descriptors).zip(descriptor(descriptors >> 32)),
        (true, 20) => {
            // One alone is not what the collector sends.
            drop(descriptor(descriptors));
            None
        }
        _ => None,
    };
    Some((length, passed.map(Into::into)))
}
