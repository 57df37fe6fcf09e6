//! The summary at the end of `record`: the totals of the trace, what is missing
//! from it, and the command to run next. It is printed to stderr, since stdout belongs
//! to the program.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use allotrope_formats::Limits;
use allotrope_text::{Shown, quoted, shown};

use allotrope_collector::protocol::Done;
use allotrope_profile::warnings::{times, warnings};
use allotrope_profile::{Process, Profile};
use allotrope_reading::Reader;
use allotrope_report::numbers::{bytes, count, duration, share};
use anyhow::anyhow;

use crate::message;
use crate::progress::Progress;

/// Largest number of warnings in the summary; the report shows all.
const MAX_WARNINGS: usize = 10;

/// Why a recording has no process image.
pub fn nothing_recorded(done: &Done) -> anyhow::Error {
    match done.unrecorded.first() {
        Some(image) => anyhow!(
            "nothing was recorded: process {} ({}): {}",
            image.pid,
            image.executable.shown(),
            image.reason
        ),
        None => anyhow!(
            "nothing was recorded: the program did not load the recorder; run `allotrope doctor PROGRAM` to find out why"
        ),
    }
}

/// Reads the trace back and prints its summary.
pub fn print(path: &Path, done: &Done, progress: Arc<Progress>) {
    let profile = Reader::new(Limits::default(), progress)
        .open(path)
        .and_then(|mut recording| recording.profile());
    match profile {
        Ok(profile) => {
            // Nobody may read it.
            let _ = write!(std::io::stderr(), "{}", summary(path, done, &profile));
        }
        // The recording itself succeeded; only reading it back failed.
        Err(error) => message::print(format_args!(
            "the trace was written, but cannot be summed up: {:#}",
            anyhow::Error::from(error)
        )),
    }
}

fn summary(path: &Path, done: &Done, profile: &Profile) -> String {
    let mut text = String::new();
    let mut line = |word: &str, value: &dyn Display| {
        let value = value.to_string();
        text.push_str(&format!("allotrope: {word:<12} {}\n", shown(&value)));
    };
    let total = |of: fn(&Process) -> u64| {
        let values = profile.processes.iter().map(of);
        values.fold(0, u64::saturating_add)
    };
    let allocations = total(|process| process.totals.allocations);
    let part = |number: u64| match allocations {
        0 => count(number),
        all => format!("{} ({})", count(number), share(number, all)),
    };
    let allocated = bytes(total(|process| process.totals.allocated_bytes));
    line(
        "allocations",
        &format!("{}, {allocated}", count(allocations)),
    );
    if profile.is_counts_only() {
        for word in ["leaked", "temporary", "peak"] {
            line(word, &"not measured (--counts-only)");
        }
    } else {
        let leaked = part(total(|process| process.totals.leaked_allocations));
        let leaked_bytes = bytes(total(|process| process.totals.leaked_bytes));
        line("leaked", &format!("{leaked}, {leaked_bytes}"));
        let temporary = total(|process| process.totals.temporary_allocations);
        line("temporary", &part(temporary));
        if let Some(peak) = peak(profile) {
            line("peak", &peak);
        }
    }
    line("processes", &count(profile.processes.len() as u64));
    let lost = total(|process| process.lost_events).max(done.lost_events);
    line("events lost", &count(lost));
    let waits = total(|process| process.waits);
    if waits > 0 {
        let waited = duration(total(|process| process.waited_us) as f64);
        let value = format!("{}, {waited}, for the recording", times(waits));
        line("waited", &value);
    }
    line(
        "trace",
        &format!("{} ({})", path.shown(), bytes(done.bytes)),
    );
    if allocations == 0 {
        line(
            "warning",
            &"not one allocation was seen; if the program makes any, run `allotrope doctor PROGRAM` to find out why",
        );
    }
    for complaint in &done.complaints {
        line("warning", complaint);
    }
    let all = warnings(profile);
    for warning in all.iter().take(MAX_WARNINGS) {
        line("warning", warning);
    }
    if all.len() > MAX_WARNINGS {
        let more = all.len() - MAX_WARNINGS;
        line("warning", &format!("{more} more; the report shows them"));
    }
    line(
        "next",
        &format!("allotrope report {}", quoted(path.as_os_str())),
    );
    text
}

/// The largest peak of any process, and its time since the start of that process.
fn peak(profile: &Profile) -> Option<String> {
    let process = profile
        .processes
        .iter()
        .max_by_key(|process| process.totals.peak_bytes)?;
    let of = match profile.processes.len() {
        1 => String::new(),
        _ => format!(" in process {} (pid {})", process.id, process.pid),
    };
    Some(format!(
        "{}{of} after {}",
        bytes(process.totals.peak_bytes),
        duration(process.totals.peak_time_us as f64)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_collector::protocol::Unrecorded;

    #[test]
    fn the_error_of_an_empty_recording_has_the_reason() {
        let mut done = Done::default();
        assert!(nothing_recorded(&done).to_string().contains("doctor"));
        done.unrecorded.push(Unrecorded {
            pid: 7,
            executable: "/x".into(),
            reason: "because".into(),
            partly: false,
        });
        let error = nothing_recorded(&done).to_string();
        assert!(error.contains("7 (/x): because"), "{error}");
    }
}
