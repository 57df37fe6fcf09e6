//! Watches running processes whose memories (`samples` of `allotrope-shm`) hold their sampled blocks.
//!
//! ```text
//!  attach ─▶ snapshot ─┬─▶ sites ─▶ watch ─▶ report ─▶ text, json, live
//!                      ├─▶ sites ─▶ prometheus
//!                      ├─▶ blocks ─▶ json, poireau
//!                      └─▶ sampled ─▶ a file, or a `SampledProfile` for exports
//! ```
//!
//! - [`attach`]: a process's memory, the lock on it (`lock`), switching sampling on and off.
//! - [`discover`]: which processes have such a memory.
//! - [`snapshot`]: the state of a process at one moment.
//! - [`sites`]: its samples by stack, with estimates: live, old, grown since the mark.
//! - [`since`]: since when it was sampled, and at which periods, in words.
//! - [`history`]: the trend of each stack, from [`survival`]: which of its blocks were freed at which
//!   age, and [`verdict`]: what that says.
//! - [`watch`]: what is remembered between snapshots; makes the [`report`].
//! - [`names`]: names of frames. [`blocks`]: single blocks.
//! - [`resident`]: resident memory, and the recorder's part of it.
//! - [`perf_events`], [`perf_stream`], [`perf_report`]: reports from what perf prints of probes.
//! - [`text`], [`json`], [`poireau`], [`prometheus`]: the outputs. [`live`]: the live view.
//! - [`sampled`]: snapshots as a sampled profile.
//!
//! Not here: the command line, the loop, signals, where the output goes (the command).
//!
//! Processes may be hostile. What they write is checked by `samples` of `allotrope-shm`. What is
//! remembered of them has bounds: one snapshot of each (14 MiB at most), one more for the high-water
//! mark, the blocks of the mark, [`history`]'s and [`names`]' limits.
#![forbid(unsafe_code)]

pub mod attach;
pub mod blocks;
pub mod discover;
pub mod history;
pub mod json;
pub mod live;
mod lock;
mod nameless;
pub mod names;
pub mod perf_events;
pub mod perf_report;
pub mod perf_stream;
pub mod poireau;
mod process_status;
pub mod prometheus;
pub mod report;
pub mod resident;
pub mod sampled;
pub mod since;
pub mod sites;
pub mod snapshot;
pub mod survival;
pub mod text;
pub mod verdict;
pub mod watch;
