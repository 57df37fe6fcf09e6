//! The allocator laboratory: replays, benchmarks, paths, CPU samples, and their reports.

#[path = "../support/mod.rs"]
mod support;

mod allocator_commands;
mod allocators;
mod cpu;
mod environment;
mod paths;
mod replay;
