//! Replays with several allocators in turn, each time in a fresh process, so that a change of
//! the machine meets all of them: A B A B …

use std::io;

use allotrope_replayer::operations::Call;

use crate::replay::allocators::{self, Allocator, Candidate, is_same_file};
use crate::replay::environment::Environment;
use crate::replay::operations_file::Operations;
use crate::replay::replayer::{Mode, Replayer, Settings, Touch};
use crate::replay::results::{Figures, Outcome};

/// Points of memory that a replay takes.
pub const POINTS: u32 = 512;

/// What to replay, and how.
pub struct Plan<'a> {
    /// The operations.
    pub operations: &'a Operations,
    /// The program.
    pub replayer: &'a Replayer,
    /// How often each allocator is measured.
    pub runs: u32,
    /// How much of each block is written.
    pub touch: Touch,
    /// The processor to run on, if there is one thread.
    pub processor: Option<u32>,
    /// The replayer's environment.
    pub environment: &'a Environment,
}

/// An allocator with what was measured.
#[derive(Debug)]
pub struct Measured {
    /// The allocator.
    pub allocator: Allocator,
    /// Why it was not measured, as the end of a sentence that begins with its name.
    pub refusal: Option<String>,
    /// One for each run; empty if it was refused.
    pub runs: Vec<Figures>,
    /// A further replay in which each operation was measured.
    pub latencies: Option<Box<Figures>>,
}

/// Where the measurement is.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The allocator that is replayed.
    pub name: &'a str,
    /// Parts done.
    pub done: u64,
    /// Parts of all.
    pub total: u64,
}

/// Measures all allocators that can be used.
///
/// # Errors
///
/// If a replayer cannot be started.
pub fn measure(
    plan: &Plan<'_>,
    candidates: Vec<Candidate>,
    progress: &dyn Fn(Step<'_>),
) -> io::Result<Vec<Measured>> {
    let needed = needed(plan.operations);
    let all = candidates.into_iter().map(|(allocator, error)| {
        let library = allocator.library.as_deref();
        let check = |library| allocators::check(library, &needed);
        let error = error.or_else(|| library.and_then(|it| check(it).err()));
        Measured {
            allocator,
            refusal: error.map(|error| format!("cannot be used: {error}")),
            runs: Vec::new(),
            latencies: None,
        }
    });
    let mut all: Vec<Measured> = all.collect();
    let rounds = u64::from(plan.runs) + 1;
    let total = rounds * all.len() as u64;
    for round in 0..rounds {
        for (index, measured) in all.iter_mut().enumerate() {
            if measured.refusal.is_some() {
                continue;
            }
            let is_last = round + 1 == rounds;
            let mode = if is_last { Mode::Latency } else { Mode::Timed };
            let before = round * total / rounds + index as u64;
            let show = |name: &str, done: u64, of: u64| {
                const PARTS: u64 = 1000;
                progress(Step {
                    name,
                    done: before * PARTS + done.saturating_mul(PARTS) / of.max(1),
                    total: total * PARTS,
                });
            };
            // Reading the memory stops the clock, which a short run would notice.
            let points = if is_last { POINTS } else { 0 };
            match replay(plan, &measured.allocator, (mode, points), &show)? {
                Ok(figures) if is_last => measured.latencies = Some(figures),
                Ok(figures) => measured.runs.push(*figures),
                Err(refusal) => {
                    measured.refusal = Some(refusal);
                    measured.runs.clear();
                }
            }
        }
    }
    Ok(all)
}

/// Replays once, with so many points of memory. The inner error is a refusal.
pub(crate) fn replay(
    plan: &Plan<'_>,
    allocator: &Allocator,
    (mode, points): (Mode, u32),
    progress: &dyn Fn(&str, u64, u64),
) -> io::Result<Result<Box<Figures>, String>> {
    let settings = Settings {
        mode,
        touch: plan.touch,
        processor: plan.processor,
        points,
        environment: plan.environment.clone(),
    };
    let library = allocator.library.as_deref();
    let prepared = plan
        .replayer
        .prepare(plan.operations, library, &settings, None)?;
    let outcome = prepared.start()?.wait(&|done, of| {
        progress(&allocator.name, done, of);
        true
    })?;
    let refusal = outcome.refusal(plan.operations);
    Ok(match outcome {
        Outcome::Done(figures) => match library {
            Some(library) if !is_same_file(&figures.library, library) => Err(format!(
                "was not loaded: malloc is that of {}",
                figures.library.display()
            )),
            _ => Ok(figures),
        },
        _ => Err(refusal.unwrap_or_default()),
    })
}

/// The functions that an allocator must define: the four that the C library itself calls in any
/// program (a thread's memory comes from `calloc`), and what was recorded. (The C library's
/// `reallocarray` calls the allocator's `realloc`.)
pub fn needed(operations: &Operations) -> Vec<Call> {
    let is_needed = |call: &Call| {
        allocators::BASIC.contains(call)
            || (*call != Call::Reallocarray && operations.calls(*call) > 0)
    };
    Call::ALL.into_iter().filter(is_needed).collect()
}

/// The processor that this thread runs on now.
pub fn this_processor() -> Option<u32> {
    u32::try_from(rustix::thread::sched_getcpu()).ok()
}
