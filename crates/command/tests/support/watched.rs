//! A program that is watched, and does what the test tells it.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use allotrope_shm::samples::file::{Mapped, find};
use allotrope_shm::samples::reader::State;

use super::compile::compiled;
use super::record::command;

/// `programs/watched.c`, started by `allotrope standby` with these options.
pub struct Program {
    pub child: Child,
    pub commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program without a holder, which would outlive the test.
    pub fn new(options: &[&str]) -> Self {
        Self::start(command().args(["standby", "--no-holder"]).args(options))
    }

    /// Starts the program by this command, to which the program is added.
    pub fn start(command: &mut Command) -> Self {
        Self::start_below(command, &[])
    }

    /// Starts the program by this command, which runs these words with the program added.
    pub fn start_below(command: &mut Command, words: &[&str]) -> Self {
        let program = compiled("watched.c");
        Self::start_as(command.arg("--").args(words).arg(program))
    }

    /// Starts the program by this whole command, which runs a build of `programs/watched.c` or
    /// another program that answers with lines, the first of which is "ready".
    pub fn start_as(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut program = Self {
            child,
            commands,
            answers,
        };
        assert_eq!(program.answer(), "ready");
        program
    }

    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    pub fn send(&mut self, command: &str) {
        let commands = self.commands.as_mut().expect("a pipe");
        writeln!(commands, "{command}").expect("a command");
    }

    pub fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    pub fn tell(&mut self, command: &str) {
        assert_eq!(self.ask(command), "ok", "{command}");
    }

    /// The process; `standby` becomes the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn state(&self) -> State {
        state_of(self.id())
    }

    /// Ends its input; returns its status.
    pub fn end(mut self) -> std::process::ExitStatus {
        drop(self.commands.take());
        self.child.wait().expect("our child")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The state of a process that runs.
pub fn state_of(process: u32) -> State {
    read(&find(process).expect("a memory"))
}

/// The state in a memory.
pub fn read(file: &OwnedFd) -> State {
    let mapped = Mapped::new(file).expect("a mapping");
    State::read(mapped.memory()).expect("a state")
}
