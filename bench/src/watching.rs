//! Measures what watching costs: a program that is prepared with sampling off, one that is watched, one
//! in standby, and tcmalloc, which samples itself, compared with itself without sampling.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::figures::{Median, short};
use crate::job::Figure;
use crate::real_programs;
use crate::results::Results;
use crate::row::{Extent, PAIRS, Row, churn, pair};
use crate::run::{Runner, Sample};
use crate::standard::{self, Effort, Measured};
use crate::tool::Tool;

/// Names of the ways: off, under the name that it has in older results; sampled one byte of so many.
const OFF: &str = "standby";
const OFTEN: &str = "512 KiB";
const SELDOM: &str = "32 MiB";
/// gperftools' tcmalloc, without and with its sampling.
const TCMALLOC: &str = "tcmalloc";
const TCMALLOC_SAMPLES: &str = "tcmalloc 512 KiB";

/// What poireau adds to rows, by their names, in nanoseconds a pair: it is in no distribution.
/// These were measured once, on another machine than the rest.
const POIREAU: [(&str, &str); 2] = [("pair-5-64", "+2.6 ns"), ("pair-5-1048576", "+161 ns")];

/// The rows.
pub fn rows(extent: Extent) -> Vec<Row> {
    vec![
        pair((5, PAIRS), extent, 1.0, 64, "64 B"),
        // From 64 KiB on each pair looks at the settings.
        pair((5, PAIRS / 5), extent, 4.0, 16 << 10, "16 KiB"),
        pair((5, PAIRS / 20), extent, 20.0, 128 << 10, "128 KiB"),
        // tcmalloc takes 10 µs for a sample.
        pair((5, PAIRS / 20), extent, 100.0, 1 << 20, "1 MiB"),
        churn(extent, 4, 1.02, 40_000_000),
        real_programs::server(extent),
        real_programs::web_server(extent),
    ]
}

/// Measures the rows under each of the ways.
pub fn measure(
    runner: &Runner,
    allotrope: &Tool,
    rows: impl Iterator<Item = Row>,
    effort: Effort,
) -> Result<Vec<Measured>> {
    let Tool::Allotrope(path) = allotrope else {
        bail!("there is no command to measure");
    };
    let watched = |name, period| Tool::Watched {
        path: path.clone(),
        name,
        period,
    };
    let mut tools = vec![
        Tool::Plain,
        watched(OFF, Some("off")),
        watched(OFTEN, Some("512KiB")),
        // Standby itself.
        watched(SELDOM, None),
    ];
    match tcmalloc() {
        Some(library) => {
            let preloaded = |name, setting| Tool::Preloaded {
                name,
                library: library.clone(),
                setting,
            };
            tools.push(preloaded(TCMALLOC, "TCMALLOC_SAMPLE_PARAMETER=0"));
            let sampling = "TCMALLOC_SAMPLE_PARAMETER=524288";
            tools.push(preloaded(TCMALLOC_SAMPLES, sampling));
        }
        None => eprintln!("without tcmalloc: Debian's libgoogle-perftools4 is not installed"),
    }
    let mut measured = Vec::new();
    for row in rows {
        match standard::measure(runner, (&tools, &[]), &row, effort) {
            Ok(row) => measured.push(row),
            Err(error) => eprintln!("{}: not measured: {error:#}", row.name),
        }
    }
    ensure!(!measured.is_empty(), "nothing was measured");
    Ok(measured)
}

fn tcmalloc() -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let mut paths = folders
        .iter()
        .map(|folder| Path::new(folder).join("libtcmalloc.so.4"));
    paths.find(|path| path.is_file())
}

/// The table of the results.
pub fn table(results: &Results<Vec<Measured>>) -> String {
    let mut text = format!(
        "{}.\n\n| program | plain | off | watched, 512 KiB | standby, 32 MiB | tcmalloc's own \
         sampling, 512 KiB | poireau, on another machine |\n| --- | --- | --- | --- | --- | --- | --- |\n",
        results.head()
    );
    for row in &results.measured {
        let (unit, scale) = match row.figure {
            Figure::NanosecondsPrinted => (" ns", 1.0),
            Figure::Wall => (" s", 1.0),
            Figure::Requests => (" K/s", 1e-3),
        };
        let plain = row.median("plain", |sample| sample.figure * scale);
        let plain = plain.map_or_else(
            || "failed".to_owned(),
            |it| it.text_with_interval(unit, short),
        );
        let pairs = [
            ("plain", OFF),
            ("plain", OFTEN),
            ("plain", SELDOM),
            (TCMALLOC, TCMALLOC_SAMPLES),
        ];
        let cells = pairs.map(|(without, with)| cost(row, without, with));
        let poireau = POIREAU.iter().find(|(name, _)| *name == row.name);
        let poireau = poireau.map_or("not measured", |(_, cost)| cost);
        let cells = cells.join(" | ");
        text += &format!("| {} | {plain} | {cells} | {poireau} |\n", row.what);
        if row.figure != Figure::NanosecondsPrinted {
            text += &cpu_time(row, pairs);
        }
    }
    text
}

/// The row of a program's CPU time: neither its clients' nor its neighbours' time is in it.
fn cpu_time(row: &Measured, pairs: [(&str, &str); 4]) -> String {
    let is_server = row.figure == Figure::Requests;
    let plain = row.median("plain", work);
    let (unit, scale, what) = match is_server {
        true => (" µs", 1e6, "a request"),
        false => (" s", 1.0, "all threads"),
    };
    let plain = plain.map_or_else(
        || "failed".to_owned(),
        |it| it.text_with_interval(unit, |it| short(it * scale)),
    );
    let cells = pairs.map(|(without, with)| {
        let cost = row.against(without, with, |with, without| {
            (work(with) / work(without) - 1.0) * 100.0
        });
        shown(cost, " %")
    });
    let cells = cells.join(" | ");
    format!("| – its CPU time, {what} | {plain} | {cells} | not measured |\n")
}

/// CPU time of the program in seconds; of a server, for each request.
fn work(sample: &Sample) -> f64 {
    sample.target_cpu / sample.requests.unwrap_or(1.0)
}

/// What one way costs compared with another: nanoseconds, or a part of time or throughput.
fn cost(row: &Measured, without: &str, with: &str) -> String {
    let is_pair = row.figure == Figure::NanosecondsPrinted;
    let cost = row.against(without, with, |with, without| match is_pair {
        true => with.figure - without.figure,
        false => (with.figure / without.figure - 1.0) * 100.0,
    });
    shown(cost, if is_pair { " ns" } else { " %" })
}

fn shown(cost: Option<Median>, unit: &str) -> String {
    let form = |number: f64| format!("{number:+.1}");
    cost.map_or_else(
        || "not measured".to_owned(),
        |it| it.text_with_interval(unit, form),
    )
}
