//! The interface of Allotrope, the heap profiler, for recorded Rust programs: they open
//! *windows*, named spans whose allocations are counted exactly, and report *blocks*
//! that the recorder cannot intercept ([`Recorded`], [`pool`]).
//!
//! Unless the program runs under `allotrope record` or `allotrope test`, all functions
//! do nothing, except that [`measure`] and [`measure_with`] call their closure.
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
//! ended. On systems other than Linux with glibc, and with `crt-static`, programs compile
//! and are never recorded.
#![deny(unsafe_code)]

// Calls of the recorder's functions, and implementations of unsafe traits.
#[allow(unsafe_code)]
mod ffi;
mod measure;
pub mod pool;
mod setting;
mod window;

pub use ffi::recorded::Recorded;
pub use measure::{Protocol, measure, measure_with};
pub use window::{Window, WindowOptions, opt_out, quiet};

/// Whether this process is being recorded, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recording {
    /// Not recorded.
    No,
    /// Every event, each allocation with its stack.
    Stacks,
    /// Only the number of events, without stacks.
    Counts,
}

/// Whether and how the events of this thread are recorded. [`Recording::No`] also if
/// the thread has opted out of windows ([`opt_out`]).
pub fn recording() -> Recording {
    match ffi::recording() {
        1 => Recording::Stacks,
        2 => Recording::Counts,
        _ => Recording::No,
    }
}
