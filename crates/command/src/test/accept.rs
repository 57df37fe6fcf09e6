//! `allotrope test --accept`: makes the measured numbers the accepted ones.

use allotrope_budget::acceptance::{self, Acceptance, Change, Refusal};
use allotrope_budget::budgets::{BudgetError, BudgetScope};
use allotrope_budget::limit;
use allotrope_budget::outputs::wording;
use allotrope_budget::result::TestResult;
use allotrope_budget::spread::Spread;
use allotrope_budget::{Report, Session, notes};
use allotrope_text::Shown;

use super::arguments::Arguments;
use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, NOT_MEASURED, REGRESSION};
use crate::standard_output;

/// Writes the numbers of the tests that could be measured as the new budgets and
/// prints what changed. Fails with [`NOT_MEASURED`] if a test could not be accepted.
pub fn run(arguments: &Arguments, session: &Session<'_>, report: &Report) -> Result<u8, Failure> {
    let folder = session.configuration.budgets();
    let mut status = FINE;
    let mut lines = Vec::new();
    let mut rises = Vec::new();
    for test in &report.tests {
        if let Some(why) = acceptance::refusal(test) {
            lines.push(format!("{}: not accepted: {why}", test.name));
            status = match why {
                Refusal::AboveLimit(_) => REGRESSION,
                Refusal::NotMeasured(_) if status == REGRESSION => REGRESSION,
                Refusal::NotMeasured(_) => NOT_MEASURED,
            };
            continue;
        }
        let acceptance = Acceptance {
            scope: scope(arguments, session, test),
            because: arguments.because.as_deref(),
            max_stacks: session.configuration.profile_stacks,
            only_improvements: arguments.only_improvements,
        };
        let accepted = match acceptance::accept(test, &folder, &acceptance) {
            Ok(accepted) => accepted,
            Err(error) => {
                // What was written before is not kept quiet.
                print(&lines)?;
                return Err(failure(error));
            }
        };
        for change in &accepted.refused {
            lines.push(format!("not accepted: {}", changed(change)));
            status = REGRESSION;
        }
        rises.extend(accepted.changes.iter().filter_map(rise));
        if accepted.changes.is_empty() && accepted.refused.is_empty() {
            lines.push(format!("{}: the numbers have not changed", test.name));
        }
        lines.extend(accepted.changes.iter().map(changed));
        lines.extend(accepted.changes.iter().filter_map(detectable));
        let note = notes::unoptimised(test).filter(|_| !accepted.files.is_empty());
        lines.extend(note.map(|note| format!("{}: note: {note}", test.name)));
        let files = accepted.files.iter();
        lines.extend(files.map(|file| format!("  wrote {}", file.shown())));
    }
    if !rises.is_empty() {
        lines.push(format!("rose: {}", rises.join(", ")));
    }
    print(&lines)?;
    Ok(status)
}

fn print(lines: &[String]) -> Result<(), Failure> {
    standard_output::print_log(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
}

/// The failure of the command for budgets that cannot be written or removed.
pub fn failure(error: BudgetError) -> Failure {
    let status = match error.is_of_system() {
        true => FAILED,
        false => BAD_INPUT,
    };
    Failure::new(status, error)
}

/// A number that rose, with how much.
fn rise(change: &Change) -> Option<String> {
    let difference = change.difference().filter(|&difference| difference > 0)?;
    let (case, metric) = (&change.case, change.metric);
    Some(format!("{case} {metric} {}", wording::signed(difference)))
}

/// Platforms to which accepted numbers apply: a test that has budgets for this
/// platform keeps them apart from the shared ones.
fn scope(arguments: &Arguments, session: &Session<'_>, test: &TestResult) -> BudgetScope {
    if arguments.this_platform || test.of_platform() {
        BudgetScope::Platform(session.platform())
    } else {
        BudgetScope::Shared
    }
}

/// Says from which numbers on a change of a number that fluctuates is reported.
fn detectable(change: &Change) -> Option<String> {
    let spread = change.is.filter(|spread| !spread.is_exact())?;
    let [low, high] = spread.noise(spread.runs).map(limit::number);
    let (case, metric) = (&change.case, change.metric);
    Some(format!(
        "{case}: note: {metric} fluctuate; {low} to {high} will count as noise"
    ))
}

fn changed(change: &Change) -> String {
    let number = |of: Option<Spread>| of.map_or_else(|| "none".to_owned(), wording::spread);
    let difference = change.difference().filter(|&difference| difference != 0);
    let difference = difference.map(|it| match it > 0 {
        true => format!(" ({}, rose)", wording::signed(it)),
        false => format!(" ({})", wording::signed(it)),
    });
    format!(
        "{}: {} {} → {}{}",
        change.case,
        change.metric,
        number(change.was),
        number(change.is),
        difference.unwrap_or_default()
    )
}
