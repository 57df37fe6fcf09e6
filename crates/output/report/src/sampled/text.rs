//! A sampled profile as text for people.

use std::io::{self, Write};

use allotrope_attribution::{Glue, Origin};
use allotrope_profile::sampled::{Figures, SampledFigures, SampledProfile};
use allotrope_profile::warnings::sampled_warnings;
use allotrope_profile::{Metric, StackFrame, StackSet, command_text};
use allotrope_text::TextWriter;

use super::rows::{SiteRow, rows};
use super::wording::{interval, value, words};
use crate::numbers::{count, duration};
use crate::shorten::wrap;
use allotrope_text::{Role, Style};

/// Most frames of a stack that are shown unless all are wanted.
const MAX_FRAMES: usize = 8;

/// What the text shows.
#[derive(Debug, Clone)]
pub struct SampledTextOptions {
    /// Width and colours.
    pub style: Style,
    /// By which metric sites are ranked; one that samples give.
    pub metric: Metric,
    /// Most sites.
    pub top: usize,
    /// Show the frames of allocators and standard libraries, too, and whole stacks.
    pub all_frames: bool,
    /// The frames that are not the user's own.
    pub glue: Glue,
}

/// Columns before the figures of a set of blocks.
const INDENT: usize = 13;

struct Text<'a> {
    profile: &'a SampledProfile,
    set: StackSet,
    options: &'a SampledTextOptions,
}

/// Writes the totals and the sites with the largest estimates.
pub fn write(
    profile: &SampledProfile,
    options: &SampledTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let text = Text::new(profile, options);
    text.header(&mut out)?;
    let rows = rows(profile, options.metric);
    text.sites(&rows, &mut out)?;
    out.flush()
}

/// Writes these rows in full.
pub fn write_rows(
    profile: &SampledProfile,
    rows: &[SiteRow<'_>],
    options: &SampledTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let text = Text::new(profile, options);
    for (index, row) in rows.iter().take(options.top).enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let title = format!("Site {}", row.number);
        text.line(Role::Title, &title, &mut out)?;
        text.figures(&row.figures, &mut out)?;
        let pids: Vec<String> = row.processes.iter().map(|it| it.pid.to_string()).collect();
        text.wrapped(&format!("in process {}", pids.join(", ")), 2, &mut out)?;
        text.stack(row, &mut out)?;
    }
    text.rest(rows.len(), &mut out)?;
    out.flush()
}

impl<'a> Text<'a> {
    fn new(profile: &'a SampledProfile, options: &'a SampledTextOptions) -> Self {
        Self {
            profile,
            set: profile.stack_set().0,
            options,
        }
    }

    fn line(&self, role: Role, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let columns = self.options.style.columns();
        let short: String = text.chars().take(columns).collect();
        writeln!(out, "{}", self.options.style.paint(role, &short))
    }

    fn wrapped(&self, text: &str, indent: usize, out: &mut dyn Write) -> io::Result<()> {
        let room = self.options.style.columns().saturating_sub(indent);
        for line in wrap(text, room) {
            writeln!(out, "{:indent$}{line}", "")?;
        }
        Ok(())
    }

    fn header(&self, out: &mut dyn Write) -> io::Result<()> {
        let recorded = &self.profile.profile;
        let command = command_text(&recorded.recording.command);
        self.line(Role::Title, &allotrope_text::shown(&command), out)?;
        let longest = recorded.processes.iter().map(|it| it.duration_us).max();
        let processes = match &recorded.processes[..] {
            [one] => format!("process {}", one.pid),
            many => format!("{} processes", count(many.len() as u64)),
        };
        let since = duration(longest.unwrap_or(0) as f64);
        let line = format!(
            "{processes}, watched for {since}; sampled: {}",
            self.profile.periods()
        );
        self.wrapped(&line, 0, out)?;
        let nameless = sampled_warnings(self.profile);
        for warning in self.profile.warnings().into_iter().chain(nameless) {
            let lines = wrap(&format!("warning: {warning}"), self.options.style.columns());
            for line in lines {
                self.line(Role::Warning, &line, out)?;
            }
        }
        writeln!(out)?;
        match self.profile.totals() {
            None => self.wrapped("Sampling was never on: nothing is known.", 0, out)?,
            Some(totals) => {
                self.figures(&totals, out)?;
                let unknown = "from–to: 95 % intervals. Samples do not give the peak, lifetimes, temporary allocations and reallocations.";
                self.wrapped(unknown, 2, out)?;
            }
        }
        Ok(())
    }

    /// Live, allocated and freed: bytes and blocks, a line each.
    fn figures(&self, figures: &SampledFigures, out: &mut dyn Write) -> io::Result<()> {
        let sets: [(&str, &Figures); 3] = [
            ("live", &figures.live),
            ("allocated", &figures.allocated),
            ("freed", &figures.freed),
        ];
        for (name, set) in sets {
            let (bytes, blocks) = (set.bytes(), figures.blocks(set));
            let line = format!(
                "{} ({}) in {} blocks ({}), {} samples",
                value(&bytes, Metric::Bytes),
                interval(&bytes, Metric::Bytes),
                value(&blocks, Metric::Allocations),
                interval(&blocks, Metric::Allocations),
                count(set.samples()),
            );
            let room = self.options.style.columns().saturating_sub(INDENT);
            for (index, line) in wrap(&line, room).iter().enumerate() {
                let name = if index == 0 { name } else { "" };
                writeln!(out, "  {name:<9}  {line}")?;
            }
        }
        Ok(())
    }

    fn sites(&self, rows: &[SiteRow<'_>], out: &mut dyn Write) -> io::Result<()> {
        let metric = self.options.metric;
        let is_there = |row: &&SiteRow<'_>| {
            let estimate = row.figures.metric(metric);
            estimate.is_some_and(|it| it.value > 0.0)
        };
        let rows: Vec<&SiteRow<'_>> = rows.iter().filter(is_there).collect();
        writeln!(out)?;
        let title = format!("Stacks by {}", words(metric));
        self.line(Role::Title, &title, out)?;
        if rows.is_empty() {
            writeln!(out, "  none was sampled")?;
        }
        for row in rows.iter().take(self.options.top) {
            let Some(estimate) = row.figures.metric(metric) else {
                continue;
            };
            let line = format!(
                "{:>4}  {} ({})",
                row.number,
                value(&estimate, metric),
                interval(&estimate, metric)
            );
            self.line(Role::Title, &line, out)?;
            self.stack(row, out)?;
        }
        self.rest(rows.len(), out)
    }

    fn rest(&self, rows: usize, out: &mut dyn Write) -> io::Result<()> {
        match rows.saturating_sub(self.options.top) {
            0 => Ok(()),
            rest => {
                let line = format!("  … {} more; --top shows them", count(rest as u64));
                self.line(Role::Location, &line, out)
            }
        }
    }

    /// The frames, innermost first: those of allocators and runtimes are left out, unless
    /// there are no others.
    fn stack(&self, row: &SiteRow<'_>, out: &mut dyn Write) -> io::Result<()> {
        let frames = row.stack.iter();
        let frames = frames.filter_map(|&index| self.set.frames.get(index as usize));
        let all: Vec<&StackFrame> = frames.collect();
        let is_own = |frame: &&&StackFrame| self.options.glue.origin_of(frame) != Origin::Glue;
        let own: Vec<&StackFrame> = all.iter().filter(is_own).copied().collect();
        let shown = match self.options.all_frames || own.is_empty() {
            true => &all,
            false => &own,
        };
        let most = match self.options.all_frames {
            true => usize::MAX,
            false => MAX_FRAMES,
        };
        if shown.is_empty() {
            self.line(Role::Location, "        [no stack]", out)?;
        }
        for frame in shown.iter().take(most) {
            let place = match (&*frame.file, frame.line) {
                ("", _) => frame.module.to_string(),
                (file, 0) => file.to_owned(),
                (file, line) => format!("{file}:{line}"),
            };
            let line = format!("        {}  {place}", frame.function);
            self.line(Role::Function, &allotrope_text::shown(&line), out)?;
        }
        match shown.len().saturating_sub(most) {
            0 => Ok(()),
            rest => {
                let line = format!("        … {rest} more frames; --all-frames shows them");
                self.line(Role::Location, &line, out)
            }
        }
    }
}
