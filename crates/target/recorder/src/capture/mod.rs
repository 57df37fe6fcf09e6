//! Turns the stack of a call into an id: which code is mapped, the host of
//! `allotrope-unwind`, new stack ids.

pub mod loader_tables;
pub mod modules;
pub mod stack_ids;
pub mod unseen;
pub mod unwind;
#[cfg(feature = "verify")]
pub mod verify;
