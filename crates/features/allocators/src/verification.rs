//! The same figure, counted in two ways.

use crate::paths::report::Allocator as Stepped;
use crate::replay::report::Row;
use crate::replay::{Call, Operations};

use crate::counters::figure;
use crate::findings::agree;
use crate::report::{Check, Counter};

/// What is counted, of checks of instructions.
const INSTRUCTIONS: &str = "instructions an operation";

/// All checks of an allocator.
pub(crate) fn checks(
    operations: &Operations,
    samples: usize,
    row: &Row,
    stepped: Option<&Stepped>,
    counters: &[Counter],
) -> Vec<Check> {
    let mut checks = Vec::new();
    if !row.percentiles.is_empty() {
        checks.extend(calls(operations, row));
    }
    if let Some(stepped) = stepped {
        checks.extend(stepping(samples, stepped));
        checks.push(instructions(counters));
    }
    checks
}

/// Operations of each entry point: of the recording, and those that the replayer timed.
fn calls<'a>(operations: &'a Operations, row: &'a Row) -> impl Iterator<Item = Check> + 'a {
    let called = Call::ALL.into_iter();
    let called = called.filter(|call| operations.calls(*call) > 0);
    called.map(|call| {
        let timed = row.percentiles.iter().find(|it| it.call == call.name());
        exact(
            format!("calls of {}", call.name()),
            "in the recording",
            operations.calls(call),
            "timed one by one by the replayer",
            timed.map_or(0, |it| it.calls),
        )
    })
}

/// Stepped operations: chosen, and stepped by the tracer; instructions: two runs.
fn stepping(samples: usize, stepped: &Stepped) -> Vec<Check> {
    let mut checks = vec![exact(
        "stepped operations".to_owned(),
        "chosen from the recording",
        samples as u64,
        "stepped by the tracer",
        stepped.operations,
    )];
    let all = stepped.instructions.first();
    if let Some(all) = all.filter(|_| stepped.runs > 1) {
        checks.push(Check {
            what: INSTRUCTIONS.to_owned(),
            first: "the lowest run".to_owned(),
            second: format!("the highest of {} fresh processes", stepped.runs),
            counted: all.low,
            again: Some(all.high),
            agrees: Some(all.low == all.high),
        });
    }
    checks
}

/// Instructions: stepped, and counted by the processor.
fn instructions(counters: &[Counter]) -> Check {
    let counted = figure(counters, "instructions (PMU)");
    let stepped = figure(counters, "instructions").unwrap_or(0.0);
    Check {
        what: INSTRUCTIONS.to_owned(),
        first: "stepped".to_owned(),
        second: "the processor's counter, within a quarter".to_owned(),
        counted: stepped,
        again: counted,
        agrees: counted.map(|it| agree(it, stepped)),
    }
}

fn exact(what: String, first: &str, counted: u64, second: &str, again: u64) -> Check {
    Check {
        what,
        first: first.to_owned(),
        second: second.to_owned(),
        counted: counted as f64,
        again: Some(again as f64),
        agrees: Some(counted == again),
    }
}

/// Says that a number of operations was counted differently, as a sentence. (Instructions may
/// differ from run to run, and `findings` compares them with the processor's.)
pub(crate) fn finding(check: &Check) -> Option<String> {
    let again = check.again?;
    let is_fault = check.agrees == Some(false) && check.what != INSTRUCTIONS;
    is_fault.then(|| {
        format!(
            "{} differ: {} {}, {again} {}",
            check.what, check.counted, check.first, check.second
        )
    })
}
