//! heaptrack's data file, compressed with Zstandard, for `heaptrack_gui` and
//! `heaptrack_print`, which recognise the compression by the name's end: `.zst`. The lines are
//! described where they are [read](crate::readers::heaptrack).
//!
//! The file has every allocation and deallocation of one process in the order of the aggregation,
//! with time stamps in milliseconds, so its allocations, sizes, peak and leaked blocks are
//! those of `allotrope report`. The file does not have threads, inherited blocks and marks.
//!
//! heaptrack itself decides what is temporary: a deallocation directly after an allocation of
//! the same size and stack. Programs that replace a block by a new one of its kind would have as
//! many temporary allocations as calls. So the file is written such that exactly those blocks
//! count that are freed before any other allocation of the process: such a deallocation comes
//! first of those after its allocation, and others there refer to another allocation info. For
//! a program with one thread this is Allotrope's definition.
//!
//! `heaptrack_gui` counts the allocations of each allocation info in an array that it extends by
//! one when an index is used for the first time: it crashes unless the infos are numbered in the
//! order in which they are first *allocated*, without gaps. So a further info of the same blocks
//! is begun with a further allocation of them.
//!
//! Source: heaptrack 1.4, `src/analyze/accumulatedtracedata.cpp`, `src/analyze/gui/parser.cpp`.

use std::io::{self, Read, Write};

use allotrope_profile::{Block, BlockEvent, Process, Profile, StackFrame, StackId, StackSet};
use rustc_hash::FxHashMap;

use super::groups::groups;
use super::input::process_name;
use super::naming::{NO_STACK, name, on_one_line};
use super::{ExportOptions, Exporter, Input, Wanted};
use crate::error::ExportError;

/// Version of heaptrack, 1.4.0, and of its file format.
const VERSION: &str = "10400 3";
/// A line that heaptrack ignores, by which a file is recognised as ours.
const MARK: &str = "# allotrope";
/// Bytes of a page, in which the resident memory is counted.
const PAGE: u64 = 4096;
/// The first made-up address.
const FIRST_ADDRESS: u64 = 0x10000;
/// Bytes of lines that wait for the next allocation; more are written at once.
const MAX_PENDING: usize = 1 << 20;
/// Level of compression: the fastest one. Traces compress well.
const LEVEL: i32 = 1;

/// The exporter; see the module documentation.
pub(super) struct Heaptrack;

impl Exporter for Heaptrack {
    fn name(&self) -> &'static str {
        "heaptrack"
    }

    fn description(&self) -> &'static str {
        "every event, for heaptrack_gui and heaptrack_print (name the file .zst)"
    }

    fn extension(&self) -> &'static str {
        "zst"
    }

    fn wanted(&self) -> Wanted {
        Wanted::Events
    }

    fn check(&self, input: &Input<'_>) -> Result<(), ExportError> {
        let recorded = input.require_recording()?;
        largest(recorded.profile)
            .map(|_| ())
            .ok_or(ExportError::NoProcess)
    }

    fn suffix(&self) -> Option<&'static str> {
        Some(".zst")
    }

    fn notes(&self, input: &Input<'_>) -> Vec<String> {
        let profile = match input.recorded {
            Some(recorded) if recorded.profile.processes.len() > 1 => recorded.profile,
            _ => return Vec::new(),
        };
        let chosen = largest(profile).map(|process| {
            let (id, name) = (process.id, process_name(process));
            let name = on_one_line(name.into(), None).into_owned();
            format!(
                "heaptrack's file has one process: this is process {id} ({name}), which allocated most; choose another one with --process"
            )
        });
        chosen.into_iter().collect()
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn is_own(&self, head: &[u8]) -> bool {
        let mut start = Vec::new();
        let read = zstd::Decoder::new(head).and_then(|zipped| {
            let most = MARK.len() as u64 + VERSION.len() as u64 + 4;
            zipped.take(most).read_to_end(&mut start)
        });
        let expected = format!("v {VERSION}\n{MARK}\n");
        read.is_ok() && start.starts_with(expected.as_bytes())
    }

    fn write(
        &self,
        input: &Input<'_>,
        _options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let recorded = input.require_recording()?;
        let process = largest(recorded.profile).ok_or(ExportError::NoProcess)?;
        let zipped = zstd::Encoder::new(out, LEVEL)?;
        let mut writer = Writer::new(input.set, process, io::BufWriter::new(zipped));
        writer.head()?;
        // A block of its own, so that the start alone can be read.
        writer.out.flush()?;
        let sites = process.sites.iter();
        let sites: Vec<_> = sites.map(|site| (process.id, site.stack_id)).collect();
        let mut written = Ok(());
        recorded.events.block_events(&sites, &mut |event, block| {
            if written.is_ok() && block.image == process.id {
                written = writer.event(event, block);
            }
        })?;
        written?;
        writer.end()?;
        let zipped = writer
            .out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        zipped.finish()?;
        Ok(())
    }
}

/// The process that made most allocations; the first of several.
fn largest(profile: &Profile) -> Option<&Process> {
    let processes = profile.processes.iter().rev();
    processes.max_by_key(|process| process.totals.allocations)
}

/// The indexes of the allocation infos of a size and a node, in order of first use.
#[derive(Clone, Copy, Default)]
struct Infos {
    indexes: [u64; 3],
    count: usize,
}

impl Infos {
    fn indexes(&self) -> &[u64] {
        &self.indexes[..self.count]
    }

    /// The most that there may be. A deallocation refers to another one than the last
    /// allocation, and seldom to info 0.
    fn most(&self) -> usize {
        match self.indexes() {
            [0, ..] => 3,
            _ => 2,
        }
    }
}

struct Writer<'a, W> {
    out: W,
    set: &'a StackSet,
    process: &'a Process,
    /// The index of each string, from 1.
    strings: FxHashMap<String, u64>,
    /// The index of the instruction pointer of each group of frames, from 1.
    pointers: FxHashMap<&'a [u32], u64>,
    /// The index of the node with an instruction pointer and a parent, from 1.
    nodes: FxHashMap<(u64, u64), u64>,
    /// The index of the site of each stack id, and the node of each stack id that occurred.
    sites: FxHashMap<StackId, usize>,
    stacks: FxHashMap<StackId, u64>,
    /// The allocation infos of each size and node.
    infos: FxHashMap<(u64, u64), Infos>,
    /// The number of allocation infos.
    info_count: u64,
    /// The address and allocation info of the last allocation, until that block is freed.
    last: Option<(u64, u64)>,
    /// Lines of deallocations after it, and of times.
    pending: Vec<u8>,
    /// The infos of a deallocation that may only refer to info 0; see [`Writer::free`].
    waiting: Option<Infos>,
    /// The last time stamp, in milliseconds.
    time_ms: u64,
    /// The number of samples of the resident memory that are written.
    resident: usize,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(set: &'a StackSet, process: &'a Process, out: W) -> Self {
        Self {
            out,
            set,
            process,
            strings: FxHashMap::default(),
            pointers: FxHashMap::default(),
            nodes: FxHashMap::default(),
            sites: (0..)
                .zip(&process.sites)
                .map(|(index, site)| (site.stack_id, index))
                .collect(),
            stacks: FxHashMap::default(),
            infos: FxHashMap::default(),
            info_count: 0,
            last: None,
            pending: Vec::new(),
            waiting: None,
            time_ms: 0,
            resident: 0,
        }
    }

    fn head(&mut self) -> io::Result<()> {
        let command = allotrope_profile::command_text(&self.process.command);
        writeln!(self.out, "v {VERSION}\n{MARK}")?;
        writeln!(self.out, "X {}", on_one_line(command.into(), None))?;
        writeln!(self.out, "I {PAGE:x} 0")
    }

    fn event(&mut self, event: BlockEvent, block: &Block) -> io::Result<()> {
        let time_ns = match event {
            BlockEvent::Allocated => block.allocated_ns,
            BlockEvent::Freed => {
                let lived = block.lifetime_ns.unwrap_or(0);
                block.allocated_ns.saturating_add(lived)
            }
            BlockEvent::LiveAtEnd => return Ok(()),
        };
        self.advance(time_ns / 1000)?;
        let node = self.node_of_stack(block.stack)?;
        match event {
            BlockEvent::Allocated => self.allocate(block, node),
            _ => self.free(block, node),
        }
    }

    fn allocate(&mut self, block: &Block, node: u64) -> io::Result<()> {
        self.flush()?;
        let infos = self.infos.entry((block.size, node)).or_default();
        if infos.count < infos.most() {
            infos.indexes[infos.count] = self.info_count;
            infos.count += 1;
            self.info_count += 1;
            writeln!(self.out, "a {:x} {node:x}", block.size)?;
        }
        let info = infos.indexes[infos.count - 1];
        self.last = Some((block.address, info));
        writeln!(self.out, "+ {info:x}")
    }

    /// Writes a deallocation. Unless it is that of the last allocation, it must refer to another
    /// info than that one. After another deallocation, heaptrack takes one of info 0 for a
    /// temporary one: if no other info is left, it waits until [`Writer::flush`] can write it
    /// directly after the allocation.
    fn free(&mut self, block: &Block, node: u64) -> io::Result<()> {
        let Some(&infos) = self.infos.get(&(block.size, node)) else {
            // Only blocks are freed whose allocation was written.
            return Ok(());
        };
        if let Some((address, info)) = self.last
            && address == block.address
        {
            self.last = None;
            return writeln!(self.out, "- {info:x}");
        }
        let last = self.last.map(|(_, info)| info);
        let mut others = infos.indexes().iter();
        match others.find(|&&info| info != 0 && Some(info) != last) {
            Some(info) => writeln!(self.pending, "- {info:x}")?,
            None => self.waiting = Some(infos),
        }
        if self.pending.len() > MAX_PENDING {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the lines that wait for the next allocation.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(infos) = self.waiting.take() {
            let info = match self.last {
                // No deallocation was written since the last allocation.
                Some(_) => 0,
                // It is temporary for heaptrack if it is the only block of its kind.
                None => infos.indexes().last().copied().unwrap_or(0),
            };
            writeln!(self.out, "- {info:x}")?;
        }
        self.out.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }

    /// Writes the time stamp and the resident memory of a time, in microseconds since the start
    /// of the recording. Times that decrease are ignored.
    fn advance(&mut self, time_us: u64) -> io::Result<()> {
        while let Some(sample) = self.process.resident.get(self.resident)
            && sample.time_us <= time_us
        {
            self.resident += 1;
            self.stamp(sample.time_us)?;
            writeln!(self.pending, "R {:x}", sample.program_bytes() / PAGE)?;
        }
        self.stamp(time_us)
    }

    fn stamp(&mut self, time_us: u64) -> io::Result<()> {
        let time_ms = time_us.saturating_sub(self.process.started_us) / 1000;
        if time_ms > self.time_ms {
            self.time_ms = time_ms;
            writeln!(self.pending, "c {time_ms:x}")?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let end = self
            .process
            .started_us
            .saturating_add(self.process.duration_us);
        self.advance(end)?;
        self.flush()
    }

    fn node_of_stack(&mut self, stack: StackId) -> io::Result<u64> {
        if let Some(&node) = self.stacks.get(&stack) {
            return Ok(node);
        }
        let process = self.process;
        let site = self.sites.get(&stack).map(|&index| &process.sites[index]);
        let node = self.node_of(site.map_or(&[], |site| &site.stack))?;
        self.stacks.insert(stack, node);
        Ok(node)
    }

    /// The node of a stack, innermost frame first.
    fn node_of(&mut self, stack: &'a [u32]) -> io::Result<u64> {
        let mut groups: Vec<&[u32]> = groups(self.set, stack).collect();
        if groups.is_empty() {
            groups.push(&[]);
        }
        let mut parent = 0;
        for group in groups.into_iter().rev() {
            let pointer = self.pointer(group)?;
            let next = self.nodes.len() as u64 + 1;
            let node = *self.nodes.entry((pointer, parent)).or_insert(next);
            if node == next {
                writeln!(self.out, "t {pointer:x} {parent:x}")?;
            }
            parent = node;
        }
        Ok(parent)
    }

    /// The instruction pointer of a function and those that are inlined into it.
    fn pointer(&mut self, group: &'a [u32]) -> io::Result<u64> {
        if let Some(&index) = self.pointers.get(group) {
            return Ok(index);
        }
        let set = self.set;
        let frames = group.iter().map(|&frame| &set.frames[frame as usize]);
        let outermost = group.last().map(|&frame| &set.frames[frame as usize]);
        let module = self.string(outermost.map_or("", |frame| &frame.module))?;
        let mut line = String::new();
        for frame in frames {
            self.frame(frame, &mut line)?;
        }
        if group.is_empty() {
            let none = self.string(NO_STACK)?;
            line = format!(" {none:x}");
        }
        let index = self.pointers.len() as u64 + 1;
        self.pointers.insert(group, index);
        let address = FIRST_ADDRESS + index;
        writeln!(self.out, "i {address:x} {module:x}{line}")?;
        Ok(index)
    }

    fn frame(&mut self, frame: &StackFrame, line: &mut String) -> io::Result<()> {
        use std::fmt::Write as _;
        let function = self.string(&name(frame))?;
        let file = self.string(&frame.file)?;
        // All frames of a line but the last have three numbers.
        let _ = write!(line, " {function:x} {file:x} {:x}", frame.line);
        Ok(())
    }

    /// The index of a string; 0 for the empty one.
    fn string(&mut self, text: &str) -> io::Result<u64> {
        let text = on_one_line(text.into(), None);
        if text.is_empty() {
            return Ok(0);
        }
        if let Some(&index) = self.strings.get(&*text) {
            return Ok(index);
        }
        let index = self.strings.len() as u64 + 1;
        writeln!(self.out, "s {:x} {text}", text.len())?;
        self.strings.insert(text.into_owned(), index);
        Ok(index)
    }
}
