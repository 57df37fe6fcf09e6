//! A model of the ring's protocol between one producer and the collector,
//! run through every order in which their steps can be seen (loom):
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p allotrope-shm --test loom
//! ```
//!
//! The steps are those of the two sides, with their orderings, written once
//! more on loom's atomics:
//!
//! | here | there |
//! | --- | --- |
//! | `Producer::write` | the recorder's `events::publish` |
//! | `Producer::wait_for_space` | the recorder's `events::make_room`, `wait_for_space` |
//! | `Producer::wait_until_taken` | the recorder's `events::wait_until_taken` |
//! | `Ring::ring_doorbell` | the recorder's `events::ring_doorbell` |
//! | `Ring::release`, `Ring::sleep` | `Arena::release`, `Arena::sleep` |
//!
//! Waits have no time limit here: a wake-up that is lost is a deadlock, which
//! loom reports. The ring has two words and is used round and round. That each
//! fence is needed is shown by leaving it out.
#![allow(unexpected_cfgs)]
#![cfg(loom)]

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::sync::{Arc, Condvar, Mutex};

const WORDS: u64 = 2;
const EVENTS: u64 = 3;

/// What the kernel does for a futex: compares and goes to sleep in one step.
struct Futex {
    value: AtomicU32,
    queue: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    fn new() -> Self {
        Self {
            value: AtomicU32::new(0),
            queue: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    fn wait(&self, expected: u32) {
        let queue = self.queue.lock().unwrap();
        if self.value.load(SeqCst) == expected {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    fn wake(&self) {
        let _queue = self.queue.lock().unwrap();
        self.woken.notify_all();
    }
}

/// Fences that a run leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    ProducerFence,
    CollectorFence,
    DoorbellFence,
    SleepFence,
    ReleaseOfWritten,
    ReleaseOfRead,
}

struct Ring {
    without: Without,
    words: [AtomicU64; WORDS as usize],
    written: AtomicU64,
    read: AtomicU64,
    waiting: AtomicU32,
    space: Futex,
    doorbell: Futex,
    sleeping: AtomicU32,
    /// What the collector does with an event before it gives its room back.
    taken: AtomicU64,
}

impl Ring {
    fn new(without: Without) -> Self {
        Self {
            without,
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            space: Futex::new(),
            doorbell: Futex::new(),
            sleeping: AtomicU32::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn fence(&self, named: Without) {
        if self.without != named {
            fence(SeqCst);
        }
    }

    fn ring_doorbell(&self) {
        self.doorbell.value.fetch_add(1, Release);
        self.fence(Without::DoorbellFence);
        if self.sleeping.load(Relaxed) != 0 {
            self.doorbell.wake();
        }
    }

    fn release(&self, read: u64) {
        self.taken.store(read, Relaxed);
        let order = if self.without == Without::ReleaseOfRead {
            Relaxed
        } else {
            Release
        };
        self.read.store(read, order);
        self.fence(Without::CollectorFence);
        if self.waiting.load(Relaxed) != 0 {
            self.space.value.fetch_add(1, Release);
            self.space.wake();
        }
    }

    fn sleep(&self, seen: u32) {
        self.sleeping.store(1, Relaxed);
        self.fence(Without::SleepFence);
        if self.doorbell.value.load(Acquire) == seen {
            self.doorbell.wait(seen);
        }
        self.sleeping.store(0, Relaxed);
    }
}

/// The recorded thread.
struct Producer<'r> {
    ring: &'r Ring,
    position: u64,
}

impl Producer<'_> {
    fn write(&mut self, word: u64) {
        while self.ring.read.load(Acquire) + WORDS < self.position + 1 {
            self.wait_for_space(self.position + 1);
        }
        let place = (self.position % WORDS) as usize;
        self.ring.words[place].store(word, Relaxed);
        self.position += 1;
        let order = if self.ring.without == Without::ReleaseOfWritten {
            Relaxed
        } else {
            Release
        };
        self.ring.written.store(self.position, order);
    }

    /// Waits, once, until there is room up to the position `end`.
    fn wait_for_space(&self, end: u64) {
        let ring = self.ring;
        ring.waiting.store(1, Relaxed);
        ring.fence(Without::ProducerFence);
        let space = ring.space.value.load(Acquire);
        if ring.read.load(Acquire) + WORDS < end {
            ring.ring_doorbell();
            ring.space.wait(space);
        }
        ring.waiting.store(0, Relaxed);
    }

    /// Waits until the collector has read everything that was written.
    fn wait_until_taken(&self) {
        while self.ring.read.load(Acquire) < self.position {
            self.wait_for_space(self.position + WORDS);
        }
    }
}

/// The collector: reads until it has seen all events, each as it was written.
fn collect(ring: &Ring) {
    let mut cursor = 0;
    while cursor < EVENTS {
        let seen = ring.doorbell.value.load(Acquire);
        let written = ring.written.load(Acquire);
        if written == cursor {
            ring.sleep(seen);
            continue;
        }
        assert!(written - cursor <= WORDS);
        while cursor != written {
            let place = (cursor % WORDS) as usize;
            assert_eq!(ring.words[place].load(Relaxed), cursor + 100);
            cursor += 1;
            ring.release(cursor);
        }
    }
}

/// What the producer does when it has written its last event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtEnd {
    Nothing,
    /// A thread that ends is found by the collector's next round, which its
    /// time limit brings; here by the bell.
    Rings,
    WaitsUntilTaken,
}

fn explore(without: Without, at_end: AtEnd) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(move || {
        let ring = Arc::new(Ring::new(without));
        let shared = Arc::clone(&ring);
        let producer = loom::thread::spawn(move || {
            let mut producer = Producer {
                ring: &shared,
                position: 0,
            };
            for event in 0..EVENTS {
                producer.write(event + 100);
            }
            match at_end {
                AtEnd::Nothing => {}
                AtEnd::Rings => shared.ring_doorbell(),
                AtEnd::WaitsUntilTaken => {
                    producer.wait_until_taken();
                    // What the collector did before it gave the room back is seen.
                    assert_eq!(shared.taken.load(Relaxed), EVENTS);
                }
            }
        });
        collect(&ring);
        producer.join().unwrap();
    });
}

#[test]
fn every_event_arrives_as_written_and_nobody_sleeps_for_ever() {
    explore(Without::Nothing, AtEnd::Rings);
}

/// A window's end that waits for the collector to have read descriptors.
#[test]
fn who_waits_until_all_is_taken_sees_what_was_done_and_is_woken() {
    explore(Without::Nothing, AtEnd::WaitsUntilTaken);
}

/// One run without the fence that the environment names, see below.
#[test]
#[ignore = "fails on purpose"]
fn without_one() {
    let (without, at_end) = match std::env::var("WITHOUT").as_deref() {
        Ok("bell at the end") => (Without::Nothing, AtEnd::Nothing),
        Ok("release of written") => (Without::ReleaseOfWritten, AtEnd::Rings),
        Ok("producer's fence") => (Without::ProducerFence, AtEnd::Rings),
        Ok("collector's fence") => (Without::CollectorFence, AtEnd::Rings),
        Ok("doorbell's fence") => (Without::DoorbellFence, AtEnd::Rings),
        Ok("sleeper's fence") => (Without::SleepFence, AtEnd::Rings),
        Ok("release of read") => (Without::ReleaseOfRead, AtEnd::WaitsUntilTaken),
        other => panic!("nothing to leave out: {other:?}"),
    };
    explore(without, at_end);
}

/// In a process of its own: what loom finds can end it.
#[track_caller]
fn expect_failure_without(named: &str, words: &str) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "without_one", "--ignored", "--nocapture"])
        .env("WITHOUT", named)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains(words),
        "without the {named}: {}\n{said}",
        output.status
    );
}

#[test]
fn the_model_notices_a_bell_that_is_not_rung() {
    expect_failure_without("bell at the end", "deadlock");
}

#[test]
fn written_must_be_released() {
    expect_failure_without("release of written", "assertion");
}

#[test]
fn read_must_be_released() {
    expect_failure_without("release of read", "assertion");
}

#[test]
fn the_producer_needs_its_fence() {
    expect_failure_without("producer's fence", "deadlock");
}

#[test]
fn the_collector_needs_its_fence() {
    expect_failure_without("collector's fence", "deadlock");
}

#[test]
fn the_doorbell_needs_its_fence() {
    expect_failure_without("doorbell's fence", "deadlock");
}

#[test]
fn the_sleeper_needs_its_fence() {
    expect_failure_without("sleeper's fence", "deadlock");
}
