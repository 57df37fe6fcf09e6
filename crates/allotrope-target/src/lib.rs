//! Whether a program can be recorded, and if not, why and what to do.
//!
//! Three parts of Allotrope ask this, and all of them ask here:
//!
//! | who | when | what it does with the answer |
//! | --- | --- | --- |
//! | the command | before it starts the first program | refuses with a sentence; `doctor` prints it |
//! | the recorder | inside the target, before each `exec` and `posix_spawn` | posts a diagnostic in shared memory |
//! | the collector | when a process turns out to have no recorder | writes the sentence into the trace |
//!
//! [`judge`] reads a program's file through [`ProgramFile`] and returns a
//! [`NotRecordable`]. This core has no standard library, allocates nothing and
//! panics on nothing, since the recorder runs it in other programs' processes on
//! files that may be hostile. With the feature `std` there are also the sentences
//! (`sentence`), the files themselves (`file`, `executable`), the allocator
//! that a program has (`allocator`) and the libraries it loads (`loaded_libraries`).
//!
//! The answer depends on the file, on the credentials of the process that
//! executes it and on two environment variables. Whether the recorder really
//! reports from the program is observed elsewhere, by the collector.
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![forbid(unsafe_code)]

mod elf;
mod judge;
mod not_recordable;
pub mod privileges;
pub mod sanitizer;

#[cfg(feature = "std")]
pub mod allocator;
#[cfg(feature = "std")]
pub mod executable;
#[cfg(feature = "std")]
pub mod file;
#[cfg(feature = "std")]
pub mod loaded_libraries;
#[cfg(feature = "std")]
mod sentence;

pub use judge::{Content, FIRST_LINE, Interpreter, ProgramFile, SCRIPT_DEPTH, Start, judge};
pub use not_recordable::NotRecordable;
