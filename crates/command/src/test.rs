//! `allotrope test`: runs the tests of `allotrope.toml` and compares what they
//! allocate with accepted numbers. `allotrope-budget` does the work; this file
//! turns arguments into its options and prints its report.

mod accept;
mod arguments;
mod history;
mod init;
mod rename;
mod stop;

use std::io::Write;
use std::path::Path;

use allotrope_text::document::{Table, left, write_lines};
use allotrope_text::{Shown, Style};

use allotrope_budget::configuration::Test;
use allotrope_budget::location::refuse_links;
use allotrope_budget::measure::Recorder;
use allotrope_budget::nio_log::NioLog;
use allotrope_budget::outputs::{self, TextOptions};
use allotrope_budget::{Configuration, Outcome, Report, Session, SessionError};
use allotrope_files::{Output, Target, Whose, append};
use anyhow::Context;

use crate::cargo_tests::{self};
use crate::exit_status::{
    BAD_INPUT, FAILED, FINE, Failure, IMPROVEMENT, NOT_MEASURED, REGRESSION, WithStatus,
};
use crate::message;
use crate::progress::Progress;
use crate::replacing::{self};
use crate::standard_output;
use crate::style::style;
use arguments::Format;

pub use arguments::Arguments;
pub use stop::Stop;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Tests are described in allotrope.toml (`allotrope test --init` writes one to start
from); accepted numbers and their stacks are beside it in allotrope-budgets and
belong in the repository. JSON is the format allotrope-test/1.

Exit status: 0 if all numbers keep their budgets, 1 if allotrope failed, 2 if the
configuration, a budget or an argument cannot be used, 3 if a budget or limit is
exceeded, a number has no budget, or --accept refused a number that is too large, 4
if nothing is worse and a number is better than its budget, 5 if no budget is
exceeded and a test could not be built or measured (it crashed, hung, did nothing),
128+N if signal N stopped the tests.";

/// Runs the tests, prints the report and returns the exit status.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if arguments.init {
        return init::run(&arguments.config, &arguments.tests);
    }
    let mut configuration = match arguments.cargo.configuration(&arguments.config)? {
        Some(configuration) => configuration,
        None => Configuration::read(&arguments.config).status(BAD_INPUT)?,
    };
    for test in &mut configuration.tests {
        let protocol = &mut test.protocol;
        arguments.glue.add_to(&mut protocol.glue)?;
        arguments.suppressions.add_to(&mut protocol.suppressions)?;
    }
    if arguments.list {
        return list(&configuration);
    }
    if arguments.prune {
        return prune(&configuration);
    }
    if let Some([old, new]) = arguments.rename.as_deref() {
        return rename::run(&configuration, old, new);
    }
    if let Some(test) = &arguments.history {
        return history::run(arguments, &configuration, test);
    }
    arguments.check_files(&configuration)?;
    let log = arguments.from_log.as_deref().map(NioLog::read).transpose();
    let log = log.status(BAD_INPUT)?;
    let stop = Stop::on_signals().status(FAILED)?;
    let outcome = measure_and_print(arguments, &configuration, log.as_ref(), &stop);
    match stop.failure() {
        Some(stopped) => Err(stopped),
        None => outcome,
    }
}

fn measure_and_print(
    arguments: &Arguments,
    configuration: &Configuration,
    log: Option<&NioLog>,
    stop: &Stop,
) -> Result<u8, Failure> {
    let session = Session {
        configuration,
        recorder: if arguments.no_record {
            None
        } else {
            Some(recorder().status(FAILED)?)
        },
        log,
        platform: arguments.platform.clone(),
        runs: arguments.runs,
        stacks: arguments.stacks,
        replace_unreadable: arguments.accept,
        scratch: arguments.scratch.clone(),
        patterns: &arguments.tests,
        stop: stop.requested(),
    };
    let tests = session.choose().map_err(failure)?;
    if !arguments.no_build {
        let progress = Progress::new(false);
        progress
            .during("building", || session.build())
            .map_err(failure)?;
    }
    let report = measure(&session, &tests)?;
    if stop.failure().is_none() {
        cargo_tests::check_windows(&report)?;
    }
    let options = TextOptions {
        style: style(arguments.color),
        samples: arguments.samples,
        stacks: arguments.stacks,
        top: if arguments.stacks {
            usize::MAX
        } else {
            arguments.top.try_into().unwrap_or(usize::MAX)
        },
    };
    for (format, file) in &arguments.write {
        // The verdict is known; that a file cannot be written does not change it.
        if let Err(error) = arguments.write_file(*format, file, &report, configuration) {
            message::print(format_args!("{error:#}"));
        }
    }
    if stop.failure().is_some() {
        return Ok(FAILED);
    }
    if arguments.accept {
        return accept::run(arguments, &session, &report);
    }
    let write =
        |out: &mut dyn Write| outputs::write(arguments.format.into(), &report, &options, out);
    match arguments.format {
        Format::Text => standard_output::print_text(write)?,
        _ => standard_output::print(write)?,
    }
    Ok(match report.outcome() {
        Outcome::Passed => FINE,
        Outcome::Improved => IMPROVEMENT,
        Outcome::Failed if report.exceeds() => REGRESSION,
        Outcome::Failed if report.has_unreadable_budget() => BAD_INPUT,
        Outcome::Failed => NOT_MEASURED,
    })
}

/// The command that records the tests: this executable.
pub fn recorder() -> anyhow::Result<Recorder> {
    let this = std::env::current_exe().context("cannot find the command itself")?;
    Ok(Recorder {
        command: vec![this.into(), "record".into(), "--quiet".into()],
        counts_only: "--counts-only".into(),
        left_behind: ["--left-behind".into(), "--left-behind-list".into()],
    })
}

/// Shows the progress of the tests on a bar.
pub struct Steps<'a> {
    progress: &'a Progress,
    /// The number of tests, if known.
    all: Option<u64>,
    /// The number of tests begun so far.
    begun: u64,
    /// The test begun last.
    last: String,
}

impl<'a> Steps<'a> {
    /// A bar for `all` tests; if their number is unknown, for one test at a time.
    pub fn new(progress: &'a Progress, all: Option<u64>) -> Self {
        let last = String::new();
        Self {
            progress,
            all,
            begun: 0,
            last,
        }
    }

    /// Shows that the program of a test is about to be started, the `start`th time of
    /// `starts`.
    pub fn show(&mut self, test: &str, start: u32, starts: u32) {
        if self.last != test {
            test.clone_into(&mut self.last);
            self.begun += 1;
        }
        // Thousandths of a test are fine enough for a bar.
        let part = u64::from(start - 1) * 1000 / u64::from(starts.max(1));
        let (before, all) = self.all.map_or((0, 1), |all| (self.begun - 1, all));
        self.progress
            .show("running tests", before * 1000 + part, all * 1000);
    }
}

/// Runs the tests and shows their progress if stderr is a terminal.
fn measure(session: &Session<'_>, tests: &[&Test]) -> Result<Report, Failure> {
    let progress = Progress::new(false);
    let mut steps = Steps::new(&progress, Some(tests.len() as u64));
    let report = session.run(tests, &mut |test, start, starts| {
        steps.show(test, start, starts)
    });
    progress.finish();
    report.map_err(failure)
}

/// The failure of this command for an error of a session.
pub fn failure(error: SessionError) -> Failure {
    let status = match &error {
        SessionError::Io { .. } => FAILED,
        // The program under test is broken, not allotrope.
        SessionError::Build { .. } => NOT_MEASURED,
        _ => BAD_INPUT,
    };
    Failure::new(status, error)
}

fn list(configuration: &Configuration) -> Result<u8, Failure> {
    standard_output::print_log(|out| {
        let rows = configuration.tests.iter().map(|test| {
            let command = allotrope_budget::shell::command_line(&test.command);
            [test.name.clone(), command]
        });
        let columns = [left("").at_least(24), left("")];
        let table = Table::new(columns).indent(0).rows(rows);
        write_lines(out, table.lines(Style::plain(usize::MAX)))
    })?;
    Ok(FINE)
}

/// Whether a file is the summary of a job of GitHub's workflows. It is appended to: other
/// commands of the step may have written there
/// (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>).
fn is_summary(file: &Path) -> bool {
    std::env::var_os("GITHUB_STEP_SUMMARY").is_some_and(|it| Path::new(&it) == file)
}

impl Arguments {
    /// Refuses files to write that are not to be replaced.
    fn check_files(&self, configuration: &Configuration) -> Result<(), Failure> {
        for (format, file) in self.write.iter().filter(|(_, file)| !is_summary(file)) {
            self.target(*format, file, configuration)
                .status(BAD_INPUT)?;
        }
        Ok(())
    }

    /// Where a format is written: not through a link of the repository, which may be from
    /// elsewhere.
    fn target(
        &self,
        format: Format,
        file: &Path,
        configuration: &Configuration,
    ) -> anyhow::Result<Target> {
        refuse_links(configuration.repository().root(), file)
            .with_context(|| format!("cannot write {}", file.shown()))?;
        replacing::target(file, format.kind(), self.force.force, replacing::REMEDY)
    }

    /// Writes a format to a file.
    fn write_file(
        &self,
        format: Format,
        file: &Path,
        report: &Report,
        configuration: &Configuration,
    ) -> anyhow::Result<()> {
        let cannot = || format!("cannot write {}", file.shown());
        let mut bytes = Vec::new();
        outputs::write(format.into(), report, &TextOptions::default(), &mut bytes)
            .with_context(cannot)?;
        if is_summary(file) {
            // In a container, the runner's user has made it, and this is root.
            let file = append(file, Whose::Anybodys);
            return file
                .and_then(|mut file| file.write_all(&bytes))
                .with_context(cannot);
        }
        let output = Output::at(self.target(format, file, configuration)?);
        output
            .and_then(|mut output| {
                output.write_all(&bytes)?;
                output.finish()
            })
            .with_context(cannot)
    }
}

/// Removes the files of the budget folder that belong to no test.
fn prune(configuration: &Configuration) -> Result<u8, Failure> {
    let tests = configuration.tests_of_folder().status(BAD_INPUT)?;
    let pruned = configuration.budgets().prune(&tests);
    let pruned = pruned.map_err(accept::failure)?;
    standard_output::print_log(|out| {
        for file in &pruned.removed {
            writeln!(out, "removed {}", file.shown())?;
        }
        for (file, why) in &pruned.left {
            writeln!(out, "left {}: {}", file.shown(), why.shown())?;
        }
        if pruned.removed.is_empty() {
            writeln!(out, "every budget has a test")?;
        }
        Ok(())
    })?;
    Ok(FINE)
}
