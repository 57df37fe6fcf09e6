//! The report for people.

use allotrope_text::cut_middle;
use allotrope_text::document::{Document, Table, left, right};
use allotrope_text::numbers::{bytes, count, duration, plural};

use super::{Report, Row, SpreadRow, SwitchRow};

/// The report as a document.
pub fn document(report: &Report) -> Document {
    let mut document = Document::default();
    let recorded = &report.recording;
    let command = recorded.command_line();
    document.heading(1, format!("{command} (process {})", recorded.pid));
    document.list(facts(report));
    let is_measured = |row: &&Row| row.ns_per_operation.is_some();
    let measured: Vec<&Row> = report.allocators.iter().filter(is_measured).collect();
    if measured.is_empty() {
        return document;
    }
    document.gap();
    document.table(times(&measured));
    document.text("RSS: memory that the allocator got from the system; /live: peak RSS in peak live bytes. tied: the difference lies inside the noise, which is the larger spread.");
    percentiles(&measured, report.replay.clock_resolution_ns, &mut document);
    switching(report, &mut document);
    document
}

/// What was replayed, and how.
fn facts(report: &Report) -> Vec<String> {
    let recorded = &report.recording;
    let threads = plural(recorded.threads as usize, "thread", "threads");
    let mut facts = vec![
        format!(
            "{} operations, {threads}, {} blocks at most",
            count(recorded.operations),
            count(recorded.most_blocks.into()),
        ),
        format!(
            "{} live at the peak, {} at the end",
            bytes(recorded.peak_live_bytes),
            bytes(recorded.final_live_bytes),
        ),
    ];
    if recorded.threads > 1 {
        let order = "threads run one at a time, in the recorded order: waiting for each other is not measured";
        facts.push(order.to_owned());
    }
    let dropped = [
        (
            recorded.foreign_frees,
            "deallocations of unknown blocks left out",
        ),
        (
            recorded.foreign_reallocations,
            "reallocations of unknown blocks replayed as allocations",
        ),
        (
            recorded.lost_frees,
            "deallocations added that were not recorded",
        ),
        (
            recorded.lost_events,
            "calls that the recording lost are not replayed",
        ),
    ];
    let dropped = dropped.iter().filter(|(number, _)| *number > 0);
    facts.extend(dropped.map(|(number, what)| format!("{} {what}", count(*number))));
    let setup = &report.replay;
    let touched = match (setup.touch, setup.touched_share) {
        ("none", _) => "blocks are not written".to_owned(),
        ("first", _) => "the first byte of each block is written".to_owned(),
        ("all", _) => "a byte in each page of each block is written".to_owned(),
        (_, share) => format!(
            "the first {:.0} % of each block are written",
            share.unwrap_or_default() * 100.0
        ),
    };
    let runs = match setup.runs {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs of each, in turn"),
    };
    let null = setup.null_ns_per_operation.map_or(0.0, |it| it.median);
    facts.push(format!("{runs}; {touched}"));
    facts.push(setup.environment.text());
    facts.push(format!(
        "the replay's own {null:.2} ns an operation are subtracted"
    ));
    if let Some(calibration) = &setup.calibration {
        let verdict = match calibration.agrees {
            true => "agrees to 5 %",
            false => "does NOT agree to 5 %",
        };
        facts.push(format!(
            "calibrated with {}: memory grows by {}, recorded {}: {verdict}",
            recorded.allocator,
            bytes(calibration.replayed_bytes),
            bytes(calibration.recorded_bytes),
        ));
    }
    facts
}

/// Of long names the middle is left out: those of two builds of an allocator often differ at the
/// end only.
fn times(rows: &[&Row]) -> Table {
    let first = rows.first().and_then(|row| row.ns_per_operation);
    let against = rows.first().map_or("", |row| &row.name);
    let against: String = format!("vs {against}").chars().take(12).collect();
    let titles = [
        "ns/op",
        "low–high",
        &against,
        "peak RSS",
        "final RSS",
        "/live",
    ];
    let names = left("allocator").cut_by(cut_middle);
    let columns = [names].into_iter().chain(titles.map(right));
    let rows = rows.iter().filter_map(|row| {
        let time = row.ns_per_operation?;
        let overhead = row.peak_overhead.map(|it| format!("{it:.2}"));
        Some([
            row.name.clone(),
            format!("{:.1}", time.median),
            format!("{:.1}–{:.1}", time.low, time.high),
            compared(row, time, first),
            bytes(row.peak_rss_bytes.unwrap_or_default()),
            bytes(row.final_rss_bytes.unwrap_or_default()),
            overhead.unwrap_or_default(),
        ])
    });
    Table::new(columns).indent(0).rows(rows)
}

fn compared(row: &Row, time: SpreadRow, first: Option<SpreadRow>) -> String {
    let ratio = first.map(|first| time.median / first.median);
    match (row.compared, ratio) {
        (Some("tied"), _) => "tied".to_owned(),
        (Some("unknown"), Some(ratio)) => format!("{ratio:.2}x ?"),
        (Some(_), Some(ratio)) => format!("{ratio:.2}x"),
        _ => String::new(),
    }
}

fn percentiles(rows: &[&Row], resolution: Option<f64>, document: &mut Document) {
    if rows.iter().all(|row| row.percentiles.is_empty()) {
        return;
    }
    let resolution = resolution.unwrap_or(0.0);
    let ns = |value: f64| match value < resolution {
        true => format!("<{resolution:.0}"),
        false => format!("{value:.0}"),
    };
    let texts = [left("ns a call").cut_by(cut_middle), left("")];
    let numbers = ["calls", "50 %", "90 %", "99 %", "99.9 %"].map(right);
    let mut table = Table::new(texts.into_iter().chain(numbers)).indent(0);
    for row in rows {
        for (index, line) in row.percentiles.iter().enumerate() {
            table.row([
                if index == 0 { &row.name } else { "" }.to_owned(),
                line.call.to_owned(),
                count(line.calls),
                ns(line.p50_ns),
                ns(line.p90_ns),
                ns(line.p99_ns),
                ns(line.p999_ns),
            ]);
        }
    }
    document.gap();
    document.table(table);
    document.text(format!("each call measured by itself in a run of its own, without what measuring takes; two readings of the clock differ by {resolution:.0} ns or more"));
}

fn switching(report: &Report, document: &mut Document) {
    let switching = &report.switching;
    if let Some(why) = &switching.unknown {
        document.gap();
        return document.text(format!("Is switching worth it? Not known: {why}"));
    }
    let Some(from) = switching.from.as_ref().filter(|_| !switching.to.is_empty()) else {
        return;
    };
    document.gap();
    let time = duration(report.recording.wall_seconds * 1e6);
    document.text(format!(
        "Is switching from {from} worth it? The program ran {time}."
    ));
    if !report.recording.allocator_is_known {
        document.text("The recording does not name its allocator; --recorded-with does.");
    }
    if report.recording.threads > 1 {
        document.text(SEVERAL);
    }
    document.list(switching.to.iter().map(|row| {
        let why = row.why.as_ref().map(|why| format!("; {why}"));
        format!("{}: {}{}", row.name, worth(row), why.unwrap_or_default())
    }));
}

/// What a saving of several threads is.
const SEVERAL: &str = "Several threads: a saving is CPU time of all of them; how much of it is the program's \
     time is known only as a bound, because they may run at the same time.";

fn worth(row: &SwitchRow) -> String {
    let verdict = match row.worth {
        "time" if row.is_bound => "perhaps, for time",
        "both" if row.is_bound => "yes, for memory, and perhaps for time",
        "time" => "yes, for time",
        "memory" => "yes, for memory",
        "both" => "yes",
        "too-little" => "too little to tell",
        _ => "no",
    };
    let signed = |value: f64, text: String| match value < 0.0 {
        true => format!("{text} more"),
        false => format!("{text} less"),
    };
    let time = match row.saved_seconds.abs() <= row.saved_seconds_error {
        true => format!(
            "time inside the noise (±{:.1} % of it)",
            row.saved_share_error * 100.0
        ),
        false if row.is_bound => {
            let seconds = duration(row.saved_seconds.abs() * 1e6);
            signed(row.saved_seconds, seconds)
                + &format!(
                    " CPU time, at most {:.1} % ±{:.1} % of the program's",
                    row.saved_share.abs() * 100.0,
                    row.saved_share_error * 100.0
                )
        }
        false => {
            signed(
                row.saved_seconds,
                format!(
                    "{:.1} % ±{:.1} %",
                    row.saved_share.abs() * 100.0,
                    row.saved_share_error * 100.0
                ),
            ) + " time"
        }
    };
    let peak = row.saved_peak_rss_bytes;
    let memory = match peak.abs() <= row.saved_peak_rss_bytes_error {
        true => "memory inside the noise".to_owned(),
        false => signed(peak, bytes(peak.abs() as u64)) + " memory",
    };
    format!("{verdict}: {time}, {memory}")
}
