//! A program to measure: what is run, with what, and which figure of it counts.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is run.
#[derive(Debug, Clone)]
pub struct Job {
    /// An executable file, found already.
    pub program: PathBuf,
    /// Its arguments, without the zeroth.
    pub arguments: Vec<OsString>,
    /// Variables that it gets besides ours.
    pub environment: Vec<(&'static str, &'static str)>,
    /// What it reads from standard input; nothing if `None`.
    pub input: Option<PathBuf>,
    /// What is measured of it.
    pub figure: Figure,
    /// What uses it while it runs.
    pub client: Option<Client>,
}

/// What is measured, and in which unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Figure {
    /// The program prints, as its last line, how many nanoseconds one
    /// operation took.
    NanosecondsPrinted,
    /// Seconds from start to exit.
    Wall,
    /// Requests a second that the client got through.
    Requests,
}

/// The client of a server under measurement.
#[derive(Debug, Clone)]
pub struct Client {
    /// Where the server listens on the loopback.
    pub port: u16,
    /// Requests of each kind.
    pub requests: u64,
}

impl Job {
    /// A program with these arguments; its wall time counts.
    pub fn new<A: Into<OsString>>(
        program: PathBuf,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            program,
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            input: None,
            figure: Figure::Wall,
            client: None,
        }
    }

    /// The same, but the figure that it prints counts.
    pub fn printing(self) -> Self {
        Self {
            figure: Figure::NanosecondsPrinted,
            ..self
        }
    }
}
