//! `allotrope show`: a finding, a site or a function in full.

mod blocks;
mod subject;
mod why;

pub use subject::no_site;
use subject::subject;

use std::path::PathBuf;
use std::rc::Rc;

use allotrope_attribution::Attributed;
use allotrope_profile::{Metric, Options, blocks_of_sites};
use allotrope_reading::{Moment, Wanted, recorded_at, split};
use allotrope_report::sampled::text::SampledTextOptions;
use allotrope_report::text::{self, Screen, TextOptions};
use allotrope_report::{BlockFigures, SourceLines};
use allotrope_text::{Shown, quoted};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FINE, Failure};
use crate::findings::FindingArguments;
use crate::glue::GlueArguments;
use crate::imported::Stacks;
use crate::input_limit::InputLimit;
use crate::pager::PagerArguments;
use crate::progress::{Progress, reader};
use crate::report;
use crate::sampled;
use crate::style::{Color, style};
use crate::suppressions::SuppressionArguments;
use crate::values;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
WHAT is the number of a finding, as `allotrope report` shows them (1); the number of a
site, as the lists of `report --lists` show them (site:7); or the name of a function, or
a part of it.

`--why RULE` shows why there is such a finding or none: its conditions with the numbers of
this run beside the limits; `show FILE WHAT --why RULE` for one function.

Exit status: 0 if the trace could be read, 1 if allotrope failed, 2 if the file is no
trace or has no such finding, site or function.";

/// Arguments of `allotrope show`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A recording, or stacks that another tool wrote
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// A finding (1), a site (site:7) or a function [default: all findings]
    #[arg(value_name = "WHAT")]
    what: Option<String>,
    /// Show at most N stacks, with --blocks N blocks
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = values::whole::<u32>(1..))]
    top: u32,
    #[command(flatten)]
    blocks: blocks::BlockArguments,
    /// Show why RULE has a finding or none: its conditions with the numbers of this run
    ///
    /// For the candidates that come nearest, or, with WHAT, for those that it has blocks of.
    /// docs/findings.md has the rules; `all` shows all of them.
    #[arg(long, value_name = "RULE", value_parser = why::Rules::parse, group = "in_detail")]
    why: Option<why::Rules>,
    /// The format of what --blocks and --why show
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        requires = "in_detail"
    )]
    format: Format,
    #[command(flatten)]
    glue: GlueArguments,
    #[command(flatten)]
    findings: FindingArguments,
    #[command(flatten)]
    suppressions: SuppressionArguments,
    /// Show only what is of the process image with this id
    ///
    /// A finding that is the same in several processes is shown as it is in this one.
    #[arg(long, value_name = "ID", value_parser = values::whole::<u32>(..))]
    process: Option<u32>,
    /// Look below DIR for the source files whose recorded paths begin with PREFIX
    #[arg(long, value_name = "PREFIX=DIR", value_parser = report::parse_source_path,
          hide_short_help = true)]
    source_path: Vec<(PathBuf, PathBuf)>,
    /// Show the frames of allocators and standard libraries, too
    #[arg(long)]
    all_frames: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        hide_short_help = true
    )]
    color: Color,
    #[command(flatten)]
    pager: PagerArguments,
    #[command(flatten)]
    pub input: InputLimit,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

/// Reads the trace and prints what is wanted.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let path = match split(&arguments.trace) {
        // Findings, sites and functions are shown up to now.
        (path, None | Some(Moment::Now)) => path,
        (path, Some(_)) => {
            let sentence = anyhow!(
                "show is about the whole run, so it takes no moment; allotrope report {} shows what was live then, allotrope show {} the whole run",
                quoted(arguments.trace.as_os_str()),
                quoted(path.as_os_str())
            );
            return Err(Failure::new(BAD_INPUT, sentence));
        }
    };
    let reader = reader(arguments.input.limits());
    if let Some(profile) = reader.sampled(path)? {
        let source_path = !arguments.source_path.is_empty();
        let refused = [
            (source_path, "--source-path"),
            (arguments.blocks.blocks, "--blocks"),
            (arguments.why.is_some(), "--why"),
            (arguments.suppressions.is_given(), "--suppressions"),
            (arguments.process.is_some(), "--process"),
        ];
        sampled::refuse(path, &refused)?;
        let options = SampledTextOptions {
            style: style(arguments.color),
            metric: Metric::LeakedBytes,
            top: arguments.top.try_into().unwrap_or(usize::MAX),
            all_frames: arguments.all_frames,
            glue: arguments.glue.read()?,
        };
        let what = arguments.what.as_deref();
        return sampled::show(path, &profile, what, &options, arguments.pager);
    }
    if let Some(stacks) = Stacks::read(&reader, path)? {
        stacks.refuse(&[
            (arguments.blocks.blocks, "--blocks"),
            (arguments.why.is_some(), "--why"),
            (arguments.suppressions.is_given(), "--suppressions"),
            (arguments.process.is_some(), "--process"),
        ])?;
        let lines = SourceLines::new(arguments.source_path.clone(), None);
        let options = TextOptions {
            style: style(arguments.color),
            top: arguments.top.try_into().unwrap_or(usize::MAX),
            all_frames: arguments.all_frames,
            source: Some(Rc::new(lines)),
            ..TextOptions::default()
        };
        let what = arguments.what.as_deref();
        return stacks.show(what, &arguments.glue, options, arguments.pager);
    }
    let mut recording = reader.open(path)?;
    let wanted = Wanted {
        site_details: true,
        ..Wanted::FINDINGS
    };
    let profile = recording.profile_with(wanted)?;
    if profile.is_counts_only() {
        let sentence = anyhow!(
            "{} was recorded with --counts-only, without stacks; record the program without it",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    report::check_process(arguments.process, path, &profile)?;
    let recorded = recorded_at(&profile);
    let lines = SourceLines::new(arguments.source_path.clone(), recorded);
    let options = TextOptions {
        style: style(arguments.color),
        top: arguments.top.try_into().unwrap_or(usize::MAX),
        all_frames: arguments.all_frames,
        source: Some(Rc::new(lines.compared_with_build(&profile))),
        suppressions: arguments.suppressions.read()?,
        process: arguments.process,
        ..TextOptions::default()
    };
    let glue = arguments.glue.read()?;
    let attributed = Attributed::new(&profile, &glue);
    let findings = report::findings(&attributed, &options, &arguments.findings)?;
    let screen = Screen {
        attributed: &attributed,
        findings: &findings,
        trace: quoted(path.as_os_str()),
        merge: false,
        top: None,
    };
    let what = arguments.what.as_deref();
    let subject = what.map(|what| subject(what, path, &screen, &options));
    let subject = subject.transpose()?;
    if let Some(rules) = &arguments.why {
        let how = (&arguments.findings, &options);
        let output = (arguments.format, arguments.pager);
        why::print(&screen, rules, subject.as_ref(), how, output)?;
        return Ok(FINE);
    }
    let Some(subject) = subject else {
        arguments
            .pager
            .print(|output| text::write_findings(&screen, &options, output))?;
        return Ok(FINE);
    };
    if arguments.blocks.blocks {
        let of = (&attributed, &glue);
        let output = (arguments.format, arguments.pager);
        blocks::print(
            &mut recording,
            &subject,
            of,
            &arguments.blocks,
            &options,
            output,
        )?;
        return Ok(FINE);
    }
    let mut blocks = BlockFigures::default();
    let sites = subject.blocks_of(&profile);
    if !sites.is_empty() {
        let progress = Progress::new(false);
        let show = |done, total| progress.show("reading the blocks", done, total);
        let options = Options {
            progress: Some(&show),
            ..Options::default()
        };
        let aggregated = blocks_of_sites(recording.trace(), &options, &sites, &mut |block| {
            blocks.add(block);
        });
        progress.finish();
        aggregated.map_err(|error| recording.error(error))?;
    }
    arguments
        .pager
        .print(|output| text::write_subject(&screen, &subject, &blocks, &options, output))?;
    Ok(FINE)
}
