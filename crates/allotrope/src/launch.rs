//! The hidden subcommand `__launch`: becomes the program to record with the
//! signal mask and the ignored `SIGPIPE` that `allotrope record` was started
//! with. It is put between the two only where they differ from the usual.
//!
//! It is not recorded itself: the recorder comes into the environment with the
//! last exec only.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

use crate::dispositions::{self, Signals};
use crate::exit_status::{Failure, NOT_EXECUTABLE};

/// Name of the subcommand.
pub const NAME: &str = "__launch";

const SIGPIPE: i32 = Signal::SIGPIPE as i32;

/// Arguments of the hidden subcommand.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Signals to be blocked, as a mask in decimal.
    #[arg(long)]
    blocked: u64,
    /// Whether SIGPIPE stays ignored.
    #[arg(long)]
    ignore_pipe: bool,
    /// NAME=VALUE to be added to the environment.
    #[arg(long = "set")]
    additions: Vec<OsString>,
    /// Path of the program, then its arguments from the zeroth on.
    #[arg(last = true, required = true, num_args = 2..)]
    command: Vec<OsString>,
}

/// Whether a program started the usual way would find another state.
pub fn is_needed(ignored: Signals, blocked: Signals) -> bool {
    blocked.0 != 0 || ignored.contains(SIGPIPE)
}

/// The command that starts the program at `path` with these arguments, the
/// zeroth included, and the state that this process was started with.
pub fn through(path: &Path, arguments: &[OsString], additions: &[(&str, OsString)]) -> Command {
    let mut launch = Command::new("/proc/self/exe");
    launch.arg(NAME);
    launch.arg(format!("--blocked={}", dispositions::blocked().0));
    if dispositions::ignored().contains(SIGPIPE) {
        launch.arg("--ignore-pipe");
    }
    for (name, value) in additions {
        let mut argument = OsString::from(format!("--set={name}="));
        argument.push(value);
        launch.arg(argument);
    }
    launch.arg("--").arg(path).args(arguments);
    launch
}

/// Becomes the program.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    match become_program(arguments) {
        Ok(never) => match never {},
        Err(error) => Err(Failure::new(NOT_EXECUTABLE, error)),
    }
}

fn become_program(arguments: &Arguments) -> Result<Infallible> {
    let (path, command) = arguments
        .command
        .split_first()
        .ok_or_else(|| anyhow!("no program to launch"))?;
    if !arguments.ignore_pipe {
        // A handler, unlike an ignored signal, does not outlive the exec: the
        // program finds the default.
        signal_hook::flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)))
            .context("cannot handle SIGPIPE")?;
    }
    let blocked: SigSet = Signals(arguments.blocked)
        .iter()
        .filter_map(|signal| Signal::try_from(signal).ok())
        .collect();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None)
        .context("cannot set the signal mask")?;
    let command = strings(command.iter().cloned())?;
    let environment = strings(environment(std::env::vars_os(), &arguments.additions))?;
    nix::unistd::execve(&CString::new(path.as_bytes())?, &command, &environment)
        .with_context(|| format!("cannot execute {}", Path::new(path).display()))
}

fn strings(texts: impl IntoIterator<Item = OsString>) -> Result<Vec<CString>> {
    let texts = texts.into_iter();
    let strings = texts.map(|text| CString::new(text.into_vec()));
    Ok(strings.collect::<Result<_, _>>()?)
}

/// `NAME=VALUE` of every variable, where an addition replaces what has its name.
fn environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    additions: &[OsString],
) -> Vec<OsString> {
    let name = |pair: &OsString| {
        pair.as_bytes()
            .split(|byte| *byte == b'=')
            .next()
            .map(<[u8]>::to_vec)
    };
    let replaced: Vec<_> = additions.iter().filter_map(name).collect();
    inherited
        .filter(|(name, _)| !replaced.iter().any(|other| other == name.as_bytes()))
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            name
        })
        .chain(additions.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_replaces_the_variable_of_its_name() {
        let inherited = [("A", "1"), ("LD_PRELOAD", "x"), ("AB", "=2=")];
        let inherited = inherited.map(|(name, value)| (name.into(), value.into()));
        let additions = ["LD_PRELOAD=y=z".into(), "N=".into()];
        assert_eq!(
            environment(inherited.into_iter(), &additions),
            ["A=1", "AB==2=", "LD_PRELOAD=y=z", "N="]
        );
    }

    #[test]
    fn only_another_state_than_the_usual_needs_a_process_between() {
        assert!(!is_needed(Signals(0), Signals(0)));
        // Ignored signals other than SIGPIPE survive an exec by themselves.
        assert!(!is_needed(Signals(1), Signals(0)));
        assert!(is_needed(Signals(1 << 12), Signals(0)));
        assert!(is_needed(Signals(0), Signals(1 << 14)));
    }
}
