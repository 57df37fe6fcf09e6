//! `allotrope compare`: builds two revisions of a repository, runs the tests of
//! both and shows which stacks make the difference. `allotrope-budget` does the
//! work; this file turns arguments into its options and prints its result.

use std::path::{Path, PathBuf};

use allotrope_budget::comparison::{self, Comparer, Comparison, ComparisonError, Side, Step};
use allotrope_budget::configuration::FILE_NAME;
use allotrope_budget::outputs::comparison::{
    ComparisonOptions, github, markdown, write_json, write_text,
};
use allotrope_budget::revisions::{Repository, RevisionError};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, NOT_MEASURED, REGRESSION, WithStatus};
use crate::glue::GlueArguments;
use crate::progress::Progress;
use crate::standard_output;
use crate::style::{Color, style};
use crate::suppressions::SuppressionArguments;
use crate::test::{self, Steps, Stop};
use crate::values;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Each revision is built in a worktree of its own in the user's cache. The worktrees
stay, so that the next comparison builds little; the working tree is not touched.
`.` is the working tree with its uncommitted changes: `allotrope compare main .`

To find the first commit at which a test allocates more than at the revision GOOD:
  git bisect start BAD GOOD
  git bisect run allotrope compare --bisect GOOD HEAD TEST

Exit status: 0 if no number is worse, 1 if allotrope failed, 2 if a revision, one of
its submodules or its configuration cannot be used, 3 if a number is worse, 5 if a revision cannot be
built or tested, 128+N if signal N stopped it. With --bisect: 0 good, 1 bad, 125 if
AFTER cannot be built or tested or lacks a submodule, 128 or more if anything else is wrong.";

/// `git bisect run`: this revision is bad.
const BISECT_BAD: u8 = 1;
/// `git bisect run`: skip this revision, which cannot be tested.
const BISECT_SKIP: u8 = 125;
/// `git bisect run`: end the bisection.
const BISECT_ABORT: u8 = 128;

/// Arguments of `allotrope compare`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The revision before the change, such as `main`
    #[arg(value_name = "BEFORE", required_unless_present = "forget")]
    before: Option<String>,
    /// The revision after the change, such as `HEAD`, or `.` for the working tree
    #[arg(value_name = "AFTER", required_unless_present = "forget")]
    after: Option<String>,
    /// Run only tests with these names; `*` stands for anything
    #[arg(value_name = "TEST")]
    tests: Vec<String>,
    /// The configuration file
    ///
    /// A revision that contains it uses its own version.
    #[arg(long, value_name = "FILE", default_value = FILE_NAME)]
    config: PathBuf,
    /// Measure N runs of each test
    ///
    /// Whatever the configuration says.
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>(1..=10_000))]
    runs: Option<u32>,
    /// The format to print
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Show at most N entries that explain a number
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = values::whole::<u32>(1..))]
    top: u32,
    #[command(flatten)]
    glue: GlueArguments,
    #[command(flatten)]
    suppressions: SuppressionArguments,
    /// Show whole stacks, with the frames of allocators and standard libraries
    #[arg(long)]
    all_frames: bool,
    /// Exit with the status that `git bisect run` expects
    #[arg(long)]
    bisect: bool,
    /// Remove the worktrees of this repository, with what was built there
    #[arg(long, conflicts_with_all = ["before", "bisect"])]
    forget: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        hide_short_help = true
    )]
    color: Color,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs (allotrope-compare/1)
    Json,
    /// For a comment on a pull request
    Markdown,
    /// The text and annotations for GitHub's workflows
    Github,
}

/// Compares the revisions, prints the result and returns the exit status.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let outcome = compare(arguments);
    if !arguments.bisect {
        return outcome.map(|worse| if worse { REGRESSION } else { FINE });
    }
    match outcome {
        Ok(worse) => Ok(if worse { BISECT_BAD } else { FINE }),
        // Any other failure leaves open whether this revision is good.
        Err(Failure { status, error }) if status != BISECT_SKIP => {
            Err(Failure::new(BISECT_ABORT, error))
        }
        skip => skip.map(u8::from),
    }
}

/// Measures both revisions and prints their comparison; returns whether a number is
/// worse. With `--forget` removes the worktrees instead.
fn compare(arguments: &Arguments) -> Result<bool, Failure> {
    let folder = arguments
        .config
        .parent()
        .filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    let repository = Repository::containing(folder).status(BAD_INPUT)?;
    let (Some(before), Some(after)) = (&arguments.before, &arguments.after) else {
        repository.remove_worktrees().status(FAILED)?;
        return Ok(false);
    };
    let stop = Stop::on_signals().status(FAILED)?;
    let outcome = measure_and_print(arguments, [before, after], &repository, &stop);
    let Some(stopped) = stop.failure() else {
        return outcome;
    };
    // The worktrees are where later comparisons go on; a new one may be incomplete.
    repository.remove_created().status(FAILED)?;
    Err(stopped)
}

fn measure_and_print(
    arguments: &Arguments,
    [before, after]: [&str; 2],
    repository: &Repository,
    stop: &Stop,
) -> Result<bool, Failure> {
    let comparer = Comparer {
        repository,
        config: &arguments.config,
        patterns: &arguments.tests,
        runs: arguments.runs,
        recorder: test::recorder().status(FAILED)?,
        stop: stop.requested(),
    };
    let before = measure(&comparer, before, stop)?;
    let mut after = measure(&comparer, after, stop).map_err(|mut failure| {
        // The next commit may have submodules that are there.
        let error = failure.error.downcast_ref::<ComparisonError>();
        if let Some(ComparisonError::Revision(RevisionError::Submodule { .. })) = error
            && arguments.bisect
        {
            failure.status = BISECT_SKIP;
        }
        failure
    })?;
    for protocol in after.protocols_mut() {
        arguments.glue.add_to(&mut protocol.glue)?;
        arguments.suppressions.add_to(&mut protocol.suppressions)?;
    }
    let comparison = comparison::compare(&before, &after);
    print(arguments, &comparison, [&before, &after])?;
    is_worse(arguments, &comparison, [&before, &after])
}

/// Builds and measures a revision and shows the progress.
fn measure(comparer: &Comparer<'_>, revision: &str, stop: &Stop) -> Result<Side, Failure> {
    let progress = Progress::new(false);
    let mut steps = Steps::new(&progress, None);
    let side = comparer.measure(revision, &mut |step| match step {
        _ if stop.failure().is_some() => {}
        Step::Build => progress.spin(format!("building {revision}")),
        Step::Run {
            test,
            start,
            starts,
        } => steps.show(test, start, starts),
    });
    progress.finish();
    stop.failure().map_or(side.map_err(failure), Err)
}

fn print(arguments: &Arguments, comparison: &Comparison, sides: [&Side; 2]) -> Result<(), Failure> {
    let options = ComparisonOptions {
        style: style(arguments.color),
        top: arguments.top.try_into().unwrap_or(usize::MAX),
        all_frames: arguments.all_frames,
    };
    match arguments.format {
        Format::Text => {
            standard_output::print_text(|out| write_text(comparison, sides, &options, out))
        }
        Format::Json => standard_output::print(|out| write_json(comparison, sides, out)),
        Format::Markdown => {
            standard_output::print(|out| markdown::write(comparison, sides, &options, out))
        }
        Format::Github => {
            standard_output::print_commands(|out| github::write(comparison, sides, &options, out))
        }
    }
}

/// Whether a number is worse; fails if a test could not be measured or if there was
/// nothing to compare.
fn is_worse(
    arguments: &Arguments,
    comparison: &Comparison,
    sides: [&Side; 2],
) -> Result<bool, Failure> {
    // With --bisect the revision after is to be skipped, whatever is wrong before.
    for side in [1, 0] {
        let (name, word) = (&sides[side].name, ["before", "after"][side]);
        let error = match &sides[side].build_failure {
            Some(failure) => anyhow!("{name}: the build failed: {}", failure.problem),
            None if comparison.is_broken(side) => {
                anyhow!("a test could not be measured {word}; the list above has the reason")
            }
            None => continue,
        };
        let skip = arguments.bisect && side == 1;
        let status = if skip { BISECT_SKIP } else { NOT_MEASURED };
        return Err(Failure::new(status, error));
    }
    if comparison.is_empty() {
        let sentence = anyhow!("there is no test that both revisions have; nothing was compared");
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    Ok(comparison.is_worse())
}

fn failure(error: ComparisonError) -> Failure {
    match error {
        ComparisonError::Session { revision, source } => {
            let inner = test::failure(source);
            Failure::new(inner.status, inner.error.context(revision))
        }
        ComparisonError::Revision(RevisionError::Io { .. }) => Failure::new(FAILED, error),
        error => Failure::new(BAD_INPUT, error),
    }
}
