//! What a Rust program tells Allotrope, the heap profiler, about itself:
//! *windows*, in which its allocations are counted exactly, and *blocks* that
//! the recorder can not see ([`Recorded`], [`pool`]). It does nothing unless the
//! program runs under `allotrope record` or `allotrope test`, except that what
//! is to be measured is still called.
//!
//! ```
//! extern crate allotrope_client as allotrope; // or rename it in Cargo.toml
//! # fn encode(_: u64) -> u64 { 1 }
//! // One window around one call of the closure, which does its 1000 iterations.
//! let bytes: u64 = allotrope::measure("encode", 1000, || (0..1000).map(encode).sum());
//! # assert_eq!(bytes, 1000);
//! ```
//!
//! Not suitable for finding out what was counted: `allotrope` shows that, after
//! the program has ended. Other systems than Linux with glibc, and programs
//! with `crt-static`, compile and are never recorded.
#![deny(unsafe_code)]

// The recorder's functions, and what must be unsafe by its definition.
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
    /// Nothing is recorded.
    No,
    /// Every event, each allocation with its stack.
    Stacks,
    /// Events are counted, without stacks.
    Counts,
}

/// Whether what this thread does is being recorded and counts in windows, and
/// how.
pub fn recording() -> Recording {
    match ffi::recording() {
        1 => Recording::Stacks,
        2 => Recording::Counts,
        _ => Recording::No,
    }
}
