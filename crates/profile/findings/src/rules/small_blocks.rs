//! Many small blocks, which the allocator rounds up.
//!
//! It speaks about a family if at least 2,000 of its blocks are live at the peak, their mean size is at
//! most 48 bytes and the largest has 128, without the sites that have less than 1 % of them (a table that
//! holds the others), and their rounding and headers are at least 4 % of the peak and 64 KiB.
//!
//! glibc gives a request of `s` bytes a chunk of `max(32, (s + 8 + 15) & !15)` bytes
//! (malloc.c, `request2size`, 64 bits). Other allocators have other classes, so it is
//! silent if the process has another one, or reports blocks of its own.

use allotrope_profile::Site;
use allotrope_text::numbers::{bytes as in_bytes, count};
use allotrope_trace::model::EntryPoint;

use crate::candidate::Candidate;
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::finding::Value::{Bytes, Count, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, percent, ratio, share};
use crate::tried::Trials;

/// Blocks that are allocated at once instead.
const OF_SLAB: u64 = 4096;
/// Largest mean size, and largest size of all.
const SMALL: u64 = 48;
const LARGEST: u64 = 128;
/// Least part of the blocks that are of one site.
const MIN_OF_BLOCKS: f64 = 0.01;
const MIN_BLOCKS: u64 = 2_000;
const MIN_SHARE: f64 = 0.04;
const MIN_BYTES: u64 = 64 << 10;
/// Parts of the names of modules that are other allocators.
const OTHER_ALLOCATORS: &[&str] = &["jemalloc", "mimalloc", "tcmalloc", "snmalloc", "musl"];
/// Prefixes of functions that are other allocators' in the program itself.
const LINKED_ALLOCATORS: &[&str] = &["mi_", "_mi_", "je_", "_rjem_", "tc_"];

/// The size of glibc's chunk for a request.
fn chunk(request: u64) -> u64 {
    ((request + 8 + 15) & !15).max(32)
}

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    let is_possible = trials.process(|conditions| {
        conditions.fact("glibc", "all blocks are glibc's", is_glibc(context))
    });
    if !is_possible {
        return Vec::new();
    }
    trials.groups(
        &context.families,
        |group| group.peak_blocks,
        |group, conditions| of_group(context, group, conditions),
    )
}

/// Whether all blocks are glibc's.
fn is_glibc(context: &Context<'_>) -> bool {
    let entries = &context.process.entries;
    let others = |entry: EntryPoint| entry as usize >= EntryPoint::Mallocx as usize;
    if entries.iter().any(|totals| others(totals.entry)) {
        return false;
    }
    let mut modules = context.profile.modules.iter().map(|module| module.name());
    let mut glibc = false;
    let other = modules.any(|name| {
        glibc |= name == "libc.so.6";
        OTHER_ALLOCATORS.iter().any(|it| name.contains(it))
    });
    let mut frames = context.profile.frames.iter();
    glibc
        && !other
        && !frames.any(|frame| {
            LINKED_ALLOCATORS
                .iter()
                .any(|prefix| frame.function.starts_with(prefix))
        })
}

fn of_group(
    context: &Context<'_>,
    group: &Group,
    conditions: &mut Conditions,
) -> Option<Candidate> {
    conditions.at_least(
        "peak_blocks",
        "blocks live at the peak",
        Count(group.peak_blocks),
        Count(MIN_BLOCKS),
    )?;
    // Without the few blocks that hold the others, such as a table.
    let many = |&site: &u32| {
        ratio(context.site(site).allocations_at_peak, group.peak_blocks) >= MIN_OF_BLOCKS
    };
    let small = context.group(group.sites.iter().copied().filter(many));
    let mean = |blocks: u64, bytes: u64| bytes / blocks.max(1);
    conditions.at_most(
        "mean_bytes",
        "mean size",
        Bytes(mean(small.peak_blocks, small.peak_bytes)),
        Bytes(SMALL),
    )?;
    conditions.at_most(
        "largest_bytes",
        "largest size",
        Bytes(small.largest),
        Bytes(LARGEST),
    )?;
    let lost = small.sites.iter().map(|&site| {
        let site = context.site(site);
        let size = mean(site.allocations_at_peak, site.bytes_at_peak);
        site.allocations_at_peak * (chunk(size) - size)
    });
    let lost: u64 = lost.sum();
    let of_peak = ratio(lost, context.peak_bytes());
    conditions.at_least(
        "small_blocks",
        "blocks live at the peak, without stacks that have few of them",
        Count(small.peak_blocks),
        Count(MIN_BLOCKS),
    )?;
    conditions.at_least(
        "rounding_bytes",
        "glibc's rounding and headers",
        Bytes(lost),
        Bytes(MIN_BYTES),
    )?;
    conditions.at_least(
        "rounding_of_peak",
        "rounding and headers, of the peak",
        Share(of_peak),
        Share(MIN_SHARE),
    )?;
    if !conditions.hold() {
        return None;
    }
    let weight = |site: &Site| site.allocations_at_peak;
    let frame = context.frame(&small.sites, weight);
    let sizes = match small.smallest == small.largest {
        true => in_bytes(small.largest),
        false => format!(
            "{} to {}",
            in_bytes(small.smallest),
            in_bytes(small.largest)
        ),
    };
    let text = format!(
        "{} blocks of {} ({sizes} each) are live at the peak. glibc's malloc rounds them up \
         to {} at least, so they take {} more than was asked for{}.",
        count(small.peak_blocks),
        context.function_name(frame),
        in_bytes(chunk(small.smallest)),
        in_bytes(lost),
        context.called_by(&small.sites, weight),
    );
    let (function, also) = context.functions(frame, &group.sites);
    let finding = Finding {
        rule: Rule::SmallBlocks,
        severity: Severity::Hint,
        title: "many small blocks".to_owned(),
        measure: format!(
            "{} of rounding, {} of the peak",
            in_bytes(lost),
            percent(of_peak)
        ),
        text,
        advice: "Allocate many at once: an array, an arena, or a container that holds its \
                 elements in place."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&small.sites, weight),
        parts: Vec::new(),
        numbers: vec![
            blocks("peak_blocks", small.peak_blocks),
            blocks("peak_blocks_threshold", MIN_BLOCKS),
            bytes("size_bytes", small.largest),
            bytes("size_bytes_threshold", SMALL),
            bytes("rounding_bytes", lost),
            share("rounding_of_peak", of_peak),
            share("rounding_of_peak_threshold", MIN_SHARE),
        ],
        mended: Some(
            context.with_fewer_allocations(small.allocations - small.allocations / OF_SLAB),
        ),
    };
    Some(Candidate {
        finding,
        function,
        also,
        weak: false,
        stake: of_peak,
        tried: None,
    })
}

#[cfg(test)]
mod tests {
    use super::chunk;

    #[test]
    fn chunks_are_those_of_glibc() {
        // As malloc_usable_size(3) + 8 on Debian 12.
        for (request, expected) in [
            (0, 32),
            (1, 32),
            (24, 32),
            (25, 48),
            (40, 48),
            (41, 64),
            (64, 80),
        ] {
            assert_eq!(chunk(request), expected, "{request}");
        }
    }
}
