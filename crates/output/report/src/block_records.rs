//! The single allocations of sites for programs: JSON Lines and CSV (RFC 4180, with
//! newlines in place of CR LF). `docs/report-json.md` documents the fields.

use std::io::{self, Write};

use allotrope_profile::{Block, Process, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::free_frames::FreeFrames;
use crate::shorten::clean;

/// A format of single allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFormat {
    /// An object a line.
    JsonLines,
    /// A header, and a line for each allocation.
    Csv,
}

/// The names of the fields, in the order of the columns.
const HEADER: &str = "process,site,allocated_us,lifetime_us,bytes,address,allocated_by,freed_by";

/// An allocation; what is unknown is null, and empty in CSV.
#[derive(Serialize)]
struct Record<'a> {
    process: u32,
    site: u32,
    allocated_us: f64,
    lifetime_us: Option<f64>,
    bytes: u64,
    address: String,
    allocated_by: u32,
    freed_by: Option<u32>,
    /// Functions, innermost first. Only in recordings with the stacks of deallocations.
    #[serde(skip_serializing_if = "Option::is_none")]
    freed_at: Option<Option<Vec<&'a str>>>,
}

/// Writes single allocations as it receives them: a site may have millions.
pub struct BlockRecords<'a> {
    profile: &'a Profile,
    /// The numbers of the sites by image and stack id.
    numbers: FxHashMap<(u32, u32), u32>,
    /// The stacks that freed blocks, if the recording has them.
    freed_at: Option<FreeFrames<'a>>,
    format: RecordFormat,
    out: &'a mut dyn Write,
}

impl<'a> BlockRecords<'a> {
    /// Writes the header, if the format has one.
    pub fn new(
        profile: &'a Profile,
        format: RecordFormat,
        out: &'a mut dyn Write,
    ) -> io::Result<Self> {
        let freed_at = FreeFrames::of(profile);
        if format == RecordFormat::Csv {
            let more = if freed_at.is_some() { ",freed_at" } else { "" };
            writeln!(out, "{HEADER}{more}")?;
        }
        let of_process = |process: &'a Process| {
            let sites = process.sites.iter();
            sites.map(|site| ((process.id, site.stack_id), site.number))
        };
        Ok(Self {
            profile,
            numbers: profile.processes.iter().flat_map(of_process).collect(),
            freed_at,
            format,
            out,
        })
    }

    /// Writes one allocation.
    pub fn write(&mut self, block: &Block) -> io::Result<()> {
        let us = |ns: u64| ns as f64 / 1e3;
        let record = Record {
            process: block.image,
            site: *self.numbers.get(&(block.image, block.stack)).unwrap_or(&0),
            allocated_us: us(block.allocated_ns),
            lifetime_us: block.lifetime_ns.map(us),
            bytes: block.size,
            address: format!("{:#x}", block.address),
            allocated_by: self.tid(block, block.thread),
            freed_by: block.freed_by.map(|thread| self.tid(block, thread)),
            freed_at: self
                .freed_at
                .as_ref()
                .map(|frames| self.functions(frames.get(block)?)),
        };
        match self.format {
            RecordFormat::JsonLines => {
                allotrope_text::to_json_writer(&mut self.out, &record)?;
                writeln!(self.out)
            }
            RecordFormat::Csv => self.write_line(&record),
        }
    }

    /// The functions of a stack's frames.
    fn functions(&self, stack: &[u32]) -> Option<Vec<&'a str>> {
        let frames = &self.profile.frames;
        let functions = stack.iter().filter_map(|&frame| frames.get(frame as usize));
        Some(functions.map(|frame| &*frame.function).collect())
    }

    fn write_line(&mut self, record: &Record<'_>) -> io::Result<()> {
        let lifetime = record.lifetime_us.map(|us| us.to_string());
        let freed_by = record.freed_by.map(|tid| tid.to_string());
        write!(
            self.out,
            "{},{},{},{},{},{},{},{}",
            record.process,
            record.site,
            record.allocated_us,
            lifetime.unwrap_or_default(),
            record.bytes,
            record.address,
            record.allocated_by,
            freed_by.unwrap_or_default(),
        )?;
        if let Some(functions) = &record.freed_at {
            let functions = functions.as_deref().unwrap_or_default();
            let functions: Vec<_> = functions.iter().map(|name| clean(name)).collect();
            let text = functions.join(";").replace('"', "\"\"");
            write!(self.out, ",\"{text}\"")?;
        }
        writeln!(self.out)
    }

    /// The kernel's id of a thread; 0 if it is unknown.
    fn tid(&self, block: &Block, thread: u32) -> u32 {
        let mut processes = self.profile.processes.iter();
        let process = processes.find(|process| process.id == block.image);
        let thread = process.and_then(|process| process.threads.get(thread as usize));
        thread.map_or(0, |thread| thread.tid)
    }
}
