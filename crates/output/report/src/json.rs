//! The report as JSON, format `allotrope-report/1`. `docs/report-json.md` documents every
//! field, and `docs/report.schema.json` is its schema, to which a test holds outputs.
//!
//! What was not measured is null, never 0: temporary, leaked, inherited and peak
//! figures and the sites of a recording that only counted.
//!
//! `findings` is present if findings were made: of a whole recording with call stacks,
//! not of a window or a range of time. `docs/findings.md` describes them.
//!
//! `marks` is present only if moments were named (`allotrope mark`): a list of
//! `{name, seconds}`, in seconds since the start of the first process, as `--at` counts.
//! `still_recording` is present, and true, only if the trace was still being written.
//!
//! A stable contract: no field is renamed, removed or given another meaning
//! without a new format number; fields may be added.

use std::borrow::Cow;
use std::io::{self, Write};

use allotrope_attribution::{Attributed, BlockTypes, Headlines, Rule, Suppressions};
use allotrope_findings::Finding;
use allotrope_profile::warnings::{all_warnings, waits};
use allotrope_profile::{Frame, FrameForm, Process, Profile, SizeFigures, Totals};
use allotrope_text::{text_of_os, text_of_path};
use allotrope_trace::model::{Exit, Origin};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::json_findings::FindingForm;
use crate::json_recording::{ModuleForm, RecordingForm};
use crate::json_series::{ResidentForm, SeriesForm, resident};
use crate::json_sites::{self, Additions, Numbers};
use crate::json_windows::WindowForm;
use crate::reachability::ReachabilityForm;
use crate::signal::signal_name;
use crate::source_lines::SourceLines;
use crate::suppressed::{RuleFinder, Suppressed};
use crate::text::iterations;

/// What the JSON has besides the profile.
#[derive(Debug, Clone, Default)]
pub struct JsonOptions<'a> {
    /// Each frame whose line of code is found has it in the field `source`.
    pub source: Option<&'a SourceLines>,
    /// The leaks that are marked as suppressed.
    pub suppressions: Suppressions,
    /// Figures are also divided by this number.
    pub per: Option<f64>,
    /// The processes are windows: without `per`, their figures are also
    /// divided by their iterations.
    pub is_window: bool,
    /// What stands out, best first; `None` if it was not looked for.
    pub findings: Option<&'a [Finding]>,
}

impl JsonOptions<'_> {
    fn per(&self, process: &Process) -> Option<f64> {
        self.per.or_else(|| match &process.windows[..] {
            [run] if self.is_window => iterations(run),
            _ => None,
        })
    }
}

/// Writes the whole profile and a newline.
pub fn write(
    attributed: &Attributed<'_>,
    options: &JsonOptions<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let profile = attributed.profile;
    let mut rules = RuleFinder::new(attributed, &options.suppressions);
    let mut out = io::BufWriter::new(out);
    out.write_all(b"{\"format\":\"allotrope-report/1\",\"frames\":")?;
    allotrope_text::to_json_writer(&mut out, &Frames(profile, options.source))?;
    out.write_all(b",\"modules\":")?;
    let modules: Vec<_> = profile.modules.iter().map(ModuleForm::of).collect();
    allotrope_text::to_json_writer(&mut out, &modules)?;
    out.write_all(b",\"recording\":")?;
    allotrope_text::to_json_writer(&mut out, &RecordingForm::of(profile))?;
    out.write_all(b",\"warnings\":")?;
    let mut warnings = all_warnings(profile);
    warnings.extend(waits(profile));
    allotrope_text::to_json_writer(&mut out, &warnings)?;
    out.write_all(b",\"processes\":[")?;
    let types = BlockTypes::new(profile);
    let numbers = Numbers::new(profile.frames.len());
    let mut separator = "";
    for process in &profile.processes {
        out.write_all(separator.as_bytes())?;
        write_process(
            process,
            profile,
            options.per(process),
            (&mut rules, &types, &attributed.headlines),
            &numbers,
            &mut out,
        )?;
        separator = ",";
    }
    out.write_all(b"]")?;
    if let Some(findings) = options.findings {
        out.write_all(b",\"findings\":")?;
        let forms: Vec<FindingForm<'_>> = findings.iter().map(FindingForm::of).collect();
        allotrope_text::to_json_writer(&mut out, &forms)?;
    }
    if let Some(cut) = &profile.cut {
        out.write_all(b",\"cut\":")?;
        allotrope_text::to_json_writer(&mut out, cut)?;
    }
    if !profile.marks.is_empty() {
        out.write_all(b",\"marks\":")?;
        allotrope_text::to_json_writer(&mut out, &Marks(profile))?;
    }
    if profile.is_growing {
        out.write_all(b",\"still_recording\":true")?;
    }
    out.write_all(b"}\n")?;
    out.flush()
}

fn write_process(
    process: &Process,
    profile: &Profile,
    per: Option<f64>,
    (rules, types, headlines): (&mut RuleFinder<'_>, &BlockTypes<'_>, &Headlines),
    numbers: &Numbers,
    out: &mut dyn Write,
) -> io::Result<()> {
    let sites = process.sites.iter();
    let rules: Vec<Option<&Rule>> = sites.map(|site| rules.rule(site)).collect();
    let mut suppressed = Suppressed::default();
    for (site, rule) in process.sites.iter().zip(&rules) {
        if let Some(rule) = rule {
            suppressed.add(&[(site, *rule)]);
        }
    }
    let counts_only = profile.is_counts_only();
    let mut form = process_form(process, profile);
    form.per = per;
    if let Some(per) = per {
        form.totals.allocations_each = Some(process.totals.allocations as f64 / per);
        form.totals.allocated_bytes_each = Some(process.totals.allocated_bytes as f64 / per);
    }
    if !suppressed.is_empty() {
        let [blocks, bytes] = suppressed.total();
        form.totals.suppressed_allocations = Some(blocks);
        form.totals.suppressed_bytes = Some(bytes);
    }
    let mut head = Vec::new();
    allotrope_text::to_json_writer(&mut head, &form)?;
    if counts_only {
        return out.write_all(&head);
    }
    // The sites are the last field.
    head.pop();
    out.write_all(&head)?;
    out.write_all(b",\"sites\":[")?;
    let additions = Additions {
        rules: &rules,
        per,
        types,
        headlines,
        duration_us: process.duration_us,
    };
    json_sites::write(&process.sites, &additions, numbers, out)?;
    out.write_all(b"]}")
}

/// The named moments.
struct Marks<'a>(&'a Profile);

#[derive(Serialize)]
struct MarkForm<'a> {
    name: &'a str,
    /// Seconds since the start of the first process.
    seconds: f64,
}

impl Serialize for Marks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let started = self.0.processes.iter().map(|it| it.started_us).min();
        let start_ns = started.unwrap_or(0).saturating_mul(1000);
        serializer.collect_seq(self.0.marks.iter().map(|mark| MarkForm {
            name: &mark.name,
            seconds: mark.time_ns.saturating_sub(start_ns) as f64 / 1e9,
        }))
    }
}

pub(crate) struct Frames<'a>(pub &'a Profile, pub Option<&'a SourceLines>);

/// The windows of a process; the flag means that calls were only counted.
struct Windows<'a>(&'a Process, bool);

pub(crate) struct ExitForm(pub Exit);

#[derive(Serialize)]
struct RecordedFrameForm<'a> {
    #[serde(flatten)]
    frame: FrameForm<'a>,
    /// Index into the modules; null if the frame is in none.
    module_index: Option<u32>,
    /// The line of code, if lines were requested and it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

/// All fields of a process except its sites.
#[derive(Serialize)]
struct ProcessForm<'a> {
    id: u32,
    pid: u32,
    parent_pid: u32,
    origin: &'static str,
    /// The process from which it was forked; null if it was not, or that is unknown.
    forked_from: Option<u32>,
    executable: Cow<'a, str>,
    command: Vec<Cow<'a, str>>,
    exit: ExitForm,
    started_us: u64,
    duration_us: u64,
    complete: bool,
    lost_events: u64,
    ambiguous_events: u64,
    waits: u64,
    waited_us: u64,
    /// The number by which figures are also divided; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    per: Option<f64>,
    totals: TotalsForm,
    /// Absent if there was no scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    reachability: Option<ReachabilityForm>,
    threads: Vec<ThreadForm<'a>>,
    entries: Vec<EntryForm>,
    /// `null` if they were not gathered.
    sizes: Option<Vec<SizeForm>>,
    /// Null if calls were only counted.
    live: Option<SeriesForm>,
    resident: Vec<ResidentForm>,
    /// A program without windows has no such field.
    #[serde(skip_serializing_if = "Option::is_none")]
    windows: Option<Windows<'a>>,
    /// Null if calls were only counted; otherwise not written here.
    #[serde(skip_serializing_if = "Option::is_none")]
    sites: Option<()>,
}

#[derive(Serialize)]
struct ThreadForm<'a> {
    tid: u32,
    name: &'a str,
    allocations: u64,
    allocated_bytes: u64,
    deallocations: u64,
    temporary_allocations: Option<u64>,
    waits: u64,
    waited_us: u64,
}

#[derive(Serialize)]
struct EntryForm {
    entry: &'static str,
    allocations: u64,
    allocated_bytes: u64,
    deallocations: u64,
}

#[derive(Serialize)]
struct SizeForm {
    up_to_bytes: u64,
    allocations: u64,
    allocated_bytes: u64,
    peak_allocations: u64,
    peak_bytes: u64,
    leaked_allocations: u64,
    leaked_bytes: u64,
}

impl SizeForm {
    fn of(figures: &SizeFigures) -> Self {
        Self {
            up_to_bytes: figures.up_to_bytes,
            allocations: figures.allocations,
            allocated_bytes: figures.allocated_bytes,
            peak_allocations: figures.allocations_at_peak,
            peak_bytes: figures.bytes_at_peak,
            leaked_allocations: figures.leaked_allocations,
            leaked_bytes: figures.leaked_bytes,
        }
    }
}

#[derive(Serialize)]
struct TotalsForm {
    allocations: u64,
    allocated_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocations_each: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated_bytes_each: Option<f64>,
    deallocations: u64,
    reallocations: u64,
    temporary_allocations: Option<u64>,
    leaked_allocations: Option<u64>,
    leaked_bytes: Option<u64>,
    /// Leaked blocks that suppressions leave out of rankings; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed_allocations: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed_bytes: Option<u64>,
    peak_bytes: Option<u64>,
    peak_allocations: Option<u64>,
    peak_time_us: Option<u64>,
    inherited_allocations: Option<u64>,
    inherited_bytes: Option<u64>,
    inherited_deallocations: Option<u64>,
}

impl Serialize for Frames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = |frame| frame_form(self.0, self.1, frame);
        serializer.collect_seq(self.0.frames.iter().map(form))
    }
}

impl Serialize for Windows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = |run| WindowForm::of(self.0, run, self.1);
        serializer.collect_seq(self.0.windows.iter().map(form))
    }
}

impl Serialize for ExitForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self.0 {
            Exit::Status(status) => map.serialize_entry("status", &status)?,
            Exit::Signal(signal) => map.serialize_entry("signal", &signal_name(signal))?,
            Exit::Exec => map.serialize_entry("exec", &true)?,
            Exit::Running | Exit::Unknown => map.serialize_entry("running", &true)?,
        }
        map.end()
    }
}

fn frame_form<'a>(
    profile: &'a Profile,
    source: Option<&SourceLines>,
    frame: &'a Frame,
) -> RecordedFrameForm<'a> {
    RecordedFrameForm {
        frame: FrameForm {
            offset: frame.offset.or(Some(0)),
            generated: Some(frame.generated),
            ..FrameForm::new(frame, profile.module_name(frame))
        },
        module_index: ((frame.module as usize) < profile.modules.len()).then_some(frame.module),
        source: source.and_then(|source| source.line(frame)),
    }
}

fn process_form<'a>(process: &'a Process, profile: &Profile) -> ProcessForm<'a> {
    let counts_only = profile.is_counts_only();
    ProcessForm {
        id: process.id,
        pid: process.pid,
        parent_pid: process.parent_pid,
        origin: match process.origin {
            Origin::First => "first",
            Origin::Fork => "fork",
            Origin::Exec => "exec",
        },
        forked_from: process.forked_from,
        executable: text_of_path(&process.executable),
        command: process
            .command
            .iter()
            .map(|word| text_of_os(word))
            .collect(),
        exit: ExitForm(process.exit),
        started_us: process.started_us,
        duration_us: process.duration_us,
        complete: process.complete,
        lost_events: process.lost_events,
        ambiguous_events: process.ambiguous_events,
        waits: process.waits,
        waited_us: process.waited_us,
        per: None,
        totals: totals_form(&process.totals, counts_only),
        reachability: process.reachability.as_ref().map(ReachabilityForm::of),
        threads: threads(process, counts_only),
        entries: entries(process),
        sizes: process
            .sizes
            .as_ref()
            .map(|sizes| sizes.iter().map(SizeForm::of).collect()),
        live: (!counts_only).then(|| SeriesForm::of(process, profile.processes.len())),
        resident: resident(process),
        windows: (!process.windows.is_empty()).then_some(Windows(process, counts_only)),
        sites: counts_only.then_some(()),
    }
}

fn threads(process: &Process, counts_only: bool) -> Vec<ThreadForm<'_>> {
    let threads = process.threads.iter().map(|thread| ThreadForm {
        tid: thread.tid,
        name: &thread.name,
        allocations: thread.allocations,
        allocated_bytes: thread.allocated_bytes,
        deallocations: thread.deallocations,
        temporary_allocations: (!counts_only).then_some(thread.temporary_allocations),
        waits: thread.waits,
        waited_us: thread.waited_us,
    });
    threads.collect()
}

fn entries(process: &Process) -> Vec<EntryForm> {
    let entries = process.entries.iter().map(|it| EntryForm {
        entry: it.entry.name(),
        allocations: it.allocations,
        allocated_bytes: it.allocated_bytes,
        deallocations: it.deallocations,
    });
    entries.collect()
}

fn totals_form(totals: &Totals, counts_only: bool) -> TotalsForm {
    let measured = |number| (!counts_only).then_some(number);
    TotalsForm {
        allocations: totals.allocations,
        allocated_bytes: totals.allocated_bytes,
        allocations_each: None,
        allocated_bytes_each: None,
        deallocations: totals.deallocations,
        reallocations: totals.reallocations,
        temporary_allocations: measured(totals.temporary_allocations),
        leaked_allocations: measured(totals.leaked_allocations),
        leaked_bytes: measured(totals.leaked_bytes),
        suppressed_allocations: None,
        suppressed_bytes: None,
        peak_bytes: measured(totals.peak_bytes),
        peak_allocations: measured(totals.peak_allocations),
        peak_time_us: measured(totals.peak_time_us),
        inherited_allocations: measured(totals.inherited_allocations),
        inherited_bytes: measured(totals.inherited_bytes),
        inherited_deallocations: measured(totals.inherited_deallocations),
    }
}
