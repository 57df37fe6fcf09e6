//! What stands out, as sentences with their evidence.

use std::collections::BTreeMap;

use allotrope_text::document::Document;
use allotrope_text::numbers::percent;

use crate::paths::analysis::{LOCKED, SYSTEM_CALL};
use crate::paths::report::{Allocator, Callee, Path};
use crate::source::excerpt;

/// Largest number of functions of a path that a sentence has.
const NAMED: usize = 6;

/// Share of operations from which on work that an allocator should not do is a finding.
const OPERATIONS: f64 = 0.01;
/// A path is hotter than its size class explains from so many times the class's median …
const TIMES: f64 = 4.0;
/// … if it has this share of its entry point's instructions.
const INSTRUCTIONS: f64 = 0.1;

/// The findings of an allocator, the heaviest first.
pub(crate) fn findings(allocator: &Allocator) -> Vec<String> {
    let mut found = Vec::new();
    for callee in &allocator.callees {
        let Some(what) = habit(callee) else {
            continue;
        };
        for entry in &callee.entry_points {
            if entry.share_of_operations <= OPERATIONS {
                continue;
            }
            let share = percent(entry.share_of_operations);
            let where_and_what = match is_instruction(callee) {
                true => format!("in {}{}", callee.caller, place(callee)),
                false => format!(
                    "{} is called by {}{}, and takes {} of the instructions of {}",
                    callee.function,
                    callee.caller,
                    place(callee),
                    percent(entry.share_of_instructions),
                    entry.entry_point,
                ),
            };
            let entry = &entry.entry_point;
            let advice = advice(callee);
            found.push(format!(
                "{entry} {what} in {share} of its operations: {where_and_what}; {advice}"
            ));
        }
    }
    found.extend(hot_paths(allocator));
    found
}

/// A system call or locked instruction in the allocator's own code.
fn is_instruction(callee: &Callee) -> bool {
    callee.function == LOCKED || callee.function == SYSTEM_CALL
}

/// What calls of this kind mean; `None` for those that are an allocator's business. A
/// locked instruction need not be a lock: many allocators count with them.
fn habit(callee: &Callee) -> Option<&'static str> {
    match &*callee.kind {
        "environment" => Some("looks up the environment"),
        "locale" => Some("asks for the locale"),
        "string compare" => Some("compares strings"),
        "lock" if is_instruction(callee) => Some("executes a locked instruction"),
        "lock" => Some("takes a lock"),
        "system call" => Some("makes a system call"),
        _ => None,
    }
}

/// What to do about calls of this kind.
fn advice(callee: &Callee) -> &'static str {
    match &*callee.kind {
        "environment" => {
            "read it once, at the start or in the first call, and keep the answer in a variable"
        }
        "locale" => "use functions that do not depend on the locale",
        "string compare" => "compare once, at the start, and keep the answer as a number or a flag",
        "lock" if is_instruction(callee) => {
            "keep what it protects for each thread, or change it less often, in batches"
        }
        "lock" => "keep a cache of blocks for each thread, and take the lock to fill or empty it",
        _ => "do it for many blocks at a time: take more memory at once, and return it later",
    }
}

/// The largest number of places that are shown with their source.
const PLACES: usize = 3;

/// The source lines of the findings, the heaviest first.
pub(crate) fn places(callees: &[Callee]) -> Vec<(&str, u32)> {
    let is_finding = |it: &&Callee| {
        let mut entries = it.entry_points.iter();
        habit(it).is_some() && entries.any(|it| it.share_of_operations > OPERATIONS)
    };
    let mut places: Vec<(&str, u32)> = Vec::new();
    for callee in callees.iter().filter(is_finding) {
        let place = (&*callee.file, callee.line);
        if !place.0.is_empty() && !places.contains(&place) {
            places.push(place);
        }
    }
    places.truncate(PLACES);
    places
}

/// Shows the source around the lines of the findings, where it is on this machine.
pub(crate) fn show_places(callees: &[Callee], document: &mut Document) {
    for (file, line) in places(callees) {
        if let Some(excerpt) = excerpt(file, line) {
            document.text(format!("{file}:{line}"));
            document.lines(excerpt);
        }
    }
}

fn hot_paths(allocator: &Allocator) -> Vec<String> {
    // The classes of an entry point together: a path may have operations of several.
    let mut medians: BTreeMap<&str, u64> = BTreeMap::new();
    for class in &allocator.size_classes {
        let median = medians.entry(&class.entry_point).or_default();
        *median = class.median.max(*median);
    }
    let hot = allocator.paths.iter().filter(|path| {
        let median = medians.get(&*path.entry_point).copied().unwrap_or(0);
        path.share_of_instructions >= INSTRUCTIONS
            && path.instructions >= TIMES * median.max(1) as f64
    });
    let sentences = hot.map(|path| {
        format!(
            "one path of {} is hotter than any size class explains: {} takes {} of its instructions in {} of its operations, {:.0} instructions an operation, where the median of the dearest size class is {}",
            path.entry_point,
            names(path),
            percent(path.share_of_instructions),
            percent(path.share_of_operations),
            path.instructions,
            medians.get(&*path.entry_point).copied().unwrap_or(0),
        )
    });
    sentences.collect()
}

/// The functions of a path; of a long one, the first and the last ones.
pub(crate) fn names(path: &Path) -> String {
    let functions = path.functions.iter().map(|it| &*it.function);
    let mut names: Vec<&str> = functions.filter(|it| !it.starts_with('[')).collect();
    if names.len() > NAMED {
        let last = names.split_off(names.len() - NAMED / 2);
        names.truncate(NAMED / 2);
        names.push("…");
        names.extend(last);
    }
    names.join(" → ")
}

fn place(callee: &Callee) -> String {
    match (&*callee.file, callee.line) {
        ("", _) | (_, 0) => String::new(),
        (file, line) => format!(" ({file}:{line})"),
    }
}
