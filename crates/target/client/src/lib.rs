//! The interface of Allotrope, the heap profiler, for recorded Rust programs: they open
//! *windows*, named spans whose allocations are counted exactly, and report *blocks*
//! that the recorder cannot intercept ([`Recorded`], [`pool`]).
//!
//! ```
//! extern crate allotrope_client as allotrope; // or rename it in Cargo.toml
//! # fn encode(_: u64) -> u64 { 1 }
//! // One window around one call of the closure, which does its 1000 iterations.
//! let bytes: u64 = allotrope::measure("encode", 1000, || (0..1000).map(encode).sum());
//! # assert_eq!(bytes, 1000);
//! ```
//!
//! The program cannot read its figures: `allotrope` shows them after the program has
//! ended.
//!
//! **Without the recorder** the functions do nothing, except that functions with a
//! closure call it; each call costs a load and a comparison. There is a recorder only if
//! the program runs under `allotrope record` or `allotrope test`, on Linux with glibc, and
//! is not linked with `crt-static`. Everywhere else programs compile and are never
//! recorded.
//!
//! **Errors**: no function fails or panics. What cannot be recorded is missing in the
//! recording or marked there. Panics of closures are passed on; windows are closed and
//! opting out ends before that.
//!
//! **Units**: sizes and alignments are in bytes.
//!
//! **Threads**: any thread may call any function at any time. The recorder's functions
//! never call the program's allocator, so an allocator may call them.
#![deny(unsafe_code)]

// Calls of the recorder's functions, and implementations of unsafe traits.
#[allow(unsafe_code)]
mod ffi;
mod measure;
pub mod pool;
mod setting;
mod window;

/// Makes a function a test whose allocations `allotrope test` counts: it is measured as by
/// [`measure_with`], in windows with the path of the test in its crate. Without the recorder
/// it is an ordinary test, as with `#[test]`, and is run once.
///
/// `iterations = NUMBER` is how often the function repeats the measured work; 1 unless
/// given. `crate = NAME` is the name under which this crate is known, if it is not
/// `allotrope`. Other attributes, such as `#[ignore]` and `#[should_panic]`, and a result
/// are those of the test.
///
/// A window counts all threads of the process. So the tests must not run side by side when
/// they are measured: `cargo allotrope test` runs them one after the other, and so does
/// `cargo test -- --test-threads=1`.
///
/// ```
/// extern crate allotrope_client as allotrope;
/// # fn encode(_: u64) -> u64 { 1 }
///
/// #[allotrope::test(iterations = 1000)]
/// fn encoding() {
///     let bytes: u64 = (0..1000).map(encode).sum();
///     assert_eq!(bytes, 1000);
/// }
/// ```
#[cfg(feature = "macros")]
pub use allotrope_client_macros::test;
pub use ffi::recorded::Recorded;
#[doc(hidden)]
pub use measure::measure_test;
pub use measure::{Protocol, measure, measure_with};
pub use window::{Window, WindowOptions, opt_out, quiet};

/// Whether this process is being recorded, and how. The result of [`recording`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recording {
    /// The process is not recorded.
    No,
    /// Every event is recorded, each allocation with its stack.
    Stacks,
    /// Only the numbers of events and bytes are recorded, without stacks.
    Counts,
}

/// Returns whether and how the events of this thread are recorded. The result is
/// [`Recording::No`] without the recorder, and also while the thread opts out of windows
/// ([`opt_out`]).
pub fn recording() -> Recording {
    match ffi::recording() {
        1 => Recording::Stacks,
        2 => Recording::Counts,
        _ => Recording::No,
    }
}
