//! Where the blocks of sites are freed: the stacks of their deallocations, if the recording
//! has them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use allotrope_attribution::Headlines;
use allotrope_profile::{FreePlace, Lifetimes, Process, Profile, Site};
use allotrope_trace::model::ImageId;

use crate::numbers::{bytes, count, duration, share};
use crate::text::frames::{self, write_frames};
use crate::text::{TextOptions, row_details};
use allotrope_text::Role;
use allotrope_text::document::write_lines;

/// The most threads of a stack.
const MAX_THREADS: usize = 3;

/// What a figure says of blocks that were freed in a recording without these stacks.
pub(super) const NOT_RECORDED: &str = "not recorded; record with --free-stacks to see where";

/// Which stack freed blocks: stacks with the same frames are one.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Place<'a> {
    Stack { frames: &'a [u32], by_realloc: bool },
    Others,
    Unknown,
}

/// The blocks that a stack freed.
#[derive(Default)]
struct Blocks {
    bytes: u64,
    lifetimes: Lifetimes,
    threads: BTreeMap<(ImageId, Option<u32>), u64>,
}

/// Writes the stacks that freed the sites' blocks, `most` of them, if the recording has any.
pub(super) fn write<'a>(
    profile: &Profile,
    sites: impl Iterator<Item = (&'a Process, &'a Site)>,
    headlines: &Headlines,
    most: usize,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut places: BTreeMap<Place<'a>, Blocks> = BTreeMap::new();
    let mut processes: BTreeMap<ImageId, &Process> = BTreeMap::new();
    for (process, site) in sites {
        processes.insert(process.id, process);
        let details = site.details.iter();
        for element in details.flat_map(|details| &details.free_stacks) {
            let blocks = places.entry(Place::of(&element.place)).or_default();
            blocks.bytes = blocks.bytes.wrapping_add(element.bytes);
            blocks.lifetimes.merge(&element.lifetimes);
            for thread in &element.threads {
                let key = (process.id, thread.thread);
                *blocks.threads.entry(key).or_default() += thread.blocks;
            }
        }
    }
    if places.is_empty() {
        return Ok(());
    }
    let freed: u64 = places.values().map(|it| it.lifetimes.blocks).sum();
    let mut places: Vec<(Place<'_>, Blocks)> = places.into_iter().collect();
    places.sort_by_key(|(place, blocks)| (!blocks.lifetimes.blocks, *place));
    let stacks = places.iter();
    let stacks = stacks.filter(|(place, _)| matches!(place, Place::Stack { .. }));
    let title = format!("Freed at {}", frames::stacks(stacks.count()));
    let style = options.style;
    writeln!(out, "\n{}", style.paint(Role::Title, &title))?;
    for (place, blocks) in places.iter().take(most) {
        let text = sentence(*place, blocks, freed, &processes);
        write_lines(out, style.fitted(&text, ["  ", "    "], Role::Plain))?;
        if let Place::Stack { frames, .. } = place {
            let heads = headlines.of_frames(frames);
            write_frames(profile, frames, heads, options, out)?;
        }
    }
    let rest = places.get(most..).unwrap_or_default();
    if !rest.is_empty() {
        let blocks: u64 = rest.iter().map(|(_, it)| it.lifetimes.blocks).sum();
        let more = count(rest.len() as u64);
        writeln!(out, "  … {more} more with {} blocks", count(blocks))?;
    }
    Ok(())
}

/// Whether blocks of the site were freed, and the recording does not say where.
pub(super) fn is_missing(profile: &Profile, site: &Site) -> bool {
    !profile.recording.free_stacks && site.allocations > site.leaked_allocations
}

impl<'a> Place<'a> {
    fn of(place: &'a FreePlace) -> Self {
        match place {
            FreePlace::Stack {
                stack,
                reallocation,
                ..
            } => Self::Stack {
                frames: stack,
                by_realloc: *reallocation,
            },
            FreePlace::Others => Self::Others,
            FreePlace::Unknown => Self::Unknown,
        }
    }
}

/// How many blocks were freed there, how old, and by whom.
fn sentence(
    place: Place<'_>,
    blocks: &Blocks,
    freed: u64,
    processes: &BTreeMap<ImageId, &Process>,
) -> String {
    let lifetimes = &blocks.lifetimes;
    let how = match place {
        Place::Stack {
            by_realloc: false, ..
        } => "",
        Place::Stack {
            by_realloc: true, ..
        } => ", by realloc",
        Place::Others => " at the stacks beyond the first 64 of a site",
        Place::Unknown => " at a stack that was not recorded",
    };
    let number = lifetimes.blocks;
    let word = if number == 1 { "block" } else { "blocks" };
    let mut text = format!(
        "{}: {} {word}, {}{how}, after {}",
        share(number, freed),
        count(number),
        bytes(blocks.bytes),
        duration(lifetimes.mean_us()),
    );
    if number > 1 {
        let [least, most] = [lifetimes.min_ns, lifetimes.max_ns];
        let [least, most] = [least, most].map(|ns| duration(ns as f64 / 1e3));
        text.push_str(&format!(" on average ({least} to {most})"));
    }
    let by = threads(blocks, processes);
    if !by.is_empty() {
        text.push_str(&format!(", by {by}"));
    }
    text
}

fn threads(blocks: &Blocks, processes: &BTreeMap<ImageId, &Process>) -> String {
    let mut threads: Vec<_> = blocks.threads.iter().collect();
    threads.sort_by_key(|(key, number)| (!**number, **key));
    let name = |&(image, thread): &(ImageId, Option<u32>)| match (processes.get(&image), thread) {
        (Some(process), Some(index)) => row_details::thread(process, index),
        _ => "others".to_owned(),
    };
    let shown = threads.iter().take(MAX_THREADS);
    let mut shown: Vec<String> = match threads.len() {
        1 => shown.map(|(key, _)| name(key)).collect(),
        _ => shown
            .map(|(key, number)| {
                let part = share(**number, blocks.lifetimes.blocks);
                format!("{} {part}", name(key))
            })
            .collect(),
    };
    if threads.len() > MAX_THREADS {
        shown.push(format!("{} more", threads.len() - MAX_THREADS));
    }
    shown.join(", ")
}
