//! Progress of long work on one module, for display.

use std::fmt;
use std::sync::Arc;

/// The kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A debug file is fetched from a server. Progress is in bytes.
    Fetching,
    /// Debug information is read. Progress is in units of DWARF.
    Reading,
}

/// Receives the kind of work, the amount done, and the whole amount (0: unknown).
type Listener = dyn Fn(Work, u64, u64) + Send + Sync;

/// Calls a listener, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Progress(Option<Arc<Listener>>);

impl Progress {
    pub(crate) fn new(listener: impl Fn(Work, u64, u64) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    pub(crate) fn report(&self, work: Work, done: u64, total: u64) {
        if let Some(listener) = &self.0 {
            listener(work, done, total);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0.is_some() { "listener" } else { "none" };
        formatter.write_str(text)
    }
}
