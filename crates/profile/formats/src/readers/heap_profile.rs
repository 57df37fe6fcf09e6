//! The text heap profiles of gperftools, tcmalloc and jemalloc, and Go's legacy one
//! (`pprof.Lookup("heap").WriteTo(w, 1)`, `/debug/pprof/heap?debug=1`).
//!
//! ```text
//! heap profile:      7:     7000 [   107:     8600] @ heapprofile
//!      7:     7000 [     7:     7000] @ 0x55ef80f59182 0x55ef80f591a1
//!
//! MAPPED_LIBRARIES:
//! 55ef80f59000-55ef80f5a000 r-xp 00001000 00:00 1002 /srv/app
//! ```
//!
//! Read: the blocks and bytes of each stack that are in use (live when the profile was
//! written: leaked), and in brackets those of all allocations; the addresses, innermost
//! first; Go's comments, which have names and lines for the addresses. Other addresses
//! have no names: they become `module+0x…`, the distance from the start of the file's
//! first mapping. Some writers have no figures of all allocations: then only what was in
//! use is known.
//!
//! After `@` the header names the kind: `heapprofile` is exact; `heap_v2/RATE` and
//! `heapz_v2/RATE` are sampled every RATE bytes on average, and Go's `heap/N` every N/2
//! bytes. Sampled figures are scaled as pprof does: n blocks of the mean size s become
//! n / (1 − e^(−s/RATE)). jemalloc writes `heap_v2/RATE` alone, addresses on a line before
//! the figures, and figures of single threads, which are ignored.
//!
//! Ignored: text before the header, Go's memory statistics. Refused: profiles of something
//! else (`growth`, `fragmentation`), sampled ones without a rate.
//!
//! Source: pprof, `profile/legacy_profile.go`; gperftools, `src/heap-profile-table.cc`;
//! Go, `runtime/pprof/pprof.go`; jemalloc, `src/prof_data.c`.

mod figures;
mod go_comment;
mod mappings;

use std::collections::HashMap;

use allotrope_profile::{Metric, MetricSet, MetricValues};

use crate::budget::check_depth;
use crate::error::{Fault, Problem};
use crate::format::Format;
use crate::lines::Lines;
use crate::readers::Parsed;
use crate::stack_set_builder::StackSetBuilder;

use figures::{Figures, Kind};
use go_comment::GoFrame;
use mappings::Mappings;

/// Approximate bytes of a map entry.
const ENTRY: usize = 32;

/// The number of the first line that is characteristic of the format.
pub(crate) fn first_sign<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<usize> {
    lines.position(|line| figures::header(line).is_some() || figures::is_jemalloc_header(line))
}

fn malformed(what: &str) -> Problem {
    Problem::Malformed {
        format: Format::HeapProfile,
        what: what.to_owned(),
    }
}

/// The part of the file that a line belongs to.
#[derive(Default, PartialEq, Eq)]
enum Section {
    /// Output of the program before the profile.
    #[default]
    Before,
    Samples,
    Mappings,
}

#[derive(Default)]
struct Reader {
    builder: StackSetBuilder,
    section: Section,
    kind: Kind,
    /// The profile has figures of all allocations.
    has_totals: bool,
    /// The figures, addresses and comments of the sample whose lines are being read.
    figures: Option<Figures>,
    addresses: Vec<u64>,
    comments: Vec<GoFrame>,
    /// Samples without comments: figures, and the end of their addresses in `unnamed`.
    /// Their modules are known only at the end of the file.
    samples: Vec<(MetricValues, usize)>,
    unnamed: Vec<u64>,
    mappings: Mappings,
}

/// Reads the whole file.
pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Parsed, Fault> {
    let mut reader = Reader {
        builder: StackSetBuilder::new(lines.budget()),
        ..Reader::default()
    };
    while let Some(line) = lines.next_text()? {
        reader.line(&line).map_err(|problem| lines.fault(problem))?;
    }
    reader.finish().map_err(Fault::whole)
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Problem> {
        if self.section == Section::Before {
            return self.header(line);
        }
        let text = line.trim();
        if matches!(text, "MAPPED_LIBRARIES:" | "--- Memory map: ---") {
            self.sample_ends()?;
            self.section = Section::Mappings;
        } else if self.section == Section::Mappings {
            self.mappings.line(text, &self.builder.budget)?;
        } else if let Some(comment) = text.strip_prefix('#') {
            let budget = &self.builder.budget;
            if let Some(frame) = go_comment::parse(budget.names(), comment) {
                check_depth(self.comments.len() + 1)?;
                budget.take(size_of::<GoFrame>() + comment.len())?;
                self.comments.push(frame);
            }
        } else if !text.is_empty() {
            self.sample_line(text)?;
        }
        Ok(())
    }

    fn header(&mut self, line: &str) -> Result<(), Problem> {
        if figures::is_jemalloc_header(line) {
            // The totals follow in a line of their own.
            self.kind = Kind::parse(line.trim())?;
            self.section = Section::Samples;
        } else if let Some((totals, kind)) = figures::header(line) {
            self.kind = Kind::parse(kind)?;
            self.has_totals = self.kind.has_totals(&totals);
            self.section = Section::Samples;
        }
        Ok(())
    }

    fn sample_line(&mut self, text: &str) -> Result<(), Problem> {
        // jemalloc: addresses alone, then `t*: figures`, then `t1: figures` of threads.
        if let Some(addresses) = text.strip_prefix('@') {
            self.sample_ends()?;
            return self.set_addresses(addresses);
        }
        if let Some(thread) = text.strip_prefix('t') {
            return match thread.strip_prefix("*:") {
                None => Ok(()),
                Some(rest) => {
                    let (figures, _) = figures::parse(rest)?;
                    if self.addresses.is_empty() {
                        self.has_totals = self.kind.has_totals(&figures);
                    } else {
                        self.figures = Some(figures);
                    }
                    Ok(())
                }
            };
        }
        self.sample_ends()?;
        let (figures, rest) = figures::parse(text)?;
        let addresses = rest.trim_start().strip_prefix('@');
        let addresses = addresses.ok_or_else(|| malformed("a sample has no addresses"))?;
        self.figures = Some(figures);
        self.set_addresses(addresses)
    }

    fn set_addresses(&mut self, text: &str) -> Result<(), Problem> {
        for word in text.split_whitespace() {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            let address = u64::from_str_radix(digits, 16);
            let address = address.map_err(|_| malformed("an address is no hexadecimal number"))?;
            check_depth(self.addresses.len() + 1)?;
            self.addresses.push(address);
        }
        Ok(())
    }

    /// Stores the sample whose lines have been read.
    fn sample_ends(&mut self) -> Result<(), Problem> {
        let comments = std::mem::take(&mut self.comments);
        let mut addresses = std::mem::take(&mut self.addresses);
        let Some(figures) = self.figures.take() else {
            return Ok(());
        };
        let values = figures.values(self.kind, self.has_totals);
        if values.iter().all(|value| *value == 0) {
            return Ok(());
        }
        if comments.is_empty() {
            let size = size_of_val(&*addresses) + size_of::<(MetricValues, usize)>();
            self.builder.budget.take(size)?;
            self.unnamed.append(&mut addresses);
            self.samples.push((values, self.unnamed.len()));
            return Ok(());
        }
        let mut stack = Vec::with_capacity(comments.len());
        for frame in go_comment::frames(comments) {
            stack.push(self.builder.frame(frame)?);
        }
        self.builder.add(&stack, &values)
    }

    fn finish(mut self) -> Result<Parsed, Problem> {
        self.sample_ends()?;
        self.mappings.sort();
        // Hashed at random: the file chooses the addresses.
        let mut indexes: HashMap<u64, u32> = HashMap::new();
        let mut start = 0;
        for (values, end) in std::mem::take(&mut self.samples) {
            let mut stack = Vec::with_capacity(end - start);
            for address in &self.unnamed[start..end] {
                let index = match indexes.get(address) {
                    Some(index) => *index,
                    None => {
                        self.builder.budget.take(ENTRY)?;
                        let index = self.builder.frame(self.mappings.frame(*address))?;
                        indexes.insert(*address, index);
                        index
                    }
                };
                stack.push(index);
            }
            self.builder.add(&stack, &values)?;
            start = end;
        }
        let mut known = vec![Metric::LeakedAllocations, Metric::LeakedBytes];
        if self.has_totals {
            known.extend([Metric::Allocations, Metric::Bytes]);
        }
        Ok(Parsed {
            notes: self.notes(),
            set: self.builder.finish(String::new(), MetricSet::of(&known)),
        })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(rate) = self.kind.rate() {
            notes.push(format!(
                "the profile was sampled (one in {rate} bytes on average): its figures are estimates"
            ));
        }
        if !self.unnamed.is_empty() {
            notes.push(
                "the profile has addresses instead of functions; `go tool pprof -proto PROGRAM FILE` finds the names and writes a file that can be read here"
                    .to_owned(),
            );
        }
        notes
    }
}

#[cfg(test)]
mod tests;
