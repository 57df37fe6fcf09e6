//! Settings of a measurement in environment variables, which `allotrope test` sets.

/// The number in an environment variable; `None` if the variable is not set or does not
/// contain a decimal number of at most 32 bits.
pub(crate) fn setting(name: &str) -> Option<u32> {
    number(std::env::var_os(name)?.to_str()?)
}

/// Parses a decimal number of 32 bits, in the same way as `allotrope.h`.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn only_decimal_numbers_are_accepted() {
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("0010"), Some(10));
        assert_eq!(number("4294967295"), Some(u32::MAX));
        for text in ["", " 1", "+1", "-1", "1e3", "0x10", "4294967296", "ten"] {
            assert_eq!(number(text), None, "{text:?}");
        }
    }
}
