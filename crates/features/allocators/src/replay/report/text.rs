//! The report as text for people, at most 80 columns wide unless a name is long.

use std::io::{self, Write};

use allotrope_text::numbers::{bytes, count, duration};
use allotrope_text::{shown, write_wrapped};

use super::{Report, Row, SpreadRow, SwitchRow};

/// Widest lines, and indentation of what belongs to a name.
const WIDTH: usize = 80;
const WIDEST_INDENT: usize = 40;
/// Widest column of names: the wider table, that of times, has 67 columns besides.
const WIDEST_NAME: usize = WIDTH - 67;

/// Writes the report.
///
/// # Errors
///
/// Those of `out`.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    head(report, out)?;
    let width = name_width(report);
    let measured: Vec<&Row> = report
        .allocators
        .iter()
        .filter(|row| row.ns_per_operation.is_some())
        .collect();
    if measured.is_empty() {
        return Ok(());
    }
    table(&measured, width, out)?;
    let resolution = report.replay.clock_resolution_ns;
    percentiles(&measured, resolution, width, out)?;
    switching(report, width, out)
}

fn head(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let recorded = &report.recording;
    let command = match recorded.command.is_empty() {
        true => recorded.executable.clone(),
        false => recorded.command.join(" "),
    };
    let command = shown(&command);
    let command: String = match command.chars().count() {
        ..=60 => command.into_owned(),
        _ => command.chars().take(59).chain(['…']).collect(),
    };
    writeln!(out, "{command} (process {})", recorded.pid)?;
    let threads = match recorded.threads {
        1 => "1 thread".to_owned(),
        threads => format!("{} threads", count(threads.into())),
    };
    writeln!(
        out,
        "  {} operations, {threads}, {} blocks at most",
        count(recorded.operations),
        count(recorded.most_blocks.into()),
    )?;
    writeln!(
        out,
        "  {} live at the peak, {} at the end",
        bytes(recorded.peak_live_bytes),
        bytes(recorded.final_live_bytes),
    )?;
    if recorded.threads > 1 {
        writeln!(
            out,
            "  threads run one at a time, in the recorded order: waiting for each other\n  \
             is not measured"
        )?;
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
    for (number, what) in dropped.iter().filter(|(number, _)| *number > 0) {
        writeln!(out, "  {} {what}", count(*number))?;
    }
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
    writeln!(out, "  {runs}; {touched}")?;
    writeln!(
        out,
        "  the replay's own {null:.2} ns an operation are subtracted"
    )?;
    if let Some(calibration) = &setup.calibration {
        let verdict = match calibration.agrees {
            true => "agrees to 5 %",
            false => "does NOT agree to 5 %",
        };
        let line = format!(
            "calibrated with {}: memory grows by {}, recorded {}: {verdict}",
            shown(&recorded.allocator),
            bytes(calibration.replayed_bytes),
            bytes(calibration.recorded_bytes),
        );
        write_wrapped(out, &line, ["  ", "    "], WIDTH)?;
    }
    writeln!(out)
}

fn name_width(report: &Report) -> usize {
    let names = report.allocators.iter();
    let widths = names.map(|row| shown(&row.name).chars().count());
    widths
        .max()
        .unwrap_or(0)
        .clamp("allocator".len(), WIDEST_NAME)
}

/// A name in a column. Of a long one the middle is left out: the names of two builds of an
/// allocator often differ at the end only.
pub(crate) fn fitted(name: &str, width: usize) -> String {
    let name = shown(name);
    let columns = name.chars().count();
    if columns <= width {
        return name.into_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head = name.chars().take(width.saturating_sub(tail + 1));
    let tail = name.chars().skip(columns - tail);
    head.chain(['…']).chain(tail).collect()
}

fn table(rows: &[&Row], width: usize, out: &mut dyn Write) -> io::Result<()> {
    let first = rows.first().and_then(|row| row.ns_per_operation);
    let against = rows.first().map_or("", |row| &row.name);
    let against: String = format!("vs {}", shown(against)).chars().take(12).collect();
    writeln!(
        out,
        "{:width$}  {:>7}  {:>13}  {against:>12}  {:>9}  {:>9}  {:>5}",
        "allocator", "ns/op", "low–high", "peak RSS", "final RSS", "/live"
    )?;
    for row in rows {
        let Some(time) = row.ns_per_operation else {
            continue;
        };
        let range = format!("{:.1}–{:.1}", time.low, time.high);
        writeln!(
            out,
            "{:width$}  {:>7.1}  {range:>13}  {:>12}  {:>9}  {:>9}  {:>5}",
            fitted(&row.name, width),
            time.median,
            compared(row, time, first),
            bytes(row.peak_rss_bytes.unwrap_or_default()),
            bytes(row.final_rss_bytes.unwrap_or_default()),
            row.peak_overhead
                .map_or_else(String::new, |it| format!("{it:.2}")),
        )?;
    }
    writeln!(
        out,
        "RSS: memory that the allocator got from the system; /live: peak RSS in peak live\n\
         bytes. tied: the difference lies inside the noise, which is the larger spread.\n"
    )
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

fn percentiles(
    rows: &[&Row],
    resolution: Option<f64>,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.iter().all(|row| row.percentiles.is_empty()) {
        return Ok(());
    }
    writeln!(
        out,
        "{:width$}  {:14}  {:>11}  {:>6}  {:>6}  {:>7}  {:>8}",
        "ns a call", "", "calls", "50 %", "90 %", "99 %", "99.9 %"
    )?;
    let resolution = resolution.unwrap_or(0.0);
    let ns = |value: f64| match value < resolution {
        true => format!("<{resolution:.0}"),
        false => format!("{value:.0}"),
    };
    for row in rows {
        for (index, line) in row.percentiles.iter().enumerate() {
            let name = if index == 0 {
                fitted(&row.name, width)
            } else {
                String::new()
            };
            writeln!(
                out,
                "{name:width$}  {:14}  {:>11}  {:>6}  {:>6}  {:>7}  {:>8}",
                line.call,
                count(line.calls),
                ns(line.p50_ns),
                ns(line.p90_ns),
                ns(line.p99_ns),
                ns(line.p999_ns),
            )?;
        }
    }
    writeln!(
        out,
        "each call measured by itself in a run of its own, without what measuring takes;\n\
         two readings of the clock differ by {resolution:.0} ns or more\n"
    )
}

fn switching(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let switching = &report.switching;
    if let Some(why) = &switching.unknown {
        let line = format!("Is switching worth it? Not known: {}", shown(why));
        return write_wrapped(out, &line, ["", ""], WIDTH);
    }
    let Some(from) = &switching.from else {
        return Ok(());
    };
    if switching.to.is_empty() {
        return Ok(());
    }
    let time = duration(report.recording.wall_seconds * 1e6);
    let from = fitted(from, WIDEST_INDENT);
    let line = format!("Is switching from {from} worth it? The program ran {time}.");
    write_wrapped(out, &line, ["", ""], WIDTH)?;
    if !report.recording.allocator_is_known {
        writeln!(
            out,
            "The recording does not name its allocator; --recorded-with does."
        )?;
    }
    if report.recording.threads > 1 {
        write_wrapped(out, SEVERAL, ["", ""], WIDTH)?;
    }
    for row in &switching.to {
        let indent = " ".repeat(width.min(WIDEST_INDENT) + 2);
        let name = fitted(&row.name, WIDEST_INDENT);
        let line = format!("{name:width$}  {}", worth(row));
        write_wrapped(out, &line, ["", &indent], WIDTH)?;
        if let Some(why) = &row.why {
            write_wrapped(out, why, [&indent, &indent], WIDTH)?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_name_the_middle_is_left_out() {
        assert_eq!(fitted("glibc", 13), "glibc");
        assert_eq!(fitted("thirteen_char", 13), "thirteen_char");
        assert_eq!(fitted("libmine-before.so", 13), "libmin…ore.so");
        assert_eq!(fitted("libmine-after.so", 12), "libmin…er.so");
    }
}
