//! Numbers as people read them: grouped counts, binary units, shares, times.

/// `1234567` as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 block`, `1,000 blocks`.
pub fn plural(number: usize, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{} {noun}", count(number as u64))
}

/// A number of bytes, in the largest binary unit in which it is at least 1.
pub fn bytes(number: u64) -> String {
    if number < 1024 {
        return format!("{number} B");
    }
    large_bytes(number as f64)
}

/// A number of bytes of at least 1024.
fn large_bytes(number: f64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = number / 1024.0;
    let mut unit = 0;
    // A value that would be printed as 1024.0 is 1.0 of the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A count divided by `per`, for example by iterations: `21`, `0.50`, `0.0012`.
pub fn count_each(number: u64, per: f64) -> String {
    let part = number as f64 / per;
    match part {
        whole if whole.fract() == 0.0 && whole < 1e15 => count(whole as u64),
        small if small < 1e-4 => format!("{small:.2e}"),
        small if small < 0.1 => format!("{small:.4}"),
        part => {
            let text = format!("{part:.2}");
            match text.split_once('.') {
                Some((whole, decimals)) => {
                    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
                    format!("{whole}.{decimals}")
                }
                None => text,
            }
        }
    }
}

/// A number of bytes divided by `per`.
pub fn bytes_each(number: u64, per: f64) -> String {
    match number as f64 / per {
        part if part < 1024.0 => format!("{} B", count_each(number, per)),
        part => large_bytes(part),
    }
}

/// A number by which figures are divided: `11,000`, `0.5`.
pub fn divisor(per: f64) -> String {
    match per.fract() == 0.0 && per < 1e15 {
        true => count(per as u64),
        false => per.to_string(),
    }
}

/// A part of a whole in percent; empty if the whole is 0.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// A part of 1 in percent: `12.5%`.
pub fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Microseconds in the unit that suits them.
pub fn duration(us: f64) -> String {
    match us {
        us if us < 0.001 => "0 s".to_owned(),
        us if us < 1.0 => format!("{:.0} ns", us * 1e3),
        us if us < 1e3 => format!("{us:.1} µs"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us if us < 120e6 => format!("{:.2} s", us / 1e6),
        us if us < 7200e6 => format!("{:.1} min", us / 60e6),
        us => format!("{:.1} h", us / 3600e6),
    }
}

/// A moment as `2026-11-21 21:05:38 UTC`.
pub fn moment(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02} UTC",
        second % 60
    )
}

/// Days since 1970 as a date: H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(12_345_678), "12,345,678");
    }

    #[test]
    fn bytes_go_up_in_powers_of_1024() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn what_is_divided_has_as_many_digits_as_it_needs() {
        assert_eq!(count_each(231_000, 11_000.0), "21");
        assert_eq!(count_each(231_001, 11_000.0), "21.00");
        assert_eq!(count_each(12_345_678, 10.0), "1,234,567.80");
        assert_eq!(count_each(1, 2.0), "0.50");
        assert_eq!(count_each(13, 11_000.0), "0.0012");
        assert_eq!(count_each(1, 1e6), "1.00e-6");
        assert_eq!(count_each(0, 7.0), "0");
        assert_eq!(bytes_each(3_000, 1_000.0), "3 B");
        assert_eq!(bytes_each(3_072_000, 1_000.0), "3.0 KiB");
        assert_eq!(divisor(11_000.0), "11,000");
        assert_eq!(divisor(0.5), "0.5");
    }

    #[test]
    fn a_share_of_nothing_is_empty() {
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(share(0, 0), "");
    }

    #[test]
    fn durations_take_the_unit_that_suits_them() {
        assert_eq!(duration(0.0), "0 s");
        assert_eq!(duration(0.25), "250 ns");
        assert_eq!(duration(1_500.0), "1.5 ms");
        assert_eq!(duration(90e6), "90.00 s");
        assert_eq!(duration(3_600e6), "60.0 min");
    }

    #[test]
    fn moments_are_dates_of_the_calendar() {
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
        // date -u -d @1709210096: a leap day.
        assert_eq!(moment(1_709_210_096_000_000_000), "2024-02-29 12:34:56 UTC");
    }
}
