//! Samples and estimates against programs whose truth is known: the test allocates, counts
//! everything itself, and compares.

use allotrope_sampling::Period;
use allotrope_sampling::countdown::Countdown;
use allotrope_sampling::estimate::{Estimate, Figures, MIN, probability};
use allotrope_sampling::exponential::Generator;
use allotrope_sampling::gamma::probabilities;

/// Runs of a case: 200, or 5,000 with `ALLOTROPE_SLOW=1`.
fn runs() -> u64 {
    let slow = std::env::var_os("ALLOTROPE_SLOW");
    if slow.is_some_and(|it| it != "0" && !it.is_empty()) {
        5_000
    } else {
        200
    }
}

/// The truth is to be in the interval in so many of these runs: 186 of 200.
#[track_caller]
fn assert_held(name: &str, held: [u64; 2], runs: u64) {
    let [blocks, bytes] = held;
    println!("{name}: blocks in {blocks}, bytes in {bytes} of {runs}");
    let enough = runs * 186 / 200;
    assert!(
        blocks >= enough && bytes >= enough,
        "{name}: {held:?} of {runs}"
    );
}

fn period(bytes: u64) -> Period {
    Period::new(bytes).expect("a period")
}

fn countdown(seed: u64, period: Period) -> Countdown {
    Countdown::new(Generator::seeded(&[seed]), Some(period))
}

/// Random numbers of the program itself, which have nothing to do with those of the sampling.
struct Program(Generator);

impl Program {
    fn new(seed: u64) -> Self {
        Self(Generator::seeded(&[0x70_726f_6772_616d, seed]))
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next()) * u128::from(end)) >> 64) as u64
    }
}

/// Fails if the sum of squares has a probability below 1 in 10,000, whether it is too large
/// or too small for chance.
#[track_caller]
fn assert_chance(chi_square: f64, freedom: usize) {
    // Chi-square is twice a gamma distribution with half as large a shape.
    let (below, above) = probabilities(freedom as f64 / 2.0, chi_square / 2.0);
    assert!(
        below.min(above) >= 1e-4,
        "chi-square {chi_square} with {freedom} degrees of freedom: {below} below, {above} above"
    );
}

/// A sequence of sizes that depends on its position.
type Pattern = fn(&mut Program, u64) -> u64;

fn mixed(program: &mut Program, _: u64) -> u64 {
    // Sizes of a program: many small ones, some large ones, few huge ones.
    const SIZES: [u64; 16] = [
        16,
        16,
        24,
        24,
        32,
        48,
        64,
        64,
        96,
        128,
        256,
        512,
        1 << 10,
        1 << 12,
        1 << 15,
        1 << 20,
    ];
    SIZES[program.below(16) as usize]
}

fn alternating(_: &mut Program, step: u64) -> u64 {
    // A large and a small block in turn, in phase with nearly one period.
    if step.is_multiple_of(2) {
        (512 << 10) - 16
    } else {
        16
    }
}

fn in_step_with_the_period(_: &mut Program, step: u64) -> u64 {
    // 8,192 blocks of 64 bytes are exactly one period; each 8,192nd is another one.
    if step.is_multiple_of(8192) { 128 } else { 64 }
}

fn tiny(_: &mut Program, step: u64) -> u64 {
    step % 3
}

fn growing(_: &mut Program, step: u64) -> u64 {
    // A buffer that doubles from 16 bytes to 16 MiB, again and again.
    16 << (step % 21)
}

/// Sum over the sizes of (samples − expected)²/variance, and the number of sizes.
fn inclusion(pattern: Pattern, blocks: u64, period: Period, seed: u64) -> (f64, usize) {
    let mut program = Program::new(seed);
    let mut countdown = countdown(seed, period);
    let mut by_size = std::collections::BTreeMap::<u64, [u64; 2]>::new();
    let mut last = None::<(u64, [u64; 2])>;
    for step in 0..blocks {
        let size = pattern(&mut program, step);
        let is_sampled = countdown.allocate(size, || Some(period)).is_some();
        // Programs repeat sizes: most of them need no look-up.
        match &mut last {
            Some((key, counts)) if *key == size => {
                counts[0] += 1;
                counts[1] += u64::from(is_sampled);
            }
            _ => {
                if let Some((key, counts)) = last.take() {
                    add(by_size.entry(key).or_default(), counts);
                }
                last = Some((size, [1, u64::from(is_sampled)]));
            }
        }
    }
    if let Some((key, counts)) = last {
        add(by_size.entry(key).or_default(), counts);
    }
    let mut chi_square = 0.0;
    let mut freedom = 0;
    for (size, [count, samples]) in by_size {
        let p = probability(size, period);
        let expected = count as f64 * p;
        let variance = expected * (1.0 - p);
        // The normal approximation needs some samples and some that are none.
        if variance < 5.0 {
            assert!(
                (samples as f64 - expected).abs() < 15.0,
                "{size}: {samples}"
            );
            continue;
        }
        chi_square += (samples as f64 - expected).powi(2) / variance;
        freedom += 1;
    }
    (chi_square, freedom)
}

fn add(into: &mut [u64; 2], counts: [u64; 2]) {
    into[0] += counts[0];
    into[1] += counts[1];
}

#[test]
fn ten_million_mixed_allocations_are_sampled_each_size_with_its_probability() {
    for seed in 0..3 {
        let (chi_square, freedom) = inclusion(mixed, 10_000_000, period(1 << 16), seed);
        assert!(freedom >= 12, "{freedom}");
        assert_chance(chi_square, freedom);
    }
}

#[test]
fn no_order_of_sizes_changes_a_probability() {
    for (pattern, period) in [
        (alternating as Pattern, period(512 << 10)),
        (in_step_with_the_period, period(512 << 10)),
        (in_step_with_the_period, period(4096)),
        (tiny, period(100)),
        (tiny, period(1)),
        (growing, period(512 << 10)),
        (growing, period(32 << 20)),
    ] {
        let (mut chi_square, mut freedom) = (0.0, 0);
        for seed in 10..14 {
            let (one, sizes) = inclusion(pattern, 2_000_000, period, seed);
            chi_square += one;
            freedom += sizes;
        }
        assert_chance(chi_square, freedom);
    }
}

/// Chi-square over bins of equal probability of what has the distribution function `below`.
fn equal_bins(values: impl Iterator<Item = f64>, below: impl Fn(f64) -> f64) -> (f64, usize) {
    const BINS: usize = 100;
    let mut counts = [0u64; BINS];
    let mut total = 0u64;
    for value in values {
        counts[((below(value) * BINS as f64) as usize).min(BINS - 1)] += 1;
        total += 1;
    }
    let expected = total as f64 / BINS as f64;
    let chi_square = counts
        .iter()
        .map(|&count| (count as f64 - expected).powi(2) / expected)
        .sum();
    (chi_square, BINS - 1)
}

#[test]
fn distances_have_the_exponential_distribution() {
    // With whole bytes the bins are equal if the period is long.
    for (seed, period) in [
        (1, Period::DEFAULT),
        (2, period(32 << 20)),
        (3, Period::MAX),
    ] {
        let mut generator = Generator::seeded(&[seed]);
        let mean = period.bytes() as f64;
        let distances = (0..2_000_000).map(|_| generator.distance(period) as f64 - 0.5);
        let (chi_square, freedom) = equal_bins(distances, |it| -(-it / mean).exp_m1());
        assert_chance(chi_square, freedom);
    }
}

/// What the program sees: the number of bytes from one sample to the next, over stretches
/// and in blocks of mixed sizes.
#[test]
fn bytes_between_samples_have_the_exponential_distribution() {
    for (seed, period) in [(1, period(512 << 10)), (2, period(8 << 20))] {
        let mut program = Program::new(seed);
        let mut countdown = countdown(seed, period);
        let mean = period.bytes() as f64;
        let mut distances = Vec::new();
        let mut bytes = 0u64;
        // Blocks are so small against the period that where in the block the hit is hardly
        // matters; a random place in the block stands for it.
        for _ in 0..10_000_000u64 {
            let size = 1 + program.below(4096);
            if countdown.allocate(size, || Some(period)).is_some() {
                distances.push((bytes + program.below(size)) as f64 + 0.5);
                bytes = 0;
            } else {
                bytes += size;
            }
        }
        assert!(distances.len() > 2000, "{}", distances.len());
        // Not only the distribution: one distance says nothing about the next.
        let long = |it: &f64| *it > mean * std::f64::consts::LN_2;
        let pairs = distances.windows(2);
        let count = pairs.len() as f64;
        let equal = pairs.filter(|it| long(&it[0]) == long(&it[1])).count() as f64;
        assert!(
            (equal - count / 2.0).abs() < 4.0 * count.sqrt() / 2.0,
            "{equal} of {count}"
        );
        let (chi_square, freedom) = equal_bins(distances.into_iter(), |it| -(-it / mean).exp_m1());
        assert_chance(chi_square, freedom);
    }
}

/// Each thread's generator has its own seed: hits of two threads with the same allocations
/// coincide as often as chance has it.
#[test]
fn threads_sample_independently() {
    let period = period(1 << 12);
    let mut threads =
        [1, 2].map(|thread| Countdown::new(Generator::seeded(&[99, thread]), Some(period)));
    const BLOCKS: u64 = 2_000_000;
    const SIZE: u64 = 256;
    let mut both = 0u64;
    for _ in 0..BLOCKS {
        let sampled = threads
            .each_mut()
            .map(|it| it.allocate(SIZE, || Some(period)).is_some());
        both += u64::from(sampled == [true; 2]);
    }
    let p = probability(SIZE, period).powi(2);
    let expected = BLOCKS as f64 * p;
    assert!(
        (both as f64 - expected).abs() < 4.0 * expected.sqrt(),
        "{both} of {expected}"
    );
}

fn holds(estimate: Estimate, truth: u64) -> bool {
    (estimate.low..=estimate.high).contains(&(truth as f64))
}

/// One run: what was estimated of the live blocks, and the truth.
fn live_after(pattern: Pattern, blocks: u64, period: Period, seed: u64) -> (Figures, u64, u64) {
    let mut program = Program::new(seed);
    let mut countdown = countdown(seed, period);
    let mut figures = Figures::new(period);
    let (mut count, mut bytes) = (0, 0);
    for step in 0..blocks {
        let size = pattern(&mut program, step);
        let sampled_at = countdown.allocate(size, || Some(period));
        // One of three blocks stays: which one does not depend on the sampling.
        if program.below(3) == 0 {
            count += 1;
            bytes += size;
            if let Some(period) = sampled_at {
                figures.add(size, period);
            }
        }
    }
    (figures, count, bytes)
}

#[test]
fn the_interval_holds_in_95_of_100_runs() {
    let cases: [(&str, Pattern, u64, Period); 8] = [
        ("mixed", mixed, 50_000, period(512 << 10)),
        ("mixed, few samples", mixed, 400, period(8 << 20)),
        ("mixed, short period", mixed, 20_000, period(4096)),
        ("alternating", alternating, 2_000, period(512 << 10)),
        (
            "alternating, long period",
            alternating,
            2_000,
            period(32 << 20),
        ),
        ("tiny", tiny, 30_000, period(1000)),
        (
            "in step",
            in_step_with_the_period,
            100_000,
            period(512 << 10),
        ),
        ("growing", growing, 4_000, period(512 << 10)),
    ];
    for (name, pattern, blocks, period) in cases {
        let mut held = [0; 2];
        for run in 0..runs() {
            let (figures, count, bytes) = live_after(pattern, blocks, period, 1000 + run);
            held[0] += u64::from(holds(figures.blocks(MIN), count));
            held[1] += u64::from(holds(figures.bytes(), bytes));
        }
        assert_held(name, held, runs());
    }
}

/// The estimates themselves: over many runs their mean is the truth.
#[test]
fn estimates_are_unbiased() {
    for (pattern, blocks, period) in [
        (mixed as Pattern, 2_000, period(512 << 10)),
        (alternating, 500, period(512 << 10)),
        (growing, 500, period(512 << 10)),
        (tiny, 5_000, period(100)),
    ] {
        const RUNS: u64 = 2_000;
        let mut errors = [Vec::new(), Vec::new()];
        for run in 0..RUNS {
            let (figures, count, bytes) = live_after(pattern, blocks, period, 5000 + run);
            errors[0].push(figures.blocks(MIN).value - count as f64);
            errors[1].push(figures.bytes().value - bytes as f64);
        }
        for errors in errors {
            let mean = errors.iter().sum::<f64>() / RUNS as f64;
            let squares = errors.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
            let deviation = (squares / (RUNS * (RUNS - 1)) as f64).sqrt();
            assert!(mean.abs() <= 4.0 * deviation, "{mean} with {deviation}");
        }
    }
}

/// A period that changes while the program runs, several times and at no particular place.
#[test]
fn the_interval_holds_if_the_period_changes() {
    let periods = [period(512 << 10), period(64 << 10), period(4 << 20)];
    let mut held = [0; 2];
    for run in 0..runs() {
        let mut program = Program::new(run);
        let mut countdown = countdown(run, periods[0]);
        let mut figures = Figures::new(periods[0]);
        let (mut count, mut bytes) = (0, 0);
        for step in 0..60_000u64 {
            let size = mixed(&mut program, step);
            let setting = Some(periods[(step / 7_001 % 3) as usize]);
            count += 1;
            bytes += size;
            if let Some(period) = countdown.allocate(size, || setting) {
                figures.add(size, period);
            }
        }
        held[0] += u64::from(holds(figures.blocks(MIN), count));
        held[1] += u64::from(holds(figures.bytes(), bytes));
    }
    assert_held("changing period", held, runs());
}

/// Sites and processes: each has its interval, and their sum has one too.
#[test]
fn the_interval_of_a_sum_holds() {
    let mut held = [0; 2];
    for run in 0..runs() {
        let mut sum = Figures::new(period(512 << 10));
        let mut truth = [0; 2];
        for (site, pattern) in [mixed as Pattern, alternating, growing, tiny]
            .iter()
            .enumerate()
        {
            let seed = run * 4 + site as u64;
            let period = period(512 << (10 + site));
            let (figures, count, bytes) = live_after(*pattern, 1_000, period, seed);
            sum.merge(&figures);
            truth[0] += count;
            truth[1] += bytes;
        }
        held[0] += u64::from(holds(sum.blocks(MIN), truth[0]));
        held[1] += u64::from(holds(sum.bytes(), truth[1]));
    }
    assert_held("sum", held, runs());
}

/// A program in equilibrium: each site allocates blocks of one size at a constant rate, and each block
/// lives for a time with an exponential distribution.
struct Equilibrium {
    sites: Vec<Site>,
    live: Vec<Block>,
}

struct Site {
    size: u64,
    /// Bytes a second.
    rate: f64,
    /// Seconds.
    life: f64,
}

struct Block {
    site: usize,
    ends: f64,
    sampled_at: Option<Period>,
    is_new: bool,
}

impl Equilibrium {
    /// 40 sites whose blocks live for 6, 20 and 100 s, and have 1 MiB live on average each.
    fn new() -> Self {
        let site = |number: usize| {
            let life = [6.0, 20.0, 100.0][number % 3];
            Site {
                size: 1 << (8 + number % 6),
                rate: f64::from(1 << 20) / life,
                life,
            }
        };
        Self {
            sites: (0..40).map(site).collect(),
            live: Vec::new(),
        }
    }

    /// Runs from second `from` to second `to`. Calls `freed` with each block that ends.
    fn run(
        &mut self,
        program: &mut Program,
        countdown: &mut Countdown,
        times: (f64, f64, bool),
        setting: Period,
        freed: &mut dyn FnMut(&Block),
    ) {
        const STEP: f64 = 0.25;
        let (from, to, is_new) = times;
        let mut now = from;
        while now < to {
            for (site, it) in self.sites.iter().enumerate() {
                let blocks = it.rate * STEP / it.size as f64;
                let fraction = blocks.fract() * f64::from(1 << 20);
                let more = program.below(1 << 20) < fraction as u64;
                for _ in 0..blocks as u64 + u64::from(more) {
                    let uniform = (program.below(1 << 40) + 1) as f64 / (1u64 << 40) as f64;
                    self.live.push(Block {
                        site,
                        ends: now - it.life * uniform.ln(),
                        sampled_at: countdown.allocate(it.size, || Some(setting)),
                        is_new,
                    });
                }
            }
            now += STEP;
            self.live.retain(|it| {
                if it.ends <= now {
                    freed(it);
                }
                it.ends > now
            });
        }
    }
}

/// Sampled sparsely until somebody looks, for 4 s: what each site has gained is what was allocated
/// since and is live, minus what lived before and was freed. Most of the latter was never sampled.
#[test]
fn what_lived_before_a_switch_is_subtracted_without_bias() {
    let (sparse, dense) = (Period::SPARSE, Period::DEFAULT);
    let runs = runs() / 10;
    let (mut held, mut accused, mut sites) = (0u64, 0u64, 0u64);
    let mut errors = Vec::new();
    for run in 0..runs {
        let mut program = Program::new(9000 + run);
        let mut countdown = countdown(9000 + run, sparse);
        let mut equilibrium = Equilibrium::new();
        let number = equilibrium.sites.len();
        let mut ignore = |_: &Block| {};
        let before = (0.0, 300.0, false);
        equilibrium.run(&mut program, &mut countdown, before, sparse, &mut ignore);
        let mut gone = vec![(Figures::new(sparse), 0u64); number];
        let sizes: Vec<u64> = equilibrium.sites.iter().map(|it| it.size).collect();
        let mut add = |it: &Block| {
            if !it.is_new {
                gone[it.site].1 += sizes[it.site];
                if let Some(period) = it.sampled_at {
                    gone[it.site].0.add(sizes[it.site], period);
                }
            }
        };
        let after = (300.0, 304.0, true);
        equilibrium.run(&mut program, &mut countdown, after, dense, &mut add);
        let mut new = vec![(Figures::new(dense), 0u64); number];
        for it in equilibrium.live.iter().filter(|it| it.is_new) {
            new[it.site].1 += sizes[it.site];
            if let Some(period) = it.sampled_at {
                new[it.site].0.add(sizes[it.site], period);
            }
        }
        for ((gone, freed), (new, allocated)) in gone.into_iter().zip(new) {
            let grown = new.bytes().minus(&gone.bytes());
            let truth = allocated as f64 - freed as f64;
            held += u64::from((grown.low..=grown.high).contains(&truth));
            accused += u64::from(grown.low > 0.0);
            errors.push(grown.value - truth);
            sites += 1;
        }
    }
    println!("inside {held}, accused {accused} of {sites}");
    assert!(held as f64 >= 0.94 * sites as f64, "{held} of {sites}");
    assert_eq!(accused, 0);
    let mean = errors.iter().sum::<f64>() / sites as f64;
    let squares: f64 = errors.iter().map(|it| (it - mean).powi(2)).sum();
    let deviation = (squares / (sites * (sites - 1)) as f64).sqrt();
    assert!(mean.abs() <= 4.0 * deviation, "{mean} with {deviation}");
}

/// Sparse, dense and sparse again, as watchers come and go.
#[test]
fn the_interval_holds_over_changes_from_sparse_to_dense_and_back() {
    let periods = [Period::SPARSE, Period::DEFAULT];
    let mut held = [0; 2];
    for run in 0..runs() {
        let mut program = Program::new(run);
        let mut countdown = countdown(run, periods[0]);
        let mut figures = Figures::new(periods[0]);
        let (mut count, mut bytes) = (0, 0);
        for step in 0..60_000u64 {
            let size = mixed(&mut program, step);
            let setting = Some(periods[(step / 9_001 % 2) as usize]);
            let sampled_at = countdown.allocate(size, || setting);
            if program.below(3) == 0 {
                count += 1;
                bytes += size;
                if let Some(period) = sampled_at {
                    figures.add(size, period);
                }
            }
        }
        held[0] += u64::from(holds(figures.blocks(MIN), count));
        held[1] += u64::from(holds(figures.bytes(), bytes));
    }
    assert_held("sparse and dense", held, runs());
}
