//! The Firefox Profiler's processed profile.
//!
//! Each process has one thread, `heap`. A cell of the time table is a sample whose weight is
//! its number of allocations, a native allocation of its bytes and, if the blocks were freed,
//! one of minus its bytes, at the same made-up address, by which the profiler knows what is
//! retained at the end of a selected range. The addresses are numbers and no real ones. Times
//! are inside of the cell's buckets. Marks and windows are markers, and what was live and
//! the resident memory are counters.
//!
//! The profiler holds all rows in memory, so there are at most [`MAX_ROWS`]; see
//! [`cells`](super::cells).
//!
//! Frames are names of functions, because the library that writes the file knows source lines
//! only of JavaScript, and a name with a line in it would be a function of its own.
//!
//! Source: the crate `fxprof-processed-profile`, and the profiler's
//! `src/types/profile.ts` and `docs-developer/`.

use std::io::Write;
use std::time::Duration;

use allotrope_profile::{Process, Profile, StackSet};
use fx::{
    CategoryHandle, CpuDelta, FrameFlags, FrameInfo, MarkerTiming, ReferenceTimestamp,
    SamplingInterval, StackHandle, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle,
    ThreadHandle, Timestamp,
};
use fxprof_processed_profile as fx;
use rustc_hash::FxHashMap;

use super::cells::{self, Cells, OTHER_SITES};
use super::curve::{self, Point};
use super::input::process_name;
use super::naming::{NO_STACK, name, on_one_line};
use super::{ExportOptions, Exporter, Input, Wanted};
use crate::error::ExportError;

/// The most rows of samples and native allocations in a file.
pub(super) const MAX_ROWS: usize = 500_000;
/// A sample, an allocation and a deallocation.
const ROWS_OF_A_CELL: usize = 3;
/// The name of the stack of those that are too light for one of their own.
const OTHERS: &str = "[other stacks]";

/// The exporter; see the module documentation.
pub(super) struct Firefox;

impl Exporter for Firefox {
    fn name(&self) -> &'static str {
        "firefox"
    }

    fn description(&self) -> &'static str {
        "allocations over time, for the Firefox Profiler (profiler.firefox.com)"
    }

    fn extension(&self) -> &'static str {
        "profile.json"
    }

    fn wanted(&self) -> Wanted {
        Wanted::Times
    }

    fn check(&self, input: &Input<'_>) -> Result<(), ExportError> {
        input.require_recording().map(|_| ())
    }

    fn notes(&self, input: &Input<'_>) -> Vec<String> {
        let cells = input.recorded.map_or(0, |it| cells::count(it.profile));
        let most = MAX_ROWS / ROWS_OF_A_CELL;
        match cells > most {
            false => Vec::new(),
            true => vec![format!(
                "its {cells} spans of time would be too many rows; the times of the stacks with the fewest bytes are coarser, so that there are at most {MAX_ROWS} rows (sums are exact)"
            )],
        }
    }

    fn is_own(&self, head: &[u8]) -> bool {
        head.starts_with(START)
    }

    fn write(
        &self,
        input: &Input<'_>,
        _options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let profile = input.require_recording()?.profile;
        let mut writer = Writer::new(input.set, profile);
        for (process, cells) in cells::bounded(profile, MAX_ROWS / ROWS_OF_A_CELL) {
            writer.process(process, &cells);
        }
        out.write_all(START)?;
        let rest = WithoutBrace {
            out,
            is_open: false,
        };
        allotrope_text::to_json_writer(rest, &writer.file).map_err(std::io::Error::from)?;
        Ok(())
    }
}

/// How a file begins: with a member that the profiler does not know.
const START: &[u8] = b"{\"exporter\":\"allotrope\",";

/// Writes an object without its first character, the brace.
struct WithoutBrace<'a> {
    out: &'a mut dyn Write,
    is_open: bool,
}

impl Write for WithoutBrace<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match bytes {
            [b'{', ..] if !self.is_open => {
                self.is_open = true;
                Ok(1)
            }
            _ => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// A mark or a window.
struct Moment(StringHandle);

impl StaticSchemaMarker for Moment {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Moment";
    const FIELDS: &'static [StaticSchemaMarkerField] = &[];

    fn name(&self, _file: &mut fx::Profile) -> StringHandle {
        self.0
    }

    fn category(&self, _file: &mut fx::Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _field: u32) -> StringHandle {
        self.0
    }

    fn number_field_value(&self, _field: u32) -> f64 {
        0.0
    }
}

/// A row of samples or native allocations.
struct Row {
    time_ns: u64,
    site: u32,
    address: u64,
    bytes: i64,
    /// 0 for a deallocation.
    blocks: u64,
}

struct Writer<'a> {
    file: fx::Profile,
    set: &'a StackSet,
    profile: &'a Profile,
    /// The handle of each frame's text, made when it is first needed.
    texts: FxHashMap<u32, StringHandle>,
    /// The last made-up address.
    address: u64,
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(ns)
}

impl<'a> Writer<'a> {
    fn new(set: &'a StackSet, profile: &'a Profile) -> Self {
        let started = Duration::from_nanos(profile.recording.started_unix_ns);
        let title = on_one_line(set.title.as_str().into(), None);
        let mut file = fx::Profile::new(
            &title,
            ReferenceTimestamp::from_duration_since_unix_epoch(started),
            SamplingInterval::from_millis(1),
        );
        file.set_os_name("Linux");
        // Frames are names: nothing has to be looked up.
        file.set_symbolicated(true);
        Self {
            file,
            set,
            profile,
            texts: FxHashMap::default(),
            address: 0,
        }
    }

    fn process(&mut self, process: &Process, cells: &Cells<'_>) {
        let started = at(process.started_us.saturating_mul(1000));
        let ended = at(curve::end_ns(process));
        let name = on_one_line(process_name(process).into(), None).into_owned();
        let handle = self.file.add_process(&name, process.pid, started);
        self.file.set_process_end_time(handle, ended);
        let thread = self.file.add_thread(handle, process.pid, started, true);
        self.file.set_thread_end_time(thread, ended);
        self.file.set_thread_name(thread, "heap");
        self.rows(thread, process, cells);
        self.moments(thread, process);
        let processes = self.profile.processes.len();
        let counters = [
            ("live bytes", curve::live(process, processes)),
            ("resident memory", curve::resident(process, processes)),
        ];
        for (name, points) in counters {
            let counter = self.file.add_counter(handle, name, "Memory", name);
            let mut last = Point {
                time_ns: 0,
                bytes: 0,
                allocated: 0,
            };
            for point in points {
                let change = point.bytes as f64 - last.bytes as f64;
                let calls = point.allocated.saturating_sub(last.allocated);
                let calls = u32::try_from(calls).unwrap_or(u32::MAX);
                self.file
                    .add_counter_sample(counter, at(point.time_ns), change, calls);
                last = point;
            }
        }
    }

    /// The samples and native allocations of a process, in order of time.
    fn rows(&mut self, thread: ThreadHandle, process: &Process, cells: &Cells<'_>) {
        let mut rows = Vec::with_capacity(2 * cells.cells.len());
        for cell in &cells.cells {
            self.address += 1;
            let (allocated, freed) = cells.times(cell);
            let row = Row {
                time_ns: allocated,
                site: cell.cell.site,
                address: self.address,
                bytes: i64::try_from(cell.cell.bytes).unwrap_or(i64::MAX),
                blocks: cell.cell.blocks,
            };
            rows.extend(freed.map(|time_ns| Row {
                time_ns,
                bytes: -row.bytes,
                blocks: 0,
                ..row
            }));
            rows.push(row);
        }
        rows.sort_by_key(|row| (row.time_ns, row.blocks > 0, row.address));
        let mut stacks = FxHashMap::default();
        for row in rows {
            let stack = *stacks
                .entry(row.site)
                .or_insert_with(|| self.stack(thread, process, row.site));
            let (time, address, bytes) = (at(row.time_ns), row.address, row.bytes);
            let mut left = row.blocks;
            while left > 0 {
                let weight = left.min(i32::MAX as u64);
                let file = &mut self.file;
                file.add_sample(thread, time, Some(stack), CpuDelta::ZERO, weight as i32);
                left -= weight;
            }
            self.file
                .add_allocation_sample(thread, time, Some(stack), address, bytes);
        }
    }

    fn stack(&mut self, thread: ThreadHandle, process: &Process, site: u32) -> StackHandle {
        let stack = match site {
            OTHER_SITES => None,
            site => process.sites.get(site as usize).map(|site| &*site.stack),
        };
        let alone = match stack {
            Some(&[]) => Some(NO_STACK),
            Some(_) => None,
            None => Some(OTHERS),
        };
        if let Some(name) = alone {
            let name = self.file.intern_string(name);
            return self.push(thread, None, name);
        }
        let mut parent = None;
        for &frame in stack.unwrap_or_default().iter().rev() {
            let text = self.text(frame);
            parent = Some(self.push(thread, parent, text));
        }
        parent.expect("the stack has frames")
    }

    fn push(
        &mut self,
        thread: ThreadHandle,
        parent: Option<StackHandle>,
        text: StringHandle,
    ) -> StackHandle {
        let info = FrameInfo {
            frame: fx::Frame::Label(text),
            category_pair: CategoryHandle::OTHER.into(),
            flags: FrameFlags::empty(),
        };
        let frame = self.file.intern_frame(thread, info);
        self.file.intern_stack(thread, parent, frame)
    }

    fn text(&mut self, frame: u32) -> StringHandle {
        if let Some(&text) = self.texts.get(&frame) {
            return text;
        }
        let text = on_one_line(name(&self.set.frames[frame as usize]), None);
        let text = self.file.intern_string(&text);
        self.texts.insert(frame, text);
        text
    }

    /// Markers for the marks of the recording and the windows of a process.
    fn moments(&mut self, thread: ThreadHandle, process: &Process) {
        for mark in &self.profile.marks {
            let name = on_one_line(mark.name.as_str().into(), None);
            let name = self.file.intern_string(&name);
            let timing = MarkerTiming::Instant(at(mark.time_ns));
            self.file.add_marker(thread, timing, Moment(name));
        }
        for window in &process.windows {
            let name = on_one_line(window.name.as_str().into(), None);
            let name = self.file.intern_string(&name);
            let opened = process.started_us.saturating_add(window.opened_us);
            let closed = opened.saturating_add(window.duration_us);
            let ns = |us: u64| at(us.saturating_mul(1000));
            let timing = MarkerTiming::Interval(ns(opened), ns(closed));
            self.file.add_marker(thread, timing, Moment(name));
        }
    }
}
