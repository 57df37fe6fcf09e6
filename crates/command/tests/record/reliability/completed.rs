//! The number of allocations that returned to the program. The program counts them
//! itself, in a file that it maps, so the numbers survive whatever ends it.

use std::path::Path;

use crate::support::Process;

/// The file of `programs/completed.h`.
pub const FILE: &str = "completed";
/// One number a cache line.
const STRIDE: usize = 64;

/// The numbers that the program left in `folder`.
pub fn numbers(folder: &Path) -> Vec<u64> {
    let bytes = std::fs::read(folder.join(FILE)).expect("the program made it");
    bytes
        .chunks_exact(STRIDE)
        .map(|line| u64::from_le_bytes(line[..8].try_into().expect("eight of 64 bytes")))
        .collect()
}

/// Fails unless the function's allocations are those that were completed. A thread
/// may have been stopped after the return of its last allocation and before it counted
/// it: so one more for each thread is right too, one less never.
#[track_caller]
pub fn expect_all(process: &Process<'_>, function: &str, folder: &Path, threads: u64) -> String {
    let completed: u64 = numbers(folder).iter().sum();
    let recorded = process.under(function).allocations;
    assert!(completed > 0, "the threads ran");
    assert!(
        (completed..=completed + threads).contains(&recorded),
        "{completed} completed in {function}, {recorded} recorded"
    );
    format!("{recorded} recorded of {completed} completed by {threads} threads")
}
