//! Windows: named spans of the program whose allocations Allotrope counts.

use std::time::Duration;

use crate::ffi;

pub(crate) const THIS_THREAD: u32 = 1;
pub(crate) const WAIT_FOR_QUIET: u32 = 2;
pub(crate) const COMPARE_DESCRIPTORS: u32 = 4;

/// An open window of the recording. Dropping it closes the window. Windows may nest and
/// overlap. Without the recorder it has no effect.
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
    /// Opens a window that counts all threads. The recorder truncates the name to 255
    /// bytes. `iterations` is how often the program repeats the measured work in the
    /// window; 0 if that has no meaning.
    pub fn open(name: &str, iterations: u64) -> Self {
        Self::options(name).iterations(iterations).open()
    }

    /// Returns options with which to open a window.
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

    /// Counts only this thread.
    pub fn this_thread(mut self) -> Self {
        self.flags |= THIS_THREAD;
        self
    }

    /// Waits until the other threads are quiet before opening and before closing the
    /// window.
    pub fn wait_for_quiet(mut self) -> Self {
        self.flags |= WAIT_FOR_QUIET;
        self.close_flags |= WAIT_FOR_QUIET;
        self
    }

    /// Compares the open file descriptors at the opening and the closing.
    pub fn compare_descriptors(mut self) -> Self {
        self.flags |= COMPARE_DESCRIPTORS;
        self
    }

    /// Opens the window.
    pub fn open(self) -> Window {
        Window {
            number: ffi::window_open(self.name, self.iterations, self.flags),
            close_flags: self.close_flags,
        }
    }
}

/// Calls the closure and returns its result. The events of this thread in the meantime
/// are recorded, but belong to no window.
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
/// duration `quiet`. Returns `false` if that does not happen within `timeout`. Rounds
/// times up to whole milliseconds. Without the recorder it returns `true` at once.
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
