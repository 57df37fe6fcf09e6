//! Whether every stack is the right one, whatever the program does with its
//! control flow and its modules, and whether nothing is lost meanwhile.
//!
//! The programs print the stacks that they allocate from, derived from their
//! own loops ([`truth`]); what was recorded must be exactly that. [`verified`]
//! asks libunwind besides, for each single allocation.

#[path = "../support/mod.rs"]
mod support;

mod building;
mod compilers;
mod control_flow;
mod interruption;
mod modules;
mod places;
mod small_stacks;
mod truth;
mod unknown_code;
mod unreadable;
mod verified;
