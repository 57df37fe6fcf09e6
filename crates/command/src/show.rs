//! `allotrope show`: a finding, a site or a function in full.

mod blocks;
mod why;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use allotrope_attribution::Attributed;
use allotrope_findings::Finding;
use allotrope_profile::{Metric, Options, Profile, blocks_of_sites};
use allotrope_reading::{Moment, Wanted, recorded_at, split};
use allotrope_report::sampled::text::SampledTextOptions;
use allotrope_report::text::{self, Screen, Subject, TextOptions};
use allotrope_report::{BlockFigures, SourceLines, sites_of_row};
use allotrope_text::{Shown, quoted, shown};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FINE, Failure};
use crate::filter::nearest;
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

/// What is wanted: a finding, a site or a function; of one process, if that is wanted.
fn subject<'a>(
    what: &str,
    path: &Path,
    screen: &Screen<'a>,
    options: &TextOptions,
) -> Result<Subject<'a>, Failure> {
    let mut subject = of_all_processes(what, path, screen, options)?;
    let Some(id) = options.process else {
        return Ok(subject);
    };
    let profile = screen.attributed.profile;
    subject.finding = subject.finding.and_then(|finding| finding.of_process(id));
    match subject.finding {
        Some(finding) => {
            subject.title = titled(what, finding);
            subject.next = after_a_change(path);
            subject.sites.clone_from(&finding.sites);
        }
        None => {
            let is_of = |site: &u32| profile.site(*site).is_some_and(|(it, _)| it.id == id);
            subject.sites.retain(is_of);
        }
    }
    if subject.finding.is_none() && subject.sites.is_empty() {
        let sentence = anyhow!("{} has no blocks of process {id}", shown(&subject.title));
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    Ok(subject)
}

fn of_all_processes<'a>(
    what: &str,
    path: &Path,
    screen: &Screen<'a>,
    options: &TextOptions,
) -> Result<Subject<'a>, Failure> {
    if let Ok(number) = what.parse::<usize>() {
        return finding(number, path, screen.findings);
    }
    let site = what
        .strip_prefix("site:")
        .or_else(|| what.strip_prefix('#'));
    match site.map(str::parse::<u32>) {
        Some(Ok(number)) => site_subject(number, path, screen.attributed, options),
        Some(Err(_)) => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "'{}' is no site; write its number, such as site:7",
                shown(what)
            ),
        )),
        None => function(what, path, screen),
    }
}

fn finding<'a>(
    number: usize,
    path: &Path,
    findings: &'a [Finding],
) -> Result<Subject<'a>, Failure> {
    let found = number.checked_sub(1).and_then(|index| findings.get(index));
    let Some(finding) = found else {
        let known = match findings.len() {
            0 => "nothing stands out in it; name a site (site:1) or a function".to_owned(),
            1 => "its only finding is 1".to_owned(),
            many => format!("its findings are 1 to {many}"),
        };
        let sentence = anyhow!("there is no finding {number} in {}: {known}", path.shown());
        return Err(Failure::new(BAD_INPUT, sentence));
    };
    let trace = quoted(path.as_os_str());
    let next = match finding.parts.is_empty() {
        true => after_a_change(path),
        false => format!(
            "in one of its processes: allotrope show {trace} {number} --process {}",
            finding.process
        ),
    };
    Ok(Subject {
        title: titled(&number.to_string(), finding),
        finding: Some(finding),
        sites: finding.sites.clone(),
        next,
    })
}

/// What to do after a finding.
fn after_a_change(path: &Path) -> String {
    let trace = quoted(path.as_os_str());
    format!("after a change, record again and `allotrope diff {trace} AFTER`")
}

/// The title of a finding with this number.
fn titled(number: &str, finding: &Finding) -> String {
    match finding.measure.is_empty() {
        true => format!("{number}  {}", finding.title),
        false => format!("{number}  {}: {}", finding.title, finding.measure),
    }
}

/// The failure if no site has this number.
pub fn no_site(number: u32, path: &Path, profile: &Profile) -> Failure {
    let last: usize = profile.processes.iter().map(|it| it.sites.len()).sum();
    let known = match last {
        0 => "it has none".to_owned(),
        last => format!("its sites are 1 to {last}"),
    };
    let sentence = anyhow!("there is no site {number} in {}: {known}", path.shown());
    Failure::new(BAD_INPUT, sentence)
}

fn site_subject(
    number: u32,
    path: &Path,
    attributed: &Attributed<'_>,
    options: &TextOptions,
) -> Result<Subject<'static>, Failure> {
    let profile = attributed.profile;
    let row = sites_of_row(attributed, number, options);
    if row.is_empty() {
        return Err(no_site(number, path, profile));
    }
    let in_row = |image, stack| row.contains(&(image, stack));
    let processes = profile.processes.iter();
    let sites = processes.flat_map(|process| {
        let sites = process.sites.iter();
        sites.filter(move |site| in_row(process.id, site.stack_id))
    });
    let trace = quoted(path.as_os_str());
    Ok(Subject {
        title: format!("site {number}"),
        finding: None,
        sites: sites.map(|site| site.number).collect(),
        next: format!("each block: allotrope show {trace} site:{number} --blocks"),
    })
}

/// The sites that a function heads; those that it is a caller of if it heads none. Its
/// name, the last part of its name, or a part of it that no other function has.
fn function(what: &str, path: &Path, screen: &Screen<'_>) -> Result<Subject<'static>, Failure> {
    let Attributed { profile, headlines } = screen.attributed;
    let names = profile.frames.iter().map(|frame| &*frame.function);
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let lower = what.to_lowercase();
    let tests: [&dyn Fn(&str) -> bool; 3] = [
        &|name| name == what,
        &|name| name.rsplit("::").next() == Some(what),
        &|name| name.to_lowercase().contains(&lower),
    ];
    let sites = || profile.processes.iter().flat_map(|process| &process.sites);
    let name_of = |frame: u32| {
        let frame = profile.frames.get(frame as usize);
        frame.map_or("", |frame| &*frame.function)
    };
    let mut found: Vec<&str> = Vec::new();
    for test in tests {
        found = names.iter().copied().filter(|name| test(name)).collect();
        if !found.is_empty() {
            break;
        }
    }
    let headed = |name: &str| -> Vec<u32> {
        let headed = sites().filter(|site| {
            let head = headlines.head(site);
            head.is_some_and(|frame| name_of(frame) == name)
        });
        headed.map(|site| site.number).collect()
    };
    // Of several functions with such a name, those that head a stack are meant.
    if found.len() > 1 {
        let heading: Vec<&str> = found
            .iter()
            .copied()
            .filter(|it| !headed(it).is_empty())
            .take(8)
            .collect();
        if !heading.is_empty() {
            found = heading;
        }
    }
    let [name] = found[..] else {
        let remedy = match found.is_empty() {
            true => {
                let near = nearest(what, names.iter().copied());
                match near.is_empty() {
                    true => "no function has a similar name".to_owned(),
                    false => format!("nearest: {}", near.join(", ")),
                }
            }
            false => {
                let some: Vec<_> = found.iter().take(5).map(|name| shown(name)).collect();
                format!("name one of them: {}", some.join(", "))
            }
        };
        let how_many = match found.len() {
            0 => "no function".to_owned(),
            _ => "several functions".to_owned(),
        };
        let (what, path) = (shown(what), path.shown());
        let sentence = anyhow!("'{what}' is the name of {how_many} in {path}; {remedy}");
        return Err(Failure::new(BAD_INPUT, sentence));
    };
    let mut numbers = headed(name);
    let mut title = name.to_owned();
    if numbers.is_empty() {
        title.push_str(", with what it calls");
        let through = sites().filter(|site| site.stack.iter().any(|&it| name_of(it) == name));
        numbers = through.map(|site| site.number).collect();
    }
    let trace = quoted(path.as_os_str());
    let filter = quoted(name.as_ref());
    Ok(Subject {
        title,
        finding: None,
        sites: numbers,
        next: format!("its callers: allotrope report {trace} --tree bottom-up --filter {filter}"),
    })
}
