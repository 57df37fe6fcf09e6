//! Compares function names: which operator a C++ function implements, and how similar two
//! names are.

/// The operator that a C++ operator function implements (`+` of
/// `a::operator+`); `None` for other functions. Operators are never matched as
/// renamed functions.
pub(crate) fn operator_of(name: &str) -> Option<&str> {
    let (before, operator) = name.rsplit_once("operator")?;
    let whole_word = before
        .chars()
        .next_back()
        .is_none_or(|c| !c.is_alphanumeric() && c != '_');
    let symbol = operator.chars().next()?;
    (whole_word && !symbol.is_alphanumeric() && symbol != '_').then_some(operator)
}

/// The similarity of two names from 0 to 256: the Sørensen–Dice coefficient of
/// their bigrams (pairs of consecutive bytes).
pub(crate) fn bigram_similarity(a: &str, b: &str) -> u32 {
    let pairs = |name: &str| {
        let mut pairs: Vec<[u8; 2]> = name.as_bytes().windows(2).map(|p| [p[0], p[1]]).collect();
        pairs.sort_unstable();
        pairs
    };
    let (a, b) = (pairs(a), pairs(b));
    if a.is_empty() || b.is_empty() {
        return 0;
    }
    let (mut i, mut j, mut common) = (0, 0, 0_usize);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                common += 1;
                i += 1;
                j += 1;
            }
        }
    }
    (common * 512 / (a.len() + b.len())) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_recognised() {
        assert_eq!(operator_of("a::operator+="), Some("+="));
        assert_eq!(operator_of("operator()"), Some("()"));
        assert_eq!(operator_of("operator new"), Some(" new"));
        assert_eq!(operator_of("my_operator"), None);
        assert_eq!(operator_of("operators"), None);
    }

    #[test]
    fn similarity_is_the_share_of_common_bigrams() {
        assert_eq!(bigram_similarity("parse", "parse"), 256);
        assert_eq!(bigram_similarity("abc", "xyz"), 0);
        // `pa ar rs se` and `pa ar rs se e2`: 4 of 4 and 4 of 5.
        assert_eq!(bigram_similarity("parse", "parse2"), 512 * 4 / 9);
        assert_eq!(bigram_similarity("", "x"), 0);
    }
}
