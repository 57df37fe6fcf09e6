//! What `--filter` means in every command: which frames, and so which stacks, a pattern
//! selects.

use crate::named_frame::StackFrame;

/// A pattern that a frame's function, source file or module has to contain. `*` stands
/// for any text, also none; no other character is special.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    pattern: String,
    /// The texts between the stars, to be found one after another.
    parts: Vec<String>,
    is_case_sensitive: bool,
}

impl Filter {
    /// The filter for a pattern; upper and lower case differ only if `is_case_sensitive`.
    pub fn new(pattern: &str, is_case_sensitive: bool) -> Self {
        let parts = pattern.split('*').filter(|part| !part.is_empty());
        let parts = parts.map(|part| match is_case_sensitive {
            true => part.to_owned(),
            false => part.to_lowercase(),
        });
        Self {
            parts: parts.collect(),
            pattern: pattern.to_owned(),
            is_case_sensitive,
        }
    }

    /// The pattern as it was given.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether a frame's function, source file or module contains the pattern.
    pub fn matches(&self, function: &str, file: &str, module: &str) -> bool {
        [function, file, module]
            .into_iter()
            .any(|text| self.is_in(text))
    }

    /// Whether it selects a frame of a set of stacks.
    pub fn selects(&self, frame: &StackFrame) -> bool {
        self.matches(&frame.function, &frame.file, &frame.module)
    }

    fn is_in(&self, text: &str) -> bool {
        let lower;
        let mut rest = text;
        if !self.is_case_sensitive {
            lower = text.to_lowercase();
            rest = &lower;
        }
        // The first place of each part leaves the most text for the next ones.
        self.parts
            .iter()
            .all(|part| match rest.split_once(part.as_str()) {
                Some((_, behind)) => {
                    rest = behind;
                    true
                }
                None => false,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_part_with_stars_and_without_case() {
        let matches = |pattern, text| Filter::new(pattern, false).matches(text, "", "");
        assert!(matches("PARSE", "json::parse_header"));
        assert!(matches("json*header", "json::parse_header"));
        assert!(matches("*header", "json::parse_header"));
        assert!(matches("a*a", "aa"));
        assert!(matches("", "anything"));
        assert!(matches("ÄRGER", "ärgerlich"));
        assert!(!matches("header*json", "json::parse_header"));
        assert!(!matches("a*a", "a"));
        assert!(!matches("p.rse", "parse"));
    }

    #[test]
    fn case_can_matter() {
        let filter = Filter::new("Parse", true);
        assert!(filter.matches("Parser::read", "", ""));
        assert!(!filter.matches("parser::read", "", ""));
    }

    #[test]
    fn function_file_and_module_are_searched() {
        let filter = Filter::new("x", false);
        assert!(filter.matches("x", "", ""));
        assert!(filter.matches("", "x.c", ""));
        assert!(filter.matches("", "", "libx.so"));
        assert!(!Filter::new("xx", false).matches("x", "x", ""));
    }
}
