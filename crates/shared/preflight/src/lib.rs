//! Whether a program can be recorded, and if not, why and what to do.
//!
//! Three parts of Allotrope use this crate to decide it:
//!
//! | part | when | what it does with the result |
//! | --- | --- | --- |
//! | the command | before it starts the first program | refuses with a sentence; `doctor` prints it |
//! | the recorder | inside the target, before each `exec` and `posix_spawn` | posts a diagnostic in shared memory |
//! | the collector | when a process turns out to have no recorder | writes the sentence into the trace |
//!
//! [`judge`] reads a program's file through [`ProgramFile`] and returns a
//! [`NotRecordable`]. This core uses no standard library, does not allocate and does not
//! panic, since the recorder runs it in other programs' processes on files that may be
//! hostile. The feature `std` adds the sentences for users (`sentence`), access to files
//! (`file`, `executable`), and which allocator (`allocator`, `linked_allocator`) and which
//! libraries (`loaded_libraries`) a program uses.
//!
//! The result depends on the file, on the credentials of the process that executes it
//! and on two environment variables. Whether a recorder really reports from the program
//! is not known here; the collector observes it.
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![forbid(unsafe_code)]

mod elf;
mod judge;
mod not_recordable;
pub mod privileges;
mod program_file;
pub mod sanitizer;

#[cfg(feature = "std")]
pub mod allocator;
#[cfg(feature = "std")]
pub mod executable;
#[cfg(feature = "std")]
pub mod file;
#[cfg(feature = "std")]
pub mod linked_allocator;
#[cfg(feature = "std")]
pub mod loaded_libraries;
#[cfg(feature = "std")]
pub mod named_functions;
#[cfg(feature = "std")]
mod sentence;
#[cfg(feature = "std")]
mod symbol_facts;

pub use judge::{Content, FIRST_LINE, Interpreter, SCRIPT_DEPTH, Start, judge};
pub use not_recordable::NotRecordable;
pub use program_file::ProgramFile;
