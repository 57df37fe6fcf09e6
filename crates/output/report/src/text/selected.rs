//! The single blocks of a site, a finding or a function as text: a line for each, and below
//! them the stacks that allocated and freed them.

use std::io::{self, Write};

use allotrope_attribution::{Attributed, BlockTypes};
use allotrope_profile::{Block, RunTimes, Site};
use allotrope_text::document::{Table, left, right};
use allotrope_text::{Role, TextWriter, cut, cut_middle};

use crate::free_frames::FreeFrames;
use crate::numbers::{bytes, count, duration};
use crate::selected_blocks::SelectedBlocks;
use crate::shorten::clean;
use crate::text::frames::write_frames;
use crate::text::{TextOptions, freed_at, row_details};

/// Writes the chosen blocks. `title` is what they are blocks of, `range` describes the range of
/// time, if one was chosen.
pub fn write_selected_blocks(
    attributed: &Attributed<'_>,
    title: &str,
    range: Option<&str>,
    selected: &SelectedBlocks,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let style = options.style;
    let Attributed { profile, headlines } = attributed;
    let title = cut_middle(&clean(title), style.columns());
    writeln!(out, "{}", style.paint(Role::Title, &title))?;
    if let Some(range) = range {
        writeln!(out, "{range}")?;
    }
    let chosen = selected.chosen();
    let (blocks, size) = selected.in_range();
    let word = if blocks == 1 { "block" } else { "blocks" };
    let mut head = format!("{} {word}, {}", count(blocks), bytes(size));
    if blocks > 0 {
        head.push_str(&format!("; {}", selected.order.words()));
    }
    writeln!(out, "{head}")?;
    if chosen.is_empty() {
        return out.flush();
    }
    writeln!(out)?;
    let free_frames = FreeFrames::of(profile);
    let mut freed = Stacks::default();
    let mut sites: Vec<&Site> = Vec::new();
    let mut table = Table::new([
        right("allocated after"),
        right("bytes"),
        right("lifetime"),
        right("site"),
        left("freed at"),
        left("thread"),
    ]);
    let started_ns = RunTimes::of(profile).started_ns;
    for block in &chosen {
        let process = profile.processes.iter().find(|it| it.id == block.image);
        let mut of_process = process.iter().flat_map(|process| &process.sites);
        let site = of_process.find(|site| site.stack_id == block.stack);
        if let Some(site) = site
            && sites.iter().all(|it| it.number != site.number)
        {
            sites.push(site);
        }
        let stack = free_frames.as_ref().and_then(|it| it.get(block));
        let freed_at = match (block.lifetime_ns, stack) {
            (None, _) => "leaked".to_owned(),
            (Some(_), Some(stack)) => format!("F{}", freed.number(stack)),
            (Some(_), None) => "not recorded".to_owned(),
        };
        let thread = |index| match process {
            Some(process) => row_details::thread(process, index),
            None => "an unknown thread".to_owned(),
        };
        table.row([
            time(block, started_ns),
            count(block.size),
            block
                .lifetime_ns
                .map_or_else(String::new, |ns| duration(ns as f64 / 1e3)),
            site.map_or_else(String::new, |site| site.number.to_string()),
            freed_at,
            match block.freed_by {
                Some(by) if by != block.thread => {
                    format!("{}, freed by {}", thread(block.thread), thread(by))
                }
                _ => thread(block.thread),
            },
        ]);
    }
    for line in table.lines(style) {
        writeln!(out, "{line}")?;
    }
    let rest = blocks - chosen.len() as u64;
    if rest > 0 {
        writeln!(out, "  … {} more (--top N shows more)", count(rest))?;
    }
    writeln!(out, "\n{}", style.paint(Role::Title, "Allocated at"))?;
    sites.sort_by_key(|site| site.number);
    let types = BlockTypes::new(profile);
    for site in sites {
        let name = types.of(site).map(|name| format!(": {}", clean(name)));
        let head = format!("  site {}{}", site.number, name.unwrap_or_default());
        writeln!(out, "{}", cut(&head, style.columns()))?;
        let heads = [headlines.headline(site), headlines.first_shown(site)];
        write_frames(profile, &site.stack, heads, options, &mut out)?;
    }
    if chosen.iter().any(|block| block.lifetime_ns.is_some()) {
        writeln!(out, "\n{}", style.paint(Role::Title, "Freed at"))?;
        if free_frames.is_none() {
            writeln!(out, "  {}", freed_at::NOT_RECORDED)?;
        }
        for (number, stack) in (1..).zip(&freed.0) {
            writeln!(out, "  F{number}")?;
            let heads = headlines.of_frames(stack);
            write_frames(profile, stack, heads, options, &mut out)?;
        }
    }
    super::write_source_warnings(options, &mut out)?;
    out.flush()
}

/// The time of allocation, since the start of the first process.
fn time(block: &Block, started_ns: u64) -> String {
    let ns = block.allocated_ns.saturating_sub(started_ns);
    format!("{:.6} s", ns as f64 / 1e9)
}

/// Stacks, numbered from 1 in the order in which they are first asked for. Stacks that read
/// alike are one.
#[derive(Default)]
struct Stacks<'a>(Vec<&'a [u32]>);

impl<'a> Stacks<'a> {
    fn number(&mut self, stack: &'a [u32]) -> usize {
        let known = self.0.iter().position(|it| *it == stack);
        known.unwrap_or_else(|| {
            self.0.push(stack);
            self.0.len() - 1
        }) + 1
    }
}
