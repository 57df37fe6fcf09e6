//! A session of `allotrope test`: selects the tests, runs the build command, runs the
//! tests one after the other and collects their results.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::budgets::renames;
use crate::configuration::{Configuration, Test};
use crate::measure::{Measurer, Recorder};
use crate::nio_log::NioLog;
use crate::problem::Problem;
use crate::program::{Ending, Program, input};
use crate::result::{Report, TestResult};
use crate::scratch::Scratch;
use crate::session_error::SessionError;
use crate::shell::command_line;
use crate::test_runner::{BudgetSource, TestRunner};
use crate::toolchain::platform;

/// Whether a name is a pattern or matches it. Names of windows may have characters that
/// are special in patterns.
fn matches(pattern: &str, name: &str) -> bool {
    pattern == name || glob::Pattern::new(pattern).is_ok_and(|glob| glob.matches(name))
}

/// The name that is most similar to a pattern, if one is.
fn nearest<'a>(pattern: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let likeness = |name: &&str| strsim::jaro_winkler(pattern, name);
    let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    nearest
        .filter(|name| likeness(name) >= 0.75)
        .map(str::to_owned)
}

/// Runs tests of a configuration.
#[derive(Debug)]
pub struct Session<'a> {
    /// The configuration.
    pub configuration: &'a Configuration,
    /// Records the programs; `None` runs them unrecorded.
    pub recorder: Option<Recorder>,
    /// Budgets from another tool's log instead of the project's.
    pub log: Option<&'a NioLog>,
    /// Overrides the configured platform name.
    pub platform: Option<String>,
    /// Overrides the configured number of runs of each test.
    pub runs: Option<u32>,
    /// Records stacks even if the configuration has `counts-only`.
    pub stacks: bool,
    /// Runs a test whose budget cannot be read as one without a budget.
    pub replace_unreadable: bool,
    /// The folder for recordings, which are kept. By default only those of failed tests
    /// are, of the last sessions.
    pub scratch: Option<PathBuf>,
    /// The names of tests and cases that were given; see [`Session::choose`].
    pub patterns: &'a [String],
    /// Set by the user's request to stop early.
    pub stop: &'a AtomicBool,
}

impl Session<'_> {
    /// The tests that match any of the patterns; all if there is no pattern. A pattern
    /// `TEST/WINDOW` matches the test whose case it is, the path of a source file the test
    /// of its name, as with SwiftNIO's scripts.
    ///
    /// # Errors
    /// A pattern that matches no test.
    pub fn choose(&self) -> Result<Vec<&Test>, SessionError> {
        let patterns = self.patterns;
        let tests = &self.configuration.tests;
        let mut chosen = BTreeSet::new();
        for pattern in patterns {
            let pattern = self.test_of_source(pattern).unwrap_or(pattern);
            // A pattern for a case selects its test.
            let name = pattern.split_once('/').map_or(pattern, |(test, _)| test);
            let glob = glob::Pattern::new(name).map_err(|error| SessionError::Pattern {
                pattern: pattern.to_owned(),
                why: error.msg.to_owned(),
            })?;
            let matching = tests.iter().enumerate();
            let matching = matching.filter(|(_, test)| glob.matches(&test.name));
            let before = chosen.len();
            let mut any = false;
            for (index, _) in matching {
                any = true;
                chosen.insert(index);
            }
            if !any && chosen.len() == before {
                return Err(self.no_such_test(pattern));
            }
        }
        let all = patterns.is_empty();
        let tests = tests.iter().enumerate();
        Ok(tests
            .filter(|(index, _)| all || chosen.contains(index))
            .map(|(_, test)| test)
            .collect())
    }

    /// Leaves only the selected cases in a result, if cases were selected.
    fn select_cases(&self, result: &mut TestResult) -> Result<(), SessionError> {
        let mut of_cases: Vec<&str> = Vec::new();
        for pattern in self.patterns {
            let pattern = self.test_of_source(pattern).unwrap_or(pattern);
            let test = pattern.split_once('/').map(|(test, _)| test);
            if matches(test.unwrap_or(pattern), &result.name) {
                match test {
                    Some(_) => of_cases.push(pattern),
                    // The whole test.
                    None => return Ok(()),
                }
            }
        }
        if of_cases.is_empty() || result.problem.is_some() || !result.is_recorded {
            return Ok(());
        }
        let names = result.cases.iter().map(|case| &case.name);
        let names: Vec<String> = names.chain(&result.not_measured).cloned().collect();
        for pattern in &of_cases {
            if !names.iter().any(|name| matches(pattern, name)) {
                let nearest = nearest(pattern, names.iter().map(String::as_str));
                return Err(SessionError::NoSuchCase {
                    test: result.name.clone(),
                    pattern: (*pattern).to_owned(),
                    names: nearest.map_or_else(
                        || format!("; it has {}", names.join(", ")),
                        |name| format!("; did you mean `{name}`?"),
                    ),
                });
            }
        }
        let is_selected = |name: &str| of_cases.iter().any(|pattern| matches(pattern, name));
        result.has_selected_cases = names.iter().any(|name| !is_selected(name));
        result.cases.retain(|case| is_selected(&case.name));
        result.not_measured.retain(|case| is_selected(case));
        Ok(())
    }

    /// The test whose name is that of a source file, `test_x` for `dir/test_x.swift`, unless a
    /// test has the whole name.
    fn test_of_source<'p>(&self, pattern: &'p str) -> Option<&'p str> {
        let tests = &self.configuration.tests;
        let path = Path::new(pattern);
        let extension = path.extension()?.to_str()?;
        let stem = path.file_stem()?.to_str()?;
        let is_test = |name: &str| tests.iter().any(|test| test.name == name);
        let is_source = extension.bytes().all(|it| it.is_ascii_alphanumeric());
        (is_source && is_test(stem) && !is_test(pattern)).then_some(stem)
    }

    fn no_such_test(&self, pattern: &str) -> SessionError {
        let names = self.configuration.tests.iter();
        SessionError::NoSuchTest {
            file: self.configuration.file.clone(),
            pattern: pattern.to_owned(),
            nearest: nearest(pattern, names.map(|test| test.name.as_str())),
            command: command_line(&self.configuration.command(Path::new("/"))),
        }
    }

    /// The platform whose budgets apply.
    pub fn platform(&self) -> String {
        platform(
            self.platform
                .as_deref()
                .unwrap_or(&self.configuration.platform),
        )
    }

    /// Runs the build command.
    ///
    /// # Errors
    /// A build that cannot be started or fails.
    pub fn build(&self) -> Result<(), SessionError> {
        let Some(words) = &self.configuration.build else {
            return Ok(());
        };
        let program = Program {
            words: words.iter().map(OsString::from).collect(),
            environment: Vec::new(),
            folder: self.configuration.folder.clone(),
            stdin: None,
            timeout: self.configuration.build_timeout,
        };
        let ended = program.run(self.stop).map_err(|source| SessionError::Io {
            what: format!("the build command {:?} could not be started", words[0]),
            source,
        })?;
        let problem = match ended.ending {
            Ending::Status(0) => return Ok(()),
            Ending::Status(status) => Problem::Status(status),
            Ending::Signal(signal) => Problem::Signal(signal),
            Ending::TimedOut => Problem::TimedOut(program.timeout),
            Ending::Stopped => Problem::Stopped,
        };
        Err(SessionError::Build {
            problem,
            output: ended.output,
        })
    }

    /// Runs tests one after the other. `on_run` is called before each run of a
    /// program with the test, the number of the run and the largest number of
    /// runs.
    ///
    /// # Errors
    /// Folders or inputs that cannot be used. Problems of a test, a budget that cannot be read
    /// among them, are part of the report.
    pub fn run(
        &self,
        tests: &[&Test],
        on_run: &mut dyn FnMut(&str, u32, u32),
    ) -> Result<Report, SessionError> {
        for test in tests {
            if let Some(Err(source)) = test.stdin.as_deref().map(input) {
                return Err(SessionError::Input {
                    file: self.configuration.file.clone(),
                    test: test.name.clone(),
                    source,
                });
            }
        }
        let project = self.configuration.project();
        let budgets = self.configuration.budgets();
        let platform = self.platform();
        let scratch = Scratch::new(self.scratch.as_deref(), &self.configuration.folder)?;
        let runner = TestRunner {
            measurer: Measurer {
                configuration: self.configuration,
                project: &project,
                recorder: self.recorder.as_ref(),
                scratch: scratch.path(),
                stop: self.stop,
            },
            source: self.log.map_or(BudgetSource::Folder(&budgets), |log| {
                BudgetSource::Log(log, &budgets)
            }),
            platform: &platform,
            runs: self.runs,
            stacks: self.stacks,
            replace_unreadable: self.replace_unreadable,
        };
        let mut report = Report {
            recorded: self.recorder.is_some(),
            command: command_line(&self.configuration.command(project.root())),
            ..Report::default()
        };
        for test in tests {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let mut on_start = |start, starts| on_run(&test.name, start, starts);
            let mut result = runner.run(test, &mut on_start);
            // Cargo's programs also contain tests that are not to be measured.
            if self.configuration.cargo.is_some() && self.recorder.is_some() && result.has_nothing()
            {
                report.without_windows.push(test.name.clone());
                continue;
            }
            self.select_cases(&mut result)?;
            report.tests.push(result);
        }
        // Without a list of all tests, no budget can be said to belong to none.
        if let Ok(names) = self.configuration.tests_of_folder() {
            report.orphaned_budgets = budgets.orphaned_files(&names)?;
        }
        report.renames = renames(&budgets, &report);
        scratch.finish(&mut report);
        Ok(report)
    }
}
