//! Every stack is right and no event is lost, whatever the program does with its
//! control flow and its modules.
//!
//! The programs print the stacks that they allocate from, derived from their own loops
//! ([`truth`]); the recording must have exactly those. [`verified`] also compares each
//! single allocation's stack with libunwind's.

mod building;
mod code_ids;
mod compilers;
mod control_flow;
mod interruption;
mod modules;
mod small_stacks;
mod truth;
mod unknown_code;
mod unreadable;
mod verified;
