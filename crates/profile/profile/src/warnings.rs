//! Warnings about a profile, a sentence each: facts that limit the meaning of its
//! figures.

pub mod nameless;

use std::path::Path;

use allotrope_text::numbers::{count, duration};
use allotrope_text::text_of_path;
use allotrope_trace::model::LossReason;

use crate::model::{Process, Profile};

pub use nameless::{all_sampled_warnings, sampled_warnings};

/// The warnings about the profile that people see, the most serious first: one sentence
/// each, on one line, without colour. Little code without names is none.
pub fn warnings(profile: &Profile) -> Vec<String> {
    with_nameless(profile, nameless::warnings(profile), 0.0)
}

/// All warnings about the profile, for programs.
pub fn all_warnings(profile: &Profile) -> Vec<String> {
    with_nameless(profile, nameless::all_warnings(profile), 0.0)
}

/// The warnings of [`warnings`] that change a figure by 1 % or more, or by an unknown part of it: for
/// texts that have room for little.
pub fn weighty_warnings(profile: &Profile) -> Vec<String> {
    const MIN_SHARE: f64 = 0.01;
    with_nameless(profile, nameless::warnings(profile), MIN_SHARE)
}

/// The warnings. Those about a part of a process are left out if the part is smaller than
/// `min_share` of it.
fn with_nameless(profile: &Profile, nameless: Vec<String>, min_share: f64) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(cut) = &profile.cut {
        all.push(format!("Incomplete: {cut}; what precedes is shown."));
    }
    all.extend(not_ended(profile));
    let weighs = |it: &&Process| weighs(it.lost_events, events_of(it), min_share);
    all.extend(profile.processes.iter().filter(weighs).filter_map(lost));
    for process in &profile.processes {
        all.extend(of_process(process, min_share));
    }
    let mut unoptimised: Vec<&Path> = Vec::new();
    for process in &profile.processes {
        if process.unoptimised == Some(true) && !unoptimised.contains(&&*process.executable) {
            unoptimised.push(&process.executable);
        }
    }
    all.extend(unoptimised.iter().map(|executable| {
        let executable = text_of_path(executable);
        format!(
            "{executable} was built without optimisation: its counts say little about an \
             optimised build."
        )
    }));
    all.extend(nameless);
    all.extend(unrecorded(profile));
    all
}

/// What a recording lacks, a sentence each, for commands that show something else of it: events
/// that were lost, names, processes. Where its file ends early is not among them.
pub fn missing(profile: &Profile) -> Vec<String> {
    let mut all: Vec<String> = not_ended(profile).into_iter().collect();
    all.extend(profile.processes.iter().filter_map(lost));
    all.extend(profile.processes.iter().filter_map(unmatched));
    all.extend(nameless::warnings(profile));
    all.extend(unrecorded(profile));
    all
}

/// The sentence about a recording that ended before its processes.
fn not_ended(profile: &Profile) -> Option<String> {
    let is_whole = profile.cut.is_some() || profile.is_growing || profile.is_complete();
    (!is_whole && !profile.processes.is_empty()).then(|| {
        "The recording ended before all of its processes; what was recorded until then is \
         shown."
            .to_owned()
    })
}

/// The sentences about processes and parts of processes that could not be recorded.
fn unrecorded(profile: &Profile) -> impl Iterator<Item = String> {
    profile.unrecorded.iter().map(|image| {
        if image.pid == 0 {
            return format!("Not recorded: {}", image.reason);
        }
        let how = if image.partly {
            "recorded only in part"
        } else {
            "not recorded"
        };
        let same_pid = |process: &&Process| process.pid == image.pid;
        let executable = match profile.processes.iter().find(same_pid) {
            Some(process) if image.executable.as_os_str().is_empty() => &process.executable,
            _ => &image.executable,
        };
        let executable = text_of_path(executable);
        format!(
            "Process {} ({executable}) was {how}: {}",
            image.pid, image.reason
        )
    })
}

/// A sentence for each process that waited for the recording. Its counts are exact, but
/// its times are too long.
pub fn waits(profile: &Profile) -> Vec<String> {
    let waited = profile.processes.iter().filter(|process| process.waits > 0);
    let sentence = |process: &Process| {
        let threads = process.threads.iter().filter(|thread| thread.waits > 0);
        let among = match threads.count() {
            0 | 1 => String::new(),
            many => format!(" in {} threads together", count(many as u64)),
        };
        format!(
            "{} waited {}, {}{among}, for the recording: durations and lifetimes include that.",
            subject(process),
            times(process.waits),
            duration(process.waited_us as f64)
        )
    };
    waited.map(sentence).collect()
}

/// `once`, `3 times`.
pub fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        _ => format!("{} times", count(number)),
    }
}

/// A sentence about the lost events of a process, if it has any.
fn lost(process: &Process) -> Option<String> {
    if process.lost_events == 0 {
        return None;
    }
    // The numbers of an overwritten buffer may be any.
    let reported =
        (process.losses.iter()).fold(0_u64, |sum, &(_, events)| sum.saturating_add(events));
    let mut why: Vec<String> = (process.losses.iter())
        .map(|&(reason, events)| format!("{} because {}", count(events), reason_text(reason)))
        .collect();
    let implied = process.lost_events.saturating_sub(reported);
    if implied > 0 {
        why.push(format!(
            "{} implied by addresses handed out twice",
            count(implied)
        ));
    }
    Some(format!(
        "{} lost {} ({}); its figures are too low.",
        subject(process),
        events(process.lost_events),
        why.join(", ")
    ))
}

/// Whether a part that is not nothing is at least this share of the whole.
fn weighs(part: u64, whole: u64, min_share: f64) -> bool {
    part > 0 && part as f64 >= whole as f64 * min_share
}

/// The events of a process.
fn events_of(process: &Process) -> u64 {
    let totals = &process.totals;
    totals.allocations.saturating_add(totals.deallocations)
}

/// The warnings about one process, other than about lost events.
fn of_process(process: &Process, min_share: f64) -> Vec<String> {
    let sites = process.sites.len() as u64;
    let weighs = |part, whole| weighs(part, whole, min_share);
    let mut all = Vec::new();
    if weighs(process.ambiguous_events, events_of(process)) {
        all.push(format!(
            "{}: the order of {} among its threads is not certain; totals do not depend \
             on it, the peak and temporary allocations may be off by as many.",
            subject(process),
            events(process.ambiguous_events)
        ));
    }
    if weighs(
        process.unmatched_deallocations,
        process.totals.deallocations,
    ) {
        all.extend(unmatched(process));
    }
    if weighs(process.truncated_stacks, sites) {
        all.push(format!(
            "{}: the depth limit cut {} of {} call stacks, shown with a last frame [truncated].",
            subject(process),
            count(process.truncated_stacks),
            count(process.sites.len() as u64)
        ));
    }
    if weighs(process.stacks_without_unwind_information, sites) {
        all.push(format!(
            "{}: code without unwind information cut {} of {} call stacks short.",
            subject(process),
            count(process.stacks_without_unwind_information),
            count(process.sites.len() as u64)
        ));
    }
    all
}

/// A sentence about blocks whose allocations were not seen, if there are any.
fn unmatched(process: &Process) -> Option<String> {
    (process.unmatched_deallocations > 0).then(|| {
        format!(
            "{} gave back {} that it was not seen to allocate.",
            subject(process),
            blocks(process.unmatched_deallocations)
        )
    })
}

/// The process as the subject of a sentence.
fn subject(process: &Process) -> String {
    format!("Process {} (pid {})", process.id, process.pid)
}

fn events(number: u64) -> String {
    let noun = if number == 1 { "event" } else { "events" };
    format!("{} {noun}", count(number))
}

fn blocks(number: u64) -> String {
    let noun = if number == 1 { "block" } else { "blocks" };
    format!("{} {noun}", count(number))
}

fn reason_text(reason: LossReason) -> &'static str {
    match reason {
        LossReason::RingFull => "the buffer was full and --on-full drop was given",
        LossReason::NoRing => "there was no buffer for a thread",
        LossReason::CollectorGone => "the recording process was gone",
        LossReason::Corrupt => "a buffer was overwritten by the program",
        LossReason::NoMemory => "the recorder had no memory",
        LossReason::TooEarly => "the recorder was not ready yet",
    }
}
