//! Drains the rings of recorded programs and writes their trace.
//!
//! [`run`] is the collector process; [`protocol`] is what it and the launcher
//! process say to each other; [`executable`] says why a program can not be
//! recorded.
//!
//! # Threads
//!
//! One thread drains: it owns everything about the recording, writes only to
//! the trace file and waits for nothing but that and the doorbell in the shared
//! memory. One reads what the launcher says, one (the caller of [`run`]) writes
//! what the launcher is told, one passes the arena on, one does nothing but live
//! (`liveness` of `allotrope-shm`), and where programs make code
//! at run time one reads the names that they write down for it. Names are looked up by the
//! draining thread when there is nothing left to drain and the recorded
//! programs have been let go.
//!
//! # Memory
//!
//! Whatever recorded programs write, the collector's memory stays below the
//! sum of its limits: 4 Mi events held back (100 MiB), 64 Ki pages of stack
//! ids (256 MiB), 8 Mi stack nodes of living images (about 500 MiB), 8 Mi
//! addresses to be named (about 200 MiB), 64 Ki modules, 4 Mi pieces of code made
//! at run time (about 500 MiB). A stack beyond the
//! limits is shown as not recorded; a corrupt ring is left, counted as lost.
//!
//! Not here: starting the program, its signals and its exit status (the
//! command's launcher process), the shared memory (`allotrope-shm`), the trace
//! format (`allotrope-trace`).
#![forbid(unsafe_code)]

mod arena_server;
mod arrivals;
mod book;
mod clock;
mod counts;
mod departures;
mod descriptors;
mod drain;
mod error;
mod family;
mod image;
mod jit_symbols;
mod launcher;
mod look;
mod modules;
mod pace;
mod process;
pub mod protocol;
mod random;
mod recording;
mod stacks;
mod stopped;
mod stream;
mod symbolise;
mod threads;
mod trace_file;
mod watch;
mod windows;

use std::io::{self, Read, Write};
use std::sync::mpsc::Receiver;

pub use error::CollectorError;
use launcher::Launcher;
use protocol::{Start, ToLauncher};

/// Records what the launcher's first line on `input` asks for, until the last
/// recorded process has ended, and tells the launcher on `output`.
///
/// The caller is a process of its own, which this makes the leader of a new
/// session (unless it leads one already), so that signals meant for the
/// recorded programs do not reach it. It must not be one that is itself recorded.
///
/// An error was also told to the launcher, if that still listens.
pub fn run(input: impl Read + Send + 'static, output: impl Write) -> Result<(), CollectorError> {
    // Fails for the leader of a process group, which needs no other session.
    let _ = rustix::process::setsid();
    match launcher::connect(input) {
        Ok((start, launcher, messages)) => drain_aside(start, launcher, &messages, output),
        Err(error) => fail(error, output),
    }
}

/// Records on a thread of its own; this one only writes messages, so that a
/// launcher that does not read holds nobody up.
fn drain_aside(
    start: Start,
    launcher: Launcher,
    messages: &Receiver<ToLauncher>,
    mut output: impl Write,
) -> Result<(), CollectorError> {
    let drainer = std::thread::Builder::new()
        .name("drain".into())
        .spawn(move || recording::record(&start, launcher));
    let drainer = match drainer {
        Ok(drainer) => drainer,
        Err(source) => {
            let what = "start a thread";
            return fail(CollectorError::Set { what, source }, output);
        }
    };
    // Ends when the drainer lets go of its sender. A launcher that has gone away
    // is no failure of the recording.
    let _ = launcher::speak(messages, &mut output);
    let done = drainer.join().unwrap_or_else(|_| {
        Err(CollectorError::Set {
            what: "drain the recorded programs",
            source: io::Error::other("the collector failed unexpectedly; please report it"),
        })
    });
    match done {
        Ok(done) => {
            let _ = launcher::say(&ToLauncher::Done(done), &mut output);
            Ok(())
        }
        Err(error) => fail(error, output),
    }
}

fn fail(error: CollectorError, mut output: impl Write) -> Result<(), CollectorError> {
    let message = error.to_string();
    let _ = launcher::say(&ToLauncher::Failed { message }, &mut output);
    Err(error)
}
