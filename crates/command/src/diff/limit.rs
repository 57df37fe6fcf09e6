//! The limits of `--fail-on`: by how much a metric may rise, as `allocations>+0` or
//! `bytes>+2%`.

use std::fmt;
use std::str::FromStr;

use allotrope_allocators::cpu::compare::METRIC as CPU_TIME;
use allotrope_allocators::paths::compare::METRIC as INSTRUCTIONS;
use allotrope_profile::Metric;

use crate::metric;

/// A limit on a metric of stacks, on the instructions of `allotrope paths`, or on the CPU time of
/// `allotrope cpu`.
#[derive(Debug, Clone, PartialEq)]
pub enum FailOn {
    /// A limit on a metric of stacks.
    Metric(Limit),
    /// A limit on the instructions of saved paths.
    Instructions(allotrope_allocators::paths::compare::Limit),
    /// A limit on the CPU time of saved samples.
    CpuTime(allotrope_allocators::cpu::compare::Limit),
}

impl FailOn {
    /// The limit on a metric of stacks.
    pub fn metric(&self) -> Option<&Limit> {
        match self {
            Self::Metric(limit) => Some(limit),
            Self::Instructions(_) | Self::CpuTime(_) => None,
        }
    }
}

impl FromStr for FailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with(INSTRUCTIONS) {
            return allotrope_allocators::paths::compare::Limit::parse(text)
                .map(Self::Instructions);
        }
        if text.trim_start().starts_with(CPU_TIME) {
            return allotrope_allocators::cpu::compare::Limit::parse(text).map(Self::CpuTime);
        }
        text.parse().map(Self::Metric)
    }
}

/// A rise above which a comparison fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    metric: Metric,
    rise: Rise,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rise {
    /// A rise by this number.
    By(u64),
    /// A rise by this percentage of the number before.
    Percent(f64),
}

impl Limit {
    /// The metric that it limits.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Whether a rise from `before` is more than allowed.
    pub fn is_exceeded(&self, rise: i64, before: u64) -> bool {
        let Ok(rise) = u64::try_from(rise) else {
            return false;
        };
        match self.rise {
            Rise::By(allowed) => rise > allowed,
            Rise::Percent(allowed) => rise > 0 && rise as f64 * 100.0 > allowed * before as f64,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "write METRIC>+N or METRIC>+N%, as in allocations>+0 or bytes>+2%".to_owned();
        let (metric, rise) = text.split_once('>').ok_or_else(wrong)?;
        let metric = metric::named(metric.trim()).map_err(|error| {
            format!("{error}, of two reports of `allotrope paths`: {INSTRUCTIONS}, and of `allotrope cpu`: {CPU_TIME}")
        })?;
        let rise = rise.trim().strip_prefix('+').ok_or_else(wrong)?;
        // A number has no sign of its own.
        if !rise.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            return Err(wrong());
        }
        let rise = match rise.strip_suffix('%') {
            Some(percent) => {
                let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
                if !percent.is_finite() {
                    return Err(wrong());
                }
                Rise::Percent(percent)
            }
            None => Rise::By(rise.parse().map_err(|_| wrong())?),
        };
        Ok(Self {
            metric,
            rise,
            text: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Limit {
        text.parse().expect(text)
    }

    #[test]
    fn a_count_is_exceeded_by_one_more() {
        let none = limit("allocations>+0");
        assert_eq!(none.metric(), Metric::Allocations);
        assert!(!none.is_exceeded(0, 10));
        assert!(none.is_exceeded(1, 10));
        assert!(!none.is_exceeded(-5, 10));
        assert!(!limit("leaked>+16").is_exceeded(16, 0));
        assert!(limit("leaked>+16").is_exceeded(17, 0));
    }

    #[test]
    fn a_percentage_is_of_the_number_before() {
        let two = limit("bytes > +2%");
        assert_eq!(two.metric(), Metric::Bytes);
        assert!(!two.is_exceeded(2, 100));
        assert!(two.is_exceeded(3, 100));
        // Any rise from 0 exceeds every percentage.
        assert!(two.is_exceeded(1, 0));
        assert!(!two.is_exceeded(0, 0));
        assert!(limit("peak>+0.5%").is_exceeded(6, 1000));
    }

    #[test]
    fn an_unknown_metric_has_all_names() {
        let error = "INSTRUCTIONS>+2".parse::<FailOn>().unwrap_err();
        assert!(
            error.contains("INSTRUCTIONS") && error.contains("allocations"),
            "{error}"
        );
        assert!(error.contains(": instructions, and of"), "{error}");
        assert!(error.ends_with(": cpu-time"), "{error}");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "allocations",
            "allocations>5",
            "things>+5",
            "bytes>+x",
            "bytes>+-1",
            "bytes>+-1%",
            "bytes>+-0%",
            "bytes>++1",
            "bytes>++1%",
            "bytes>+nan%",
            "bytes<+1",
            "",
        ] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }
}
