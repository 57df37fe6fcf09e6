//! The option `--per`: figures divided by a number, such as that of iterations.

/// Parses a number above 0.
pub fn parse(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| wrong())?;
    match number.is_finite() && number > 0.0 {
        true => Ok(number),
        false => Err(wrong()),
    }
}

fn wrong() -> String {
    "give a number above 0, such as that of the iterations".to_owned()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_above_0_divide() {
        assert_eq!(parse("11000"), Ok(11_000.0));
        assert_eq!(parse("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "nan", "inf", "x", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
