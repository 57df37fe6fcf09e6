//! The figures of a sample, and the kind of a profile, which says how to scale them.

use allotrope_profile::{Metric, MetricValues};

use super::malformed;
use crate::error::Problem;

/// Blocks and bytes.
type Pair = (u64, u64);

/// `blocks: bytes [blocks: bytes]`: in use, and of all allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Figures {
    in_use: Pair,
    totals: Pair,
}

/// Whether and how a profile was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// Every allocation is counted.
    #[default]
    Exact,
    /// One in this number of bytes, on average. `in_brackets` is set if the writer counts
    /// all allocations; others repeat what is in use.
    Sampled { rate: u64, in_brackets: bool },
}

impl Kind {
    /// Parses what follows `@` in a header.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let (name, rate) = text.split_once('/').unwrap_or((text, ""));
        let (divisor, in_brackets) = match name {
            "heapprofile" => return Ok(Self::Exact),
            "heap" => (2, true),
            "heap_v2" | "heapz_v2" => (1, false),
            _ => {
                let name: String = name.chars().take(30).collect();
                return Err(malformed(&format!(
                    "it counts {name}, not allocations; give a heap profile"
                )));
            }
        };
        let rate: u64 = rate.parse().map_err(|_| {
            malformed("the header has no sampling rate, so the figures cannot be scaled to the whole program")
        })?;
        Ok(match rate / divisor {
            0 | 1 => Self::Exact,
            rate => Self::Sampled { rate, in_brackets },
        })
    }

    /// The sampling rate in bytes.
    pub fn rate(self) -> Option<u64> {
        match self {
            Self::Exact => None,
            Self::Sampled { rate, .. } => Some(rate),
        }
    }

    /// Whether the figures in brackets are those of all allocations, given the sums of
    /// the profile. pprof decides alike.
    pub fn has_totals(self, sums: &Figures) -> bool {
        let differ = sums.totals != sums.in_use;
        let empty = sums.in_use == (0, 0);
        (empty || sums.totals != (0, 0))
            && match self {
                Self::Exact => true,
                Self::Sampled { in_brackets, .. } => in_brackets || differ,
            }
    }

    /// Scales sampled figures to the whole program.
    fn scale(self, (blocks, bytes): Pair) -> Pair {
        let Some(rate) = self.rate().filter(|_| blocks > 0 && bytes > 0) else {
            return (blocks, bytes);
        };
        let mean = bytes as f64 / blocks as f64;
        // `exp_m1` is exact where 1 - exp(x) would round to 0.
        let factor = -1.0 / (-mean / rate as f64).exp_m1();
        // Conversions from floating point saturate.
        let scaled = |figure: u64| (figure as f64 * factor) as u64;
        (scaled(blocks), scaled(bytes))
    }
}

impl Figures {
    /// Scaled values of the metrics that the profile has.
    pub fn values(&self, kind: Kind, has_totals: bool) -> MetricValues {
        let mut values = MetricValues::default();
        let (blocks, bytes) = kind.scale(self.in_use);
        values[Metric::LeakedAllocations as usize] = blocks;
        values[Metric::LeakedBytes as usize] = bytes;
        if has_totals {
            let (blocks, bytes) = kind.scale(self.totals);
            values[Metric::Allocations as usize] = blocks;
            values[Metric::Bytes as usize] = bytes;
        }
        values
    }
}

/// Parses figures at the start of a text; also returns what follows them.
pub(super) fn parse(text: &str) -> Result<(Figures, &str), Problem> {
    if text.trim_start().starts_with('-') || text.contains(" -") {
        return Err(malformed(
            "a figure is negative: this is the difference of two profiles; give the two profiles themselves",
        ));
    }
    split(text).ok_or_else(|| malformed("the line is no sample, such as `1: 16 [2: 32] @ 0x10`"))
}

fn split(text: &str) -> Option<(Figures, &str)> {
    let (in_use, rest) = text.split_once('[')?;
    let (totals, rest) = rest.split_once(']')?;
    let figures = Figures {
        in_use: pair(in_use)?,
        totals: pair(totals)?,
    };
    Some((figures, rest))
}

fn pair(text: &str) -> Option<Pair> {
    let (blocks, bytes) = text.split_once(':')?;
    let number = |text: &str| {
        let digits = text.trim();
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    Some((number(blocks)?, number(bytes)?))
}

/// The sums and the kind in the header of gperftools, tcmalloc and Go.
pub(super) fn header(line: &str) -> Option<(Figures, &str)> {
    let (sums, rest) = split(line.strip_prefix("heap profile:")?)?;
    let kind = rest.trim().strip_prefix('@')?.trim();
    let name = kind.bytes().take_while(|byte| byte.is_ascii_lowercase());
    (name.count() > 0).then_some((sums, kind))
}

/// Whether the line is jemalloc's header.
pub(super) fn is_jemalloc_header(line: &str) -> bool {
    let rate = line.trim_end().strip_prefix("heap_v2/");
    rate.is_some_and(|rate| !rate.is_empty() && rate.bytes().all(|byte| byte.is_ascii_digit()))
}
