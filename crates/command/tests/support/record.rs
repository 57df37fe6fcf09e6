//! Runs `allotrope`, above all `allotrope record`, as a shell would, with a time
//! limit: a hang fails and names what hung.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::report::Report;

/// Far above what any of these programs needs on a machine under load.
const TIME_LIMIT: Duration = Duration::from_secs(300);

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
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
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
pub fn allotrope<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
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
    pub fn run(self) -> Recording {
        let output = run(&mut self.command(), &self.stdin);
        self.recorded(output)
    }

    /// The recording that the command left when it ended.
    pub fn recorded(self, output: Output) -> Recording {
        Recording {
            status: output.status,
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            trace: self.trace.unwrap_or_default(),
            folder: self.folder,
        }
    }

    /// Runs the program itself, in a folder of its own, not recorded.
    pub fn plain(&self) -> Output {
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

impl Recording {
    /// Fails, with all output, unless `record` ended with this status.
    #[track_caller]
    pub fn expect_status(self, status: i32) -> Self {
        assert_eq!(
            self.status.code(),
            Some(status),
            "status of record: {}\nstdout: {}\nstderr: {}",
            self.status,
            String::from_utf8_lossy(&self.stdout),
            self.stderr
        );
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
pub fn run(command: &mut Command, stdin: &[u8]) -> Output {
    run_within(TIME_LIMIT, command, stdin)
}

/// Like [`run`], for a script that starts many programs and so may take longer than one.
#[track_caller]
pub fn run_within(limit: Duration, command: &mut Command, stdin: &[u8]) -> Output {
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    finish_within(limit, child, stdin).unwrap_or_else(|problem| panic!("{command:?}: {problem}"))
}

/// Waits for a child whose standard streams are pipes.
pub fn finish(child: Child, stdin: &[u8]) -> Result<Output, String> {
    finish_within(TIME_LIMIT, child, stdin)
}

fn finish_within(limit: Duration, mut child: Child, stdin: &[u8]) -> Result<Output, String> {
    if let Some(mut pipe) = child.stdin.take() {
        let bytes = stdin.to_vec();
        // A program that does not read closes the pipe: no error of ours.
        std::thread::spawn(move || drop(pipe.write_all(&bytes)));
    }
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let status = wait(&mut child, limit)?;
    Ok(Output {
        status,
        stdout: stdout.map_or_else(Vec::new, joined),
        stderr: stderr.map_or_else(Vec::new, joined),
    })
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("pipes can be read");
        bytes
    })
}

fn joined(reader: JoinHandle<Vec<u8>>) -> Vec<u8> {
    reader.join().expect("the reader does not panic")
}

fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() > limit => {
                // The reason of the failure is the hang, not this.
                let _ = child.kill();
                return Err(format!("not ended after {limit:?}"));
            }
            Ok(None) => std::thread::sleep(pause),
            Err(error) => return Err(error.to_string()),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
