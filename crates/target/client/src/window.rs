//! Windows, named spans of the program whose allocations Allotrope counts, and what
//! affects them: opting out and waiting for quiet.

use std::time::Duration;

use crate::ffi;

// The flags of `allotrope_window_open` and `allotrope_window_close`, with the same values
// as in `allotrope.h`.
pub(crate) const THIS_THREAD: u32 = 1;
pub(crate) const WAIT_FOR_QUIET: u32 = 2;
pub(crate) const COMPARE_DESCRIPTORS: u32 = 4;

/// An open window of the recording. Dropping it closes the window. Windows may nest and
/// overlap. A forked child does not inherit open windows. Without the recorder a window has
/// no effect.
///
/// A window may be dropped on another thread than that which opened it. But if calls are
/// only counted ([`Recording::Counts`](crate::Recording::Counts)), a window of
/// [`WindowOptions::this_thread`] then has no figures.
///
/// ```
/// # fn encode() {}
/// let window = allotrope_client::Window::open("encode", 1000);
/// for _ in 0..1000 {
///     encode();
/// }
/// drop(window);
/// ```
#[derive(Debug)]
#[must_use = "the window closes when this is dropped"]
pub struct Window {
    number: u64,
    close_flags: u32,
}

impl Window {
    /// Opens a window that counts all threads. The recorder copies at most 255 bytes of
    /// the name, whole characters. `iterations` is how often the program repeats the
    /// measured work in the window; 0 if that has no meaning.
    pub fn open(name: &str, iterations: u64) -> Self {
        Self::options(name).iterations(iterations).open()
    }

    /// Returns the default options of a window with this name: all threads, no wait, 0
    /// iterations.
    pub fn options(name: &str) -> WindowOptions<'_> {
        WindowOptions {
            name,
            iterations: 0,
            flags: 0,
            close_flags: 0,
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        ffi::window_close(self.number, self.close_flags);
    }
}

/// Options of a [`Window`] that is not open yet.
#[derive(Debug, Clone, Copy)]
#[must_use = "only `open` opens the window"]
pub struct WindowOptions<'a> {
    name: &'a str,
    iterations: u64,
    pub(crate) flags: u32,
    pub(crate) close_flags: u32,
}

impl WindowOptions<'_> {
    /// Sets how often the program repeats the measured work in the window.
    pub fn iterations(mut self, iterations: u64) -> Self {
        self.iterations = iterations;
        self
    }

    /// Counts only the thread that opens the window.
    pub fn this_thread(mut self) -> Self {
        self.flags |= THIS_THREAD;
        self
    }

    /// Before opening and before closing the window, waits until no other thread of this
    /// process has allocated or freed memory for 20 ms, but for at most 2 s. Then the
    /// window opens (closes) in any case; the recording contains whether the wait timed
    /// out.
    pub fn wait_for_quiet(mut self) -> Self {
        self.flags |= WAIT_FOR_QUIET;
        self.close_flags |= WAIT_FOR_QUIET;
        self
    }

    /// Compares the open file descriptors at the opening and the closing. Both wait until
    /// Allotrope has read the list of open descriptors.
    pub fn compare_descriptors(mut self) -> Self {
        self.flags |= COMPARE_DESCRIPTORS;
        self
    }

    /// Opens the window. If it cannot be recorded, the returned window has no effect.
    pub fn open(self) -> Window {
        Window {
            number: ffi::window_open(self.name, self.iterations, self.flags),
            close_flags: self.close_flags,
        }
    }
}

/// Calls the closure and returns its result. Until the closure returns or panics, the
/// events of this thread are recorded, but belong to no window. Calls may nest. Without
/// the recorder it only calls the closure.
pub fn opt_out<R>(closure: impl FnOnce() -> R) -> R {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            ffi::opt_out(false);
        }
    }
    ffi::opt_out(true);
    let _guard = Guard;
    closure()
}

/// Waits until no other thread of this process has allocated or freed memory for the
/// duration `quiet`, and returns `true`. Returns `false` if that does not happen within
/// `timeout`. Rounds both up to whole milliseconds, at most `u32::MAX`. A thread that is
/// busy but does not allocate counts as quiet. Without the recorder it returns `true` at
/// once.
#[must_use = "the wait may have timed out"]
pub fn quiet(quiet: Duration, timeout: Duration) -> bool {
    ffi::quiet(milliseconds(quiet), milliseconds(timeout))
}

fn milliseconds(time: Duration) -> u32 {
    let up = time.as_nanos().div_ceil(1_000_000);
    u32::try_from(up).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_milliseconds() {
        assert_eq!(milliseconds(Duration::ZERO), 0);
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::from_millis(20)), 20);
        assert_eq!(milliseconds(Duration::MAX), u32::MAX);
    }

    #[test]
    fn without_the_recorder_waits_end_at_once_and_closures_are_called() {
        assert!(quiet(Duration::from_secs(3600), Duration::from_secs(3600)));
        assert_eq!(opt_out(|| 7), 7);
        assert_eq!(crate::recording(), crate::Recording::No);
        drop(Window::options("w").this_thread().wait_for_quiet().open());
    }
}
