//! The report for people.

use std::io::{self, Write};

use allotrope_text::numbers::count;
use allotrope_text::{cut, shown, write_wrapped};

use crate::cpu::profile::{Operations, Profile, Row, Share};

/// Narrowest and widest lines.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=200;

/// How the report begins.
pub(crate) const START: &str = "CPU inside the allocator: ";
/// The report without samples.
pub(crate) const NOTHING: &str = "no samples: hardly any CPU time was used";

/// Writes the report: `top` rows of each table, lines of at most `width` columns.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, top: usize, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let width = width.clamp(*WIDTHS.start(), *WIDTHS.end());
    head(profile, width, out)?;
    if profile.inside.samples > 0 {
        let tables = [
            ("by entry point", &profile.entry_points),
            ("by function", &profile.functions),
            ("by line", &profile.lines),
            ("by calling site", &profile.sites),
        ];
        for (title, rows) in tables {
            table(title, rows, top, width, out)?;
        }
    }
    counters(profile, width, out)
}

fn head(profile: &Profile, width: usize, out: &mut dyn Write) -> io::Result<()> {
    if profile.samples == 0 {
        return writeln!(out, "{NOTHING}");
    }
    let inside = &profile.inside;
    writeln!(
        out,
        "{START}{} (95 %: {} to {}), {} of {} samples",
        percent(inside.share),
        percent(inside.low),
        percent(inside.high),
        inside.samples,
        profile.samples,
    )?;
    for allocator in &profile.allocators {
        writeln!(out, "allocator: {}", shown(allocator))?;
    }
    let clock = match profile.clock {
        "cpu-clock" => "cpu-clock (this machine offers no PMU)".to_owned(),
        clock => format!("{clock}, precise_ip {}", profile.precise_ip),
    };
    let kernel = match profile.kernel {
        true => "user space and kernel",
        false => {
            "user space only (time in the kernel needs kernel.perf_event_paranoid of at most 1)"
        }
    };
    let seconds = profile.cpu_seconds;
    let seconds = seconds.map_or_else(String::new, |it| format!(", {it:.2} s of CPU time"));
    write_wrapped(
        out,
        &format!("clock: {clock}; {kernel}{seconds}"),
        ["", "  "],
        width,
    )?;
    write_wrapped(out, &format!("skid: {}", profile.skid), ["", "  "], width)?;
    if profile.lost > 0 {
        let line = format!(
            "lost: {} records, because the kernel's buffer was full, so that shares can be wrong; {}",
            count(profile.lost),
            match profile.is_lost_to_counters {
                true => "samples of counters filled it, which --frequency does not change",
                false => "use a lower --frequency",
            }
        );
        write_wrapped(out, &line, ["", "  "], width)?;
    }
    if profile.samples_without_stack * 50 > profile.samples {
        let share = profile.samples_without_stack as f64 / profile.samples as f64;
        let line = format!(
            "{} of the samples have no stack (32-bit code, or code that is in no file): they count as outside",
            percent(share)
        );
        write_wrapped(out, &line, ["", "  "], width)?;
    }
    Ok(())
}

fn table(
    title: &str,
    rows: &[Row],
    top: usize,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\n{title}\n  share  ±95 %  kernel  samples")?;
    for row in rows.iter().take(top) {
        let Share {
            samples,
            kernel_samples,
            share,
            low,
            high,
        } = row.share;
        let kernel = kernel_samples as f64 / samples.max(1) as f64;
        let start = format!(
            "{:>7} {:>6} {:>7} {samples:>8}  ",
            percent(share),
            format!("{:.1}", 50.0 * (high - low)),
            percent(kernel)
        );
        let room = width.saturating_sub(start.chars().count());
        writeln!(out, "{start}{}", cut(&name(row), room))?;
    }
    if rows.len() > top {
        writeln!(out, "  … {} more", rows.len() - top)?;
    }
    Ok(())
}

/// Function, place and module.
fn name(row: &Row) -> String {
    let module = row.module.rsplit('/').next().unwrap_or_default();
    let place = match (&*row.file, row.line) {
        ("", _) => String::new(),
        (file, line) => format!(" {}:{line}", file.rsplit('/').next().unwrap_or(file)),
    };
    let module = match module {
        "" => String::new(),
        _ if row.function.starts_with(module) => String::new(),
        module => format!(" ({module})"),
    };
    shown(&format!("{}{place}{module}", row.function)).into_owned()
}

fn counters(profile: &Profile, width: usize, out: &mut dyn Write) -> io::Result<()> {
    if profile.samples == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "\ncounters inside the allocator (estimated from samples), of all that was counted"
    )?;
    for (name, counter) in &profile.counters {
        let Some(counter) = counter else {
            let why = match profile.lost_counters.contains(name) {
                true => ", because records were lost",
                false => "",
            };
            writeln!(out, "  {name:<16} unavailable{why}")?;
            continue;
        };
        let (inside, total) = (counter.inside, counter.total);
        let each = match (counter.per_operation, inside) {
            (Some(each), _) => format!(", {each:.4} an operation"),
            (None, 0) => ", too little for a sample".to_owned(),
            (None, _) => String::new(),
        };
        writeln!(out, "  {name:<16} {inside} of {total}{each}")?;
    }
    match (profile.operations, profile.nanoseconds_per_operation) {
        (Some(_), Some(ns)) => {
            writeln!(out, "  {:<16} {ns:.1} ns of CPU time an operation", "time")?
        }
        (Some(_), None) => {}
        (None, _) => {
            return write_wrapped(
                out,
                "an operation: unavailable, because the number of calls is not known; --count runs the program once more to count them, --recording FILE takes them from a recording of it",
                ["  ", "    "],
                width,
            );
        }
    }
    let source = match profile.operations_source {
        Some(Operations::RECORDING) => "of the recording",
        Some(Operations::SECOND_RUN) => "counted in a second run of the program",
        _ => "as given",
    };
    let operations = profile.operations.map_or_else(String::new, count);
    write_wrapped(
        out,
        &format!("{operations} operations, {source}"),
        ["  ", "    "],
        width,
    )
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
