//! Snapshots as sampled profiles: `watch -o` writes one in place of a report, and the exports
//! over HTTP take one from memory.

use std::path::Path;

use allotrope_files::{Output, Target};
use allotrope_reading::Source;
use allotrope_symbols::Locator;
use allotrope_text::Shown;
use allotrope_watch::sampled::{self, SaveError};
use allotrope_watch::snapshot::Snapshot;
use anyhow::Context;

use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::message;
use crate::replacing::replaceable_by_profile;
use crate::sampled::describe_sums;

/// Whether a profile can be written to this path: that is known before the processes are touched.
pub fn check(path: &Path, force: bool) -> Result<(), Failure> {
    replaceable_by_profile(path, force)
        .map(drop)
        .status(BAD_INPUT)
}

/// Writes the snapshots to the target, which is that of the path.
pub fn save(
    path: &Path,
    target: Target,
    snapshots: &[Snapshot],
    locator: &Locator,
) -> Result<(), Failure> {
    // Signals are handled later, by the loop: the file is complete, or has no name.
    let write = || -> Result<(), SaveError> {
        let mut output = Output::at(target)?;
        sampled::write(&mut output, snapshots, Some(locator))?;
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

/// The stacks of all these processes, with the figures of their sums.
pub fn source(snapshots: &[Snapshot], locator: &Locator) -> anyhow::Result<Source> {
    let profile = sampled::profile(snapshots, Some(locator));
    let profile = profile.context("the profile cannot be made")?;
    let mut source = Source::of_samples(Path::new("the watched processes"), &profile)?;
    describe_sums(&mut source);
    Ok(source)
}
