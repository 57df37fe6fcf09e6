//! One site in full: its figures and its whole stack.

use std::collections::BTreeSet;
use std::io::{self, Write};

use allotrope_attribution::{Attributed, BlockTypes};
use allotrope_profile::{Lifetimes, Metric, Profile, Site};
use allotrope_text::document::write_lines;
use allotrope_text::{Role, cut, cut_middle};

use crate::numbers::{bytes, bytes_each, count, count_each, divisor, duration, share};
use crate::reachability;
use crate::selection::{Row, options_of_site, row_of};
use crate::shorten::clean;
use crate::text::{TextOptions, curve, frames, freed_at, row_details};

/// The most stacks of a row that are written.
const MAX: usize = 5;

/// Writes the site with this number, together with the sites of the same row. Returns
/// `false` if there is no such site.
pub fn write_site(
    attributed: &Attributed<'_>,
    number: u32,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let profile = attributed.profile;
    let Some(of_site) = options_of_site(profile, number, options) else {
        return Ok(false);
    };
    let Some(row) = row_of(attributed, number, &of_site) else {
        return Ok(false);
    };
    let style = options.style;
    let alike = match row.sites.len() {
        1 => String::new(),
        many => format!(", {} sites that read alike", count(many as u64)),
    };
    let title = format!(
        "Site #{} in process {}{alike}",
        row.number(),
        row.process.id
    );
    writeln!(
        out,
        "{}",
        style.paint(Role::Title, &cut_middle(&title, style.columns()))
    )?;
    let types = BlockTypes::new(profile);
    let figures = figures(profile, &row, options.per(row.process), &types);
    write_lines(out, style.terms(&figures))?;
    for site in row.sites.iter().take(MAX) {
        write_stack(profile, site, &row, options, out)?;
    }
    if row.sites.len() > MAX {
        writeln!(
            out,
            "\n  … {} more stacks",
            count((row.sites.len() - MAX) as u64)
        )?;
    }
    if profile.recording.free_stacks {
        let sites = row.sites.iter().map(|&site| (row.process, site));
        freed_at::write(profile, sites, &attributed.headlines, MAX, options, out)?;
    }
    super::write_source_warnings(options, out)?;
    Ok(true)
}

fn figures(
    profile: &Profile,
    row: &Row<'_>,
    per: Option<f64>,
    types: &BlockTypes<'_>,
) -> Vec<(&'static str, String)> {
    let figures = &row.figures;
    let rules: BTreeSet<String> = (row.suppressed.iter())
        .map(|(_, rule)| format!("{} in {}", clean(rule.text()), clean(rule.list_in_words())))
        .collect();
    let totals = &row.process.totals;
    let counted = |number, of, of_bytes, whole| {
        let share = share(number, of);
        let bytes_share = crate::numbers::share(of_bytes, whole);
        format!(
            "{} ({share}), {} ({bytes_share})",
            count(number),
            bytes(of_bytes)
        )
    };
    let mut all = vec![
        (
            "allocations",
            counted(
                figures.value(Metric::Allocations),
                totals.allocations,
                figures.value(Metric::Bytes),
                totals.allocated_bytes,
            ),
        ),
        ("temporary", count(figures.value(Metric::Temporary))),
        (
            "leaked",
            format!(
                "{}, {}",
                count(figures.value(Metric::LeakedAllocations)),
                bytes(figures.value(Metric::LeakedBytes))
            ),
        ),
        ("own maximum", maximum(row)),
        (
            "at peak",
            format!(
                "{}, {}",
                count(figures.value(Metric::PeakAllocations)),
                bytes(figures.value(Metric::PeakBytes))
            ),
        ),
    ];
    let sites = row.sites.iter().map(|&site| (row.process, site));
    all.extend(reachability::of_sites(sites).map(|text| ("at exit", text)));
    if let Some(per) = per {
        let [blocks, bytes] = [Metric::Allocations, Metric::Bytes].map(|it| figures.value(it));
        let text = format!(
            "{} with {}, of {}",
            count_each(blocks, per),
            bytes_each(bytes, per),
            divisor(per)
        );
        all.insert(1, ("each", text));
    }
    all.extend(rules.into_iter().map(|rule| ("suppressed", rule)));
    let details = row_details::merged(row);
    all.extend(
        details
            .iter()
            .flat_map(|it| row_details::lines(it, row, types)),
    );
    if (row.sites.iter()).any(|site| freed_at::is_missing(profile, site)) {
        all.push(("freed at", freed_at::NOT_RECORDED.to_owned()));
    }
    all.push((
        "lifetime",
        lifetime(
            &figures.lifetimes,
            details.and_then(|it| it.lifetimes.median_ns(&figures.lifetimes)),
            row.process.duration_us,
        ),
    ));
    all.extend(curve::curve(row).map(|curve| ("over time", curve)));
    all
}

/// The row's own maximum. Several sites have theirs at different times.
fn maximum(row: &Row<'_>) -> String {
    let most = |of: fn(&Site) -> u64| row.sites.iter().map(|site| of(site)).max().unwrap_or(0);
    let text = bytes(most(|site| site.max_bytes));
    match &row.sites[..] {
        [only] => format!("{}, {text}", count(only.max_allocations)),
        _ => format!("{text} in one of them"),
    }
}

/// `median_ns`: if it is known; `run_us`: the duration of the process.
fn lifetime(lifetimes: &Lifetimes, median_ns: Option<u64>, run_us: u64) -> String {
    if lifetimes.blocks == 0 {
        return "unknown".to_owned();
    }
    let mean = lifetimes.mean_us();
    let of_run = match run_us {
        0 => String::new(),
        _ => format!(" ({} of the run)", share(mean as u64, run_us)),
    };
    // Shorter than a line of 80 columns with the median, too.
    let rest = match median_ns {
        Some(median) => format!("median {},", duration(median as f64 / 1e3)),
        None => "from".to_owned(),
    };
    format!(
        "mean {}{of_run}, {rest} {} to {}",
        duration(mean),
        duration(lifetimes.min_ns as f64 / 1e3),
        duration(lifetimes.max_ns as f64 / 1e3)
    )
}

fn write_stack(
    profile: &Profile,
    site: &Site,
    row: &Row<'_>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    writeln!(out)?;
    if row.sites.len() > 1 {
        writeln!(
            out,
            "  #{}: {} allocations",
            site.number,
            count(site.allocations)
        )?;
    }
    let hidden = site.stack.len() - row.stack.len().min(site.stack.len());
    for &index in site.stack.iter().skip(hidden) {
        let Some(frame) = profile.frames.get(index as usize) else {
            continue;
        };
        writeln!(out, "{}", frames::line(profile, frame, "    ", style))?;
        if let Some(code) = options.source.as_ref().and_then(|it| it.line(frame)) {
            writeln!(out, "      │ {}", cut(&code, style.columns() - 8))?;
        }
    }
    if hidden > 0 {
        let frames = if hidden == 1 { "frame" } else { "frames" };
        let line = format!("    ({hidden} inner {frames} of libraries hidden)");
        writeln!(out, "{}", style.paint(Role::Location, &line))?;
    }
    Ok(())
}
