//! How far a number may be from its budget, such as `+0 -1%`, `±5` or `-any`. In a
//! direction that is not given the number must be exact.

use std::fmt;

use thiserror::Error;

/// An invalid tolerance.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "\"{text}\" is no tolerance: write how far a number may be above its budget as \"+N\" or \"+N%\", \
     below it as \"-N\" or \"-N%\", both ways as \"±N\", without limit as \"-any\", for example \"+0 -1%\""
)]
pub struct ToleranceError {
    text: String,
}

/// How far a number may be above and below its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tolerance {
    upper: Distance,
    lower: Distance,
}

/// Parts of a percent: percentages have at most four decimals.
const PARTS: u64 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Distance {
    Absolute(u64),
    /// A distance in 1 / [`PARTS`] of a percent of the budget.
    Relative(u64),
    Any,
}

impl Default for Distance {
    fn default() -> Self {
        Self::Absolute(0)
    }
}

/// The position of a number relative to the tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The number is within the tolerance.
    Within,
    /// The number is above the upper limit.
    Above,
    /// The number is below the lower limit.
    Below,
}

impl Tolerance {
    /// A tolerance in absolute numbers.
    pub fn absolute(upper: u64, lower: u64) -> Self {
        Self {
            upper: Distance::Absolute(upper),
            lower: Distance::Absolute(lower),
        }
    }

    /// Parses a tolerance.
    ///
    /// # Errors
    /// An invalid text, or a direction that is given twice.
    pub fn parse(text: &str) -> Result<Self, ToleranceError> {
        let error = || ToleranceError {
            text: text.to_owned(),
        };
        let mut given = [None, None];
        let parts = text.split([' ', ',', '\t']).filter(|part| !part.is_empty());
        for part in parts {
            let (directions, distance) = part_of(part).ok_or_else(error)?;
            for &direction in directions {
                if given[direction].replace(distance).is_some() {
                    return Err(error());
                }
            }
        }
        if given == [None, None] {
            return Err(error());
        }
        Ok(Self {
            upper: given[UP].unwrap_or_default(),
            lower: given[DOWN].unwrap_or_default(),
        })
    }

    /// The position of a number relative to the budget's tolerance.
    pub fn position(&self, budget: i64, number: i64) -> Position {
        let away = i128::from(number) - i128::from(budget);
        let allows = |distance: Distance| match distance {
            Distance::Absolute(most) => i128::from(most) >= away.abs(),
            Distance::Relative(parts) => {
                let budget = i128::from(budget).abs();
                budget.saturating_mul(parts.into()) >= away.abs() * 100 * i128::from(PARTS)
            }
            Distance::Any => true,
        };
        if away > 0 && !allows(self.upper) {
            Position::Above
        } else if away < 0 && !allows(self.lower) {
            Position::Below
        } else {
            Position::Within
        }
    }

    /// Whether only the budget itself is allowed.
    pub fn is_exact(&self) -> bool {
        *self == Self::default()
    }
}

const UP: usize = 0;
const DOWN: usize = 1;

fn part_of(part: &str) -> Option<(&'static [usize], Distance)> {
    let signs: [(&str, &[usize]); 6] = [
        ("+/-", &[UP, DOWN]),
        ("+-", &[UP, DOWN]),
        ("±", &[UP, DOWN]),
        ("+", &[UP]),
        ("-", &[DOWN]),
        // U+2212, the minus sign of typeset documents.
        ("\u{2212}", &[DOWN]),
    ];
    let (number, directions) = signs
        .into_iter()
        .find_map(|(sign, directions)| Some((part.strip_prefix(sign)?, directions)))?;
    Some((directions, distance(number)?))
}

fn distance(number: &str) -> Option<Distance> {
    if number == "any" {
        return Some(Distance::Any);
    }
    let Some(percent) = number.strip_suffix('%') else {
        return whole(number).map(Distance::Absolute);
    };
    let (before, behind) = percent.split_once('.').unwrap_or((percent, "0"));
    if behind.len() > 4 {
        return None;
    }
    let behind = whole(&format!("{behind:0<4}"))?;
    let parts = whole(before)?.checked_mul(PARTS)?.checked_add(behind)?;
    Some(Distance::Relative(parts))
}

/// A whole number without a sign, which `str::parse` would accept.
fn whole(digits: &str) -> Option<u64> {
    let digits: String = digits.chars().filter(|&c| c != '_').collect();
    let only = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    only.then(|| digits.parse().ok()).flatten()
}

impl fmt::Display for Distance {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(distance) => write!(to, "{distance}"),
            Self::Relative(parts) => {
                let behind = format!(".{:04}", parts % PARTS);
                let behind = behind.trim_end_matches('0').trim_end_matches('.');
                write!(to, "{}{behind}%", parts / PARTS)
            }
            Self::Any => to.write_str("any"),
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_exact() {
            return to.write_str("exact");
        }
        if self.upper == self.lower {
            return write!(to, "±{}", self.upper);
        }
        write!(to, "+{} -{}", self.upper, self.lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerance(text: &str) -> Tolerance {
        Tolerance::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_direction_that_is_not_given_is_exact() {
        let upper = tolerance("+5");
        assert_eq!(upper.position(100, 105), Position::Within);
        assert_eq!(upper.position(100, 106), Position::Above);
        assert_eq!(upper.position(100, 99), Position::Below);
        assert_eq!(Tolerance::default().position(7, 7), Position::Within);
        assert_eq!(Tolerance::default().position(7, 8), Position::Above);
        assert_eq!(Tolerance::default().position(7, 6), Position::Below);
    }

    #[test]
    fn percent_is_of_the_budget_and_exact() {
        // 1 % of 27,300 is 273; of 99 it is less than 1.
        let one = tolerance("+0 -1%");
        assert_eq!(one.position(27_300, 27_027), Position::Within);
        assert_eq!(one.position(27_300, 27_026), Position::Below);
        assert_eq!(one.position(27_300, 27_301), Position::Above);
        assert_eq!(one.position(99, 98), Position::Below);
        // 0.0001 % of 1,000,000 is 1.
        let fine = tolerance("±0.0001%");
        assert_eq!(fine.position(1_000_000, 1_000_001), Position::Within);
        assert_eq!(fine.position(1_000_000, 1_000_002), Position::Above);
    }

    #[test]
    fn every_spelling_of_both_ways() {
        for text in ["±5", "+-5", "+/-5", "+5 -5", "+5, \u{2212}5"] {
            assert_eq!(tolerance(text), Tolerance::absolute(5, 5), "{text}");
            assert_eq!(tolerance(text).to_string(), "±5");
        }
        assert_eq!(tolerance("+0 -1.50%").to_string(), "+0 -1.5%");
        assert_eq!(tolerance("+0 -any").position(100, 0), Position::Within);
        assert_eq!(tolerance("+0 -any").to_string(), "+0 -any");
        assert_eq!(tolerance("+1_000"), Tolerance::absolute(1000, 0));
    }

    #[test]
    fn negative_budgets_work_like_positive_ones() {
        let five = tolerance("±5");
        assert_eq!(five.position(0, -5), Position::Within);
        assert_eq!(five.position(0, -6), Position::Below);
        assert_eq!(
            tolerance("±any").position(i64::MIN, i64::MAX),
            Position::Within
        );
        assert_eq!(
            tolerance("+0").position(i64::MIN, i64::MAX),
            Position::Above
        );
    }

    #[test]
    fn an_invalid_tolerance_is_refused_with_an_example() {
        for text in [
            "",
            "5",
            "+",
            "+x",
            "+5 +6",
            "±1 -2",
            "+-+5",
            "1%",
            "+1.23456%",
            "+5 percent",
            "+ 5",
            "+99999999999999999999",
        ] {
            let error = Tolerance::parse(text).expect_err(text);
            assert!(error.to_string().contains("+0 -1%"), "{error}");
        }
    }
}
