//! A program in equilibrium that a watcher finds late: 40 sites allocate at a constant rate, and their
//! blocks live for 6, 20 and 100 s on average; 23 others have what they allocated at the start.
//! Nothing grows. New blocks are sampled from the switch on, the ones that they replace sparsely or
//! not at all.

mod support;

use std::collections::{BTreeMap, BinaryHeap};

use allotrope_attribution::Suppressions;
use allotrope_sampling::Period;
use allotrope_sampling::exponential::Generator;
use allotrope_symbols::Locator;
use allotrope_watch::history::Trend;
use allotrope_watch::report::{Report, SiteRow};
use allotrope_watch::snapshot::Snapshot;
use allotrope_watch::watch::{Options, Watch};
use support::{BEGAN, Story};

const SITES: u64 = 63;
const BUSY: u64 = 40;
/// What a site has live on average, in bytes.
const LIVE: u64 = 1 << 20;
const MS: u64 = 1_000_000;
/// The time between two steps of the program, and between two reports.
const STEP: u64 = 50 * MS;
const EVERY: u64 = 500 * MS;
const WATCHED: u64 = 4_000 * MS;
/// Runs of each case.
const RUNS: u64 = 20;

fn size(site: u64) -> u64 {
    128 << (site % 6)
}

/// Nanoseconds.
fn life(site: u64) -> u64 {
    [6_000, 20_000, 100_000][(site % 3) as usize] * MS
}

struct Program {
    story: Story,
    random: Generator,
    now: u64,
    /// When blocks end, the next one first, with their addresses.
    ends: BinaryHeap<(std::cmp::Reverse<u64>, u64)>,
    /// Bytes of a site that are due, but less than a block.
    rest: [u64; SITES as usize],
}

impl Program {
    /// Lives are memoryless: a program that begins with as many blocks as it has on average is in
    /// equilibrium at once.
    fn new(seed: u64, period: Option<Period>) -> Self {
        let mut program = Self {
            story: Story::new(seed, period),
            random: Generator::seeded(&[seed, 3]),
            now: BEGAN + 1,
            ends: BinaryHeap::new(),
            rest: [0; SITES as usize],
        };
        for site in 0..SITES {
            for _ in 0..LIVE / size(site) {
                program.allocate(site);
            }
        }
        program
    }

    fn allocate(&mut self, site: u64) {
        let address = self.story.allocate(site, size(site));
        if site < BUSY {
            let uniform = (self.random.next() >> 11).max(1) as f64 / (1u64 << 53) as f64;
            let life = -(life(site) as f64) * uniform.ln();
            let end = self.now + life as u64;
            self.ends.push((std::cmp::Reverse(end), address));
        }
    }

    fn run(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            self.story.pages.now.set(self.now);
            while let Some((std::cmp::Reverse(at), address)) = self.ends.peek().copied()
                && at <= self.now
            {
                self.ends.pop();
                self.story.free(address);
            }
            for site in 0..BUSY {
                let due = &mut self.rest[site as usize];
                *due += (LIVE as f64 * STEP as f64 / life(site) as f64) as u64;
                for _ in 0..*due / size(site) {
                    self.rest[site as usize] -= size(site);
                    self.allocate(site);
                }
            }
        }
    }

    fn live(&self) -> BTreeMap<u64, i64> {
        let mut live = BTreeMap::new();
        for (site, size) in self.story.live.values() {
            *live.entry(*site).or_default() += *size as i64;
        }
        live
    }

    fn report(&self, watch: &mut Watch) -> Report {
        let mut snapshot = Snapshot::new(101, None, self.story.state(), &watch.keys);
        snapshot.time = self.now;
        watch.report(&[snapshot])
    }
}

fn watch() -> Watch {
    let options = Options {
        old_age: 300_000 * MS,
        top: 1000,
        suppressions: Suppressions::none(),
        high_water: None,
    };
    Watch::new(options, Locator::new())
}

/// Which site of the story it is.
fn number(row: &SiteRow) -> u64 {
    (row.stack[0].module.address - 0x1000) / 16
}

fn is_accused(row: &SiteRow) -> bool {
    matches!(row.trend, Trend::Growing | Trend::Saturating) || row.sums.grown_bytes().low > 0.0
}

#[test]
fn no_site_of_a_program_in_equilibrium_is_accused_after_a_late_switch() {
    let dense = Period::new(4096).expect("a period");
    for before in [Some(Period::SPARSE), None] {
        let (mut accused, mut held, mut sites) = (0, 0, 0u64);
        for seed in 0..RUNS {
            let mut program = Program::new(seed, before);
            program.run(2 * STEP);
            program.story.set(Some(dense));
            program.run(STEP);
            let mut watch = watch();
            program.report(&mut watch);
            let at_mark = program.live();
            let mut last = None;
            for _ in 0..WATCHED / EVERY {
                program.run(EVERY);
                last = Some(program.report(&mut watch));
            }
            let (report, now) = (last.expect("a report"), program.live());
            assert!((report.sites.len() + report.few.sites) as u64 >= BUSY);
            for row in &report.sites {
                let site = number(row);
                let truth = (now[&site] - at_mark[&site]) as f64;
                let grown = row.sums.grown_bytes();
                held += u64::from((grown.low..=grown.high).contains(&truth));
                accused += u64::from(is_accused(row));
                let live = row.sums.live.bytes();
                assert_eq!(live.high.is_infinite(), before.is_none());
                sites += 1;
            }
        }
        println!("{before:?}: {accused} accused, inside in {held} of {sites}");
        assert_eq!(accused, 0, "{before:?}: of {sites}");
        assert!(held as f64 >= 0.94 * sites as f64, "{held} of {sites}");
    }
}

/// What was sampled as densely from the start says as much as before.
#[test]
fn a_leak_is_found_all_the_same() {
    let dense = Period::new(4096).expect("a period");
    // A second leak is so large that old blocks cannot explain it: 4 MiB each half second are 32 MiB,
    // 256 MiB are more than the 118 MiB that may have been freed unseen.
    for (before, blocks, expected) in [
        (Some(dense), 8, true),
        (Some(Period::SPARSE), 512, true),
        (Some(Period::SPARSE), 8, false),
        (None, 512, false),
    ] {
        let mut program = Program::new(5, before);
        program.story.set(Some(dense));
        program.run(STEP);
        let mut watch = watch();
        program.report(&mut watch);
        let mut last = None;
        for _ in 0..WATCHED / EVERY {
            for _ in 0..blocks {
                program.story.allocate(70, 64 << 10);
            }
            program.run(EVERY);
            last = Some(program.report(&mut watch));
        }
        let report = last.expect("a report");
        let leak = report.sites.iter().find(|it| number(it) == 70);
        let trend = leak.expect("the leak").trend;
        assert_eq!(
            trend == Trend::Growing,
            expected,
            "{before:?} {blocks} {trend:?}"
        );
    }
}
