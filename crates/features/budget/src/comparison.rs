//! Compares the tests of two revisions: the figures of each case before and
//! after, and the stacks that differ. Budgets are not used. Revisions are
//! checked out by `revisions`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use allotrope_text::Shown;

use allotrope_diff::{Diff, DiffOptions};
use allotrope_profile::StackSet;
use rustc_hash::FxHashSet;
use thiserror::Error;

use crate::budgets::Budget;
use crate::case::Case;
use crate::check::{Check, CheckStatus, check_case};
use crate::configuration::{Configuration, ConfigurationError, Protocol, Test};
use crate::explanation::{Rest, options, without_stacks};
use crate::measure::{Measured, Measurer, Recorder};
use crate::own_files::own_files;
use crate::problem::Problem;
use crate::revisions::{Repository, RevisionError, Worktree};
use crate::session::Session;
use crate::session_error::SessionError;
use crate::shell::command_line;
use crate::toolchain::Suspect;
use allotrope_profile::Metric;

/// Why revisions cannot be compared.
#[derive(Debug, Error)]
pub enum ComparisonError {
    /// A revision cannot be checked out.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// The revision's configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The revision's tests cannot be built or run.
    #[error("{revision}: {source}")]
    Session {
        /// The revision as the user gave it.
        revision: String,
        /// The cause.
        source: SessionError,
    },
    /// The configuration is outside of the repository.
    #[error("{} is not in the repository {}", file.shown(), root.shown())]
    Outside {
        /// The configuration.
        file: PathBuf,
        /// The repository.
        root: PathBuf,
    },
}

/// Measures revisions and compares them.
#[derive(Debug)]
pub struct Comparer<'a> {
    /// The repository.
    pub repository: &'a Repository,
    /// The configuration file; a revision that contains it uses its own
    /// version.
    pub config: &'a Path,
    /// Selects tests by name.
    pub patterns: &'a [String],
    /// Overrides the configured number of runs of each test.
    pub runs: Option<u32>,
    /// The command that records programs.
    pub recorder: Recorder,
    /// Set by the user's request to stop early.
    pub stop: &'a AtomicBool,
}

/// The measured tests of a revision.
#[derive(Debug)]
pub struct Side {
    /// The revision as the user gave it.
    pub name: String,
    /// Commit of the revision.
    pub commit: String,
    /// Folder of the checked-out revision.
    pub folder: PathBuf,
    /// Why it could not be built. It has no tests then.
    pub build_failure: Option<BuildFailure>,
    tests: Vec<(Test, Protocol, Measured)>,
    /// The source files of its stacks that are in the repository.
    own_files: FxHashSet<String>,
}

/// Why a revision could not be built.
#[derive(Debug)]
pub struct BuildFailure {
    /// How the build command ended.
    pub problem: Problem,
    /// The end of its output.
    pub output: String,
    /// A file or folder beside the repository that the build needs and that is not beside
    /// the worktree.
    pub missing: Option<PathBuf>,
}

impl Side {
    /// The protocol of each test: it has the frames that are not the user's own and the
    /// suppressions. Those after the change count.
    pub fn protocols_mut(&mut self) -> impl Iterator<Item = &mut Protocol> {
        self.tests.iter_mut().map(|(_, protocol, _)| protocol)
    }
}

/// The comparison of two revisions.
#[derive(Debug)]
pub struct Comparison {
    /// The tests of either revision.
    pub tests: Vec<ComparedTest>,
}

/// A test of both revisions.
#[derive(Debug, Default)]
pub struct ComparedTest {
    /// The name.
    pub name: String,
    /// Whether each revision has it.
    pub exists: [bool; 2],
    /// The problem of each revision's measurement.
    pub problems: [Option<Problem>; 2],
    /// The differences of the toolchain.
    pub suspects: Vec<Suspect>,
    /// The program, if both revisions ran the same file.
    pub same_program: Option<PathBuf>,
    /// Cases of the test.
    pub cases: Vec<ComparedCase>,
}

/// A case of both revisions.
#[derive(Debug)]
pub struct ComparedCase {
    /// The name.
    pub name: String,
    /// Whether each revision has it.
    pub exists: [bool; 2],
    /// Iterations in a run of the revision after, if known.
    pub iterations: Option<u64>,
    /// The result for each checked metric; the budget is the number before.
    pub checks: Vec<Check>,
    /// The differing stacks, for the metrics that differ.
    pub diffs: Vec<(Metric, Diff)>,
    /// Sentences about the parts of differences that no stack has.
    pub remarks: Vec<(Metric, String)>,
}

/// What is about to be done for a revision.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// The build command of the revision is run.
    Build,
    /// The program of a test is started, the `start`th time of at most `starts`.
    Run {
        /// The name of the test.
        test: &'a str,
        /// Number of the start, from 1.
        start: u32,
        /// The largest number of starts.
        starts: u32,
    },
}

impl Comparer<'_> {
    /// Builds a revision and measures its tests. `on_step` is called before the build and
    /// before each run of a program.
    ///
    /// # Errors
    /// The revision cannot be checked out, configured or run. A build that fails and the
    /// problems of a test are part of the result.
    pub fn measure(
        &self,
        revision: &str,
        on_step: &mut dyn FnMut(Step<'_>),
    ) -> Result<Side, ComparisonError> {
        let worktree = self.repository.worktree(revision)?;
        let configuration = self.configuration(&worktree)?;
        let failed = |source| ComparisonError::Session {
            revision: revision.to_owned(),
            source,
        };
        let session = Session {
            configuration: &configuration,
            recorder: Some(self.recorder.clone()),
            log: None,
            platform: None,
            runs: self.runs,
            stacks: true,
            replace_unreadable: false,
            scratch: None,
            patterns: self.patterns,
            stop: self.stop,
        };
        let mut side = Side {
            name: worktree.name.clone(),
            commit: worktree.commit.clone(),
            folder: worktree.folder.clone(),
            build_failure: None,
            tests: Vec::new(),
            own_files: FxHashSet::default(),
        };
        if configuration.build.is_some() {
            on_step(Step::Build);
        }
        match session.build() {
            Err(SessionError::Build { problem, output }) => {
                side.build_failure = Some(BuildFailure {
                    missing: self.repository.sibling_in(&output),
                    problem,
                    output,
                });
                return Ok(side);
            }
            built => built.map_err(failed)?,
        }
        let scratch = tempfile::tempdir().map_err(|source| {
            failed(SessionError::Io {
                what: "cannot create a temporary folder".to_owned(),
                source,
            })
        })?;
        let project = configuration.project();
        let measurer = Measurer {
            configuration: &configuration,
            project: &project,
            recorder: session.recorder.as_ref(),
            scratch: scratch.path(),
            stop: self.stop,
        };
        for test in self.choose(&session).map_err(failed)? {
            let mut protocol = test.protocol_on(&session.platform());
            protocol.runs = self.runs.unwrap_or(protocol.runs);
            // The comparison needs stacks.
            protocol.counts_only = false;
            protocol.remove_limits();
            let mut on_start = |start, starts| {
                let test = &test.name;
                on_step(Step::Run {
                    test,
                    start,
                    starts,
                });
            };
            let measured = measurer.measure(test, &protocol, &mut on_start);
            side.tests.push((test.clone(), protocol, measured));
        }
        let files = side.tests.iter().flat_map(|(.., test)| test.files());
        side.own_files = own_files(project.root(), files, std::iter::empty());
        Ok(side)
    }

    /// The selected tests of a revision; a pattern need not match a test of every
    /// revision.
    fn choose<'s>(&self, session: &'s Session<'_>) -> Result<Vec<&'s Test>, SessionError> {
        match session.choose() {
            Err(SessionError::NoSuchTest { .. }) => Ok(Vec::new()),
            chosen => chosen,
        }
    }

    /// The configuration of a worktree: its own file, or the given one if it has none.
    fn configuration(&self, worktree: &Worktree) -> Result<Configuration, ComparisonError> {
        let here = self.config.canonicalize().map_err(|error| {
            let file = self.config.to_owned();
            ConfigurationError::Unreadable { file, error }
        })?;
        let root = self.repository.root();
        let inside = here
            .strip_prefix(root)
            .map_err(|_| ComparisonError::Outside {
                file: here.clone(),
                root: root.to_owned(),
            })?;
        let there = worktree.folder.join(inside);
        if there.exists() {
            return Ok(Configuration::read(&there)?);
        }
        let text = Configuration::text_of(&here)?;
        Ok(Configuration::parse(&text, &there)?)
    }
}

/// Compares two measured revisions.
pub fn compare(before: &Side, after: &Side) -> Comparison {
    let mut names: Vec<&str> = Vec::new();
    for (test, ..) in after.tests.iter().chain(&before.tests) {
        if !names.contains(&test.name.as_str()) {
            names.push(&test.name);
        }
    }
    let own_files = before.own_files.union(&after.own_files);
    let own_files: FxHashSet<String> = own_files.cloned().collect();
    let tests = names.into_iter().map(|name| {
        let of = |side: &'_ Side| side.tests.iter().position(|(test, ..)| test.name == name);
        let (before, after) = (
            of(before).map(|index| &before.tests[index]),
            of(after).map(|index| &after.tests[index]),
        );
        compared_test(name, before, after, &own_files)
    });
    Comparison {
        tests: tests.collect(),
    }
}

type OfSide<'a> = Option<&'a (Test, Protocol, Measured)>;

fn compared_test(
    name: &str,
    before: OfSide<'_>,
    after: OfSide<'_>,
    own_files: &FxHashSet<String>,
) -> ComparedTest {
    let sides = [before, after];
    let mut compared = ComparedTest {
        name: name.to_owned(),
        exists: sides.map(|side| side.is_some()),
        problems: sides.map(|side| side.and_then(|(.., measured)| measured.problem.clone())),
        ..ComparedTest::default()
    };
    let (Some((test_before, _, before)), Some((test_after, protocol, after))) = (before, after)
    else {
        return compared;
    };
    compared.same_program =
        program_file(test_before).filter(|file| program_file(test_after).as_ref() == Some(file));
    if let (Some(was), Some(is)) = (&before.toolchain, &after.toolchain) {
        compared.suspects = is.suspects(was);
    }
    let mut protocol = protocol.clone();
    protocol.glue = protocol.glue.within(own_files.clone());
    let program = command_line(&test_after.command);
    let mut names: Vec<&str> = Vec::new();
    for case in after.cases.iter().chain(&before.cases) {
        if !names.contains(&case.name.as_str()) {
            names.push(&case.name);
        }
    }
    let test_name = compared.name.clone();
    let test_name = test_name.as_str();
    let cases = names.into_iter().map(|name| {
        let of = |measured: &'_ Measured| measured.cases.iter().position(|case| case.name == name);
        let was = of(before).map(|index| &before.cases[index]);
        let is = of(after).map(|index| &after.cases[index]);
        compared_case(name, was, is, &protocol.of_case(test_name, name), &program)
    });
    compared.cases = cases.collect();
    compared
}

/// The file of a test's program, if it is given by its path. A program that is searched
/// for in `PATH` may well run code of the revision.
fn program_file(test: &Test) -> Option<PathBuf> {
    let program = test.command.first().filter(|word| word.contains('/'))?;
    test.folder.join(program).canonicalize().ok()
}

fn compared_case(
    name: &str,
    before: Option<&Case>,
    after: Option<&Case>,
    protocol: &Protocol,
    program: &str,
) -> ComparedCase {
    let mut compared = ComparedCase {
        name: name.to_owned(),
        exists: [before.is_some(), after.is_some()],
        iterations: None,
        checks: Vec::new(),
        diffs: Vec::new(),
        remarks: Vec::new(),
    };
    let (Some(before), Some(after)) = (before, after) else {
        return compared;
    };
    let reported = after.runs.iter().find_map(|run| run.iterations);
    compared.iterations = reported.or(protocol.iterations);
    let gate = protocol.gate.iter();
    let budget = Budget {
        iterations: None,
        numbers: gate
            .filter_map(|&metric| Some((metric, before.spread(metric)?.into())))
            .collect(),
    };
    compared.checks = check_case(after, Some(&budget), protocol);
    for check in compared.checks.iter().filter(|check| check.differs()) {
        let (metric, remark) = (check.metric, &mut compared.remarks);
        let Some(numbers) = check.budget.zip(check.now) else {
            continue;
        };
        if metric.of_stacks().is_none() {
            remark.push((metric, without_stacks(metric, program)));
            let mut open = after.runs.iter().map(|run| &run.leaked_descriptors);
            if let Some(open) = open.rfind(|open| !open.is_empty()) {
                remark.push((metric, format!("{metric}, open after: {}", open.join(", "))));
            }
            continue;
        }
        let diff = diff(before, after, check, compared.iterations, protocol);
        let Some(diff) = diff else {
            continue;
        };
        let rest = Rest::of([numbers.0.typical, numbers.1.typical], &diff);
        let because = match metric {
            Metric::Net if rest.are_deallocations() => rest.deallocations(),
            _ => "the recordings have no stacks of it".to_owned(),
        };
        remark.extend(rest.remark(&because).map(|remark| (metric, remark)));
        compared.diffs.push((metric, diff));
    }
    compared
}

/// Compares the stacks; `None` if a recording has none. Should the comparison fail, only
/// the explanation is missing.
fn diff(
    before: &Case,
    after: &Case,
    check: &Check,
    iterations: Option<u64>,
    protocol: &Protocol,
) -> Option<Diff> {
    let sets = |case: &Case| -> Vec<StackSet> {
        let runs = case.runs.iter();
        runs.map(|run| run.stacks.clone()).collect()
    };
    let options = DiffOptions {
        totals_differ: !check.status.passes(),
        ..options(protocol, check.metric.of_stacks()?, iterations)
    };
    allotrope_diff::compare(&sets(before), &sets(after), &options).ok()
}

impl ComparedCase {
    /// Whether a metric got worse or could not be compared.
    pub fn is_worse(&self) -> bool {
        let mut statuses = self.checks.iter().map(|check| check.status);
        statuses.any(CheckStatus::fails)
    }
}

impl ComparedCase {
    /// Whether a metric differs by more than noise.
    pub fn differs(&self) -> bool {
        self.checks.iter().any(Check::differs)
    }
}

impl ComparedTest {
    /// Whether it could not be measured in one of the revisions.
    pub fn is_broken(&self) -> bool {
        self.problems.iter().any(Option::is_some)
    }
}

impl Comparison {
    /// Whether a metric of any case got worse.
    pub fn is_worse(&self) -> bool {
        let mut cases = self.tests.iter().flat_map(|test| &test.cases);
        cases.any(ComparedCase::is_worse)
    }

    /// Whether the measurement of a test failed before (0) or after (1).
    pub fn is_broken(&self, side: usize) -> bool {
        self.tests.iter().any(|test| test.problems[side].is_some())
    }

    /// Whether the revisions have no case in common.
    pub fn is_empty(&self) -> bool {
        self.tests.iter().all(|test| test.cases.is_empty())
    }
}
