//! Who watches a process: locks of ranges of its memory's file.
//!
//! These are locks of open file descriptions (`fcntl_locking(2)`). They end with the watcher,
//! however it ends, and leave nothing behind. The file has other bytes; the ranges only name
//! what is locked:
//!
//! | byte | locked by | meaning |
//! | --- | --- | --- |
//! | 0 | the watcher | the process is watched |
//! | 1 | who takes over | the watcher must let go |
//! | 2 + *n* | the watcher | the period was *n* before it was changed; 0: off |
//!
//! Everybody who can open the memory can lock it, the process, too. So what the locks say is
//! checked, and nobody waits for them without a limit.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use allotrope_sampling::Period;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{self, flock};

const WATCHER: i64 = 0;
const REQUEST: i64 = 1;
/// Where the periods begin.
const BEFORE: i64 = 2;

/// How often a watcher that has been asked to let go is looked for, and the pause between.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// The outcome of an attempt to become the watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Nobody watched the process.
    Free,
    /// Another watcher has let go. This was the period before it came, `None`: off; if it is
    /// known.
    TakenOver(Option<Option<Period>>),
    /// Somebody watches it.
    Held,
    /// The watcher was asked to let go, and does not.
    NoAnswer,
}

/// Becomes the watcher. `takes_over`: asks another one to let go.
///
/// # Errors
/// If the file cannot be locked.
pub fn claim(file: &OwnedFd, takes_over: bool) -> io::Result<Claim> {
    if lock(file, WATCHER)? {
        return Ok(Claim::Free);
    }
    if !takes_over || !lock(file, REQUEST)? {
        return Ok(Claim::Held);
    }
    let before = before(file);
    for _ in 0..ATTEMPTS {
        if lock(file, WATCHER)? {
            unlock(file, REQUEST);
            return Ok(Claim::TakenOver(before));
        }
        sleep(PAUSE);
    }
    unlock(file, REQUEST);
    Ok(Claim::NoAnswer)
}

/// Tells the next watcher what the period was.
pub fn publish(file: &OwnedFd, before: Option<Period>) {
    // Without it the next one keeps the period that it finds.
    let _ = lock(file, BEFORE + before.map_or(0, |it| it.bytes() as i64));
}

/// Whether another watcher wants to take over.
pub fn is_asked(file: &OwnedFd) -> bool {
    holder(file, REQUEST, 1).is_some()
}

/// Lets go of the process.
pub fn release(file: &OwnedFd) {
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, 0, 0)));
}

/// What the watcher has published.
fn before(file: &OwnedFd) -> Option<Option<Period>> {
    let most = Period::MAX.bytes() as i64 + 1;
    let start = holder(file, BEFORE, most)?;
    match u64::try_from(start.checked_sub(BEFORE)?).ok()? {
        0 => Some(None),
        bytes => Period::new(bytes).map(Some),
    }
}

/// Where the first lock of somebody else begins.
fn holder(file: &OwnedFd, start: i64, length: i64) -> Option<i64> {
    let mut found = range(libc::F_WRLCK, start, length);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found)).ok()?;
    (i32::from(found.l_type) != libc::F_UNLCK).then_some(found.l_start)
}

/// Locks a byte; `false`: somebody else has.
fn lock(file: impl AsFd, byte: i64) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, byte, 1))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn unlock(file: &OwnedFd, byte: i64) {
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, byte, 1)));
}

/// A length of 0 is everything behind the start.
fn range(kind: i32, start: i64, length: i64) -> flock {
    flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn opened(folder: &tempfile::TempDir) -> OwnedFd {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(folder.path().join("memory"));
        file.expect("a file").into()
    }

    #[test]
    fn one_watches_until_its_descriptor_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (opened(&folder), opened(&folder));
        assert_eq!(claim(&one, false).expect("a lock"), Claim::Free);
        assert_eq!(claim(&two, false).expect("a lock"), Claim::Held);
        drop(one);
        assert_eq!(claim(&two, false).expect("a lock"), Claim::Free);
    }

    #[test]
    fn who_takes_over_learns_what_the_period_was() {
        for before in [None, Period::new(1), Some(Period::MAX)] {
            let folder = tempfile::tempdir().expect("a folder");
            let (one, two) = (opened(&folder), opened(&folder));
            assert_eq!(claim(&one, false).expect("a lock"), Claim::Free);
            publish(&one, before);
            assert!(!is_asked(&one));
            let taken = std::thread::scope(|scope| {
                let taken = scope.spawn(|| claim(&two, true).expect("a lock"));
                while !is_asked(&one) {
                    std::thread::yield_now();
                }
                release(&one);
                taken.join().expect("a claim")
            });
            assert_eq!(taken, Claim::TakenOver(Some(before)));
            assert!(!is_asked(&one));
        }
    }
}
