//! The living threads of one image: maps a tid, which the kernel reuses, to the trace's
//! thread id. `stream` announces threads, `scan` finds those that have ended. Both learn
//! names: a name is an event of the recorder's, or what `/proc` shows.

use allotrope_trace::model::ThreadId;
use rustc_hash::FxHashMap;

/// Largest number of living threads in the map of an image; a further thread has events, but
/// neither a name nor an end.
const MAX_THREADS: usize = 1 << 16;

/// A living thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) id: ThreadId,
    /// The thread was announced only by a nested ring so far (the ring of events inside
    /// an interrupted event); the announcement of its own ring may follow.
    provisional: bool,
    /// Name as last written to the trace.
    name: Option<String>,
    /// When the thread had that name.
    named_at: u64,
}

/// The living threads of one image.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    by_tid: FxHashMap<u32, Thread>,
    /// Names, by tid, that another thread gave to threads whose announcement is still to be
    /// read, each with its time.
    early_names: FxHashMap<u32, (u64, String)>,
    /// Threads that have ended, by tid, each with the time when it was found gone: another
    /// thread's ring may still have names that they got before.
    ended: FxHashMap<u32, (u64, Thread)>,
}

/// The result of a `Thread` event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// The thread of the ring's next events.
    pub(crate) thread: ThreadId,
    /// The thread was not in the map before.
    pub(crate) is_new: bool,
    /// The thread that had the tid before, which must have ended.
    pub(crate) ended: Option<ThreadId>,
}

impl Threads {
    /// Handles a `Thread` event of a ring (`nested`: of a nested one); `next` is the id
    /// for a new thread.
    pub(crate) fn announce(&mut self, tid: u32, nested: bool, next: ThreadId) -> Announced {
        if let Some(thread) = self.by_tid.get_mut(&tid)
            && (nested || thread.provisional)
        {
            thread.provisional &= nested;
            return Announced {
                thread: thread.id,
                is_new: false,
                ended: None,
            };
        }
        let ended = self.by_tid.remove(&tid).map(|thread| thread.id);
        if self.by_tid.len() < MAX_THREADS {
            let thread = Thread {
                id: next,
                provisional: nested,
                name: None,
                named_at: 0,
            };
            self.by_tid.insert(tid, thread);
        }
        Announced {
            thread: next,
            is_new: true,
            ended,
        }
    }

    /// Removes the thread `id`, which had ended by `tick`; `false` if it was removed before.
    pub(crate) fn end(&mut self, id: ThreadId, tid: u32, tick: u64) -> bool {
        let is_it = self.by_tid.get(&tid).is_some_and(|thread| thread.id == id);
        let ended = is_it.then(|| self.by_tid.remove_entry(&tid)).flatten();
        !self
            .keep_ended(ended.into_iter().collect(), tick)
            .is_empty()
    }

    /// Removes the threads whose tids were not in `living` at `tick`.
    pub(crate) fn take_gone(&mut self, living: &[u32], tick: u64) -> Vec<ThreadId> {
        let living: rustc_hash::FxHashSet<u32> = living.iter().copied().collect();
        let gone = self.by_tid.extract_if(|tid, _| !living.contains(tid));
        let gone: Vec<(u32, Thread)> = gone.collect();
        self.keep_ended(gone, tick)
    }

    fn keep_ended(&mut self, threads: Vec<(u32, Thread)>, tick: u64) -> Vec<ThreadId> {
        if self.ended.len() + threads.len() > MAX_THREADS {
            // Names of threads that ended so long ago were read.
            self.ended.clear();
        }
        let ids = threads.iter().map(|(_, thread)| thread.id).collect();
        let ended = threads
            .into_iter()
            .map(|(tid, thread)| (tid, (tick, thread)));
        self.ended.extend(ended);
        ids
    }

    /// Tids of the living threads.
    pub(crate) fn tids(&self) -> Vec<u32> {
        self.by_tid.keys().copied().collect()
    }

    /// The thread with this tid had this name at `tick`. Returns the thread if the trace
    /// lacks the name: it is another one than the last, and not older.
    pub(crate) fn name(&mut self, tid: u32, tick: u64, name: &str) -> Option<ThreadId> {
        let ended = self.ended.get_mut(&tid);
        let ended = ended.filter(|(gone_at, _)| tick <= *gone_at);
        let thread = self.by_tid.get_mut(&tid);
        let Some(thread) = thread.or(ended.map(|(_, thread)| thread)) else {
            if self.early_names.len() < MAX_THREADS {
                self.early_names.insert(tid, (tick, name.to_owned()));
            }
            return None;
        };
        if tick < thread.named_at {
            return None;
        }
        thread.named_at = tick;
        let is_new = thread.name.as_deref() != Some(name);
        is_new.then(|| {
            thread.name = Some(name.to_owned());
            thread.id
        })
    }

    /// Whether a living thread has this tid.
    pub(crate) fn has(&self, tid: u32) -> bool {
        self.by_tid.contains_key(&tid)
    }

    /// The name that the thread with this tid, which began at `tick`, was given before its
    /// announcement was read.
    pub(crate) fn take_early_name(&mut self, tid: u32, tick: u64) -> Option<(u64, String)> {
        let early = self.early_names.remove(&tid)?;
        (early.0 >= tick).then_some(early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(thread: ThreadId, is_new: bool, ended: Option<ThreadId>) -> Announced {
        Announced {
            thread,
            is_new,
            ended,
        }
    }

    #[test]
    fn a_tid_that_is_announced_again_is_another_thread() {
        let mut threads = Threads::default();
        assert_eq!(threads.announce(5, false, 0), announced(0, true, None));
        assert_eq!(threads.announce(5, false, 1), announced(1, true, Some(0)));
        assert!(!threads.end(0, 5, 9), "it has ended already");
        assert!(threads.end(1, 5, 9));
    }

    #[test]
    fn a_nested_ring_belongs_to_the_thread_whichever_is_read_first() {
        let mut threads = Threads::default();
        assert_eq!(threads.announce(5, false, 0), announced(0, true, None));
        assert_eq!(threads.announce(5, true, 1), announced(0, false, None));
        assert_eq!(threads.announce(6, true, 1), announced(1, true, None));
        assert_eq!(threads.announce(6, false, 2), announced(1, false, None));
        assert_eq!(threads.announce(6, false, 2), announced(2, true, Some(1)));
    }

    #[test]
    fn the_latest_name_counts_whichever_is_read_first() {
        let mut threads = Threads::default();
        threads.announce(5, false, 0);
        assert_eq!(threads.name(5, 20, "worker"), Some(0));
        assert_eq!(threads.name(5, 10, "program"), None, "it is older");
        assert_eq!(threads.name(5, 30, "worker"), None, "it is the same");
        assert_eq!(threads.name(5, 30, "idle"), Some(0));
    }

    #[test]
    fn a_name_may_be_read_before_the_announcement_of_its_thread() {
        let mut threads = Threads::default();
        assert_eq!(threads.name(6, 20, "worker"), None);
        threads.announce(6, false, 0);
        let early = threads.take_early_name(6, 10);
        assert_eq!(early, Some((20, "worker".to_owned())));
        // That of a thread that had the tid before.
        assert_eq!(threads.name(7, 20, "worker"), None);
        assert_eq!(threads.take_early_name(7, 30), None);
    }

    #[test]
    fn threads_that_are_not_among_the_living_are_removed() {
        let mut threads = Threads::default();
        threads.announce(5, false, 0);
        threads.announce(6, false, 1);
        assert_eq!(threads.take_gone(&[6, 7], 9), [0]);
        assert_eq!(threads.tids(), [6]);
    }

    /// A process that ends may lose its threads before the ring of the thread that named them is
    /// read.
    #[test]
    fn a_thread_that_was_found_gone_has_the_names_it_got_before() {
        let mut threads = Threads::default();
        threads.announce(5, false, 0);
        assert_eq!(threads.take_gone(&[], 20), [0]);
        assert_eq!(threads.name(5, 20, "worker"), Some(0));
        assert_eq!(threads.name(5, 10, "program"), None, "it is older");
        // That of a thread that will have the tid.
        assert_eq!(threads.name(5, 21, "next"), None);
        threads.announce(5, false, 1);
        assert_eq!(
            threads.take_early_name(5, 21),
            Some((21, "next".to_owned()))
        );
    }
}
