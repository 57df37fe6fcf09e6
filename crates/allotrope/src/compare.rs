//! `allotrope compare`: builds two revisions of a repository, runs the tests of
//! both and names the stacks that make the difference. Everything about it is
//! `allotrope-budget`'s; here arguments become its options and its result is
//! printed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use allotrope_budget::comparison::{self, Comparer, Comparison, ComparisonError, Side};
use allotrope_budget::configuration::FILE_NAME;
use allotrope_budget::outputs::comparison::{ComparisonOptions, write_json, write_text};
use allotrope_budget::revisions::{Repository, RevisionError};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, REGRESSION, WithStatus};
use crate::progress::Progress;
use crate::report::{self, Color};
use crate::standard_output;
use crate::test::{self, SIGINT, Steps};

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Revisions are built in worktrees of their own in the user's cache, which are kept,
so that the next comparison builds little; the working tree is not touched. `.` is
the working tree with all that is not committed: `allotrope compare main .`

To find the commit that made a test allocate more than a good one does:
  git bisect start BAD GOOD
  git bisect run allotrope compare --bisect GOOD HEAD TEST

Exit status: 0 if no number is worse, 1 if allotrope failed, 2 if a revision or
configuration can not be used, 3 if a number is worse or a revision can not be
built or tested. With --bisect: 0 good, 1 bad, 125 if AFTER can not be built or
tested, 128 if anything else is wrong.";

/// `git bisect run`: this revision is bad.
const BISECT_BAD: u8 = 1;
/// `git bisect run`: this revision can not be judged.
const BISECT_SKIP: u8 = 125;
/// `git bisect run`: end it.
const BISECT_ABORT: u8 = 128;

/// Arguments of `allotrope compare`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The revision before, `main`
    #[arg(value_name = "BEFORE", required_unless_present = "forget")]
    before: Option<String>,
    /// The revision after, `HEAD`, or `.` for the working tree
    #[arg(value_name = "AFTER", required_unless_present = "forget")]
    after: Option<String>,
    /// Only tests of these names; `*` stands for anything
    #[arg(value_name = "TEST")]
    tests: Vec<String>,
    /// The configuration; a revision that has this file uses its own
    #[arg(long, value_name = "FILE", default_value = FILE_NAME)]
    config: PathBuf,
    /// Measured runs of each test, in place of the configuration's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// Text for people, or JSON (the format allotrope-compare/1) for programs
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Show at most N entries of a number
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// Show whole stacks, with the frames of allocators and standard libraries
    #[arg(long)]
    all_frames: bool,
    /// End with the status that `git bisect run` understands
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

/// Compares, prints, judges.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let outcome = compare(arguments);
    if !arguments.bisect {
        return outcome.map(|worse| if worse { REGRESSION } else { FINE });
    }
    match outcome {
        Ok(worse) => Ok(if worse { BISECT_BAD } else { FINE }),
        // Whatever else it was, it says nothing of this revision.
        Err(Failure { status, error }) if status != BISECT_SKIP => {
            Err(Failure::new(BISECT_ABORT, error))
        }
        skip => skip.map(u8::from),
    }
}

/// Whether a number is worse.
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
    let after = measure(&comparer, after, &stop).map_err(|error| match failure(error) {
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
    let comparison = comparison::compare(&before, &after);
    print(arguments, &comparison, [&before, &after])?;
    check_case(arguments, &comparison)
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
    standard_output::print(|out| match arguments.format {
        Format::Text => write_text(comparison, sides, &options, out),
        Format::Json => write_json(comparison, sides, out),
    })
}

fn check_case(arguments: &Arguments, comparison: &Comparison) -> Result<bool, Failure> {
    let broken =
        |word: &str| anyhow!("a test could not be measured {word}; nothing can be said of it");
    if comparison.is_broken(1) && arguments.bisect {
        return Err(Failure::new(BISECT_SKIP, broken("after")));
    }
    for (side, word) in ["before", "after"].into_iter().enumerate() {
        if comparison.is_broken(side) {
            return Err(Failure::new(REGRESSION, broken(word)));
        }
    }
    if comparison.is_empty() {
        let sentence = anyhow!("there is no test that both revisions have");
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
