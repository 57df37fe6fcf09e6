//! The collector: drains the rings of recorded programs and writes their trace.
//!
//! [`run`] is the collector process; [`protocol`] defines the messages between
//! it and the launcher process.
//!
//! # Threads
//!
//! - The draining thread owns all state of the recording. It writes the trace
//!   file, and waits for nothing but the file and the doorbell in the shared
//!   memory. When all rings are empty and the recorded programs have ended, it
//!   symbolises the trace.
//! - One thread reads the launcher's messages; the caller of [`run`] writes the
//!   messages to the launcher.
//! - One thread passes the arena's descriptors to recorded processes.
//! - One thread holds the robust futex by which a recorded program notices that
//!   the collector has died (`liveness` of `allotrope-shm`); it does nothing else.
//! - If a program has JIT code, one thread reads the names that its runtime
//!   writes down.
//!
//! # Memory
//!
//! Whatever recorded programs write, the collector's memory stays below the
//! sum of its limits: 4 Mi pending events (100 MiB), 64 Ki pages of stack ids
//! (256 MiB), 8 Mi stack nodes of running images (about 500 MiB), 8 Mi addresses
//! to symbolise (about 200 MiB), 64 Ki modules, 4 Mi pieces of JIT code (about
//! 500 MiB). A stack beyond the limits is recorded as not recorded; the rest of a
//! corrupt ring is skipped and counted as lost.
//!
//! Not here: starting the program, its signals and its exit status (the
//! command's launcher process), the shared memory (`allotrope-shm`), the trace
//! format (`allotrope-trace`).
#![forbid(unsafe_code)]

mod arena_server;
mod attach;
mod clock;
mod counts;
mod descriptors;
mod drain;
mod error;
mod exit;
mod image;
mod jit_symbols;
mod launcher;
mod modules;
mod poll_backoff;
mod process;
mod process_tree;
pub mod protocol;
mod random;
mod recording;
mod scan;
mod stacks;
mod stopped;
mod stream;
mod symbolise;
mod threads;
mod trace_context;
mod trace_file;
mod watch;
mod windows;

use std::io::{self, Read, Write};
use std::sync::mpsc::Receiver;

pub use error::CollectorError;
use launcher::Launcher;
use protocol::{Start, ToLauncher};

/// Makes the recording that the launcher's first line on `input` describes, until
/// the last recorded process has ended. Messages to the launcher go to `output`.
///
/// The caller is a process of its own. This function makes it the leader of a new
/// session (unless it leads one already), so that signals meant for the recorded
/// programs do not reach it. The process must not be recorded itself.
///
/// # Errors
/// The error is also sent to the launcher, if it still reads.
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
    let _ = launcher::write_messages(messages, &mut output);
    let done = drainer.join().unwrap_or_else(|_| {
        Err(CollectorError::Set {
            what: "drain the recorded programs",
            source: io::Error::other("the collector failed unexpectedly; please report it"),
        })
    });
    match done {
        Ok(done) => {
            let _ = launcher::write_message(&ToLauncher::Done(done), &mut output);
            Ok(())
        }
        Err(error) => fail(error, output),
    }
}

fn fail(error: CollectorError, mut output: impl Write) -> Result<(), CollectorError> {
    let message = error.to_string();
    let _ = launcher::write_message(&ToLauncher::Failed { message }, &mut output);
    Err(error)
}
