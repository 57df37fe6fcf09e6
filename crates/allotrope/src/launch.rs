//! The hidden subcommand `__launch`: becomes the program to record with the
//! signal mask, the ignored `SIGPIPE` and the order of the environment that
//! `allotrope record` was started with, none of which outlives the usual way to
//! start a program.
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
    /// Names in the order that the environment is to have, if it is another.
    #[arg(long = "order")]
    order: Vec<OsString>,
    /// Path of the program, then its arguments from the zeroth on.
    #[arg(last = true, required = true, num_args = 2..)]
    command: Vec<OsString>,
}

/// This program's own file, as long as it runs.
const SELF: &str = "/proc/self/exe";
/// What the loader loads into every program: it is for the program to record,
/// not for the process between.
const PRELOAD: &str = "LD_PRELOAD";

/// Whether a process can be put between.
pub fn is_possible() -> bool {
    Path::new(SELF).exists()
}

/// The command that starts the program at `path` with these arguments, the
/// zeroth included, and the state that this process was started with.
pub fn through(path: &Path, arguments: &[OsString], additions: &[(&str, OsString)]) -> Command {
    let mut launch = Command::new(SELF);
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
    if std::env::var_os(PRELOAD).is_some() {
        // A changed environment is handed on sorted.
        launch.env_remove(PRELOAD);
        for (name, _) in std::env::vars_os() {
            let mut argument = OsString::from("--order=");
            argument.push(name);
            launch.arg(argument);
        }
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
    let inherited = std::env::vars_os();
    let environment = environment(inherited, &arguments.additions, &arguments.order);
    let environment = strings(environment)?;
    nix::unistd::execve(&CString::new(path.as_bytes())?, &command, &environment)
        .with_context(|| format!("cannot execute {}", Path::new(path).display()))
}

fn strings(texts: impl IntoIterator<Item = OsString>) -> Result<Vec<CString>> {
    let texts = texts.into_iter();
    let strings = texts.map(|text| CString::new(text.into_vec()));
    Ok(strings.collect::<Result<_, _>>()?)
}

/// `NAME=VALUE` of every variable, where an addition takes the place of what
/// has its name, in the order of the names in `order` (others behind).
fn environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    additions: &[OsString],
    order: &[OsString],
) -> Vec<OsString> {
    let mut pairs: Vec<OsString> = inherited
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            name
        })
        .collect();
    for addition in additions {
        let same = pairs
            .iter_mut()
            .find(|pair| name_of(pair) == name_of(addition));
        match same {
            Some(pair) => pair.clone_from(addition),
            None => pairs.push(addition.clone()),
        }
    }
    if !order.is_empty() {
        let place = |pair: &OsString| {
            let place = order
                .iter()
                .position(|name| name.as_bytes() == name_of(pair));
            place.unwrap_or(order.len())
        };
        pairs.sort_by_cached_key(place);
    }
    pairs
}

/// The name in `NAME=VALUE`. A name may begin with `=`, as libc allows.
fn name_of(pair: &OsString) -> &[u8] {
    let bytes = pair.as_bytes();
    let end = bytes.iter().skip(1).position(|byte| *byte == b'=');
    &bytes[..end.map_or(bytes.len(), |end| end + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
        let inherited = [("Z", "1"), ("LD_PRELOAD", "x"), ("AB", "=2=")];
        inherited
            .map(|(name, value)| (name.into(), value.into()))
            .into_iter()
    }

    #[test]
    fn an_addition_takes_the_place_of_the_variable_of_its_name() {
        let additions = ["LD_PRELOAD=y=z".into(), "N=".into()];
        assert_eq!(
            environment(inherited(), &additions, &[]),
            ["Z=1", "LD_PRELOAD=y=z", "AB==2=", "N="]
        );
    }

    #[test]
    fn variables_come_in_the_order_that_is_told() {
        let additions = ["N=".into()];
        let order = ["AB".into(), "LD_PRELOAD".into(), "Z".into()];
        assert_eq!(
            environment(inherited(), &additions, &order),
            ["AB==2=", "LD_PRELOAD=x", "Z=1", "N="]
        );
    }
}
