//! Perfetto traces: heap profiles, counters and marks.

use crate::exports::perfetto::{Heap, Sums, heaps};
use crate::exports::{METRICS, exported, steps};
use crate::support::{compiled, record};

/// What the stacks with a function have together.
pub fn under(heap: &Heap, function: &str) -> Sums {
    let own = heap
        .iter()
        .filter(|(stack, _)| stack.iter().any(|it| it == function));
    own.fold(Sums::default(), |sum, (_, it)| Sums {
        allocations: sum.allocations + it.allocations,
        allocated: sum.allocated + it.allocated,
        frees: sum.frees + it.frees,
        freed: sum.freed + it.freed,
    })
}

#[test]
fn the_last_dump_has_the_sums_of_the_program_and_the_peak_is_a_heap() {
    let (_, heaps) = heaps(&exported(&METRICS.trace, "perfetto", &[]));
    let heap = |name: &str| {
        let mut own = heaps.iter().filter(|((_, heap), _)| heap == name);
        own.next().expect("the heap is there").1
    };
    for (function, allocations, allocated, freed) in [
        ("first", 10, 10_000, 0),
        ("second", 1, 20_000, 20_000),
        ("third", 1, 5000, 0),
        ("main", 12, 35_000, 20_000),
    ] {
        let sums = under(heap("libc.malloc"), function);
        assert_eq!(
            (sums.allocations, sums.allocated, sums.freed),
            (allocations, allocated, freed),
            "{function}"
        );
    }
    let peak = heap("live at the peak");
    assert_eq!(under(peak, "first").allocated, 10_000);
    assert_eq!(under(peak, "second").allocated, 20_000);
    assert_eq!(under(peak, "third").allocated, 0);
    // Stacks are outermost first.
    let stack = heap("libc.malloc")
        .keys()
        .find(|it| it.contains(&"third".to_owned()));
    let stack = stack.expect("it is there");
    let at = |name: &str| stack.iter().position(|it| it == name);
    assert!(at("main") < at("third"), "{stack:?}");
}

#[test]
fn marks_and_curves_are_tracks() {
    let (trace, _) = heaps(&exported(&steps(), "perfetto", &[]));
    let tracks = trace.packet.iter().filter_map(|it| it.track.as_ref());
    let tracks: Vec<_> = tracks.collect();
    let track = |name: &str| {
        let track = tracks.iter().find(|it| it.name == name);
        track.expect("the track is there").id
    };
    let of = |id: u64| {
        let events = trace.packet.iter().filter_map(|it| it.event.as_ref());
        events.filter(move |it| it.track == id).collect::<Vec<_>>()
    };
    let marks = of(track("marks"));
    // An instant event.
    assert_eq!(
        (marks.len(), marks[0].kind, &*marks[0].name),
        (1, 3, "between")
    );
    let live = of(track("live bytes"));
    assert_eq!(live.last().expect("it has points").value, 12_000);
    let process = tracks.iter().find_map(|it| it.process.as_ref());
    assert_eq!(process.expect("it is described").name, "steps");
    // Dumps have times of MONOTONIC_COARSE, packets those of BOOTTIME.
    let clocks = trace
        .packet
        .iter()
        .find_map(|it| it.clock_snapshot.as_ref());
    let ids: Vec<_> = clocks
        .expect("a snapshot")
        .clocks
        .iter()
        .map(|it| it.id)
        .collect();
    assert!(ids.contains(&Some(4)) && ids.contains(&Some(6)));
}

#[test]
fn processes_have_heaps_of_their_own() {
    let shell = "\"$0\" leaf 3 0; exec \"$0\" leaf 5 0";
    let program = compiled("processes.c");
    let recording = record("sh").args(["-c", shell]).arg(program).run();
    let (_, heaps) = heaps(&exported(&recording.ok().trace, "perfetto", &[]));
    let leaves = heaps
        .iter()
        .filter(|((_, name), _)| name.starts_with("libc.malloc"));
    let mut leaves: Vec<(&(u64, String), u64)> = leaves
        .map(|(key, heap)| (key, under(heap, "leaf_work").allocated))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    leaves.sort_by_key(|leaf| leaf.1);
    // 3 blocks of 3 bytes, and 5 of 5 in the image that replaced the shell.
    assert_eq!(
        leaves.iter().map(|leaf| leaf.1).collect::<Vec<_>>(),
        [9, 25]
    );
    assert_ne!(leaves[0].0.0, leaves[1].0.0);
    assert!(leaves[1].0.1.contains("(image "), "{:?}", leaves[1].0);
}
