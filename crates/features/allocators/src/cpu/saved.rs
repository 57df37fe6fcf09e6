//! A report that was saved with `allotrope cpu --format json -o FILE`, as far as it is compared.
//! The file may be damaged or hostile: its figures are checked, and shares are computed anew from
//! the samples.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cpu::breakdown::WhatIf;
use crate::cpu::origin::Origin;
use crate::cpu::profile::{FORMAT, Score};
use crate::cpu::rows::{Row, Share};

/// What the name of each version's format begins with.
const FORMATS: &str = "allotrope-cpu/";
/// Largest saved report that is read, in bytes.
const MAX_BYTES: usize = 256 << 20;
/// Largest number of samples: shares of them are exact in 64-bit numbers with a fraction.
const MAX_SAMPLES: u64 = 1 << 53;

/// A saved report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Saved {
    pub(crate) clock: String,
    pub(crate) kernel: bool,
    pub(crate) samples: u64,
    pub(crate) lost: u64,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) allocators: Vec<String>,
    pub(crate) inside: Share,
    /// Innermost functions inside the allocator.
    pub(crate) functions: Vec<Row>,
    /// Innermost functions outside of it.
    pub(crate) outside: Vec<Row>,
    pub(crate) groups: Vec<SavedGroup>,
    pub(crate) operations: Option<u64>,
    pub(crate) scores: Vec<Score>,
    pub(crate) origin: Origin,
    pub(crate) doubts: Vec<String>,
}

/// A group of functions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct SavedGroup {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) share: Share,
    pub(crate) what_if: WhatIf,
}

/// The beginning of a report, by which its version is recognised.
#[derive(Deserialize)]
struct Head {
    format: String,
}

/// Why a file is no report that can be compared.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// It is a text or Markdown report.
    #[error(
        "it is a report for people; save one with `allotrope cpu --format json -o FILE` to compare it"
    )]
    ForPeople,
    /// It is too large.
    #[error("it has more than 256 MiB")]
    TooLarge,
    /// It is of another version.
    #[error("its format is {0}, and this version reads allotrope-cpu/1")]
    OtherFormat(String),
    /// It is nothing that `allotrope cpu` has written.
    #[error("it is no report of `allotrope cpu --format json`: {0}")]
    Damaged(String),
}

impl Saved {
    /// Reads a saved report.
    ///
    /// # Errors
    /// If it is none, or damaged.
    pub fn read(bytes: &[u8]) -> Result<Self, SavedError> {
        if bytes.len() > MAX_BYTES {
            return Err(SavedError::TooLarge);
        }
        if crate::cpu::is_for_people(bytes) {
            return Err(SavedError::ForPeople);
        }
        let damaged = |error: serde_json::Error| SavedError::Damaged(error.to_string());
        let head: Head = serde_json::from_slice(bytes).map_err(damaged)?;
        if head.format != FORMAT {
            return Err(match head.format.starts_with(FORMATS) {
                true => SavedError::OtherFormat(head.format),
                false => SavedError::Damaged(format!("its format is {}", head.format)),
            });
        }
        let saved: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        match saved.impossible() {
            None => Ok(saved),
            Some(what) => Err(SavedError::Damaged(what)),
        }
    }

    /// CPU time of the whole program an operation, in nanoseconds.
    ///
    /// # Errors
    /// A sentence, if it is not known.
    pub fn ns_per_operation(&self) -> Result<f64, &'static str> {
        let seconds = self
            .cpu_seconds
            .ok_or("its clock counted cycles, so CPU time is not known")?;
        let operations = self
            .operations
            .ok_or("its number of operations is not known; sample the program with --count")?;
        Ok(seconds * 1e9 / operations as f64)
    }

    /// What of its figures cannot be.
    fn impossible(&self) -> Option<String> {
        let tables = [&self.functions, &self.outside];
        let rows = tables.into_iter().flatten().map(|it| it.share.samples);
        let groups = self.groups.iter().map(|it| it.share.samples);
        let largest = rows
            .clone()
            .chain(groups)
            .chain([self.inside.samples])
            .max();
        let sum = rows.fold(0, u64::saturating_add);
        if self.samples > MAX_SAMPLES || largest > Some(self.samples) || sum > self.samples {
            return Some("more samples are in its functions than there are".to_owned());
        }
        let is_time = |it: &f64| it.is_finite() && *it >= 0.0;
        if self.cpu_seconds.is_some_and(|it| !is_time(&it)) {
            return Some("its CPU time is no time".to_owned());
        }
        if self.operations == Some(0) {
            return Some("it has 0 operations".to_owned());
        }
        None
    }

    /// The samples of each function by its name and its module, without the module's folders. Modules
    /// are moved and rebuilt elsewhere, functions are called inside and outside of the allocator.
    pub(crate) fn by_function(&self) -> BTreeMap<(String, String), Sum> {
        let mut sums: BTreeMap<(String, String), Sum> = BTreeMap::new();
        for (rows, is_inside) in [(&self.functions, true), (&self.outside, false)] {
            for row in rows {
                let module = crate::tables::base(&row.module).to_owned();
                let sum = sums.entry((row.function.clone(), module)).or_default();
                sum.samples += row.share.samples;
                if is_inside {
                    sum.inside += row.share.samples;
                }
                sum.allocator |= row.allocator;
            }
        }
        sums
    }
}

/// The samples of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) samples: u64,
    /// Those of which the allocator called it.
    pub(crate) inside: u64,
    pub(crate) allocator: bool,
}
