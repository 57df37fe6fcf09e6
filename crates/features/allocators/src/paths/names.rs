//! Names of executed addresses: functions, source lines, and which of them belong to the
//! allocator.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::cpu::allocator_code::{Kind, belongs, plain};
use allotrope_symbols::{Locator, ModuleSymbols, Nearest, Ran};
use allotrope_text::text_of;
use rustc_hash::FxHashMap;

use crate::paths::code::{Code, Mapping};

/// An executed address.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    /// The number of its function in [`Names::functions`].
    pub(crate) function: u32,
    /// The innermost function, inlined or not, and its source line.
    pub(crate) inner: String,
    pub(crate) file: String,
    pub(crate) line: u32,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FunctionName {
    pub(crate) name: String,
    pub(crate) module: String,
    pub(crate) allocator: bool,
    /// It is a stub of a procedure linkage table, by which the C library calls the version of
    /// a function for this processor; or nothing at all is known of it.
    pub(crate) is_stub: bool,
}

/// The names of all executed addresses.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Names by the number of the address.
    pub(crate) addresses: Vec<Named>,
    pub(crate) functions: Vec<FunctionName>,
}

impl Names {
    /// `library` is the allocator's; `None` if it is that of the C library.
    pub(crate) fn new(code: &Code, library: Option<&Path>, locator: &Locator) -> Self {
        let mut by_module: FxHashMap<&[u8], Vec<(usize, u64)>> = FxHashMap::default();
        let mut outside = Vec::new();
        for (number, address) in code.addresses.iter().enumerate() {
            match code.mapping(*address) {
                Some(mapping) => {
                    let address = address.wrapping_sub(bias(code, mapping));
                    by_module
                        .entry(&mapping.path)
                        .or_default()
                        .push((number, address));
                }
                None => outside.push(number),
            }
        }
        let mut builder = Builder {
            names: Self::default(),
            numbers: HashMap::new(),
            named: vec![None; code.addresses.len()],
        };
        for (path, addresses) in by_module {
            builder.module(path, &addresses, library, locator);
        }
        for number in outside {
            let function = FunctionName {
                name: "[code in no file]".to_owned(),
                module: String::new(),
                allocator: false,
                is_stub: true,
            };
            builder.add(number, function, None);
        }
        builder.names.addresses = builder.named.into_iter().flatten().collect();
        builder.names
    }
}

struct Builder {
    names: Names,
    numbers: HashMap<FunctionName, u32>,
    named: Vec<Option<Named>>,
}

impl Builder {
    fn module(
        &mut self,
        path: &[u8],
        addresses: &[(usize, u64)],
        library: Option<&Path>,
        locator: &Locator,
    ) {
        let file = Path::new(OsStr::from_bytes(path));
        let kind = match library {
            Some(library) if is_same(library, file) => Kind::Allocator,
            _ if is_c_library(file) => Kind::CLibrary,
            _ => Kind::Other,
        };
        let symbols = ModuleSymbols::load(locator, file, &Ran::unverified(), None).ok();
        let wanted: Vec<(u64, bool)> = addresses.iter().map(|it| (it.1, true)).collect();
        let resolved = symbols.map(|symbols| symbols.resolve(&wanted));
        // Read only if something has no name.
        let nearest = LazyCell::new(|| Nearest::read(locator, file));
        let module = text_of(path).into_owned();
        let short = module.rsplit('/').next().unwrap_or_default().to_owned();
        for (at, (number, address)) in addresses.iter().enumerate() {
            let frames = resolved.as_ref().map_or(&[][..], |it| &it[at].frames);
            let function = frames.last().map(|it| &*it.function);
            // Of the C library, the allocator's part belongs to an allocator only if there is
            // no other one.
            let is_own = match kind {
                Kind::CLibrary => library.is_none() && belongs(kind, function),
                kind => belongs(kind, function),
            };
            let (name, is_stub) = match function {
                Some(function) => (plain_of(kind, function).to_owned(), false),
                None => match nearest.describe(*address) {
                    Some(nearby) => (nearby.name, nearby.is_stub),
                    None => (format!("[unnamed code of {short}]"), true),
                },
            };
            let line = frames.first();
            let line = line.map(|it| (it.function.to_string(), it.file.to_string(), it.line));
            let function = FunctionName {
                name,
                module: module.clone(),
                allocator: is_own,
                is_stub,
            };
            self.add(*number, function, line);
        }
    }

    fn add(&mut self, number: usize, function: FunctionName, line: Option<(String, String, u32)>) {
        let next = u32::try_from(self.names.functions.len()).unwrap_or(u32::MAX);
        let name = function.name.clone();
        let known = self.numbers.entry(function.clone()).or_insert(next);
        if *known == next {
            self.names.functions.push(function);
        }
        let (inner, file, line) = line.unwrap_or_else(|| (name, String::new(), 0));
        self.named[number] = Some(Named {
            function: *known,
            inner,
            file,
            line,
        });
    }
}

/// Names of the C library without its prefixes: people know `getenv`.
fn plain_of(kind: Kind, function: &str) -> &str {
    match kind {
        Kind::CLibrary => {
            let name = plain(function);
            name.strip_prefix("___").unwrap_or(name)
        }
        _ => function,
    }
}

/// Run-time address minus address in the file.
fn bias(code: &Code, mapping: &Mapping) -> u64 {
    let known = code.biases.get(&mapping.path);
    known.copied().unwrap_or(0)
}

fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    a == b || (real(a).is_some() && real(a) == real(b))
}

fn is_c_library(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl")
}
