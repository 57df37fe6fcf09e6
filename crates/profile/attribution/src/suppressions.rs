//! Suppressions of leaks: which leaked blocks are expected, so that a ranking of leaks
//! leaves them out. They never affect what is counted.
//!
//! The format is LeakSanitizer's, so that its files can be used unchanged: lines
//! `leak:PATTERN`, empty lines and comments. Sources: LLVM's compiler-rt,
//! `sanitizer_common/sanitizer_suppressions.cpp` (`Parse`), `sanitizer_common.cpp`
//! (`TemplateMatch`) and `lsan/lsan_common.cpp` (`LeakSuppressionContext`). There is one
//! extension: `A<-B` (see [`Suppressions::add`]).
//!
//! The built-in list is `suppressions.txt`.

use std::borrow::Cow;

use allotrope_profile::NamedFrame;
use rustc_hash::FxHashMap;

use crate::error::ListError;
use crate::own_code::Origin;

const LIST: &str = include_str!("suppressions.txt");

/// The name of the built-in list.
const BUILT_IN: &str = "built-in";

/// Between two patterns of a rule: the frame on the left is called by that on the right.
const CALLED_BY: &str = "<-";

/// Rules that select stacks whose leaked blocks are expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppressions {
    rules: Vec<Rule>,
}

/// A line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    text: String,
    list: String,
    /// Patterns of adjacent frames, the innermost first.
    frames: Vec<String>,
    /// The first pattern is that of the innermost frame of the stack.
    is_innermost: bool,
    /// It matches only frames inside of the program's own code.
    is_built_in: bool,
}

impl Rule {
    /// The line, `leak:PATTERN`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of its list: that of a file, or `built-in`.
    pub fn list(&self) -> &str {
        &self.list
    }

    /// The list in a sentence: `the built-in list`, `lsan.supp`.
    pub fn list_in_words(&self) -> &str {
        match self.is_built_in {
            true => "the built-in list",
            false => &self.list,
        }
    }
}

impl Default for Suppressions {
    /// The built-in list.
    fn default() -> Self {
        let mut suppressions = Self::none();
        // Cannot fail: a test reads the list.
        let _ = suppressions.add(BUILT_IN, LIST);
        for rule in &mut suppressions.rules {
            rule.is_built_in = true;
        }
        suppressions
    }
}

impl Suppressions {
    /// No rules: nothing is suppressed.
    pub fn none() -> Self {
        Self { rules: Vec::new() }
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds the rules of a list, one a line: `leak:` and a pattern. A stack is suppressed
    /// if the pattern is found in the function, its signature, the source file or the
    /// module of one of its frames. In a pattern `*` stands for any text, `^` at the
    /// beginning and `$` at the end for the ends of the name. Empty lines and lines that
    /// begin with `#` are ignored.
    ///
    /// In `leak:A<-B` two adjacent frames have to match: the one that matches `A` is
    /// called by the one that matches `B`; there may be more than two. In `leak:<-B`
    /// the innermost frame of the stack has to match `B`.
    ///
    /// # Errors
    /// A line with another prefix, such as those of other sanitizers, which
    /// LeakSanitizer refuses too; an empty pattern, which would match every stack.
    pub fn add(&mut self, list: &str, text: &str) -> Result<(), ListError> {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_matches([' ', '\t', '\r']);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let rule = rule(list, line).ok_or_else(|| ListError::Suppression {
                list: list.to_owned(),
                line: number,
                text: line.to_owned(),
            })?;
            self.rules.push(rule);
        }
        Ok(())
    }
}

fn rule(list: &str, line: &str) -> Option<Rule> {
    let pattern = line.strip_prefix("leak:")?;
    let (is_innermost, patterns) = match pattern.strip_prefix(CALLED_BY) {
        Some(patterns) => (true, patterns),
        None => (false, pattern),
    };
    let frames: Vec<String> = patterns.split(CALLED_BY).map(str::to_owned).collect();
    let is_empty = frames.iter().any(String::is_empty);
    (!is_empty).then(|| Rule {
        text: line.to_owned(),
        list: list.to_owned(),
        frames,
        is_innermost,
        is_built_in: false,
    })
}

/// What rules are matched against: the texts of a [`NamedFrame`], with the path of its module,
/// which no frame has, and its origin.
#[derive(Debug, Clone)]
pub struct FrameText<'a> {
    /// The function's qualified name.
    pub function: &'a str,
    /// Its full form; empty if unknown.
    pub signature: &'a str,
    /// The source file; empty if unknown.
    pub file: &'a str,
    /// The module: its path, as in LeakSanitizer, or its name if only that is known.
    pub module: Cow<'a, str>,
    /// Whose code it is.
    pub origin: Origin,
}

impl<'a> FrameText<'a> {
    /// The texts of a frame.
    pub fn new<M>(frame: &'a NamedFrame<M>, module: Cow<'a, str>, origin: Origin) -> Self {
        Self {
            function: &frame.function,
            signature: &frame.signature,
            file: &frame.file,
            module,
            origin,
        }
    }
}

/// Finds the rules that suppress stacks. It remembers which patterns a frame matches,
/// because the stacks of a run share their frames.
pub struct Matcher<'a, F> {
    suppressions: &'a Suppressions,
    frame: F,
    /// No rule can match outside of the program's own code.
    is_inner_only: bool,
    known: FxHashMap<u32, Matched>,
}

/// What is known of a frame.
struct Matched {
    /// It is the program's own.
    is_own: bool,
    /// The (rule, position in the rule) of the patterns that match it.
    patterns: Box<[(u32, u32)]>,
}

impl<'a, F> Matcher<'a, F>
where
    F: Fn(u32) -> Option<FrameText<'a>>,
{
    /// `frame` returns a frame by its index; stacks consist of such indexes.
    pub fn new(suppressions: &'a Suppressions, frame: F) -> Self {
        Self {
            suppressions,
            frame,
            is_inner_only: suppressions.rules.iter().all(|rule| rule.is_built_in),
            known: FxHashMap::default(),
        }
    }

    /// The rule that suppresses the stack, whose frames are innermost first: the first
    /// rule of the innermost frame that has one.
    pub fn rule(&mut self, stack: &[u32]) -> Option<&'a Rule> {
        if self.suppressions.is_empty() {
            return None;
        }
        let mut end = stack.len();
        for (at, &frame) in stack.iter().enumerate() {
            if !self.known.contains_key(&frame) {
                let matched = self.matched(frame);
                self.known.insert(frame, matched);
            }
            if self.is_inner_only && self.known.get(&frame).is_some_and(|it| it.is_own) {
                end = at;
                break;
            }
        }
        let stack = &stack[..end];
        let known = |at: usize| stack.get(at).and_then(|frame| self.known.get(frame));
        let own = (0..stack.len()).find(|&at| known(at).is_some_and(|it| it.is_own));
        let own = own.unwrap_or(stack.len());
        let has = |at: usize, pattern| known(at).is_some_and(|it| it.patterns.contains(&pattern));
        (0..stack.len()).find_map(|at| {
            let first = known(at)?
                .patterns
                .iter()
                .filter(|(_, position)| *position == 0);
            first
                .filter_map(|&(number, _)| {
                    Some((number, self.suppressions.rules.get(number as usize)?))
                })
                .find(|(number, rule)| {
                    let length = rule.frames.len();
                    (at == 0 || !rule.is_innermost)
                        && (!rule.is_built_in || at + length <= own)
                        && (1..length).all(|next| has(at + next, (*number, next as u32)))
                })
                .map(|(_, rule)| rule)
        })
    }

    fn matched(&self, frame: u32) -> Matched {
        let Some(text) = (self.frame)(frame) else {
            return Matched {
                is_own: false,
                patterns: Box::default(),
            };
        };
        let is_own = matches!(
            text.origin,
            Origin::Repository | Origin::Own | Origin::Program | Origin::Unnamed
        );
        let texts = [text.function, text.signature, text.file, &*text.module];
        let rules = (0..).zip(&self.suppressions.rules);
        let rules = rules.filter(|(_, rule)| !(is_own && rule.is_built_in));
        let patterns = rules.flat_map(|(number, rule)| {
            let patterns = (0..).zip(&rule.frames);
            let matching = patterns
                .filter(|(_, pattern)| texts.iter().any(|text| matches_template(pattern, text)));
            matching.map(move |(position, _)| (number, position))
        });
        Matched {
            is_own,
            patterns: patterns.collect(),
        }
    }
}

/// LeakSanitizer's `TemplateMatch`, with its peculiarities: nothing matches an empty
/// text, and each part between stars is looked for once, from the left, so that `ab$`
/// does not match `abcab`.
fn matches_template(template: &str, text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    let (mut is_start, mut template) = match template.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, template),
    };
    let (mut text, mut after_star) = (text, false);
    while let Some(first) = template.chars().next() {
        match first {
            '*' => {
                template = &template[1..];
                (is_start, after_star) = (false, true);
                continue;
            }
            '$' => return text.is_empty() || after_star,
            _ if text.is_empty() => return false,
            _ => {}
        }
        let end = template.find(['*', '$']).unwrap_or(template.len());
        let (part, rest) = template.split_at(end);
        let at = match is_start {
            true => text.starts_with(part).then_some(0),
            false => text.find(part),
        };
        let Some(at) = at else {
            return false;
        };
        text = &text[at + part.len()..];
        template = rest;
        (is_start, after_star) = (false, false);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &'static str, module: &'static str, origin: Origin) -> FrameText<'static> {
        FrameText {
            function,
            signature: "",
            file: "",
            module: module.into(),
            origin,
        }
    }

    /// The rule that suppresses a stack of (function, module, origin).
    fn suppressed(list: &Suppressions, stack: &[(&'static str, &'static str, Origin)]) -> String {
        let get = |at: u32| {
            let &(function, module, origin) = stack.get(at as usize)?;
            Some(frame(function, module, origin))
        };
        let indexes: Vec<u32> = (0..stack.len() as u32).collect();
        let mut matcher = Matcher::new(list, get);
        let rule = matcher.rule(&indexes);
        rule.map_or_else(String::new, |rule| rule.text().to_owned())
    }

    fn list(text: &str) -> Suppressions {
        let mut list = Suppressions::none();
        list.add("lsan.supp", text).expect("a list");
        list
    }

    #[test]
    fn patterns_match_as_in_leaksanitizer() {
        for (template, text, expected) in [
            ("a", "", false),
            ("*", "a", true),
            ("foo", "foobar", true),
            ("foo", "barfoo", true),
            ("^foo", "foobar", true),
            ("^foo", "afoobar", false),
            ("foo$", "barfoo", true),
            ("foo$", "foobar", false),
            ("^foo$", "foo", true),
            ("^foo$", "foo2", false),
            ("foo*bar", "a foo b bar c", true),
            ("foo*bar", "bar foo", false),
            ("^foo*bar$", "foobar", true),
            ("^*foo", "afoo", true),
            ("foo*$", "foobar", true),
            ("**foo**", "foo", true),
            // The part is found where it occurs first.
            ("ab$", "abcab", false),
            ("*é*", "né à", true),
        ] {
            assert_eq!(
                matches_template(template, text),
                expected,
                "{template} {text}"
            );
        }
    }

    #[test]
    fn one_match_in_any_frame_suppresses_the_stack() {
        let list = list("# a comment\n\n  leak:libfoo.so \r\nleak:^known\n");
        let stack = [
            ("f", "app", Origin::Own),
            ("g", "/usr/lib/libfoo.so.1", Origin::Library),
            ("main", "app", Origin::Own),
        ];
        assert_eq!(suppressed(&list, &stack), "leak:libfoo.so");
        let stack = [
            ("known_leak", "app", Origin::Own),
            ("main", "app", Origin::Own),
        ];
        assert_eq!(suppressed(&list, &stack), "leak:^known");
        let stack = [
            ("well_known", "app", Origin::Own),
            ("main", "app", Origin::Own),
        ];
        assert_eq!(suppressed(&list, &stack), "");
    }

    #[test]
    fn adjacent_frames_may_be_required() {
        let list = list("leak:inner<-^outer$\nleak:<-direct");
        let frames = |names: &[&'static str]| -> Vec<_> {
            names
                .iter()
                .map(|name| (*name, "app", Origin::Own))
                .collect()
        };
        for (stack, expected) in [
            (&["inner", "outer"][..], "leak:inner<-^outer$"),
            (&["x", "inner", "outer", "y"], "leak:inner<-^outer$"),
            (&["inner", "x", "outer"], ""),
            (&["inner"], ""),
            (&["outer", "inner"], ""),
            (&["direct", "main"], "leak:<-direct"),
            (&["x", "direct"], ""),
        ] {
            assert_eq!(suppressed(&list, &frames(stack)), expected, "{stack:?}");
        }
    }

    #[test]
    fn other_lines_are_refused_with_file_and_line() {
        for line in [
            "race:foo",
            "interceptor_via_fun:foo",
            "foo",
            "leak:",
            "leak:a<-",
        ] {
            let mut list = Suppressions::none();
            let error = list.add("tsan.supp", &format!("# x\n{line}\n"));
            let error = error.expect_err(line).to_string();
            assert!(error.starts_with("tsan.supp:2: "), "{error}");
            assert!(error.contains(line), "{error}");
        }
    }

    #[test]
    fn the_built_in_list_is_read() {
        let lines = LIST.lines().filter(|line| line.starts_with("leak:"));
        assert_eq!(Suppressions::default().rules.len(), lines.count());
        assert!(Suppressions::default().rules.len() > 20);
    }

    #[test]
    fn blocks_that_libraries_keep_by_design_are_suppressed() {
        let list = Suppressions::default();
        let (loader, libc) = ("/lib64/ld-linux-x86-64.so.2", "/lib/libc.so.6");
        let stdcxx = "/usr/lib/libstdc++.so.6";
        for stack in [
            &[
                ("libstdc++.so.6+0xa57ba", stdcxx, Origin::Glue),
                ("call_init", loader, Origin::Library),
                ("_dl_init", loader, Origin::Library),
            ][..],
            &[
                ("__GI__IO_file_doallocate", libc, Origin::Glue),
                ("puts", libc, Origin::Library),
                ("main", "app", Origin::Own),
            ],
            // Without the C library's debug information.
            &[
                ("libc.so.6+0x30a12", libc, Origin::Glue),
                ("setlocale", libc, Origin::Library),
                ("app+0x1234", "app", Origin::Unnamed),
            ],
            &[
                ("calloc", loader, Origin::Glue),
                ("_dl_new_object", loader, Origin::Library),
                ("main", "app", Origin::Own),
            ],
        ] {
            assert_ne!(suppressed(&list, stack), "", "{stack:?}");
        }
    }

    #[test]
    fn the_programs_own_blocks_are_not() {
        let list = Suppressions::default();
        let (loader, libc) = ("/lib64/ld-linux-x86-64.so.2", "/lib/libc.so.6");
        let stdcxx = "/usr/lib/libstdc++.so.6";
        for stack in [
            // A constructor of the program, of a library of the user, and what these
            // allocate by means of libstdc++.
            &[
                ("Registry::Registry", "app", Origin::Own),
                ("_GLOBAL__sub_I_main", "app", Origin::Program),
                ("call_init", libc, Origin::Library),
            ][..],
            &[
                (
                    "libmine.so+0x1234",
                    "/opt/libmine.so",
                    Origin::UnnamedLibrary,
                ),
                ("call_init", loader, Origin::Library),
                ("_dl_init", loader, Origin::Library),
            ],
            &[
                ("std::string::_M_create", stdcxx, Origin::Glue),
                (
                    "libmine.so+0x1234",
                    "/opt/libmine.so",
                    Origin::UnnamedLibrary,
                ),
                ("call_init", loader, Origin::Library),
            ],
            // An open stream, and functions that have the names of the C library's.
            &[
                ("__fopen_internal", libc, Origin::Library),
                ("main", "app", Origin::Own),
            ],
            &[
                ("my_setlocale", "app", Origin::Own),
                ("main", "app", Origin::Own),
            ],
            &[
                ("read_config", "app", Origin::Program),
                ("setlocale", libc, Origin::Library),
                ("main", "app", Origin::Own),
            ],
        ] {
            assert_eq!(suppressed(&list, stack), "", "{stack:?}");
        }
    }
}
