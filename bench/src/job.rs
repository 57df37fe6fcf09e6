//! A program to measure: its arguments and input, and the figure that is measured.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A program to run.
#[derive(Debug, Clone)]
pub struct Job {
    /// The path of the executable file.
    pub program: PathBuf,
    /// Arguments of the program, without argument 0.
    pub arguments: Vec<OsString>,
    /// Additional environment variables.
    pub environment: Vec<(&'static str, &'static str)>,
    /// The file for its standard input; `/dev/null` if `None`.
    pub input: Option<PathBuf>,
    /// The figure that is measured.
    pub figure: Figure,
    /// Client of the program, if it is a server.
    pub client: Option<Client>,
}

/// What is measured, and its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Figure {
    /// Nanoseconds per operation, which the program prints as its last line.
    NanosecondsPrinted,
    /// Seconds from start to exit.
    Wall,
    /// Requests per second of the client.
    Requests,
}

/// The program that sends requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// redis-benchmark, for a redis-server.
    Redis,
    /// wrk, for an HTTP server whose process id is in the file `server.pid`.
    Wrk,
}

/// The client of a server under measurement.
#[derive(Debug, Clone)]
pub struct Client {
    /// Which client.
    pub kind: ClientKind,
    /// The port of the server on the loopback interface.
    pub port: u16,
    /// Number of requests of each kind (redis-benchmark), or seconds (wrk).
    pub amount: u64,
}

impl Job {
    /// A program with these arguments, whose wall time is measured.
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

    /// Measures the same program by the figure that it prints.
    pub fn printing(self) -> Self {
        Self {
            figure: Figure::NanosecondsPrinted,
            ..self
        }
    }
}
