//! One thread: what is written is what is read.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use allotrope_sampling::Period;
use allotrope_shm::mapped_file::FileIdentity;
use allotrope_shm::numbers::stack_end;
use allotrope_shm::samples::frees::Deallocation;
use allotrope_shm::samples::layout::{
    BUCKETS, FREES, MODULE_PATH, MODULES, NODES, STATES, TOTALS, WAYS,
};
use allotrope_shm::samples::modules::Module;
use allotrope_shm::samples::reader::{ReadError, State};
use allotrope_shm::samples::stacks::Frame;
use allotrope_shm::samples::writer::Sample;
use proptest::prelude::*;

use crate::support::{TestProcess, sample, sorted};

fn frame(address: u64) -> Frame {
    Frame {
        address,
        exact: address.is_multiple_of(7),
        mapping: (address % 5) as u16,
    }
}

fn freed(time: u64) -> Deallocation {
    Deallocation {
        time,
        stack: 9,
        thread: 4,
    }
}

#[test]
fn a_new_memory_tells_what_the_process_is() {
    let watched = TestProcess::new();
    let state = watched.state();
    assert_eq!(state.process.id, u64::from(std::process::id()));
    assert_eq!((state.process.began, state.process.began_real), (1, 2));
    assert_eq!(state.process.executable, b"/usr/bin/server");
    assert_eq!(state.process.command, b"server\0--quiet\0");
    assert_eq!(state.period, Some(Period::DEFAULT));
    assert!(state.samples.is_empty() && state.freed.is_empty() && state.modules.is_empty());
    assert_eq!((state.malformed, state.unstable), (0, 0));
}

#[test]
fn a_file_without_a_header_or_of_another_version_is_refused() {
    let watched = TestProcess::new();
    watched.memory().header.0.version.store(99, Relaxed);
    let error = State::read(watched.memory()).expect_err("another version");
    assert!(matches!(error, ReadError::OtherVersion { found: 99 }));
    watched.memory().header.0.magic.store(0, Relaxed);
    let error = State::read(watched.memory()).expect_err("no header");
    assert!(matches!(error, ReadError::Incomplete));
}

#[test]
fn what_the_recorder_needs_is_found() {
    let watched = TestProcess::new();
    let recorder = watched.state().process.recorder;
    let address = std::ptr::from_ref(watched.memory()).addr() as u64;
    assert_eq!((recorder.memory, recorder.state_bytes), (address, 64));
    assert_eq!(recorder.states, [0; 0]);
    let writer = watched.writer();
    // The state of a thread that ends is taken over by another one.
    for (number, address) in [(0, 4096), (STATES - 1, 8192), (0, 4096), (STATES, 16_384)] {
        writer.note_state(number, address);
    }
    assert_eq!(watched.state().process.recorder.states, [4096, 8192]);
}

#[test]
fn the_watcher_sets_the_period() {
    let watched = TestProcess::new();
    let period = &watched.memory().control.0.period;
    for (wanted, found) in [
        (0, None),
        (1, Period::new(1)),
        (1 << 40, Some(Period::MAX)),
        (1 << 41, None),
        (u64::MAX, None),
    ] {
        period.store(wanted, Relaxed);
        assert_eq!(watched.writer().setting(), found);
        assert_eq!(watched.state().period, found);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Allocate(u64),
    Free(u64),
    FailedReallocation(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // So few addresses that many are used again.
    let step = (0..3, 1..400u64).prop_map(|(kind, number)| match kind {
        0 => Step::Allocate(number * 16),
        1 => Step::Free(number * 16),
        _ => Step::FailedReallocation(number * 16),
    });
    proptest::collection::vec(step, 0..2000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn samples_are_those_allocated_and_not_freed(steps in steps()) {
        let watched = TestProcess::new();
        let writer = watched.writer();
        let mut live = BTreeMap::new();
        let mut gone = Vec::new();
        let mut allocated = 0;
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Allocate(address) if !live.contains_key(&address) => {
                    let new = sample(address, number);
                    prop_assert!(writer.insert(&new));
                    live.insert(address, new);
                    allocated += 1;
                }
                Step::Allocate(_) => {}
                Step::Free(address) => {
                    let taken = writer.take(address);
                    prop_assert_eq!(taken, live.remove(&address));
                    if let Some(taken) = taken {
                        writer.freed(&taken, freed(number));
                        gone.push((taken, number));
                    }
                }
                Step::FailedReallocation(address) => {
                    let taken = writer.take(address);
                    prop_assert_eq!(taken.as_ref(), live.get(&address));
                    if let Some(taken) = taken {
                        prop_assert!(writer.put_back(&taken));
                    }
                }
            }
        }
        let state = watched.state();
        prop_assert_eq!(sorted(state.samples.clone()), live.into_values().collect::<Vec<_>>());
        prop_assert_eq!(state.counters.sampled, allocated);
        prop_assert_eq!(state.counters.freed, gone.len() as u64);
        prop_assert_eq!(state.freed.len(), gone.len());
        for (found, (sample, time)) in state.freed.iter().zip(&gone) {
            prop_assert_eq!((found.address, found.size), (sample.address, sample.size));
            prop_assert_eq!((found.period, found.allocated), (sample.period, sample.allocated));
            prop_assert_eq!((found.stack, found.thread), (sample.stack, sample.thread));
            prop_assert_eq!(found.deallocation, freed(*time));
        }
        prop_assert_eq!((state.malformed, state.unstable), (0, 0));
    }

    #[test]
    fn stacks_are_read_as_they_were_written(
        stacks in proptest::collection::vec(proptest::collection::vec(1..50u64, 0..20), 0..200)
    ) {
        let watched = TestProcess::new();
        let mut known = BTreeMap::new();
        for frames in &stacks {
            // From the outermost frame on.
            let mut id = stack_end::COMPLETE;
            for &address in frames {
                id = watched.writer().node(id, frame(address)).expect("a node");
            }
            // The same stack has the same id, and no other one has it.
            prop_assert_eq!(*known.entry(frames.clone()).or_insert(id), id);
        }
        let state = watched.state();
        for (frames, id) in known {
            let stack = state.stack(id);
            let expected: Vec<_> = frames.iter().rev().map(|&it| frame(it)).collect();
            prop_assert_eq!(stack.frames, expected);
            prop_assert_eq!(stack.end, stack_end::COMPLETE);
        }
    }
}

#[test]
fn a_stack_tells_why_it_ends() {
    let watched = TestProcess::new();
    for end in [
        stack_end::COMPLETE,
        stack_end::NO_UNWIND_INFORMATION,
        stack_end::TRUNCATED,
    ] {
        let id = watched.writer().node(end, frame(0x1000)).expect("a node");
        let state = watched.state();
        assert_eq!(state.stack(id).end, end);
        assert_eq!(state.stack(id).frames, [frame(0x1000)]);
    }
}

#[test]
fn a_full_table_of_samples_counts_what_it_cannot_take() {
    const CAPACITY: u64 = (BUCKETS * WAYS) as u64;
    let watched = TestProcess::new();
    let writer = watched.writer();
    let address = |number: u64| 0x7f00_0000_0000 + number * 48;
    let mut lost = 0;
    for number in 1..=CAPACITY * 2 {
        if !writer.insert(&sample(address(number), number)) {
            lost += 1;
        }
        // Two choices fill it evenly.
        assert!(
            lost == 0 || number > CAPACITY * 65 / 100,
            "full with {number} of {CAPACITY}"
        );
    }
    let state = watched.state();
    assert_eq!(state.counters.lost_samples, lost);
    assert_eq!(state.samples.len() as u64, CAPACITY * 2 - lost);
    // With so many the last places are taken, too.
    assert!(state.samples.len() as u64 > CAPACITY * 99 / 100);
    // All that are there can be taken, and then there is place again.
    let taken = (1..=CAPACITY * 2).filter(|&it| writer.take(address(it)).is_some());
    assert_eq!(taken.count(), state.samples.len());
    assert!(watched.state().samples.is_empty());
    assert!(writer.insert(&sample(16, 1)));
}

/// Each sample has another stack here.
#[test]
fn a_full_table_of_totals_counts_what_it_cannot_take() {
    let watched = TestProcess::new();
    let writer = watched.writer();
    for number in 1..=TOTALS as u64 * 2 {
        let new = Sample {
            stack: number as u32,
            ..sample(16, 1)
        };
        writer.insert(&new);
        writer.take(16);
        let lost = watched.memory().counters.0.lost_totals.load(Relaxed);
        assert!(
            lost == 0 || number > TOTALS as u64 / 4,
            "full with {number}"
        );
    }
    let state = watched.state();
    let lost = state.counters.lost_totals;
    assert_eq!(state.totals.len() as u64, TOTALS as u64 * 2 - lost);
    assert!(state.totals.iter().all(|it| it.allocated == 1));
}

#[test]
fn a_full_table_of_nodes_keeps_what_it_has() {
    let watched = TestProcess::new();
    let writer = watched.writer();
    let mut ids = Vec::new();
    let mut refused = 0;
    for number in 0..NODES as u64 + 1000 {
        match writer.node(stack_end::COMPLETE, frame(number * 16)) {
            Some(id) => ids.push((number, id)),
            None => refused += 1,
        }
    }
    assert_eq!(refused, 1000 + stack_end::FIRST_NODE);
    let state = watched.state();
    for (number, id) in ids {
        assert_eq!(state.stack(id).frames, [frame(number * 16)]);
        assert_eq!(
            writer.node(stack_end::COMPLETE, frame(number * 16)),
            Some(id)
        );
    }
}

#[test]
fn the_latest_deallocations_are_kept() {
    let watched = TestProcess::new();
    let all = FREES as u64 * 5 / 2;
    for number in 1..=all {
        watched
            .writer()
            .freed(&sample(16 * number, number), freed(number));
    }
    let state = watched.state();
    assert_eq!(state.counters.lost_frees, 0);
    let found: Vec<_> = state.freed.iter().map(|it| it.deallocation.time).collect();
    let expected: Vec<_> = (all - FREES as u64 + 1..=all).collect();
    assert_eq!(found, expected);
}

#[test]
fn modules_stay_after_they_are_unmapped() {
    let watched = TestProcess::new();
    let writer = watched.writer();
    let path = vec![b'x'; 1000];
    for number in 0..MODULES as u16 + 3 {
        let start = 0x1000 * (u64::from(number) + 1);
        let module = Module {
            start,
            end: start + 0x1000,
            bias: start - 0x500,
            file: FileIdentity::from_words([number.into(), 2, 3, 4, 5]),
            build_id: &[number as u8; 20],
            path: if number == 7 { &path } else { b"/lib/libx.so" },
        };
        let is_placed = writer.map(number, &module, u64::from(number));
        assert_eq!(is_placed, usize::from(number) < MODULES);
    }
    writer.unmap(9, 77);
    let state = watched.state();
    assert_eq!(state.counters.lost_modules, 3);
    assert_eq!(state.modules.len(), MODULES);
    let (number, module) = &state.modules[9];
    assert_eq!((*number, module.unmapped, module.mapped), (9, Some(77), 9));
    assert_eq!(
        (module.start, module.end, module.bias),
        (0xa000, 0xb000, 0x9b00)
    );
    assert_eq!(
        (&module.build_id[..], &module.path[..]),
        (&[9; 20][..], &b"/lib/libx.so"[..])
    );
    assert_eq!(state.modules[8].1.unmapped, None);
    assert_eq!(module.file.to_words(), [9, 2, 3, 4, 5]);
    assert_eq!(state.modules[7].1.path, path[..MODULE_PATH]);
}

/// Without memory nothing is written to a page that does not exist; with it again all goes on.
#[test]
fn without_memory_samples_are_lost_and_counted() {
    let watched = TestProcess::new();
    let writer = watched.writer();
    watched.pages.are_exhausted.store(true, Relaxed);
    assert!(!writer.insert(&sample(16, 1)));
    assert_eq!(writer.node(stack_end::COMPLETE, frame(16)), None);
    writer.freed(&sample(16, 1), freed(1));
    assert_eq!(writer.take(16), None);
    let state = watched.state();
    assert_eq!(
        (state.counters.lost_samples, state.counters.lost_frees),
        (1, 1)
    );
    assert!(state.counters.uncommitted >= 3);
    watched.pages.are_exhausted.store(false, Relaxed);
    assert!(writer.insert(&sample(16, 1)));
    assert_eq!(writer.take(16), Some(sample(16, 1)));
}

/// Only pages that are needed are touched, by either side.
#[test]
fn memory_grows_with_what_is_in_it() {
    let watched = TestProcess::new();
    let resident = || rustix::fs::fstat(&watched.file).expect("fstat").st_blocks * 512;
    watched.state();
    assert!(resident() <= 3 * 4096, "{}", resident());
    for number in 1..=10 {
        watched.writer().insert(&sample(4096 * number, number));
        watched.writer().node(0, frame(number));
    }
    watched.writer().take(4096 * 5);
    watched.writer().take(999 * 16);
    watched.state();
    // A page for each sample, for each total and for each index entry, and one for all nodes.
    assert!(
        resident() <= (3 + 10 + 10 + 10 + 1) * 4096,
        "{}",
        resident()
    );
}
