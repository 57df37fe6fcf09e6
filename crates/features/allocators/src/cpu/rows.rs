//! Rows of tables: a function or a line with its part of the samples.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::cpu::names::{Key, Names};
use crate::cpu::session::Counts;

/// A part of all samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Samples.
    pub samples: u64,
    /// Samples that were in the kernel.
    pub kernel_samples: u64,
    /// Samples of all samples, 0 to 1.
    pub share: f64,
    /// The 95 % interval of the share (Wilson score).
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The function. Without a name, its distance from the nearest exported function or the
    /// start of its section: `malloc+0x340 (no symbol)`.
    pub function: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line; 0 if unknown or if the row is of a whole function.
    pub line: u32,
    /// The path of its module.
    pub module: String,
    /// Whether it belongs to the allocator; otherwise the allocator calls it, or it calls.
    pub allocator: bool,
    /// Part of the samples that the row has.
    #[serde(flatten)]
    pub share: Share,
}

/// The largest first.
pub(crate) fn sorted(table: FxHashMap<Key, Counts>) -> Vec<(Key, Counts)> {
    let mut rows: Vec<(Key, Counts)> = table.into_iter().collect();
    rows.retain(|(_, counts)| counts.samples > 0);
    rows.sort_by(|(a, x), (b, y)| (y.samples, a).cmp(&(x.samples, b)));
    rows
}

/// A row.
pub(crate) fn row(key: Key, counts: &Counts, samples: u64, names: &Names<'_>) -> Row {
    Row {
        function: key.function,
        file: key.file,
        line: key.line,
        module: names.path(key.module),
        allocator: key.allocator,
        share: share(counts, samples),
    }
}

/// The part of so many samples.
pub(crate) fn share(counts: &Counts, of: u64) -> Share {
    let (low, high) = wilson(counts.samples, of);
    Share {
        samples: counts.samples,
        kernel_samples: counts.kernel_samples,
        share: counts.samples as f64 / of.max(1) as f64,
        low,
        high,
    }
}

/// The 95 % score interval of a proportion (Wilson, JASA 22, 1927).
pub(crate) fn wilson(hits: u64, of: u64) -> (f64, f64) {
    const Z: f64 = 1.959_963_984_540_054;
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, p) = (of as f64, hits as f64 / of as f64);
    let centre = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (
        ((centre - half) / scale).max(0.0),
        ((centre + half) / scale).min(1.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from the formula, computed by hand: 0 of 10 has the upper end
    /// z² / (n + z²) = 3.8415 / 13.8415.
    #[test]
    fn the_score_interval() {
        let (low, high) = wilson(0, 10);
        assert_eq!(low, 0.0);
        assert!((high - 0.277_53).abs() < 1e-4);
        let (low, high) = wilson(50, 100);
        assert!((low + high - 1.0).abs() < 1e-12);
        assert!(low < 0.41 && low > 0.40);
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }
}
