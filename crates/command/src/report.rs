//! `allotrope report`: shows a recording as text or writes it as JSON. `request.rs` decides what
//! the arguments mean together; this file reads the recording, and `allotrope-report` lays out
//! the output. Without options that choose something else it shows the first screen.

mod arguments;
mod flame;
mod imported;
mod request;
mod sampled;
mod screen;
mod site;

use std::mem::ManuallyDrop;
use std::path::Path;
use std::rc::Rc;

use allotrope_attribution::{Attributed, Suppressions};
use allotrope_profile::{Metric, Profile, StackSet};
use allotrope_reading::{Recording, recorded_at};
use allotrope_report::json::JsonOptions;
use allotrope_report::text::{self, TextOptions};
use allotrope_report::{Blocks, Grouping, SourceLines, json};
use allotrope_text::Shown;
use allotrope_trace::model::ImageId;
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FINE, Failure};
use crate::imported::Stacks;
use crate::message;
use crate::page::{self, PageOptions};
use crate::progress::reader;
use crate::replacing;
use crate::standard_output;
use crate::style::style;
use crate::to_write::ToWrite;
use arguments::By;
use request::{Mode, Request, Task};

pub use arguments::{Arguments, parse_source_path};
pub use screen::{findings, first_screen};

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
A trace that was cut off (the machine went down, the disk was full) or is damaged
is read up to that point. The exit status is 0 then; a warning on stderr and in the
report states at which byte it ends and how much is missing.

Exit status: 0 if the trace could be read, 1 if allotrope failed, 2 if the file is
no trace, or if the process, window or site that an option names is not in it.";

/// Reads the recording and prints the report.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    match Task::new(arguments)? {
        Task::Page { path, out } => write_page(arguments, &path, out),
        Task::Show(request) => show(arguments, &request),
    }
}

fn show(arguments: &Arguments, request: &Request<'_>) -> Result<u8, Failure> {
    let path = &*request.path;
    if let Mode::FlameGraph(out) = request.mode {
        flame::file(arguments, out).check([&path.to_owned()])?;
    }
    let reader = reader(arguments.input.limits());
    if request.time.option().is_none()
        && let Some(profile) = reader.sampled(path)?
    {
        return sampled::report(arguments, request, profile);
    }
    if let Some(stacks) = Stacks::read(&reader, path)? {
        return imported::report(arguments, request, &stacks);
    }
    let mut recording = reader.open(path)?;
    let profile = recording.profile_with(request.mode.wanted())?;
    // The process ends: freeing hundreds of thousands of sites would only take time.
    let mut profile = ManuallyDrop::new(profile);
    recording.notes().iter().for_each(message::print);
    check_process(arguments.process, path, &profile)?;
    check_events(arguments, request, &profile)?;
    arguments.filter.check_profile(&profile)?;
    let mut options = text_options(arguments, &profile)?;
    select(arguments, request, &recording, &mut profile, &mut options)?;
    let profile = &*profile;
    let glue = arguments.glue.read()?;
    let attributed = || Attributed::new(profile, &glue);
    match request.mode {
        Mode::FlameGraph(output) => {
            let set = match request.time.is_moment() {
                true => StackSet::of_live(profile),
                false => StackSet::from(profile),
            };
            let metric = arguments.metric.unwrap_or(Metric::Allocations);
            let about = options.window.as_deref();
            return flame::write(arguments, path, set, metric, about, output);
        }
        Mode::Json { has_findings } => print_json(arguments, &attributed(), options, has_findings)?,
        Mode::Site { number, blocks } => {
            site::print(
                &recording,
                request,
                (number, blocks),
                &attributed(),
                &options,
            )?;
        }
        Mode::List(by) => print_list(arguments, request, by, profile, attributed, &options)?,
        Mode::Screen if !profile.is_counts_only() => {
            screen::print(arguments, request, &attributed(), &options)?;
        }
        Mode::Screen => print_stacks(arguments, request, &attributed(), &options)?,
        Mode::Stacks(tree) => {
            options.tree = tree;
            print_stacks(arguments, request, &attributed(), &options)?;
        }
    }
    Ok(FINE)
}

/// Reduces the profile to the window, the range of time or the moment that is wanted.
fn select(
    arguments: &Arguments,
    request: &Request<'_>,
    recording: &Recording,
    profile: &mut Profile,
    options: &mut TextOptions,
) -> Result<(), Failure> {
    let keep_process = |profile: &mut Profile| {
        let wanted = arguments.process;
        let is_wanted = |id| wanted.is_none_or(|wanted| id == wanted);
        profile.processes.retain(|process| is_wanted(process.id));
    };
    if let Some(name) = &arguments.window {
        keep_process(profile);
        let shown = recording.window(profile, name, arguments.nth)?;
        (*profile, options.window) = (shown.profile, Some(shown.line));
    }
    if let Some(shown) = request.time.select(recording, profile)? {
        (*profile, options.window) = (shown.profile, Some(shown.line));
        if let Some(id) = arguments.process
            && profile.processes.iter().all(|process| process.id != id)
        {
            let sentence = anyhow!("process {id} did not run then");
            return Err(Failure::new(BAD_INPUT, sentence));
        }
        if request.time.is_moment() {
            options.blocks = Blocks::Leaked;
        }
    }
    // Text leaves out the others itself, and says so.
    if matches!(request.mode, Mode::FlameGraph(_) | Mode::Json { .. }) {
        keep_process(profile);
    }
    Ok(())
}

fn print_json(
    arguments: &Arguments,
    attributed: &Attributed<'_>,
    options: TextOptions,
    has_findings: bool,
) -> Result<(), Failure> {
    let findings = match has_findings && !attributed.profile.is_counts_only() {
        true => Some(findings(attributed, &options, &arguments.findings)?),
        false => None,
    };
    let source = options.source.as_deref();
    let options = JsonOptions {
        source,
        suppressions: options.suppressions,
        per: arguments.per,
        is_window: options.window.is_some(),
        findings: findings.as_deref(),
    };
    standard_output::print(|output| json::write(attributed, &options, output))?;
    for warning in source.iter().flat_map(|source| source.warnings()) {
        message::print(format_args!("warning: {warning}"));
    }
    Ok(())
}

fn print_stacks(
    arguments: &Arguments,
    request: &Request<'_>,
    attributed: &Attributed<'_>,
    options: &TextOptions,
) -> Result<(), Failure> {
    let pager = arguments.pager;
    pager.print(|output| {
        request.write_newest(output)?;
        text::write(attributed, options, output)
    })
}

fn print_list<'p>(
    arguments: &Arguments,
    request: &Request<'_>,
    by: By,
    profile: &'p Profile,
    attributed: impl Fn() -> Attributed<'p>,
    options: &TextOptions,
) -> Result<(), Failure> {
    arguments.pager.print(|output| {
        request.write_newest(output)?;
        match by {
            By::Function => text::write_by(&attributed(), Grouping::Function, options, output),
            By::Own => text::write_by(&attributed(), Grouping::Own, options, output),
            By::Module => text::write_by(&attributed(), Grouping::Module, options, output),
            By::Type => text::write_by(&attributed(), Grouping::Type, options, output),
            By::Process => text::write_processes(profile, arguments.merge, options, output),
            By::Thread => text::write_threads(profile, options, output),
            By::Size => text::write_sizes(profile, options, output),
            By::Entry => text::write_entries(profile, options, output),
            By::Stack => text::write(&attributed(), options, output),
        }
    })
}

fn write_page(arguments: &Arguments, path: &Path, out: &Path) -> Result<u8, Failure> {
    let options = PageOptions {
        glue: arguments.glue.read()?,
        suppressions: suppressions(arguments)?,
        findings: &arguments.findings,
        source: arguments.source.then_some(&*arguments.source_path),
        is_last: true,
        limits: arguments.input.limits(),
    };
    let out = ToWrite {
        path: out,
        kind: replacing::PAGE,
        force: arguments.force,
    };
    page::write(path, out, &options)?;
    Ok(FINE)
}

/// Refuses the id of a process that is not in the recording.
pub fn check_process(
    process: Option<ImageId>,
    path: &Path,
    profile: &Profile,
) -> Result<(), Failure> {
    let Some(wanted) = process else {
        return Ok(());
    };
    let ids = || profile.processes.iter().map(|process| process.id);
    if ids().any(|id| id == wanted) {
        return Ok(());
    }
    let known = match (ids().min(), ids().max()) {
        (Some(first), Some(last)) if first < last => format!("its ids are {first} to {last}"),
        (Some(only), _) => format!("its only id is {only}"),
        _ => "it has no process at all".to_owned(),
    };
    let path = path.shown();
    let sentence = anyhow!("there is no process {wanted} in {path}: {known}");
    Err(Failure::new(BAD_INPUT, sentence))
}

/// Refuses options that need events with call stacks for a recording without them.
fn check_events(
    arguments: &Arguments,
    request: &Request<'_>,
    profile: &Profile,
) -> Result<(), Failure> {
    match request::option_of_events(arguments, &request.time) {
        Some(option) if profile.is_counts_only() => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{option} needs recorded events, and {} was recorded with --counts-only; record the program without it",
                request.path.shown()
            ),
        )),
        _ => Ok(()),
    }
}

fn text_options(arguments: &Arguments, profile: &Profile) -> Result<TextOptions, Failure> {
    let lines = || {
        let lines = SourceLines::new(arguments.source_path.clone(), recorded_at(profile));
        Rc::new(lines.compared_with_build(profile))
    };
    Ok(TextOptions {
        style: style(arguments.color),
        metric: arguments.metric,
        top: arguments.top(),
        filter: arguments.filter.filter(),
        process: arguments.process,
        blocks: match (arguments.leaked_only, arguments.freed_only) {
            (true, _) => Blocks::Leaked,
            (_, true) => Blocks::Freed,
            _ => Blocks::All,
        },
        all_frames: arguments.all_frames,
        per: arguments.per,
        source: arguments.source.then(lines),
        suppressions: suppressions(arguments)?,
        ..TextOptions::default()
    })
}

fn suppressions(arguments: &Arguments) -> Result<Suppressions, Failure> {
    match arguments.all_leaks {
        true => Ok(Suppressions::none()),
        false => arguments.suppressions.read(),
    }
}
