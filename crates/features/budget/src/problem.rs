//! Why a measurement failed.

use std::fmt;
use std::time::Duration;

use allotrope_report::signal_name;
use allotrope_text::Shown;

/// Why a measurement failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The test's budget cannot be read, so the test was not run.
    Budget(String),
    /// The program could not be started.
    NotStarted(String),
    /// The program ended with this status.
    Status(i32),
    /// This signal ended the program.
    Signal(i32),
    /// The program exceeded this time limit.
    TimedOut(Duration),
    /// The user interrupted the measurement.
    Stopped,
    /// The program was not recorded completely.
    NotRecorded(String),
    /// The recording cannot be read.
    Unreadable(String),
    /// A window was not closed.
    LeftOpen(String),
    /// A window was opened while too many others were open.
    NotMeasured(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget(why) => write!(to, "its budget cannot be read: {why}"),
            Self::NotStarted(why) => write!(to, "it could not be started: {why}"),
            Self::Status(status) => write!(to, "it ended with status {status}"),
            Self::Signal(signal) => {
                let name = signal_name(*signal);
                write!(to, "it was ended by {name}")?;
                match name.as_str() {
                    "SIGPIPE" => to.write_str(": it wrote to a pipe that nobody reads any more"),
                    _ => Ok(()),
                }
            }
            Self::TimedOut(limit) => write!(
                to,
                "it did not end within {} s (`timeout` in allotrope.toml) and was ended",
                limit.as_secs()
            ),
            Self::Stopped => to.write_str("it was stopped"),
            Self::NotRecorded(why) => write!(to, "it was not recorded: {why}"),
            Self::Unreadable(why) => write!(to, "its recording cannot be read: {why}"),
            Self::LeftOpen(window) => write!(
                to,
                "its window {} was never closed, so it has no numbers",
                window.shown()
            ),
            Self::NotMeasured(window) => write!(
                to,
                "its window {} was opened while 64 others were open, so it has no numbers",
                window.shown()
            ),
        }
    }
}

impl Problem {
    /// Whether the program's output may explain the problem.
    pub fn is_of_program(&self) -> bool {
        !matches!(
            self,
            Self::Budget(_) | Self::NotStarted(_) | Self::NotRecorded(_) | Self::Unreadable(_)
        )
    }
}
