//! What `allotrope paths` prints and saves: `allotrope-paths/1`.

use serde::{Deserialize, Serialize};

/// The format's name and number.
pub const FORMAT: &str = "allotrope-paths/1";
/// Largest saved report that is read, in bytes.
const LARGEST: usize = 256 << 20;

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// The recording, as it was named.
    pub recording: String,
    /// Operations of the recording.
    pub recorded_operations: u64,
    /// One of so many of them was stepped.
    pub every: u64,
    /// The allocators, in the order given.
    pub allocators: Vec<Allocator>,
}

/// An allocator's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allocator {
    /// As it was given.
    pub name: String,
    /// Its library; empty for the C library of the replayer.
    pub library: String,
    /// How often the same operations were stepped.
    pub runs: u32,
    /// Operations stepped in each run.
    pub operations: u64,
    /// Operations that were too long to be stepped to their end.
    pub cut: u64,
    /// All operations together: `all`; then each entry point.
    pub instructions: Vec<Instructions>,
    /// By entry point and size.
    pub size_classes: Vec<SizeClass>,
    /// The paths of each entry point, those with most instructions first.
    pub paths: Vec<Path>,
    /// What the allocator calls outside its own code, and system calls and locked
    /// instructions of its own.
    pub callees: Vec<Callee>,
    /// Source lines, those with most instructions first.
    pub lines: Vec<Line>,
    /// Sentences, each with its evidence.
    pub findings: Vec<String>,
}

/// Instructions of an entry point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instructions {
    /// `malloc`, …, or `all`.
    pub entry_point: String,
    /// Operations in each run.
    pub operations: u64,
    /// Mean of all runs, an operation.
    pub mean: f64,
    /// The lowest mean of a run.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// Half of the operations need at most so many.
    pub median: u64,
    /// 99 of 100 need at most so many.
    pub p99: u64,
    /// Locked instructions, an operation.
    pub locked: f64,
    /// System calls, an operation.
    pub system_calls: f64,
}

impl Instructions {
    /// The spread of the runs relative to their mean; 0 if they are identical.
    pub fn spread(&self) -> f64 {
        match self.mean > 0.0 {
            true => (self.high - self.low) / self.mean,
            false => 0.0,
        }
    }
}

/// Instructions by size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeClass {
    /// The entry point.
    pub entry_point: String,
    /// Sizes up to this one, and above half of it, in bytes; the first class is up to 16.
    pub up_to_bytes: u64,
    /// Operations.
    pub operations: u64,
    /// Instructions an operation.
    pub mean: f64,
    /// Median of the instructions of an operation.
    pub median: u64,
}

/// Operations that executed the same functions in the same order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// The entry point.
    pub entry_point: String,
    /// Functions in the order of their first instruction.
    pub functions: Vec<Function>,
    /// Operations.
    pub operations: u64,
    /// Of the operations of the entry point, 0 to 1.
    pub share_of_operations: f64,
    /// Instructions an operation.
    pub instructions: f64,
    /// Of the instructions of the entry point, 0 to 1.
    pub share_of_instructions: f64,
}

/// A function of a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its name. Without one, its distance from the nearest exported function or the start of
    /// its section, `malloc+0x340 (no symbol)`; `[.plt]` for the stubs of a linkage table.
    pub function: String,
    /// The source file of its first executed line; empty if unknown.
    pub file: String,
    /// That line; 0 if unknown.
    pub line: u32,
    /// The file of its code.
    pub module: String,
    /// Whether it belongs to the allocator.
    pub allocator: bool,
    /// Its own instructions, an operation.
    pub instructions: f64,
}

/// What an allocator calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Callee {
    /// The function; `system call` or `locked instruction` for those of the allocator's own
    /// code.
    pub function: String,
    /// `environment`, `locale`, `string compare`, `lock`, `system call`, `memory` or `other`.
    pub kind: String,
    /// The allocator's function that calls it.
    pub caller: String,
    /// The source file of the call; empty if unknown.
    pub file: String,
    /// Its line; 0 if unknown.
    pub line: u32,
    /// Operations that call it, of all, 0 to 1.
    pub share_of_operations: f64,
    /// Its instructions and those of what it calls, of all, 0 to 1.
    pub share_of_instructions: f64,
    /// By entry point, the same two shares of the operations and instructions of that one.
    pub entry_points: Vec<CalleeOfEntry>,
}

/// A callee's part of an entry point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalleeOfEntry {
    /// The entry point.
    pub entry_point: String,
    /// Of its operations.
    pub share_of_operations: f64,
    /// Of its instructions.
    pub share_of_instructions: f64,
}

/// A source line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The innermost function, inlined or not.
    pub function: String,
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// Instructions, an operation (of all).
    pub instructions: f64,
    /// Of all instructions, 0 to 1.
    pub share_of_instructions: f64,
}

/// Why a saved report cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    /// It is something else.
    #[error("it is no report of `allotrope paths`")]
    NotPaths,
    /// It was cut or changed.
    #[error("it is a damaged report of `allotrope paths`: {0}")]
    Damaged(String),
}

impl Report {
    /// Whether a file begins as a saved report does.
    pub fn is_saved(beginning: &[u8]) -> bool {
        let text = beginning.trim_ascii_start();
        let Some(rest) = text.strip_prefix(b"{\"format\":") else {
            return false;
        };
        rest.trim_ascii_start().starts_with(b"\"allotrope-paths/")
    }

    /// Reads a saved report, which may be hostile.
    ///
    /// # Errors
    /// If it is none, of another version, or damaged.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        if !Self::is_saved(bytes) || bytes.len() > LARGEST {
            return Err(ReadError::NotPaths);
        }
        let report: Self =
            serde_json::from_slice(bytes).map_err(|error| ReadError::Damaged(error.to_string()))?;
        if report.format != FORMAT {
            let sentence = format!("its format is {}, not {FORMAT}", report.format);
            return Err(ReadError::Damaged(sentence));
        }
        let rows = report.allocators.iter().flat_map(|it| &it.instructions);
        let mut numbers = rows.flat_map(|it| [it.mean, it.low, it.high]);
        if numbers.any(|it| !it.is_finite() || it < 0.0) {
            return Err(ReadError::Damaged("a number is negative".to_owned()));
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_report_is_refused() {
        for bytes in [
            &b""[..],
            b"{}",
            b"ALLOTROPE",
            b"{\"format\":\"allotrope-cpu/1\"}",
        ] {
            assert_eq!(Report::read(bytes), Err(ReadError::NotPaths));
        }
        let cut = br#"{"format":"allotrope-paths/1","recording":"x"#;
        assert!(matches!(Report::read(cut), Err(ReadError::Damaged(_))));
        let other = br#"{"format":"allotrope-paths/2","recording":"x","recorded_operations":1,"every":1,"allocators":[]}"#;
        let error = Report::read(other).unwrap_err();
        assert!(error.to_string().contains("allotrope-paths/2"), "{error}");
    }

    #[test]
    fn a_report_survives_being_saved() {
        let report = Report {
            format: FORMAT.to_owned(),
            recording: "x".to_owned(),
            recorded_operations: 3,
            every: 1,
            allocators: Vec::new(),
        };
        let saved = serde_json::to_vec(&report).unwrap();
        assert_eq!(Report::read(&saved), Ok(report));
    }

    /// Two reports are the same only if what was saved is read to the last digit.
    #[test]
    fn numbers_survive_being_saved() {
        let row = |at: u32| Instructions {
            entry_point: "all".to_owned(),
            operations: 1,
            mean: f64::from(at) / 7.0,
            low: f64::from(at) / 11.0,
            high: f64::from(at).sqrt(),
            median: 1,
            p99: 1,
            locked: 0.1 * f64::from(at),
            system_calls: 1.0 / f64::from(at),
        };
        for at in 1..10_000 {
            let saved = serde_json::to_string(&row(at)).unwrap();
            let read: Instructions = serde_json::from_str(&saved).unwrap();
            assert_eq!(read, row(at), "{saved}");
        }
    }
}
