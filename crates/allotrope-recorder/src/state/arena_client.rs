//! Gets the arena's descriptors from the collector over a Unix socket, where
//! `/proc` can not give them (another user id, no `/proc`): an abstract socket
//! needs neither permission nor a file. See [`allotrope_shm::handshake`].

use allotrope_shm::handshake::{Nonce, PART, Side, proof};
use allotrope_shm::location::{Location, SOCKET_NAME};

use crate::sys::arch::syscall::{call, number};
use crate::sys::system;

/// Longest wait for each of the collector's answers, in seconds: it serves one
/// after another.
const PATIENCE: i64 = 5;

/// User id that stands for those unknown in a user namespace (`user_namespaces(7)`).
const OVERFLOW_USER: u32 = 65534;

/// Descriptors of the arena file and of the control file, if the collector
/// answers and proves to be the one that belongs to `location`.
pub fn receive(location: &Location) -> Option<[i32; 2]> {
    let socket = connect(&location.socket_name())?;
    let descriptors = exchange(&socket, location);
    system::close(socket.0 as i32);
    descriptors
}

struct Socket(usize);

/// `struct sockaddr_un` with an abstract name, as long as that is.
#[repr(C)]
struct Address {
    family: u16,
    zero: u8,
    name: [u8; SOCKET_NAME],
}

const ADDRESS_BYTES: usize = 3 + SOCKET_NAME;

fn connect(name: &[u8; SOCKET_NAME]) -> Option<Socket> {
    let address = Address {
        family: libc::AF_UNIX as u16,
        zero: 0,
        name: *name,
    };
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as usize;
    // SAFETY: plain numbers.
    let socket = unsafe { call(number::SOCKET, [libc::AF_UNIX as usize, kind, 0, 0, 0, 0]) };
    let socket = usize::try_from(socket).ok()?;
    let timeout = [PATIENCE, 0];
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let arguments = [
            socket,
            libc::SOL_SOCKET as usize,
            option as usize,
            timeout.as_ptr() as usize,
            size_of_val(&timeout),
            0,
        ];
        // SAFETY: the timeout (`struct timeval`) lives as long as the call.
        unsafe { call(number::SETSOCKOPT, arguments) };
    }
    let address = (&raw const address) as usize;
    // SAFETY: the address lives as long as the call.
    let result = unsafe { call(number::CONNECT, [socket, address, ADDRESS_BYTES, 0, 0, 0]) };
    if result == 0 && may_be_ours(socket) {
        return Some(Socket(socket));
    }
    system::close(socket as i32);
    None
}

/// Whether who listens can be the collector of a program with this process's
/// rights: the same user's, root's, or one whose id is unknown in this user
/// namespace. A program that became root by `sudo` may have any. What decides
/// is the proof.
fn may_be_ours(socket: usize) -> bool {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as u32;
    let arguments = [
        socket,
        libc::SOL_SOCKET as usize,
        libc::SO_PEERCRED as usize,
        (&raw mut credentials) as usize,
        (&raw mut length) as usize,
        0,
    ];
    // SAFETY: the kernel fills the structure and its length.
    if unsafe { call(number::GETSOCKOPT, arguments) } != 0 {
        return false;
    }
    let own = system::users();
    let peer = credentials.uid;
    peer == 0 || peer == OVERFLOW_USER || own.contains(&peer) || own.contains(&0)
}

/// Proves the secret, has it proved, and gets the descriptors.
fn exchange(socket: &Socket, location: &Location) -> Option<[i32; 2]> {
    let secret = location.secret;
    let recorder: Nonce = system::random()?;
    send(socket, &recorder)?;
    let mut answer = [0u8; 2 * PART + 1];
    let (length, passed) = receive_packet(socket, &mut answer)?;
    let (collector, its_proof) = answer.split_first_chunk::<PART>()?;
    let expected = proof(secret, Side::Collector, &recorder, collector);
    if passed.is_some() || length != 2 * PART || its_proof[..PART] != expected {
        close_all(passed);
        return None;
    }
    send(socket, &proof(secret, Side::Recorder, &recorder, collector))?;
    receive_packet(socket, &mut answer)?.1
}

fn close_all(descriptors: Option<[i32; 2]>) {
    for descriptor in descriptors.into_iter().flatten() {
        system::close(descriptor);
    }
}

fn send(socket: &Socket, packet: &[u8; PART]) -> Option<()> {
    let flags = libc::MSG_NOSIGNAL as usize;
    let arguments = [socket.0, packet.as_ptr() as usize, PART, flags, 0, 0];
    // SAFETY: the packet lives as long as the call.
    (unsafe { call(number::SENDTO, arguments) } == PART as isize).then_some(())
}

/// The next packet's length, and the two descriptors that came with it.
fn receive_packet(socket: &Socket, into: &mut [u8]) -> Option<(usize, Option<[i32; 2]>)> {
    let mut part = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // Room for two descriptors: a header of 16 bytes, twice 4 bytes.
    let mut control = [0u64; 3];
    let mut message = [0usize; 7];
    message[2] = (&raw mut part) as usize;
    message[3] = 1;
    message[4] = control.as_mut_ptr() as usize;
    message[5] = size_of_val(&control);
    const _: () = assert!(size_of::<libc::msghdr>() == 7 * 8);
    let flags = libc::MSG_CMSG_CLOEXEC as usize;
    // SAFETY: the message (laid out as `struct msghdr` on 64-bit Linux) and
    // what it points at live as long as the call.
    let received = unsafe {
        call(
            number::RECVMSG,
            [socket.0, message.as_mut_ptr() as usize, flags, 0, 0, 0],
        )
    };
    let length = usize::try_from(received).ok().filter(|&it| it > 0)?;
    const RIGHTS: u64 = libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32;
    let [bytes, kind, descriptors] = control;
    let passed = match (kind == RIGHTS, bytes) {
        (true, 24) => Some([descriptors as u32 as i32, (descriptors >> 32) as i32]),
        (true, 20) => {
            // One alone is not what the collector sends.
            system::close(descriptors as u32 as i32);
            None
        }
        _ => None,
    };
    Some((length, passed))
}
