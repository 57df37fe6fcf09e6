//! Events for tests of what does not care for stacks, sizes and entry points.

use allotrope_trace::model::{EntryPoint, Event, EventKind};

/// An event of this kind at this address, of one byte.
pub(crate) fn event(kind: EventKind, address: u64) -> Event {
    Event {
        kind,
        entry: EntryPoint::Malloc,
        alignment_log2: 0,
        stack: 8,
        address,
        size: 1,
    }
}
