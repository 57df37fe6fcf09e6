//! Measures allocators with patterns of calls, without a recording.
//!
//! Each round runs the system's allocator twice and every other one once, each in a fresh
//! process. What is compared is the ratio to the first of the round: it cancels what changes
//! from round to round. The ratio of the system's allocator to itself is the noise.

pub mod profiles;
pub mod text;

use std::io;

use allotrope_replayer::results;
use serde::Serialize;

use crate::replay::allocators::{self, Allocator, Candidate, SYSTEM};
use crate::replay::environment::{Environment, EnvironmentRow};
use crate::replay::replayer::Replayer;
use crate::replay::report::SpreadRow;
use crate::replay::results::{BenchFigures, Outcome};
use crate::replay::spread::Spread;

/// The format's name and version.
pub const FORMAT: &str = "allotrope-bench/1";
/// Name of the system's allocator in the second run of a round.
const AGAIN: &str = "glibc again";
/// How many runs are tried until one says something.
const ATTEMPTS: u32 = 10;

/// A pattern of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Allocates 1,024 blocks and frees them, the last one first.
    Lifo,
    /// Allocates 1,024 blocks and frees them, the first one first.
    Fifo,
    /// Allocates 1,024 blocks and frees them in a random order.
    Random,
    /// Keeps 1,024 blocks; frees the oldest and allocates one, in turn.
    Interleaved,
    /// Keeps blocks of random sizes; frees a random one and allocates one. Threads exchange their
    /// blocks now and then.
    Larson,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 5] = [
        Self::Lifo,
        Self::Fifo,
        Self::Random,
        Self::Interleaved,
        Self::Larson,
    ];

    /// Returns the name of the pattern.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lifo => "lifo",
            Self::Fifo => "fifo",
            Self::Random => "random",
            Self::Interleaved => "interleaved",
            Self::Larson => "larson",
        }
    }

    const fn number(self) -> u64 {
        match self {
            Self::Lifo => results::PATTERN_LIFO,
            Self::Fifo => results::PATTERN_FIFO,
            Self::Random => results::PATTERN_RANDOM,
            Self::Interleaved => results::PATTERN_INTERLEAVED,
            Self::Larson => results::PATTERN_LARSON,
        }
    }
}

/// One benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Case {
    /// The pattern.
    pub pattern: Pattern,
    /// Bytes of a block; of the largest one where sizes are random.
    pub size: u64,
    /// Bytes of the smallest block.
    pub smallest_size: u64,
    /// Threads that run at the same time, 1 to 64.
    pub threads: u32,
    /// How many blocks each thread keeps or allocates before it frees them.
    pub kept: u64,
    /// How many times 1,024 blocks each thread replaces before the threads exchange their blocks;
    /// `null` for patterns without exchanges.
    pub exchange_rounds: Option<u64>,
    /// How many blocks each thread allocates and frees.
    pub pairs: u64,
    /// Name of the profile; `null` for a pattern of the command line.
    pub profile: Option<&'static str>,
    /// For how many seconds glibc allocates and frees; then `pairs` is found by trying.
    #[serde(skip)]
    pub seconds: Option<f64>,
}

impl Case {
    /// A pattern as the command line names it.
    pub fn new(pattern: Pattern, size: u64, threads: u32, pairs: u64) -> Self {
        let is_larson = pattern == Pattern::Larson;
        Self {
            pattern,
            size,
            smallest_size: if is_larson { size / 2 } else { size },
            threads,
            kept: results::ROUND as u64,
            exchange_rounds: is_larson.then_some(results::LARSON_ROUNDS as u64),
            pairs,
            profile: None,
            seconds: None,
        }
    }
}

/// What to measure.
pub struct BenchPlan<'a> {
    /// The program.
    pub replayer: &'a Replayer,
    /// The benchmarks.
    pub cases: Vec<Case>,
    /// Rounds.
    pub runs: u32,
    /// How many blocks each thread allocates and frees, unless the benchmark says otherwise.
    pub pairs: u64,
    /// The processor for one thread.
    pub processor: Option<u32>,
    /// The replayer's environment.
    pub environment: &'a Environment,
}

/// A report: its fields are the JSON (`docs/allocators.md`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchReport {
    /// [`FORMAT`].
    pub format: &'static str,
    /// Rounds.
    pub runs: u32,
    /// How many blocks each thread allocated and freed, unless a case says otherwise.
    pub pairs: u64,
    /// The environment that the allocators had.
    pub environment: EnvironmentRow,
    /// One for each allocator, the system's first.
    pub allocators: Vec<BenchRow>,
}

/// An allocator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchRow {
    /// Name of the allocator.
    pub name: String,
    /// Path of its library; `null` for the C library's allocator.
    pub library: Option<String>,
    /// Why it was not measured, or not in all cases; `null` if it was.
    pub refused: Option<String>,
    /// What was measured, in the order of the cases.
    pub cases: Vec<CaseRow>,
}

/// An allocator in one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseRow {
    /// The benchmark.
    #[serde(flatten)]
    pub case: Case,
    /// Calls (`malloc` and `free`) a second, of all threads together.
    pub operations_per_second: SpreadRow,
    /// Nanoseconds a call; with several threads of wall time.
    pub ns_per_operation: SpreadRow,
    /// Calls a second divided by those of the system's allocator in the same round.
    pub ratio: SpreadRow,
    /// Ratio of the system's allocator to itself: the noise.
    pub noise: SpreadRow,
    /// `faster`, `slower`, or `tied` if the ratio lies inside the noise; `unknown` after one
    /// round; `null` for the system's allocator.
    pub verdict: Option<&'static str>,
    /// Processor cycles a call in user mode; `null` if there is no counter.
    pub cycles: Option<f64>,
    /// Instructions a call in user mode; `null` if there is no counter.
    pub instructions: Option<f64>,
}

/// Measures.
///
/// # Errors
///
/// If a replayer cannot be started.
pub fn bench(
    plan: &BenchPlan<'_>,
    candidates: Vec<Candidate>,
    progress: &dyn Fn(u64, u64),
) -> io::Result<BenchReport> {
    let mut rows: Vec<(Allocator, BenchRow)> = candidates
        .into_iter()
        .filter(|(allocator, error)| error.is_some() || allocator.library.is_some())
        .map(|(allocator, error)| {
            let check = |library| allocators::check(library, &allocators::BASIC).err();
            let library = allocator.library.as_deref();
            let error = error.or_else(|| library.and_then(check));
            let refused = error.map(|error| format!("cannot be used: {error}"));
            (allocator.clone(), empty_row(&allocator, refused))
        })
        .collect();
    let system = Allocator {
        name: SYSTEM.to_owned(),
        library: None,
    };
    let mut system_row = empty_row(&system, None);
    let total = plan.cases.len() as u64 * u64::from(plan.runs);
    for (number, case) in (0..).zip(&plan.cases) {
        let case = &with_pairs(plan, case, &system)?;
        let mut rounds = Rounds::new(rows.len());
        for run in 0..plan.runs {
            progress(number * u64::from(plan.runs) + u64::from(run), total);
            let Ok(first) = one(plan, case, &system)? else {
                continue;
            };
            for ((allocator, row), figures) in rows.iter_mut().zip(&mut rounds.others) {
                if row.refused.is_some() {
                    continue;
                }
                match one(plan, case, allocator)? {
                    Ok(it) => {
                        figures.push((it, it.operations_per_second / first.operations_per_second))
                    }
                    Err(why) => row.refused = Some(format!("{why} ({})", describe(case))),
                }
            }
            if let Ok(again) = one(plan, case, &system)? {
                let ratio = again.operations_per_second / first.operations_per_second;
                rounds.noise.push(ratio);
            }
            rounds.system.push((first, 1.0));
        }
        let Some(noise) = Spread::of(rounds.noise.iter().copied()) else {
            system_row.refused = Some(format!("{AGAIN} was not measured ({})", describe(case)));
            continue;
        };
        system_row
            .cases
            .extend(case_row(*case, &rounds.system, noise, true));
        for ((_, row), figures) in rows.iter_mut().zip(&rounds.others) {
            if row.refused.is_none() {
                row.cases.extend(case_row(*case, figures, noise, false));
            }
        }
    }
    progress(total, total);
    let others = rows.into_iter().map(|(_, row)| row);
    Ok(BenchReport {
        format: FORMAT,
        runs: plan.runs,
        pairs: plan.pairs,
        environment: plan.environment.row().clone(),
        allocators: [system_row].into_iter().chain(others).collect(),
    })
}

/// The benchmark with as many blocks as the system's allocator allocates and frees in its seconds.
fn with_pairs(plan: &BenchPlan<'_>, case: &Case, system: &Allocator) -> io::Result<Case> {
    const TRIED: u64 = 1 << 17;
    let Some(seconds) = case.seconds else {
        return Ok(*case);
    };
    let tried = Case {
        pairs: TRIED,
        ..*case
    };
    // A benchmark that cannot be measured is refused with its reason later.
    let figures = one(plan, &tried, system)?;
    let pairs = figures.map_or(TRIED as f64, |it| {
        it.operations_per_second * seconds / 2.0 / f64::from(case.threads)
    });
    Ok(Case {
        pairs: (pairs as u64).max(1),
        ..*case
    })
}

/// What the rounds of one benchmark measured: figures and ratio.
struct Rounds {
    system: Vec<(BenchFigures, f64)>,
    noise: Vec<f64>,
    others: Vec<Vec<(BenchFigures, f64)>>,
}

impl Rounds {
    fn new(others: usize) -> Self {
        Self {
            system: Vec::new(),
            noise: Vec::new(),
            others: vec![Vec::new(); others],
        }
    }
}

fn empty_row(allocator: &Allocator, refused: Option<String>) -> BenchRow {
    BenchRow {
        name: allocator.name.clone(),
        library: allocator
            .library
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned()),
        refused,
        cases: Vec::new(),
    }
}

fn describe(case: &Case) -> String {
    let threads = match case.threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    let name = case.profile.unwrap_or(case.pattern.name());
    format!("{name}, {} bytes, {threads}", case.size)
}

/// Measures an allocator in one benchmark. The inner error is a refusal.
fn one(
    plan: &BenchPlan<'_>,
    case: &Case,
    allocator: &Allocator,
) -> io::Result<Result<BenchFigures, String>> {
    until_measured(|| run(plan, case, allocator))
}

/// Repeats a run that says nothing.
fn until_measured<T>(
    mut run: impl FnMut() -> io::Result<Result<Option<T>, String>>,
) -> io::Result<Result<T, String>> {
    for _ in 0..ATTEMPTS {
        if let Some(result) = run()?.transpose() {
            return Ok(result);
        }
    }
    Ok(Err("was not measured: its calls take no time".to_owned()))
}

/// Runs one process. The inner error is a refusal; there are no figures if the calls took no
/// more time than the null loop, which happens if the null loop was interrupted.
fn run(
    plan: &BenchPlan<'_>,
    case: &Case,
    allocator: &Allocator,
) -> io::Result<Result<Option<BenchFigures>, String>> {
    let library = allocator.library.as_deref();
    let settings = [
        (results::MODE, results::MODE_BENCH),
        (results::PATTERN, case.pattern.number()),
        (results::BLOCK_BYTES, case.size),
        (results::BENCH_THREADS, case.threads.into()),
        (results::BENCH_PAIRS, case.pairs),
        (results::SMALLEST_BYTES, case.smallest_size),
        (results::KEPT_BLOCKS, case.kept),
        (
            results::EXCHANGE_ROUNDS,
            case.exchange_rounds.unwrap_or_default(),
        ),
        (
            results::PROCESSOR,
            plan.processor.map_or(0, |it| u64::from(it) + 1),
        ),
    ];
    let prepared = plan
        .replayer
        .prepare_bench(library, &settings, plan.environment)?;
    let (outcome, results) = prepared.run()?;
    Ok(match outcome {
        Outcome::Done(figures) => match library {
            Some(library) if !allocators::is_same_file(&figures.library, library) => Err(format!(
                "was not loaded: malloc is that of {}",
                figures.library.display()
            )),
            _ => Ok(results.bench_figures()),
        },
        Outcome::Crashed {
            signal, message, ..
        } => Err(crate::replay::results::crash(signal, None, &message)),
        Outcome::OutOfMemory { failures, .. } => {
            Err(format!("ran out of memory: {failures} allocations failed"))
        }
        Outcome::TooLong(seconds) => Err(crate::replay::results::too_long(seconds)),
        Outcome::NoResources => Err(crate::replay::results::no_resources()),
        Outcome::NotStarted { status, message } => {
            Err(crate::replay::results::not_started(status, &message))
        }
        Outcome::BadFile { message } => Err(crate::replay::results::bad_file(&message)),
    })
}

fn case_row(
    case: Case,
    figures: &[(BenchFigures, f64)],
    noise: Spread,
    is_system: bool,
) -> Option<CaseRow> {
    let spread = |figure: fn(&(BenchFigures, f64)) -> f64| Spread::of(figures.iter().map(figure));
    let ratio = spread(|(_, ratio)| *ratio)?;
    let counted = |figure: fn(&BenchFigures) -> Option<f64>| {
        let all: Option<Vec<f64>> = figures.iter().map(|(it, _)| figure(it)).collect();
        Some(Spread::of(all?)?.median)
    };
    let verdict = if figures.len() < 2 {
        "unknown"
    } else {
        verdict(ratio, noise)
    };
    Some(CaseRow {
        case,
        operations_per_second: spread(|(it, _)| it.operations_per_second)?.into(),
        ns_per_operation: spread(|(it, _)| 1e9 / it.operations_per_second)?.into(),
        ratio: ratio.into(),
        noise: noise.into(),
        verdict: (!is_system).then_some(verdict),
        cycles: counted(|it| it.cycles),
        instructions: counted(|it| it.instructions),
    })
}

/// Whether a ratio differs from 1 by more than the noise does.
fn verdict(ratio: Spread, noise: Spread) -> &'static str {
    let widest = (noise.high - 1.0).abs().max((noise.low - 1.0).abs());
    if (ratio.median - 1.0).abs() <= widest {
        "tied"
    } else if ratio.median > 1.0 {
        "faster"
    } else {
        "slower"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_says_nothing_is_repeated() {
        let mut runs = [Ok(None), Ok(None), Ok(Some(7))].into_iter();
        let measured = until_measured(|| Ok(runs.next().unwrap())).unwrap();
        assert_eq!(measured, Ok(7));
        let mut count = 0;
        let never = until_measured::<u32>(|| {
            count += 1;
            Ok(Ok(None))
        });
        assert!(never.unwrap().unwrap_err().contains("take no time"));
        assert_eq!(count, ATTEMPTS);
        let refused = until_measured::<u32>(|| Ok(Err("crashed".to_owned())));
        assert_eq!(refused.unwrap(), Err("crashed".to_owned()));
    }

    #[test]
    fn a_ratio_inside_the_noise_is_a_tie() {
        let spread = |values: [f64; 3]| Spread::of(values).unwrap();
        let noise = spread([0.9, 1.0, 1.05]);
        assert_eq!(verdict(spread([1.0, 1.09, 1.2]), noise), "tied");
        assert_eq!(verdict(spread([1.0, 0.92, 0.5]), noise), "tied");
        assert_eq!(verdict(spread([1.0, 1.11, 1.2]), noise), "faster");
        assert_eq!(verdict(spread([0.8, 0.89, 1.2]), noise), "slower");
    }
}
