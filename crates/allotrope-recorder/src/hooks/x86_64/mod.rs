//! The functions that the program calls, in x86-64 assembly.

pub mod counting;
pub mod entry;
