//! How much memory the process has: anonymous and shared pages, which are all that an
//! allocator gives out, without pages of files (code).

use crate::system;

/// Memory of the process from `/proc/self/status`, in bytes.
#[derive(Clone, Copy, Default)]
pub struct Memory {
    /// Anonymous and shared memory.
    pub own: u64,
    /// The most memory of any kind, files included, since [`reset_peak`].
    pub peak_with_files: u64,
    /// Pages of files.
    pub files: u64,
}

/// Reads it; all 0 if `/proc` is not there.
pub fn read() -> Memory {
    let mut buffer = [0; 4096];
    let text = system::read_whole(c"/proc/self/status", &mut buffer).unwrap_or_default();
    let kilobytes = |name: &[u8]| field(text, name).saturating_mul(1024);
    Memory {
        own: kilobytes(b"RssAnon:") + kilobytes(b"RssShmem:"),
        peak_with_files: kilobytes(b"VmHWM:"),
        files: kilobytes(b"RssFile:"),
    }
}

/// Lets the kernel forget the peak so far (`proc_pid_clear_refs(5)`).
pub fn reset_peak() {
    system::write_to(c"/proc/self/clear_refs", b"5");
}

/// The number that follows a name at the start of a line.
fn field(text: &[u8], name: &[u8]) -> u64 {
    let mut lines = text.split(|&byte| byte == b'\n');
    let Some(line) = lines.find_map(|line| line.strip_prefix(name)) else {
        return 0;
    };
    let digits = line.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u64, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    })
}
