//! The signals that were ignored and blocked when this command was started. The
//! recorded program must start with the same: systemd, for one, starts services
//! with `SIGPIPE` ignored, and nohup(1) ignores `SIGHUP`.
//!
//! Rust's runtime ignores `SIGPIPE` before `main`: a constructor must read the state
//! before that. `exec_program` restores it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::sys::signal::Signal;

static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// Signals as a set: bit N-1 stands for signal N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals(pub u64);

impl Signals {
    /// Whether the signal is in the set.
    pub fn contains(self, signal: i32) -> bool {
        (1..=64).contains(&signal) && self.0 >> (signal - 1) & 1 != 0
    }

    /// The signals in the set.
    pub fn iter(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |signal| self.contains(*signal))
    }
}

/// Signals that were ignored.
pub fn ignored() -> Signals {
    Signals(IGNORED.load(Ordering::Relaxed))
}

/// Signals that were blocked.
pub fn blocked() -> Signals {
    Signals(BLOCKED.load(Ordering::Relaxed))
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`), from now on, an error with a
/// sentence that does not end this command. A handler, unlike an ignored signal, does not outlive
/// an exec: programs find the default.
pub fn survive_file_limit() {
    let signal = Signal::SIGXFSZ as i32;
    if !ignored().contains(signal) {
        // Without it such a write ends this command.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// A constructor, which the C library calls before `main`.
// SAFETY: the section is an array of functions of this type. A constructor of an executable may
// use all of glibc; this one reads a file and uses nothing that Rust's runtime sets up before
// `main`.
#[used]
#[allow(unsafe_code)]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = read;

extern "C" fn read() {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return;
    };
    IGNORED.store(mask(&status, "SigIgn:"), Ordering::Relaxed);
    BLOCKED.store(mask(&status, "SigBlk:"), Ordering::Relaxed);
}

fn mask(status: &str, field: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_as_the_kernel_prints_them() {
        // Signals 1 and 13 are bits 0 and 12.
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        let ignored = Signals(mask(status, "SigIgn:"));
        assert_eq!(ignored.iter().collect::<Vec<_>>(), [1, 13]);
        assert!(ignored.contains(13) && !ignored.contains(12) && !ignored.contains(0));
        assert_eq!(mask(status, "SigBlk:"), 0);
        assert_eq!(mask("", "SigIgn:"), 0);
    }
}
