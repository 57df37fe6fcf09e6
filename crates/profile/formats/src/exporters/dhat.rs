//! DHAT's JSON, file version 2, for valgrind's `dh_view.html` and the Firefox
//! Profiler.
//!
//! A stack set has no addresses: each distinct frame, with the functions
//! inlined into it, gets a unique number as its address, by which viewers
//! distinguish frames. Times are in microseconds since the start of the process:
//! `te` is its duration, `tg` the time of the peak. The figures at the peak (`gb`, `gbk`)
//! and at the end (`eb`, `ebk`) and the lifetimes (`tl`) are those of each stack.
//!
//! What is unknown is not guessed: `pid` and `te`, which the viewer requires, are then
//! `null`, and the rates infinite. The viewer shows the peak and lifetimes only if `bklt`
//! is true. It is true if duration and time of the peak are known. They are not if the
//! stacks of several process images are added up, because each has a peak of its own: then
//! the figures are still written, and the Firefox Profiler shows them. With `bklt`,
//! the viewer requires a point's own maximum: its most live bytes (`mb`) and the blocks that
//! were live then (`mbk`). Where stacks are added up it is unknown, because each has its
//! maximum at a time of its own: then it is `null`, which the viewer shows as 0. Valgrind
//! itself (3.19) updates a point's maximum only when the whole heap is at a new peak, so its
//! numbers may be lower.
//!
//! If only allocations are known, the file is of mode `ad-hoc` and counts them.
//!
//! Source: valgrind, `dhat/dh_main.c` and `dhat/dh_view.js`, which refuses two
//! points with the same frames; the Firefox Profiler's DHAT importer, which
//! reads a source location only if it has a column.

use std::fmt::Display;
use std::io::{self, Write};

use allotrope_profile::{CountedStack, Metric, StackFrame, StackSet};
use rustc_hash::FxHashMap;

use super::groups::groups;
use super::merged::{Texts, merge, with_frames};
use super::naming::{NO_STACK, name, on_one_line};
use super::{ExportOptions, Exporter, Input, require};
use crate::error::ExportError;

/// The unit in a file that counts only allocations.
pub(crate) const ALLOCATIONS_ONLY: &str = "allocations";

/// The first address: the lowest that Linux maps by default.
const FIRST_ADDRESS: u64 = 0x10000;

/// The exporter; see the module documentation.
pub(crate) struct Dhat;

impl Exporter for Dhat {
    fn name(&self) -> &'static str {
        "dhat"
    }

    fn description(&self) -> &'static str {
        "DHAT JSON, for valgrind's dh_view.html and the Firefox Profiler"
    }

    fn extension(&self) -> &'static str {
        "dhat.json"
    }

    fn check(&self, Input { set, .. }: &Input<'_>) -> Result<(), ExportError> {
        require(set, Metric::Allocations)
    }

    fn notes(&self, Input { set, .. }: &Input<'_>) -> Vec<String> {
        match set.run.images {
            0 | 1 => Vec::new(),
            images => vec![format!(
                "the stacks of {images} process images are added up; each was at its peak at a time of its own, so DHAT's viewer shows no t-gmax"
            )],
        }
    }

    fn is_own(&self, head: &[u8]) -> bool {
        // valgrind writes other units.
        let Some(rest) = head.strip_prefix(b"{\"dhatFileVersion\":2\n,\"mode\":\"") else {
            return false;
        };
        let start = String::from_utf8_lossy(rest.get(..400).unwrap_or(rest));
        start.contains("\n,\"bklt\":")
            && start.contains(",\"bkacc\":false\n")
            && start.contains("\n,\"tu\":\"\u{b5}s\",\"Mtu\":\"s\"\n")
    }

    fn write(
        &self,
        Input { set, .. }: &Input<'_>,
        options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        require(set, Metric::Allocations)?;
        let mut table = FrameTable::new(set);
        let stacks = set.stacks.iter().map(|stack| {
            let frames = match options.all_frames {
                true => &stack.frames[..],
                false => without_start(set, &stack.frames),
            };
            with_frames(stack, table.stack(frames))
        });
        let points = merge(stacks);
        let form = Form::of(set);
        form.head(set, out)?;
        for (at, point) in points.iter().enumerate() {
            out.write_all(if at == 0 { b"\n " } else { b"\n ," })?;
            form.point(point, out)?;
        }
        write!(out, "\n ]\n,\"ftbl\":\n [\"[root]\"")?;
        for text in &table.texts.list {
            write!(out, "\n ,{}", quoted(text)?)?;
        }
        writeln!(out, "\n ]\n}}")?;
        Ok(())
    }
}

/// A stack without its outermost frames, in which the libraries of Rust and C start a program or a thread:
/// dhat-rs leaves them out, too. One that has no other frames is whole.
fn without_start<'s>(set: &StackSet, stack: &'s [u32]) -> &'s [u32] {
    let function = |at: &u32| &*set.frames[*at as usize].function;
    // Whatever calls this function belongs to the start.
    let is_rusts = |at: &u32| function(at).contains("::__rust_begin_short_backtrace");
    let mut end = stack.iter().position(is_rusts).unwrap_or(stack.len());
    if end < stack.len() {
        let is_call = |at: &u32| function(at).contains("::ops::function::FnOnce::call_once");
        while end > 0 && is_call(&stack[end - 1]) {
            end -= 1;
        }
    }
    let is_start = |at: &u32| {
        let name = function(at);
        let of_c = [
            "_start",
            "start_thread",
            "clone",
            "clone3",
            "__clone",
            "__clone3",
            "__GI___clone",
            "__GI___clone3",
        ];
        let of_rust = name.starts_with("std::rt::lang_start");
        of_rust || of_c.contains(&name) || name.starts_with("__libc_start_")
    };
    while end > 0 && is_start(&stack[end - 1]) {
        end -= 1;
    }
    match &stack[..end] {
        [] => stack,
        rest => rest,
    }
}

/// The frame table under construction.
struct FrameTable<'a> {
    set: &'a StackSet,
    texts: Texts,
    /// The table indexes of each group of frames.
    groups: FxHashMap<&'a [u32], Box<[u32]>>,
}

impl<'a> FrameTable<'a> {
    fn new(set: &'a StackSet) -> Self {
        Self {
            set,
            texts: Texts::default(),
            groups: FxHashMap::default(),
        }
    }

    /// The stack as indexes into the written table, whose entry 0 is the root.
    fn stack(&mut self, stack: &'a [u32]) -> Box<[u32]> {
        if stack.is_empty() {
            return [self.texts.index(NO_STACK.to_owned()) + 1].into();
        }
        let mut indexes = Vec::with_capacity(stack.len());
        for group in groups(self.set, stack) {
            let address = FIRST_ADDRESS + self.groups.len() as u64;
            let (set, texts) = (self.set, &mut self.texts);
            let known = self.groups.entry(group).or_insert_with(|| {
                let frames = group.iter().map(|frame| &set.frames[*frame as usize]);
                frames
                    .map(|frame| texts.index(text(address, frame)) + 1)
                    .collect()
            });
            indexes.extend_from_slice(known);
        }
        indexes.into()
    }
}

fn text(address: u64, frame: &StackFrame) -> String {
    let name = name(frame);
    let text = if !frame.file.is_empty() {
        format!(
            "{address:#x}: {name} ({}:{}:{})",
            frame.file, frame.line, frame.column
        )
    } else if !frame.module.is_empty() {
        format!("{address:#x}: {name} (in {})", frame.module)
    } else {
        format!("{address:#x}: {name}")
    };
    on_one_line(text.into(), None).into_owned()
}

fn quoted(text: &str) -> io::Result<String> {
    allotrope_text::to_json_string(text).map_err(io::Error::from)
}

/// The parts of the file that the known facts allow.
struct Form {
    bytes: bool,
    /// The figures at the peak and at the end.
    live: bool,
    lifetimes: bool,
    /// Duration and time of the peak, if the file has everything that the viewer requires
    /// to show lifetimes (`bklt`).
    times: Option<(u64, u64)>,
}

impl Form {
    fn of(set: &StackSet) -> Self {
        let knows = |metrics: &[Metric]| metrics.iter().all(|metric| set.known.has(*metric));
        let bytes = knows(&[Metric::Bytes]);
        let live = bytes
            && knows(&[
                Metric::LeakedAllocations,
                Metric::LeakedBytes,
                Metric::PeakAllocations,
                Metric::PeakBytes,
            ]);
        let lifetimes = live && knows(&[Metric::Lifetime]);
        let times = set.run.duration_us.zip(set.run.peak_time_us);
        Self {
            bytes,
            live,
            lifetimes,
            times: times.filter(|_| lifetimes),
        }
    }

    fn head(&self, set: &StackSet, out: &mut dyn Write) -> io::Result<()> {
        let mode = if self.bytes { "heap" } else { "ad-hoc" };
        write!(
            out,
            "{{\"dhatFileVersion\":2\n,\"mode\":\"{mode}\",\"verb\":\"Allocated\"\n,\"bklt\":{},\"bkacc\":false\n",
            self.times.is_some()
        )?;
        if !self.bytes {
            writeln!(
                out,
                ",\"bu\":\"allocation\",\"bsu\":\"{ALLOCATIONS_ONLY}\",\"bksu\":\"{ALLOCATIONS_ONLY}\""
            )?;
        }
        writeln!(out, ",\"tu\":\"\u{b5}s\",\"Mtu\":\"s\"")?;
        if self.times.is_some() {
            writeln!(out, ",\"tuth\":10")?;
        }
        writeln!(
            out,
            ",\"cmd\":{}\n,\"pid\":{}\n,\"te\":{}",
            quoted(&set.title)?,
            or_null(set.run.pid),
            or_null(set.run.duration_us)
        )?;
        if let Some((_, peak)) = self.times {
            writeln!(out, ",\"tg\":{peak}")?;
        }
        write!(out, ",\"pps\":\n [")
    }

    fn point(&self, point: &CountedStack, out: &mut dyn Write) -> io::Result<()> {
        let figure = |metric: Metric| point.figures[metric as usize];
        let blocks = figure(Metric::Allocations);
        let bytes = if self.bytes {
            figure(Metric::Bytes)
        } else {
            blocks
        };
        write!(out, "{{\"tb\":{bytes},\"tbk\":{blocks}")?;
        if self.lifetimes {
            write!(out, ",\"tl\":{}", figure(Metric::Lifetime))?;
        }
        if self.times.is_some() {
            write!(
                out,
                ",\"mb\":{},\"mbk\":{}",
                or_null(point.maximum.map(|maximum| maximum.bytes)),
                or_null(point.maximum.map(|maximum| maximum.allocations)),
            )?;
        }
        if self.live {
            write!(
                out,
                ",\"gb\":{},\"gbk\":{},\"eb\":{},\"ebk\":{}",
                figure(Metric::PeakBytes),
                figure(Metric::PeakAllocations),
                figure(Metric::LeakedBytes),
                figure(Metric::LeakedAllocations),
            )?;
        }
        write!(out, ",\"fs\":")?;
        allotrope_text::to_json_writer(&mut *out, &point.frames)?;
        write!(out, "}}")
    }
}

/// A JSON number, or `null` for none.
fn or_null(number: Option<impl Display>) -> String {
    number.map_or_else(|| "null".to_owned(), |number| number.to_string())
}
