//! What a whole stack is, seen more or less closely: the names that count and a
//! hash of them. Two stacks with one key are one stack at that level.

use crate::frames::FrameTable;

/// How closely stacks are looked at, the closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub(crate) enum MatchLevel {
    /// The functions as they are spelled, in their modules. Offsets, lines and
    /// columns do not count: they shift with every build.
    Exact = 0,
    /// Without what compilers and linkers add to a name.
    Canonical = 1,
    /// Without closure numbers, wrappers and the depth of recursion.
    Unwrapped = 2,
    /// Without template arguments too.
    Untemplated = 3,
    /// Without glue frames too.
    GlueIgnored = 4,
    /// Without functions that only one side has too: those that were renamed,
    /// inserted or inlined everywhere.
    CommonOnly = 5,
}

impl MatchLevel {
    /// Those of names, from the closest: all but [`CommonOnly`](Self::CommonOnly),
    /// which takes two functions for one as soon as both are unknown to the
    /// other side.
    pub(crate) const BY_NAME: [Self; 5] = [
        Self::Exact,
        Self::Canonical,
        Self::Unwrapped,
        Self::Untemplated,
        Self::GlueIgnored,
    ];

    /// How sure it is that two stacks which look the same from here are.
    pub(crate) fn confidence(self) -> f64 {
        match self {
            Self::Exact => 1.0,
            Self::Canonical => 0.99,
            Self::Unwrapped => 0.95,
            Self::Untemplated => 0.9,
            Self::GlueIgnored => 0.85,
            Self::CommonOnly => 0.8,
        }
    }
}

/// Longest cycle of functions whose repetition counts as recursion.
const LONGEST_CYCLE: usize = 4;

/// The names of a stack in place of what `names` held, innermost first. Never
/// empty for a stack that is not.
pub(crate) fn reduce(
    table: &FrameTable<'_>,
    stack: &[u32],
    level: MatchLevel,
    names: &mut Vec<u32>,
) {
    names.clear();
    let ignore_glue = level >= MatchLevel::GlueIgnored;
    let ignore_others = level == MatchLevel::CommonOnly;
    let ignored = |frame| {
        (ignore_glue && table.is_glue(frame)) || (ignore_others && table.is_replaceable(frame))
    };
    // What little is left of some stacks would be the same for too many.
    let least = if ignore_others { 2 } else { 1 };
    let kept = stack.iter().filter(|&&frame| !ignored(frame)).count();
    for &frame in stack {
        if kept >= least && ignored(frame) {
            continue;
        }
        names.push(table.name(frame, level));
        if level >= MatchLevel::Unwrapped {
            take_back_repetition(names);
        }
    }
}

/// Removes the newest names if they repeat those before them.
fn take_back_repetition(names: &mut Vec<u32>) {
    for cycle in 1..=LONGEST_CYCLE.min(names.len() / 2) {
        let (rest, last) = names.split_at(names.len() - cycle);
        if rest.ends_with(last) {
            names.truncate(rest.len());
            return;
        }
    }
}

/// The hash of a sequence of names. Wide enough that two of some millions of
/// stacks do not meet by chance.
pub(crate) fn hash(names: impl IntoIterator<Item = u32>) -> u128 {
    let (mut low, mut high) = (0x243f_6a88_85a3_08d3_u64, 0x1319_8a2e_0370_7344_u64);
    let mut length = 0;
    for name in names {
        low = fold(low ^ u64::from(name), 0x9e37_79b9_7f4a_7c15);
        high = fold(
            high ^ u64::from(name).rotate_left(32),
            0xd6e8_feb8_6659_fd93,
        );
        length += 1;
    }
    low = fold(low ^ length, 0xa076_1d64_78bd_642f);
    high = fold(high ^ length, 0xe703_7ed1_a0b4_28db);
    u128::from(high) << 64 | u128::from(low)
}

/// Multiplies and folds the two halves of the product, so that every bit in
/// reaches every bit out.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // The sum keeps a zero factor from wiping out what was hashed before.
    (product as u64 ^ (product >> 64) as u64).wrapping_add(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_taken_back() {
        let collapse = |names: &[u32]| {
            let mut kept = Vec::new();
            for &name in names {
                kept.push(name);
                take_back_repetition(&mut kept);
            }
            kept
        };
        assert_eq!(collapse(&[1, 2, 2, 2, 3]), [1, 2, 3]);
        assert_eq!(collapse(&[1, 2, 3, 2, 3, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(collapse(&[1, 2, 1]), [1, 2, 1]);
    }

    #[test]
    fn hashes_tell_order_and_length() {
        let all = [
            hash([]),
            hash([0]),
            hash([0, 0]),
            hash([1, 2]),
            hash([2, 1]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }
}
