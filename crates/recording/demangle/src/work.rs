//! Counts the work on one name: bytes of text, and steps that may give no text.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The most work on one name. Its longest spelling has 1 MiB.
const OF_ONE_NAME: u64 = 4 << 20;

/// The work on one name, which may be done in another thread.
#[derive(Debug)]
pub(crate) struct Work {
    limit: u64,
    done: AtomicU64,
    exhausted: AtomicBool,
}

impl Work {
    /// Allows at most `limit` of work, and at most what is allowed for one name.
    pub fn within(limit: u64) -> Self {
        Self {
            limit: limit.min(OF_ONE_NAME),
            done: AtomicU64::new(0),
            exhausted: AtomicBool::new(false),
        }
    }

    /// Counts so many bytes or steps; an error beyond the limit.
    pub fn take(&self, steps: usize) -> fmt::Result {
        // Only one thread works on a name.
        let done = self.done.load(Relaxed).saturating_add(steps as u64);
        if done > self.limit {
            self.exhaust();
            return Err(fmt::Error);
        }
        self.done.store(done, Relaxed);
        Ok(())
    }

    /// Notes that the name needs more than is allowed.
    pub fn exhaust(&self) {
        self.exhausted.store(true, Relaxed);
    }

    /// The work done.
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// Whether more work was needed than the limit allows.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted.load(Relaxed)
    }
}

/// Text that refuses to grow beyond the work that is allowed.
pub(crate) struct BoundedText<'w> {
    pub text: String,
    work: &'w Work,
    longest: usize,
}

impl<'w> BoundedText<'w> {
    /// An empty text of at most `longest` bytes.
    pub fn new(work: &'w Work, longest: usize) -> Self {
        Self {
            text: String::new(),
            work,
            longest,
        }
    }

    /// Counts a step that gives no text.
    pub fn step(&self) -> fmt::Result {
        self.work.take(1)
    }
}

impl fmt::Write for BoundedText<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        // A part without text is a step, too.
        self.work.take(part.len().max(1))?;
        if self.text.len() + part.len() > self.longest {
            self.work.exhaust();
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}
