//! Damaged and hostile files, read by whole commands, helper threads included: mutants
//! of traces of all kinds and of every format that is imported. No mutant may hang a
//! reader, make it panic, fill memory, or take more CPU time than a bound.
//!
//! Each mutant follows from a seed and its number. The short form is among the ordinary
//! tests, with a seed of its own each time, which it prints; `scripts/fuzz-reader` is the
//! long one. Both read:
//!
//! - `ALLOTROPE_FUZZ_SEED`, `ALLOTROPE_FUZZ_FROM`, `ALLOTROPE_FUZZ_MUTANTS`: which
//!   mutants;
//! - `ALLOTROPE_FUZZ_KEEP`: a folder for the mutants that a reader did not survive.

mod command;
mod mutate;
mod numbers;
mod seeds;
mod supervise;
mod views;

use std::panic::{AssertUnwindSafe, catch_unwind};

use allotrope_formats::read_bytes;
use allotrope_profile::StackSet;
use allotrope_profile::{Options, aggregate};
use allotrope_trace::{Compression, TraceReader};

use numbers::Numbers;
use seeds::Seed;

/// Mutants of the short form.
const MUTANTS: u64 = 6_000;
/// Mutants of the short form that are given to the command itself.
const COMMANDS: u64 = 60;

/// The seeds, and what a diff compares their mutants to.
struct Seeds {
    traces: Vec<(Seed, [Vec<u8>; 2])>,
    foreign: Vec<Vec<u8>>,
    before: StackSet,
}

/// A mutated file.
enum Mutant {
    Trace(Vec<u8>),
    Foreign(Vec<u8>),
}

impl Mutant {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Trace(bytes) | Self::Foreign(bytes) => bytes,
        }
    }
}

impl Seeds {
    fn new() -> Self {
        let traces = seeds::traces().into_iter().map(|seed| {
            let written = [Compression::None, Compression::Fast]
                .map(|compression| seeds::written(&seed.records, compression));
            (seed, written)
        });
        let traces: Vec<_> = traces.collect();
        let trace = TraceReader::new(&traces[0].1[0][..]).expect("a whole trace");
        let profile = aggregate(&trace, &Options::default()).expect("a whole trace");
        Self {
            before: StackSet::from(&profile),
            foreign: seeds::foreign(),
            traces,
        }
    }

    /// A mutant, and the numbers that decide how it is read.
    fn mutant(&self, seed: u64, number: u64) -> (Mutant, Numbers) {
        let mut numbers = Numbers::of(seed, number);
        if numbers.once_in(4) {
            let mut bytes = numbers.one_of(&self.foreign).clone();
            mutate::foreign(&mut bytes, &mut numbers);
            return (Mutant::Foreign(bytes), numbers);
        }
        let (seed, written) = numbers.one_of(&self.traces);
        let mut bytes = if numbers.once_in(2) {
            let mut records = seed.records.clone();
            mutate::records(&mut records, &mut numbers);
            let compression = *numbers.one_of(&[Compression::None, Compression::Fast]);
            seeds::written(&records, compression)
        } else {
            numbers.one_of(written).clone()
        };
        if numbers.once_in(2) {
            mutate::trace(&mut bytes, &mut numbers);
        }
        (Mutant::Trace(bytes), numbers)
    }

    /// Reads a mutant; `false` if that panics.
    fn survives(&self, seed: u64, number: u64) -> bool {
        let (mutant, mut numbers) = self.mutant(seed, number);
        let read = catch_unwind(AssertUnwindSafe(|| match &mutant {
            Mutant::Trace(file) => views::trace(file, &self.before, &mut numbers),
            Mutant::Foreign(file) => views::foreign(file, &self.before, &mut numbers),
        }));
        read.is_ok()
    }
}

#[test]
fn the_seeds_themselves_are_read_whole() {
    let seeds = Seeds::new();
    for (seed, written) in &seeds.traces {
        for file in written {
            let trace = TraceReader::new(&file[..]).expect("a whole trace");
            let profile = aggregate(&trace, &Options::default()).expect("a whole trace");
            assert!(profile.is_complete(), "{}", seed.name);
            let allocations: u64 = (profile.processes.iter())
                .map(|process| process.totals.allocations)
                .sum();
            assert!(allocations > 20, "{}: {allocations}", seed.name);
        }
    }
    for file in &seeds.foreign {
        read_bytes("seed", &file[..]).expect("a whole file");
    }
}

/// Runs in a process of its own, which is supervised, and has limited memory and CPU time: see
/// [`supervise`].
#[test]
fn mutants_are_read_to_an_end() {
    supervise::run(MUTANTS);
}

/// The supervised process.
#[test]
#[ignore = "started by the test above it"]
fn batch() {
    supervise::child();
}

#[test]
fn mutants_end_every_command() {
    command::run(COMMANDS);
}
