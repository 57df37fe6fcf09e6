//! Random bytes from the kernel.

use std::fs::File;
use std::io::{self, Read};

/// `N` random bytes, secure enough for secrets.
pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
