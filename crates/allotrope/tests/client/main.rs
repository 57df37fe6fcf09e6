//! What a program tells the recorder through `allotrope.h`: the events of
//! `programs/client_*.c`, counted from their sources. (How the header compiles
//! is tested beside it.)

mod allocators;
mod files;
mod pools;
mod python;
mod remedies;
mod windows;

#[path = "../support/mod.rs"]
mod support;
