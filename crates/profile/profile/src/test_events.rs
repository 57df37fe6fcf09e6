//! Builders of events for unit tests in which stacks, sizes and entry points do not
//! matter.

use allotrope_trace::model::{EntryPoint, Event, EventKind};

use crate::step::Step;

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

/// An allocation or deallocation at this key.
pub(crate) fn step(allocates: bool, key: u64) -> Step {
    Step {
        key,
        allocates,
        ..Step::NONE
    }
}
