//! The first lines of a report: the command, when it was recorded, and for how long.

use std::io::{self, Write};

use allotrope_profile::{Process, Profile, command_text};
use allotrope_trace::model::Exit;

use crate::numbers::{duration, moment, plural};
use crate::selection::processes;
use crate::shorten::clean;
use crate::signal::signal_name;
use crate::text::TextOptions;
use allotrope_text::document::write_lines;
use allotrope_text::{Role, cut_middle};

/// Writes the first lines of a report.
pub(super) fn write(
    profile: &Profile,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let width = options.style.columns();
    let command = cut_middle(&clean(&command_text(&profile.recording.command)), width);
    writeln!(out, "{}", options.style.paint(Role::Title, &command))?;
    let mut facts = Vec::new();
    if profile.recording.started_unix_ns > 0 {
        facts.push(format!(
            "recorded {}",
            moment(profile.recording.started_unix_ns)
        ));
    }
    // From the start of the first process to the end of the last: for one process what
    // JSON has as its `duration_us`, and never the start of the recording.
    let starts = profile.processes.iter().map(|process| process.started_us);
    let ends = profile.processes.iter();
    let ends = ends.map(|process| process.started_us.saturating_add(process.duration_us));
    let ran = ends
        .max()
        .zip(starts.min())
        .map_or(0, |(end, start)| end - start);
    facts.push(format!("ran {}", duration(ran as f64)));
    facts.push(plural(profile.processes.len(), "process", "processes"));
    if profile.is_growing {
        facts.push("still being recorded".to_owned());
    } else if profile.processes.len() == 1 {
        facts.extend(profile.processes.iter().map(|it| exit(profile, it)));
    }
    writeln!(out, "{}", cut_middle(&facts.join(" · "), width))?;
    if let Some(marks) = marks(profile, width) {
        writeln!(out, "{marks}")?;
    }
    if let Some(window) = &options.window {
        // All of it: the end has the iterations, by which figures are divided.
        let lines = options
            .style
            .fitted(&clean(window), ["", "  "], Role::Plain);
        write_lines(out, lines)?;
    }
    if let (Some(id), Some(process)) = (options.process, processes(profile, options).next()) {
        let line = format!("process {id}: {}", clean(&command_text(&process.command)));
        writeln!(out, "{}", cut_middle(&line, width))?;
    }
    Ok(())
}

/// The named moments, each with its time after the start of the first process.
pub(super) fn marks(profile: &Profile, width: usize) -> Option<String> {
    const MAX: usize = 8;
    let start_us = profile.processes.iter().map(|it| it.started_us).min();
    let start_ns = start_us.unwrap_or(0).saturating_mul(1000);
    let named = profile.marks.iter().take(MAX).map(|mark| {
        let ns = mark.time_ns.saturating_sub(start_ns);
        format!("{} {}", mark.name, duration(ns as f64 / 1e3))
    });
    let named: Vec<String> = named.collect();
    let more = match profile.marks.len().saturating_sub(MAX) {
        0 => String::new(),
        more => format!(" · {more} more"),
    };
    let line = || format!("marks: {}{more}", named.join(" · "));
    (!named.is_empty()).then(|| cut_middle(&clean(&line()), width))
}

/// How a process ended, in words. Where a trace is cut, the end of its processes is not in it.
pub(crate) fn exit(profile: &Profile, process: &Process) -> String {
    match process.exit {
        Exit::Status(status) => format!("exit {status}"),
        Exit::Signal(signal) => signal_name(signal),
        Exit::Exec => "exec".to_owned(),
        Exit::Running if profile.cut.is_some() => "cut".to_owned(),
        Exit::Running => "running".to_owned(),
        Exit::Unknown => "end unknown".to_owned(),
    }
}

/// What is live when the recording of a process ends, in words: leaked only if it ended itself.
pub(crate) fn left(profile: &Profile, process: &Process) -> &'static str {
    match process.exit {
        Exit::Running if profile.cut.is_some() => "live at the cut",
        Exit::Running => "live now",
        _ => "leaked",
    }
}
