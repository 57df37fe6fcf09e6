//! Reduces a stack to the names that count at a match level, and hashes them.
//! Stacks with equal hashes are the same stack at that level.

use crate::frames::FrameTable;
use crate::match_level::MatchLevel;

/// Longest cycle of functions whose repetition is treated as recursion.
const MAX_CYCLE: usize = 4;

/// Replaces `names` by the names of a stack at a level, innermost first. The
/// result is empty only if the stack is.
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
    // A stack with too few names left would equal too many others.
    let least = if ignore_others { 2 } else { 1 };
    let kept = stack.iter().filter(|&&frame| !ignored(frame)).count();
    for &frame in stack {
        if kept >= least && ignored(frame) {
            continue;
        }
        names.push(table.name(frame, level));
        if level >= MatchLevel::Unwrapped {
            collapse_repetition(names);
        }
    }
}

/// Removes the last names if they repeat the ones before them.
fn collapse_repetition(names: &mut Vec<u32>) {
    for cycle in 1..=MAX_CYCLE.min(names.len() / 2) {
        if names[names.len() - 1] != names[names.len() - 1 - cycle] {
            continue;
        }
        let (rest, last) = names.split_at(names.len() - cycle);
        if rest.ends_with(last) {
            names.truncate(rest.len());
            return;
        }
    }
}

/// Hashes a sequence of names to 128 bits, so that collisions among millions of
/// stacks are improbable.
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

/// Multiplies to 128 bits and folds the halves, so that every input bit affects
/// every output bit (as wyhash does).
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // Without adding `a`, a factor of zero would erase the previous state.
    (product as u64 ^ (product >> 64) as u64).wrapping_add(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_collapsed() {
        let collapse = |names: &[u32]| {
            let mut collapsed = Vec::new();
            for &name in names {
                collapsed.push(name);
                collapse_repetition(&mut collapsed);
            }
            collapsed
        };
        assert_eq!(collapse(&[1, 2, 2, 2, 3]), [1, 2, 3]);
        assert_eq!(collapse(&[1, 2, 3, 2, 3, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(collapse(&[1, 2, 1]), [1, 2, 1]);
    }

    #[test]
    fn hashes_depend_on_order_and_length() {
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
