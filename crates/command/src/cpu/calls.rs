//! How many calls of the allocator a run of the program makes.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;

use allotrope_formats::Limits;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use super::PAUSE;
use crate::exit_status::{BAD_INPUT, Failure};
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

/// Runs the program once more, to count its calls. Signals go to it, as they did before.
pub fn count(command: &[OsString], received: &Receiver<Received>) -> anyhow::Result<u64> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let file = folder.path().join("counts.allotrope");
    let mut child = Command::new("/proc/self/exe")
        .args(["record", "--counts-only", "--quiet", "-o"])
        .arg(&file)
        .arg("--")
        .args(command)
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
