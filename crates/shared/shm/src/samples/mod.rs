//! The shared memory in which a watched process keeps its own state: which of its blocks were
//! sampled and are live, with their stacks, and which were freed lately.
//!
//! Each watched process has one [`Memory`](layout::Memory), a sealed file in memory (`memfd`).
//! The process writes it itself, and no collector takes part. So the state is there whoever
//! comes to read it and when, a reader may die at any moment, and what a reader
//! holds a descriptor of outlives the process, after SIGKILL too.
//!
//! - [`layout`]: the structures, their sizes, and who writes what.
//! - [`byte_table`]: by which `free` recognises, nearly always, that a block was not sampled.
//! - [`writer`]: the process's side: [`live`], [`totals`], [`stacks`], [`frees`], [`modules`] and
//!   [`periods`] of it.
//! - `reader` (a feature, needs `std`): checks and copies what is in the memory.
//! - `file` (the same feature): opens the memory of a process and maps it.
//!
//! # Who trusts whom
//! The process trusts nothing that it reads here: another process of the same user, such as
//! the watcher, can write the whole memory. It keeps no pointer and no lock here, checks
//! every index, bounds every search and waits for nobody. What it relies on for its own
//! memory accesses is in [`Private`](writer::Private). A hostile watcher can make a process
//! lose samples, and no more than that.
//!
//! The reader trusts nothing either: the process may be hostile, and write whatever it
//! likes while it is read. Each word is loaded once, then checked. Memory and time have bounds
//! that follow from the layout alone.
//!
//! # Signals, fork, death
//! The writer may be interrupted at any instruction, by a signal handler that itself
//! allocates, and be left by a jump (`siglongjmp`). It may die there. Whatever is published is
//! complete, for each structure has one word that publishes it, written last. What a jump
//! leaves unpublished is lost space, at most one slot each.
//!
//! A forked child shares the mapping with its parent and must not write to it. Its
//! [`Private`](writer::Private) is in memory that the kernel wipes at a fork: all zero, it knows
//! no sample and no committed page. The child then gets a memory of its own.

pub mod byte_table;
#[cfg(feature = "samples-reader")]
pub mod file;
pub mod frees;
pub mod layout;
pub mod live;
pub mod modules;
pub mod periods;
#[cfg(feature = "samples-reader")]
pub mod reader;
mod seqlock;
pub mod stacks;
pub mod totals;
pub mod writer;
