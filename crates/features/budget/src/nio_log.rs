//! Reads logs and threshold files of SwiftNIO's allocation counter tests as
//! budgets.
//!
//! A log has lines like `NAME.total_allocations: 75001` among others; a
//! threshold file is flat JSON, `{"1000_reqs_1_conn": 27350}`. The limits are
//! those of SwiftNIO's scripts (`test_01_allocation_counts.sh`): the least total of all
//! runs must not exceed the limit and be greater than the limit minus 1,000, the least
//! remaining allocations must be between -5 and 5, exclusively, and no descriptor may
//! leak. SwiftNIO's "remaining" is allocations minus
//! deallocations, our `net`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use allotrope_text::{Shown, without_commands};

use thiserror::Error;

use crate::budgets::Budget;
use crate::case::Case;
use crate::configuration::Protocol;
use crate::spread::Spread;
use crate::tolerance::Tolerance;
use allotrope_profile::Metric;

/// How far a total may be below its limit: the scripts want it to be greater than the
/// limit minus 1,000.
const BELOW: u64 = 999;
/// How far the remaining allocations may be from 0: the scripts want less than 5 and more
/// than -5.
const REMAINING: u64 = 4;

/// Bytes of the largest log that is read: those of whole CI runs have a few megabytes.
const MAX_LOG_BYTES: u64 = 64 << 20;

/// Why a file cannot be used as budgets.
#[derive(Debug, Error)]
pub enum NioLogError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", file.shown())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file has more than 64 MiB.
    #[error(
        "{} has more than {} MiB; give the part with the lines like \
         `test_x.total_allocations: 75001`", file.shown(), MAX_LOG_BYTES >> 20
    )]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// An invalid number.
    #[error("{}:{line}: {problem}", file.shown())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// All totals are zero.
    #[error(
        "{}: all of its totals are 0: it is the log of a run without hooks (`-n`), which measured nothing",
        file.shown()
    )]
    Unhooked {
        /// The file.
        file: PathBuf,
    },
    /// The file has no numbers.
    #[error(
        "{}: this is neither a log with lines like `test_x.total_allocations: 75001` nor a JSON \
         object of limits like {{\"x\": 75001}}", file.shown()
    )]
    Nothing {
        /// The file.
        file: PathBuf,
    },
}

/// Figures by test name and metric.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NioLog {
    numbers: BTreeMap<String, BTreeMap<Metric, i64>>,
}

/// The suffixes of a log's names, and their metrics.
const SUFFIXES: [(&str, Metric); 4] = [
    ("total_allocations", Metric::Allocations),
    ("remaining_allocations", Metric::Net),
    ("total_allocated_bytes", Metric::Bytes),
    ("leaked_fds", Metric::LeakedFds),
];

impl NioLog {
    /// Reads a log or a threshold file.
    ///
    /// # Errors
    /// A file that cannot be read or has no numbers, or only zeros.
    pub fn read(file: &Path) -> Result<Self, NioLogError> {
        let mut bytes = Vec::new();
        let read = File::open(file)
            .and_then(|log| log.take(MAX_LOG_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|source| {
                let file = file.to_owned();
                NioLogError::Unreadable { file, source }
            })?;
        if read as u64 > MAX_LOG_BYTES {
            let file = file.to_owned();
            return Err(NioLogError::TooLarge { file });
        }
        Self::parse(&String::from_utf8_lossy(&bytes), file)
    }

    /// Parses the text of a log or a threshold file.
    ///
    /// # Errors
    /// A text without numbers, or only with zeros.
    pub fn parse(text: &str, file: &Path) -> Result<Self, NioLogError> {
        let log = if text.trim_start().starts_with('{') {
            thresholds(text, file)?
        } else {
            lines(text, file)?
        };
        if log.numbers.is_empty() {
            let file = file.to_owned();
            return Err(NioLogError::Nothing { file });
        }
        let totals = log.numbers.values();
        let mut totals = totals.filter_map(|numbers| numbers.get(&Metric::Allocations));
        if totals.clone().next().is_some() && totals.all(|total| *total == 0) {
            let file = file.to_owned();
            return Err(NioLogError::Unhooked { file });
        }
        Ok(log)
    }

    /// The names of the tests with numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.numbers.keys().map(String::as_str)
    }

    /// The budget of a case.
    pub fn budget(&self, case: &Case) -> Option<Budget> {
        let mut figures = self.numbers_of(&case.name)?.clone();
        // SwiftNIO's scripts compare these with 0, whatever the log has.
        figures.insert(Metric::Net, 0);
        figures.insert(Metric::LeakedFds, 0);
        Some(Budget {
            iterations: None,
            numbers: figures
                .into_iter()
                .map(|(metric, number)| (metric, Spread::exact(number).into()))
                .collect(),
        })
    }

    /// Applies SwiftNIO's metrics and limits to a protocol. Tolerances of the
    /// configuration take precedence.
    pub fn adapt(&self, protocol: &mut Protocol, cases: &[Case]) {
        let bytes = protocol.gate.contains(&Metric::Bytes);
        let descriptors = cases.iter().flat_map(|case| &case.runs);
        let descriptors = descriptors.map(|run| run.figure(Metric::LeakedFds));
        let mut gate = vec![Metric::Allocations, Metric::Net];
        let has_bytes = |case: &Case| {
            self.numbers_of(&case.name)
                .is_some_and(|numbers| numbers.contains_key(&Metric::Bytes))
        };
        if bytes && cases.iter().all(has_bytes) {
            gate.push(Metric::Bytes);
        }
        if descriptors.clone().count() > 0 && descriptors.clone().all(|known| known.is_some()) {
            gate.push(Metric::LeakedFds);
        }
        protocol.set_gate(gate);
        protocol.watch.clear();
        protocol.least_counts = true;
        for (metric, tolerance) in [
            (Metric::Allocations, Tolerance::absolute(0, BELOW)),
            (Metric::Net, Tolerance::absolute(REMAINING, REMAINING)),
        ] {
            protocol.tolerance.entry(metric).or_insert(tolerance);
        }
    }

    /// Looks up the case, or its window, with and without the prefix `test_`. A log that Allotrope
    /// wrote has the name without commands of CI systems.
    fn numbers_of(&self, case: &str) -> Option<&BTreeMap<Metric, i64>> {
        let window = case.split_once('/').map_or(case, |(_, window)| window);
        let written = without_commands(window);
        let candidates = [case, window, &written].into_iter().flat_map(|name| {
            let bare = name.strip_prefix("test_").unwrap_or(name);
            [name.to_owned(), bare.to_owned(), format!("test_{bare}")]
        });
        candidates
            .into_iter()
            .find_map(|name| self.numbers.get(&name))
    }
}

fn thresholds(text: &str, file: &Path) -> Result<NioLog, NioLogError> {
    let limits: BTreeMap<String, i64> = serde_json::from_str(text).map_err(|error| {
        let problem = format!("this is no flat JSON object of whole numbers: {error}");
        NioLogError::Invalid {
            file: file.to_owned(),
            line: error.line(),
            problem,
        }
    })?;
    let numbers = limits.into_iter();
    Ok(NioLog {
        numbers: numbers
            .map(|(name, limit)| (name, [(Metric::Allocations, limit)].into()))
            .collect(),
    })
}

fn lines(text: &str, file: &Path) -> Result<NioLog, NioLogError> {
    let mut log = NioLog::default();
    for (index, line) in text.lines().enumerate() {
        // CI systems prefix lines with a time.
        let mut words = line.split_whitespace().rev();
        let (Some(number), Some(name)) = (words.next(), words.next()) else {
            continue;
        };
        let Some((name, suffix)) = name
            .strip_suffix(':')
            .and_then(|name| name.rsplit_once('.'))
        else {
            continue;
        };
        let metric = SUFFIXES.iter().find(|(known, _)| *known == suffix);
        let Some((_, metric)) = metric.filter(|_| !name.is_empty()) else {
            continue;
        };
        let number = number.parse().map_err(|_| NioLogError::Invalid {
            file: file.to_owned(),
            line: index + 1,
            problem: format!("\"{number}\" is no whole number"),
        })?;
        log.numbers
            .entry(name.to_owned())
            .or_default()
            .insert(*metric, number);
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case_run::CaseRun;

    const LOG: &str = "\
Fetching /private/tmp/.nio_alloc_counter_tests_5jMMhk/swift-nio
- /Users/johannes/devel/test_01_resources/test_future_lots_of_callbacks.swift
test_future_lots_of_callbacks.remaining_allocations: 0
2024-02-03T10:11:12.123Z test_future_lots_of_callbacks.total_allocations: 75001
test_future_lots_of_callbacks.total_allocated_bytes: 4138056
test_future_lots_of_callbacks.leaked_fds: 0
DEBUG: [[\"remaining_allocations\": 0, \"total_allocations\": 75001]]
";

    fn parse(text: &str) -> Result<NioLog, NioLogError> {
        NioLog::parse(text, Path::new("x.log"))
    }

    fn case(name: &str) -> Case {
        Case {
            name: name.into(),
            runs: vec![CaseRun::default()],
        }
    }

    #[test]
    fn a_log_without_an_end_is_refused() {
        let error = NioLog::read(Path::new("/dev/zero")).expect_err("it is no log");
        let expected = "/dev/zero has more than 64 MiB; give the part with the lines like \
                        `test_x.total_allocations: 75001`";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_log_is_read_whatever_is_between_its_lines() {
        let log = parse(LOG).expect("it has numbers");
        let names: Vec<&str> = log.names().collect();
        assert_eq!(names, ["test_future_lots_of_callbacks"]);
        for name in [
            "nio/test_future_lots_of_callbacks",
            "future_lots_of_callbacks",
        ] {
            let budget = log.budget(&case(name)).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(
                budget.spread(Metric::Allocations),
                Some(Spread::exact(75001))
            );
            assert_eq!(budget.spread(Metric::Bytes), Some(Spread::exact(4_138_056)));
        }
        assert_eq!(log.budget(&case("other")), None);
    }

    #[test]
    fn names_that_a_log_has_without_commands_are_found() {
        assert_eq!(without_commands(LOG), LOG);
        let text =
            without_commands("::set-output::a.total_allocations: 5\n##vso[b].total_allocations: 6");
        let log = parse(&text).expect("it has numbers");
        for (name, number) in [("t/::set-output::a", 5), ("t/##vso[b]", 6)] {
            let budget = log.budget(&case(name)).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(
                budget.spread(Metric::Allocations),
                Some(Spread::exact(number))
            );
        }
    }

    #[test]
    fn limits_are_those_of_swiftnios_scripts() {
        let log = parse("{\"1000_reqs_1_conn\": 27350}").expect("it has a limit");
        let cases = [case("t/test_1000_reqs_1_conn")];
        assert_eq!(
            log.budget(&cases[0]).expect("it has").spread(Metric::Net),
            Some(Spread::exact(0))
        );
        let mut protocol = Protocol::default();
        log.adapt(&mut protocol, &cases);
        assert_eq!(protocol.gate, [Metric::Allocations, Metric::Net]);
        let total = protocol.tolerance_of(Metric::Allocations);
        assert_eq!(total, Tolerance::absolute(0, 999));
        assert_eq!(
            protocol.tolerance_of(Metric::Net),
            Tolerance::absolute(4, 4)
        );
    }

    #[test]
    fn a_file_without_numbers_is_refused() {
        for (text, what) in [
            ("just text", "neither a log"),
            ("", "neither a log"),
            ("{}", "neither a log"),
            (
                "x.total_allocations: 0\ny.total_allocations: 0",
                "all of its totals are 0",
            ),
            ("{\"a\": \"b\"}", "x.log:1: this is no flat JSON"),
            (
                "ok\nx.total_allocations: many",
                "x.log:2: \"many\" is no whole number",
            ),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
