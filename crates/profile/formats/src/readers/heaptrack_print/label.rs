//! Parses labels, the lines before frames: their list and their figures.

use allotrope_profile::{Metric, MetricValues};

use super::malformed;
use crate::error::Problem;

/// The lists of heaptrack_print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Calls,
    Peaks,
    Leaks,
    Temporary,
}

impl List {
    pub const ALL: [Self; 4] = [Self::Calls, Self::Peaks, Self::Leaks, Self::Temporary];
}

/// A line before frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label {
    pub list: List,
    /// The label is of a merged location, not of a stack.
    pub is_of_location: bool,
    pub figures: MetricValues,
}

/// Whether a line is a label, with valid numbers or not.
pub(super) fn is_label(line: &str) -> bool {
    numbers(line).is_some()
}

/// Parses a label; `None` for other lines.
pub(super) fn parse(line: &str) -> Result<Option<Label>, Problem> {
    let Some((list, pairs)) = numbers(line) else {
        return Ok(None);
    };
    let mut figures = MetricValues::default();
    for (metric, text) in pairs {
        figures[metric as usize] = match metric {
            Metric::Allocations | Metric::Temporary => count(text)?,
            _ => bytes(text)?,
        };
    }
    Ok(Some(Label {
        list,
        is_of_location: !line.trim_end().ends_with(':'),
        figures,
    }))
}

/// The numbers of a label, with their metrics.
fn numbers(line: &str) -> Option<(List, [(Metric, &str); 2])> {
    let text = line.trim_end();
    let text = text.strip_suffix(':').unwrap_or(text);
    let (first, rest) = text.split_once(' ')?;
    let begins_with_number = first
        .trim_start_matches('-')
        .starts_with(|c: char| c.is_ascii_digit());
    if !begins_with_number || !(rest.ends_with(" from")) {
        return None;
    }
    let words: Vec<&str> = rest.split(' ').collect();
    let (list, metric, second) = match words[..] {
        ["calls", "with", bytes, "peak", "consumption", "from"]
        | [
            "calls",
            "to",
            "allocation",
            "functions",
            "with",
            bytes,
            "peak",
            "consumption",
            "from",
        ] => {
            return Some((
                List::Calls,
                [(Metric::Allocations, first), (Metric::PeakBytes, bytes)],
            ));
        }
        ["peak", "memory", "consumed", "over", calls, "calls", "from"]
        | ["consumed", "over", calls, "calls", "from"] => (List::Peaks, Metric::PeakBytes, calls),
        ["leaked", "over", calls, "calls", "from"] => (List::Leaks, Metric::LeakedBytes, calls),
        [
            "temporary",
            "allocations",
            "of",
            calls,
            "allocations",
            "in",
            "total",
            _,
            "from",
        ] => (List::Temporary, Metric::Temporary, calls),
        _ => return None,
    };
    Some((list, [(metric, first), (Metric::Allocations, second)]))
}

fn refuse_negative(text: &str) -> Result<(), Problem> {
    if text.starts_with('-') {
        return Err(malformed(
            "a negative number: this is the difference of two recordings (heaptrack_print -d); give the two recordings themselves",
        ));
    }
    Ok(())
}

fn count(text: &str) -> Result<u64, Problem> {
    refuse_negative(text)?;
    let count = text.parse();
    count.map_err(|_| malformed("a count is no number of at most 64 bits"))
}

/// `57.00K` → 57000: heaptrack's units are powers of 1000.
fn bytes(text: &str) -> Result<u64, Problem> {
    refuse_negative(text)?;
    let wrong = || malformed("a number of bytes is expected, as 57.00K");
    let number = text.trim_end_matches(['B', 'K', 'M', 'G', 'T']);
    let unit: u64 = match &text[number.len()..] {
        "B" => 1,
        "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut bytes = whole
        .parse::<u64>()
        .ok()
        .and_then(|whole| whole.checked_mul(unit))
        .ok_or_else(wrong)?;
    let mut unit_of_digit = unit;
    for digit in fraction.chars() {
        unit_of_digit /= 10;
        let digit = u64::from(digit.to_digit(10).ok_or_else(wrong)?);
        bytes = bytes.checked_add(digit * unit_of_digit).ok_or_else(wrong)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_powers_of_a_thousand() {
        for (text, expected) in [
            ("0B", 0),
            ("999B", 999),
            ("57.00K", 57_000),
            ("1.25M", 1_250_000),
            ("72.70K", 72_700),
            ("3.01G", 3_010_000_000),
        ] {
            assert_eq!(bytes(text).unwrap(), expected, "{text}");
        }
        for text in ["", "5", "K", "1.2.3K", "1xK", "5KB", "99999999999999999T"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_kind_of_label_is_parsed() {
        for (line, list, is_of_location) in [
            (
                "117 calls to allocation functions with 57.00K peak consumption from",
                List::Calls,
                true,
            ),
            (
                "100 calls with 0B peak consumption from:",
                List::Calls,
                false,
            ),
            (
                "72.70K peak memory consumed over 1 calls from",
                List::Peaks,
                true,
            ),
            ("50.00K consumed over 10 calls from:", List::Peaks, false),
            ("7.00K leaked over 117 calls from", List::Leaks, true),
            (
                "101 temporary allocations of 117 allocations in total (86.32%) from",
                List::Temporary,
                true,
            ),
            (
                "1 temporary allocations of 10 allocations in total (10.00%) from:",
                List::Temporary,
                false,
            ),
        ] {
            let label = parse(line).unwrap().unwrap();
            assert_eq!(
                (label.list, label.is_of_location),
                (list, is_of_location),
                "{line}"
            );
        }
        for line in [
            "calls to allocation functions: 119 (119000/s)",
            "from",
            "1 calls from",
            "",
        ] {
            assert!(!is_label(line), "{line}");
        }
    }
}
