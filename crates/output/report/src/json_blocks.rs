//! The single blocks of a site, a finding or a function as JSON, `allotrope-blocks/1`.
//! `docs/report-json.md` documents the fields.

use std::io::{self, Write};

use allotrope_profile::{FrameForm, ImageId, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::free_frames::FreeFrames;
use crate::selected_blocks::SelectedBlocks;

#[derive(Serialize)]
struct Form<'a> {
    format: &'static str,
    subject: &'a str,
    order: &'static str,
    from_us: f64,
    to_us: Option<f64>,
    blocks_in_range: u64,
    bytes_in_range: u64,
    free_stacks: bool,
    blocks: Vec<BlockForm>,
    stacks: Vec<Vec<FrameForm<'a>>>,
}

#[derive(Serialize)]
struct BlockForm {
    process: ImageId,
    site: u32,
    allocated_us: f64,
    lifetime_us: Option<f64>,
    bytes: u64,
    address: String,
    allocated_by: u32,
    freed_by: Option<u32>,
    allocated_at: Option<usize>,
    freed_at: Option<usize>,
}

/// Writes the chosen blocks; `subject` is what they are blocks of.
pub fn write_selected_blocks(
    profile: &Profile,
    subject: &str,
    selected: &SelectedBlocks,
    out: &mut dyn Write,
) -> io::Result<()> {
    let us = |ns: u64| ns as f64 / 1e3;
    let free_frames = FreeFrames::of(profile);
    let mut numbers: FxHashMap<&[u32], usize> = FxHashMap::default();
    let mut stacks: Vec<&[u32]> = Vec::new();
    let mut number = |stack| {
        *numbers.entry(stack).or_insert_with(|| {
            stacks.push(stack);
            stacks.len() - 1
        })
    };
    let mut blocks = Vec::new();
    for block in selected.chosen() {
        let process = profile.processes.iter().find(|it| it.id == block.image);
        let tid = |thread: u32| {
            let thread = process.and_then(|it| it.threads.get(thread as usize));
            thread.map_or(0, |thread| thread.tid)
        };
        let mut sites = process.into_iter().flat_map(|process| &process.sites);
        let site = sites.find(|site| site.stack_id == block.stack);
        let freed_at = free_frames.as_ref().and_then(|it| it.get(&block));
        blocks.push(BlockForm {
            process: block.image,
            site: site.map_or(0, |site| site.number),
            allocated_us: us(block.allocated_ns),
            lifetime_us: block.lifetime_ns.map(us),
            bytes: block.size,
            address: format!("{:#x}", block.address),
            allocated_by: tid(block.thread),
            freed_by: block.freed_by.map(tid),
            allocated_at: site.map(|site| number(&site.stack)),
            freed_at: freed_at.map(&mut number),
        });
    }
    let frames = |stack: &[u32]| {
        let frames = stack.iter();
        let frames = frames.filter_map(|&frame| profile.frames.get(frame as usize));
        let form = |frame| FrameForm::new(frame, profile.module_name(frame));
        frames.map(form).collect()
    };
    let [from, to] = selected.range_ns;
    let (blocks_in_range, bytes_in_range) = selected.in_range();
    let form = Form {
        format: "allotrope-blocks/1",
        subject,
        order: selected.order.name(),
        from_us: us(from),
        to_us: (to < u64::MAX).then(|| us(to)),
        blocks_in_range,
        bytes_in_range,
        free_stacks: profile.recording.free_stacks,
        blocks,
        stacks: stacks.into_iter().map(frames).collect(),
    };
    let mut out = io::BufWriter::new(out);
    allotrope_text::to_json_writer(&mut out, &form)?;
    writeln!(out)?;
    out.flush()
}
