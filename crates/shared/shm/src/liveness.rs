//! Lets recorders detect that the collector has died: a word of shared memory in which
//! the kernel sets a bit when a certain thread of the collector ends.
//!
//! The word is a robust futex (`set_robust_list(2)`, and `robust-futex-ABI` in the
//! kernel's documentation). At a thread's end the kernel walks the thread's list of
//! locks and sets a bit in each lock that the thread still holds. The lock's word is at
//! an offset from the list's entry that is stored in the list's head. Here list and
//! entry are in private memory and only the word is shared, so neither this process nor
//! the kernel follows a pointer that another process can write.

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
    /// Offset from an entry to its lock's word, in bytes.
    offset: isize,
    /// The entry that is being added or removed; 0 for none.
    pending: usize,
    /// The entry: the address of the next one, which is the head again.
    entry: usize,
}

/// Bytes of `struct robust_list_head`.
const HEAD_BYTES: usize = 24;

/// The thread that holds the robust futex and does nothing else. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// Nothing is sent; the thread ends when this sender is dropped.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Liveness {
    /// Starts the thread and sets `word` to its id. When the result is dropped, `word`
    /// becomes 0; when the process dies, the kernel sets `FUTEX_OWNER_DIED` in it.
    ///
    /// # Safety
    /// The word must stay mapped until the result has been dropped.
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
                    // Nothing is sent: this waits until the sender is dropped.
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

/// Makes `word` the only robust lock that the calling thread holds. This replaces
/// libc's list for the thread, which therefore must not use libc's robust mutexes.
fn hold(word: &AtomicU32) -> io::Result<()> {
    // Never freed, since the kernel reads it as long as the thread lives: 32 bytes for
    // each recording.
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
    // SAFETY: the head has the given size; head and entry live as long as the process.
    // The kernel changes the word only while it contains this thread's id.
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
    fn the_kernel_sets_a_bit_when_the_thread_ends() {
        let word: &AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        // The kernel sets the bit before `join` returns.
        std::thread::spawn(|| hold(word).unwrap()).join().unwrap();
        assert_ne!(word.load(Relaxed) & crate::layout::OWNER_DIED, 0);
    }
}
