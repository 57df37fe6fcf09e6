//! Measures one allocator: steps through the samples as often as wanted, and makes the tables.

use std::io;
use std::path::Path;

use crate::replay::allocators::{self, Allocator as Wanted, AllocatorError};
use crate::replay::{
    Environment, Mode, Operations, Outcome, Replayer, Settings, Touch, needed, too_long,
};
use allotrope_symbols::Locator;

use crate::paths::analysis::{Run, analyse};
use crate::paths::chosen_operations::ChosenOperations;
use crate::paths::findings::findings;
use crate::paths::names::Names;
use crate::paths::report::Allocator;
use crate::paths::tracer::{TraceError, trace};

/// What is measured.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The replayer.
    pub replayer: &'a Replayer,
    /// The operations of the recording.
    pub operations: &'a Operations,
    /// The operations that are stepped.
    pub samples: &'a ChosenOperations,
    /// Number of runs in which they are stepped.
    pub runs: u32,
    /// The replayer's environment.
    pub environment: &'a Environment,
    /// Finds debug files.
    pub locator: &'a Locator,
}

/// Why an allocator could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The kernel does not let this process trace the replayer.
    #[error(
        "cannot be stepped: {0}; ptrace must be allowed (in a container: --cap-add=SYS_PTRACE, or a seccomp profile that permits it)"
    )]
    NoTrace(io::Error),
    /// This process lacks something that is no allocator's fault.
    #[error("was not measured: {0}: {1}")]
    Failed(&'static str, io::Error),
    /// The library is no allocator for these operations.
    #[error("cannot be used: {0}")]
    Unusable(AllocatorError),
    /// The allocator was not loaded.
    #[error("was not loaded: the loader did not take it: malloc is in {0}")]
    NotLoaded(String),
    /// The replay did not reach its end.
    #[error("{0}")]
    Ended(String),
    /// The user has stopped it.
    #[error("was not measured: stopped")]
    Stopped,
}

/// Steps through the samples with this allocator.
/// `progress` gets the number of operations stepped in all runs together, and of all; if it
/// returns `false`, the replay is stopped.
///
/// # Errors
/// If it cannot be measured.
pub fn measure(
    request: &Request<'_>,
    allocator: &Wanted,
    progress: &dyn Fn(u64, u64) -> bool,
) -> Result<Allocator, MeasureError> {
    let library = allocator.library.as_deref();
    if let Some(library) = library {
        allocators::check(library, &needed(request.operations)).map_err(MeasureError::Unusable)?;
    }
    let runs = u64::from(request.runs.max(1));
    let each = request.samples.len() as u64;
    let mut measured: Vec<Run> = Vec::new();
    for number in 0..runs {
        let progress = |done| progress(number * each + done, runs * each);
        measured.push(run(request, library, &progress)?);
    }
    let names = Names::new(&measured[0].code, library, request.locator);
    let mut report = analyse(&measured, &names);
    report.name.clone_from(&allocator.name);
    report.library = library.map_or_else(String::new, |it| it.display().to_string());
    report.findings = findings(&report);
    Ok(report)
}

fn run(
    request: &Request<'_>,
    library: Option<&Path>,
    progress: &dyn Fn(u64) -> bool,
) -> Result<Run, MeasureError> {
    let settings = Settings {
        mode: Mode::Stepped,
        // Page faults are no instructions of the allocator.
        touch: Touch::First,
        processor: None,
        points: 0,
        environment: request.environment.clone().for_stepping(),
    };
    let numbers = &request.samples.numbers;
    let prepared = request
        .replayer
        .prepare(request.operations, library, &settings, Some(numbers));
    let mut prepared =
        prepared.map_err(|error| MeasureError::Failed("cannot make a file in memory", error))?;
    let stopped = std::cell::Cell::new(false);
    let progress = |done| {
        let goes_on = progress(done);
        stopped.set(stopped.get() || !goes_on);
        goes_on
    };
    let limit = prepared.limit();
    let traced = trace(prepared.command(), request.samples, limit, &progress);
    let traced = traced.map_err(|error| match error {
        TraceError::Start(error) => MeasureError::Failed("cannot start the replayer", error),
        TraceError::Trace(error) => MeasureError::NoTrace(error),
    })?;
    if traced.is_too_long {
        return Err(MeasureError::Ended(too_long(limit.as_secs())));
    }
    if stopped.get() {
        return Err(MeasureError::Stopped);
    }
    let outcome = prepared
        .outcome(traced.status)
        .map_err(|error| MeasureError::Failed("cannot read the results", error))?;
    let figures = match outcome {
        Outcome::Done(figures) => figures,
        other => {
            let refusal = other.refusal(request.operations);
            return Err(MeasureError::Ended(refusal.unwrap_or_default()));
        }
    };
    if let Some(library) = library
        && figures.library.canonicalize().ok() != library.canonicalize().ok()
    {
        let found = figures.library.display().to_string();
        return Err(MeasureError::NotLoaded(found));
    }
    let (stepped, wanted) = (traced.operations.len(), request.samples.len());
    match traced.code {
        Some(code) if stepped == wanted => Ok(Run {
            operations: traced.operations,
            code,
        }),
        // A count without them would be wrong, and look as any other.
        _ => Err(MeasureError::Ended(format!(
            "was not measured: {stepped} of {wanted} chosen operations were stepped"
        ))),
    }
}
