//! String interning: one copy of each string, shared by all frames that have it.

use std::sync::Arc;

use rustc_hash::FxHashSet;

/// Interns strings: returns the same `Arc` for equal ones.
#[derive(Debug, Default)]
pub(crate) struct SharedStrings {
    known: FxHashSet<Arc<str>>,
}

impl SharedStrings {
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let shared: Arc<str> = text.into();
        self.known.insert(shared.clone());
        shared
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
