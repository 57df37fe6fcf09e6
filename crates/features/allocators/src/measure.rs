//! The order of the measurements: time and memory of all allocators in turn, then each one's
//! instructions and counters.

use std::io;

use crate::paths::report::Allocator as Stepped;
use crate::paths::{ChosenOperations, measure as step};
use crate::replay::allocators::{Allocator as Wanted, Candidate};
use crate::replay::report::{Facts, Report as Replayed, Row};
use crate::replay::{Plan, measure as replay};
use allotrope_symbols::Locator;

use crate::commands::Invocation;
use crate::counters::{count, counters};
use crate::findings::impossible;
use crate::report::{
    Allocator, Change, ChangedTime, FORMAT, ProgramGain, Report, Stepping, Steps, summary,
};
use crate::verification::{checks, finding};
use crate::what_if::{change, estimates};

/// What is measured, and how.
pub struct Request<'a> {
    /// The replays.
    pub plan: &'a Plan<'a>,
    /// The recording.
    pub facts: &'a Facts<'a>,
    /// Operations that are stepped.
    pub samples: &'a ChosenOperations,
    /// Number of runs in which they are stepped.
    pub stepped_runs: u32,
    /// Finds debug files.
    pub locator: &'a Locator,
    /// What the user asked for.
    pub invocation: &'a Invocation,
    /// CPU time of the whole program with the earlier version, an operation, in nanoseconds.
    pub program_ns: Option<f64>,
}

/// What is measured now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Time and memory.
    Replaying,
    /// Instructions.
    Stepping,
    /// Counters.
    Counting,
}

/// Why earlier versions cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PairError {
    /// No allocator of that name is measured.
    #[error(
        "--earlier {0} has no later version: give both the same name (--alloc NAME=NEW --earlier NAME=OLD)"
    )]
    NoLater(String),
}

/// An allocator's name and its earlier version.
pub type Pair = (String, Candidate);

/// Pairs earlier versions with allocators: by name, or the only ones with each other.
///
/// # Errors
/// If one has no partner.
pub fn pairs(allocators: &[Candidate], before: Vec<Candidate>) -> Result<Vec<Pair>, PairError> {
    let is_only = allocators.len() == 1 && before.len() == 1;
    let pair = |earlier: Candidate| {
        let same = |(it, _): &&Candidate| is_only || it.name == earlier.0.name;
        let later = allocators.iter().find(same);
        match later {
            Some((later, _)) => Ok((later.name.clone(), earlier)),
            None => Err(PairError::NoLater(earlier.0.name)),
        }
    };
    before.into_iter().map(pair).collect()
}

/// Measures and makes the report. `progress` gets what is done, the parts done and of all.
///
/// # Errors
/// If a replayer cannot be started.
pub fn measure(
    request: &Request<'_>,
    allocators: Vec<Candidate>,
    before: Vec<Pair>,
    progress: &dyn Fn(Stage, u64, u64),
) -> io::Result<Report> {
    let show = |step: crate::replay::Step<'_>| {
        progress(Stage::Replaying, step.done, step.total);
    };
    // Earlier versions are replayed in turn with the others: noise meets all of them.
    let own = allocators.len();
    let split = before.into_iter().map(|(name, (it, error))| {
        let replayed = Wanted {
            name: format!("{name} (before)"),
            library: it.library.clone(),
        };
        ((name, it), (replayed, error))
    });
    let (before, earlier): (Vec<(String, Wanted)>, Vec<Candidate>) = split.unzip();
    let all: Vec<Candidate> = allocators.into_iter().chain(earlier).collect();
    let measured = replay(request.plan, all, &show)?;
    let mut replayed = Replayed::new(request.facts, &measured);
    let earlier = replayed.allocators.split_off(own);
    // Whether to switch is not asked of an earlier version.
    let is_earlier = |name: &str| earlier.iter().any(|row| row.name == name);
    replayed.switching.to.retain(|row| !is_earlier(&row.name));
    let mut rows = Vec::new();
    let mut later: Vec<Stepped> = Vec::new();
    for (row, measured) in replayed.allocators.into_iter().zip(&measured) {
        let is_usable = row.refused.is_none();
        let stepped = is_usable.then(|| stepped(request, &measured.allocator, progress));
        let show = |done, total| progress(Stage::Counting, done, total);
        let pmu =
            is_usable.then(|| count(request.plan, &measured.allocator, request.locator, &show));
        let row = allocator(request, row, stepped.as_ref(), pmu.as_ref());
        later.extend(stepped.and_then(Result::ok));
        rows.push(row);
    }
    let changes = before.into_iter().zip(&earlier).map(|((name, it), row)| {
        let mut change = changed(request, &name, (&it, row), &later, progress);
        let later = rows.iter().find(|row| row.replay.name == name);
        let runs = request.plan.runs;
        change.time = later.and_then(|it| ChangedTime::new(row, &it.replay, runs));
        change.not_timed.clone_from(&row.refused);
        let program = request.program_ns.zip(change.time.as_ref());
        change.program = program.map(|(before, time)| ProgramGain::new(before, time));
        change
    });
    let changes: Vec<Change> = changes.collect();
    let mut report = Report {
        format: FORMAT,
        summary: Vec::new(),
        recording: replayed.recording,
        replay: replayed.replay,
        stepping: Stepping {
            every: request.samples.every,
            operations: request.samples.len() as u64,
            runs: request.stepped_runs,
        },
        changes,
        allocators: rows,
        switching: replayed.switching,
        commands: request.invocation.commands(),
    };
    report.summary = summary(&report);
    Ok(report)
}

fn stepped(
    request: &Request<'_>,
    allocator: &Wanted,
    progress: &dyn Fn(Stage, u64, u64),
) -> Result<Stepped, String> {
    let show = |done, total| {
        progress(Stage::Stepping, done, total);
        true
    };
    let paths = crate::paths::Request {
        replayer: request.plan.replayer,
        operations: request.plan.operations,
        samples: request.samples,
        runs: request.stepped_runs,
        environment: request.plan.environment,
        locator: request.locator,
    };
    step(&paths, allocator, &show).map_err(|error| error.to_string())
}

fn allocator(
    request: &Request<'_>,
    row: Row,
    stepped: Option<&Result<Stepped, String>>,
    pmu: Option<&crate::counters::PmuCounts>,
) -> Allocator {
    let not_stepped = stepped.and_then(|it| it.as_ref().err()).cloned();
    let stepped = stepped.and_then(|it| it.as_ref().ok());
    let operations = request.plan.operations;
    let all = stepped.and_then(|it| it.instructions.first());
    let counters = counters(&row, all, not_stepped.as_deref(), operations.len(), pmu);
    let verification = checks(operations, request.samples.len(), &row, stepped, &counters);
    let mut findings = stepped.map_or_else(Vec::new, |it| it.findings.clone());
    findings.extend(impossible(&counters));
    findings.extend(verification.iter().filter_map(finding));
    Allocator {
        replay: row,
        not_stepped,
        steps: stepped.cloned().map(Steps::new).unwrap_or_default(),
        counters,
        what_if: stepped.map(estimates).unwrap_or_default(),
        verification,
        findings,
    }
}

/// Steps through an earlier version, and compares. The time is not compared here.
fn changed(
    request: &Request<'_>,
    name: &str,
    (earlier, row): (&Wanted, &Row),
    later: &[Stepped],
    progress: &dyn Fn(Stage, u64, u64),
) -> Change {
    let library = earlier.library.as_ref();
    let library = library.map(|it| it.to_string_lossy().into_owned());
    let measured = match (&row.refused, later.iter().find(|it| it.name == name)) {
        (Some(why), _) => Err(format!("the earlier version {why}")),
        (None, None) => Err("the later version was not stepped".to_owned()),
        (None, Some(later)) => stepped(request, earlier, progress)
            .map(|before| (before, later))
            .map_err(|error| format!("the earlier version {error}")),
    };
    match measured {
        Ok((before, later)) => {
            let operations = request.plan.operations.len();
            let mut change = change(&before, later, operations, request.samples.every);
            change.before = Some(Steps::new(before));
            change
        }
        Err(refused) => Change {
            name: name.to_owned(),
            before_library: library,
            refused: Some(refused),
            before: None,
            rows: Vec::new(),
            removed: Vec::new(),
            estimated_saving: None,
            measured_saving: None,
            time: None,
            not_timed: None,
            program: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str) -> Candidate {
        let name = name.to_owned();
        (
            Wanted {
                name,
                library: None,
            },
            None,
        )
    }

    #[test]
    fn earlier_versions_are_paired_by_name_or_alone() {
        let both = [candidate("glibc"), candidate("mine")];
        let of = |before| pairs(&both, vec![candidate(before)]);
        assert_eq!(of("mine").unwrap()[0].0, "mine");
        assert_eq!(
            of("old.so").unwrap_err(),
            PairError::NoLater("old.so".to_owned())
        );
        let alone = pairs(&both[1..], vec![candidate("old.so")]).unwrap();
        assert_eq!(alone[0].0, "mine");
    }
}
