//! The output in JSON: one object a line. `docs/watch.md` has the keys.

use std::io::{self, Write};

use allotrope_sampling::estimate::{Estimate, Figures, MIN};
use allotrope_shm::samples::reader::State;
use allotrope_text::to_json_string;
use serde_json::{Map, Value, json};

use crate::blocks::{self, BlockRow, Which};
use crate::nameless;
use crate::names::NamedFrame;
use crate::report::{ProcessRow, Report, SiteRow};
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
    let mut object = object("report");
    object.insert("time".into(), seconds(report.real_time));
    object.insert(
        "mark_time".into(),
        report.mark_time.map_or(Value::Null, seconds),
    );
    object.insert("old_age_seconds".into(), seconds(report.old_age));
    put_sums(&mut object, report.total.as_ref(), MIN);
    let processes: Vec<Value> = report.processes.iter().map(process).collect();
    object.insert("processes".into(), processes.into());
    object.insert("sites".into(), report.sites.iter().map(site).collect());
    object.insert("more_sites".into(), report.more_sites.into());
    let warnings = nameless::sentences(&report.sites, 0);
    object.insert("warnings".into(), warnings.into());
    let mut suppressed = Map::new();
    suppressed.insert("sites".into(), report.suppressed.sites.into());
    put_live(&mut suppressed, report.suppressed.live.as_ref());
    if report.total.is_some() && report.suppressed.live.is_none() {
        let none = Estimate::exact(0.0);
        put(&mut suppressed, "live_bytes", none);
        put(&mut suppressed, "live_blocks", none);
    }
    object.insert("suppressed".into(), suppressed.into());
    if let Some(mark) = &report.high_water {
        let mut high_water = Map::new();
        high_water.insert("time".into(), seconds(mark.real_time));
        high_water.insert("is_new".into(), mark.is_new.into());
        put_live(&mut high_water, mark.total.as_ref().map(|it| &it.live));
        high_water.insert("sites".into(), mark.sites.iter().map(site).collect());
        object.insert("high_water".into(), high_water.into());
    }
    line(object, out)
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
    let kind = match which {
        Which::Live | Which::Unsuppressed => "live_block",
        Which::Old => "old_block",
        Which::Freed => "freed_block",
    };
    for snapshot in snapshots {
        blocks::each(watch, snapshot, which, &mut |it| line(block(it, kind), out))?;
    }
    Ok(())
}

/// Writes an object for each block that was live at the high-water mark, if there is one.
///
/// # Errors
/// Those of `out`.
pub fn write_high_water(watch: &mut Watch, out: &mut dyn Write) -> io::Result<()> {
    for snapshot in watch.high_water().iter().flat_map(|it| it.iter()) {
        blocks::each(watch, snapshot, Which::Live, &mut |it| {
            let mut object = block(it, "high_water_block");
            object.insert("time".into(), seconds(snapshot.real_time));
            line(object, out)
        })?;
    }
    Ok(())
}

/// Writes that something has happened to a process: `process_found`, `process_ended`, ….
///
/// # Errors
/// Those of `out`.
pub fn write_event(kind: &str, process: u32, time: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut object = object(kind);
    object.insert("pid".into(), process.into());
    object.insert("time".into(), seconds(time));
    line(object, out)
}

/// Writes what is kept of a process that has ended.
///
/// # Errors
/// Those of `out`.
pub fn write_kept(state: &State, command: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut object = object("kept_process");
    object.insert("pid".into(), state.process.id.into());
    object.insert("command".into(), command.into());
    object.insert("started".into(), seconds(state.process.began_real));
    put_live(&mut object, state.live().as_ref());
    line(object, out)
}

fn object(kind: &str) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("format".into(), FORMAT.into());
    object.insert("kind".into(), kind.into());
    object
}

fn line(object: Map<String, Value>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", to_json_string(&Value::from(object))?)
}

fn process(row: &ProcessRow) -> Value {
    let mut object = Map::new();
    object.insert("pid".into(), row.process.into());
    object.insert("name".into(), row.name.clone().into());
    object.insert(
        "period_bytes".into(),
        row.period.map_or(0, |it| it.bytes()).into(),
    );
    put_sums(&mut object, row.sums.as_ref(), MIN);
    let counters = &row.counters;
    for (name, number) in [
        ("sampled", counters.sampled),
        ("freed", counters.freed),
        ("lost_samples", counters.lost_samples),
        ("lost_stacks", counters.lost_stacks),
        ("lost_frees", counters.lost_frees),
        ("unreadable", row.unreadable),
    ] {
        object.insert(name.into(), number.into());
    }
    object.into()
}

fn site(row: &SiteRow) -> Value {
    let mut object = Map::new();
    put_sums(&mut object, Some(&row.sums), row.smallest());
    object.insert("trend".into(), row.trend.name().into());
    object.insert("oldest_seconds".into(), seconds(row.oldest));
    let of_process = |(process, live): &(u32, Figures)| {
        let mut object = Map::new();
        object.insert("pid".into(), (*process).into());
        put(&mut object, "live_bytes", live.bytes());
        Value::from(object)
    };
    object.insert(
        "processes".into(),
        row.processes.iter().map(of_process).collect(),
    );
    object.insert("stack".into(), stack(&row.stack));
    object.into()
}

fn block(row: &BlockRow, kind: &str) -> Map<String, Value> {
    let mut object = object(kind);
    object.insert("pid".into(), row.process.into());
    object.insert("address".into(), format!("{:#x}", row.address).into());
    object.insert("size".into(), row.size.into());
    object.insert("period_bytes".into(), row.period.bytes().into());
    object.insert("age_seconds".into(), seconds(row.age));
    object.insert("stack".into(), stack(&row.stack));
    if let Some((age, first)) = &row.first {
        object.insert("first_age_seconds".into(), seconds(*age));
        object.insert("first_stack".into(), stack(first));
    }
    if let Some(freed) = &row.freed {
        object.insert("freed_time".into(), seconds(freed.real_time));
        object.insert("free_stack".into(), stack(&freed.stack));
    }
    object
}

fn stack(frames: &[NamedFrame]) -> Value {
    let frame = |it: &NamedFrame| {
        json!({
            "function": &*it.function,
            "file": &*it.file,
            "line": it.line,
            "module": &*it.module,
            "address": format!("{:#x}", it.address),
        })
    };
    frames.iter().map(frame).collect()
}

fn put_live(object: &mut Map<String, Value>, live: Option<&Figures>) {
    object.insert("samples".into(), live.map_or(0, Figures::samples).into());
    if let Some(live) = live {
        put(object, "live_bytes", live.bytes());
        put(object, "live_blocks", live.blocks(MIN));
    }
}

fn put_sums(object: &mut Map<String, Value>, sums: Option<&Sums>, smallest: u64) {
    object.insert(
        "samples".into(),
        sums.map_or(0, |it| it.live.samples()).into(),
    );
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
fn put(object: &mut Map<String, Value>, name: &str, estimate: Estimate) {
    let Estimate { value, low, high } = estimate.rounded();
    object.insert(name.into(), (value as i64).into());
    object.insert(format!("{name}_low"), (low as i64).into());
    object.insert(format!("{name}_high"), (high as i64).into());
}

fn seconds(ns: u64) -> Value {
    (ns as f64 / 1e9).into()
}
