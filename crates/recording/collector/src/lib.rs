//! The collector: drains the rings of recorded programs and writes their trace.
//!
//! [`run`] is the collector process; [`protocol`] defines the messages between
//! it and the launcher process.
//!
//! # Threads
//!
//! - The draining thread owns all state of the recording. It writes the trace file. It
//!   waits only for the file and for the doorbell in the shared memory. When all rings
//!   are empty and the recorded programs have ended, it symbolises the trace.
//! - One thread reads the launcher's messages; the caller of [`run`] writes the
//!   messages to the launcher.
//! - One thread receives requests to name the present moment (`control`).
//! - One thread passes the arena's descriptors to recorded processes.
//! - One thread holds the robust futex by which recorded programs detect the death of
//!   the collector (`liveness` of `allotrope-shm`); it does nothing else.
//! - If a program has JIT code, one thread reads the files in which the program's
//!   runtime describes it.
//!
//! # Memory
//!
//! Whatever recorded programs write, the collector's memory stays below the
//! sum of its limits: 4 Mi pending events (100 MiB), 64 Ki pages of stack ids
//! (256 MiB), 8 Mi stack nodes of running images (about 500 MiB), 8 Mi addresses
//! to symbolise (about 200 MiB), 64 Ki modules, 4 Mi pieces of JIT code (about
//! 500 MiB). Beyond the limits, events have the stack "not recorded". The rest of a
//! corrupt ring is skipped and counted as lost.
//!
//! Not here: starting the program, its signals and its exit status (the
//! command's launcher process), the shared memory (`allotrope-shm`), the trace
//! format (`allotrope-trace`).
#![forbid(unsafe_code)]

mod arena_server;
mod attach;
mod clock;
pub mod control;
mod counts;
mod descriptors;
mod drain;
mod environment;
mod error;
mod exit;
mod figures;
pub mod file_limit;
mod image;
mod jit_symbols;
mod launcher;
mod left_behind;
mod marks;
mod modules;
mod poll_backoff;
mod process;
mod process_exit;
mod process_tree;
pub mod protocol;
mod random;
mod recorder_memory;
mod recording;
mod ring_state;
mod root_process;
mod scan;
mod stacks;
mod stopped;
mod stream;
mod symbolise;
mod threads;
mod trace_context;
mod trace_file;
mod windows;

use std::io::{self, Read, Write};
use std::sync::mpsc::Receiver;

pub use error::CollectorError;
use launcher::Launcher;
use protocol::{Start, ToLauncher};

/// Records until the last recorded process has ended. The launcher's first message on
/// `input` says what to record; messages to the launcher are written to `output`.
///
/// The calling process must do nothing else and must not be recorded itself. This
/// function makes it the leader of a new session (unless it leads one already), so
/// that signals to the process group of the recorded programs do not reach it.
///
/// # Errors
/// If the recording cannot start or the trace cannot be written. The error is also
/// sent to the launcher, if the launcher still reads.
pub fn run(input: impl Read + Send + 'static, output: impl Write) -> Result<(), CollectorError> {
    // Fails for the leader of a process group, which needs no new session: signals to
    // other groups do not reach it anyway.
    let _ = rustix::process::setsid();
    match launcher::connect(input) {
        Ok((start, launcher, messages)) => record_and_write(start, launcher, &messages, output),
        Err(error) => fail(error, output),
    }
}

/// Starts the draining thread and writes its messages. The draining thread does not
/// write them itself, since a launcher that does not read would block it.
fn record_and_write(
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
    // Returns when the draining thread has dropped its sender. If the launcher has
    // ended, the recording still succeeds.
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
