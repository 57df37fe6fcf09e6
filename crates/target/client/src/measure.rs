//! Measures a closure: [`measure`] calls it once in a window, [`measure_with`] several
//! times. The environment variables that `allotrope test` sets take precedence over the
//! program's numbers. `allotrope.h` implements the same protocol.

use crate::setting::setting;
use crate::window::{WAIT_FOR_QUIET, Window, WindowOptions};

/// Calls the closure once, in a window with this name, and returns its result. The window
/// opens when the other threads are quiet ([`WindowOptions::wait_for_quiet`]).
/// `iterations` is how often the closure repeats the measured work. Without the recorder
/// it only calls the closure.
///
/// ```
/// # fn encode(_: u64) -> usize { 1 }
/// let bytes: usize = allotrope_client::measure("encode", 1000, || (0..1000).map(encode).sum());
/// # assert_eq!(bytes, 1000);
/// ```
pub fn measure<R>(name: &str, iterations: u64, closure: impl FnOnce() -> R) -> R {
    let _window = with_settings(Window::options(name).iterations(iterations)).open();
    closure()
}

/// Calls the closure as often as the [`Protocol`] describes, and returns the result of
/// the last run. Each run is in a window of its own, which opens when the other threads are
/// quiet ([`WindowOptions::wait_for_quiet`]); earlier results are dropped outside of the
/// windows. Without the recorder it calls the closure as often.
///
/// ```
/// use allotrope_client::{Protocol, measure_with};
/// # fn encode_a_thousand_times() {}
/// measure_with(
///     Protocol::new("encode", 1000).warm_up(1).runs(10),
///     encode_a_thousand_times,
/// );
/// ```
pub fn measure_with<R>(protocol: Protocol<'_>, mut closure: impl FnMut() -> R) -> R {
    let warm_up = setting("ALLOTROPE_WARMUP").unwrap_or(protocol.warm_up);
    let runs = setting("ALLOTROPE_RUNS").unwrap_or(protocol.runs);
    let options = with_settings(Window::options(protocol.name).iterations(protocol.iterations));
    for _ in 0..warm_up {
        closure();
    }
    let mut run = || {
        let _window = options.open();
        closure()
    };
    for _ in 1..runs {
        run();
    }
    run()
}

/// What `#[allotrope::test]` calls in the place of the test's function. `module` is
/// `module_path!()`.
#[doc(hidden)]
pub fn measure_test<R>(module: &str, test: &str, iterations: u64, function: fn() -> R) -> R {
    let name = match module.split_once("::") {
        Some((_, module)) => format!("{module}::{test}"),
        None => test.to_owned(),
    };
    measure_with(Protocol::new(&name, iterations), function)
}

/// Adds the flags that every measurement uses: waiting for quiet before the window opens,
/// and those in `ALLOTROPE_WINDOW_FLAGS`.
fn with_settings(mut options: WindowOptions<'_>) -> WindowOptions<'_> {
    let more = setting("ALLOTROPE_WINDOW_FLAGS").unwrap_or(0);
    options.flags |= more | WAIT_FOR_QUIET;
    options.close_flags |= more;
    options
}

/// How often [`measure_with`] calls its closure. The environment variables
/// `ALLOTROPE_WARMUP` and `ALLOTROPE_RUNS`, which `allotrope test` sets, take precedence;
/// values that are not decimal numbers of at most 32 bits are ignored.
#[derive(Debug, Clone, Copy)]
pub struct Protocol<'a> {
    name: &'a str,
    iterations: u64,
    warm_up: u32,
    runs: u32,
}

impl<'a> Protocol<'a> {
    /// One run without warm-up. `name` is that of the windows. `iterations` is how often
    /// one call of the closure repeats the measured work.
    pub const fn new(name: &'a str, iterations: u64) -> Self {
        Self {
            name,
            iterations,
            warm_up: 0,
            runs: 1,
        }
    }

    /// Sets the number of calls before the first run, outside of any window.
    #[must_use]
    pub const fn warm_up(mut self, calls: u32) -> Self {
        self.warm_up = calls;
        self
    }

    /// Sets the number of runs. 0 is treated as 1.
    #[must_use]
    pub const fn runs(mut self, runs: u32) -> Self {
        self.runs = runs;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // No other test of this crate sets these variables.
    #[test]
    fn the_closure_is_called_according_to_the_protocol() {
        let mut calls = 0;
        let last = measure_with(Protocol::new("calls", 1).warm_up(2).runs(3), || {
            calls += 1;
            calls
        });
        assert_eq!((calls, last), (5, 5));
        assert_eq!(measure_with(Protocol::new("none", 1).runs(0), || 4), 4);
        let moved = String::from("moved in and returned");
        assert_eq!(measure("once", 1, || moved), "moved in and returned");
    }
}
