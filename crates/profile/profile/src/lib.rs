//! The model of a profile, and the aggregation that makes a profile from a trace.
//!
//! [`aggregate()`] turns a trace into a [`Profile`]: one [`Process`] for each process
//! image (a pid between two calls of `exec`), one [`Site`] for each call stack that
//! allocated in it. [`model`] defines every figure where it is declared.
//!
//! ```text
//!  TraceSource                  a file, or records in memory (source)
//!      │
//!      ▼
//!    index                      reads everything but events; lists the chunks of events
//!      │
//!      ▼
//!  decode_ahead                 helper threads decode chunks of events
//!      │
//!      ▼ one cursor for each thread's stream
//!    cursor                     thread and time of each event, results of realloc
//!      │
//!      ▼
//!    merge ◀──▶ speculative     one order for all events; can be rolled back
//!      │             │
//!      │             └─▶ live   which block is live at which key
//!      ▼
//!  accumulator                  the figures of an image: one event (`take`) or many
//!  window_accumulator           (`take_batch`) at a time; the figures of windows
//!      │
//!      ▼
//!  aggregator                   one image after the other, a child at its fork
//!      │
//!      ▼
//!   process ◀── frames, site_order  names and order of the sites
//!      │
//!      ▼
//!    Profile ─▶ StackSet        for diffs and other tools' formats (stack_set)
//! ```
//!
//! [`operations`] gives the merged calls themselves, for an aggregation with another allocator.
//!
//! An aggregation of a growing trace shows what it has so far, but every aggregation begins at the
//! start of the image. The crate prints nothing (`allotrope-report` does) and does not symbolize
//! (the trace contains the symbols).
#![forbid(unsafe_code)]

mod accumulator;
mod aggregate;
mod aggregator;
mod block_key;
mod clock;
mod counts;
mod cursor;
mod decode_ahead;
mod details;
mod error;
pub mod evidence;
mod filter;
mod frame_form;
mod frames;
mod gap;
mod gaps;
mod heap_curve;
mod heap_curves;
mod index;
mod jit_code;
mod lifetime;
mod lifetime_histogram;
mod live;
mod merge;
mod metric;
pub mod model;
mod named_frame;
mod observer;
pub mod operations;
mod options;
mod peak;
mod peaks;
mod prefetch;
mod process;
mod range_windows;
mod reachability;
mod run_info;
mod run_times;
pub mod sampled;
mod series;
mod sink;
mod site;
mod site_details;
mod site_order;
mod source;
mod speculative;
mod stack;
mod stack_set;
mod stack_tree;
mod step;
mod sum_curve;
#[cfg(test)]
mod test_events;
mod threads;
mod time_range;
mod time_table;
pub mod trend;
pub mod warnings;
mod window_accumulator;
mod window_aggregation;
mod window_runs;
mod window_table;
pub mod windows;

pub use aggregate::{aggregate, aggregate_readable, block_events, blocks_of_sites};
pub use allotrope_trace::model::{BlockType, NamedFrame};
pub use allotrope_trace::model::{Descriptors, ImageId, LeftOpen, QuietWait, StackId};
pub use details::{
    FreePlace, FreeStack, FreeingThread, SiteDetails, SiteEntry, SiteThread, SizeClass,
    SizeFigures, ThreadPair,
};
pub use error::AggregateError;
pub use evidence::{Evidence, GrowthEvidence, SiteEvidence};
pub use filter::Filter;
pub use frame_form::FrameForm;
pub use gap::Gap;
pub use heap_curve::HeapPoint;
pub use heap_curves::{HeapCurve, heap_curves};
pub use lifetime::Lifetimes;
pub use lifetime_histogram::LifetimeHistogram;
pub use metric::{Metric, MetricSet, MetricValues, Unit};
pub use model::{
    EntryTotals, Mark, Module, Process, Profile, Site, ThreadTotals, Totals, UNKNOWN_MODULE,
    command_text,
};
pub use named_frame::{Frame, StackFrame, nameless_address};
pub use observer::{Block, BlockEvent};
pub use options::{Helpers, Options};
pub use peak::Peak;
pub use peaks::{peaks, peaks_readable};
pub use reachability::{Amount, Lost, Reachability};
pub use run_info::{RunInfo, SamplingInfo};
pub use run_times::{RunTimes, run_times};
pub use series::{LivePoint, ResidentPoint, Series};
pub use source::{
    EventChunk, MemoryTrace, NodeVisitor, SourceEntry, StackPart, TraceSource, Visitor,
};
pub use stack::Stack;
pub use stack_set::{CountedStack, Maximum, StackSet};
pub use sum_curve::{PARTS_OF_SUM, sum_of_live, sum_of_resident};
pub use time_range::aggregate_range;
pub use time_table::{BlockSum, LIVE_AT_END, RangeFigures, TimeCell, TimeTable};
pub use window_aggregation::aggregate_windows;
pub use windows::{WindowFigures, WindowKey, WindowRun};
