//! How recorders learn that the collector is gone: a word of shared memory in
//! which the kernel sets a bit when a thread of the collector's dies.
//!
//! That is what robust futexes are for (`set_robust_list(2)`, and
//! `robust-futex-ABI` in the kernel's documentation): at a thread's end the
//! kernel walks the thread's list of locks and marks each that it still holds.
//! An entry of the list and the lock's word may lie apart by an offset that the
//! list's head names. Here list and entry are private memory and the word is
//! shared: nothing that another process can write is ever followed, by us or
//! by the kernel.

use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// `struct robust_list_head` of `linux/futex.h` with its only entry behind it.
#[repr(C)]
struct List {
    /// Address of the first entry.
    first: usize,
    /// From an entry to its word.
    offset: isize,
    /// The entry that is about to join or leave: none.
    pending: usize,
    /// The entry: the address of the next, which is the head again.
    entry: usize,
}

/// Bytes of `struct robust_list_head`.
const HEAD_BYTES: usize = 24;

/// A thread that does nothing but live. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// Its end is the thread's signal to end; nothing is sent.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Liveness {
    /// Sets `word` to a thread's id, until this is dropped (then to 0) or the
    /// process dies (then the kernel sets `FUTEX_OWNER_DIED`).
    ///
    /// # Safety
    /// The word stays mapped until this has been dropped.
    pub(crate) unsafe fn begin(word: *const AtomicU32) -> io::Result<Self> {
        let address = word as usize;
        let (end, ended) = sync_channel::<()>(0);
        let (ready, begun) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("liveness".into())
            .stack_size(64 << 10)
            .spawn(move || {
                // SAFETY: the caller of `begin` keeps the word mapped until
                // `drop`, which waits for this thread.
                let word = unsafe { &*(address as *const AtomicU32) };
                let begun = hold(word);
                let is_held = begun.is_ok();
                let _ = ready.send(begun);
                if is_held {
                    // Nobody sends: this waits for the sender's end.
                    let _ = ended.recv();
                    word.store(0, Release);
                }
            })?;
        let this = Self {
            end: Some(end),
            thread: Some(thread),
        };
        match begun.recv() {
            Ok(Ok(())) => Ok(this),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other("a thread ended too early")),
        }
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes `word` the only lock that the calling thread holds. The thread uses
/// no robust mutex of libc's, whose list this takes the place of.
fn hold(word: &AtomicU32) -> io::Result<()> {
    // Never given back: the kernel reads it as long as the thread lives. There
    // is one for each recording, of 32 bytes.
    let list = Box::leak(Box::new(List {
        first: 0,
        offset: 0,
        pending: 0,
        entry: 0,
    }));
    list.first = (&raw const list.entry) as usize;
    list.entry = (&raw const *list) as usize;
    list.offset = (word.as_ptr() as isize).wrapping_sub(list.first as isize);
    let head = &raw const *list;
    // SAFETY: the head, as long as it says, and its entry live as long as the
    // process; the word holds another thread's id or none once it is not ours.
    let result = unsafe { libc::syscall(libc::SYS_set_robust_list, head, HEAD_BYTES) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    word.store(thread as u32, Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_a_threads_id_while_the_thread_lives() {
        let word = AtomicU32::new(0);
        // SAFETY: the word outlives it.
        let liveness = unsafe { Liveness::begin(&raw const word) }.unwrap();
        let thread = word.load(Relaxed);
        let name = format!("/proc/self/task/{thread}/comm");
        assert_eq!(std::fs::read_to_string(name).unwrap(), "liveness\n");
        drop(liveness);
        assert_eq!(word.load(Relaxed), 0);
    }

    #[test]
    fn a_thread_that_dies_is_marked() {
        let word: &AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        // The kernel does it before whoever waits for the thread goes on.
        std::thread::spawn(|| hold(word).unwrap()).join().unwrap();
        assert_ne!(word.load(Relaxed) & crate::layout::OWNER_DIED, 0);
    }
}
