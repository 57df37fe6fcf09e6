//! Model check of the ring (`allotrope_shm::ring`) with loom, which runs its code in
//! every order in which the steps of a producer and of the collector can take effect:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p allotrope-shm --test loom
//! ```
//!
//! The ring has two words and is used for more than one lap; its atomics are loom's.
//! Waits have no time limit here, so a lost wake-up is a deadlock, which loom reports.
//!
//! Each fence and each release is needed: further tests leave one of them out and expect
//! loom to find the failure. Each atomic of the model stores which word of the protocol
//! it is, and a fence is identified by the word stored before it. `scripts/mutants`
//! removes the same fences from the source.
#![allow(unexpected_cfgs)]
#![cfg(loom)]

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use allotrope_shm::atomics::{Atomic, Atomics};
use allotrope_shm::layout::{Doorbell, Progress, RingHeader};
use allotrope_shm::ring::{Claims, Host, Limits, Reader, Refusal, Ring, Shape, Writer};
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::{Arc, Condvar, Mutex};

const EVENTS: u64 = 3;

/// The step of the protocol that a run leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The fence between `waiting` and `read`.
    ProducerFence,
    /// The fence between `read` and `waiting`.
    CollectorFence,
    /// The fence between `value` and `sleeping`.
    DoorbellFence,
    /// The fence between `sleeping` and `value`.
    SleepFence,
    ReleaseOfWritten,
    ReleaseOfRead,
    /// The fence between the count of claims and `check_at`.
    ClaimFence,
    /// The fence between `check_at` and the count of claims.
    CheckFence,
}

static WITHOUT: OnceLock<Without> = OnceLock::new();

fn is_left_out(step: Without) -> bool {
    WITHOUT.get() == Some(&step)
}

loom::thread_local! {
    /// The word that this thread stored last; it identifies the next fence.
    static LAST_STORE: Cell<Word> = Cell::new(Word::Other);
}

/// The words of the protocol, named in [`Model::new`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Other,
    Waiting,
    Read,
    Bell,
    Sleeping,
    Written,
    Claims,
    CheckAt,
}

/// Loom's atomics.
#[derive(Debug)]
struct Loom;

impl Atomics for Loom {
    type U32 = U32;
    type U64 = U64;

    fn fence(order: Ordering) {
        let step = match LAST_STORE.with(Cell::get) {
            Word::Waiting => Without::ProducerFence,
            Word::Read => Without::CollectorFence,
            Word::Bell => Without::DoorbellFence,
            Word::Sleeping => Without::SleepFence,
            Word::Claims => Without::ClaimFence,
            Word::CheckAt => Without::CheckFence,
            _ => Without::Nothing,
        };
        if step == Without::Nothing || !is_left_out(step) {
            loom::sync::atomic::fence(order);
        }
    }
}

macro_rules! atomic {
    ($name:ident, $atomic:ident, $value:ty) => {
        #[derive(Default)]
        struct $name {
            value: loom::sync::atomic::$atomic,
            /// The word of the protocol that this is; set before the threads begin.
            word: OnceLock<Word>,
        }

        impl $name {
            fn named(self, word: Word) -> Self {
                assert!(self.word.set(word).is_ok());
                self
            }

            fn note_store(&self) -> Word {
                let word = self.word.get().copied().unwrap_or(Word::Other);
                LAST_STORE.with(|last| last.set(word));
                word
            }
        }

        impl Atomic<$value> for $name {
            fn load(&self, order: Ordering) -> $value {
                self.value.load(order)
            }

            fn store(&self, value: $value, order: Ordering) {
                let order = match self.note_store() {
                    Word::Written if is_left_out(Without::ReleaseOfWritten) => Relaxed,
                    Word::Read if is_left_out(Without::ReleaseOfRead) => Relaxed,
                    _ => order,
                };
                self.value.store(value, order);
            }

            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.note_store();
                self.value.fetch_add(value, order)
            }
        }
    };
}
atomic!(U32, AtomicU32, u32);
atomic!(U64, AtomicU64, u64);

/// A ring of two words.
struct Tiny;

impl Shape for Tiny {
    type Atomics = Loom;
    type Slots = [U64; 2];
    const CAPACITY: u64 = 2;
    const MARGIN: u64 = 0;
    const COMMIT_WORDS: u64 = 2;
}

/// The kernel's side of a futex: it compares and goes to sleep in one step.
#[derive(Default)]
struct Queue {
    queue: Mutex<()>,
    woken: Condvar,
}

impl Queue {
    fn wait(&self, word: &U32, expected: u32) {
        let queue = self.queue.lock().unwrap();
        if word.value.load(SeqCst) == expected {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    fn wake(&self) {
        let _queue = self.queue.lock().unwrap();
        self.woken.notify_all();
    }
}

/// One ring, the doorbell, and the futexes' queues.
struct Model {
    header: RingHeader<Loom>,
    progress: Progress<Loom>,
    slots: [U64; 2],
    doorbell: Doorbell<Loom>,
    space_queue: Queue,
    bell_queue: Queue,
    /// Number of events that the collector has processed; set before it releases their
    /// space.
    done: loom::sync::atomic::AtomicU64,
}

impl Model {
    fn new() -> Self {
        let (mut header, mut progress) = (RingHeader::default(), Progress::default());
        header.written = U64::default().named(Word::Written);
        header.waiting = U32::default().named(Word::Waiting);
        progress.read = U64::default().named(Word::Read);
        let doorbell = Doorbell {
            value: U32::default().named(Word::Bell),
            sleeping: U32::default().named(Word::Sleeping),
        };
        Self {
            header,
            progress,
            slots: [U64::default(), U64::default()],
            doorbell,
            space_queue: Queue::default(),
            bell_queue: Queue::default(),
            done: loom::sync::atomic::AtomicU64::new(0),
        }
    }
}

/// The producer's operating system.
impl Host<Tiny> for &Model {
    fn is_collected(&self) -> bool {
        true
    }

    fn futex_wait(&self, word: &U32, expected: u32) {
        self.space_queue.wait(word, expected);
    }

    fn futex_wake(&self, _: &U32) {
        self.bell_queue.wake();
    }

    fn commit(&self, _: &[U64]) -> bool {
        true
    }
}

/// The recorded thread: writes all events.
fn produce(model: &Model, at_end: AtEnd) {
    let (writer, limits) = (Writer::<Tiny>::default(), Limits::default());
    let Model {
        header,
        progress,
        slots,
        ..
    } = model;
    writer.attach(
        Ring {
            header,
            progress,
            slots,
        },
        &limits,
    );
    for event in 0..EVENTS {
        if !writer.has_space(&limits, 1) {
            let reserved = writer.reserve_slow(&limits, 1, true, &model.doorbell, &model);
            assert!(!matches!(reserved, Err(Refusal::Full)));
        }
        // SAFETY: a ring was attached.
        unsafe { writer.write([event + 100]) };
    }
    match at_end {
        AtEnd::Nothing => {}
        AtEnd::Rings => model.doorbell.ring(|_| model.bell_queue.wake()),
        AtEnd::WaitsUntilRead => {
            assert!(writer.wait_until_read(&model.doorbell, &model));
            // What the collector did before it released the space is visible.
            assert_eq!(model.done.load(Relaxed), EVENTS);
        }
    }
}

/// The collector: reads until it has seen all events, each as it was written.
fn collect(model: &Model) {
    let mut reader = Reader::default();
    let mut words = Vec::new();
    while reader.cursor() < EVENTS {
        let seen = model.doorbell.count();
        let published = model.header.published();
        if published == reader.cursor() {
            let wait = |word: &U32| model.bell_queue.wait(word, seen);
            model.doorbell.sleep(seen, wait);
            continue;
        }
        assert!(reader.unread::<Tiny>(published).is_some());
        while reader.cursor() != published {
            words.clear();
            reader.copy::<Tiny>(&model.slots, published, 1, &mut words);
            assert_eq!(words, [reader.cursor() + 100]);
            let to = reader.cursor() + 1;
            model.done.store(to, Relaxed);
            let wake = |_: &U32| model.space_queue.wake();
            reader.release(to, &model.header, &model.progress, wake);
        }
    }
}

/// What the producer does after its last event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtEnd {
    Nothing,
    /// Rings the doorbell. A real collector wakes up by a time limit instead.
    Rings,
    WaitsUntilRead,
}

fn explore(without: Without, at_end: AtEnd) {
    WITHOUT.get_or_init(|| without);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let model = Arc::new(Model::new());
        let shared = Arc::clone(&model);
        let producer = loom::thread::spawn(move || produce(&shared, at_end));
        collect(&model);
        producer.join().unwrap();
    });
}

#[test]
fn every_event_is_read_as_written_and_no_side_sleeps_forever() {
    explore(Without::Nothing, AtEnd::Rings);
}

/// The producer waits like the end of a window, until the collector has read descriptors.
#[test]
fn a_producer_that_waits_until_all_is_read_is_woken_and_sees_what_was_done() {
    explore(Without::Nothing, AtEnd::WaitsUntilRead);
}

/// The second thread of an image claims its ring while the first one sets its
/// `check_at`. Afterwards the first thread either takes the slow path at once, or it
/// knew of the second ring when it chose the position.
fn explore_claims(without: Without) {
    const FAR: u64 = 1000;
    WITHOUT.get_or_init(|| without);
    loom::model(|| {
        let claims = Claims::<Loom>::with_counter(U32::default().named(Word::Claims));
        let limits = Limits::<Loom>::default();
        assert!(limits.check_at.word.set(Word::CheckAt).is_ok());
        assert!(!claims.add(std::iter::empty()), "the first claim");
        let shared = Arc::new((claims, limits));
        let others = Arc::clone(&shared);
        let second = loom::thread::spawn(move || {
            let (claims, limits) = &*others;
            assert!(claims.add(std::iter::once(limits)));
        });
        let (claims, limits) = &*shared;
        let was_single = claims.is_single();
        claims.set_check_at(limits, FAR, was_single);
        second.join().unwrap();
        let check_at = limits.check_at.load(Relaxed);
        assert!(check_at == 0 || !was_single, "a far check with two rings");
    });
}

#[test]
fn the_first_thread_detects_the_claim_of_a_second_ring() {
    explore_claims(Without::Nothing);
}

/// One run without the step that the environment variable `WITHOUT` names.
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
        Ok("release of read") => (Without::ReleaseOfRead, AtEnd::WaitsUntilRead),
        Ok("claimer's fence") => return explore_claims(Without::ClaimFence),
        Ok("first thread's fence") => return explore_claims(Without::CheckFence),
        other => panic!("nothing to leave out: {other:?}"),
    };
    explore(without, at_end);
}

/// Runs [`without_one`] in a process of its own, which loom may abort. It must fail with
/// `words` in its output.
#[track_caller]
fn expect_failure_without(named: &str, words: &str) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "without_one", "--ignored", "--nocapture"])
        .env("WITHOUT", named)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && printed.contains(words),
        "without the {named}: {}\n{printed}",
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

#[test]
fn the_claimer_of_a_second_ring_needs_a_fence() {
    expect_failure_without("claimer's fence", "a far check with two rings");
}

#[test]
fn the_first_thread_needs_a_fence_too() {
    expect_failure_without("first thread's fence", "a far check with two rings");
}
