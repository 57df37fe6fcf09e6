//! Windows: named spans of the program, of which Allotrope counts what was
//! allocated in them.

use std::time::Duration;

use crate::ffi;

pub(crate) const THIS_THREAD: u32 = 1;
pub(crate) const WAIT_FOR_QUIET: u32 = 2;
pub(crate) const COMPARE_DESCRIPTORS: u32 = 4;

/// A window of the recording, open until it is dropped. Windows may nest and
/// overlap. Without the recorder it is nothing.
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
    /// Opens a window over all threads. Of the name 255 bytes are kept;
    /// `iterations` is how often the window does what it measures, 0 if that
    /// has no meaning.
    pub fn open(name: &str, iterations: u64) -> Self {
        Self::options(name).iterations(iterations).open()
    }

    /// A window that is yet to be opened, with more to choose.
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

/// What can be chosen about a [`Window`].
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing is opened before `open`"]
pub struct WindowOptions<'a> {
    name: &'a str,
    iterations: u64,
    pub(crate) flags: u32,
    pub(crate) close_flags: u32,
}

impl WindowOptions<'_> {
    /// How often the window does what it measures.
    pub fn iterations(mut self, iterations: u64) -> Self {
        self.iterations = iterations;
        self
    }

    /// Only what this thread does is in it.
    pub fn this_thread(mut self) -> Self {
        self.flags |= THIS_THREAD;
        self
    }

    /// Waits until the other threads are quiet before it opens, and before it
    /// closes.
    pub fn wait_for_quiet(mut self) -> Self {
        self.flags |= WAIT_FOR_QUIET;
        self.close_flags |= WAIT_FOR_QUIET;
        self
    }

    /// Compares the open file descriptors at its ends.
    pub fn compare_descriptors(mut self) -> Self {
        self.flags |= COMPARE_DESCRIPTORS;
        self
    }

    /// Opens it.
    pub fn open(self) -> Window {
        Window {
            number: ffi::window_open(self.name, self.iterations, self.flags),
            close_flags: self.close_flags,
        }
    }
}

/// Calls the closure and gives its result; what this thread allocates and frees
/// meanwhile belongs to no window, though it is recorded.
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

/// Waits until no other thread of this process has allocated or freed anything
/// for `quiet`, or until the time is out (`false`). Without the recorder it is
/// quiet at once. Times are whole milliseconds, rounded up.
#[must_use = "it may not have become quiet in time"]
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
    fn without_the_recorder_everything_is_quiet_and_called() {
        assert!(quiet(Duration::from_secs(3600), Duration::from_secs(3600)));
        assert_eq!(opt_out(|| 7), 7);
        assert_eq!(crate::recording(), crate::Recording::No);
        drop(Window::options("w").this_thread().wait_for_quiet().open());
    }
}
