//! The hidden subcommand `__exec`: an intermediate process between `allotrope record`
//! and the program. It restores the state that `allotrope record` was started with and
//! then execs the program. The state is the signal mask, an ignored `SIGPIPE`, closed
//! standard streams and the order of the environment; `std::process::Command` keeps
//! none of them.
//!
//! The intermediate process itself is not recorded: it adds the recorder to the
//! environment only for the exec of the program.
//!
//! The intermediate process inherits the request as a file in memory. Arguments would
//! be visible to every user (`/proc/PID/cmdline`) and count towards the limit of an
//! exec.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use allotrope_preflight::executable::Executable;
use allotrope_text::Shown;

use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

use crate::closed_streams;
use crate::exit_status::{Failure, NOT_EXECUTABLE};
use crate::signal_state::{self, Signals};

/// Name of the subcommand.
pub const NAME: &str = "__exec";

const SIGPIPE: i32 = Signal::SIGPIPE as i32;

/// Arguments of the hidden subcommand.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Descriptor of the file with the request.
    #[arg(long)]
    request: i32,
    /// Path of the program, then its arguments from the zeroth on.
    #[arg(last = true, required = true, num_args = 2..)]
    command: Vec<OsString>,
}

/// The state to restore and the variables to add.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    /// Signals to be blocked, as a mask.
    blocked: u64,
    /// `SIGPIPE` stays ignored.
    ignores_pipe: bool,
    /// Standard streams to be closed: bit N stands for descriptor N.
    closed: u8,
    /// `NAME=VALUE` to be added to the environment.
    additions: Vec<OsString>,
    /// Names of the environment in their order, if it has to be restored.
    order: Vec<OsString>,
}

impl Request {
    /// The state that this process was started with, and these variables.
    fn of_this_process(additions: &[(&str, OsString)]) -> Self {
        let assignments = additions.iter().map(|(name, value)| {
            let mut assignment = OsString::from(format!("{name}="));
            assignment.push(value);
            assignment
        });
        Self {
            blocked: signal_state::blocked().0,
            ignores_pipe: signal_state::ignored().contains(SIGPIPE),
            closed: closed_streams::closed(),
            additions: assignments.collect(),
            order: Vec::new(),
        }
    }

    /// Writes the fields, each terminated by a zero byte, which no variable
    /// contains: the three numbers, the number of additions, the additions,
    /// the names.
    fn write(&self, mut into: impl Write) -> io::Result<()> {
        let numbers = [
            self.blocked,
            self.ignores_pipe.into(),
            self.closed.into(),
            self.additions.len() as u64,
        ];
        for number in numbers {
            write!(into, "{number}\0")?;
        }
        for text in self.additions.iter().chain(&self.order) {
            into.write_all(text.as_bytes())?;
            into.write_all(b"\0")?;
        }
        Ok(())
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let mut number = || {
            std::str::from_utf8(fields.next()?)
                .ok()?
                .parse::<u64>()
                .ok()
        };
        let (blocked, ignores_pipe) = (number()?, number()? != 0);
        let (closed, count) = (number()?.try_into().ok()?, number()?);
        let mut texts = fields.map(|field| OsString::from_vec(field.to_vec()));
        let additions: Vec<OsString> = texts.by_ref().take(count as usize).collect();
        Some(Self {
            blocked,
            ignores_pipe,
            closed,
            additions,
            order: texts.collect(),
        })
    }

    /// Writes the request to a file in memory that a child process inherits.
    fn to_file(&self) -> io::Result<OwnedFd> {
        let flags = rustix::fs::MemfdFlags::empty();
        let file = rustix::fs::memfd_create("allotrope-exec", flags)?;
        let mut file = io::BufWriter::new(File::from(file));
        self.write(&mut file)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(file.into())
    }

    /// Reads the request from such a file and closes the descriptor: the program must
    /// not inherit it.
    fn take(descriptor: i32) -> Result<Self> {
        let mut bytes = Vec::new();
        let path = format!("/proc/self/fd/{descriptor}");
        File::open(path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .context("cannot read which program to execute")?;
        nix::unistd::close(descriptor).context("cannot close what was read")?;
        Self::parse(&bytes).ok_or_else(|| anyhow!("the request to execute a program is damaged"))
    }
}

/// The executable of this process, even if its file was replaced or deleted.
const SELF: &str = "/proc/self/exe";
/// The variable that lists the libraries that the loader preloads. The program to
/// record gets the recorder in it; the intermediate process runs without it.
const PRELOAD: &str = "LD_PRELOAD";

/// Whether the intermediate process can be started (`/proc` is mounted).
pub fn is_possible() -> bool {
    Path::new(SELF).exists()
}

/// Starts the program at `path` with these arguments, the zeroth included, and
/// the state that this process was started with. `redirect` may give the child other
/// standard streams.
pub fn start(
    path: &Path,
    arguments: &[OsString],
    additions: &[(&str, OsString)],
    redirect: impl FnOnce(&mut Command),
) -> io::Result<Child> {
    let mut request = Request::of_this_process(additions);
    let mut process = Command::new(SELF);
    process.arg(NAME);
    if std::env::var_os(PRELOAD).is_some() {
        // `Command` sorts an environment that was changed: the request has its order.
        process.env_remove(PRELOAD);
        request.order = std::env::vars_os().map(|(name, _)| name).collect();
    }
    let file = request.to_file()?;
    process.arg(format!("--request={}", file.as_raw_fd()));
    redirect(process.arg("--").arg(path).args(arguments));
    process.spawn()
}

/// Replaces this process by the program.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    match become_program(arguments) {
        Ok(never) => match never {},
        Err(error) => Err(Failure::new(NOT_EXECUTABLE, error)),
    }
}

fn become_program(arguments: &Arguments) -> Result<Infallible> {
    let request = Request::take(arguments.request)?;
    let (path, command) = arguments
        .command
        .split_first()
        .ok_or_else(|| anyhow!("no program to execute"))?;
    execute(&request, Path::new(path), command)
}

/// Replaces this process by the program at `path`, with these arguments, the zeroth
/// included, and the state that this process was started with.
pub fn replace(
    path: &Path,
    arguments: &[OsString],
    additions: &[(&str, OsString)],
) -> Result<Infallible> {
    execute(&Request::of_this_process(additions), path, arguments)
}

fn execute(request: &Request, path: &Path, command: &[OsString]) -> Result<Infallible> {
    if !request.ignores_pipe {
        // A handler, unlike an ignored signal, does not outlive the exec: the
        // program finds the default.
        signal_hook::flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)))
            .context("cannot handle SIGPIPE")?;
    }
    let blocked: SigSet = Signals(request.blocked)
        .iter()
        .filter_map(|signal| Signal::try_from(signal).ok())
        .collect();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None)
        .context("cannot set the signal mask")?;
    closed_streams::close_on_exec(request.closed);
    let command = strings(command.iter().cloned())?;
    let inherited = std::env::vars_os();
    let environment = environment(inherited, &request.additions, &request.order);
    let environment = strings(environment)?;
    let file = CString::new(path.as_os_str().as_bytes())?;
    nix::unistd::execve(&file, &command, &environment).map_err(|errno| {
        let refusal = Executable::inspect(path).ok().and_then(|it| it.refusal());
        let why = match (errno, refusal) {
            (Errno::ENOENT | Errno::ENOEXEC, Some(refusal)) => {
                format!("{}; {}", refusal.why, refusal.remedy)
            }
            // The file exists: the kernel did not find its loader.
            (Errno::ENOENT, None) if path.exists() => {
                "the loader that it names does not exist on this machine".to_owned()
            }
            (errno, _) => errno.desc().to_owned(),
        };
        anyhow!("cannot execute {}: {why}", path.shown())
    })
}

fn strings(texts: impl IntoIterator<Item = OsString>) -> Result<Vec<CString>> {
    let texts = texts.into_iter();
    let strings = texts.map(|text| CString::new(text.into_vec()));
    Ok(strings.collect::<Result<_, _>>()?)
}

/// The environment as `NAME=VALUE`: `inherited`, in which each of `additions` replaces
/// the variable of the same name, sorted by the position of the names in `order` (other
/// names last).
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
        let ranks: HashMap<&[u8], usize> = order
            .iter()
            .enumerate()
            .rev() // Of several variables of one name, the first counts.
            .map(|(rank, name)| (name.as_bytes(), rank))
            .collect();
        let rank = |pair: &OsString| ranks.get(name_of(pair)).copied().unwrap_or(order.len());
        pairs.sort_by_cached_key(rank);
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
    fn a_request_is_read_as_it_was_written() {
        let names = [&b"A\xff"[..], b"=x", b"B"];
        let request = Request {
            blocked: u64::MAX,
            ignores_pipe: true,
            closed: 5,
            additions: vec!["LD_PRELOAD=/a b".into(), "N=".into()],
            order: names.map(|it| OsString::from_vec(it.to_vec())).into(),
        };
        let mut bytes = Vec::new();
        request.write(&mut bytes).unwrap();
        assert_eq!(Request::parse(&bytes), Some(request));
        for nonsense in [&b""[..], b"1", b"1\0x\x001\x001\0", b"1\x000\x002\0"] {
            assert_eq!(Request::parse(nonsense), None);
        }
    }

    #[test]
    fn an_addition_replaces_the_variable_of_its_name() {
        let additions = ["LD_PRELOAD=y=z".into(), "N=".into()];
        assert_eq!(
            environment(inherited(), &additions, &[]),
            ["Z=1", "LD_PRELOAD=y=z", "AB==2=", "N="]
        );
    }

    #[test]
    fn variables_are_in_the_requested_order() {
        let additions = ["N=".into()];
        let order = ["AB".into(), "LD_PRELOAD".into(), "Z".into()];
        assert_eq!(
            environment(inherited(), &additions, &order),
            ["AB==2=", "LD_PRELOAD=x", "Z=1", "N="]
        );
    }
}
