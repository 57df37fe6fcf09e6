//! The first screen in Markdown (CommonMark with GitHub's tables), for an issue or a pull
//! request.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_attribution::Attributed;
use allotrope_profile::warnings::warnings;
use allotrope_profile::{Frame, Process, Profile, command_text};
use allotrope_text::Role;
use allotrope_text::document::{Document, Table, Text, left, right};

use crate::groups::{Grouping, groups};
use crate::numbers::{bytes, count, duration, share};
use crate::reachability;
use crate::selection::processes;
use crate::text::{Screen, TextOptions, how_it_ended, peak_curve, wanted_finding, what_is_left};

/// Largest number of rows of a table.
const MAX: usize = 10;
/// Columns of the curve.
const COLUMNS: usize = 60;

/// Writes the answer of the first screen.
pub fn write(screen: &Screen<'_>, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let profile = screen.attributed.profile;
    let shown: Vec<&Process> = processes(profile, options).collect();
    let command = match shown.as_slice() {
        [one] => command_text(&one.command),
        _ => command_text(&profile.recording.command),
    };
    let mut document = Document::default();
    document.heading(3, Text::of(Role::Code, command));
    warnings(profile)
        .into_iter()
        .for_each(|warning| document.warning(warning));
    match shown.as_slice() {
        [one] => totals(profile, one, &mut document),
        many => document.table(process_table(profile, many)),
    }
    if let Some(sentence) = reachability::sentence(&shown) {
        document.text(sentence);
    }
    findings(screen, options, &mut document);
    functions(screen, &shown, &mut document);
    document.write_markdown(out)
}

fn totals(profile: &Profile, process: &Process, document: &mut Document) {
    let totals = &process.totals;
    let before = format!(
        "{} · {} allocations · {} · peak ",
        duration(process.duration_us as f64),
        count(totals.allocations),
        how_it_ended(profile, process),
    );
    let after = format!(
        " after {} · {} {}",
        duration(totals.peak_time_us as f64),
        bytes(totals.leaked_bytes),
        what_is_left(profile, process),
    );
    let peak = bytes(totals.peak_bytes);
    document.text(
        Text::from(before)
            .and(Role::Title, peak)
            .and(Role::Plain, after),
    );
    if let Some(curve) = peak_curve(process, COLUMNS) {
        document.lines(curve);
    }
}

fn process_table(profile: &Profile, shown: &[&Process]) -> Table {
    let mut sorted = shown.to_vec();
    sorted.sort_by_key(|process| Reverse(process.totals.peak_bytes));
    let rows = sorted.iter().map(|process| {
        [
            process.id.to_string().into(),
            Text::of(Role::Code, command_text(&process.command)),
            count(process.totals.allocations).into(),
            bytes(process.totals.allocated_bytes).into(),
            bytes(process.totals.peak_bytes).into(),
            how_it_ended(profile, process).into(),
        ]
    });
    let numbers = ["allocations", "bytes", "peak"].map(right);
    let columns = [right("process"), left("command")]
        .into_iter()
        .chain(numbers);
    Table::new(columns.chain([left("end")])).rows(rows).top(MAX)
}

fn findings(screen: &Screen<'_>, options: &TextOptions, document: &mut Document) {
    let profile = screen.attributed.profile;
    let findings = screen.findings.iter();
    let mut findings = findings
        .filter_map(|finding| wanted_finding(finding, options))
        .peekable();
    if findings.peek().is_none() {
        return document.text("Nothing stands out.");
    }
    document.heading(4, "What stands out");
    document.numbered(findings.take(MAX).map(|finding| {
        let measure = format!(": {}", finding.measure);
        let mut text = Text::of(Role::Title, &*finding.title).and(Role::Plain, measure);
        let frame = finding.frame;
        if let Some(frame) = frame.and_then(|index| profile.frames.get(index as usize)) {
            text = place(text.and(Role::Plain, " in "), frame);
        }
        text.and(Role::Plain, format!(". {} ", finding.text))
            .and(Role::Emphasis, &*finding.advice)
    }));
}

fn functions(screen: &Screen<'_>, shown: &[&Process], document: &mut Document) {
    let Attributed { profile, headlines } = screen.attributed;
    let of_shown = shown.iter().copied();
    let mut all = groups(profile, of_shown, headlines, Grouping::Function);
    all.retain(|group| group.peak_bytes > 0);
    if all.is_empty() {
        return;
    }
    all.sort_by_key(|group| Reverse((group.peak_bytes, group.peak_blocks)));
    let whole: u64 = all.iter().map(|group| group.peak_bytes).sum();
    document.heading(4, "Held at the peak, by function");
    let rows = all.iter().take(MAX).map(|group| {
        let place = match group.frame {
            Some(frame) if group.is_unnamed => Text::of(Role::Code, profile.module_name(frame))
                .and(Role::Plain, ", functions without names"),
            Some(frame) => place(Text::default(), frame),
            None => "no stack".into(),
        };
        [
            bytes(group.peak_bytes).into(),
            share(group.peak_bytes, whole).into(),
            count(group.peak_blocks).into(),
            place,
        ]
    });
    let numbers = ["bytes", "share", "blocks"].map(right);
    let columns = numbers.into_iter().chain([left("function")]);
    document.table(Table::new(columns).rows(rows));
}

/// The text, a function and its line.
fn place(text: Text, frame: &Frame) -> Text {
    let text = text.and(Role::Code, &*frame.function);
    match (frame.file.rsplit('/').next(), frame.line) {
        (Some(file), line) if line > 0 => text
            .and(Role::Plain, " (")
            .and(Role::Code, format!("{file}:{line}"))
            .and(Role::Plain, ")"),
        _ => text,
    }
}
