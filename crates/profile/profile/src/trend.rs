//! What distinguishes growth from a cache that fills up and from work that comes and goes, in
//! values at equal distances of time. The rule of growth and `allotrope watch` share it.

/// Deepest dip of what grows, as a part of the gain.
pub const MAX_DIP: f64 = 0.1;
/// Least gain of the last third, as a part of that of the first third, of what does not
/// saturate.
pub const LAST_THIRD: f64 = 0.25;

/// The deepest fall below an earlier value.
pub fn deepest_dip(values: &[f64]) -> f64 {
    let (mut highest, mut deepest) = (f64::MIN, 0.0_f64);
    for &value in values {
        highest = highest.max(value);
        deepest = deepest.max(highest - value);
    }
    deepest
}

/// Returns by how much the first and the last third of the values rise; 0 without values.
pub fn gains_of_thirds(values: &[f64]) -> [f64; 2] {
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return [0.0; 2];
    };
    let third = values.len() / 3;
    let at = |index: usize| values.get(index).copied().unwrap_or(*first);
    [at(third) - first, last - at(values.len() - 1 - third)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dip_is_measured_from_the_highest_value_before_it() {
        assert_eq!(deepest_dip(&[1.0, 5.0, 3.0, 6.0, 5.5]), 2.0);
        assert_eq!(deepest_dip(&[1.0, 2.0, 2.0]), 0.0);
        assert_eq!(deepest_dip(&[]), 0.0);
    }

    #[test]
    fn thirds_of_a_line_gain_the_same() {
        let line: Vec<f64> = (0..10).map(f64::from).collect();
        assert_eq!(gains_of_thirds(&line), [3.0, 3.0]);
        assert_eq!(gains_of_thirds(&[]), [0.0, 0.0]);
        assert_eq!(gains_of_thirds(&[4.0]), [0.0, 0.0]);
    }
}
