//! The command's exit statuses and the failures that lead to them. Printing
//! is `main`'s.

use allotrope_reading::ReadingError;

/// Everything went well.
pub const FINE: u8 = 0;
/// The tool itself failed.
pub const FAILED: u8 = 1;
/// The command line, or a file that it names, cannot be used.
pub const BAD_INPUT: u8 = 2;
/// A comparison found more than `--fail-on` allows.
pub const REGRESSION: u8 = 3;
/// A number of a test is better than its budget.
pub const IMPROVEMENT: u8 = 4;
/// A test or revision could not be built or measured.
pub const NOT_MEASURED: u8 = 5;
/// `record` itself failed; env(1) uses the same status.
pub const RECORD_FAILED: u8 = 125;
/// The program to record cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The program to record was not found.
pub const NOT_FOUND: u8 = 127;

/// Shown at the end of `--help` and in the manual page.
pub const DOCUMENTATION: &str = "\
Exit status:
  0        all went well
  1        allotrope failed
  2        bad usage, or a file or program that cannot be used
  3        `diff --fail-on` found more than it allows, or a test exceeds its budget
  4        a test is better than its budget
  5        a test could not be built or measured
  128+N    `test`, `compare`, `watch` or `view` was stopped by signal N
`allotrope record` ends with the status of the program instead:
  0 to 255 the program's own
  128+N    the program was ended by signal N
  125      the recording failed, or bad usage of `record`
  126      the program cannot be executed
  127      the program was not found";

/// The status of a command that was stopped by a signal, as a shell reports it for a
/// program that the signal ended.
pub fn stopped_by(signal: i32) -> u8 {
    128_u8.saturating_add(u8::try_from(signal).unwrap_or(0))
}

/// Why a command ends with another status than [`FINE`].
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// One sentence: what, where, what to do.
    pub error: anyhow::Error,
}

impl Failure {
    /// A failure with this status.
    pub fn new(status: u8, error: impl Into<anyhow::Error>) -> Self {
        Self {
            status,
            error: error.into(),
        }
    }
}

impl From<ReadingError> for Failure {
    fn from(error: ReadingError) -> Self {
        let status = match error.is_of_input() {
            true => BAD_INPUT,
            false => FAILED,
        };
        Self::new(status, error)
    }
}

/// Adds an exit status to the error of a result.
pub trait WithStatus<T> {
    /// Turns an error into a failure with this status.
    fn status(self, status: u8) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> WithStatus<T> for Result<T, E> {
    fn status(self, status: u8) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(status, error))
    }
}
