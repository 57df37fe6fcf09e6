//! What a caller learns while files are read.

/// Called while files are read, for a progress bar, a bound of memory or a log. Every method does
/// nothing unless it is defined; `()` is an observer that ignores everything.
pub trait Observer: Send + Sync {
    /// `done` of `total` parts of `work` are done. `work` is a phrase such as
    /// `reading the trace`. Threads may call this at the same time.
    fn progress(&self, work: &'static str, done: u64, total: u64) {
        let _ = (work, done, total);
    }

    /// The work is done; the next call of [`progress`](Self::progress) begins another one.
    fn finished(&self) {}

    /// A file of so many bytes is going to be read.
    fn opens(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Something is missing that reading can do without, in a sentence.
    fn warning(&self, sentence: &str) {
        let _ = sentence;
    }
}

impl Observer for () {}
