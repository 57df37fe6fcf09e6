//! Builders of the numbers of a finding, and the words that several rules use.

use allotrope_text::numbers::{count, duration};

use crate::finding::{Number, Value};

pub(crate) fn blocks(name: &'static str, value: u64) -> Number {
    let value = Value::Count(value);
    Number { name, value }
}

pub(crate) fn bytes(name: &'static str, value: u64) -> Number {
    let value = Value::Bytes(value);
    Number { name, value }
}

pub(crate) fn ns(name: &'static str, value: u64) -> Number {
    let value = Value::Nanoseconds(value);
    Number { name, value }
}

pub(crate) fn share(name: &'static str, value: f64) -> Number {
    let value = Value::Share(value);
    Number { name, value }
}

pub(crate) fn number(name: &'static str, value: f64) -> Number {
    let value = Value::Number(value);
    Number { name, value }
}

/// `part / whole`; 0 if the whole is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}

/// A share as `92 %`, and as `0.4 %` if it is small.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        small if small < 9.95 => format!("{small:.1} %"),
        // Not 100 % if something is missing.
        nearly if nearly < 100.0 => format!("{:.0} %", nearly.min(99.0)),
        _ => "100 %".to_owned(),
    }
}

/// Nanoseconds in the unit that suits them.
pub(crate) fn time(ns: u64) -> String {
    duration(ns as f64 / 1000.0)
}

/// `1 block`, `1,000 blocks`.
pub(crate) fn some(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number))
}

/// `main is`, or `main are` if there are several blocks of it.
pub(crate) fn are(function: String, number: u64) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{function} {verb}")
}
