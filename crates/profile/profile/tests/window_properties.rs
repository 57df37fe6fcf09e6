//! Properties of windows in every history: each event belongs to exactly the windows that
//! were open for its thread, and the figures of disjoint windows and of the gaps between
//! them sum to those of the image.

mod story;

use std::collections::BTreeMap;

use allotrope_profile::{Options, WindowFigures, WindowKey, aggregate_windows};
use allotrope_trace::model::{Event, Record};
use proptest::prelude::*;
use story::*;

#[derive(Debug, Clone, Copy)]
enum Operation {
    Allocate { thread: usize, size: u64 },
    Free { thread: usize, choice: usize },
    Open,
    Close { choice: usize },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        6 => (0..3_usize, 0..100_u64).prop_map(|(thread, size)| Operation::Allocate { thread, size }),
        4 => (0..3_usize, any::<usize>()).prop_map(|(thread, choice)| Operation::Free { thread, choice }),
        1 => Just(Operation::Open),
        1 => any::<usize>().prop_map(|choice| Operation::Close { choice }),
    ];
    prop::collection::vec(operation, 1..120)
}

/// A simulated run of a program: streams, windows (opened, closed), and the true figures
/// of each window.
#[derive(Default)]
struct History {
    streams: Vec<Vec<Event>>,
    windows: Vec<(u64, Option<u64>)>,
    truth: Vec<WindowFigures>,
}

/// Runs the operations one after the other. Each thread emits a new epoch before its next
/// event. With `disjoint`, a window opens only while none is open.
fn run(operations: &[Operation], disjoint: bool) -> History {
    let mut it = History {
        streams: (1..=3).map(|n| vec![thread(n)]).collect(),
        ..History::default()
    };
    let mut now = 0;
    let mut emitted = [0; 3];
    let mut open: Vec<usize> = Vec::new();
    // By address: size, thread, number of allocations of the thread so far, windows.
    let mut live: BTreeMap<u64, (u64, usize, u64, Vec<usize>)> = BTreeMap::new();
    let mut made = [0; 3];
    let mut next_address = 0x1000;
    for (operation, tick) in operations.iter().zip((1_000_u64..).step_by(1_000)) {
        match *operation {
            Operation::Open if !disjoint || open.is_empty() => {
                now += 1;
                open.push(it.windows.len());
                it.windows.push((now, None));
                it.truth.push(WindowFigures::default());
            }
            Operation::Open => {}
            Operation::Close { choice } => {
                if !open.is_empty() {
                    now += 1;
                    let closed = open.remove(choice % open.len());
                    it.windows[closed].1 = Some(now);
                }
            }
            Operation::Allocate { thread, size } => {
                begin_event(&mut it.streams[thread], &mut emitted[thread], now, tick);
                let stack = 8 + (size % 5) as u32;
                it.streams[thread].push(alloc(stack, next_address, size));
                made[thread] += 1;
                live.insert(next_address, (size, thread, made[thread], open.clone()));
                next_address += 16;
                for &at in &open {
                    let truth = &mut it.truth[at];
                    truth.allocations += 1;
                    truth.allocated_bytes += size;
                    truth.remaining_allocations += 1;
                    truth.remaining_bytes += size;
                }
                peaks(&mut it.truth);
            }
            Operation::Free { thread, choice } => {
                let Some(address) = live.keys().nth(choice % live.len().max(1)).copied() else {
                    continue;
                };
                begin_event(&mut it.streams[thread], &mut emitted[thread], now, tick);
                it.streams[thread].push(free(address));
                let (size, by, number, windows) = live.remove(&address).expect("it is live");
                for &at in &open {
                    it.truth[at].deallocations += 1;
                }
                for at in windows {
                    let truth = &mut it.truth[at];
                    truth.temporary_allocations += u64::from(by == thread && number == made[by]);
                    if it.windows[at].1.is_none() {
                        truth.remaining_allocations -= 1;
                        truth.remaining_bytes -= size;
                    }
                }
                peaks(&mut it.truth);
            }
        }
    }
    for stream in &mut it.streams {
        stream.push(timestamp(10_000_000));
    }
    it
}

/// Emits the time and, if it is new, the epoch of a thread's next event.
fn begin_event(stream: &mut Vec<Event>, emitted: &mut u64, now: u64, tick: u64) {
    stream.push(timestamp(tick));
    if *emitted != now {
        stream.push(epoch(now));
        *emitted = now;
    }
}

fn peaks(truth: &mut [WindowFigures]) {
    for it in truth {
        it.peak_bytes = it.peak_bytes.max(it.remaining_bytes);
    }
}

fn story(history: &History) -> Story {
    let mut story = Story::one_image();
    for &(opened, closed) in &history.windows {
        story.push(Record::Window(window("w", opened)));
        if let Some(closed) = closed {
            story.push(Record::WindowEnd(window_end(opened, closed)));
        }
    }
    for (number, events) in (0_u32..).zip(&history.streams) {
        story.events(0, number, events);
    }
    story.end(0, 10_000_000);
    story
}

/// The truth does not include which of several equal peaks counts.
fn without_peak_allocations(figures: WindowFigures) -> WindowFigures {
    WindowFigures {
        peak_allocations: 0,
        ..figures
    }
}

proptest! {
    #[test]
    fn each_window_has_its_true_figures(operations in operations()) {
        let history = run(&operations, false);
        let profile = story(&history).profile();
        let found = profile.processes[0].windows.iter();
        let found: Vec<_> = found.map(|run| without_peak_allocations(run.figures)).collect();
        prop_assert_eq!(found, history.truth);
    }

    #[test]
    fn disjoint_windows_and_the_gaps_sum_to_the_image(operations in operations()) {
        let history = run(&operations, true);
        let story = story(&history);
        let whole = story.profile().processes.remove(0);
        let keys: Vec<WindowKey> = history
            .windows
            .iter()
            .map(|&(opened, _)| WindowKey { image: 0, opened })
            .collect();
        let windows = aggregate_windows(&story.trace, &Options::default(), &keys).expect("they exist");
        // The same events with windows in the gaps.
        let mut gaps = Story::one_image();
        gaps.trace = story.trace.clone();
        gaps.trace.records.retain(|it| !matches!(it, Record::Window(_) | Record::WindowEnd(_)));
        let mut from = 0;
        for &(opened, closed) in &history.windows {
            gaps.push(Record::Window(window("gap", from)));
            gaps.push(Record::WindowEnd(window_end(from, opened)));
            from = closed.unwrap_or(u64::MAX / 2);
        }
        gaps.push(Record::Window(window("gap", from)));
        let gaps = gaps.profile().processes.remove(0);
        let parts = whole.windows.iter().chain(&gaps.windows);
        let sum = |of: fn(&WindowFigures) -> u64| parts.clone().map(|it| of(&it.figures)).sum::<u64>();
        prop_assert_eq!(sum(|it| it.allocations), whole.totals.allocations);
        prop_assert_eq!(sum(|it| it.allocated_bytes), whole.totals.allocated_bytes);
        prop_assert_eq!(sum(|it| it.deallocations), whole.totals.deallocations);
        prop_assert_eq!(sum(|it| it.temporary_allocations), whole.totals.temporary_allocations);
        // The stacks of a window sum to its figures, and no stack has more allocations
        // than in the image.
        for process in &windows.processes {
            let run = process.windows[0].figures;
            let of = |figure: fn(&allotrope_profile::Site) -> u64| process.sites.iter().map(figure).sum::<u64>();
            prop_assert_eq!(of(|it| it.allocations), run.allocations);
            prop_assert_eq!(of(|it| it.allocated_bytes), run.allocated_bytes);
            prop_assert_eq!(of(|it| it.temporary_allocations), run.temporary_allocations);
            prop_assert_eq!(of(|it| it.leaked_allocations), run.remaining_allocations);
            prop_assert_eq!(of(|it| it.leaked_bytes), run.remaining_bytes);
            prop_assert_eq!(of(|it| it.bytes_at_peak), run.peak_bytes);
            prop_assert_eq!(of(|it| it.lifetimes.blocks), run.allocations);
            for part in &process.sites {
                prop_assert!(part.allocations <= site(&whole, part.stack_id).allocations);
            }
        }
    }
}
