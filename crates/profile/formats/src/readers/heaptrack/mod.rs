//! heaptrack's data files (`heaptrack.PROGRAM.PID.zst` or `.gz`), decompressed:
//! text lines of a letter and hexadecimal numbers.
//!
//! | line | meaning |
//! | --- | --- |
//! | `v VERSION FORMAT` | first; formats 1 to 3 are read |
//! | `X COMMAND` | the program |
//! | `s [LENGTH] TEXT` | a string, numbered from 1; with its length from format 3 on |
//! | `i ADDRESS MODULE [FUNCTION [FILE LINE]]…` | an instruction pointer, numbered from 1: innermost inlined frame first |
//! | `t POINTER PARENT` | a node of the tree of stacks, numbered from 1; parent 0 is none |
//! | `a SIZE TRACE` | an allocation info, numbered from 0: all allocations of a size at a node |
//! | `+ INFO`, `- INFO` | an allocation, a deallocation |
//! | `A` | heaptrack was attached to a running program |
//!
//! All of these are read. The figures are computed from the events. Differences
//! to heaptrack's tools: of equal peaks the last one counts, and suppressed
//! leaks are included. As in heaptrack, an allocation is temporary if it is
//! deallocated before any other allocation or deallocation of the process,
//! because the file does not identify threads.
//!
//! Ignored: times (`c`), resident set (`R`), system (`I`), suppressions
//! (`S`), comments (`#`).
//!
//! Source: heaptrack 1.4, `src/analyze/accumulatedtracedata.cpp` and
//! `src/interpret`.

mod costs;
mod tables;

use allotrope_profile::{Metric, MetricSet};

use crate::error::{Fault, Problem};
use crate::format::Format;
use crate::lines::Lines;
use crate::readers::Parsed;
use crate::stack_set_builder::StackSetBuilder;

use costs::Costs;
use tables::Tables;

/// The newest format version that is read.
const NEWEST: u64 = 3;
/// The first format version that has the length of strings.
const SIZED_STRINGS: u64 = 3;

/// Whether the first line is heaptrack's version line.
pub(crate) fn begins<'a>(mut lines: impl Iterator<Item = &'a str>) -> bool {
    let hexadecimal = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    lines
        .next()
        .and_then(|line| line.strip_prefix("v "))
        .is_some_and(|rest| rest.split_ascii_whitespace().all(hexadecimal))
}

pub(super) fn malformed(what: impl Into<String>) -> Problem {
    Problem::Malformed {
        format: Format::Heaptrack,
        what: what.into(),
    }
}

/// Iterates over the hexadecimal numbers of a line.
pub(super) struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    /// The next number; `None` at the end of the line.
    pub fn next(&mut self) -> Result<Option<u64>, Problem> {
        let rest = self.0.trim_ascii_start();
        let end = rest
            .iter()
            .position(|byte| *byte == b' ')
            .unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = rest;
        if word.is_empty() {
            return Ok(None);
        }
        let number = std::str::from_utf8(word)
            .ok()
            .and_then(|word| u64::from_str_radix(word, 16).ok());
        number
            .map(Some)
            .ok_or_else(|| malformed("a hexadecimal number is expected"))
    }

    /// The next number; an error at the end of the line.
    pub fn required(&mut self) -> Result<u64, Problem> {
        self.next()?
            .ok_or_else(|| malformed("the line has too few numbers"))
    }

    /// The next number as an index into a table; an error at the end of the
    /// line.
    pub fn index(&mut self) -> Result<u32, Problem> {
        self.required().and_then(to_index)
    }
}

pub(super) fn to_index(number: u64) -> Result<u32, Problem> {
    u32::try_from(number).map_err(|_| malformed("an index is too large"))
}

#[derive(Default)]
struct Reader {
    builder: StackSetBuilder,
    tables: Tables,
    costs: Costs,
    version: Option<u64>,
    command: String,
    attached: bool,
}

/// Reads the whole file.
pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Parsed, Fault> {
    let mut reader = Reader {
        builder: StackSetBuilder::new(lines.budget()),
        ..Reader::default()
    };
    while let Some(line) = lines.next_bytes()? {
        reader.line(line).map_err(|problem| lines.fault(problem))?;
    }
    reader.finish().map_err(Fault::whole)
}

impl Reader {
    fn line(&mut self, line: &[u8]) -> Result<(), Problem> {
        let Some((mode, rest)) = line.split_first() else {
            return Ok(());
        };
        let mut numbers = Numbers(rest);
        let budget = &self.builder.budget;
        match mode {
            b'v' => self.version(numbers),
            _ if self.version.is_none() => Err(malformed("the version line is missing")),
            b'+' => self.costs.allocate(self.tables.info(numbers.index()?)?),
            b'-' => self.costs.deallocate(self.tables.info(numbers.index()?)?),
            b's' => {
                let sized = self.version >= Some(SIZED_STRINGS);
                self.tables
                    .add_string(rest.trim_ascii_start(), sized, budget)
            }
            b'i' => self.tables.add_pointer(numbers, budget),
            b't' => {
                budget.take(costs::COST)?;
                self.tables.add_trace(numbers, budget)
            }
            b'a' => self.tables.add_info(numbers, budget),
            b'X' => {
                self.command = String::from_utf8_lossy(rest).trim().to_owned();
                Ok(())
            }
            b'A' => {
                self.attached = true;
                Ok(())
            }
            b'c' | b'R' | b'I' | b'S' | b'#' => Ok(()),
            b'x' | b'm' => Err(malformed(
                "this is what heaptrack records before it looks symbols up; run heaptrack_interpret on it first",
            )),
            _ => Err(malformed(
                "the line begins with no letter that heaptrack writes",
            )),
        }
    }

    fn version(&mut self, mut numbers: Numbers<'_>) -> Result<(), Problem> {
        numbers.required()?;
        let version = numbers.next()?.unwrap_or(0);
        if version == 0 || version > NEWEST {
            return Err(malformed(format!(
                "format {version} is not read, only 1 to {NEWEST}; convert it with the heaptrack that wrote it"
            )));
        }
        self.version = Some(version);
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, Problem> {
        let mut notes = Vec::new();
        if self.costs.unmatched() > 0 {
            notes.push(format!(
                "{} deallocations have no allocation before them and are left out",
                self.costs.unmatched()
            ));
        }
        for (trace, figures) in self.costs.into_traces() {
            let stack = self.tables.stack(trace, &mut self.builder)?;
            self.builder.add(&stack, &figures)?;
        }
        if self.attached {
            notes.push(
                "heaptrack was attached to the running program: what it allocated before is missing"
                    .to_owned(),
            );
        }
        let known = MetricSet::of(&[
            Metric::Allocations,
            Metric::Bytes,
            Metric::Temporary,
            Metric::LeakedAllocations,
            Metric::LeakedBytes,
            Metric::PeakAllocations,
            Metric::PeakBytes,
        ]);
        Ok(Parsed {
            set: self.builder.finish(self.command, known),
            notes,
        })
    }
}

#[cfg(test)]
mod tests;
