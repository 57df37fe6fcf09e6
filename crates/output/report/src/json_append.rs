//! Appends fields to JSON text.

use allotrope_profile::Lifetimes;

/// Appends a comma and a field. No name has characters to escape.
pub(crate) fn append_number(name: &str, number: u64, text: &mut Vec<u8>) {
    append_name(name, text);
    let mut digits = itoa::Buffer::new();
    text.extend_from_slice(digits.format(number).as_bytes());
}

/// Appends a comma and a field whose number is not whole.
pub(crate) fn append_float(name: &str, number: f64, text: &mut Vec<u8>) {
    append_name(name, text);
    append_float_text(number, text);
}

/// Appends a number; `null` if it is infinite or none.
pub(crate) fn append_float_text(number: f64, text: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(text, &number);
}

/// Appends a comma, the name of a field and a colon.
pub(crate) fn append_name(name: &str, text: &mut Vec<u8>) {
    text.extend_from_slice(b",\"");
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"\":");
}

/// Appends the fields of lifetimes, of which there are some.
pub(crate) fn append_lifetimes(lifetimes: &Lifetimes, text: &mut Vec<u8>) {
    append_float("lifetime_mean_us", lifetimes.mean_us(), text);
    let shortest = if lifetimes.blocks > 0 {
        lifetimes.min_ns
    } else {
        0
    };
    append_float("lifetime_min_us", shortest as f64 / 1e3, text);
    append_float("lifetime_max_us", lifetimes.max_ns as f64 / 1e3, text);
}
