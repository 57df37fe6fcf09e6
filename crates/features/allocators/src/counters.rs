//! The processor's counters inside an allocator, in a replay of its own; and the figures an
//! operation of a report, each with its source.

use std::cell::RefCell;

use crate::cpu::profile::Wanted as Profiled;
use crate::cpu::{
    Chosen, OpenError, Operations, Options, Origin, Profile, Quantity, Session, Target,
};
use crate::paths::report::Instructions;
use crate::replay::allocators::Allocator as Wanted;
use crate::replay::report::Row;
use crate::replay::{Mode, Plan, Settings};
use allotrope_symbols::Locator;

use crate::report::Counter;

/// Samples of the clock a second; only the counters beside it are used.
const FREQUENCY: u64 = 100;

/// The processor's counters that a report has, as `cpu` calls them.
const PMU: [(&str, &str); 5] = [
    ("instructions (PMU)", "instructions"),
    ("cycles", "cycles"),
    ("cache references", "cache-references"),
    ("cache misses", "cache-misses"),
    ("branch misses", "branch-misses"),
];

/// Counters of the processor: without all of these there is nothing to sample.
const HARDWARE: [Quantity; 5] = [
    Quantity::Instructions,
    Quantity::Cycles,
    Quantity::CacheReferences,
    Quantity::CacheMisses,
    Quantity::BranchMisses,
];
/// Why a counter is unavailable.
const NO_COUNTER: &str = "this machine has no such counter (no PMU, as in most virtual machines)";

/// What the processor counted inside an allocator, an operation; why it did not otherwise. In
/// the order of [`PMU`].
pub(crate) struct PmuCounts([Result<f64, String>; PMU.len()]);

impl PmuCounts {
    /// None, for one reason.
    fn none(why: &str) -> Self {
        Self(std::array::from_fn(|_| Err(why.to_owned())))
    }
}

/// Replays once and samples the counters meanwhile.
pub(crate) fn count(
    plan: &Plan<'_>,
    allocator: &Wanted,
    locator: &Locator,
    progress: &dyn Fn(u64, u64),
) -> PmuCounts {
    match profile(plan, allocator, locator, progress) {
        Ok(profile) => PmuCounts(PMU.map(|(_, name)| per_operation(&profile, name))),
        Err(why) => PmuCounts::none(&why),
    }
}

fn profile(
    plan: &Plan<'_>,
    allocator: &Wanted,
    locator: &Locator,
    progress: &dyn Fn(u64, u64),
) -> Result<Profile, String> {
    let options = Options {
        target: Target::Children,
        frequency: FREQUENCY,
    };
    let session = Session::new(&options).map_err(|error: OpenError| error.to_string())?;
    let missing = |it: &Quantity| session.unavailable().iter().any(|(of, _)| of == it);
    if HARDWARE.iter().all(missing) {
        return Err(NO_COUNTER.to_owned());
    }
    let session = RefCell::new(session);
    let settings = Settings {
        mode: Mode::Timed,
        touch: plan.touch,
        processor: plan.processor,
        points: 0,
        environment: plan.environment.clone(),
    };
    let failed = |error: std::io::Error| format!("the replay cannot be started: {error}");
    let library = allocator.library.as_deref();
    let prepared = plan
        .replayer
        .prepare(plan.operations, library, &settings, None);
    let mut running = prepared.and_then(|it| it.start()).map_err(failed)?;
    let outcome = running.wait(&|done, total| {
        session.borrow_mut().read(false);
        progress(done, total);
        true
    });
    let outcome = outcome.map_err(failed)?;
    if let Some(why) = outcome.refusal(plan.operations) {
        return Err(format!("in the replay with counters it {why}"));
    }
    let mut session = session.into_inner();
    session.read(true);
    let operations = Operations {
        number: plan.operations.len(),
        source: Operations::RECORDING,
        again: None,
    };
    let wanted = Profiled {
        operations: Some(operations),
        exact_instructions: None,
        chosen: &Chosen::default(),
        groups: &[],
        annotate: &[],
        folded: false,
        origin: Origin::default(),
        scores: Vec::new(),
    };
    Ok(Profile::new(&session, locator, wanted))
}

/// A counter that counted nothing is not 0: its period is longer than what there was to count.
fn per_operation(profile: &Profile, name: &str) -> Result<f64, String> {
    match profile.counters.get(name) {
        Some(Some(counter)) if counter.inside > 0 => counter
            .per_operation
            .ok_or_else(|| "the number of operations is not known".to_owned()),
        Some(Some(_)) => Err("too few events for a sample of them".to_owned()),
        _ => Err(NO_COUNTER.to_owned()),
    }
}

/// All figures an operation of an allocator.
pub(crate) fn counters(
    row: &Row,
    all: Option<&Instructions>,
    not_stepped: Option<&str>,
    operations: u64,
    pmu: Option<&PmuCounts>,
) -> Vec<Counter> {
    let stepped = |counter, figure: fn(&Instructions) -> f64| {
        let why = not_stepped.unwrap_or("its operations were not stepped");
        figure_of(
            counter,
            "stepped",
            all.map(figure).ok_or_else(|| why.to_owned()),
        )
    };
    let faults = row
        .page_faults
        .ok_or_else(|| "it was not replayed".to_owned());
    let faults = faults.map(|it| it as f64 / operations.max(1) as f64);
    let mut rows = vec![
        stepped("instructions", |it| it.mean),
        stepped("locked instructions", |it| it.locked),
        stepped("system calls", |it| it.system_calls),
        figure_of("page faults", "kernel", faults),
    ];
    let none = PmuCounts::none("it was not replayed");
    let pmu = &pmu.unwrap_or(&none).0;
    let pmu = PMU.iter().zip(pmu);
    rows.extend(pmu.map(|((name, _), figure)| figure_of(name, "PMU", figure.clone())));
    rows
}

fn figure_of(counter: &'static str, source: &'static str, figure: Result<f64, String>) -> Counter {
    let (per_operation, why) = match figure {
        Ok(figure) => (Some(figure), None),
        Err(why) => (None, Some(why)),
    };
    Counter {
        counter,
        source: if per_operation.is_some() {
            source
        } else {
            "unavailable"
        },
        per_operation,
        why,
    }
}

/// The figure of a counter, if it is available.
pub(crate) fn figure(counters: &[Counter], name: &str) -> Option<f64> {
    counters.iter().find(|it| it.counter == name)?.per_operation
}
