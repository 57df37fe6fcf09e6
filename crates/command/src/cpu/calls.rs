//! How many calls of the allocator a run of the program makes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;

use allotrope_allocators::paths::Report as Paths;
use allotrope_formats::Limits;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use super::PAUSE;
use crate::exit_status::{BAD_INPUT, Failure, WithStatus};
use crate::message;
use crate::progress::reader;
use crate::record::signals::{self, Received};

/// The calls of the allocator in all processes of a recording.
pub fn operations_of(path: &Path) -> Result<u64, Failure> {
    let reader = reader(Limits::default());
    if reader.sampled(path)?.is_some() {
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{} is a sampled profile and does not have the number of calls; record the program with `allotrope record --counts-only`",
                path.shown()
            ),
        ));
    }
    let mut recording = reader.open_without_names(path)?;
    let profile = recording.profile()?;
    recording.notes().iter().for_each(message::print);
    // A reallocation is a deallocation and an allocation, and one call.
    let calls = profile.processes.iter().map(|it| {
        let totals = &it.totals;
        (totals.allocations + totals.deallocations).saturating_sub(totals.reallocations)
    });
    let lost = profile.processes.iter().map(|it| it.lost_events);
    match (calls.sum(), lost.sum::<u64>()) {
        (0, _) => Err(Failure::new(
            BAD_INPUT,
            anyhow!("{} has no calls of an allocator", path.shown()),
        )),
        (calls, 0) => Ok(calls),
        (calls, lost) => {
            message::print(format_args!(
                "warning: {} lost {lost} calls, which are missing in the number of operations",
                path.shown()
            ));
            Ok(calls)
        }
    }
}

/// Instructions of an operation in a report of `allotrope paths` about one allocator.
pub fn instructions_of(path: &Path) -> Result<f64, Failure> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read {}", path.shown()))
        .status(BAD_INPUT)?;
    let report = Paths::read(&bytes)
        .with_context(|| format!("{} is no report of `allotrope paths -o`", path.shown()))
        .status(BAD_INPUT)?;
    let instructions = match &report.allocators[..] {
        [one] => one.instructions.first().map(|it| it.mean),
        _ => None,
    };
    instructions.ok_or_else(|| {
        let sentence = anyhow!(
            "{} must be about one allocator, the one of the program: `allotrope paths --alloc NAME`",
            path.shown()
        );
        Failure::new(BAD_INPUT, sentence)
    })
}

/// Runs the program twice more, to count its calls. Signals go to it, as they did before.
pub fn count(command: &[OsString], received: &Receiver<Received>) -> anyhow::Result<[u64; 2]> {
    Ok([run(command, received)?, run(command, received)?])
}

fn run(command: &[OsString], received: &Receiver<Received>) -> anyhow::Result<u64> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let file = folder.path().join("counts.allotrope");
    let mut recording = Command::new("/proc/self/exe");
    recording
        .args(["record", "--counts-only", "--quiet", "-o"])
        .arg(&file)
        .arg("--");
    let (changes, program) = without_env(command);
    for (name, value) in changes {
        match value {
            Some(value) => recording.env(name, value),
            None => recording.env_remove(name),
        };
    }
    let mut child = recording
        .args(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start the recording")?;
    while child.try_wait()?.is_none() {
        for signal in received.try_iter() {
            if !signal.is_continuation() {
                signals::pass_on(signal, child.id());
            }
        }
        std::thread::sleep(PAUSE);
    }
    if !file.exists() {
        return Err(anyhow!(
            "the second run was not recorded; `allotrope record --counts-only` says why"
        ));
    }
    operations_of(&file).map_err(|failure| failure.error)
}

/// A change of the environment: a variable and its value, or `None` if it is removed.
type Change<'a> = (&'a OsStr, Option<&'a OsStr>);

/// The program behind `env NAME=VALUE … PROGRAM`, and what `env` changes: if it sets LD_PRELOAD,
/// the program loses the recorder, and only `env` itself would be counted. A command with other
/// options of `env` than -u stays as it is.
fn without_env(command: &[OsString]) -> (Vec<Change<'_>>, &[OsString]) {
    let mut changes = Vec::new();
    let mut rest = command;
    while let [first, words @ ..] = rest
        && Path::new(first).file_name() == Some(OsStr::new("env"))
    {
        let mut words = words;
        loop {
            match words {
                [option, name, behind @ ..] if option == "-u" => {
                    changes.push((name.as_os_str(), None));
                    words = behind;
                }
                [option, behind @ ..] if option == "--" => {
                    words = behind;
                }
                [word, behind @ ..] if !word.as_bytes().starts_with(b"-") => {
                    let Some(at) = word.as_bytes().iter().position(|it| *it == b'=') else {
                        break;
                    };
                    let (name, value) = word.as_bytes().split_at(at);
                    let value = OsStr::from_bytes(&value[1..]);
                    changes.push((OsStr::from_bytes(name), Some(value)));
                    words = behind;
                }
                _ => return (Vec::new(), command),
            }
        }
        rest = words;
    }
    (changes, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> (Vec<String>, Vec<String>) {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let (changes, program) = without_env(&words);
        let changes = changes
            .iter()
            .map(|(name, value)| format!("{name:?} {value:?}"));
        let program = program.iter().map(|it| it.display().to_string());
        (changes.collect(), program.collect())
    }

    #[test]
    fn env_is_not_the_program() {
        let (changes, program) =
            parsed(&["/usr/bin/env", "A=b=c", "-u", "D", "env", "E=", "p", "F=g"]);
        assert_eq!(
            changes,
            ["\"A\" Some(\"b=c\")", "\"D\" None", "\"E\" Some(\"\")"]
        );
        assert_eq!(program, ["p", "F=g"]);
        // Nothing that `env` itself would do is imitated.
        for same in [
            &["env", "-i", "p"][..],
            &["env", "A=b"],
            &["env"],
            &["p", "env"],
        ] {
            let (changes, program) = parsed(same);
            assert_eq!(
                (changes.len(), program),
                (0, same.iter().map(|it| (*it).to_owned()).collect())
            );
        }
    }
}
