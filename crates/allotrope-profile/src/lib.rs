//! The model: call stacks, their metrics, the peak, lifetimes.
//!
//! [`replay()`] turns a trace into a [`Profile`]: one [`Process`] for each
//! process image, one [`Site`] for each call stack that allocated in it. What
//! the figures mean is said where they are declared, in [`model`].
//!
//! Not suitable for following a program while it runs: an image is replayed
//! from its start. It does not print anything (`allotrope-report` does) and
//! does not look for symbols (the trace carries them).
#![forbid(unsafe_code)]

mod block_key;
mod clock;
mod counts;
mod cursor;
mod decode_ahead;
mod error;
mod frames;
mod index;
mod ledger;
mod lifetime;
mod live;
mod merge;
mod metric;
pub mod model;
mod prefetch;
mod replay;
mod runtime_code;
mod series;
mod site;
mod site_order;
mod source;
mod stack;
mod stack_set;
mod stack_tree;
mod tentative;
#[cfg(test)]
mod test_events;
mod window_books;
mod window_replay;
mod window_table;
pub mod windows;

pub use allotrope_trace::model::{Descriptors, LeftOpen, QuietWait};
pub use error::ReplayError;
pub use lifetime::Lifetimes;
pub use metric::{Metric, MetricSet, MetricValues, Unit};
pub use model::{
    EntryTotals, Frame, Module, Process, Profile, Site, ThreadTotals, Totals, UNKNOWN_MODULE,
    command_text,
};
pub use replay::{Block, Helpers, Options, blocks_of_sites, replay, replay_readable};
pub use series::{LiveSample, ResidentSample, Series};
pub use source::{MemoryTrace, NodeVisitor, Run, SourceEntry, StackPart, TraceSource, Visitor};
pub use stack::Stack;
pub use stack_set::{CountedStack, StackFrame, StackSet};
pub use window_replay::replay_windows;
pub use windows::{WindowFigures, WindowKey, WindowRun};
