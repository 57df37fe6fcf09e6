//! Encoding and decoding of events are the inverse of each other.

use allotrope_shm::layout::MAX_EVENT_WORDS;
use allotrope_shm::mapped_file::FileIdentity;
use allotrope_shm::wire::{
    ADDRESS_MASK, COUNTS_WORDS, Encode, Exec, Image, LONG_SIZE, Malformed, Mapping, Node,
    PackedBytes, Reachability, STACK_MASK, WINDOW_NAME_BYTES, Window, WireEvent, decode,
};
use proptest::prelude::*;

/// Number of kinds that [`event`] can make.
const KINDS: usize = 25;

/// Numbers and lists from which an event of any kind is made.
#[derive(Debug, Clone)]
struct Parts {
    kind: usize,
    extra: u8,
    small: u32,
    flag: bool,
    numbers: [u64; 10],
    points: Vec<u64>,
    counts: Vec<[u64; COUNTS_WORDS]>,
    first: Vec<u8>,
    second: Vec<u8>,
}

fn parts() -> impl Strategy<Value = Parts> {
    let number = prop_oneof![
        any::<u64>(),
        0..LONG_SIZE,
        Just(LONG_SIZE - 1),
        Just(LONG_SIZE)
    ];
    let text = || prop::collection::vec(any::<u8>(), 0..=WINDOW_NAME_BYTES);
    (
        (0..KINDS, any::<u8>(), any::<u32>(), any::<bool>()),
        prop::array::uniform10(number),
        prop::collection::vec(any::<[u64; 2]>(), 0..20),
        prop::collection::vec(any::<[u64; COUNTS_WORDS]>(), 0..64),
        text(),
        text(),
    )
        .prop_map(
            |((kind, extra, small, flag), numbers, points, counts, first, second)| Parts {
                kind,
                extra,
                small,
                flag,
                numbers,
                points: points.into_flattened(),
                counts,
                first,
                second,
            },
        )
}

/// An event from `parts`, with `first` and `second` as its byte strings.
fn event<S: Copy>(parts: &Parts, first: S, second: S) -> WireEvent<'_, S> {
    let Parts {
        kind,
        extra: entry,
        small,
        flag,
        numbers,
        points,
        counts,
        ..
    } = parts;
    let (entry, small, flag) = (*entry, *small, *flag);
    let [tick, b, c, size, ..] = *numbers;
    let address = b & ADDRESS_MASK;
    let stack = small & STACK_MASK as u32;
    let sums = |from: usize| std::array::from_fn(|at| numbers[from + at]);
    match kind {
        0 => WireEvent::Allocation {
            entry,
            address,
            size,
            stack,
            alignment_log2: if flag { entry } else { 0 },
        },
        1 => WireEvent::Deallocation {
            entry,
            address,
            stack: flag.then_some(stack),
        },
        2 => WireEvent::ReallocationStart {
            entry,
            address,
            stack: flag.then_some(stack),
        },
        3 => WireEvent::ReallocationEnd {
            entry,
            address,
            size,
            stack,
        },
        4 => WireEvent::ReallocationFailed { address },
        5 => WireEvent::ReallocationFreed { address },
        6 => WireEvent::Timestamp { tick, clock: small },
        7 => WireEvent::Epoch {
            tick,
            epoch: b,
            opted_out: flag,
        },
        8 => WireEvent::Thread {
            tid: small,
            tick,
            nested: flag,
        },
        9 => WireEvent::Node(Node {
            address,
            exact: flag,
            parent: stack,
            id: c as u32 & STACK_MASK as u32,
            mapping: tick as u16,
        }),
        10 => WireEvent::ResetStackIds,
        11 => WireEvent::Mapping(Mapping {
            mapping: small as u16,
            start: b,
            end: c,
            bias: size,
            tick,
            file: FileIdentity::from_words([b, c, size, tick, address]),
            build_id: first,
            path: second,
        }),
        12 => WireEvent::Image(Image {
            pid: small,
            parent_pid: c as u32,
            tick,
            origin: u32::from(flag),
            parent_slot: flag.then_some(b as u32 >> 1),
            fork_points: points,
            executable: first,
            command: second,
        }),
        13 => WireEvent::Exit {
            status: small as i32,
        },
        14 => WireEvent::Unmapped {
            mapping: small as u16,
        },
        15 => WireEvent::Exec(Exec { path: first }),
        16 => WireEvent::Window(Window {
            flags: entry,
            opened: b,
            iterations: c,
            tick,
            name: first,
        }),
        17 => WireEvent::WindowEnd {
            flags: entry,
            opened: b,
            closed: c,
            tick,
        },
        18 => WireEvent::Descriptors,
        19 => WireEvent::Waited {
            ticks: b & ADDRESS_MASK,
        },
        20 => WireEvent::Counts(counts),
        21 => WireEvent::ThreadName {
            tid: small,
            tick,
            name: (u128::from(b) | u128::from(c) << 64).to_le_bytes(),
        },
        22 => WireEvent::LostBlock {
            address,
            class: entry,
        },
        23 => WireEvent::Reachability(Reachability {
            outcome: entry,
            tick,
            blocks: address,
            threads: small,
        }),
        _ => WireEvent::WindowCounts {
            epoch: tick,
            image: sums(1),
            thread: sums(5),
        },
    }
}

/// The words of an event; checks that each is written exactly once.
fn encoded(event: &impl Encode) -> Vec<u64> {
    let mut words = vec![None; event.most_words()];
    let length = event.encode(|index, word| {
        assert_eq!(words[index], None, "word {index} is written twice");
        words[index] = Some(word);
    });
    assert!(words[length..].iter().all(Option::is_none));
    let words = words.into_iter().take(length);
    words.map(|word| word.expect("a word is missing")).collect()
}

/// A byte string as words.
fn packed(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(parts in parts(), behind in prop::collection::vec(any::<u64>(), 0..3)) {
        let bytes = event(&parts, parts.first.as_slice(), parts.second.as_slice());
        let mut words = encoded(&bytes);
        let length = words.len();
        prop_assert!(length <= MAX_EVENT_WORDS);
        for missing in 1..=length {
            prop_assert_eq!(decode(&words[..length - missing]), Err(Malformed::Short));
        }
        words.extend(behind);
        let [first, second] = [&parts.first, &parts.second].map(|bytes| packed(bytes));
        let string = |words, bytes: &Vec<u8>| PackedBytes { words, length: bytes.len() };
        let expected = event(&parts, string(&first, &parts.first), string(&second, &parts.second));
        prop_assert_eq!(decode(&words), Ok((expected, length)));
        prop_assert_eq!(&encoded(&expected), &words[..length]);
    }

    #[test]
    fn arbitrary_words_are_decoded_within_their_length(
        kind in 0..40u64,
        payload in any::<u64>(),
        rest in prop::collection::vec(prop_oneof![any::<u64>(), 0..64u64], 0..40),
    ) {
        let mut words = vec![payload & !(0xff << 48) | kind << 48];
        words.extend(rest);
        if let Ok((event, length)) = decode(&words) {
            prop_assert!((1..=words.len()).contains(&length));
            // A long event's own length may exceed what its parts need.
            prop_assert!(encoded(&event).len() <= length);
        }
    }
}
