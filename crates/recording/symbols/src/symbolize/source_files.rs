//! Recognises functions that the compiler wrote: methods of derived traits, implicit
//! copy constructors and assignments. Their lines lie in the declaration of a type and
//! not in a function's body. Debug information does not show it (Rust), or only in a
//! part of it that the symbol index does not have (C++), so the source is read. At the
//! end of a recording it is most likely there, and of the version that was compiled.
//!
//! Only files of functions that may be generated are read, a bounded number of them.

use std::io::Read;
use std::path::Path;

use allotrope_files::open_stored;
use allotrope_trace::model::NamedFrame;
use rustc_hash::FxHashMap;

/// Longest source file that is read, in bytes.
const FILE_BYTES: u64 = 4 << 20;
/// Largest number of source files that are read for a module.
const FILES: usize = 512;
/// How many lines above a line its function or type is searched for.
const LINES_ABOVE: usize = 400;

/// The source files that were read; `None` for one that cannot be.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles(FxHashMap<String, Option<Vec<String>>>);

impl SourceFiles {
    /// Whether the compiler wrote the frame's function. `false` where the source is not
    /// there.
    pub(crate) fn is_generated(&mut self, frame: &NamedFrame) -> bool {
        let Some(candidate) = Candidate::of(frame) else {
            return false;
        };
        if candidate == Candidate::Certain {
            return true;
        }
        let Some(lines) = self.lines(&frame.file) else {
            return false;
        };
        let end = lines.len().min(frame.line as usize);
        match candidate {
            Candidate::Certain => true,
            Candidate::TraitMethod => is_in_type(&lines[..end]),
            Candidate::SpecialMember(class) => lines[..end]
                .last()
                .is_some_and(|line| is_head_of_class(line, class) || is_defaulted(line)),
        }
    }

    fn lines(&mut self, file: &str) -> Option<&[String]> {
        if !self.0.contains_key(file) {
            if self.0.len() >= FILES {
                return None;
            }
            self.0.insert(file.to_owned(), read(Path::new(file)));
        }
        self.0.get(file)?.as_deref()
    }
}

fn read(path: &Path) -> Option<Vec<String>> {
    if !path.is_absolute() {
        return None;
    }
    let file = open_stored(path).ok()?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.lines().map(str::to_owned).collect())
}

/// A function that the compiler may have written.
#[derive(Debug, PartialEq, Eq)]
enum Candidate<'a> {
    /// A function whose name alone shows that the compiler wrote it.
    Certain,
    /// A method of a trait, in Rust.
    TraitMethod,
    /// A constructor or assignment of this class, in C++.
    SpecialMember(&'a str),
}

impl<'a> Candidate<'a> {
    fn of(frame: &'a NamedFrame) -> Option<Self> {
        let function: &str = &frame.function;
        if frame.line == 0 || is_library(&frame.file) {
            return None;
        }
        if frame.file.ends_with(".rs") {
            // `const _: () = { impl … }` is what derive macros of crates write.
            return if function.contains("::_::<impl ") {
                Some(Self::Certain)
            } else if function.starts_with('<') && function.contains(" as ") {
                Some(Self::TraitMethod)
            } else {
                None
            };
        }
        let (outer, name) = last_two_names(function)?;
        if name == "<lambda>" {
            // The copy of a closure.
            return Some(Self::Certain);
        }
        (name == outer || name == "operator=").then_some(Self::SpecialMember(outer))
    }
}

/// Files of which nobody wants to know.
fn is_library(file: &str) -> bool {
    ["/rustc/", "/usr/include/", "/registry/src/"]
        .iter()
        .any(|part| file.contains(part))
}

/// The last two names of a qualified C++ name, without template arguments: `a`, `b` of
/// `ns::a<x::y>::b`.
fn last_two_names(function: &str) -> Option<(&str, &str)> {
    let mut depth = 0_u32;
    let mut ends = Vec::new();
    let bytes = function.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'{' => depth += 1,
            b'>' | b')' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => ends.push(at),
            _ => {}
        }
    }
    let last = *ends.last()?;
    let outer = match ends.len() {
        1 => &function[..last],
        count => &function[ends[count - 2] + 2..last],
    };
    let name = &function[last + 2..];
    let untemplated = |name: &'_ str| name.find('<').filter(|&at| at > 0).unwrap_or(name.len());
    Some((&outer[..untemplated(outer)], &name[..untemplated(name)]))
}

/// Whether the last of these lines of Rust lies in the declaration of a type, or in an
/// attribute before one: going up, `struct`, `enum`, `union` or `derive` comes before
/// `fn`.
fn is_in_type(lines: &[String]) -> bool {
    for line in lines.iter().rev().take(LINES_ABOVE) {
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        // A field may have the type `fn()`: then no name follows.
        if code.contains("fn ") && words.clone().any(|word| word == "fn") {
            return false;
        }
        if words.any(|word| matches!(word, "struct" | "enum" | "union" | "derive")) {
            return true;
        }
    }
    false
}

/// Whether a line of C++ begins the declaration of the class and none of its
/// constructors: that is the line of its implicit members.
fn is_head_of_class(line: &str, class: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let mut words = code
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .skip_while(|word| !matches!(*word, "struct" | "class" | "union"));
    words.any(|word| word == class)
        && !code.contains(&format!("{class}("))
        && !code.contains("operator=")
}

fn is_defaulted(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.contains("= default") || code.contains("=default")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str, line: u32) -> NamedFrame {
        NamedFrame {
            function: function.into(),
            file: file.into(),
            line,
            ..NamedFrame::default()
        }
    }

    /// Checks, for each line of a source that says `GENERATED name` or `WRITTEN name`, whether a
    /// function of that name on that line is generated.
    fn check(file: &str, text: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        let mut sources = SourceFiles::default();
        let mut checked = 0;
        for (number, line) in (1..).zip(text.lines()) {
            for (mark, expected) in [("GENERATED ", true), ("WRITTEN ", false)] {
                let Some((_, function)) = line.split_once(mark) else {
                    continue;
                };
                let frame = frame(function, path.to_str().unwrap(), number);
                assert_eq!(sources.is_generated(&frame), expected, "{line}");
                checked += 1;
            }
        }
        assert!(checked > 3);
    }

    #[test]
    fn derived_methods_lie_in_a_type() {
        check(
            "lib.rs",
            "#[derive(Clone, // GENERATED <a::A as core::clone::Clone>::clone
  Debug)]
struct A { name: String, run: fn() } // GENERATED <a::A as core::clone::Clone>::clone
enum B {
    One(String), // GENERATED <a::B as core::clone::Clone>::clone
    Two { x: Vec<u8> }, // GENERATED <a::B as core::clone::Clone>::clone
}
impl Clone for C {
    fn clone(&self) -> Self {
        Self { name: self.name.clone() } // WRITTEN <a::C as core::clone::Clone>::clone
    }
}
struct D { x: String } // WRITTEN a::D::new
const X: u8 = 0; // GENERATED a::_::<impl serde::Serialize for a::D>::serialize
",
        );
    }

    #[test]
    fn implicit_members_lie_on_the_head_of_the_class() {
        check(
            "a.cc",
            "struct A { std::string name; }; // GENERATED A::A
template <class T> class B : public A { // GENERATED ns::B<ns::x>::operator=
    B(const B& other) : A(other) {} // WRITTEN ns::B<ns::x>::B
    C(const C&) = default; // GENERATED C::C
    name = new char[5]; // WRITTEN D::D
};
struct E { E(int) { p = malloc(1); } }; // WRITTEN E::E
struct F { std::string s; }; // WRITTEN F::grow
auto l = [=] { return s; }; // GENERATED main::{lambda}::<lambda>
",
        );
    }

    #[test]
    fn a_file_that_is_no_source_is_not_read() {
        let mut sources = SourceFiles::default();
        for file in [
            "/dev/zero.rs",
            "/dev/zero",
            "relative.rs",
            "",
            "/proc/self/mem",
        ] {
            assert!(!sources.is_generated(&frame("A::A", file, 1)));
            assert!(!sources.is_generated(&frame("<A as B>::c", file, u32::MAX)));
        }
    }
}
