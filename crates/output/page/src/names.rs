//! The names of the page: each once, escaped like everywhere else, and cut where they are
//! longer than anybody reads.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

/// Names by number. Number 0 is the empty name.
pub struct Names {
    numbers: FxHashMap<String, u32>,
    all: Vec<String>,
    most: usize,
    cut: u64,
}

impl Names {
    /// Names of at most so many characters.
    pub fn with_at_most(characters: usize) -> Self {
        Self {
            numbers: FxHashMap::from_iter([(String::new(), 0)]),
            all: vec![String::new()],
            most: characters,
            cut: 0,
        }
    }

    /// The number of a name.
    pub fn number(&mut self, name: &str) -> u64 {
        let shown = allotrope_text::shown(name);
        let is_long = shown.len() > self.most && shown.chars().count() > self.most;
        let shown = match is_long {
            true => Cow::Owned(self.shorten(&shown)),
            false => shown,
        };
        if let Some(&number) = self.numbers.get(&*shown) {
            return number.into();
        }
        self.cut += u64::from(is_long);
        let number = self.all.len() as u32;
        self.all.push(shown.clone().into_owned());
        self.numbers.insert(shown.into_owned(), number);
        number.into()
    }

    /// The beginning and the end, which has the function's own name.
    fn shorten(&self, name: &str) -> String {
        let count = name.chars().count();
        let (before, after) = (self.most / 2, self.most - self.most / 2 - 1);
        let start = name.chars().take(before);
        let end = name.chars().skip(count - after);
        start.chain(['…']).chain(end).collect()
    }

    /// How many names were cut.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// All names, each ended by a newline. Names have none: they are escaped.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for name in self.all {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b'\n');
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_equal_ones_have_one_number() {
        let mut names = Names::with_at_most(100);
        assert_eq!(names.number(""), 0);
        let hostile = "a\u{202e}b\nc</script>";
        assert_eq!(names.number(hostile), 1);
        assert_eq!(names.number("z"), 2);
        assert_eq!(names.number(hostile), 1);
        assert_eq!(names.into_bytes(), b"\na\\u{202e}b\\nc</script>\nz\n");
    }

    #[test]
    fn long_names_keep_their_beginning_and_end() {
        let mut names = Names::with_at_most(7);
        names.number("abcdefgh");
        // Seven characters in 14 bytes are not too long.
        names.number("äääääää");
        assert_eq!(names.cut(), 1);
        assert_eq!(names.into_bytes(), "\nabc…fgh\näääääää\n".as_bytes());
    }
}
