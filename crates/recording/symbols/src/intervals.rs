//! Finds the address ranges that contain an address. Ranges may nest and, in
//! damaged files, overlap in any way.
//!
//! A sorted array in which each entry links to the nearest earlier entry that
//! contains its start. A look-up is a binary search and a walk along the links.

use std::ops::Range;

/// The most entries that a look-up visits along the links. The ranges that compilers
/// and linkers write do not overlap; hand-written assembly nests a few.
const MAX_VISITED: usize = 64;

/// Address ranges, each with a value.
#[derive(Debug)]
pub(crate) struct Intervals<T> {
    /// Sorted by start, of equal starts the widest first.
    entries: Vec<Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    range: Range<u64>,
    /// The nearest earlier entry that ends after this one's start.
    enclosing: Option<u32>,
    value: T,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
        }
    }
}

impl<T> Intervals<T> {
    pub(crate) fn new(ranges: Vec<(Range<u64>, T)>) -> Self {
        let mut entries: Vec<Entry<T>> = ranges
            .into_iter()
            .filter(|(range, _)| !range.is_empty())
            .take(u32::MAX as usize)
            .map(|(range, value)| Entry {
                range,
                enclosing: None,
                value,
            })
            .collect();
        // The sort is stable: equal ranges stay in the order given.
        entries.sort_by_key(|entry| (entry.range.start, u64::MAX - entry.range.end));
        let mut open: Vec<u32> = Vec::new();
        for index in 0..entries.len() {
            let start = entries[index].range.start;
            while let Some(top) = open.last().copied()
                && entries[top as usize].range.end <= start
            {
                open.pop();
            }
            entries[index].enclosing = open.last().copied();
            open.push(index as u32);
        }
        Self { entries }
    }

    /// All ranges, sorted by their start.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Range<u64>, &T)> {
        self.entries
            .iter()
            .map(|entry| (&entry.range, &entry.value))
    }

    /// The values whose ranges contain `address`, in descending order of their starts.
    pub(crate) fn containing(&self, address: u64) -> impl Iterator<Item = &T> {
        let after = self
            .entries
            .partition_point(|entry| entry.range.start <= address);
        let first = after.checked_sub(1);
        // Every range that contains the address was open when the last entry at or
        // before the address was added. The links visit all ranges open then.
        std::iter::successors(first, |index| {
            self.entries[*index].enclosing.map(|index| index as usize)
        })
        .take(MAX_VISITED)
        .map(|index| &self.entries[index])
        .filter(move |entry| entry.range.contains(&address))
        .map(|entry| &entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_at(ranges: &[Range<u64>], address: u64) -> Vec<usize> {
        let ranges = ranges.iter().cloned();
        let intervals = Intervals::new(ranges.enumerate().map(|(i, range)| (range, i)).collect());
        intervals.containing(address).copied().collect()
    }

    #[test]
    fn agrees_with_a_linear_search() {
        // All ranges with bounds below 8, and subsets of them.
        let all: Vec<Range<u64>> = (0..8)
            .flat_map(|start| (0..8).map(move |end| start..end))
            .collect();
        for step in 1..8 {
            let ranges: Vec<_> = all.iter().step_by(step).cloned().collect();
            for address in 0..9 {
                let mut found = found_at(&ranges, address);
                found.sort_unstable();
                let holds = |index: &usize| ranges[*index].contains(&address);
                let expected: Vec<usize> = (0..ranges.len()).filter(holds).collect();
                assert_eq!(found, expected, "{address} in {ranges:?}");
            }
        }
    }

    #[test]
    fn the_innermost_comes_first() {
        assert_eq!(found_at(&[0..100, 10..20, 12..14], 13), [2, 1, 0]);
        assert_eq!(found_at(&[0..100, 10..20, 12..14], 15), [1, 0]);
        assert_eq!(found_at(&[0..100, 10..20, 12..14], 50), [0]);
    }
}
