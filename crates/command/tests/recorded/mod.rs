//! The workload of the tests `recorded_*.rs` and `record/recorded_system.rs`, whose
//! allocations follow from its source. Those test programs differ only in their global
//! allocator, and each records itself.

#![allow(dead_code)] // each test file uses its own part

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;

use allotrope_profile::{Options, Process, aggregate};
use allotrope_trace::TraceReader;
use allotrope_trace::model::EntryPoint;

use crate::support::{Recording, record};

/// 100 blocks of 24 bytes, each freed before the next.
#[inline(never)]
fn boxes() {
    for number in 0..100_u64 {
        black_box(Box::new([number; 3]));
    }
}

/// 32 bytes that grow to 8,000.
#[inline(never)]
fn grown() {
    let mut numbers: Vec<u64> = black_box(Vec::with_capacity(4));
    numbers.extend([1, 2, 3, 4]);
    numbers.reserve_exact(996);
    black_box(&numbers);
}

/// 10 blocks of 5,000 zeroes.
#[inline(never)]
fn zeroed() {
    for _ in 0..10 {
        let bytes = black_box(vec![0_u8; 5000]);
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
}

/// 5 blocks of 256 bytes, aligned to 128, never freed.
#[inline(never)]
fn aligned() {
    let layout = Layout::from_size_align(256, 128).expect("a power of two");
    for _ in 0..5 {
        // SAFETY: the layout is not empty.
        let block = black_box(unsafe { alloc(layout) });
        assert!(!block.is_null() && (block as usize).is_multiple_of(128));
    }
}

/// 2 blocks of 300,000 bytes, alive together.
#[inline(never)]
fn large() {
    let layout = Layout::from_size_align(300_000, 8).expect("a power of two");
    // SAFETY: the layout is not empty; each block is freed with its own layout.
    unsafe {
        let blocks = [alloc(layout), alloc(layout)];
        black_box(&blocks);
        blocks.into_iter().for_each(|block| dealloc(block, layout));
    }
}

/// 1,000 blocks of 4 bytes that another thread frees.
#[inline(never)]
#[allow(clippy::vec_box)] // single blocks are the point
fn handed_over() -> Vec<Box<u32>> {
    let mut made = Vec::new();
    made.reserve_exact(1000);
    made.extend((0..1000).map(|number| black_box(Box::new(number))));
    made
}

/// All of it.
pub fn workload() {
    boxes();
    grown();
    zeroed();
    aligned();
    large();
    let made = handed_over();
    std::thread::spawn(move || drop(made))
        .join()
        .expect("it only drops");
}

/// Function, allocations, bytes, temporary ones, leaked ones. In `grown`, the 32
/// bytes and the 8,000 are both temporary: nothing is allocated until they are freed.
/// In `large`, the second block is: it is the last allocation of its thread when both
/// are freed. In `handed_over`, the vector of 1,000 pointers is one allocation more.
const TRUTH: [(&str, u64, u64, u64, u64); 6] = [
    ("boxes", 100, 2400, 100, 0),
    ("grown", 2, 8032, 2, 0),
    ("zeroed", 10, 50_000, 10, 0),
    ("aligned", 5, 1280, 0, 5),
    ("large", 2, 600_000, 1, 0),
    ("handed_over", 1001, 4000 + 8000, 0, 0),
];

/// Records this test program with only the test `name`, which does the workload, and
/// compares the counts.
#[track_caller]
pub fn expect_truth(name: &str) -> Recording {
    let program = std::env::current_exe().expect("it runs");
    let recording = record(program).args(["--exact", name]).run();
    let recording = recording.ok();
    let report = recording.report();
    let process = report.only();
    assert_eq!(process.number("lost_events"), 0);
    assert!(process.total("reallocations") >= 1);
    let module = format!("{}::recorded::", env!("CARGO_CRATE_NAME"));
    for (function, allocations, bytes, temporary, leaked) in TRUTH {
        let found = process.under(&format!("{module}{function}"));
        let seen = (
            found.allocations,
            found.bytes,
            found.temporary,
            found.leaked,
        );
        let expected = (allocations, bytes, temporary, leaked);
        assert_eq!(seen, expected, "{function}: {}", report.summary());
    }
    recording
}

/// The recorded image, with its totals by entry point.
pub fn profiled(recording: &Recording) -> Process {
    let reader = TraceReader::open(&recording.trace).expect("it was just written");
    let mut profile = aggregate(&reader, &Options::default()).expect("it is whole");
    let process = profile.processes.remove(0);
    assert_eq!(process.unmatched_deallocations, 0);
    process
}

/// Allocations and deallocations through an entry point.
pub fn through(process: &Process, entry: EntryPoint) -> (u64, u64) {
    let mut entries = process.entries.iter().filter(|found| found.entry == entry);
    let found = entries.next();
    found.map_or((0, 0), |found| (found.allocations, found.deallocations))
}

/// All that the workload allocates.
pub fn allocations_of_workload() -> u64 {
    TRUTH.iter().map(|truth| truth.1).sum()
}
