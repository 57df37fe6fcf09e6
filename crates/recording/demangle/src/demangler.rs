//! One bound for all names of an input together: a short name can become a long text
//! (each repeated part is a reference of a few bytes), and many such names would fill
//! the memory although each of them is below its own bound.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::work::Work;
use crate::{Names, demangle_within};

/// The bound of [`Demangler::default`] in bytes. A hundred thousand functions of a large
/// C++ program take a third of it.
const DEFAULT: u64 = 128 << 20;

/// Demangles the names of one input. Names beyond the bound stay as they are, and are
/// counted.
#[derive(Debug)]
pub struct Demangler {
    /// Bytes of demangled text that may still be made. Steps without text count, too.
    left: AtomicU64,
    left_mangled: AtomicU64,
}

impl Default for Demangler {
    fn default() -> Self {
        Self::new(DEFAULT)
    }
}

impl Demangler {
    /// A demangler for names that have at most `bytes` together, both spellings of each.
    pub fn new(bytes: u64) -> Self {
        Self {
            left: AtomicU64::new(bytes),
            left_mangled: AtomicU64::new(0),
        }
    }

    /// Same as [`demangle`](crate::demangle), within what is left of the bound.
    pub fn demangle(&self, raw: &str) -> Names {
        let work = Work::within(self.left.load(Relaxed));
        let names = demangle_within(raw, &work);
        if work.is_exhausted() {
            self.left_mangled.fetch_add(1, Relaxed);
        }
        let spend = |left: u64| Some(left.saturating_sub(work.done()));
        // The function never refuses.
        let _ = self.left.fetch_update(Relaxed, Relaxed, spend);
        names
    }

    /// The number of names that stayed mangled because they, or all names together, are
    /// beyond the bound.
    pub fn left_mangled(&self) -> u64 {
        self.left_mangled.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `f` with a parameter that doubles at each step: `pair<T, T>` of the one before it.
    fn doubling(number: usize, steps: usize) -> String {
        let mut name = format!("_Z5f{number:04}1pIiiE");
        let mut last = "S0_".to_owned();
        for step in 1..steps {
            name.push_str(&format!("S_I{last}{last}E"));
            last = format!(
                "S{}_",
                char::from_digit(step as u32, 36).expect("few steps")
            )
            .to_uppercase();
        }
        name
    }

    #[test]
    fn names_beyond_the_bound_of_all_names_stay_mangled_and_are_counted() {
        let one = doubling(0, 9);
        let length = crate::demangle(&one).signature.len();
        assert!(length > 2_000 && one.len() < 120, "{length}, {one}");
        // Enough for five of them, if steps without text cost as much again.
        let demangler = Demangler::new(10 * length as u64);
        let names = (0..1_000).map(|number| doubling(number, 9));
        let text: usize = names
            .map(|name| {
                let names = demangler.demangle(&name);
                assert!(names.function.starts_with("_Z") || names.signature.len() >= length);
                names.signature.len()
            })
            .sum();
        assert!(text < 10 * length + 1_000 * 120, "{text}");
        let left = demangler.left_mangled();
        assert!((990..1_000).contains(&left), "{left}");
        // Names that are not mangled cost nothing.
        assert_eq!(demangler.demangle("main"), Names::plain("main"));
        assert_eq!(demangler.left_mangled(), left);
    }

    /// Rust's scheme: a tuple of the one before it, twice.
    #[test]
    fn rusts_names_count_alike() {
        let mut name = "_RINvC1c1fTllE".to_owned();
        let mut at = 9;
        for _ in 0..9 {
            let reference = match at {
                1.. => base_62(at - 2),
                _ => unreachable!(),
            };
            at = name.len();
            name.push_str(&format!("TB{reference}B{reference}E"));
        }
        name.push('E');
        let length = crate::demangle(&name).function.len();
        assert!(length > 2_000, "{}", crate::demangle(&name).function);
        let demangler = Demangler::new(3 * length as u64);
        for _ in 0..100 {
            demangler.demangle(&name);
        }
        assert!((98..100).contains(&demangler.left_mangled()));
    }

    /// A back reference: the position after `_R`, in Rust's own form.
    fn base_62(position: usize) -> String {
        const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut digits = Vec::new();
        let Some(mut rest) = position.checked_sub(1) else {
            return "_".to_owned();
        };
        loop {
            digits.push(DIGITS[rest % 62]);
            rest /= 62;
            if rest == 0 {
                break;
            }
        }
        digits.reverse();
        String::from_utf8(digits).expect("digits") + "_"
    }
}
