//! The names of all frames, and which of them are of an allocator: by proof, or by a guess.

use std::cell::LazyCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use allotrope_symbols::{Locator, ModuleSymbols, NamedFrame as Named, Nearest, Ran, Resolved};
use allotrope_text::text_of;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cpu::allocator_code::{Kind, belongs, is_entry_point, plain};
use crate::cpu::chosen::Chosen;
use crate::cpu::module::Module;
use crate::cpu::session::Session;
use crate::cpu::space::{Frame, NO_MODULE};
use crate::cpu::stacks::{Codes, Stack, Step};

/// The key of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) module: u32,
    pub(crate) allocator: bool,
}

/// How well it is known that a frame is of an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Evidence {
    /// It is not.
    None,
    /// It is called without an entry point of the allocator, and either stands in a source file of
    /// one, or an entry point jumps to it elsewhere.
    Guess,
    /// Its name or its module is an allocator's, the user says so, or an entry point has jumped to
    /// it.
    Proof,
}

/// What is known of a module whose allocator is linked into it.
#[derive(Debug, Default)]
struct Linked {
    /// Starts of the functions that entry points reach by jumps.
    reached: FxHashSet<u64>,
    /// The source files of the entry points; without the one that has `main`, which is the
    /// program's.
    files: FxHashSet<String>,
}

/// The names of all frames.
pub(crate) struct Names<'a> {
    session: &'a Session,
    codes: &'a Codes,
    chosen: &'a Chosen,
    kinds: Vec<Kind>,
    named: FxHashMap<Frame, Vec<Named>>,
    /// What is known of code without a name, by frame.
    unnamed: FxHashMap<Frame, String>,
    linked: Vec<Linked>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(
        session: &'a Session,
        codes: &'a Codes,
        stacks: &[Stack<'_>],
        chosen: &'a Chosen,
        locator: &Locator,
    ) -> Self {
        let kinds: Vec<Kind> = session.modules.all.iter().map(|it| kind(it)).collect();
        let mut names = Self {
            session,
            codes,
            chosen,
            kinds,
            named: FxHashMap::default(),
            unnamed: FxHashMap::default(),
            linked: Vec::new(),
        };
        let mut wanted: FxHashMap<u32, FxHashSet<(u64, bool)>> = FxHashMap::default();
        let frames = stacks.iter().flat_map(|it| it.steps.iter());
        for Step { frame, .. } in frames {
            let wanted = wanted.entry(frame.module).or_default();
            wanted.insert((frame.address, frame.exact));
        }
        let sampled: Vec<u32> = wanted.keys().copied().collect();
        for module in sampled {
            let starts = names.entry_points(module).chain(names.main(module));
            let starts: Vec<(u64, bool)> = starts.map(|it| (it, true)).collect();
            wanted.entry(module).or_default().extend(starts);
        }
        for (module, addresses) in wanted {
            names.resolve(module, addresses, locator);
        }
        let modules = 0..session.modules.all.len();
        names.linked = modules.map(|it| names.linked(it as u32)).collect();
        names
    }

    fn resolve(&mut self, number: u32, addresses: FxHashSet<(u64, bool)>, locator: &Locator) {
        let Some(module) = self.session.modules.all.get(number as usize) else {
            return;
        };
        let path = Path::new(OsStr::from_bytes(&module.path));
        // Read only if something has no name.
        let nearest = LazyCell::new(|| Nearest::read(locator, path));
        let addresses: Vec<(u64, bool)> = addresses.into_iter().collect();
        let ran = Ran::new(&module.build_id, module.file);
        let symbols = ModuleSymbols::load(locator, path, &ran, None).ok();
        let mut found = symbols.map(|it| it.resolve(&addresses)).unwrap_or_default();
        found.resize_with(addresses.len(), Resolved::default);
        for ((address, exact), found) in addresses.iter().zip(found) {
            let frame = Frame {
                module: number,
                address: *address,
                exact: *exact,
            };
            if found.frames.is_empty() {
                let inside = address.saturating_sub(u64::from(!exact));
                let nearby = nearest.describe(inside).map(|it| (frame, it.name));
                self.unnamed.extend(nearby);
            } else {
                self.named.insert(frame, found.frames);
            }
        }
    }

    /// Starts of the entry points of the allocator that is linked into a module.
    fn entry_points(&self, module: u32) -> impl Iterator<Item = u64> + use<'a> {
        let is_other = self.kinds.get(module as usize) == Some(&Kind::Other);
        let is_loader = |it: &&std::sync::Arc<Module>| is_loader(&it.path);
        let loader = self.session.modules.all.get(module as usize);
        let is_other = is_other && !loader.as_ref().is_some_and(is_loader);
        let functions = self.codes.of(module).filter(|_| is_other);
        let functions = functions.into_iter().flat_map(|it| it.functions());
        let entries = functions.filter(|it| is_entry_point(&it.name));
        entries.map(|it| it.range.start)
    }

    fn main(&self, module: u32) -> Option<u64> {
        let main = self.codes.of(module)?.named("main")?;
        Some(main.range.start)
    }

    fn linked(&self, module: u32) -> Linked {
        let Some(code) = self.codes.of(module) else {
            return Linked::default();
        };
        let starts: Vec<u64> = self.entry_points(module).collect();
        let functions = starts.iter().filter_map(|it| code.function_at(*it));
        let file = |address: u64| {
            let frame = Frame {
                module,
                address,
                exact: true,
            };
            let file = self.frames(&frame).last()?.file.to_string();
            Some(file).filter(|it| !it.is_empty())
        };
        let mut files: FxHashSet<String> = starts.iter().filter_map(|it| file(*it)).collect();
        if let Some(main) = self.main(module).and_then(file) {
            files.remove(&main);
        }
        Linked {
            reached: code.reached(functions).into_iter().collect(),
            files,
        }
    }

    /// The functions of a frame: inlined ones first, the one that has the code last.
    pub(crate) fn frames(&self, frame: &Frame) -> &[Named] {
        self.named.get(frame).map_or(&[], |it| it)
    }

    /// How well it is known that a frame is of an allocator.
    pub(crate) fn evidence(&self, step: &Step) -> Evidence {
        let frame = &step.frame;
        let Some(kind) = self.kinds.get(frame.module as usize) else {
            return Evidence::None;
        };
        let named = self.frames(frame).last();
        let function = named.map(|it| &*it.function);
        if named.is_some_and(|it| self.chosen.has(it)) || belongs(*kind, function) {
            return Evidence::Proof;
        }
        let linked = self.linked.get(frame.module as usize);
        let start = self.codes.function(frame).map(|it| it.range.start);
        let is_reached =
            linked.is_some_and(|it| start.is_some_and(|start| it.reached.contains(&start)));
        match (is_reached, step.is_called_by_name) {
            (true, false) => Evidence::Proof,
            (true, true) => Evidence::Guess,
            _ if linked.is_some_and(|it| named.is_some_and(|n| it.files.contains(&*n.file))) => {
                Evidence::Guess
            }
            _ => Evidence::None,
        }
    }

    /// Why a frame is thought to be of an allocator without proof.
    pub(crate) fn reason(&self, step: &Step) -> &'static str {
        let linked = self.linked.get(step.frame.module as usize);
        let start = self.codes.function(&step.frame).map(|it| it.range.start);
        match linked.is_some_and(|it| start.is_some_and(|start| it.reached.contains(&start))) {
            true => "an entry point jumps to it, but it was called by another function",
            false => "it is in a source file of the allocator's entry points",
        }
    }

    fn is_allocator(&self, frame: &Frame) -> bool {
        let step = Step {
            frame: *frame,
            is_called_by_name: false,
        };
        self.evidence(&step) > Evidence::None
    }

    fn key(&self, frame: &Frame, named: Option<&Named>, with_line: bool) -> Key {
        let (file, line) = match named.filter(|_| with_line) {
            Some(named) => (named.file.to_string(), named.line),
            None => (String::new(), 0),
        };
        Key {
            function: match named {
                Some(named) => self.shown(frame, &named.function).to_owned(),
                None => self.unnamed(frame),
            },
            file,
            line,
            module: frame.module,
            allocator: self.is_allocator(frame),
        }
    }

    fn unnamed(&self, frame: &Frame) -> String {
        if let Some(name) = self.unnamed.get(frame) {
            return name.clone();
        }
        let path = self.path(frame.module);
        match path.rsplit('/').next().unwrap_or_default() {
            "" => format!("{:#x}", frame.address),
            name => format!("{name}+{:#x}", frame.address),
        }
    }

    /// The function that is not inlined.
    pub(crate) fn function(&self, frame: &Frame) -> Key {
        self.key(frame, self.frames(frame).last(), false)
    }

    /// All functions of a frame, the one that has the code first, then what is inlined into it.
    pub(crate) fn functions(&self, frame: &Frame) -> Vec<Key> {
        let frames = self.frames(frame).iter().rev();
        let keys: Vec<Key> = frames.map(|it| self.key(frame, Some(it), false)).collect();
        match keys.is_empty() {
            true => vec![self.function(frame)],
            false => keys,
        }
    }

    /// Whether a module is a program, not a library: the C library can be executed, too.
    pub(crate) fn is_program(&self, module: u32) -> bool {
        let found = self.session.modules.all.get(module as usize);
        found.is_some_and(|it| it.exports.program && !it.exports.c_library && !is_loader(&it.path))
    }

    /// The innermost function and its line.
    pub(crate) fn line(&self, frame: &Frame) -> Key {
        self.key(frame, self.frames(frame).first(), true)
    }

    /// The name that programs call: `malloc` rather than `__GI___libc_malloc`.
    fn shown<'n>(&self, frame: &Frame, function: &'n str) -> &'n str {
        match self.kinds.get(frame.module as usize) {
            Some(Kind::CLibrary) => plain(function),
            _ => function,
        }
    }

    /// Whether frames between two of the allocator may be its own, too, although nothing tells.
    pub(crate) fn is_linked(&self, module: u32) -> bool {
        self.kinds.get(module as usize) == Some(&Kind::Other)
    }

    /// The path of a module.
    pub(crate) fn path(&self, module: u32) -> String {
        let module = self.session.modules.all.get(module as usize);
        module.map_or_else(String::new, |it| text_of(&it.path).into_owned())
    }

    /// The key of a caller of which nothing is known.
    pub(crate) fn unknown_caller() -> Key {
        Key {
            function: "[unknown caller]".to_owned(),
            file: String::new(),
            line: 0,
            module: NO_MODULE,
            allocator: false,
        }
    }
}

fn kind(module: &Module) -> Kind {
    let exports = module.exports;
    match exports.malloc {
        _ if exports.c_library => Kind::CLibrary,
        // The loader has a malloc for its own use; programs have much more than theirs.
        true if !exports.program && !is_loader(&module.path) => Kind::Allocator,
        _ => Kind::Other,
    }
}

fn is_loader(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b"ld-") || name.starts_with(b"ld.so")
}
