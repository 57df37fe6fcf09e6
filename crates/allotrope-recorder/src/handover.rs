//! Gets the arena from the collector over a Unix socket, where `/proc` can not
//! give it (another user id, no `/proc`): an abstract socket needs neither
//! permission nor a file.

use allotrope_ring::layout;

use crate::arch::syscall::{call, number};
use crate::image::Digits;
use crate::system;

/// A descriptor of the arena from the collector with process id `process`;
/// negative if there is no answer.
pub fn receive_arena(process: u64, key: u64) -> i32 {
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as u16,
        sun_path: [0; 108],
    };
    // SAFETY: `sun_path` is plain bytes; the first stays zero (abstract name).
    let path = unsafe {
        core::slice::from_raw_parts_mut(address.sun_path.as_mut_ptr().cast::<u8>().add(1), 107)
    };
    let mut name = Digits {
        bytes: path,
        used: 0,
    };
    name.text(b"allotrope-");
    name.number(process);
    name.text(b"-");
    name.hexadecimal(key);
    let length = core::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.used;
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: plain numbers.
    let socket = unsafe {
        call(
            number::SOCKET,
            [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0],
        )
    };
    if socket < 0 {
        return -1;
    }
    let arguments = [
        socket as usize,
        (&raw const address) as usize,
        length,
        0,
        0,
        0,
    ];
    // SAFETY: the address lives as long as the call.
    let connected = unsafe { call(number::CONNECT, arguments) } == 0;
    let descriptor = if connected {
        exchange(socket as usize, key)
    } else {
        -1
    };
    system::close(socket as i32);
    descriptor
}

/// Says the key, gets the descriptor.
fn exchange(socket: usize, key: u64) -> i32 {
    const _: () = assert!(layout::VERSION == 3, "the key is the whole greeting");
    let flags = libc::MSG_NOSIGNAL as usize;
    let greeting = key.to_le_bytes();
    let arguments = [
        socket,
        greeting.as_ptr() as usize,
        greeting.len(),
        flags,
        0,
        0,
    ];
    // SAFETY: the greeting lives as long as the call.
    if unsafe { call(number::SENDTO, arguments) } != greeting.len() as isize {
        return -1;
    }
    let mut answer = [0u8; 8];
    let mut part = libc::iovec {
        iov_base: answer.as_mut_ptr().cast(),
        iov_len: answer.len(),
    };
    // Room for one descriptor: a header of 16 bytes, 4 bytes, padding.
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
            [socket, message.as_mut_ptr() as usize, flags, 0, 0, 0],
        )
    };
    let is_rights = control[0] == 20
        && control[1] == (libc::SOL_SOCKET as u64) | (libc::SCM_RIGHTS as u64) << 32;
    if received > 0 && is_rights {
        control[2] as u32 as i32
    } else {
        -1
    }
}
