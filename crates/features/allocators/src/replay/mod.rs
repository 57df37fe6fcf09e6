//! Replays a recorded program's calls to its allocator with other allocators, and measures
//! them: time of an operation, memory, failures.
//!
//! ```text
//! recording ──▶ recording ──▶ OperationsWriter ──▶ Operations   the operations file
//!                                                      │
//!                              allocator's library ──▶ Replayer ──▶ the replayer's process
//!                                                      │                  │
//!                                                   Outcome ◀── results ◀─┘
//! ```
//!
//! The files and the steps of the replayer, and its hook for tracers, are described in
//! [`allotrope_replayer`], whose program the command embeds. This crate starts it; it prints
//! nothing, and knows neither the command line nor the format of a report.

pub mod allocators;
pub mod bench;
mod calibration;
mod comparison;
mod descendants;
mod environment;
mod live_curve;
mod operations_file;
mod recording;
mod replayer;
pub mod report;
mod results;
mod spread;
mod worth;

pub use allotrope_replayer::operations::{Call, Record, ThreadExit};
pub use calibration::{Calibration, calibrate};
pub use comparison::{Measured, POINTS, Plan, Step, measure, needed, this_processor};
pub use descendants::Descendants;
pub use environment::{Environment, EnvironmentRow, Source};
pub use live_curve::LiveCurve;
pub use operations_file::{Operations, OperationsError, OperationsWriter, Records};
pub use recording::{Dropped, RecordedOperations, RecordingError, operations_of};
pub use replayer::{Mode, Prepared, Replayer, Running, Settings, Touch};
pub use results::{Figures, Histogram, Outcome, Point, Results, too_long};
pub use spread::{Spread, Verdict};
