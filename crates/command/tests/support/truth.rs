//! Compares a recording's totals with the truth that a program's source states.
//!
//! The comment that derives a case's truth has a line
//! `truth CASE: allocations=3 bytes=30 …`; the program runs the case that its first
//! argument names. Totals that a truth does not name are 0. What the program allocates
//! in every case (libstdc++ sets memory aside before `main`) is recorded as the case
//! `nothing` and subtracted; this is exact for a peak, too, because that memory is
//! never freed.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use super::{Process, compile, record};

/// The short names of a truth and the report's names, in the report's order.
const NAMES: &[(&str, &str)] = &[
    ("allocations", "allocations"),
    ("bytes", "allocated_bytes"),
    ("deallocations", "deallocations"),
    ("reallocations", "reallocations"),
    ("temporary", "temporary_allocations"),
    ("leaked", "leaked_allocations"),
    ("leaked_bytes", "leaked_bytes"),
    ("peak", "peak_allocations"),
    ("peak_bytes", "peak_bytes"),
    ("inherited", "inherited_allocations"),
    ("inherited_bytes", "inherited_bytes"),
    ("inherited_deallocations", "inherited_deallocations"),
];

type Totals = BTreeMap<&'static str, u64>;

/// Records a case and compares its totals with its truth; they must be equal.
#[track_caller]
pub fn check(source: &str, case: &str) {
    let truth = stated(source, case);
    let nothing = totals_of_nothing(source);
    let found: Totals = totals(source, case)
        .into_iter()
        .map(|(name, total)| {
            let anyway = nothing[name];
            assert!(
                total >= anyway,
                "{source} {case}: {name} {total} < {anyway}"
            );
            (name, total - anyway)
        })
        .collect();
    assert_eq!(found, truth, "{source} {case} (left: found, right: truth)");
}

/// The truth that the source states for a case.
#[track_caller]
pub fn stated(source: &str, case: &str) -> Totals {
    let text = compile::source_text(source);
    let head = format!("truth {case}:");
    let mut stated = text.lines().filter_map(|line| line.split_once(&head));
    let (_, line) = stated
        .next()
        .unwrap_or_else(|| panic!("{source} states no truth for {case}"));
    assert!(stated.next().is_none(), "{source}: two truths for {case}");
    let mut totals: Totals = NAMES.iter().map(|(short, _)| (*short, 0)).collect();
    for word in line
        .split_whitespace()
        .take_while(|word| word.contains('='))
    {
        let (name, number) = word.split_once('=').expect("it contains one");
        let total = totals
            .get_mut(name)
            .unwrap_or_else(|| panic!("{source} {case}: {name} is no total"));
        *total = number.parse().expect("a truth is a number");
    }
    totals
}

fn totals_of_nothing(source: &str) -> Totals {
    static KNOWN: LazyLock<Mutex<BTreeMap<String, Totals>>> = LazyLock::new(Mutex::default);
    let known = |found: Option<Totals>| {
        let mut map = KNOWN
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(totals) = found {
            map.insert(source.to_owned(), totals);
        }
        map.get(source).cloned()
    };
    known(None).unwrap_or_else(|| known(Some(totals(source, "nothing"))).expect("just put in"))
}

#[track_caller]
fn totals(source: &str, case: &str) -> Totals {
    let recording = record(compile::compiled(source)).arg(case).run().ok();
    let report = recording.report();
    let process: Process<'_> = report.only();
    assert_eq!(process.number("lost_events"), 0, "{source} {case}");
    assert_eq!(process.number("ambiguous_events"), 0, "{source} {case}");
    assert_eq!(process.json["complete"], true, "{source} {case}");
    NAMES
        .iter()
        .map(|(short, long)| (*short, process.total(long)))
        .collect()
}
