//! Absolute upper limits, such as `12 MiB` or `0`, which hold whatever was accepted.

use allotrope_profile::{Metric, Unit};
use allotrope_report::numbers::count;
use thiserror::Error;

/// An invalid limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LimitError {
    /// The text is no limit of a number of bytes.
    #[error(
        "\"{0}\" is no number of bytes: write it as `4096`, or as a text with one of the units {known}, \
         for example \"12 MiB\"", known = names()
    )]
    Bytes(String),
    /// The text is no limit of a count.
    #[error("it counts things that have no unit: write a whole number, for example `0`")]
    Count,
}

/// The units and their bytes: those of IEC 80000-13 and of the SI.
const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// Largest number of decimals of an amount.
const DECIMALS: usize = 6;

fn names() -> String {
    let mut names = UNITS.map(|(name, _)| name);
    names.reverse();
    names.join(", ")
}

/// Reads a text with a unit, `12 MiB` or `1.5GB`, as the limit of a metric. Parts of a byte
/// are dropped.
///
/// # Errors
/// A text that is no number of bytes, or a metric that has another unit.
pub fn parse(text: &str, metric: Metric) -> Result<i64, LimitError> {
    if metric.unit() != Unit::Bytes {
        return Err(LimitError::Count);
    }
    amount(text.trim()).ok_or_else(|| LimitError::Bytes(text.to_owned()))
}

fn amount(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_'))?;
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let number = number.replace('_', "");
    let (whole, decimals) = number.split_once('.').unwrap_or((&number, "0"));
    if decimals.is_empty() || decimals.len() > DECIMALS {
        return None;
    }
    let millionths: u64 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(*bytes)?;
    let part = u128::from(millionths) * u128::from(*bytes) / 1_000_000;
    i64::try_from(u128::from(whole) + part).ok()
}

/// A limit for people: bytes in the largest unit of which they are a multiple.
pub fn text(limit: i64, metric: Metric) -> String {
    if metric.unit() != Unit::Bytes {
        return number(limit);
    }
    let bytes = limit.unsigned_abs();
    let fits = |unit: &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(unit.1);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("B", 1));
    format!(
        "{} {name}",
        number(i64::try_from(bytes / unit).unwrap_or(limit))
    )
}

/// `1,234`, `-5`.
pub fn number(figure: i64) -> String {
    let sign = if figure < 0 { "-" } else { "" };
    format!("{sign}{}", count(figure.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_and_written() {
        for (written, bytes, shown) in [
            ("12 MiB", 12 << 20, "12 MiB"),
            ("12MiB", 12 << 20, "12 MiB"),
            ("0 B", 0, "0 B"),
            ("1.5 kB", 1_500, "1,500 B"),
            ("2 KiB", 2_048, "2 KiB"),
            ("1_000 MB", 1_000_000_000, "1 GB"),
            ("0.5 GiB", 1 << 29, "512 MiB"),
            ("3 GB", 3_000_000_000, "3 GB"),
        ] {
            let limit = parse(written, Metric::PeakBytes).unwrap_or_else(|it| panic!("{it}"));
            assert_eq!(limit, bytes, "{written}");
            assert_eq!(text(limit, Metric::PeakBytes), shown);
        }
        assert_eq!(text(1_234, Metric::Allocations), "1,234");
    }

    #[test]
    fn what_is_no_amount_is_refused_with_an_example() {
        for text in [
            "",
            "12",
            "MiB",
            "12 mib",
            "-1 B",
            "1. kB",
            "1.2.3 kB",
            "99999999999 GiB",
        ] {
            let error = parse(text, Metric::Bytes).expect_err(text).to_string();
            assert!(error.contains("B, kB, KiB, MB, MiB, GB, GiB"), "{error}");
        }
        assert_eq!(parse("1 kB", Metric::Remaining), Err(LimitError::Count));
    }
}
