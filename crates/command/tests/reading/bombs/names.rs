//! Mangled names that demangle to much longer ones.

/// A function of C++ with a parameter that doubles at each step: a pair of the type before it,
/// twice, which takes some ten bytes. The text has about `2 ^ steps` times as many bytes.
pub fn doubling(number: usize, steps: usize) -> String {
    let function = format!("f{number}");
    let mut name = format!("_Z{}{function}1pIiiE", function.len());
    // The first substitution is `p`, the second the first pair.
    let mut last = "S0_".to_owned();
    for step in 1..steps {
        name.push_str(&format!("S_I{last}{last}E"));
        last = format!("S{}_", base_36(step));
    }
    name
}

fn base_36(number: usize) -> String {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let digit = |number: usize| char::from(DIGITS[number]);
    match number / 36 {
        0 => digit(number).to_string(),
        high => format!("{}{}", digit(high), digit(number % 36)),
    }
}
