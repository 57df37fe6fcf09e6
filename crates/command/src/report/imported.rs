//! `allotrope report` of stacks that another tool wrote.

use allotrope_report::Grouping;
use allotrope_report::text::TextOptions;
use anyhow::anyhow;

use super::arguments::{Arguments, By, Format};
use super::flame;
use super::request::{Mode, Request};
use crate::exit_status::{BAD_INPUT, FINE, Failure};
use crate::imported::Stacks;
use crate::style::style;

/// Prints it, or refuses options that need single allocations or times.
pub fn report(
    arguments: &Arguments,
    request: &Request<'_>,
    stacks: &Stacks,
) -> Result<u8, Failure> {
    let by = match arguments.by {
        Some(By::Process) => Some("--by process"),
        Some(By::Thread) => Some("--by thread"),
        Some(By::Size) => Some("--by size"),
        Some(By::Entry) => Some("--by entry"),
        _ => None,
    };
    let time = request.time.option();
    stacks.refuse(&[
        (by.is_some(), by.unwrap_or_default()),
        (time.is_some(), time.unwrap_or_default()),
        (arguments.process.is_some(), "--process"),
        (arguments.merge, "--merge"),
        (arguments.window.is_some(), "--window"),
        (arguments.leaked_only, "--leaked-only"),
        (arguments.freed_only, "--freed-only"),
        (arguments.events, "--events"),
        (
            arguments.site.is_some(),
            "--site (allotrope show takes site:N)",
        ),
        (arguments.source, "--source"),
        (arguments.format == Format::Markdown, "--format markdown"),
    ])?;
    arguments.filter.check_profile(stacks.profile())?;
    let metric = stacks.metric(arguments.metric)?;
    let (tree, grouping) = match request.mode {
        Mode::FlameGraph(output) => {
            let metric = stacks.one_metric(metric)?;
            let set = stacks.set.clone();
            return flame::write(arguments, &request.path, set, metric, None, output);
        }
        Mode::Json { .. } => {
            stacks.print_json()?;
            return Ok(FINE);
        }
        Mode::List(By::Function) => (None, Some(Grouping::Function)),
        Mode::List(By::Own) => (None, Some(Grouping::Own)),
        Mode::List(By::Module) => (None, Some(Grouping::Module)),
        Mode::List(By::Type) => (None, Some(Grouping::Type)),
        Mode::Stacks(tree) => (tree, None),
        Mode::Screen | Mode::Site { .. } | Mode::List(_) => (None, None),
    };
    if grouping.is_some() && arguments.filter.is_given() {
        let sentence = anyhow!("--filter selects stacks; leave --by out");
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let options = TextOptions {
        style: style(arguments.color),
        metric,
        top: arguments.top(),
        tree,
        filter: arguments.filter.filter(),
        all_frames: arguments.all_frames,
        per: arguments.per,
        suppressions: super::suppressions(arguments)?,
        ..TextOptions::default()
    };
    stacks.print(&arguments.glue, grouping, options, arguments.pager)?;
    Ok(FINE)
}
