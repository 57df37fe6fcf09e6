//! The output in JSON: one object a line. `docs/watch.md` has the keys.

use std::io::{self, Write};

use allotrope_sampling::estimate::{Estimate, Figures, MIN};
use allotrope_shm::samples::reader::State;
use allotrope_text::to_json_string;
use serde_json::{Value, json};

use crate::blocks::{self, BlockRow, Which};
use crate::nameless;
use crate::names::Frame;
use crate::report::{ProcessRow, Report, SiteRow, Together};
use crate::since::Since;
use crate::sites::Sums;
use crate::snapshot::Snapshot;
use crate::watch::Watch;

/// The format's name and version.
const FORMAT: &str = "allotrope-watch/1";

/// Writes a report.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let is_known = report.total.is_some();
    let mut object = json!({
        "time": seconds(report.real_time),
        "mark_time": report.mark_time.map(seconds),
        "old_age_seconds": seconds(report.old_age),
        "processes": list(&report.processes, process),
        "sites": list(&report.sites, site),
        "more_sites": report.more_sites,
        "warnings": nameless::sentences(&report.sites, 0),
        "suppressed": together(&report.suppressed, is_known),
        "few_samples": together(&report.few, is_known),
    });
    put_sums(&mut object, report.total.as_ref(), MIN);
    if let Some(mark) = &report.high_water {
        let mut high_water = json!({
            "time": seconds(mark.real_time),
            "is_new": mark.is_new,
            "sites": list(&mark.sites, site),
        });
        put_live(&mut high_water, mark.total.as_ref().map(|it| &it.live));
        object["high_water"] = high_water;
    }
    line("report", object, out)
}

/// Sites of which only the sums are reported. `is_known`: something was sampled.
fn together(these: &Together, is_known: bool) -> Value {
    let mut object = json!({"sites": these.sites});
    put_live(&mut object, these.live.as_ref());
    if is_known && these.live.is_none() {
        put(&mut object, "live_bytes", Estimate::exact(0.0));
        put(&mut object, "live_blocks", Estimate::exact(0.0));
    }
    object
}

/// Writes an object for each block.
///
/// # Errors
/// Those of `out`.
pub fn write_blocks(
    watch: &mut Watch,
    snapshots: &[Snapshot],
    which: Which,
    out: &mut dyn Write,
) -> io::Result<()> {
    for snapshot in snapshots {
        blocks::each(watch, snapshot, which, &mut |it| {
            write_block(which, it, out)
        })?;
    }
    Ok(())
}

/// Writes an object of a block.
pub(crate) fn write_block(which: Which, row: &BlockRow, out: &mut dyn Write) -> io::Result<()> {
    line(which.kind(), block(row), out)
}

/// Writes an object for each block that was live at the high-water mark, if there is one.
///
/// # Errors
/// Those of `out`.
pub fn write_high_water(watch: &mut Watch, out: &mut dyn Write) -> io::Result<()> {
    for snapshot in watch.high_water().iter().flat_map(|it| it.iter()) {
        blocks::each(watch, snapshot, Which::Live, &mut |it| {
            let mut object = block(it);
            object["time"] = seconds(snapshot.real_time);
            line("high_water_block", object, out)
        })?;
    }
    Ok(())
}

/// Writes that something has happened to a process: `process_found`, `process_ended`, ….
///
/// # Errors
/// Those of `out`.
pub fn write_event(kind: &str, process: u32, time: u64, out: &mut dyn Write) -> io::Result<()> {
    line(kind, json!({"pid": process, "time": seconds(time)}), out)
}

/// Writes what is kept of a process that has ended.
///
/// # Errors
/// Those of `out`.
pub fn write_kept(state: &State, command: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut object = json!({
        "pid": state.process.id,
        "command": command,
        "started": seconds(state.process.began_real),
    });
    put_live(&mut object, state.live().as_ref());
    put_since(&mut object, &Since::new(state));
    line("kept_process", object, out)
}

fn line(kind: &str, mut object: Value, out: &mut dyn Write) -> io::Result<()> {
    object["format"] = FORMAT.into();
    object["kind"] = kind.into();
    writeln!(out, "{}", to_json_string(&object)?)
}

fn list<T>(items: &[T], object: impl Fn(&T) -> Value) -> Value {
    items.iter().map(object).collect()
}

fn process(row: &ProcessRow) -> Value {
    let counters = &row.counters;
    let mut object = json!({
        "pid": row.process,
        "name": row.name,
        "period_bytes": row.period.map_or(0, |it| it.bytes()),
        "sampled": counters.sampled,
        "freed": counters.freed,
        "lost_samples": counters.lost_samples,
        "lost_stacks": counters.lost_stacks,
        "lost_frees": counters.lost_frees,
        "unreadable": row.unreadable,
    });
    if let Some(resident) = row.resident {
        object["resident_bytes"] = resident.bytes.into();
        object["recorder_bytes"] = resident.recorder_bytes.into();
    }
    put_sums(&mut object, row.sums.as_ref(), MIN);
    if let Some(since) = &row.since {
        put_since(&mut object, since);
    }
    object
}

fn site(row: &SiteRow) -> Value {
    let of_process = |(process, live): &(u32, Figures)| {
        let mut object = json!({"pid": process});
        put(&mut object, "live_bytes", live.bytes());
        object
    };
    let mut object = json!({
        "trend": row.trend.name(),
        "oldest_seconds": seconds(row.oldest),
        "processes": list(&row.processes, of_process),
        "stack": stack(&row.stack),
    });
    if let Some(it) = row.evidence {
        object["evidence"] = json!({
            "age_seconds": seconds(it.age),
            "reached": it.reached,
            "freed": it.freed,
        });
    }
    put_sums(&mut object, Some(&row.sums), row.smallest());
    object
}

fn block(row: &BlockRow) -> Value {
    let mut object = json!({
        "pid": row.process,
        "address": format!("{:#x}", row.address),
        "size": row.size,
        "period_bytes": row.period.bytes(),
        "age_seconds": seconds(row.age),
        "stack": stack(&row.stack),
    });
    if let Some((age, first)) = &row.first {
        object["first_age_seconds"] = seconds(*age);
        object["first_stack"] = stack(first);
    }
    if let Some(freed) = &row.freed {
        object["freed_time"] = seconds(freed.real_time);
        object["free_stack"] = stack(&freed.stack);
    }
    object
}

fn stack(frames: &[Frame]) -> Value {
    let frame = |it: &Frame| {
        json!({
            "function": &*it.function,
            "file": &*it.file,
            "line": it.line,
            "module": &*it.module.module,
            "address": format!("{:#x}", it.module.address),
        })
    };
    list(frames, frame)
}

fn put_live(object: &mut Value, live: Option<&Figures>) {
    object["samples"] = live.map_or(0, Figures::samples).into();
    if let Some(live) = live {
        put(object, "live_bytes", live.bytes());
        put(object, "live_blocks", live.blocks(MIN));
    }
}

fn put_sums(object: &mut Value, sums: Option<&Sums>, smallest: u64) {
    object["samples"] = sums.map_or(0, |it| it.live.samples()).into();
    let Some(sums) = sums else {
        return;
    };
    for (name, figures) in [("live", &sums.live), ("old", &sums.old)] {
        put(object, &format!("{name}_bytes"), figures.bytes());
        put(object, &format!("{name}_blocks"), figures.blocks(smallest));
    }
    put(object, "grown_bytes", sums.grown_bytes());
    put(object, "grown_blocks", sums.grown_blocks(smallest));
}

/// An estimate under its name, its ends under the name with `_low` and `_high`.
fn put(object: &mut Value, name: &str, estimate: Estimate) {
    let Estimate { value, low, high } = estimate.rounded();
    object[name] = (value as i64).into();
    // An end that is not known is `null`.
    let end = |it: f64| it.is_finite().then_some(it as i64);
    object[format!("{name}_low")] = end(low).into();
    object[format!("{name}_high")] = end(high).into();
}

/// When a process was sampled.
fn put_since(object: &mut Value, since: &Since) {
    object["sampled_since"] = since.since.map(seconds).into();
    object["sampled_until"] = since.until.map(seconds).into();
    object["is_complete"] = since.is_complete.into();
    object["periods"] = list(&since.periods, |(time, period)| {
        json!({
            "time": seconds(*time),
            "period_bytes": period.map_or(0, |it| it.bytes()),
        })
    });
}

fn seconds(ns: u64) -> Value {
    (ns as f64 / 1e9).into()
}
