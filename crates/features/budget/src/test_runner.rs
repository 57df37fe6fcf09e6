//! Runs one test: measures it, checks it against its budgets and explains
//! differences by their stacks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use allotrope_profile::Metric;

use crate::allowance;
use crate::budgets::{Budget, BudgetError, BudgetFolder, BudgetScope, Budgets, CallTree};
use crate::case::Case;
use crate::check::{Check, CheckStatus, check_case, watched};
use crate::configuration::{Protocol, Test};
use crate::definition::definition;
use crate::explanation::Explainer;
use crate::fluctuation::fluctuations;
use crate::measure::{Measured, Measurer, environment};
use crate::nio_log::NioLog;
use crate::notes;
use crate::outputs::wording::signed;
use crate::own_files::own_files;
use crate::problem::Problem;
use crate::result::{CaseResult, Explanation, Leak, Outcome, TestResult};
use crate::shell::command_line;
use crate::spread::Spread;
use crate::toolchain::Suspect;

/// The source of the accepted numbers.
#[derive(Debug, Clone, Copy)]
pub enum BudgetSource<'a> {
    /// The project's budget folder.
    Folder(&'a BudgetFolder),
    /// A log or threshold file of SwiftNIO's allocation counter tests. It has no stacks: those
    /// of the budget folder explain its numbers where it has the same ones.
    Log(&'a NioLog, &'a BudgetFolder),
}

/// Runs tests and checks them.
#[derive(Debug, Clone, Copy)]
pub struct TestRunner<'a> {
    /// Measures the tests.
    pub measurer: Measurer<'a>,
    /// The source of the accepted numbers.
    pub source: BudgetSource<'a>,
    /// The platform whose budgets apply.
    pub platform: &'a str,
    /// Overrides the configured number of runs of each test.
    pub runs: Option<u32>,
    /// Records stacks even if the configuration has `counts-only`.
    pub stacks: bool,
    /// Runs a test whose budget cannot be read as one without a budget.
    pub replace_unreadable: bool,
}

impl TestRunner<'_> {
    /// The protocol of a test on this platform, with overrides applied.
    pub fn protocol(&self, test: &Test) -> Protocol {
        let mut protocol = test.protocol_on(self.platform);
        if let Some(runs) = self.runs {
            protocol.runs = runs;
        }
        protocol.counts_only &= !self.stacks;
        protocol
    }

    /// Measures a test and checks it. `on_run` is called before each run of its
    /// program.
    pub fn run(&self, test: &Test, on_run: &mut dyn FnMut(u32, u32)) -> TestResult {
        let mut protocol = self.protocol(test);
        let mut result = TestResult {
            reproduce: self.reproduce(test, &protocol),
            name: test.name.clone(),
            command: test.command.clone(),
            folder: test.folder.clone(),
            definition: definition(
                self.measurer.configuration,
                self.measurer.project,
                &test.name,
            ),
            stdin: test.stdin.clone(),
            ..TestResult::default()
        };
        // Before the measurement, so that an invalid file costs no time.
        let (accepted, note) = match self.accepted(test) {
            Ok(accepted) => accepted,
            Err(error) if self.replace_unreadable => {
                let note = format!("{error}: accepted as a test without a budget");
                (AcceptedBudgets::Folder(None, BTreeMap::new()), Some(note))
            }
            Err(error) => {
                result.problem = Some(Problem::Budget(self.with_remedy(&error, &test.name)));
                return result;
            }
        };
        let started = Instant::now();
        let measured = self.measurer.measure(test, &protocol, on_run);
        if let BudgetSource::Log(log, _) = self.source {
            log.adapt(&mut protocol, &measured.cases);
        }
        result.duration = started.elapsed();
        result.counts_only = protocol.counts_only;
        result.environment = environment(test, &protocol);
        let root = self.measurer.project.root();
        let own = own_files(root, measured.files(), accepted.files());
        protocol.glue = protocol.glue.within(own);
        let context = Context {
            root,
            accept: self.command(test, &["--accept"]),
            program: command_line(&test.command),
        };
        let recorded = self.measurer.recorder.is_some();
        result.fill(measured, &protocol, accepted, recorded, &context);
        result.notes.extend(note);
        result
    }

    /// The budgets of a test, and a note if its stacks cannot be used.
    fn accepted(&self, test: &Test) -> Result<(AcceptedBudgets<'_>, Option<String>), BudgetError> {
        match self.source {
            BudgetSource::Log(log, folder) => {
                // A budget that cannot be read only has no stacks to give.
                let budgets = folder.read(&test.name, self.platform).ok().flatten();
                let stored = budgets.map(|budgets| {
                    let profiles = folder.profiles(&test.name, &budgets.scope);
                    (budgets, profiles.unwrap_or_default())
                });
                Ok((AcceptedBudgets::Log(log, stored), None))
            }
            BudgetSource::Folder(folder) => {
                let budgets = folder.read(&test.name, self.platform)?;
                let scope = budgets
                    .as_ref()
                    .map_or(&BudgetScope::Shared, |budgets| &budgets.scope);
                // Stacks only explain differences.
                let (profiles, note) = match folder.profiles(&test.name, scope) {
                    Ok(profiles) => (profiles, None),
                    Err(error) => {
                        let note = self.with_remedy(&error, &test.name);
                        (BTreeMap::new(), Some(note))
                    }
                };
                Ok((AcceptedBudgets::Folder(budgets, profiles), note))
            }
        }
    }

    /// The problem of a budget's file, and the command that repairs it.
    fn with_remedy(&self, error: &BudgetError, test: &str) -> String {
        if !error.is_of_contents() {
            return error.to_string();
        }
        let mut words = self
            .measurer
            .configuration
            .command(self.measurer.project.root());
        words.extend(["--accept".into(), test.into()]);
        format!("{error}; `{}` writes it again", command_line(&words))
    }

    /// The shell command that runs the test again, with stacks.
    fn reproduce(&self, test: &Test, protocol: &Protocol) -> String {
        let stacks: &[&str] = match protocol.counts_only {
            true => &["--stacks"],
            false => &[],
        };
        self.command(test, stacks)
    }

    /// A shell command for the test with these options.
    fn command(&self, test: &Test, options: &[&str]) -> String {
        let root = self.measurer.project.root();
        let mut words = self.measurer.configuration.command(root);
        words.extend(options.iter().map(OsString::from));
        words.push(test.name.clone().into());
        command_line(&words)
    }
}

/// What explanations say about the test as a whole.
struct Context<'a> {
    /// The folder of the repository.
    root: &'a Path,
    /// The command that accepts its numbers and stacks.
    accept: String,
    /// Program and arguments of the test, as a shell command.
    program: String,
}

/// The accepted numbers and stacks of a test.
enum AcceptedBudgets<'a> {
    Folder(Option<Budgets>, BTreeMap<String, CallTree>),
    /// The log, and what the budget folder has for the test.
    Log(&'a NioLog, Option<(Budgets, BTreeMap<String, CallTree>)>),
}

impl AcceptedBudgets<'_> {
    fn budget(&self, case: &Case) -> Option<Budget> {
        match self {
            Self::Folder(budgets, _) => budgets.as_ref()?.cases.get(&case.name).cloned(),
            Self::Log(log, _) => log.budget(case),
        }
    }

    /// The source files of the accepted stacks.
    fn files(&self) -> impl Iterator<Item = &str> {
        let profiles = match self {
            Self::Folder(_, profiles) => Some(profiles),
            Self::Log(_, stored) => stored.as_ref().map(|(_, profiles)| profiles),
        };
        let profiles = profiles.into_iter().flat_map(BTreeMap::values);
        profiles.flat_map(CallTree::files)
    }

    /// The stacks of the accepted number of a metric. Those of the budget folder are the stacks
    /// of a log's number if it is one that the accepted runs had.
    fn profile(&self, case: &Case, metric: Metric) -> Option<&CallTree> {
        match self {
            Self::Folder(_, profiles) => profiles.get(&case.name),
            Self::Log(log, stored) => {
                let (budgets, profiles) = stored.as_ref()?;
                let number = log.budget(case)?.spread(metric)?.typical;
                let accepted = budgets.cases.get(&case.name)?.spread(metric)?;
                let is_same = (accepted.least..=accepted.most).contains(&number);
                profiles.get(&case.name).filter(|_| is_same)
            }
        }
    }

    /// The accepted figures of metrics that are not checked.
    fn watched(&self, case: &str) -> Option<&BTreeMap<Metric, Spread>> {
        match self {
            Self::Folder(_, profiles) => Some(&profiles.get(case)?.watched),
            Self::Log(..) => None,
        }
    }
}

impl TestResult {
    fn fill(
        &mut self,
        measured: Measured,
        protocol: &Protocol,
        accepted: AcceptedBudgets<'_>,
        recorded: bool,
        context: &Context<'_>,
    ) {
        self.problem.clone_from(&measured.problem);
        self.notes = measured.notes;
        self.output = measured.output;
        self.trace = measured.trace;
        self.whole_program = measured.whole_program;
        self.is_recorded = recorded;
        if recorded && measured.problem.is_none() && !protocol.counts_only {
            let rules = protocol.allow.iter();
            let unused = rules.filter(|rule| !rule.matches_any(&measured.cases));
            self.notes.extend(unused.map(notes::unused_rule));
        }
        if recorded {
            let cases = measured.cases.into_iter();
            self.cases = cases
                .map(|case| {
                    let of_case = protocol.of_case(&self.name, &case.name);
                    checked(case, &of_case, &accepted, context)
                })
                .collect();
            // A red number is news enough.
            let green = self.cases.iter();
            let green = green.filter(|case| case.outcome() != Outcome::Failed);
            let watched = green.flat_map(|case| {
                let watched = case.watched.iter();
                watched.filter_map(|check| notes::ungated(&case.name, check))
            });
            self.notes.extend(watched);
            let allowed = self.cases.iter().flat_map(|case| {
                let allowed = case.allowed.iter();
                allowed.map(|allowed| notes::allowed(case, allowed))
            });
            self.notes.extend(allowed);
            if self.problem.is_none() {
                let unopened = notes::unopened_windows(&self.name, protocol, &self.cases);
                self.notes.extend(unopened);
            }
        }
        if let AcceptedBudgets::Folder(Some(budgets), profiles) = &accepted {
            let cases = self.cases.iter();
            let notes =
                cases.filter_map(|case| note_on_stacks(case, budgets, profiles, &context.accept));
            self.notes.extend(notes);
            // After a problem, missing cases are its consequence.
            if self.problem.is_none() && recorded {
                let measured = |name: &&String| self.cases.iter().any(|case| case.name == **name);
                let missing = budgets.cases.keys().filter(|name| !measured(name));
                self.not_measured = missing.cloned().collect();
            }
            if let (Some(before), Some(now)) = (&budgets.toolchain, &measured.toolchain) {
                self.suspects = now.suspects(before);
            }
            let iterations = self
                .cases
                .iter()
                .filter_map(|case| iterations(case, budgets));
            self.suspects.extend(iterations.collect::<Vec<_>>());
        }
        self.toolchain = measured.toolchain;
        self.unoptimised = measured.unoptimised;
        if let AcceptedBudgets::Folder(budgets, _) = accepted {
            self.budgets = budgets;
        }
        // No news as long as the numbers are those of such a build.
        let accepted = self.budgets.as_ref();
        let accepted = accepted.and_then(|budgets| budgets.toolchain.as_ref()?.optimised);
        if accepted != Some(false) || self.outcome() != Outcome::Passed {
            self.notes.extend(notes::unoptimised(self));
        }
    }
}

/// A note if the accepted stacks of a case are missing or do not fit its numbers.
fn note_on_stacks(
    case: &CaseResult,
    budgets: &Budgets,
    profiles: &BTreeMap<String, CallTree>,
    accept: &str,
) -> Option<String> {
    let budget = budgets.cases.get(&case.name)?;
    let name = &case.name;
    let Some(profile) = profiles.get(name).filter(|profile| profile.has_stacks()) else {
        let any = case.runs.iter().any(|run| !run.stacks.stacks.is_empty());
        let some = budget
            .spread(Metric::Allocations)
            .is_some_and(|it| it.most > 0);
        return (any && some)
            .then(|| format!("{name} has no accepted stacks; `{accept}` writes them"));
    };
    let (metric, sum, number) = profile.disagreement(budget)?;
    Some(format!(
        "{name}: its accepted stacks sum to {sum} {metric}, but its number is {number} ({}): one \
         of them was edited or merged alone; `{accept}` writes both",
        signed(number.saturating_sub(sum))
    ))
}

/// A suspect if the number of iterations differs from that of the budget: it may explain
/// other differences.
fn iterations(case: &CaseResult, budgets: &Budgets) -> Option<Suspect> {
    let was = budgets.cases.get(&case.name)?.iterations?;
    let is = case.iterations?;
    (was != is).then(|| Suspect {
        what: format!("iterations of {}", case.name),
        was: was.to_string(),
        is: is.to_string(),
    })
}

/// Checks a case and explains the numbers that differ from their budgets.
fn checked(
    case: Case,
    protocol: &Protocol,
    accepted: &AcceptedBudgets<'_>,
    context: &Context<'_>,
) -> CaseResult {
    let budget = accepted.budget(&case);
    let mut checks = check_case(&case, budget.as_ref(), protocol);
    let mut allowed = Vec::new();
    let rules = &protocol.allow;
    for check in checks
        .iter_mut()
        .filter(|check| check.status == CheckStatus::Exceeded)
    {
        let profile = accepted.profile(&case, check.metric);
        let (of_runs, by_rule) =
            allowance::allowed(rules, &case, check.metric, budget.as_ref(), profile);
        *check = check.allowing(&case, &of_runs);
        allowed.extend(by_rule);
    }
    let watched = watched(&case, accepted.watched(&case.name), protocol);
    let reported = case.runs.iter().find_map(|run| run.iterations);
    let iterations = reported.or(protocol.iterations);
    let leaks = leaks(&case, &checks);
    let explained = checks
        .iter()
        .filter(|check| !check.status.passes())
        // A figure of 0 without a budget needs no explanation.
        .filter(|check| check.budget.is_some() || check.now.is_some_and(|now| now.most != 0))
        .filter_map(|check| Some((check.metric, run_to_explain(&case, check)?)));
    let leaked = leaks.iter().filter(|leak| leak.metric == Metric::Remaining);
    let worst = leaked.max_by_key(|leak| leak.figure);
    let leaked = worst.map(|leak| (Metric::Remaining, leak.run - 1));
    let explainer = |metric| Explainer {
        case: &case,
        protocol,
        iterations,
        budget: budget.as_ref(),
        profile: accepted.profile(&case, metric),
        is_of_log: matches!(accepted, AcceptedBudgets::Log(..)),
        root: context.root,
        accept: &context.accept,
        program: &context.program,
    };
    let (mut explanations, mut unexplained) = (Vec::new(), Vec::new());
    for (metric, run) in explained {
        match explainer(metric).explain(metric, run) {
            Some(Ok(explanation)) => explanations.push(explanation),
            Some(Err(remark)) => unexplained.push(remark),
            None => {}
        }
    }
    // A leak of one run is shown in addition, unless that run has what was accepted.
    let leaked = leaked.and_then(|(metric, run)| explainer(metric).explain(metric, run)?.ok());
    let is_shown = |leaked: &Explanation| {
        let mut shown = explanations.iter();
        shown.any(|it: &Explanation| (it.metric, it.run) == (leaked.metric, leaked.run))
    };
    let leaked = leaked.filter(|leaked| leaked.difference != 0 && !is_shown(leaked));
    explanations.extend(leaked);
    CaseResult {
        fluctuations: fluctuations(&case, protocol),
        name: case.name,
        iterations,
        runs: case.runs,
        checks,
        watched,
        allowed,
        explanations,
        unexplained,
        leaks,
    }
}

/// The first of the runs with the typical number, which is the one that is shown.
fn run_to_explain(case: &Case, check: &Check) -> Option<usize> {
    let shown = check.now?.typical;
    let mut runs = case.runs.iter();
    runs.position(|run| run.figure(check.metric) == Some(shown))
}

/// The runs that left more behind than the run with the minimum. If the check
/// of file descriptors failed, all runs that leaked some, because there are no
/// stacks that name them.
fn leaks(case: &Case, checks: &[Check]) -> Vec<Leak> {
    let fds = checks
        .iter()
        .find(|check| check.metric == Metric::LeakedFds);
    let fds_within_budget = fds.is_none_or(|check| check.status.passes());
    let mut leaks = Vec::new();
    for metric in [Metric::Remaining, Metric::LeakedFds] {
        let figures = || case.runs.iter().filter_map(|run| run.figure(metric));
        let least = figures().min().unwrap_or(0);
        for (index, sample) in case.runs.iter().enumerate() {
            if let Some(figure) = sample.figure(metric)
                && (figure > least
                    || figure > 0 && metric == Metric::LeakedFds && !fds_within_budget)
            {
                leaks.push(Leak {
                    run: index + 1,
                    metric,
                    figure,
                    names: match metric {
                        Metric::LeakedFds => sample.leaked_descriptors.clone(),
                        _ => Vec::new(),
                    },
                });
            }
        }
    }
    leaks
}
