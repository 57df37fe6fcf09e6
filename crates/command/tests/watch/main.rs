//! `watch`: processes that write their memory themselves and play a known story, and what the
//! command says about them.

#[path = "../support/mod.rs"]
mod support;

mod live_view;
mod otlp;
mod perf_stream;
mod postmortem;
mod process;
mod program;
mod refusals;
mod reports;
mod serve;
mod several;
mod shipped_recorder;
mod signals;
mod sparse;
mod switching;
mod watch_soak;
mod watch_started;
mod watched_programs;
