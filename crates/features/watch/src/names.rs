//! Names of frames, from the modules that a process lists in its memory.
//!
//! The paths and build ids are the process's, which may be hostile: as for a trace, only regular
//! files are read, and only those that are proven to be the ones that ran.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use allotrope_shm::numbers::stack_end;
use allotrope_symbols::{FileIdentity, Frame, Locator, ModuleSymbols, Ran, open_mapped};
use allotrope_text::text_of;
use allotrope_watched::reader::Module;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::look::Look;

/// Most addresses whose names are remembered.
const REMEMBERED: usize = 1 << 17;
/// Most frames of a stack that are named, the innermost ones.
const DEEPEST: usize = 512;
/// Most modules whose symbols stay loaded.
const LOADED: usize = 256;

/// A frame of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFrame {
    /// The function; empty if nothing names it.
    pub function: Arc<str>,
    /// Its full form.
    pub signature: Arc<str>,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
    /// Line from 1; 0 if unknown.
    pub line: u32,
    /// The path of the module; empty if the address is in none.
    pub module: Arc<str>,
    /// The address in the module's file; without a module that in the process.
    pub address: u64,
}

impl NamedFrame {
    /// The function, or module and address in its place.
    pub fn name(&self) -> String {
        if !self.function.is_empty() {
            return self.function.to_string();
        }
        let module = self.module.rsplit('/').next().unwrap_or_default();
        match module {
            "" => format!("{:#x}", self.address),
            module => format!("{module}+{:#x}", self.address),
        }
    }
}

/// A module's file: the process's root folder if that is another one, path, build id, what was
/// mapped.
type File = (Option<String>, Vec<u8>, Vec<u8>, FileIdentity);
/// An address in a file, and whether it is exact.
type Address = (u64, bool);

/// Finds names, and remembers them.
#[derive(Debug)]
pub struct Names {
    locator: Locator,
    files: FxHashMap<File, (u32, Option<Arc<ModuleSymbols>>)>,
    known: FxHashMap<(u32, Address), Arc<[Frame]>>,
    next: u32,
}

impl Names {
    /// Without any names yet.
    pub fn new(locator: Locator) -> Self {
        Self {
            locator: locator.with_new_names(),
            files: FxHashMap::default(),
            known: FxHashMap::default(),
            next: 0,
        }
    }

    /// The frames of stacks of a process, innermost first.
    pub fn stacks(&mut self, look: &Look, stacks: &[u32]) -> Vec<Vec<NamedFrame>> {
        if self.files.len() > LOADED || self.known.len() > REMEMBERED {
            self.files.clear();
            self.known.clear();
            self.locator = self.locator.clone().with_new_names();
        }
        let modules = look.state.modules.iter().map(|(number, it)| (*number, it));
        let modules: FxHashMap<u16, &Module> = modules.collect();
        let mut found: Vec<_> = stacks.iter().map(|id| look.state.stack(*id)).collect();
        found.iter_mut().for_each(|it| it.frames.truncate(DEEPEST));
        let mut wanted: FxHashMap<u16, FxHashSet<Address>> = FxHashMap::default();
        for frame in found.iter().flat_map(|it| &it.frames) {
            if let Some(module) = modules.get(&frame.mapping) {
                let address = frame.address.wrapping_sub(module.bias);
                let wanted = wanted.entry(frame.mapping).or_default();
                wanted.insert((address, frame.exact));
            }
        }
        let mut numbers = FxHashMap::default();
        for (mapping, addresses) in wanted {
            if let Some(module) = modules.get(&mapping) {
                numbers.insert(mapping, self.resolve(module, look, addresses));
            }
        }
        let mut all = Vec::new();
        for stack in &found {
            let mut frames = Vec::new();
            for frame in &stack.frames {
                let module = modules.get(&frame.mapping);
                let base = module.map_or(0, |it| it.bias);
                let address = (frame.address.wrapping_sub(base), frame.exact);
                let path = module.map_or_else(|| "".into(), |it| text_of(&it.path));
                let number = numbers.get(&frame.mapping);
                let known = number.and_then(|number| self.known.get(&(*number, address)));
                add(
                    known.map_or(&[], |it| it),
                    address.0,
                    &Arc::from(path),
                    &mut frames,
                );
            }
            if stack.end == stack_end::NOT_RECORDED {
                frames.push(unknown("[no stack]"));
            }
            all.push(frames);
        }
        all
    }

    /// Makes sure that these addresses of a module are known. Returns the number of its file.
    fn resolve(&mut self, module: &Module, look: &Look, addresses: FxHashSet<Address>) -> u32 {
        let root = look.root.as_deref();
        let file = (
            root.map(str::to_owned),
            module.path.clone(),
            module.build_id.clone(),
            module.file,
        );
        let (number, symbols) = match self.files.get(&file) {
            Some((number, symbols)) => (*number, symbols.clone()),
            None => {
                let symbols = self.load(module, look).map(Arc::new);
                let number = self.next;
                self.next = self.next.wrapping_add(1);
                self.files.insert(file, (number, symbols.clone()));
                (number, symbols)
            }
        };
        let addresses = addresses.into_iter();
        let missing: Vec<Address> = addresses
            .filter(|it| !self.known.contains_key(&(number, *it)))
            .collect();
        let Some(symbols) = symbols.filter(|_| !missing.is_empty()) else {
            return number;
        };
        for (address, resolved) in missing.iter().zip(symbols.resolve(&missing)) {
            self.known
                .insert((number, *address), resolved.frames.into());
        }
        number
    }

    fn load(&self, module: &Module, look: &Look) -> Option<ModuleSymbols> {
        let path = Path::new(OsStr::from_bytes(&module.path));
        // The path of a module that is in no file is not absolute.
        if !path.is_absolute() {
            return None;
        }
        let ran = Ran::new(&module.build_id, module.file);
        // Another process that got the same id later has another file, which is not proven.
        let process = PathBuf::from(format!("/proc/{}", look.process));
        let mapped = open_mapped(&process, path, module.start, &ran);
        let load = |locator: &Locator, file| ModuleSymbols::load(locator, path, &ran, file).ok();
        let root = look.root.as_deref();
        let below = root.and_then(|root| {
            let file = mapped.as_ref().and_then(|file| file.try_clone().ok());
            load(&self.locator.clone().with_sysroot(root), file)
        });
        // A process that has gone into a chroot after its start has its files outside.
        below.or_else(|| load(&self.locator, mapped))
    }
}

fn add(known: &[Frame], address: u64, module: &Arc<str>, frames: &mut Vec<NamedFrame>) {
    if known.is_empty() {
        frames.push(NamedFrame {
            module: Arc::clone(module),
            address,
            ..unknown("")
        });
    }
    frames.extend(known.iter().map(|frame| NamedFrame {
        function: Arc::clone(&frame.function),
        signature: Arc::clone(&frame.signature),
        file: Arc::clone(&frame.file),
        line: frame.line,
        module: Arc::clone(module),
        address,
    }));
}

fn unknown(name: &str) -> NamedFrame {
    NamedFrame {
        function: name.into(),
        signature: "".into(),
        file: "".into(),
        line: 0,
        module: "".into(),
        address: 0,
    }
}
