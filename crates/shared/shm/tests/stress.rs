//! Two threads on one ring of a real arena, for many laps: the reader must read exactly
//! the words that the writer wrote.
#![cfg(feature = "test-support")]

use std::fs::File;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use allotrope_shm::arena::{Arena, Settings};
use allotrope_shm::layout::{OnFull, RING_WORDS};
use allotrope_shm::producer::Producer;
use allotrope_shm::ring::{ArenaRing, Reader};

const RING: usize = 3;
/// Number of words: twenty laps of the ring.
const TOTAL: u64 = 20 * RING_WORDS as u64;

/// The word at a position: all of its bits depend on it.
fn word(position: u64) -> u64 {
    position.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ position >> 7
}

/// Length of an event: 1 to 64 words, without a short period.
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
        free_stacks: false,
        reachability: false,
        filters: 0,
        key: 1,
    })
    .expect("an arena can be made")
}

/// Writes all words; returns their number.
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

/// Reads all words and releases them after every `batch` events; `pause`: sleeps before
/// each batch.
fn consume(arena: &Arena, batch: u64, pause: Option<Duration>) -> u64 {
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
        for _ in 0..batch {
            if next.cursor() == written {
                break;
            }
            // Only whole events are published.
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

fn run(batch: u64, pause: Option<Duration>) {
    let arena = arena();
    let [memory, control] = [arena.memory(), arena.control_memory()]
        .map(|file| File::from(file.try_clone_to_owned().expect("a descriptor")));
    let producer = std::thread::spawn(move || produce(memory, control));
    let read = consume(&arena, batch, pause);
    assert_eq!(producer.join().expect("the producer does not panic"), read);
    let ring = &arena.rings()[RING];
    assert_eq!(
        ring.written.load(Relaxed),
        arena.progress()[RING].read.load(Relaxed)
    );
}

#[test]
fn a_reader_that_releases_every_event() {
    run(1, None);
}

#[test]
fn a_reader_that_releases_all_available_events() {
    run(u64::MAX, None);
}

/// The ring is full most of the time.
#[test]
fn a_reader_that_lags_behind() {
    run(2000, Some(Duration::from_micros(200)));
}
