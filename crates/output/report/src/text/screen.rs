//! The first screen: what a program did, what stands out, and what held its memory, in at
//! most 24 lines with the command and the prompt that follows.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_findings::Finding;
use allotrope_profile::warnings::weighty_warnings;
use allotrope_profile::{
    Metric, Process, Profile, ResidentPoint, command_text, sum_of_live, sum_of_resident,
};
use allotrope_text::document::write_lines;
use allotrope_text::{Role, Style, TextWriter, columns, cut, cut_middle};
use rustc_hash::FxHashSet;

use crate::common_caller::common_caller;
use crate::groups::{Group, Grouping, groups_of};
use crate::numbers::{bytes, count, count_each, duration, plural};
use crate::reachability;
use crate::selection::processes;
use crate::shorten::clean;
use crate::text::finding::{Detail, finding_lines};
use crate::text::screen_parts::{Screen, code, number, stack, wanted};
use crate::text::{Blocks, TextOptions, by, chart, frames, header, process_table};

/// Lines of the screen: a terminal of 24 lines has one left for the command and one for the prompt.
const LINES: usize = 22;
/// Largest number of findings that are shown.
const FINDINGS: usize = 3;
/// Largest number of lines of the list of functions.
const FUNCTIONS: usize = 10;
/// Least lines of the list of functions.
const MIN_FUNCTIONS: usize = 3;
/// Largest number of lines of warnings.
const WARNINGS: usize = 2;
/// Largest number of lines of the list of processes.
const PROCESSES: usize = 4;
/// Columns before the curve: the most and the axis.
const BEFORE_CURVE: usize = 12;
/// Largest number of columns of the curve.
const MAX_CURVE: usize = 120;

/// Writes the first screen.
pub fn write_screen(
    screen: &Screen<'_>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    write_lines(&mut out, lines(screen, options))?;
    out.flush()
}

/// Writes all findings.
pub fn write_findings(
    screen: &Screen<'_>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let findings = screen.findings.iter();
    let mut findings = findings
        .filter_map(|finding| wanted(finding, options))
        .peekable();
    if findings.peek().is_none() {
        writeln!(out, "Nothing stands out that the rules know.")?;
    }
    let many = options.process.is_none() && screen.attributed.profile.processes.len() > 1;
    for finding in findings {
        write_lines(
            &mut out,
            finding_lines(screen, finding, Detail::Full, many, options),
        )?;
    }
    out.flush()
}

/// The sites that `--filter` and `--leaked-only` select.
struct Selected {
    /// Their numbers; `None`: all sites.
    numbers: Option<FxHashSet<u32>>,
}

impl Selected {
    fn of(screen: &Screen<'_>, shown: &[&Process], options: &TextOptions) -> Self {
        let is_leaked = options.blocks == Blocks::Leaked;
        if options.filter.is_none() && !is_leaked {
            return Self { numbers: None };
        }
        let profile = screen.attributed.profile;
        let matches = |frame: &u32| match (&options.filter, profile.frames.get(*frame as usize)) {
            (Some(filter), Some(frame)) => {
                let module = profile.module_name(frame);
                filter.matches(&frame.function, &frame.file, &module)
            }
            _ => false,
        };
        let sites = shown.iter().flat_map(|process| &process.sites);
        let sites = sites.filter(|site| !is_leaked || site.leaked_allocations > 0);
        let sites = sites.filter(|site| options.filter.is_none() || site.stack.iter().any(matches));
        Self {
            numbers: Some(sites.map(|site| site.number).collect()),
        }
    }

    fn has(&self, site: u32) -> bool {
        self.numbers.as_ref().is_none_or(|it| it.contains(&site))
    }

    /// Whether it has one of these sites. A finding without sites is about the whole process.
    fn has_any(&self, sites: &[u32]) -> bool {
        self.numbers.is_none() || sites.iter().any(|site| self.has(*site))
    }
}

/// The lines of the screen.
fn lines(screen: &Screen<'_>, options: &TextOptions) -> Vec<String> {
    let profile = screen.attributed.profile;
    let style = options.style;
    let width = style.columns();
    let shown: Vec<&Process> = processes(profile, options).collect();
    let mut lines = vec![style.paint(Role::Title, &title(profile, &shown, options.per, width))];
    lines.extend(warning_lines(profile, options));
    lines.extend(header::marks(profile, width));
    match shown.as_slice() {
        [] => {
            lines.push(String::new());
            lines.push("No process was recorded.".to_owned());
            return lines;
        }
        [one] => lines.extend(curve(profile, one, width)),
        many => {
            lines.push(String::new());
            lines.extend(together(profile, many, width));
            let merge = screen.merge;
            lines.extend(process_table::lines(
                profile, many, merge, PROCESSES, options,
            ));
        }
    }
    let reachability = reachability::sentence(&shown);
    lines.extend(
        reachability
            .iter()
            .flat_map(|it| style.fitted(it, ["", "  "], Role::Plain)),
    );
    let windows = windows(&shown, width);
    let selected = Selected::of(screen, &shown, options);
    let found: Vec<&Finding> = screen
        .findings
        .iter()
        .filter_map(|finding| wanted(finding, options))
        .filter(|finding| selected.has_any(&finding.sites))
        .collect();
    let footer = footer(screen, &shown, found.first().copied(), options);
    let below = rows(&footer, width) + usize::from(windows.is_some());
    let used = lines.len() + below;
    // Without a limit, or what is left: a blank line, the title of the list and its least lines.
    let limit = match screen.top {
        Some(_) => usize::MAX,
        None => LINES,
    };
    let held = Held::of(screen, &shown, &selected, options);
    let room = limit.saturating_sub(used + 2 + held.least());
    lines.extend(standing_out(screen, &found, shown.len() > 1, room, options));
    let used = lines.len() + below;
    let most = screen.top.unwrap_or(FUNCTIONS).max(1);
    let room = limit.saturating_sub(used + 2).clamp(1, most);
    lines.extend(held.lines(screen, &selected, room, options));
    lines.extend(windows);
    let warnings = options.source.iter().flat_map(|source| source.warnings());
    lines.extend(warnings.flat_map(|it| options.style.fitted(&it, ["! ", "  "], Role::Warning)));
    lines.extend(footer);
    lines
}

/// The command, how long it ran, how much it allocated, and how it ended.
fn title(profile: &Profile, shown: &[&Process], per: Option<f64>, width: usize) -> String {
    let mut facts = Vec::new();
    let command = match shown {
        [one] => command_text(&one.command),
        _ => command_text(&profile.recording.command),
    };
    let starts = shown.iter().map(|process| process.started_us).min();
    let ends = shown.iter();
    let ends = ends.map(|process| process.started_us.saturating_add(process.duration_us));
    let ran = ends
        .max()
        .zip(starts)
        .map_or(0, |(end, start)| end.saturating_sub(start));
    facts.push(duration(ran as f64));
    let allocations: u64 = shown.iter().map(|it| it.totals.allocations).sum();
    facts.push(match per {
        Some(per) => format!(
            "{}, {} each",
            plural(allocations as usize, "allocation", "allocations"),
            count_each(allocations, per)
        ),
        None => plural(allocations as usize, "allocation", "allocations"),
    });
    facts.push(match shown {
        [one] => header::exit(profile, one),
        many => format!("{} processes", count(many.len() as u64)),
    });
    let facts = format!(" · {}", facts.join(" · "));
    let room = width.saturating_sub(columns(&facts));
    cut_middle(&format!("{}{facts}", cut(&clean(&command), room)), width)
}

/// The first warnings.
fn warning_lines(profile: &Profile, options: &TextOptions) -> Vec<String> {
    let style = Style::plain(options.style.columns());
    let all = weighty_warnings(profile);
    let all = all.iter();
    let all: Vec<String> = all
        .flat_map(|warning| style.fitted(warning, ["! ", "  "], Role::Plain))
        .collect();
    let is_whole = all.len() <= WARNINGS;
    let mut all: Vec<String> = all.into_iter().take(WARNINGS).collect();
    if let Some(last) = all.last_mut().filter(|_| !is_whole) {
        const MORE: &str = " … (report --lists)";
        let cut = cut(last, style.width - columns(MORE));
        *last = format!("{}{MORE}", cut.trim_end_matches(['…', ' ']));
    }
    let paint = |line: String| options.style.paint(Role::Warning, &line);
    all.into_iter().map(paint).collect()
}

/// The live bytes over time, with the peak marked, and what they were.
fn curve(profile: &Profile, process: &Process, width: usize) -> Vec<String> {
    let totals = &process.totals;
    let count = width.saturating_sub(BEFORE_CURVE + 1).min(MAX_CURVE);
    let Some(curve) = peak_curve(process, count) else {
        return vec![String::new(), "No block was allocated.".to_owned()];
    };
    let text = format!(
        "peak after {} ({:.0} % of the run) · {} {}",
        duration(totals.peak_time_us as f64),
        peak_share(process) * 100.0,
        bytes(totals.leaked_bytes),
        header::left(profile, process),
    );
    let mut lines: Vec<String> = curve.lines().map(str::to_owned).collect();
    let room = width - BEFORE_CURVE;
    let points = process.resident.iter();
    let most = points.map(ResidentPoint::program_bytes).max();
    let resident = resident(
        most.unwrap_or(0),
        totals.peak_bytes,
        "code, stacks, freed blocks",
    );
    match resident {
        Some(resident) if columns(&text) + columns(&resident) + 3 <= room => {
            lines.push(format!("{:BEFORE_CURVE$}{text} · {resident}", ""));
        }
        resident => {
            let rest = resident.into_iter();
            let texts = std::iter::once(text).chain(rest);
            lines.extend(texts.map(|it| format!("{:BEFORE_CURVE$}{}", "", cut(&it, room))));
        }
    }
    lines
}

/// The most resident memory beside the most live bytes, and what else it has in it if it is larger
/// by more than a quarter: `others`; `None` if it was not sampled.
fn resident(most: u64, peak: u64, others: &str) -> Option<String> {
    if most == 0 {
        return None;
    }
    let more = most.saturating_sub(peak);
    let is_near = more <= peak / 4 && peak.saturating_sub(most) <= peak / 4;
    Some(match (is_near, more) {
        (true, _) => format!("resident up to {}", bytes(most)),
        (false, 0) => format!(
            "resident up to {}: some of the blocks was never written",
            bytes(most)
        ),
        (false, more) => format!(
            "resident up to {}, {} more: {others}",
            bytes(most),
            bytes(more)
        ),
    })
}

/// The live bytes of all processes together over the run, and what was resident in all of them;
/// empty if only some are shown, or nothing was live.
fn together(profile: &Profile, shown: &[&Process], width: usize) -> Vec<String> {
    if shown.len() < profile.processes.len() {
        return Vec::new();
    }
    let sums = sum_of_live(profile);
    let Some(most) = sums.iter().copied().max().filter(|&most| most > 0) else {
        return Vec::new();
    };
    let text = format!("  up to {} live together", bytes(most));
    let resident_bytes = sum_of_resident(profile).into_iter().max();
    // A page that several processes share is resident in each of them.
    let resident = resident(
        resident_bytes.unwrap_or(0),
        most,
        "shared pages, code, stacks, freed blocks",
    );
    let count = width.saturating_sub(columns(&text) + 2).min(MAX_CURVE);
    let parts = sums.chunks(sums.len().div_ceil(count.max(1)));
    let parts: Vec<u64> = parts
        .map(|it| it.iter().copied().max().unwrap_or(0))
        .collect();
    let resident = resident.map(|it| cut(&format!("  {it}"), width));
    let curve = format!("  {}{text}", chart::bars(&parts));
    std::iter::once(curve).chain(resident).collect()
}

/// When the peak was, as a share of the run.
fn peak_share(process: &Process) -> f64 {
    match process.duration_us {
        0 => 0.0,
        ran => (process.totals.peak_time_us as f64 / ran as f64).min(1.0),
    }
}

/// Two lines: the live bytes as bars of so many columns, and an axis on which the peak is
/// marked. `None` if nothing was ever live.
pub(crate) fn peak_curve(process: &Process, count: usize) -> Option<String> {
    let values = chart::of_process(process, count)?;
    if values.iter().all(|&value| value == 0) {
        return None;
    }
    let at = ((peak_share(process) * count as f64) as usize).min(count.saturating_sub(1));
    let mark = |column| if column == at { '▲' } else { '─' };
    let axis: String = (0..count).map(mark).collect();
    let room = BEFORE_CURVE - 2;
    Some(format!(
        "{:>room$} ┤{}\n{:>room$} └{axis}",
        bytes(process.totals.peak_bytes),
        chart::bars(&values).trim_end(),
        0
    ))
}

/// The findings, in at most so many lines.
fn standing_out(
    screen: &Screen<'_>,
    found: &[&Finding],
    many_processes: bool,
    room: usize,
    options: &TextOptions,
) -> Vec<String> {
    let style = options.style;
    let width = style.columns();
    let mut lines = vec![String::new()];
    if found.is_empty() {
        lines.push(format!(
            "{} nothing.",
            style.paint(Role::Title, "What stands out:")
        ));
        return lines;
    }
    lines.push(style.paint(Role::Title, "What stands out"));
    let limited = screen.top.is_none();
    let mut shown = 0;
    for finding in found.iter().take(screen.top.unwrap_or(FINDINGS)) {
        let is_first = shown == 0;
        // One line is left for those that are not shown.
        let left = room.saturating_sub(lines.len() + usize::from(found.len() > 1));
        let detail = match is_first {
            true if limited => Detail::Lines(left),
            true => Detail::Full,
            false => Detail::None,
        };
        let next = finding_lines(screen, finding, detail, many_processes, options);
        // Its number is its index in the list of all findings.
        if lines.len() + next.len() > room && !is_first {
            break;
        }
        lines.extend(next);
        shown += 1;
    }
    let rest = found.len() - shown;
    if rest > 0 && lines.len() <= room {
        let more = |trace: &str| format!(" … {} more: allotrope show {trace}", count(rest as u64));
        let text = more(&screen.trace);
        lines.push(match columns(&text) <= width {
            true => text,
            // The last line has its name in full.
            false => cut(&more("FILE"), width),
        });
    }
    lines
}

/// What held the memory at the peak, or at the end if only that is wanted, by function.
struct Held<'a> {
    title: &'static str,
    metric: Metric,
    /// The largest first.
    groups: Vec<Group<'a>>,
    /// The function below which most of it was allocated, in a line.
    common: Option<String>,
}

impl<'a> Held<'a> {
    fn of(
        screen: &Screen<'a>,
        shown: &[&'a Process],
        selected: &Selected,
        options: &TextOptions,
    ) -> Self {
        let profile = screen.attributed.profile;
        let of_shown = shown.iter().copied();
        let mut groups = groups_of(
            profile,
            of_shown,
            &screen.attributed.headlines,
            Grouping::Function,
            &|site| selected.has(site.number),
        );
        let has = |metric| groups.iter().any(|group| group.value(metric)[0] > 0);
        let is_one = shown.len() == 1;
        let (metric, title) = match options.blocks {
            Blocks::Leaked => (Metric::LeakedBytes, "Leaked, by function"),
            // What is selected may have been freed before.
            _ if selected.numbers.is_some() && !has(Metric::PeakBytes) => {
                (Metric::Bytes, "Allocated, not live at the peak")
            }
            _ if is_one => (Metric::PeakBytes, "Held at the peak, by function"),
            _ => (Metric::PeakBytes, "Held at the peaks, by function"),
        };
        groups.retain(|group| group.value(metric)[0] > 0);
        groups.sort_by_key(|group| Reverse(group.value(metric)));
        let common = match shown {
            [one] if metric == Metric::PeakBytes && selected.numbers.is_none() => {
                common_caller(profile, one, &screen.attributed.headlines)
            }
            _ => None,
        };
        let common = common.and_then(|common| {
            let frame = profile.frames.get(common.frame as usize)?;
            let before = format!("  {:.0} % of it was allocated below ", common.share * 100.0);
            Some(frames::line(profile, frame, &before, options.style))
        });
        Self {
            title,
            metric,
            groups,
            common,
        }
    }

    /// The lines that it takes at least, besides a blank one and the title.
    fn least(&self) -> usize {
        MIN_FUNCTIONS.min(self.groups.len() + usize::from(self.common.is_some()))
    }

    /// Its lines: at most so many, besides a blank one and the title.
    fn lines(
        &self,
        screen: &Screen<'_>,
        selected: &Selected,
        room: usize,
        options: &TextOptions,
    ) -> Vec<String> {
        let (all, metric) = (&self.groups, self.metric);
        if all.is_empty() {
            return match options.blocks {
                Blocks::Leaked => vec![String::new(), "Nothing leaked.".to_owned()],
                _ => Vec::new(),
            };
        }
        let profile = screen.attributed.profile;
        let whole: u64 = all.iter().map(|group| group.value(metric)[0]).sum();
        let room = room.saturating_sub(usize::from(self.common.is_some()));
        let mut lines = vec![String::new()];
        let top: Vec<&Group<'_>> = all.iter().take(room).collect();
        let of_table = by::rows(profile, self.title, &top, metric, whole, options);
        let mut of_table = of_table.into_iter();
        lines.extend(of_table.next());
        for (group, line) in top.iter().zip(of_table) {
            lines.push(line);
            lines.extend(details(screen, group, options));
        }
        let rest = all.len() - top.len();
        if rest > 0 && selected.numbers.is_some() {
            let value: u64 = all[top.len()..].iter().map(|it| it.value(metric)[0]).sum();
            lines.push(format!(
                "  … {} more with {}",
                count(rest as u64),
                bytes(value)
            ));
        }
        lines.extend(self.common.clone());
        lines
    }
}

/// Below a function: the code of its line and, with all frames, the stack of its largest site.
fn details(screen: &Screen<'_>, group: &Group<'_>, options: &TextOptions) -> Vec<String> {
    let mut lines: Vec<String> = code(group.frame, "    ", options).into_iter().collect();
    let largest = group
        .sites
        .iter()
        .max_by_key(|(_, site)| (site.bytes_at_peak, site.leaked_bytes));
    if let Some((_, site)) = largest.filter(|_| options.all_frames) {
        lines.extend(stack(screen, site, options));
    }
    lines
}

/// A line about the windows of the program, if it opened any.
fn windows(shown: &[&Process], width: usize) -> Option<String> {
    let mut names: Vec<(&str, u64)> = Vec::new();
    for run in shown.iter().flat_map(|process| &process.windows) {
        match names.iter_mut().find(|(name, _)| *name == run.name) {
            Some((_, runs)) => *runs += 1,
            None => names.push((&run.name, 1)),
        }
    }
    if names.is_empty() {
        return None;
    }
    let names = names.iter().map(|(name, runs)| match runs {
        1 => clean(name),
        many => format!("{} ×{}", clean(name), count(*many)),
    });
    let names: Vec<String> = names.take(10).collect();
    Some(cut(
        &format!("windows (--window NAME): {}", names.join(", ")),
        width,
    ))
}

/// What else there is to ask: options of `report` as many as fit, and a command to paste, which is
/// never cut.
fn footer(
    screen: &Screen<'_>,
    shown: &[&Process],
    first: Option<&Finding>,
    options: &TextOptions,
) -> Vec<String> {
    const LISTS: &str = "--lists";
    let trace = &screen.trace;
    let largest = shown.iter().max_by_key(|it| it.totals.peak_bytes);
    let mut more: Vec<String> = match largest {
        Some(largest) if shown.len() > 1 => {
            vec![
                format!("--process {}", largest.id),
                "--by process".to_owned(),
                LISTS.to_owned(),
            ]
        }
        _ => [LISTS, "--by module", "--tree"].map(str::to_owned).to_vec(),
    };
    let next = match first.and_then(|first| number(screen, first)) {
        None => {
            more.retain(|it| it != LISTS);
            format!("next: allotrope report {trace} {LISTS}")
        }
        Some(number) => match options.process {
            // Only what is shown of several.
            Some(id) if screen.attributed.profile.processes.len() > 1 => {
                format!("next: allotrope show {trace} {number} --process {id}")
            }
            _ => format!("next: allotrope show {trace} {number}"),
        },
    };
    let width = options.style.columns();
    // As many options as fit the line.
    let line = |options: usize| format!("more: report {}", more[..options].join(" · "));
    let fitting = (1..=more.len()).rev().map(line);
    let mut fitting = fitting.filter(|line| columns(line) <= width);
    let more = fitting.next().unwrap_or_else(|| cut(&line(1), width));
    vec![more, next]
}

/// The lines of a terminal that these lines take.
fn rows(lines: &[String], width: usize) -> usize {
    let rows = lines.iter().map(|it| columns(it).div_ceil(width).max(1));
    rows.sum()
}
