//! A program that runs: a test reads its lines, writes to its standard input, sends signals and
//! waits for its end. A hang fails and names what hung.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::ended::Ended;

/// Far above what any of these programs needs on a machine under load.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);

/// A program with pipes for its standard streams. It is killed if the test ends before it does.
pub struct Started {
    command: String,
    child: Child,
    input: Option<ChildStdin>,
    output: Stream,
    errors: Stream,
}

/// An output stream. A thread reads it, so that the program never waits for the test.
struct Stream {
    lines: Receiver<Vec<u8>>,
    /// Everything that was received.
    received: Vec<u8>,
}

impl Started {
    /// Starts a command.
    #[track_caller]
    pub fn new(command: &mut Command) -> Self {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::with_own_streams(command)
    }

    /// Starts a command that has streams of its own. Those that are no pipes are empty.
    #[track_caller]
    pub fn with_own_streams(command: &mut Command) -> Self {
        let spawned = command.spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self {
            command: format!("{command:?}"),
            input: child.stdin.take(),
            output: Stream::new(child.stdout.take()),
            errors: Stream::new(child.stderr.take()),
            child,
        }
    }

    /// The next line of stdout.
    #[track_caller]
    pub fn line(&mut self) -> String {
        match self.output.line(TIME_LIMIT) {
            Ok(line) => line,
            Err(problem) => panic!("no line: {problem}: {}", self.so_far()),
        }
    }

    /// The next line of stderr.
    #[track_caller]
    pub fn error_line(&mut self) -> String {
        match self.errors.line(TIME_LIMIT) {
            Ok(line) => line,
            Err(problem) => panic!("no line: {problem}: {}", self.so_far()),
        }
    }

    /// Reads stderr until it has these words. Returns everything that was read of it.
    #[track_caller]
    pub fn wait_for_error(&mut self, words: &str) -> String {
        loop {
            let read = String::from_utf8_lossy(&self.errors.received).into_owned();
            if read.contains(words) {
                return read;
            }
            if let Err(problem) = self.errors.line(TIME_LIMIT) {
                panic!("no {words:?}: {problem}: {}", self.so_far());
            }
        }
    }

    /// The next line of stdout that is an object for which `is_wanted` holds.
    #[track_caller]
    pub fn object(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let object = serde_json::from_str(&self.line()).expect("JSON");
            if is_wanted(&object) {
                return object;
            }
        }
    }

    /// Whether a line of its output so far has this text.
    pub fn has_written(&mut self, text: &str) -> bool {
        while self.output.line(Duration::ZERO).is_ok() {}
        String::from_utf8_lossy(&self.output.received).contains(text)
    }

    /// Writes a line to its standard input.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    /// Writes to its standard input.
    #[track_caller]
    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("a pipe");
        input.write_all(bytes).expect("it reads");
    }

    /// Writes to its standard input in the background, and closes it. A program that does not
    /// read is no error.
    pub fn feed(&mut self, bytes: &[u8]) {
        let (input, bytes) = (self.input.take(), bytes.to_vec());
        spawn(move || input.map(|mut it| it.write_all(&bytes)));
    }

    pub fn close_input(&mut self) {
        self.input = None;
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it was not waited for");
    }

    /// Its resident set in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("it was not waited for");
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let number = line.and_then(|it| it.split_whitespace().next());
        number.and_then(|it| it.parse().ok()).expect("KiB")
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    #[track_caller]
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Closes its standard input and waits for its end. The result has everything that it wrote.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        self.close_input();
        self.wait(TIME_LIMIT)
    }

    /// Waits for the end of a program that does not wait for its input.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> Ended {
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        while !self.has_ended() {
            assert!(
                start.elapsed() < limit,
                "not ended after {limit:?}: {}",
                self.so_far()
            );
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        let streams = [&mut self.output, &mut self.errors];
        let [stdout, stderr] = streams.map(|stream| {
            loop {
                match stream.line(limit) {
                    Ok(_) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => panic!("{}: open pipe", self.command),
                }
            }
            std::mem::take(&mut stream.received)
        });
        Ended {
            command: self.command.clone(),
            status: self.child.wait().expect("it is our child"),
            stdout,
            stderr,
        }
    }

    /// The command and what was read of its output, for messages.
    fn so_far(&mut self) -> String {
        let streams = [&mut self.output, &mut self.errors];
        let [stdout, stderr] = streams.map(|stream| {
            while stream.line(Duration::ZERO).is_ok() {}
            String::from_utf8_lossy(&stream.received).into_owned()
        });
        format!("{}\nstdout: {stdout}\nstderr: {stderr}", self.command)
    }
}

/// Waits until something is so; a test that waits for ever names what it waited for.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TIME_LIMIT, "waited too long: {what}");
        sleep(Duration::from_millis(5));
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Stream {
    fn new(pipe: Option<impl Read + Send + 'static>) -> Self {
        let (sender, lines) = channel();
        if let Some(pipe) = pipe {
            let mut pipe = BufReader::new(pipe);
            spawn(move || {
                loop {
                    let mut line = Vec::new();
                    let count = pipe.read_until(b'\n', &mut line);
                    if count.expect("pipes can be read") == 0 || sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let received = Vec::new();
        Self { lines, received }
    }

    /// The next line, without its end.
    fn line(&mut self, limit: Duration) -> Result<String, RecvTimeoutError> {
        let line = self.lines.recv_timeout(limit)?;
        self.received.extend_from_slice(&line);
        let line = String::from_utf8_lossy(&line);
        Ok(line.strip_suffix('\n').unwrap_or(&line).to_owned())
    }
}
