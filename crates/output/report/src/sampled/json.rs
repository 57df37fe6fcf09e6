//! A sampled profile as JSON, format `allotrope-sampled/1`. `docs/report-json.md` documents
//! every field, and `docs/sampled.schema.json` is its schema. A stable contract, as
//! `allotrope-report/1` is.

use std::borrow::Cow;
use std::io::{self, Write};

use allotrope_profile::sampled::{
    Estimate, SampledFigures, SampledProcess, SampledProfile, SampledTime,
};
use allotrope_profile::warnings::all_sampled_warnings;
use allotrope_profile::{Process, Site};
use allotrope_text::{text_of_os, text_of_path};
use allotrope_trace::model::Sampling;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::json::{ExitForm, Frames};
use crate::json_recording::ModuleForm;

#[derive(Serialize)]
struct RecordingForm<'a> {
    command: Vec<Cow<'a, str>>,
    started_unix_us: Option<u64>,
    duration_us: u64,
    tool_version: &'a str,
    system: &'a str,
    architecture: &'a str,
    depth_limit: u32,
}

#[derive(Serialize)]
struct SamplingForm {
    /// Null: sampling was off.
    period_bytes: Option<u64>,
    /// Null: sampling was never on.
    longest_period_bytes: Option<u64>,
    /// Null: sampling was never on, or that is not known.
    since_us: Option<u64>,
    /// Null: it was on when the memory was read.
    until_us: Option<u64>,
    /// Null: not known.
    is_complete: Option<bool>,
    lost_samples: u64,
    lost_stacks: u64,
    lost_totals: u64,
    unreadable: u64,
}

#[derive(Serialize)]
struct ProcessForm<'a> {
    id: u32,
    pid: u32,
    parent_pid: u32,
    executable: Cow<'a, str>,
    command: Vec<Cow<'a, str>>,
    exit: ExitForm,
    started_us: u64,
    duration_us: u64,
    sampling: SamplingForm,
    totals: Option<FiguresForm<'a>>,
    sites: Vec<SiteForm<'a>>,
}

#[derive(Serialize)]
struct SiteForm<'a> {
    number: u32,
    stack: &'a [u32],
    #[serde(flatten)]
    figures: FiguresForm<'a>,
}

/// The figures, each with its interval; those of deallocations are of totals only.
struct FiguresForm<'a> {
    figures: &'a SampledFigures,
    is_total: bool,
}

impl Serialize for FiguresForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let figures = self.figures;
        let mut map = serializer.serialize_map(None)?;
        let sets = [
            ("live_blocks", "live_bytes", &figures.live),
            ("allocations", "allocated_bytes", &figures.allocated),
            ("deallocations", "deallocated_bytes", &figures.freed),
        ];
        let sets = sets.into_iter().take(if self.is_total { 3 } else { 2 });
        for (blocks, bytes, set) in sets {
            estimate(&mut map, blocks, &figures.blocks(set))?;
            estimate(&mut map, bytes, &set.bytes())?;
        }
        map.serialize_entry("live_samples", &figures.live.samples())?;
        map.serialize_entry("samples", &figures.allocated.samples())?;
        for unknown in ["peak_bytes", "temporary_allocations", "reallocations"] {
            map.serialize_entry(unknown, &None::<u64>)?;
        }
        map.end()
    }
}

/// The estimate, rounded, and its interval, rounded outwards; null: the end is not known. The casts
/// saturate.
fn estimate<M: SerializeMap>(map: &mut M, name: &str, it: &Estimate) -> Result<(), M::Error> {
    let Estimate { value, low, high } = it.rounded();
    map.serialize_entry(name, &(value as u64))?;
    map.serialize_entry(&format!("{name}_low"), &(low as u64))?;
    let high = it.known_high().map(|_| high as u64);
    map.serialize_entry(&format!("{name}_high"), &high)
}

fn total(figures: &SampledFigures) -> FiguresForm<'_> {
    FiguresForm {
        figures,
        is_total: true,
    }
}

fn sampling(it: &Sampling, on: Option<SampledTime>) -> SamplingForm {
    let known = |period: u64| (period > 0).then_some(period);
    SamplingForm {
        period_bytes: known(it.period),
        longest_period_bytes: known(it.longest_period),
        since_us: on.and_then(|it| it.since_us),
        until_us: on.and_then(|it| it.until_us),
        is_complete: on.map(|it| it.is_complete),
        lost_samples: it.lost_samples,
        lost_stacks: it.lost_stacks,
        lost_totals: it.lost_totals,
        unreadable: it.unreadable,
    }
}

fn process<'a>((it, samples): (&'a Process, &'a SampledProcess)) -> ProcessForm<'a> {
    ProcessForm {
        id: it.id,
        pid: it.pid,
        parent_pid: it.parent_pid,
        executable: text_of_path(&it.executable),
        command: it.command.iter().map(|it| text_of_os(it)).collect(),
        exit: ExitForm(it.exit),
        started_us: it.started_us,
        duration_us: it.duration_us,
        sampling: sampling(&samples.sampling, samples.on),
        totals: samples.totals.as_ref().map(total),
        sites: it.sites.iter().zip(&samples.sites).map(site).collect(),
    }
}

fn site<'a>((site, figures): (&'a Site, &'a SampledFigures)) -> SiteForm<'a> {
    SiteForm {
        number: site.number,
        stack: &site.stack,
        figures: FiguresForm {
            figures,
            is_total: false,
        },
    }
}

/// Writes the whole profile and a newline.
pub fn write(profile: &SampledProfile, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    let tables = &profile.profile;
    let recording = &tables.recording;
    let started = recording.started_unix_ns;
    let ends = tables.processes.iter();
    let ends = ends.map(|it| it.started_us.saturating_add(it.duration_us));
    let modules: Vec<_> = tables.modules.iter().map(ModuleForm::of).collect();
    let processes: Vec<_> = profile.sampled_processes().map(process).collect();
    let totals = profile.totals();
    out.write_all(b"{\"format\":\"allotrope-sampled/1\",\"recording\":")?;
    let form = RecordingForm {
        command: recording.command.iter().map(|it| text_of_os(it)).collect(),
        started_unix_us: (started > 0).then_some(started / 1000),
        duration_us: ends.max().unwrap_or(0),
        tool_version: &recording.tool_version,
        system: &recording.system,
        architecture: &recording.architecture,
        depth_limit: recording.depth_limit,
    };
    allotrope_text::to_json_writer(&mut out, &form)?;
    out.write_all(b",\"warnings\":")?;
    let mut warnings = profile.warnings();
    warnings.extend(all_sampled_warnings(profile));
    allotrope_text::to_json_writer(&mut out, &warnings)?;
    out.write_all(b",\"totals\":")?;
    allotrope_text::to_json_writer(&mut out, &totals.as_ref().map(total))?;
    out.write_all(b",\"processes\":")?;
    allotrope_text::to_json_writer(&mut out, &processes)?;
    out.write_all(b",\"frames\":")?;
    allotrope_text::to_json_writer(&mut out, &Frames(tables, None))?;
    out.write_all(b",\"modules\":")?;
    allotrope_text::to_json_writer(&mut out, &modules)?;
    out.write_all(b"}\n")?;
    out.flush()
}
