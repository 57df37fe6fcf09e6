//! Stacks that another tool wrote, as text. They have sums of some metrics, and neither times nor
//! processes; what a file does not have is named, and is shown nowhere as 0.

use std::io::{self, Write};

use allotrope_attribution::Attributed;
use allotrope_profile::{Metric, Site};
use allotrope_text::document::write_lines;
use allotrope_text::{Role, TextWriter, cut_middle};

use crate::groups::Grouping;
use crate::selection::{LISTED, rows};
use crate::shorten::clean;
use crate::text::frames::{stacks, write_frames};
use crate::text::{TextOptions, amount, by, lists, tree};

/// Stacks of a file that another tool wrote.
#[derive(Clone, Copy)]
pub struct Imported<'a> {
    /// The stacks as a profile, see [`StackSet::to_profile`](allotrope_profile::StackSet::to_profile).
    pub attributed: &'a Attributed<'a>,
    /// The program's command or the title that the file has; may be empty.
    pub title: &'a str,
    /// The name of the file.
    pub file: &'a str,
    /// The name of its format.
    pub format: &'a str,
}

impl Imported<'_> {
    fn head(&self, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
        let style = options.style;
        if !self.title.is_empty() {
            let title = cut_middle(&clean(self.title), style.columns());
            writeln!(out, "{}", style.paint(Role::Title, &title))?;
        }
        let from = format!("{} in {}", self.format, clean(self.file));
        write_lines(out, style.fitted(&from, ["", ""], Role::Plain))
    }

    /// What the file has and what it lacks.
    fn totals(&self, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
        let sites = self.attributed.profile.processes.iter();
        let sites: Vec<&Site> = sites.flat_map(|process| &process.sites).collect();
        let (known, unknown): (Vec<Metric>, Vec<Metric>) =
            (Metric::OF_STACKS.into_iter()).partition(|&metric| options.known.has(metric));
        let known: Vec<(&str, String)> = known.iter().map(|&it| figure(it, &sites)).collect();
        writeln!(out)?;
        write_lines(out, options.style.terms(&known))?;
        let mut lacks: Vec<&str> = Vec::new();
        lacks.extend(unknown.iter().map(|&metric| match metric {
            Metric::Lifetime => "lifetimes",
            other => other.words(),
        }));
        lacks.extend(["times", "threads", "single blocks"]);
        let lacks = format!("not in the file: {}", lacks.join(", "));
        write_lines(
            out,
            options.style.fitted(&lacks, ["  ", "    "], Role::Location),
        )
    }
}

fn figure(metric: Metric, sites: &[&Site]) -> (&'static str, String) {
    let values = sites.iter().map(|site| site.metrics()[metric as usize]);
    let sum = values.fold(0, u64::saturating_add);
    (metric.words(), amount(metric, sum))
}

/// Writes the sums, and lists of stacks by the metrics that are known, or a tree.
///
/// # Errors
/// Those of `out`.
pub fn write_imported(
    imported: &Imported<'_>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let out: &mut dyn Write = &mut out;
    imported.head(options, out)?;
    imported.totals(options, out)?;
    let listed = match options.metric {
        Some(metric) => vec![metric],
        None => listed(options),
    };
    let profile = imported.attributed.profile;
    let rows = rows(imported.attributed, options);
    if let (Some(order), Some(&metric)) = (options.tree, listed.first()) {
        tree::write(profile, &rows, metric, order, options, out)?;
    } else {
        for metric in listed {
            lists::write(profile, &rows, metric, false, options, out)?;
        }
    }
    super::write_source_warnings(options, out)?;
    out.flush()
}

/// Writes the sums, and a list by function or module.
///
/// # Errors
/// Those of `out`.
pub fn write_imported_by(
    imported: &Imported<'_>,
    grouping: Grouping,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    {
        let mut out = TextWriter::new(io::BufWriter::new(&mut *out), options.style.color);
        imported.head(options, &mut out)?;
        imported.totals(options, &mut out)?;
        writeln!(out)?;
        out.flush()?;
    }
    let options = TextOptions {
        metric: options.metric.or_else(|| listed(options).first().copied()),
        ..options.clone()
    };
    by::write_by(imported.attributed, grouping, &options, out)
}

/// Writes the sites with these numbers in full.
///
/// # Errors
/// Those of `out`.
pub fn write_imported_sites(
    imported: &Imported<'_>,
    title: &str,
    numbers: &[u32],
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let style = options.style;
    let title = cut_middle(&clean(title), style.columns());
    writeln!(out, "{}", style.paint(Role::Title, &title))?;
    let Attributed { profile, headlines } = imported.attributed;
    let sites = numbers.iter().filter_map(|&number| profile.site(number));
    let sites: Vec<&Site> = sites.map(|(_, site)| site).collect();
    let known = Metric::OF_STACKS.into_iter();
    let known = known.filter(|&metric| options.known.has(metric));
    let figures: Vec<(&str, String)> = known.clone().map(|it| figure(it, &sites)).collect();
    write_lines(&mut out, style.terms(&figures))?;
    for site in sites.iter().take(options.top) {
        let figures = known.clone().map(|metric| {
            let (words, value) = figure(metric, &[site]);
            format!("{value} {words}")
        });
        let figures: Vec<String> = figures.collect();
        let line = format!("#{}  {}", site.number, figures.join(", "));
        writeln!(out)?;
        write_lines(&mut out, style.fitted(&line, ["  ", "    "], Role::Plain))?;
        let own = headlines.headline(site);
        write_frames(
            profile,
            &site.stack,
            [own, headlines.first_shown(site)],
            options,
            &mut out,
        )?;
    }
    if let Some(rest) = sites.get(options.top..).filter(|rest| !rest.is_empty()) {
        writeln!(out, "  … {} (--top N shows more)", stacks(rest.len()))?;
    }
    super::write_source_warnings(options, &mut out)?;
    out.flush()
}

/// The metrics that have a list: those of a report that are known; all that are known if a report
/// has a list of none of them.
fn listed(options: &TextOptions) -> Vec<Metric> {
    let known = |metrics: &[Metric]| -> Vec<Metric> {
        let metrics = metrics.iter().copied();
        metrics.filter(|&it| options.known.has(it)).collect()
    };
    match known(&LISTED) {
        none if none.is_empty() => known(&Metric::OFFERED),
        listed => listed,
    }
}
