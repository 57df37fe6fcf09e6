//! What a trace says of windows: which of a recording's allocations lie in each.

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

/// Where a stream has come to.
#[derive(Default, Clone, Copy)]
struct Place {
    mark: EpochChange,
    thread: Option<u64>,
}

/// The windows of a recording's only image, in the order of their opening. Each
/// must have been closed.
#[track_caller]
pub fn windows(recording: &Recording) -> Vec<Counted> {
    let reader = TraceReader::open(&recording.trace).expect("it was just written");
    let mut opened: Vec<Window> = Vec::new();
    let mut closed = BTreeMap::new();
    let mut places: HashMap<u32, Place> = HashMap::new();
    let mut allocations = Vec::new();
    for entry in reader.entries() {
        match entry.expect("the trace is whole") {
            Entry::Record(Record::Window(window)) => opened.push(window),
            Entry::Record(Record::WindowEnd(end)) => {
                closed.insert(end.opened, end.closed);
            }
            Entry::Record(_) => {}
            Entry::Events(at) => {
                let place = places.entry(at.stream).or_default();
                let mut events = Vec::new();
                reader.read_events(&at, &mut events).expect("it is whole");
                for event in events {
                    match event.kind {
                        EventKind::Epoch => place.mark = EpochChange::from_word(event.address),
                        EventKind::Thread => place.thread = Some(event.address),
                        EventKind::Allocation | EventKind::ReallocationEnd
                            if !place.mark.opted_out =>
                        {
                            allocations.push(*place);
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
        let within = allocations.iter().filter(|place| {
            let same_thread = !window.this_thread_only || place.thread == thread;
            same_thread && (window.opened..end).contains(&place.mark.epoch)
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
