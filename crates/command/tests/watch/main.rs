//! `watch`: processes that write their memory themselves and play a known story, and what the
//! command says about them.

#[path = "../support/mod.rs"]
mod support;

mod process;
mod program;
mod refusals;
mod reports;
mod several;
mod signals;
mod switching;
