//! Numbers, sizes, times and patterns in options.

use std::ops::RangeBounds;
use std::time::Duration;

use allotrope_sampling::Period;
use allotrope_shm::location::Request;
use allotrope_text::numbers::count;

/// The parser of a whole number in a range. Without an upper bound, that is the type's.
pub fn whole<T>(
    range: impl RangeBounds<u64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64> + 'static,
{
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let least = match range.start_bound() {
        Included(least) => *least,
        Excluded(before) => before.saturating_add(1),
        Unbounded => 0,
    };
    let bound = match range.end_bound() {
        Included(most) => Some(*most),
        Excluded(after) => Some(after.saturating_sub(1)),
        Unbounded => None,
    };
    move |text| {
        let number = text.parse::<u64>().ok();
        let number = number.filter(|it| range.contains(it));
        let number = number.and_then(|it| T::try_from(it).ok());
        number.ok_or_else(|| match bound {
            Some(most) => format!(
                "write a whole number from {} to {}",
                count(least),
                count(most)
            ),
            None => format!("write a whole number such as 12, at least {}", count(least)),
        })
    }
}

/// Bytes of a size such as `512KiB`, `1 MiB`, `64k` or `4096`; units are powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || "write a size such as `4096`, `512KiB` or `1MiB`".to_owned();
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * (1_u64 << shift) as f64;
    match bytes < 2_f64.powi(63) {
        true => Ok(bytes as u64),
        false => Err(wrong()),
    }
}

/// A period.
pub fn period(text: &str) -> Result<Period, String> {
    let bytes = size(text)?;
    Period::new(bytes).ok_or_else(|| "the period is 1 byte to 1 TiB".to_owned())
}

/// How a process is sampled from the start: a period, or `off`.
pub fn period_or_off(text: &str) -> Result<Request, String> {
    match text {
        "off" => Ok(Request::Watch(0)),
        _ => period(text).map(|it| Request::Watch(it.bytes())),
    }
}

/// A time such as `10s`, `5m` or `1h`; without a unit in seconds.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time such as `500ms`, `10s`, `5m` or `1h`".to_owned();
    let (number, unit) = split(text);
    let factor = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    // A thousand years is for ever.
    Ok(Duration::from_secs_f64((number * factor).min(3e10)))
}

/// The time between two reports.
pub fn interval(text: &str) -> Result<Duration, String> {
    match time(text)? {
        short if short < Duration::from_millis(100) => {
            Err("the shortest time between two reports is 100ms".to_owned())
        }
        time => Ok(time),
    }
}

/// An age.
pub fn age(text: &str) -> Result<Duration, String> {
    time(text)
}

/// A regular expression.
pub fn pattern(text: &str) -> Result<regex_lite::Regex, String> {
    regex_lite::Regex::new(&format!("^(?:{text})$"))
        .map_err(|_| "write a regular expression such as `worker.*`".to_owned())
}

/// A pattern as it was typed.
pub fn typed(pattern: &regex_lite::Regex) -> &str {
    let text = pattern.as_str();
    let inner = text
        .strip_prefix("^(?:")
        .and_then(|it| it.strip_suffix(")$"));
    inner.unwrap_or(text)
}

/// The number at the start, and the unit.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    (number, unit.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_a_range() {
        let depth = whole::<u32>(1..=4096);
        assert_eq!(depth("1"), Ok(1));
        assert_eq!(depth("4096"), Ok(4096));
        for text in ["0", "4097", "-1", "1.5", "abc", "", "1 "] {
            let wrong = "write a whole number from 1 to 4,096";
            assert_eq!(depth(text), Err(wrong.to_owned()), "{text}");
        }
        let id = whole::<u32>(..);
        assert_eq!(id("0"), Ok(0));
        // One more than an id can be.
        let wrong = Err("write a whole number such as 12, at least 0".to_owned());
        assert_eq!(id("4294967296"), wrong);
    }

    #[test]
    fn sizes_have_binary_units() {
        for (text, bytes) in [
            ("1", 1),
            ("512KiB", 512 << 10),
            ("1.5 MiB", 3 << 19),
            ("2g", 2 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "1 KB", "-1", "1e3", "9999999999T", "1..2"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn periods_are_from_1_byte_to_1_tib() {
        assert!(period("1").is_ok() && period("1TiB").is_ok());
        assert_eq!(period_or_off("4KiB"), Ok(Request::Watch(4096)));
        assert_eq!(period_or_off("off"), Ok(Request::Watch(0)));
        assert!(period_or_off("0").is_err() && period("off").is_err());
        assert!(period("0").is_err() && period("0.5").is_err() && period("1025GiB").is_err());
    }

    #[test]
    fn times_have_units() {
        assert_eq!(age("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(age("0"), Ok(Duration::ZERO));
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        for text in ["0", "99ms", "x", "1 year", "-1s", ""] {
            assert!(interval(text).is_err(), "{text}");
        }
        assert!(age("99999999999999999999999999999999d").is_ok());
    }

    #[test]
    fn a_pattern_matches_the_whole_name() {
        let pattern = pattern("worker.*|web").expect("a pattern");
        assert!(pattern.is_match("worker-1") && pattern.is_match("web"));
        assert!(!pattern.is_match("my-worker") && !pattern.is_match("website"));
    }
}
