//! `allotrope doctor --clean`: what recordings and watched programs have left behind, libraries that were
//! unpacked and holders, and its removal. What is in use stays, and what is another user's is not looked at.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use allotrope_report::numbers::bytes;
use allotrope_shm::samples::file::{Mapped, holders, kept_by};
use allotrope_shm::samples::reader::State;
use allotrope_text::document::{Table, left};
use allotrope_text::{Shown, Style};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;

use super::Format;
use crate::exit_status::{FAILED, FINE, Failure, WithStatus};
use crate::holder;
use crate::message;
use crate::postmortem::running::{Running, age};
use crate::recorder_library;
use crate::standard_output;
use anyhow::Context;

/// How long a holder may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// What `--format json` prints.
#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    left: &'a [Left],
}

/// A file or a holder.
#[derive(Debug, Serialize)]
struct Left {
    #[serde(flatten)]
    what: What,
    state: Fate,
    /// Why it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum What {
    File {
        #[serde(serialize_with = "shown_path")]
        path: PathBuf,
        bytes: u64,
    },
    Holder {
        pid: u32,
        /// States of processes that were killed or crashed.
        states: usize,
    },
}

fn shown_path<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Fate {
    Removable,
    Removed,
    Stays,
}

/// Lists what was left; removes it if `is_confirmed`.
pub fn run(format: Format, is_confirmed: bool, with_states: bool) -> Result<u8, Failure> {
    let mut left = find(with_states);
    let mut status = FINE;
    if is_confirmed {
        for one in left.iter_mut().filter(|it| it.state == Fate::Removable) {
            match remove(&one.what, with_states) {
                Ok(()) => one.state = Fate::Removed,
                Err(error) => {
                    one.state = Fate::Stays;
                    one.reason = Some(error.to_string());
                    status = FAILED;
                }
            }
        }
    }
    let text = match format {
        Format::Text => as_text(&left),
        Format::Json => {
            let document = Document {
                format: "allotrope-doctor-clean/1",
                left: &left,
            };
            let text = allotrope_text::to_json_string(&document);
            text.context("cannot write what was left as JSON")
                .status(FAILED)?
                + "\n"
        }
    };
    standard_output::print_log(|output| output.write_all(text.as_bytes()))?;
    if left.iter().any(|it| it.state == Fate::Removable) {
        message::print("`allotrope doctor --clean --yes` removes what is removable");
    }
    Ok(status)
}

fn as_text(left: &[Left]) -> String {
    if left.is_empty() {
        return "nothing was left behind\n".to_owned();
    }
    let mut table = Table::new([self::left(""), self::left(""), self::left("")]).indent(0);
    for one in left {
        let state = match one.state {
            Fate::Removable => "removable",
            Fate::Removed => "removed",
            Fate::Stays => "stays",
        };
        let what = match &one.what {
            What::File { path, .. } => path.shown().into_owned(),
            What::Holder { pid, .. } => format!("the holder, process {pid}"),
        };
        let about = match (&one.reason, &one.what) {
            (Some(reason), _) => reason.clone(),
            (None, What::File { bytes: size, .. }) => bytes(*size),
            (None, What::Holder { states: 0, .. }) => "keeps nothing".to_owned(),
            (None, What::Holder { states, .. }) => kept(*states),
        };
        table.row([state, &what, &about]);
    }
    table.lines(Style::plain(usize::MAX)).join("\n") + "\n"
}

fn kept(states: usize) -> String {
    match states {
        1 => "keeps the last state of a process that was killed or crashed".to_owned(),
        more => format!("keeps the last states of {more} processes that were killed or crashed"),
    }
}

fn find(with_states: bool) -> Vec<Left> {
    let files: Vec<PathBuf> = recorder_library::unpacked();
    let mut left: Vec<Left> = Vec::new();
    for (path, reason) in used(files) {
        let bytes = fs::metadata(&path).map_or(0, |it| it.len());
        left.push(Left {
            what: What::File { path, bytes },
            state: if reason.is_some() {
                Fate::Stays
            } else {
                Fate::Removable
            },
            reason,
        });
    }
    let user = rustix::process::geteuid().as_raw();
    let is_own = |it: &u32| fs::metadata(format!("/proc/{it}")).is_ok_and(|it| it.uid() == user);
    let running = Running::now();
    for pid in holders(&holder::name()).into_iter().filter(is_own) {
        let (states, run_on) = keeps(pid, &running);
        let reason = match (states, run_on) {
            (_, 1..) => Some(format!(
                "watches over {run_on} {} running",
                if run_on == 1 {
                    "process that is"
                } else {
                    "processes that are"
                }
            )),
            (1.., 0) if !with_states => Some(format!(
                "{}; `allotrope postmortem` reports it, --with-states forgets it",
                kept(states)
            )),
            _ => None,
        };
        left.push(Left {
            what: What::Holder { pid, states },
            state: if reason.is_some() {
                Fate::Stays
            } else {
                Fate::Removable
            },
            reason,
        });
    }
    left
}

/// How many states of processes that were ended a holder keeps, and of how many that run.
fn keeps(holder: u32, running: &Running) -> (usize, usize) {
    let (mut states, mut run_on) = (0, 0);
    for file in kept_by(holder) {
        let state = Mapped::new(&file).map(|it| State::read(it.memory()));
        match state {
            Ok(Ok(state)) if running.process_of(&file, &state).is_some() => run_on += 1,
            // It has freed what it wanted.
            Ok(Ok(state)) if state.process.exit_status.is_some() => {}
            // What cannot be read may be worth something to somebody.
            _ => states += 1,
        }
    }
    (states, run_on)
}

/// The files, each with the reason why it is in use, if it is.
fn used(files: Vec<PathBuf>) -> Vec<(PathBuf, Option<String>)> {
    type Reasons = (PathBuf, Option<String>, Option<String>);
    let files = files.into_iter().map(|it| (it, None, None));
    let mut files: Vec<Reasons> = files.collect();
    let user = rustix::process::geteuid();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry
            .file_name()
            .to_str()
            .and_then(|it| it.parse::<u32>().ok());
        let Some(process) = process else { continue };
        let by = |what: &str| {
            let name = fs::read(entry.path().join("comm")).unwrap_or_default();
            let name = String::from_utf8_lossy(&name);
            format!("{what} process {process} ({})", name.trim_end().shown())
        };
        match fs::read(entry.path().join("maps")) {
            Ok(maps) => {
                for (path, reason, _) in files.iter_mut().filter(|it| it.1.is_none()) {
                    if is_mapped(path, &maps) {
                        *reason = Some(by("is loaded in"));
                    }
                }
            }
            // A process that does not let itself be looked at may have loaded what was there when it was started.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                if user.is_root() || is_of_user(&entry.path(), user.as_raw()) {
                    for (path, _, maybe) in &mut files {
                        if maybe.is_none() && !is_newer(path, process) {
                            *maybe = Some(by("may be loaded in"));
                        }
                    }
                }
            }
            Err(_) => {}
        }
    }
    let files = files.into_iter();
    files.map(|(path, is, may)| (path, is.or(may))).collect()
}

/// Whether a file was written after a process was started.
fn is_newer(path: &Path, process: u32) -> bool {
    let file = fs::metadata(path).and_then(|it| it.modified()).ok();
    let file = file.and_then(|it| it.elapsed().ok());
    // The times of processes have hundredths of seconds.
    let process = age(process).map(|it| it.saturating_sub(Duration::from_millis(20)));
    file.zip(process)
        .is_some_and(|(file, process)| file < process)
}

/// Whether one of these mappings (`proc_pid_maps(5)`) is of this file, by its name, in which the hash is:
/// devices and inodes are others with some file systems, and paths in other mount namespaces.
fn is_mapped(path: &Path, maps: &[u8]) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    maps.split(|byte| *byte == b'\n')
        .any(|line| line.strip_suffix(name).is_some_and(|it| it.ends_with(b"/")))
}

/// Whether a process has one of its user ids (`proc_pid_status(5)`). If that cannot be read, it may.
fn is_of_user(folder: &Path, user: u32) -> bool {
    let Ok(status) = fs::read(folder.join("status")) else {
        return fs::exists(folder).unwrap_or(true);
    };
    let status = String::from_utf8_lossy(&status);
    let ids = status.lines().find_map(|it| it.strip_prefix("Uid:"));
    ids.is_none_or(|it| it.split_whitespace().any(|it| it == user.to_string()))
}

/// Removes it, unless it has come into use meanwhile.
fn remove(what: &What, with_states: bool) -> io::Result<()> {
    let in_use = |reason| Err(io::Error::other(reason));
    match what {
        What::File { path, .. } => match used(vec![path.clone()]).remove(0).1 {
            Some(reason) => in_use(reason),
            None => fs::remove_file(path),
        },
        What::Holder { pid, .. } => {
            let id = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            let Some(id) = id else { return Ok(()) };
            let pidfd = pidfd_open(id, PidfdFlags::empty())?;
            let (states, run_on) = keeps(*pid, &Running::now());
            if run_on > 0 || states > 0 && !with_states {
                return in_use("has something to keep now".to_owned());
            }
            // The id may be that of another process by now.
            if !holders(&holder::name()).contains(pid) {
                return Ok(());
            }
            pidfd_send_signal(&pidfd, Signal::TERM)?;
            let end = Instant::now() + PATIENCE;
            while holders(&holder::name()).contains(pid) {
                if Instant::now() > end {
                    return in_use("did not end".to_owned());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_mapped_by_its_whole_name() {
        let path = Path::new("/run/allotrope/liballotrope_recorder-0123456789abcdef.so");
        let line = |path: &str| {
            format!("7f00-7f10 r-xp 00000000 00:1a 42      {path}\n7f1-7f2 rw-p 0 0:0 0\n")
        };
        let name = "liballotrope_recorder-0123456789abcdef.so";
        assert!(is_mapped(
            path,
            line(&format!("/run/allotrope/{name}")).as_bytes()
        ));
        // The same file in a container.
        assert!(is_mapped(path, line(&format!("/x y/{name}")).as_bytes()));
        for other in [
            format!("/run/x{name}"),
            format!("/run/allotrope/{name} (deleted)"),
            "[heap]".into(),
        ] {
            assert!(!is_mapped(path, line(&other).as_bytes()), "{other}");
        }
    }
}
