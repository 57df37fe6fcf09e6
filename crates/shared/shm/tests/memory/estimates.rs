//! From the calls of a program to an estimate: the sampler decides, the process writes, a
//! reader estimates, and the truth is what the test has counted.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use allotrope_sampling::Period;
use allotrope_sampling::countdown::Countdown;
use allotrope_sampling::estimate::{Estimate, Figures, MIN};
use allotrope_sampling::exponential::Generator;
use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::samples::frees::Deallocation;
use allotrope_shm::samples::stacks::Frame;
use allotrope_shm::samples::writer::Sample;

use crate::support::TestProcess;

/// Runs, and how many of them are to have the truth in the interval.
const RUNS: u64 = 200;
const ENOUGH: u64 = 186;
/// Stacks that allocate, each with sizes of its own.
const SITES: u64 = 4;

fn holds(estimate: Estimate, truth: u64) -> u64 {
    u64::from((estimate.low..=estimate.high).contains(&(truth as f64)))
}

/// A program: what it has live, by address (site and size), and its thread's countdown.
struct Program<'a> {
    watched: &'a TestProcess,
    countdown: Countdown,
    random: Generator,
    live: BTreeMap<u64, (u64, u64)>,
    /// Blocks and bytes.
    allocated: [u64; 2],
    freed: [u64; 2],
}

impl Program<'_> {
    fn below(&mut self, end: u64) -> u64 {
        self.random.next() % end
    }

    fn allocate(&mut self, address: u64, site: u64) {
        // 16 to 64 bytes, 1 to 4 KiB, 64 to 256 KiB, 4 to 16 MiB.
        let size = (16 << (6 * site)) * (1 + self.below(4));
        let writer = self.watched.writer();
        if let Some(period) = self.countdown.allocate(size, || writer.setting()) {
            let frame = Frame {
                address: 0x1000 * (site + 1),
                exact: false,
                mapping: 0,
            };
            writer.insert(&Sample {
                address,
                size,
                period,
                allocated: 1,
                stack: writer.node(0, frame).expect("a node"),
                thread: 1,
                entry: EntryPoint::Malloc,
                first: None,
            });
        }
        self.allocated[0] += 1;
        self.allocated[1] += size;
        assert!(self.live.insert(address, (site, size)).is_none());
    }

    fn free(&mut self, address: u64) {
        if let Some((_, size)) = self.live.remove(&address) {
            self.freed[0] += 1;
            self.freed[1] += size;
        }
        let writer = self.watched.writer();
        if let Some(sample) = writer.take(address) {
            let deallocation = Deallocation {
                time: 2,
                stack: 0,
                thread: 1,
            };
            writer.freed(&sample, deallocation);
        }
    }

    /// Allocates, and frees two of three blocks.
    fn run(&mut self, blocks: u64) {
        for _ in 0..blocks {
            let address = 16 * (1 + self.below(1 << 40));
            // Many more small ones than large ones.
            let site = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 3][self.below(12) as usize];
            if !self.live.contains_key(&address) {
                self.allocate(address, site);
            }
            if self.below(3) != 0 {
                self.free(address);
            }
        }
    }
}

#[test]
fn the_interval_holds_for_live_bytes_in_all_and_by_site() {
    let mut held = [0; 2];
    let mut held_by_site = [0; SITES as usize];
    let mut held_of_totals = [0; 4];
    for run in 0..RUNS {
        let watched = TestProcess::new();
        let mut program = Program {
            watched: &watched,
            countdown: Countdown::new(Generator::seeded(&[run, 1]), Some(Period::DEFAULT)),
            random: Generator::seeded(&[run, 2]),
            live: BTreeMap::new(),
            allocated: [0; 2],
            freed: [0; 2],
        };
        program.run(3_000);
        // While it runs, the watcher asks for four times as many samples.
        watched.memory().control.0.period.store(128 << 10, Relaxed);
        program.run(3_000);
        let state = watched.state();
        let live = state.live().expect("sampling is on");
        assert_eq!(live.samples(), state.samples.len() as u64);
        let bytes = program.live.values().map(|it| it.1).sum();
        held[0] += holds(live.blocks(MIN), program.live.len() as u64);
        held[1] += holds(live.bytes(), bytes);
        let (allocated, freed) = (state.allocated(), state.freed());
        let (allocated, freed) = (allocated.expect("it is on"), freed.expect("it is on"));
        assert_eq!(allocated.samples(), state.counters.sampled);
        assert_eq!(freed.samples(), state.counters.freed);
        for (held, (estimate, truth)) in held_of_totals.iter_mut().zip([
            (allocated.blocks(MIN), program.allocated[0]),
            (allocated.bytes(), program.allocated[1]),
            (freed.blocks(MIN), program.freed[0]),
            (freed.bytes(), program.freed[1]),
        ]) {
            *held += holds(estimate, truth);
        }
        let by_stack = state.allocated_by_stack();
        let sum: u64 = by_stack.values().map(Figures::samples).sum();
        assert_eq!(sum, allocated.samples());
        let by_stack = state.live_by_stack();
        for site in 0..SITES {
            let blocks = program.live.values().filter(|it| it.0 == site);
            let bytes = blocks.map(|it| it.1).sum();
            let is_site = |stack: u32| state.stack(stack).frames[0].address == 0x1000 * (site + 1);
            let figures = by_stack.iter().find(|it| is_site(*it.0));
            held_by_site[site as usize] += match figures {
                Some((_, figures)) => holds(figures.bytes(), bytes),
                // Without a sample the bound is that of no sample.
                None => u64::from(bytes as f64 <= 3.69 * Period::DEFAULT.bytes() as f64),
            };
        }
    }
    println!("live {held:?}, live bytes of sites {held_by_site:?}, totals {held_of_totals:?}");
    assert!(
        held_of_totals.iter().all(|&it| it >= ENOUGH),
        "{held_of_totals:?}"
    );
    assert!(held.iter().all(|&it| it >= ENOUGH), "{held:?}");
    assert!(
        held_by_site.iter().all(|&it| it >= ENOUGH),
        "{held_by_site:?}"
    );
}

#[test]
fn nothing_is_known_of_a_process_that_was_never_sampled() {
    let watched = TestProcess::off();
    assert_eq!(watched.writer().setting(), None);
    assert!(watched.state().live().is_none());
    watched.memory().control.0.period.store(4096, Relaxed);
    watched.writer().setting();
    watched.memory().control.0.period.store(0, Relaxed);
    watched.writer().setting();
    // Off again: what was sampled stays.
    let live = watched.state().live().expect("it was on");
    assert!(live.bytes().high.is_infinite());
}
