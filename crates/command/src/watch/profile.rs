//! The looks at some processes as a sampled profile in memory, for the exports over HTTP: the
//! same as `watch -o`, read again as `export` does.

use std::path::Path;

use allotrope_profile::sampled::SampledProfile;
use allotrope_reading::Source;
use allotrope_symbols::Locator;
use allotrope_trace::TraceReader;
use allotrope_trace::model::Exit;
use allotrope_watch::look::Look;
use allotrope_watch::sampled::{About, MAX_DEPTH, Watched};
use anyhow::Context;

use super::save::parent;
use crate::sampled::describe_sums;

/// The stacks of all these processes, with the figures of their sums.
pub fn source<'l>(
    looks: impl Iterator<Item = (&'l Look, Exit)>,
    locator: &Locator,
) -> anyhow::Result<Source> {
    let watched = looks.map(|(look, exit)| Watched {
        state: &look.state,
        pid: look.process,
        parent_pid: parent(look.process).unwrap_or(0),
        read_at: look.time,
        exit,
    });
    let watched: Vec<Watched<'_>> = watched.collect();
    let about = About {
        tool_version: env!("CARGO_PKG_VERSION"),
        depth_limit: MAX_DEPTH,
    };
    let mut saved = Vec::new();
    let cannot = "the profile cannot be made";
    allotrope_watch::sampled::write(&mut saved, &watched, about, Some(locator)).context(cannot)?;
    let trace = TraceReader::sampled(&saved[..]).context(cannot)?;
    let profile = SampledProfile::read(&trace).context(cannot)?;
    let mut source = Source::of_samples(Path::new("the watched processes"), &profile)?;
    describe_sums(&mut source);
    Ok(source)
}
