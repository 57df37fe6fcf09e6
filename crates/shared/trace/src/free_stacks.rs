//! The payload of a free-stacks chunk: the stacks of the deallocations of the event chunk
//! that follows it. It is a chunk of its own, so that readers of older minor versions skip
//! it, and read everything else.
//!
//! ```text
//! varint length, numbers, new stacks
//! ```
//!
//! Numbers: for each deallocation the number of its stack (varint), counted in the order
//! of first occurrence; the next unused number is a new stack. New stacks: deltas.

use rustc_hash::FxHashMap;

use crate::model::{Event, EventKind, StackId};
use crate::varint::{Cursor, Malformed, put, put_delta};

/// Whether the chunk has a stack for the event.
fn has_stack(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Deallocation | EventKind::ReallocationStart
    )
}

/// Encodes one chunk after another, and reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// Maps a stack to its number in the chunk.
    known: FxHashMap<StackId, u32>,
    numbers: Vec<u8>,
    new_stacks: Vec<u8>,
}

impl Encoder {
    /// Appends the payload for these events to `payload`. Returns the number of stacks in
    /// it; 0 if no event has one, and then appends nothing.
    pub(crate) fn encode(&mut self, events: &[Event], payload: &mut Vec<u8>) -> u32 {
        let stacks = || {
            let with_stack = events.iter().filter(|event| has_stack(event));
            with_stack.map(|event| event.stack)
        };
        if stacks().all(|stack| stack == 0) {
            return 0;
        }
        self.known.clear();
        self.numbers.clear();
        self.new_stacks.clear();
        let (mut count, mut last) = (0, 0);
        for stack in stacks() {
            let new = self.known.len() as u32;
            let number = *self.known.entry(stack).or_insert(new);
            put(&mut self.numbers, number.into());
            if number == new {
                put_delta(&mut self.new_stacks, last, stack.into());
                last = stack.into();
            }
            count += 1;
        }
        put(payload, self.numbers.len() as u64);
        payload.extend_from_slice(&self.numbers);
        payload.extend_from_slice(&self.new_stacks);
        count
    }
}

/// Sets the stacks of the deallocations among the events of the chunk.
pub(crate) fn decode(payload: &[u8], events: &mut [Event]) -> Result<(), Malformed> {
    let mut head = Cursor::new(payload);
    let length = head.length()?;
    let mut numbers = Cursor::new(head.take(length)?);
    let mut new_stacks = head;
    let mut known: Vec<StackId> = Vec::new();
    let mut last = 0;
    for event in events.iter_mut().filter(|event| has_stack(event)) {
        let number = numbers.varint()?;
        if number == known.len() as u64 {
            last = new_stacks.delta(last)?;
            let stack = StackId::try_from(last)
                .map_err(|_| Malformed("the stack of a deallocation has more than 32 bits"))?;
            known.push(stack);
        }
        let number = usize::try_from(number).ok();
        let stack = number.and_then(|number| known.get(number));
        event.stack = *stack.ok_or(Malformed(
            "the stack of a deallocation has a number that is not defined",
        ))?;
    }
    if numbers.left() + new_stacks.left() > 0 {
        return Err(Malformed("there are more stacks than deallocations"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EntryPoint;

    fn events(of: &[(EventKind, StackId)]) -> Vec<Event> {
        let event = |&(kind, stack)| Event {
            kind,
            entry: EntryPoint::Free,
            alignment_log2: 0,
            stack,
            address: 0x10,
            size: 0,
        };
        of.iter().map(event).collect()
    }

    const FREE: EventKind = EventKind::Deallocation;

    #[test]
    fn stacks_are_decoded_as_they_were_encoded() {
        let of = [
            (FREE, 9),
            (EventKind::Allocation, 77),
            (FREE, 400_000),
            (EventKind::ReallocationStart, 9),
            (FREE, 0),
            (FREE, u32::MAX),
            (FREE, 400_000),
        ];
        let expected = events(&of);
        let mut payload = Vec::new();
        assert_eq!(Encoder::default().encode(&expected, &mut payload), 6);
        let mut decoded = expected.clone();
        for event in decoded.iter_mut().filter(|event| has_stack(event)) {
            event.stack = 0;
        }
        assert_eq!(decode(&payload, &mut decoded), Ok(()));
        assert_eq!(decoded, expected);
        for length in 0..payload.len() {
            assert!(decode(&payload[..length], &mut decoded).is_err());
        }
        assert!(decode(&payload, &mut decoded[..3]).is_err(), "too many");
    }

    #[test]
    fn without_a_stack_there_is_nothing() {
        let mut payload = Vec::new();
        let events = events(&[(FREE, 0), (EventKind::Allocation, 9)]);
        assert_eq!(Encoder::default().encode(&events, &mut payload), 0);
        assert!(payload.is_empty());
    }

    #[test]
    fn invalid_numbers_and_stacks_are_malformed() {
        let mut one = events(&[(FREE, 0)]);
        let payload = [1, 1, 2];
        assert!(decode(&payload, &mut one).is_err(), "number 1 is unused");
        let mut payload = vec![1, 0];
        put_delta(&mut payload, 0, 1 << 32);
        assert!(decode(&payload, &mut one).is_err(), "33 bits");
        assert_eq!(decode(&[1, 0, 2], &mut one), Ok(()));
        assert_eq!(one[0].stack, 1);
    }
}
