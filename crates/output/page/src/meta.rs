//! The sentences of the page and what it says about itself: few and of many kinds, so they
//! are JSON, compressed with the rest.

use allotrope_profile::sampled::SampledFigures;
use allotrope_profile::warnings::warnings;
use allotrope_profile::{Metric, Process, RunTimes, command_text};
use allotrope_text::{shown, shown_path};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::Page;
use crate::sampled::{Function, Sums};

/// What the page does not have, and therefore says.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LeftOut {
    /// Processes that are not in it at all.
    pub processes: u64,
    /// Processes of which it has totals only.
    pub totals_only: u64,
    /// Sites of which it has the headline function only.
    pub stacks: u64,
    /// Allocations of these sites.
    pub stack_allocations: u64,
    /// Sites whose blocks are in wider buckets of time.
    pub widened: u64,
    /// The binary logarithm of the number of buckets that became one.
    pub widest: u8,
    /// Sites without sizes, and without who allocates and frees.
    pub details: u64,
    /// Places without their code, for lack of room.
    pub source: u64,
}

#[derive(Serialize)]
struct Meta<'a> {
    file: String,
    command: String,
    tool: String,
    system: String,
    /// 0: unknown.
    started_unix_ms: u64,
    started_ns: u64,
    ended_ns: u64,
    /// `recording`, `counts`, `sampled`, or `stacks`: those that another tool wrote.
    kind: &'static str,
    /// Of `stacks`: the name of their format; otherwise empty.
    format: &'a str,
    /// Of `stacks`: the names of the metrics that they have. Everything else is unknown.
    known: Vec<&'static str>,
    /// Of `stacks`: what they do not have, in words.
    lacks: Vec<&'static str>,
    complete: bool,
    growing: bool,
    free_stacks: bool,
    /// Something was not recorded, though no event was lost: a process, a library's calls, or
    /// allocations before the recording, whose blocks were freed; or events are missing.
    partly: bool,
    warnings: Vec<String>,
    findings: Vec<FindingForm<'a>>,
    unrecorded: Vec<String>,
    left_out: LeftOut,
    names_cut: u64,
    carried: usize,
    samples: Option<Samples>,
    /// Sentences on source files that are missing, or newer than the recording.
    source: Vec<String>,
}

#[derive(Serialize)]
struct FindingForm<'a> {
    rule: &'a str,
    severity: &'a str,
    title: String,
    measure: String,
    text: String,
    advice: String,
    /// Index of its process in the page; null if that has totals only.
    process: Option<usize>,
    frame: Option<u64>,
    /// Numbers of sites, the largest first.
    sites: &'a [u32],
}

/// What the samples of a sampled profile give: intervals, for each of the metrics.
#[derive(Serialize)]
struct Samples {
    /// Bytes between two samples, on average.
    period: u64,
    metrics: Vec<&'static str>,
    total: Option<Sums>,
    /// Sums of each process of the page.
    processes: Vec<Option<Sums>>,
    /// The functions with most live bytes.
    functions: Vec<Function>,
}

/// The most sites that a finding lists; the text of the report lists fewer.
const MAX_SITES: usize = 1000;
/// Warnings and unrecorded programs that are listed.
const MAX_LISTED: usize = 50;

/// Writes them. `frames` are the page's frames of the findings.
pub fn meta(
    page: &Page<'_>,
    processes: &[&Process],
    left_out: LeftOut,
    names_cut: u64,
    frames: &[Option<u64>],
    carried: usize,
) -> String {
    let profile = page.profile;
    let recording = &profile.recording;
    let run = RunTimes::of(profile);
    let clean = |text: &str| shown(text).into_owned();
    let findings = page
        .findings
        .iter()
        .zip(frames)
        .map(|(it, &frame)| FindingForm {
            rule: it.rule.name(),
            severity: it.severity.name(),
            title: clean(&it.title),
            measure: clean(&it.measure),
            text: clean(&it.text),
            advice: clean(&it.advice),
            process: processes
                .iter()
                .take(carried)
                .position(|process| process.id == it.process),
            frame,
            sites: &it.sites[..it.sites.len().min(MAX_SITES)],
        });
    // What was recorded in part is among the warnings.
    let unrecorded = profile.unrecorded.iter().filter(|it| !it.partly);
    let unrecorded = unrecorded.take(MAX_LISTED).map(|it| {
        let executable = shown_path(&it.executable);
        format!("{executable} (process {}): {}", it.pid, shown(&it.reason))
    });
    let mut sentences = warnings(profile);
    if let Some(sampled) = page.sampled {
        sentences = sampled.warnings();
    }
    let (mut known, mut lacks) = (Vec::new(), Vec::new());
    if let Some(imported) = page.imported {
        sentences = imported.notes.to_vec();
        for metric in Metric::OF_STACKS {
            match (imported.known.has(metric), metric) {
                (true, _) => known.push(metric.name()),
                (false, Metric::Lifetime) => lacks.push("lifetimes"),
                (false, _) => lacks.push(metric.words()),
            }
        }
        lacks.extend(["times", "threads", "sizes", "single blocks"]);
    }
    let command = match page.imported {
        Some(imported) => imported.title.to_owned(),
        None => command_text(&recording.command),
    };
    let meta = Meta {
        file: clean(page.file),
        command: clean(&command),
        tool: clean(&recording.tool_version),
        system: clean(&recording.system),
        started_unix_ms: recording.started_unix_ns / 1_000_000,
        started_ns: run.started_ns,
        ended_ns: run.ended_ns,
        kind: match (page.sampled, profile.is_counts_only()) {
            _ if page.imported.is_some() => "stacks",
            (Some(_), _) => "sampled",
            (None, true) => "counts",
            (None, false) => "recording",
        },
        format: page.imported.map_or("", |imported| imported.format),
        known,
        lacks,
        complete: profile.is_complete(),
        growing: profile.is_growing,
        free_stacks: recording.free_stacks,
        partly: !profile.unrecorded.is_empty()
            || (profile.processes.iter())
                .any(|it| it.unmatched_deallocations > 0 || !it.gaps.is_empty()),
        warnings: sentences
            .iter()
            .take(MAX_LISTED)
            .map(|it| clean(it))
            .collect(),
        findings: findings.collect(),
        unrecorded: unrecorded.collect(),
        left_out,
        names_cut,
        carried,
        samples: page.sampled.map(|sampled| Samples {
            period: sampled.longest_period(),
            metrics: SampledFigures::METRICS.iter().map(|it| it.name()).collect(),
            total: sampled.totals().map(|it| Sums::of(&it)),
            processes: {
                let all = sampled.sampled_processes();
                let sums = all.map(|(process, it)| (process.id, &it.totals));
                let sums: FxHashMap<_, _> = sums.collect();
                let of = |it: &&Process| sums.get(&it.id)?.as_ref().map(Sums::of);
                processes.iter().map(of).collect()
            },
            functions: crate::sampled::functions(sampled, page),
        }),
        source: page
            .source
            .map(|source| source.warnings())
            .unwrap_or_default(),
    };
    // Nothing of it can fail to be written.
    serde_json::to_string(&meta).unwrap_or_default()
}
