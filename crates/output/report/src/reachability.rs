//! What a scan at the exit found of the blocks that were live then, in words and as JSON.

use allotrope_profile::{Amount, Lost, Process, Reachability, Site};
use allotrope_trace::model::ScanOutcome;
use serde::Serialize;

use crate::numbers::{bytes, plural};

/// A sentence about these processes; `None` if none of them was scanned.
pub(crate) fn sentence(processes: &[&Process]) -> Option<String> {
    let scanned = || processes.iter().filter_map(|it| it.reachability.as_ref());
    let finished = || scanned().filter(|it| it.is_finished());
    let count = scanned().count();
    let unfinished = scanned().find(|it| !it.is_finished());
    if count == 0 {
        return None;
    }
    let title = match (processes.len(), finished().count()) {
        (1, _) => "Reachability at exit".to_owned(),
        (all, of) => format!("Reachability at exit, {of} of {all} processes"),
    };
    let mut text = match unfinished {
        Some(it) if finished().next().is_none() => format!("{title}: {}.", why_not(it.outcome)),
        _ => {
            let reachable = sum(finished().map(|it| it.reachable));
            format!("{title}: {}.", amounts(&lost(finished()), reachable))
        }
    };
    let threads = finished().map(|it| it.other_threads).max().unwrap_or(0);
    if threads > 0 {
        let others = plural(threads as usize, "other thread", "other threads");
        let their = if threads == 1 { "its" } else { "their" };
        text = format!("{text} {others} ran, and {their} registers are unknown.");
    }
    Some(text)
}

/// What is known of the live blocks of sites; `None` if their processes were not scanned.
pub(crate) fn of_sites<'a>(
    sites: impl Iterator<Item = (&'a Process, &'a Site)> + Clone,
) -> Option<String> {
    let scanned = sites.filter(|(process, _)| {
        let scan = process.reachability.as_ref();
        scan.is_some_and(Reachability::is_finished)
    });
    scanned.clone().next()?;
    let lost = sum_of_lost(scanned.clone().filter_map(|(_, site)| site.lost.as_deref()));
    let live = sum(scanned.map(|(_, site)| Amount {
        allocations: site.leaked_allocations,
        bytes: site.leaked_bytes,
    }));
    Some(amounts(&lost, live.without(lost.total())))
}

/// The parts of a process's live blocks with their names; empty if they are unknown.
pub(crate) fn parts(process: &Process) -> Vec<(&'static str, Amount)> {
    let scan = process.reachability.as_ref();
    let Some(scan) = scan.filter(|scan| scan.is_finished()) else {
        return Vec::new();
    };
    let lost = &scan.lost;
    vec![
        ("definitely lost", lost.definitely),
        ("indirectly lost", lost.indirectly),
        ("possibly lost", lost.possibly),
        ("still reachable", scan.reachable),
    ]
}

fn amounts(lost: &Lost, reachable: Amount) -> String {
    let named = [
        (lost.definitely, "definitely lost"),
        (lost.indirectly, "indirectly lost"),
        (lost.possibly, "possibly lost"),
        (reachable, "still reachable"),
    ];
    let parts = named.iter().filter(|(it, _)| it.allocations > 0);
    let parts = parts.map(|(it, name)| {
        let blocks = plural(it.allocations as usize, "block", "blocks");
        format!("{blocks} ({}) {name}", bytes(it.bytes))
    });
    let parts: Vec<String> = parts.collect();
    match parts.as_slice() {
        [] => "no block was live".to_owned(),
        _ => parts.join(", "),
    }
}

/// Why nothing is known of the blocks.
fn why_not(outcome: ScanOutcome) -> &'static str {
    match outcome {
        ScanOutcome::Finished => "finished",
        ScanOutcome::OutOfTime => "not finished within a second, so nothing is known",
        ScanOutcome::NoMemory => "unknown, because there was no memory for the scan",
        ScanOutcome::Forbidden => {
            "unknown, because a sandbox or /proc kept the process from reading its own memory"
        }
    }
}

fn lost<'a>(scans: impl Iterator<Item = &'a Reachability>) -> Lost {
    sum_of_lost(scans.map(|it| &it.lost))
}

fn sum_of_lost<'a>(all: impl Iterator<Item = &'a Lost>) -> Lost {
    all.fold(Lost::default(), |sum, it| Lost {
        definitely: sum.definitely.and(it.definitely),
        indirectly: sum.indirectly.and(it.indirectly),
        possibly: sum.possibly.and(it.possibly),
    })
}

fn sum(all: impl Iterator<Item = Amount>) -> Amount {
    all.fold(Amount::default(), Amount::and)
}

/// A process's scan.
#[derive(Serialize)]
pub(crate) struct ReachabilityForm {
    outcome: &'static str,
    other_threads: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable: Option<AmountForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<LostForm>,
}

/// Lost blocks.
#[derive(Serialize)]
pub(crate) struct LostForm {
    definitely: AmountForm,
    indirectly: AmountForm,
    possibly: AmountForm,
}

#[derive(Serialize)]
struct AmountForm {
    allocations: u64,
    bytes: u64,
}

impl ReachabilityForm {
    pub(crate) fn of(scan: &Reachability) -> Self {
        Self {
            outcome: match scan.outcome {
                ScanOutcome::Finished => "finished",
                ScanOutcome::OutOfTime => "out-of-time",
                ScanOutcome::NoMemory => "no-memory",
                ScanOutcome::Forbidden => "forbidden",
            },
            other_threads: scan.other_threads,
            reachable: scan.is_finished().then(|| AmountForm::of(scan.reachable)),
            lost: scan.is_finished().then(|| LostForm::of(&scan.lost)),
        }
    }
}

impl LostForm {
    pub(crate) fn of(lost: &Lost) -> Self {
        Self {
            definitely: AmountForm::of(lost.definitely),
            indirectly: AmountForm::of(lost.indirectly),
            possibly: AmountForm::of(lost.possibly),
        }
    }
}

impl AmountForm {
    fn of(amount: Amount) -> Self {
        Self {
            allocations: amount.allocations,
            bytes: amount.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(allocations: u64, bytes: u64) -> Amount {
        Amount { allocations, bytes }
    }

    fn process(scan: Option<Reachability>) -> Process {
        Process {
            reachability: scan,
            ..Process::default()
        }
    }

    fn scan() -> Reachability {
        Reachability {
            lost: Lost {
                definitely: amount(1, 16),
                indirectly: amount(9, 144),
                ..Lost::default()
            },
            reachable: amount(2, 2048),
            ..Reachability::default()
        }
    }

    #[test]
    fn a_sentence_names_the_parts_that_there_are() {
        assert_eq!(sentence(&[&process(None)]), None);
        assert_eq!(
            sentence(&[&process(Some(scan()))]).as_deref(),
            Some(
                "Reachability at exit: 1 block (16 B) definitely lost, 9 blocks (144 B) indirectly \
                 lost, 2 blocks (2.0 KiB) still reachable."
            )
        );
        let nothing = process(Some(Reachability::default()));
        assert_eq!(
            sentence(&[&nothing]).as_deref(),
            Some("Reachability at exit: no block was live.")
        );
    }

    #[test]
    fn of_several_processes_the_scanned_ones_are_summed() {
        let [scanned, other] = [process(Some(scan())), process(None)];
        let text = sentence(&[&scanned, &other, &scanned]).unwrap();
        assert!(text.starts_with("Reachability at exit, 2 of 3 processes: 2 blocks (32 B) def"));
    }

    #[test]
    fn nothing_is_said_of_blocks_without_a_finished_scan() {
        let stopped = process(Some(Reachability {
            outcome: ScanOutcome::OutOfTime,
            ..scan()
        }));
        let text = sentence(&[&stopped]).unwrap();
        assert!(text.contains("not finished"), "{text}");
        assert!(!text.contains("lost"), "{text}");
        assert!(parts(&stopped).is_empty());
    }
}
