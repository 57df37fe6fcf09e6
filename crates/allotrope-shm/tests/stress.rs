//! Two threads on one ring of a real arena, many times round: what the
//! collector's side reads is what the producer's wrote, to the last word.
#![cfg(feature = "test-support")]

use std::fs::File;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use allotrope_shm::arena::{Arena, Settings};
use allotrope_shm::layout::{OnFull, RING_WORDS};
use allotrope_shm::producer::Producer;
use allotrope_shm::ring::{ArenaRing, Reader};

const RING: usize = 3;
/// Words in all: twenty times round the ring.
const TOTAL: u64 = 20 * RING_WORDS as u64;

/// The word at a position: all of its bits depend on it.
fn word(position: u64) -> u64 {
    position.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ position >> 7
}

/// Events of 1 to 64 words, in an order that repeats late.
fn length(event: u64) -> usize {
    (word(event) >> 40) as usize % 64 + 1
}

fn arena() -> Arena {
    Arena::create(Settings {
        on_full: OnFull::Block,
        depth_limit: 4096,
        no_follow: false,
        frame_pointers: false,
        counts_only: false,
        key: 1,
    })
    .expect("an arena can be made")
}

/// Writes all words; gives how many.
fn produce(memory: File, control: File) -> u64 {
    let producer = Producer::map(memory, control).expect("an arena can be mapped twice");
    let (mut position, mut event) = (0, 0);
    while position < TOTAL {
        let words: Vec<u64> = (0..length(event) as u64)
            .map(|index| word(position + index))
            .collect();
        producer.write(RING, &words);
        position += words.len() as u64;
        event += 1;
    }
    position
}

/// Reads all words, `piece` events at a time.
fn consume(arena: &Arena, piece: u64, pause: Option<Duration>) -> u64 {
    let ring = &arena.rings()[RING];
    let (mut reader, mut event) = (Reader::default(), 0);
    let mut words = Vec::new();
    while reader.cursor() < TOTAL {
        let seen = arena.shared().doorbell.count();
        if ring.published() == reader.cursor() {
            arena.sleep(seen, Duration::from_millis(1));
            continue;
        }
        if let Some(pause) = pause {
            std::thread::sleep(pause);
        }
        let written = ring.published();
        assert!(
            reader.unread::<ArenaRing>(written).is_some(),
            "more than a ring"
        );
        let mut next = reader;
        for _ in 0..piece {
            if next.cursor() == written {
                break;
            }
            // An event is published whole, and lies in one piece.
            let end = next.cursor() + length(event) as u64;
            assert!(end <= written, "half an event");
            words.clear();
            arena
                .copy_words(RING, &next, end, usize::MAX, &mut words)
                .expect("the ring's memory");
            let expected = (next.cursor()..end).map(word);
            assert!(words.iter().copied().eq(expected), "event {event}");
            (next, event) = (Reader::at(end), event + 1);
        }
        arena.release(RING, &mut reader, next.cursor());
    }
    reader.cursor()
}

fn run(piece: u64, pause: Option<Duration>) {
    let arena = arena();
    let [memory, control] = [arena.memory(), arena.control_memory()]
        .map(|file| File::from(file.try_clone_to_owned().expect("a descriptor")));
    let producer = std::thread::spawn(move || produce(memory, control));
    let read = consume(&arena, piece, pause);
    assert_eq!(producer.join().expect("the producer does not panic"), read);
    let ring = &arena.rings()[RING];
    assert_eq!(
        ring.written.load(Relaxed),
        arena.progress()[RING].read.load(Relaxed)
    );
}

#[test]
fn a_collector_that_keeps_up() {
    run(1, None);
}

#[test]
fn a_collector_that_takes_all_there_is() {
    run(u64::MAX, None);
}

/// The ring is full most of the time.
#[test]
fn a_collector_that_lags_behind() {
    run(2000, Some(Duration::from_micros(200)));
}
