//! A finding, a site or a function in full: what it allocated and when, in which sizes, by
//! which threads, for how long, and from where.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_attribution::{Attributed, BlockTypes, Headlines};
use allotrope_findings::Finding;
use allotrope_profile::{Process, Profile, Site};
use allotrope_text::document::write_lines;
use allotrope_text::{Role, TextWriter, cut, cut_middle};
use allotrope_trace::model::{ImageId, StackId};

use crate::block_figures::BlockFigures;
use crate::numbers::{bytes, count, duration, share};
use crate::reachability;
use crate::shorten::clean;
use crate::text::frames::{self, stacks, write_frames};
use crate::text::{Screen, TextOptions, chart, freed_at, row_details};

/// Most sizes and threads.
const MAX: usize = 6;

/// What is shown in full.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// What it is: `site 7`, a function's name.
    pub title: String,
    /// The finding, if it is one.
    pub finding: Option<&'a Finding>,
    /// The numbers of its sites.
    pub sites: Vec<u32>,
    /// A command that shows more, or what to do next.
    pub next: String,
}

impl Subject<'_> {
    /// The sites (image, stack id), whose single blocks are wanted.
    pub fn blocks_of(&self, profile: &Profile) -> Vec<(ImageId, StackId)> {
        let sites = self.sites.iter().filter_map(|&number| profile.site(number));
        sites
            .map(|(process, site)| (process.id, site.stack_id))
            .collect()
    }
}

/// Writes a subject with the figures of its blocks.
pub fn write_subject(
    screen: &Screen<'_>,
    subject: &Subject<'_>,
    blocks: &BlockFigures,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Attributed { profile, headlines } = screen.attributed;
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let style = options.style;
    let width = style.columns();
    let title = style.paint(Role::Title, &cut_middle(&clean(&subject.title), width));
    writeln!(out, "{title}")?;
    if let Some(finding) = subject.finding {
        write_finding(profile, finding, options, &mut out)?;
    }
    let mut sites: Vec<(&Process, &Site)> = subject
        .sites
        .iter()
        .filter_map(|&number| profile.site(number))
        .collect();
    if sites.is_empty() {
        writeln!(out, "\nIt has no allocations of its own.")?;
        return out.flush();
    }
    sites.sort_by_key(|(_, site)| {
        let held = (site.bytes_at_peak, site.leaked_bytes, site.allocated_bytes);
        (Reverse(held), site.number)
    });
    writeln!(out)?;
    let figures = figures(profile, &sites, blocks);
    write_lines(&mut out, style.terms(&figures))?;
    write_curve(&sites, width, &mut out)?;
    let title = format!("Allocated at {}", stacks(sites.len()));
    writeln!(out, "\n{}", style.paint(Role::Title, &title))?;
    for (_, site) in sites.iter().take(options.top) {
        write_stack(profile, site, headlines, options, &mut out)?;
    }
    if let Some(rest) = sites.get(options.top..).filter(|rest| !rest.is_empty()) {
        let text = format!("  … {} (--top N shows more)", stacks(rest.len()));
        writeln!(out, "{text}")?;
    }
    let of_sites = sites.iter().copied();
    freed_at::write(profile, of_sites, headlines, options.top, options, &mut out)?;
    super::write_source_warnings(options, &mut out)?;
    if !subject.next.is_empty() {
        writeln!(out, "\nnext: {}", subject.next)?;
    }
    out.flush()
}

fn write_finding(
    profile: &Profile,
    finding: &Finding,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let frame = finding.frame;
    let frame = frame.and_then(|index| profile.frames.get(index as usize));
    if let Some(frame) = frame {
        writeln!(out, "{}", frames::line(profile, frame, "  ", style))?;
    }
    write_lines(out, style.fitted(&finding.text, ["  ", "  "], Role::Plain))?;
    if finding.advice.is_empty() {
        return Ok(());
    }
    let advice = style.fitted(&finding.advice, ["  → ", "    "], Role::Plain);
    write_lines(out, advice)
}

/// Words and texts about all sites together.
fn figures(
    profile: &Profile,
    sites: &[(&Process, &Site)],
    blocks: &BlockFigures,
) -> Vec<(&'static str, String)> {
    let sum = |of: fn(&Site) -> u64| {
        sites
            .iter()
            .map(|(_, site)| of(site))
            .fold(0, u64::saturating_add)
    };
    let mut processes: Vec<&Process> = sites.iter().map(|(process, _)| *process).collect();
    processes.dedup_by_key(|process| process.id);
    processes.sort_by_key(|process| process.id);
    processes.dedup_by_key(|process| process.id);
    let of_all = |of: fn(&Process) -> u64| {
        processes
            .iter()
            .map(|it| of(it))
            .fold(0, u64::saturating_add)
    };
    let allocated = sum(|site| site.allocated_bytes);
    let at_peak = sum(|site| site.bytes_at_peak);
    let mut all = vec![
        (
            "allocated",
            format!(
                "{} blocks, {} ({} of all bytes)",
                count(sum(|site| site.allocations)),
                bytes(allocated),
                share(allocated, of_all(|it| it.totals.allocated_bytes)),
            ),
        ),
        (
            "at the peak",
            format!(
                "{} blocks, {} ({} of it)",
                count(sum(|site| site.allocations_at_peak)),
                bytes(at_peak),
                share(at_peak, of_all(|it| it.totals.peak_bytes)),
            ),
        ),
        (
            "at the end",
            format!(
                "{} blocks, {}",
                count(sum(|site| site.leaked_allocations)),
                bytes(sum(|site| site.leaked_bytes)),
            ),
        ),
        ("temporary", count(sum(|site| site.temporary_allocations))),
    ];
    let of_sites = sites.iter().copied();
    all.extend(reachability::of_sites(of_sites).map(|text| ("at exit", text)));
    let types = BlockTypes::new(profile);
    let names = row_details::type_names(&types, sites.iter().map(|(_, site)| *site));
    all.extend(names.map(|names| ("types", names)));
    if blocks.blocks() > 0 {
        all.push(("sizes", sizes(blocks)));
        all.push(("threads", threads(profile, blocks)));
    }
    let ran = processes.iter().map(|process| process.duration_us).max();
    all.push(("lifetimes", lifetimes(blocks, ran.unwrap_or(0))));
    if (sites.iter()).any(|(_, site)| freed_at::is_missing(profile, site)) {
        all.push(("freed at", freed_at::NOT_RECORDED.to_owned()));
    }
    if processes.len() > 1 {
        let ids: Vec<String> = processes
            .iter()
            .take(MAX)
            .map(|it| it.id.to_string())
            .collect();
        let more = if processes.len() > MAX { ", …" } else { "" };
        all.push(("processes", format!("{}{more}", ids.join(", "))));
    }
    all
}

fn sizes(blocks: &BlockFigures) -> String {
    let sizes = blocks.sizes();
    let mut shown: Vec<String> = sizes
        .iter()
        .take(MAX)
        .map(|&(size, number)| format!("{} B ×{}", count(size), count(number)))
        .collect();
    let rest = sizes.len().saturating_sub(MAX);
    if rest > 0 {
        shown.push(format!("… {} more sizes", count(rest as u64)));
    }
    shown.join(", ")
}

fn threads(profile: &Profile, blocks: &BlockFigures) -> String {
    let threads = blocks.threads();
    let mut shown: Vec<String> = threads
        .iter()
        .take(MAX)
        .map(|&((image, index), number)| {
            let process = profile.processes.iter().find(|it| it.id == image);
            let thread = process.and_then(|process| process.threads.get(index as usize));
            let thread = match thread {
                Some(thread) if !thread.name.is_empty() => {
                    format!("{} {}", thread.tid, clean(&thread.name))
                }
                Some(thread) => thread.tid.to_string(),
                None => "unknown".to_owned(),
            };
            format!("{thread} ({})", share(number, blocks.blocks()))
        })
        .collect();
    let rest = threads.len().saturating_sub(MAX);
    if rest > 0 {
        shown.push(format!("… {} more", count(rest as u64)));
    }
    shown.join(", ")
}

/// How long the blocks lived, as times and as shares of the run.
fn lifetimes(blocks: &BlockFigures, ran_us: u64) -> String {
    let time = |ns: u64| {
        let part = ns as f64 / 1e3 * 100.0 / (ran_us.max(1) as f64);
        let part = match part {
            small if small < 0.1 => "< 0.1".to_owned(),
            part => format!("{part:.1}"),
        };
        format!("{} ({part} % of the run)", duration(ns as f64 / 1e3))
    };
    let quantiles = [blocks.lifetime_quantile(0.5), blocks.lifetime_quantile(0.9)];
    let freed = match quantiles {
        [Some(half), Some(most)] => format!(
            "half of the {} freed ones within {}, 9 of 10 within {}",
            count(blocks.freed()),
            time(half),
            time(most)
        ),
        _ => "none was freed".to_owned(),
    };
    match blocks.live() {
        0 => freed,
        live => format!("{freed}; {} leaked", count(live)),
    }
}

/// The live bytes of the sites over the time of the process with the most of them.
fn write_curve(sites: &[(&Process, &Site)], width: usize, out: &mut dyn Write) -> io::Result<()> {
    const BEFORE: usize = 12;
    let Some(&(process, _)) = sites.first() else {
        return Ok(());
    };
    let of_process = sites.iter().filter(|(other, _)| other.id == process.id);
    let of_process = of_process.map(|(_, site)| *site);
    let count = width.saturating_sub(BEFORE + 1).min(120);
    let Some(values) = chart::of_sites(process, of_process, count) else {
        return Ok(());
    };
    let most = values.iter().copied().max().unwrap_or(0);
    let room = BEFORE - 2;
    writeln!(
        out,
        "\n{:>room$} ┤{}",
        bytes(most),
        chart::bars(&values).trim_end()
    )?;
    writeln!(out, "{:>room$} └{}", 0, "─".repeat(count))?;
    let ran = duration(process.duration_us as f64);
    writeln!(out, "{:>BEFORE$}{:>count$}", "0 s", ran, count = count)
}

fn write_stack(
    profile: &Profile,
    site: &Site,
    headlines: &Headlines,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let width = options.style.columns();
    let head = format!(
        "  site {}: {} blocks, {}; {} at the peak",
        site.number,
        count(site.allocations),
        bytes(site.allocated_bytes),
        bytes(site.bytes_at_peak)
    );
    writeln!(out, "{}", cut(&head, width))?;
    let heads = [headlines.headline(site), headlines.first_shown(site)];
    write_frames(profile, &site.stack, heads, options, out)
}
