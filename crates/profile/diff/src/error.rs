//! The reasons why two sets of stacks cannot be compared.

use thiserror::Error;

use crate::Side;
use allotrope_profile::Metric;

/// Why two sets of stacks cannot be compared.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum DiffError {
    /// A side without runs.
    #[error("there is no run {side} to compare; give at least one")]
    NoRuns {
        /// The side.
        side: Side,
    },
    /// A run that lacks the metric.
    #[error(
        "run {run} {side}{} does not give {}; choose a metric that both sides have",
        titled(title),
        metric.words()
    )]
    UnknownMetric {
        /// The requested metric.
        metric: Metric,
        /// The side.
        side: Side,
        /// The run, from 1.
        run: usize,
        /// Its title.
        title: String,
    },
    /// A stack that refers to a frame that does not exist.
    #[error(
        "stack {stack} of run {run} {side}{} refers to frame {frame}, which it does not have; read the file again",
        titled(title)
    )]
    NoSuchFrame {
        /// The side.
        side: Side,
        /// The run, from 1.
        run: usize,
        /// Its title.
        title: String,
        /// Index of the stack.
        stack: usize,
        /// The frame's index, which is out of range.
        frame: u32,
    },
    /// Figures whose sum overflows an `i64`.
    #[error(
        "the figures of run {run} {side}{} sum to more than {}; they cannot be real",
        titled(title),
        i64::MAX
    )]
    TooLarge {
        /// The side.
        side: Side,
        /// The run, from 1.
        run: usize,
        /// Its title.
        title: String,
    },
    /// More stacks than a `u32` can number.
    #[error(
        "there are more than {} stacks to compare; compare fewer runs at once",
        u32::MAX
    )]
    TooMany,
    /// A number of iterations that is not finite and above 0.
    #[error("differences cannot be given per {per}; give a number above 0")]
    Per {
        /// The number of iterations.
        per: f64,
    },
}

fn titled(title: &str) -> String {
    if title.is_empty() {
        String::new()
    } else {
        format!(" ({title})")
    }
}
