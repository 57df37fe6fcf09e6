//! String interning: one copy of each string, shared by all frames that have it; and the
//! sums of the source files among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

/// Interns strings: returns the same `Arc` for equal ones.
#[derive(Debug, Default)]
pub(crate) struct SharedStrings {
    known: FxHashSet<Arc<str>>,
    /// MD5 sums of source files, by path.
    sums: BTreeMap<Arc<str>, Md5>,
}

/// An MD5 sum.
pub(crate) type Md5 = [u8; 16];

impl SharedStrings {
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let shared: Arc<str> = text.into();
        self.known.insert(shared.clone());
        shared
    }

    /// Interns the path of a source file with the sum that the compiler wrote of it.
    pub(crate) fn share_source(&mut self, path: &str, md5: Md5) -> Arc<str> {
        let shared = self.share(path);
        self.sums.insert(shared.clone(), md5);
        shared
    }

    /// The sums of the source files.
    pub(crate) fn take_sums(&mut self) -> BTreeMap<Arc<str>, Md5> {
        std::mem::take(&mut self.sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_shared() {
        let mut strings = SharedStrings::default();
        let first = strings.share("a");
        assert!(Arc::ptr_eq(&first, &strings.share("a")));
        assert!(!Arc::ptr_eq(&first, &strings.share("b")));
    }
}
