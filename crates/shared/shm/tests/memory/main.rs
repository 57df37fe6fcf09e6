//! The memory of a watched process: what is written is read, whoever else writes there or dies.

mod concurrent;
mod contents;
mod estimates;
mod hostile;
mod periods;
mod processes;
mod support;
