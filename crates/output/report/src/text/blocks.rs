//! The single allocations of a site, one line each.

use std::io::{self, Write};

use allotrope_attribution::Attributed;
use allotrope_profile::{Block, RunTimes};

use crate::free_frames::FreeFrames;
use crate::numbers::{count, duration};
use crate::shorten::{clean, middle};
use crate::style::{Role, Style};
use crate::text::TextOptions;

/// Writes single allocations as it receives them: a site may have millions.
pub struct BlockList<'a> {
    attributed: &'a Attributed<'a>,
    /// The stacks that freed blocks, if the recording has them.
    freed_at: Option<FreeFrames<'a>>,
    style: Style,
    /// The start of the first process, from which times count.
    started_ns: u64,
    written: u64,
    out: &'a mut dyn Write,
}

impl<'a> BlockList<'a> {
    /// Writes the heading.
    pub fn new(
        attributed: &'a Attributed<'a>,
        options: &TextOptions,
        out: &'a mut dyn Write,
    ) -> io::Result<Self> {
        let style = options.style;
        let heading = line("time", "bytes", "lifetime", "thread", style);
        writeln!(out, "{}", style.paint(Role::Title, &heading))?;
        Ok(Self {
            attributed,
            freed_at: FreeFrames::of(attributed.profile),
            style,
            started_ns: RunTimes::of(attributed.profile).started_ns,
            written: 0,
            out,
        })
    }

    /// Writes one allocation.
    pub fn write(&mut self, block: &Block) -> io::Result<()> {
        let lifetime = match block.lifetime_ns {
            Some(ns) => duration(ns as f64 / 1e3),
            None => "alive".to_owned(),
        };
        let ns = block.allocated_ns.saturating_sub(self.started_ns);
        let seconds = format!("{:.6} s", ns as f64 / 1e9);
        let mut thread = self.thread(block, block.thread);
        if let Some(freed_by) = block.freed_by
            && freed_by != block.thread
        {
            let freed_by = self.thread(block, freed_by);
            thread.push_str(&format!(", freed by {freed_by}"));
        }
        if let Some(frames) = &self.freed_at
            && let Some(stack) = frames.get(block)
            && let [own, _] = self.attributed.headlines.of_frames(stack)
            && let Some(&frame) = stack.get(own)
            && let Some(frame) = self.attributed.profile.frames.get(frame as usize)
        {
            thread.push_str(&format!(", freed at {}", clean(&frame.function)));
        }
        let line = line(&seconds, &count(block.size), &lifetime, &thread, self.style);
        self.written += 1;
        writeln!(self.out, "{line}")
    }

    /// Writes the number of allocations.
    pub fn finish(self) -> io::Result<()> {
        writeln!(self.out, "{} allocations", count(self.written))
    }

    fn thread(&self, block: &Block, thread: u32) -> String {
        let mut processes = self.attributed.profile.processes.iter();
        let process = processes.find(|process| process.id == block.image);
        let thread = process.and_then(|process| process.threads.get(thread as usize));
        match thread {
            Some(thread) if thread.tid > 0 && thread.name.is_empty() => thread.tid.to_string(),
            Some(thread) if thread.tid > 0 => format!("{} {}", thread.tid, clean(&thread.name)),
            _ => "unknown".to_owned(),
        }
    }
}

fn line(time: &str, size: &str, lifetime: &str, thread: &str, style: Style) -> String {
    let line = format!("{time:>14}  {size:>15}  {lifetime:>10}  {thread}");
    middle(line.trim_end(), style.columns())
}
