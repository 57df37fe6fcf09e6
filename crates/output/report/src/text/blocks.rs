//! The single allocations of a site, one line each.

use std::io::{self, Write};

use allotrope_attribution::Attributed;
use allotrope_profile::{Block, RunTimes};

use crate::free_frames::FreeFrames;
use crate::numbers::{count, duration};
use crate::text::TextOptions;
use allotrope_text::Style;
use allotrope_text::document::{Table, left, right};

/// Writes single allocations as it receives them: a site may have millions.
pub struct BlockList<'a> {
    attributed: &'a Attributed<'a>,
    /// The stacks that freed blocks, if the recording has them.
    freed_at: Option<FreeFrames<'a>>,
    style: Style,
    table: Table,
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
        let table = Table::new([
            right("time").at_least(14),
            right("bytes").at_least(15),
            right("lifetime").at_least(10),
            left("thread").filling(),
        ]);
        let table = table.indent(0);
        writeln!(out, "{}", table.titles(style))?;
        Ok(Self {
            attributed,
            freed_at: FreeFrames::of(attributed.profile),
            style,
            table,
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
            thread.push_str(&format!(", freed at {}", frame.function));
        }
        let cells = [seconds, count(block.size), lifetime, thread];
        let line = self.table.line(cells, self.style);
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
            Some(thread) if thread.tid > 0 => format!("{} {}", thread.tid, thread.name),
            _ => "unknown".to_owned(),
        }
    }
}
