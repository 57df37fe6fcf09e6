//! `watch -o`: writes a sampled profile in place of a report.

use std::path::Path;

use allotrope_files::{Output, Target};
use allotrope_symbols::Locator;
use allotrope_text::Shown;
use allotrope_trace::model::Exit;
use allotrope_watch::attach::Attached;
use allotrope_watch::look::Look;
use allotrope_watch::sampled::{About, MAX_DEPTH, SaveError, Watched};
use anyhow::Context;

use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::message;
use crate::replacing::replaceable_by_profile;

/// Whether a profile can be written to this path: that is known before the processes are touched.
pub fn check(path: &Path, force: bool) -> Result<(), Failure> {
    replaceable_by_profile(path, force)
        .map(drop)
        .status(BAD_INPUT)
}

/// Writes what these looks have seen to the target, which is that of the path.
pub fn save(
    path: &Path,
    target: Target,
    looks: &[Look],
    attached: &[Attached],
    locator: &Locator,
) -> Result<(), Failure> {
    let watched: Vec<Watched<'_>> = looks.iter().map(|look| watched(look, attached)).collect();
    let about = About {
        tool_version: env!("CARGO_PKG_VERSION"),
        depth_limit: MAX_DEPTH,
    };
    // Signals are handled later, by the loop: the file is complete, or has no name.
    let write = || -> Result<(), SaveError> {
        let mut output = Output::at(target)?;
        allotrope_watch::sampled::write(&mut output, &watched, about, Some(locator))?;
        Ok(output.finish()?)
    };
    write()
        .with_context(|| format!("cannot write {}", path.shown()))
        .status(FAILED)?;
    message::print(format_args!(
        "wrote {}; look at it with `allotrope report`",
        path.shown()
    ));
    Ok(())
}

fn watched<'l>(look: &'l Look, attached: &[Attached]) -> Watched<'l> {
    Watched {
        state: &look.state,
        pid: look.process,
        parent_pid: parent(look.process).unwrap_or(0),
        read_at: look.time,
        exit: exit(look, attached),
    }
}

/// How the process ended.
pub fn exit(look: &Look, attached: &[Attached]) -> Exit {
    let process = attached.iter().find(|it| it.process == look.process);
    match look.state.process.exit_status {
        _ if process.is_some_and(|it| !it.has_ended() || it.has_left()) => Exit::Running,
        Some(status) => Exit::Status(status),
        None => Exit::Unknown,
    }
}

/// The parent's id (`proc_pid_status(5)`).
pub fn parent(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}
