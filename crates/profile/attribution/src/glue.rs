//! Recognises glue frames: those of allocators, language runtimes and thread
//! starts. The default list is `glue.txt` and what the table of allocators has for it; users
//! may add patterns. Glue affects which frame heads a site or a difference and what matching
//! may ignore, never what is counted.

mod wrapper_names;

use rustc_hash::FxHashSet;

use crate::error::ListError;
use crate::names;
use crate::own_code::{self, Code, Origin};
use allotrope_detour::allocators::{ALLOCATORS, INNERMOST};
use allotrope_profile::{NamedFrame, StackFrame};

const LIST: &str = include_str!("glue.txt");

/// A set of patterns for frames that are not the user's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glue {
    functions: FxHashSet<String>,
    prefixes: Vec<String>,
    in_modules: Vec<(Pattern, Pattern)>,
    /// Parts of the paths of source files.
    files: Vec<String>,
    /// The source files of the repository under test; `None` if they are not known.
    repository: Option<FxHashSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Exactly(String),
    From(String),
}

impl Pattern {
    fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::From(prefix.to_owned()),
            None => Self::Exactly(text.to_owned()),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exactly(exact) => text == exact,
            Self::From(prefix) => text.starts_with(prefix.as_str()),
        }
    }
}

impl Default for Glue {
    /// Allocators, the C, C++, Rust and Swift runtimes, thread starts.
    fn default() -> Self {
        let mut glue = Self::none();
        for line in LIST.lines().chain(INNERMOST) {
            // Cannot fail: a test parses every line of the list.
            let _ = glue.line(line);
        }
        for module in ALLOCATORS.iter().filter_map(|row| row.glue) {
            let _ = glue.line(&format!("{module} *"));
        }
        glue
    }
}

impl Glue {
    /// The empty set: no frame is glue.
    pub fn none() -> Self {
        Self {
            functions: FxHashSet::default(),
            prefixes: Vec::new(),
            in_modules: Vec::new(),
            files: Vec::new(),
            repository: None,
        }
    }

    /// The same patterns for code of a repository that has these source files: their
    /// frames are [`Origin::Repository`], unless they are glue or a dependency's.
    #[must_use]
    pub fn within(mut self, files: FxHashSet<String>) -> Self {
        self.repository = Some(files);
        self
    }

    /// Whether the files of the repository are known.
    pub fn knows_repository(&self) -> bool {
        self.repository.is_some()
    }

    /// Whether a function is of a library that a frame of another origin calls: it has a
    /// name, and is neither as much the user's own as the caller, nor an allocator's or a
    /// language's. Vendored code is a library, too, if a `file:` pattern names it.
    pub fn is_library(&self, frame: &StackFrame, origin: Origin, caller: Origin) -> bool {
        let is_vendored = || self.files.iter().any(|part| frame.file.contains(part));
        match origin {
            Origin::Unnamed | Origin::UnnamedLibrary => false,
            Origin::Glue => is_vendored() && !self.has_function(&frame.module, &frame.function),
            origin => origin < caller,
        }
    }

    /// Adds patterns, one a line: a function; a module's file name and a
    /// function separated by a space; or `file:` and a part of a source file's
    /// path. `*` at the end of a function or module matches any rest. Empty lines
    /// and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// A pattern with a `*` elsewhere than at its end.
    pub fn add(&mut self, list: &str) -> Result<(), ListError> {
        for (number, line) in (1..).zip(list.lines()) {
            self.line(line).map_err(|()| ListError::GluePattern {
                line: number,
                pattern: line.trim().to_owned(),
            })?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), ()> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(part) = line.strip_prefix("file:") {
            // An empty part would match every file; a star has no meaning in a part.
            if part.is_empty() || part.contains('*') {
                return Err(());
            }
            self.files.push(part.to_owned());
            return Ok(());
        }
        let (module, function) = split(line);
        if has_inner_star(function) || module.is_some_and(has_inner_star) {
            return Err(());
        }
        match (module, Pattern::new(function)) {
            (Some(module), function) => self.in_modules.push((Pattern::new(module), function)),
            (None, Pattern::Exactly(function)) => {
                self.functions.insert(function);
            }
            (None, Pattern::From(prefix)) => self.prefixes.push(prefix),
        }
        Ok(())
    }

    /// Whether the frame is glue.
    pub fn has(&self, frame: &StackFrame) -> bool {
        self.origin_of(frame) == Origin::Glue
    }

    /// Whose code the frame is.
    pub fn origin_of(&self, frame: &StackFrame) -> Origin {
        self.origin(frame, &frame.module)
    }

    /// Whose code a frame is, given its module's file name, which may be empty, as all names
    /// but that of the function.
    pub fn origin<M>(&self, frame: &NamedFrame<M>, module: &str) -> Origin {
        let [function, signature, file] =
            [&frame.function, &frame.signature, &frame.file].map(|it| &**it);
        if self.has_function(module, function)
            || self.files.iter().any(|part| file.contains(part))
            || own_code::is_standard_library(file)
            || !file.is_empty() && own_code::is_c_library(module)
            || own_code::is_swift_standard_library(signature)
        {
            return Origin::Glue;
        }
        let is_generated = frame.generated || own_code::is_generated_by_swift(function);
        let is_interpreter = own_code::is_interpreter(module);
        let is_library = own_code::is_library(module) || is_interpreter;
        match (file.is_empty(), own_code::is_unnamed(module, function)) {
            (false, _) if is_generated || is_interpreter || own_code::is_dependency(file) => {
                Origin::Library
            }
            (false, _) => match &self.repository {
                Some(files) if files.contains(file) => Origin::Repository,
                _ => Origin::Own,
            },
            (true, true) if is_library && !own_code::is_plugin(module) => Origin::UnnamedLibrary,
            (true, true) => Origin::Unnamed,
            (true, false) if is_library || is_generated => Origin::Library,
            (true, false) => Origin::Program,
        }
    }

    /// Whose code the frame is, and whether its function is a usual wrapper.
    pub fn code_of(&self, frame: &StackFrame) -> Code {
        self.code(frame, &frame.module)
    }

    /// The same for a frame with its module's file name: see [`Self::origin`].
    pub fn code<M>(&self, frame: &NamedFrame<M>, module: &str) -> Code {
        Code {
            origin: self.origin(frame, module),
            is_wrapper: wrapper_names::is_listed(module, &frame.function),
            is_root: false,
        }
    }

    /// Whether a function is glue by its name, given the module's file name and the
    /// qualified name.
    pub(crate) fn has_function(&self, module: &str, function: &str) -> bool {
        // Clones of a glue function are glue. A name that is an offset into a
        // module is also matched unchanged.
        let canonical = names::canonical(function);
        [function, &canonical]
            .into_iter()
            .any(|name| self.has_name(module, &names::bare(name)))
    }

    fn has_name(&self, module: &str, bare: &str) -> bool {
        self.functions.contains(bare)
            || self
                .prefixes
                .iter()
                .any(|prefix| bare.starts_with(prefix.as_str()))
            || self
                .in_modules
                .iter()
                .any(|(of, function)| of.matches(module) && function.matches(bare))
    }
}

/// Splits a pattern into module and function. Functions have spaces too
/// (`operator new`, `<A as B>::c`, `thunk for …`), so only what looks like a
/// file name is taken as a module.
fn split(line: &str) -> (Option<&str>, &str) {
    match line.split_once(' ') {
        Some((module, function)) if is_module(module) => (Some(module), function.trim()),
        _ => (None, line),
    }
}

fn is_module(text: &str) -> bool {
    text.contains(".so") || text.ends_with('*') || text.ends_with(".dylib") || text == "dyld"
}

fn has_inner_star(pattern: &str) -> bool {
    // Functions too, not patterns: `operator*`, `operator*=`.
    !pattern.starts_with("operator") && pattern.strip_suffix('*').unwrap_or(pattern).contains('*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: &str, function: &str) -> StackFrame {
        StackFrame {
            module: module.into(),
            function: function.into(),
            ..StackFrame::default()
        }
    }

    #[test]
    fn every_line_of_the_list_is_a_pattern() {
        Glue::none().add(LIST).expect("glue.txt");
    }

    #[test]
    fn runtimes_and_thread_starts_are_glue() {
        let glue = Glue::default();
        for (module, function) in [
            ("libc.so.6", "malloc"),
            ("app", "operator new"),
            ("libstdc++.so.6", "std::locale::locale"),
            ("app", "std::vector<int, std::allocator<int> >::push_back"),
            ("app", "std::__new_allocator<int>::allocate"),
            ("app", "__rust_alloc"),
            ("liballotrope_recorder.so", "anything"),
            ("app", "alloc::raw_vec::RawVec<T,A>::grow_one"),
            ("app", "alloc::raw_vec::RawVec::<T, A>::grow_one"),
            (
                "app",
                "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            ),
            // Only the standard library defines methods of primitive types.
            ("app", "<str>::to_uppercase"),
            ("app", "<[T]>::to_vec"),
            ("libswiftCore.dylib", "swift_slowAlloc"),
            ("app", "thunk for @escaping @callee_guaranteed () -> ()"),
            (
                "app",
                "partial apply for thunk for @callee_guaranteed () -> ()",
            ),
            ("libsystem_pthread.dylib", "thread_start"),
            ("libc.so.6", "start_thread"),
            ("libc.so.6", "__libc_start_main@@GLIBC_2.34"),
        ] {
            assert!(glue.has(&frame(module, function)), "{module} {function}");
        }
    }

    #[test]
    fn the_users_code_is_not() {
        let glue = Glue::default();
        for (module, function) in [
            ("app", "main"),
            ("app", "mallocator"),
            ("app", "my::allocator::take"),
            ("app", "operator<<"),
            ("app", "operator new_thing"),
            ("app", "curry thunk of SocketProtocol.read(pointer:)"),
            ("app", "closure #1 in run(identifier:)"),
            ("app", "strdup"),
            ("app", "<str as app::Encode>::encode"),
        ] {
            assert!(!glue.has(&frame(module, function)), "{module} {function}");
        }
    }

    #[test]
    fn swifts_standard_library_in_the_users_module_is_not_the_users() {
        let glue = Glue::default();
        for (function, signature, expected) in [
            (
                "specialized Array.append",
                "generic specialization <Swift.Int> of Swift.Array.append(__owned A) -> ()",
                Origin::Glue,
            ),
            (
                "specialized Collection.map<A>",
                "generic specialization <App.A<Swift.Int>, B> of (extension in Swift):Swift.Collection.map<A>() -> ()",
                Origin::Glue,
            ),
            (
                "static Array<A>.== infix",
                "static (extension in Swift):Swift.Array<A where A: Swift.Equatable>.== infix(A) -> Swift.Bool",
                Origin::Glue,
            ),
            (
                "closure #1 in Sequence.min",
                "closure #1 (A.Element) throws -> Swift.Bool in (extension in Swift):Swift.Sequence.min() -> ()",
                Origin::Glue,
            ),
            (
                "Array.copied",
                "(extension in App):Swift.Array.copied() -> Swift.Array<Swift.Int>",
                Origin::Own,
            ),
            (
                "specialized Stack.push",
                "generic specialization <Swift.Int> of App.Stack.push(A) -> ()",
                Origin::Own,
            ),
            (
                "closure #1 in run",
                "closure #1 (Swift.Int) -> Swift.String in App.run() -> ()",
                Origin::Own,
            ),
            (
                "Node.__allocating_init",
                "App.Node.__allocating_init(value: Swift.Int) -> App.Node",
                Origin::Library,
            ),
            (
                "outlined init with copy of Large",
                "outlined init with copy of App.Large",
                Origin::Library,
            ),
        ] {
            let frame = StackFrame {
                signature: signature.into(),
                file: "/src/app/Codec.swift".into(),
                ..frame("app", function)
            };
            assert_eq!(glue.origin_of(&frame), expected, "{signature}");
        }
    }

    #[test]
    fn the_c_librarys_sources_are_not_the_users() {
        let glue = Glue::default();
        let at = |module| StackFrame {
            file: "./locale/loadlocale.c".into(),
            ..frame(module, "_nl_intern_locale_data")
        };
        assert_eq!(glue.origin_of(&at("libc.so.6")), Origin::Glue);
        assert_eq!(glue.origin_of(&at("app")), Origin::Own);
    }

    #[test]
    fn files_of_the_repository_are_above_all_others() {
        let mut glue = Glue::default();
        glue.add("file:third_party/").expect("a pattern");
        let files = ["src/a.c", "third_party/json.hpp", "build/_deps/fmt/core.h"];
        let glue = glue.within(files.into_iter().map(str::to_owned).collect());
        let at = |file: &str| StackFrame {
            file: file.into(),
            ..frame("app", "f")
        };
        for (file, origin) in [
            ("src/a.c", Origin::Repository),
            ("third_party/json.hpp", Origin::Glue),
            ("build/_deps/fmt/core.h", Origin::Library),
            ("/elsewhere/library.hpp", Origin::Own),
            ("/usr/include/json.hpp", Origin::Library),
            ("", Origin::Program),
        ] {
            assert_eq!(glue.origin_of(&at(file)), origin, "{file}");
        }
        let is_library = |file: &str| {
            let frame = at(file);
            glue.is_library(&frame, glue.origin_of(&frame), Origin::Repository)
        };
        assert!(is_library("third_party/json.hpp") && is_library("/elsewhere/library.hpp"));
        assert!(!is_library("src/a.c") && !is_library("/usr/include/c++/12/vector"));
    }

    #[test]
    fn a_list_can_be_added_to() {
        let mut glue = Glue::default();
        glue.add("# ours\n\nxmalloc\nlibbase.so* *\nbase::*\noperator*\nfile:third_party/\n")
            .expect("patterns");
        assert!(glue.has(&frame("app", "xmalloc")));
        assert!(glue.has(&frame("libbase.so.2", "anything")));
        assert!(glue.has(&frame("app", "base::take")));
        assert!(!glue.has(&frame("app", "take")));
        let vendored = StackFrame {
            file: "/home/me/app/third_party/json.hpp".into(),
            ..frame("app", "take")
        };
        assert!(glue.has(&vendored));
        for bad in ["file:", "file:*/vendor/"] {
            let error = glue.add(bad).expect_err(bad);
            assert!(error.to_string().contains("line 1"), "{error}");
        }
        let error = glue.add("fine\nnot*fine\n").expect_err("a star inside");
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
