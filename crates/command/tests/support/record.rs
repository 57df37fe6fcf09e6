//! Runs `allotrope`, above all `allotrope record`, as a shell would, with a time
//! limit: a hang fails and names what hung.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::ended::Ended;
use super::report::Report;
use super::started::{Started, TIME_LIMIT};

/// A recording about to be made.
pub struct Record {
    options: Vec<OsString>,
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    stdin: Vec<u8>,
    folder: TempDir,
    trace: Option<PathBuf>,
}

/// What a recording left behind.
pub struct Recording {
    pub ended: Ended,
    /// Of `record` and of the program.
    pub stderr: String,
    /// Where `record` ran.
    pub folder: TempDir,
    /// The trace asked for with `-o`.
    pub trace: PathBuf,
}

/// Describes `allotrope record -o FILE -- PROGRAM`.
pub fn record(program: impl AsRef<OsStr>) -> Record {
    let folder = tempfile::tempdir().expect("a temporary folder");
    Record {
        options: Vec::new(),
        program: program.as_ref().to_owned(),
        arguments: Vec::new(),
        environment: Vec::new(),
        stdin: Vec::new(),
        trace: Some(folder.path().join("recorded.allotrope")),
        folder,
    }
}

/// Runs `allotrope` with these arguments to its end.
#[track_caller]
pub fn allotrope<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    run(command().args(arguments), b"")
}

/// The command under test, without arguments.
pub fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_allotrope"))
}

impl Record {
    /// Adds an option of `record`.
    pub fn option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.options.push(option.as_ref().to_owned());
        self
    }

    /// Adds an argument of the program.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments of the program.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable for `record` and the program.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.into(), Some(value.as_ref().to_owned())));
        self
    }

    /// Sets what the program reads from its standard input.
    pub fn stdin(mut self, bytes: &[u8]) -> Self {
        self.stdin = bytes.to_vec();
        self
    }

    /// Writes the trace elsewhere.
    pub fn output(mut self, trace: &Path) -> Self {
        self.trace = Some(trace.to_owned());
        self
    }

    /// Leaves the trace's name to `record`.
    pub fn default_output(mut self) -> Self {
        self.trace = None;
        self
    }

    /// The folder in which `record` will run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The whole command, for tests that do more with it than run it.
    pub fn command(&self) -> Command {
        let mut command = command();
        command.arg("record").args(&self.options);
        if let Some(trace) = &self.trace {
            command.arg("-o").arg(trace);
        }
        command.arg("--").arg(&self.program).args(&self.arguments);
        command.current_dir(self.folder.path());
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Records.
    #[track_caller]
    pub fn run(self) -> Recording {
        let ended = run(&mut self.command(), &self.stdin);
        self.recorded(ended)
    }

    /// Begins to record.
    #[track_caller]
    pub fn start(&self) -> Started {
        Started::new(&mut self.command())
    }

    /// The recording that the command left when it ended.
    pub fn recorded(self, ended: Ended) -> Recording {
        Recording {
            stderr: ended.errors(),
            ended,
            trace: self.trace.unwrap_or_default(),
            folder: self.folder,
        }
    }

    /// Runs the program itself, in a folder of its own, not recorded.
    pub fn plain(&self) -> Ended {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(folder.path());
        for (name, value) in &self.environment {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        run(&mut command, &self.stdin)
    }
}

impl Deref for Recording {
    type Target = Ended;

    fn deref(&self) -> &Ended {
        &self.ended
    }
}

impl Recording {
    /// Fails unless `record` exited with 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Fails, with all output, unless `record` ended with this status.
    #[track_caller]
    pub fn code(mut self, status: i32) -> Self {
        self.ended = self.ended.code(status);
        self
    }

    /// Fails unless `record` ended with this status and has this text in its stderr.
    #[track_caller]
    pub fn fails(mut self, status: i32, sentence: impl AsRef<str>) -> Self {
        self.ended = self.ended.fails(status, sentence);
        self
    }

    /// The report, checked against the documented form.
    #[track_caller]
    pub fn report(&self) -> Report {
        Report::of(&self.trace)
    }
}

/// Runs a command to its end with these bytes on its standard input.
#[track_caller]
pub fn run(command: &mut Command, stdin: &[u8]) -> Ended {
    run_within(TIME_LIMIT, command, stdin)
}

/// Like [`run`], for a script that starts many programs and so may take longer than one.
#[track_caller]
pub fn run_within(limit: Duration, command: &mut Command, stdin: &[u8]) -> Ended {
    let mut started = Started::new(command);
    started.feed(stdin);
    started.wait(limit)
}
