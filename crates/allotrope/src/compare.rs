//! `allotrope compare`: builds two revisions of a repository, runs the tests of
//! both and shows which stacks make the difference. `allotrope-budget` does the
//! work; this file turns arguments into its options and prints its result.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use allotrope_budget::comparison::{self, Comparer, Comparison, ComparisonError, Side};
use allotrope_budget::configuration::FILE_NAME;
use allotrope_budget::outputs::comparison::{ComparisonOptions, write_json, write_text};
use allotrope_budget::revisions::{Repository, RevisionError};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, REGRESSION, WithStatus};
use crate::glue::GlueArguments;
use crate::progress::Progress;
use crate::report::{self, Color};
use crate::standard_output;
use crate::test::{self, SIGINT, Steps};

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Each revision is built in a worktree of its own in the user's cache. The worktrees
stay, so that the next comparison builds little; the working tree is not touched.
`.` is the working tree with its uncommitted changes: `allotrope compare main .`

To find the first commit at which a test allocates more than at the revision GOOD:
  git bisect start BAD GOOD
  git bisect run allotrope compare --bisect GOOD HEAD TEST

Exit status: 0 if no number is worse, 1 if allotrope failed, 2 if a revision or
configuration cannot be used, 3 if a number is worse or a revision cannot be
built or tested. With --bisect: 0 good, 1 bad, 125 if AFTER cannot be built or
tested, 128 if anything else is wrong.";

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
    /// The configuration file; a revision that contains it uses its own version
    #[arg(long, value_name = "FILE", default_value = FILE_NAME)]
    config: PathBuf,
    /// Measure N runs of each test, whatever the configuration says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// Text for people, or JSON (the format allotrope-compare/1) for programs
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Show at most N entries that explain a number
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    #[command(flatten)]
    glue: GlueArguments,
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
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
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
    let stop = test::stop_on_signals().status(FAILED)?;
    let comparer = Comparer {
        repository: &repository,
        config: &arguments.config,
        patterns: &arguments.tests,
        runs: arguments.runs,
        recorder: test::recorder().status(FAILED)?,
        stop: &stop,
    };
    let before = measure(&comparer, before, &stop).map_err(failure)?;
    let mut after = measure(&comparer, after, &stop).map_err(|error| match failure(error) {
        Failure { status, error } if arguments.bisect && status == REGRESSION => {
            Failure::new(BISECT_SKIP, error)
        }
        failure => failure,
    })?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::new(
            128 + SIGINT,
            anyhow!("stopped; nothing was compared"),
        ));
    }
    for glue in after.glue_mut() {
        *glue = arguments.glue.added_to(std::mem::take(glue))?;
    }
    let comparison = comparison::compare(&before, &after);
    print(arguments, &comparison, [&before, &after])?;
    is_worse(arguments, &comparison)
}

fn measure(
    comparer: &Comparer<'_>,
    revision: &str,
    stop: &AtomicBool,
) -> Result<Side, ComparisonError> {
    let progress = Progress::new(false);
    let mut steps = Steps::new(&progress, None);
    let side = comparer.measure(revision, &mut |test, start, starts| {
        if !stop.load(Ordering::Relaxed) {
            steps.show(test, start, starts);
        }
    });
    progress.finish();
    side
}

fn print(arguments: &Arguments, comparison: &Comparison, sides: [&Side; 2]) -> Result<(), Failure> {
    let options = ComparisonOptions {
        style: report::style(arguments.color),
        top: arguments.top.try_into().unwrap_or(usize::MAX),
        all_frames: arguments.all_frames,
    };
    match arguments.format {
        Format::Text => {
            standard_output::print_text(|out| write_text(comparison, sides, &options, out))
        }
        Format::Json => standard_output::print(|out| write_json(comparison, sides, out)),
    }
}

/// Whether a number is worse; fails if a test could not be measured or if there was
/// nothing to compare.
fn is_worse(arguments: &Arguments, comparison: &Comparison) -> Result<bool, Failure> {
    let broken =
        |word: &str| anyhow!("a test could not be measured {word}; the list above has the reason");
    if comparison.is_broken(1) && arguments.bisect {
        return Err(Failure::new(BISECT_SKIP, broken("after")));
    }
    for (side, word) in ["before", "after"].into_iter().enumerate() {
        if comparison.is_broken(side) {
            return Err(Failure::new(REGRESSION, broken(word)));
        }
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
