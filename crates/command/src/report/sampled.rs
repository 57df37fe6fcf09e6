//! `allotrope report` of a sampled profile.

use allotrope_profile::Metric;
use allotrope_profile::sampled::SampledProfile;
use allotrope_reading::Source;
use allotrope_report::sampled::text::SampledTextOptions;

use super::arguments::{Arguments, Format};
use super::flame;
use super::request::{Mode, Request};
use crate::exit_status::Failure;
use crate::message;
use crate::sampled;
use crate::style::style;

/// Prints it, or refuses options that need single allocations or times.
pub fn report(
    arguments: &Arguments,
    request: &Request<'_>,
    mut profile: SampledProfile,
) -> Result<u8, Failure> {
    let path = &*request.path;
    let refused = [
        (arguments.tree.is_some(), "--tree"),
        (arguments.by.is_some(), "--by"),
        (arguments.merge, "--merge"),
        (arguments.lists, "--lists"),
        (
            arguments.filter.is_given() && arguments.flamegraph.is_none(),
            "--filter",
        ),
        (arguments.suppressions.is_given(), "--suppressions"),
        (arguments.all_leaks, "--all-leaks"),
        (arguments.window.is_some(), "--window"),
        (arguments.per.is_some(), "--per"),
        (arguments.leaked_only, "--leaked-only"),
        (arguments.freed_only, "--freed-only"),
        (
            arguments.site.is_some(),
            "--site (allotrope show takes site:N)",
        ),
        (arguments.source, "--source"),
        (arguments.format == Format::Markdown, "--format markdown"),
    ];
    sampled::refuse(path, &refused)?;
    let metric = arguments.metric.unwrap_or(Metric::LeakedBytes);
    sampled::check_metric(path, metric)?;
    if let Some(id) = arguments.process {
        sampled::keep_process(path, &mut profile, id)?;
    }
    match request.mode {
        Mode::FlameGraph(output) => {
            let source = Source::of_samples(path, &profile)?;
            arguments.filter.check_sets(std::iter::once(&source.set))?;
            source.notes.iter().for_each(message::print);
            flame::write(arguments, path, source.set, metric, None, output)
        }
        Mode::Json { .. } => sampled::report_json(&profile),
        _ => {
            let options = SampledTextOptions {
                style: style(arguments.color),
                metric,
                top: arguments.top(),
                all_frames: arguments.all_frames,
                glue: arguments.glue.read()?,
            };
            sampled::report_text(&profile, &options, arguments.pager)
        }
    }
}
