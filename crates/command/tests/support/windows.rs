//! Counts the allocations of each window from the events of a trace, without an aggregation.

use std::collections::{BTreeMap, HashMap};

use allotrope_trace::model::{EpochChange, EventKind, Record, Window};
use allotrope_trace::{Entry, TraceReader};

use super::Recording;

/// A window, and what was allocated in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    pub name: String,
    pub iterations: u64,
    pub allocations: u64,
}

/// The epoch and the thread of a stream's next event.
#[derive(Default, Clone, Copy)]
struct StreamState {
    change: EpochChange,
    thread: Option<u64>,
}

/// The windows of a recording's only image, in the order of their opening. Each
/// must have been closed.
#[track_caller]
pub fn windows(recording: &Recording) -> Vec<Counted> {
    let reader = TraceReader::open(&recording.trace).expect("it was just written");
    let mut opened: Vec<Window> = Vec::new();
    let mut closed = BTreeMap::new();
    let mut streams: HashMap<u32, StreamState> = HashMap::new();
    let mut allocations = Vec::new();
    for entry in reader.entries() {
        match entry.expect("the trace is whole") {
            Entry::Record(Record::Window(window)) => opened.push(window),
            Entry::Record(Record::WindowEnd(end)) => {
                closed.insert(end.opened, end.closed);
            }
            Entry::Record(_) => {}
            Entry::Events(at) => {
                let state = streams.entry(at.stream).or_default();
                let mut events = Vec::new();
                reader.read_events(&at, &mut events).expect("it is whole");
                for event in events {
                    match event.kind {
                        EventKind::Epoch => state.change = EpochChange::from_word(event.address),
                        EventKind::Thread => state.thread = Some(event.address),
                        EventKind::Allocation | EventKind::ReallocationEnd
                            if !state.change.opted_out =>
                        {
                            allocations.push(*state);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    opened.sort_by_key(|window| window.opened);
    let inside = |window: &Window| {
        let end = closed[&window.opened];
        let thread = window.thread.map(u64::from);
        let within = allocations.iter().filter(|state| {
            let same_thread = !window.this_thread_only || state.thread == thread;
            same_thread && (window.opened..end).contains(&state.change.epoch)
        });
        within.count() as u64
    };
    let counted = |window: &Window| Counted {
        name: window.name.clone(),
        iterations: window.iterations,
        allocations: inside(window),
    };
    opened.iter().map(counted).collect()
}

/// What a test expects of a window.
pub fn counted(name: &str, iterations: u64, allocations: u64) -> Counted {
    Counted {
        name: name.to_owned(),
        iterations,
        allocations,
    }
}
