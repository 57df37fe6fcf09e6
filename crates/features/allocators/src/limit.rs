//! A rise that is allowed: `METRIC>+2%` or `METRIC>+10`.

/// By how much a figure may rise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rise {
    rise: f64,
    is_share: bool,
}

impl Rise {
    /// Parses the limit of a metric; `None` if it is none.
    pub(crate) fn parse(text: &str, metric: &str) -> Option<Self> {
        let (named, rise) = text.split_once('>')?;
        let rise = rise.trim().strip_prefix('+')?;
        let (number, is_share) = match rise.strip_suffix('%') {
            Some(number) => (number, true),
            None => (rise, false),
        };
        let number = number.trim();
        // A number has no sign of its own.
        let is_number = number.starts_with(|c: char| c.is_ascii_digit());
        let number: f64 = number.parse().ok()?;
        if named.trim() != metric || !is_number || !number.is_finite() {
            return None;
        }
        Some(Self {
            rise: if is_share { number / 100.0 } else { number },
            is_share,
        })
    }

    /// Whether a rise from `before` is more than allowed.
    pub(crate) fn is_exceeded(self, rise: f64, before: f64) -> bool {
        match self.is_share {
            true if before > 0.0 => rise / before > self.rise,
            true => rise > 0.0,
            false => rise > self.rise,
        }
    }
}
