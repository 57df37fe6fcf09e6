//! A program that is watched, and does what the test tells it.

use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::process::Command;

use allotrope_shm::samples::file::{Mapped, find, kept};
use allotrope_shm::samples::reader::State;

use super::compile::compiled;
use super::ended::Ended;
use super::record::command;
use super::started::{Started, until};

/// `programs/watched.c`, started by `allotrope standby` with these options.
pub struct Program(pub Started);

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

    /// By this whole command, which runs a build of `programs/watched.c` or another program
    /// that answers with lines, the first of which is "ready".
    #[track_caller]
    pub fn start_as(command: &mut Command) -> Self {
        let mut started = Started::new(command);
        assert_eq!(started.line(), "ready");
        Self(started)
    }

    #[track_caller]
    pub fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.line()
    }

    #[track_caller]
    pub fn tell(&mut self, command: &str) {
        assert_eq!(self.ask(command), "ok", "{command}");
    }

    /// Of the process; `standby` becomes the program.
    pub fn state(&self) -> State {
        state_of(self.id())
    }

    /// Ends its input, and waits for its end.
    #[track_caller]
    pub fn end(self) -> Ended {
        self.0.end()
    }
}

impl Deref for Program {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.0
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.0
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

/// Waits until the holder of this full name has the memory that the process has now.
#[track_caller]
pub fn wait_for_holder(full_name: &str, process: u32) {
    // A program that was executed began when its process did, but its memory is another file.
    let inode = |file: &OwnedFd| rustix::fs::fstat(file).expect("a status").st_ino;
    let memory = inode(&find(process).expect("a memory"));
    let is_it = |file: &OwnedFd| inode(file) == memory;
    until("the holder has the memory", || {
        kept(full_name).iter().any(is_it)
    });
}
