//! Names of frames, from the modules that a process lists in its memory.
//!
//! The paths and build ids are the process's, which may be hostile: as for a trace, only regular
//! files are read, and only those that are proven to be the ones that ran. They are opened at
//! the first snapshot of the process ([`Names::open`]), since they may be replaced later.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use allotrope_shm::numbers::stack_end;
use allotrope_shm::samples::reader::Module;
use allotrope_symbols::symbolize::reason;
use allotrope_symbols::{FileIdentity, Locator, ModuleSymbols, Ran, open_mapped};
use allotrope_text::text_of;
use allotrope_trace::model::{MissingNames, NamedFrame};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::snapshot::Snapshot;

/// Most addresses whose names are remembered.
const MAX_ADDRESSES: usize = 1 << 17;
/// Most frames of a stack that are named, the innermost ones.
const MAX_DEPTH: usize = 512;
/// Most modules whose symbols stay loaded.
const MAX_LOADED: usize = 256;
/// Most files of modules that are kept open.
const MAX_OPEN: usize = 128;

/// A frame of a report. Its function is empty if nothing names it.
pub type Frame = NamedFrame<Place>;

/// Where the code of a frame is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The path of the module; empty if the address is in none.
    pub module: Arc<str>,
    /// The address in the module's file; without a module that in the process.
    pub address: u64,
    /// Why the address has no name, if it has none and the reason is known.
    pub missing: Option<&'static str>,
}

/// The function of a frame, or module and address in its place.
pub fn name_of(frame: &Frame) -> String {
    if !frame.function.is_empty() {
        return frame.function.to_string();
    }
    let place = &frame.module;
    let module = place.module.rsplit('/').next().unwrap_or_default();
    match module {
        "" => format!("{:#x}", place.address),
        module => format!("{module}+{:#x}", place.address),
    }
}

/// A module's file: the process's root folder if that is another one, path, build id, what was
/// mapped.
type File = (Option<String>, Vec<u8>, Vec<u8>, FileIdentity);
/// An address in a file, and whether it is exact.
type Address = (u64, bool);

/// The symbols of a file, or why there are none.
type Symbols = Result<Arc<ModuleSymbols>, Option<&'static str>>;

/// Finds names, and remembers them.
#[derive(Debug)]
pub struct Names {
    locator: Locator,
    files: FxHashMap<File, (u32, Symbols)>,
    /// Files whose symbols were not needed so far; `None`: no file is proven to be the one
    /// that ran.
    open: FxHashMap<File, Option<fs::File>>,
    known: FxHashMap<(u32, Address), Arc<[NamedFrame]>>,
    next: u32,
}

impl Names {
    /// Without any names yet.
    pub fn new(locator: Locator) -> Self {
        Self {
            locator: locator.with_new_names(),
            files: FxHashMap::default(),
            open: FxHashMap::default(),
            known: FxHashMap::default(),
            next: 0,
        }
    }

    /// Opens the files of modules that these snapshots are the first to show, and closes those
    /// that no process has mapped any more.
    pub fn open(&mut self, snapshots: &[Snapshot]) {
        let mut mapped = FxHashSet::default();
        for snapshot in snapshots {
            let modules = snapshot.state.modules.iter().map(|(_, module)| module);
            for module in modules.filter(|it| it.unmapped.is_none()) {
                let file = file_of(module, snapshot);
                if mapped.len() >= MAX_OPEN || self.files.contains_key(&file) {
                    continue;
                }
                self.open
                    .entry(file.clone())
                    .or_insert_with(|| open(module, snapshot));
                mapped.insert(file);
            }
        }
        self.open.retain(|file, _| mapped.contains(file));
    }

    /// The frames of stacks of a process, innermost first.
    pub fn stacks(&mut self, snapshot: &Snapshot, stacks: &[u32]) -> Vec<Vec<Frame>> {
        if self.files.len() > MAX_LOADED || self.known.len() > MAX_ADDRESSES {
            self.files.clear();
            self.known.clear();
            self.locator = self.locator.clone().with_new_names();
        }
        let modules = snapshot
            .state
            .modules
            .iter()
            .map(|(number, it)| (*number, it));
        let modules: FxHashMap<u16, &Module> = modules.collect();
        let mut found: Vec<_> = stacks.iter().map(|id| snapshot.state.stack(*id)).collect();
        found
            .iter_mut()
            .for_each(|it| it.frames.truncate(MAX_DEPTH));
        let mut wanted: FxHashMap<u16, FxHashSet<Address>> = FxHashMap::default();
        for frame in found.iter().flat_map(|it| &it.frames) {
            if let Some(module) = modules.get(&frame.mapping) {
                let address = frame.address.wrapping_sub(module.bias);
                let wanted = wanted.entry(frame.mapping).or_default();
                wanted.insert((address, frame.exact));
            }
        }
        let mut resolved = FxHashMap::default();
        for (mapping, addresses) in wanted {
            if let Some(module) = modules.get(&mapping) {
                resolved.insert(mapping, self.resolve(module, snapshot, addresses));
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
                let found = resolved.get(&frame.mapping).copied();
                let (number, missing) = found.unwrap_or_default();
                let known = self.known.get(&(number, address));
                let known = known.filter(|_| found.is_some());
                let place = Place {
                    module: path.into(),
                    address: address.0,
                    missing,
                };
                add(known.map_or(&[], |it| it), place, &mut frames);
            }
            if stack.end == stack_end::NOT_RECORDED {
                frames.push(Frame {
                    function: "[no stack]".into(),
                    ..Frame::default()
                });
            }
            all.push(frames);
        }
        all
    }

    /// Makes sure that these addresses of a module are known. Returns the number of its file,
    /// and why addresses in it have no names.
    fn resolve(
        &mut self,
        module: &Module,
        snapshot: &Snapshot,
        addresses: FxHashSet<Address>,
    ) -> (u32, Option<&'static str>) {
        let file = file_of(module, snapshot);
        let (number, symbols) = match self.files.get(&file) {
            Some((number, symbols)) => (*number, symbols.clone()),
            None => {
                let opened = self.open.remove(&file).flatten();
                let symbols = self.load(module, snapshot, opened).map(Arc::new);
                let number = self.next;
                self.next = self.next.wrapping_add(1);
                self.files.insert(file, (number, symbols.clone()));
                (number, symbols)
            }
        };
        let symbols = match symbols {
            Ok(symbols) => symbols,
            Err(reason) => return (number, reason),
        };
        let addresses = addresses.into_iter();
        let missing: Vec<Address> = addresses
            .filter(|it| !self.known.contains_key(&(number, *it)))
            .collect();
        if !missing.is_empty() {
            for (address, resolved) in missing.iter().zip(symbols.resolve(&missing)) {
                self.known
                    .insert((number, *address), resolved.frames.into());
            }
        }
        (number, Some(MissingNames::Stripped.reason()))
    }

    fn load(
        &self,
        module: &Module,
        snapshot: &Snapshot,
        opened: Option<fs::File>,
    ) -> Result<ModuleSymbols, Option<&'static str>> {
        let path = Path::new(OsStr::from_bytes(&module.path));
        // The path of a module that is in no file is not absolute.
        if !path.is_absolute() {
            return Err(None);
        }
        let ran = Ran::new(&module.build_id, module.file);
        let mapped = opened.or_else(|| open(module, snapshot));
        let load = |locator: &Locator, file| ModuleSymbols::load(locator, path, &ran, file);
        let root = snapshot.root.as_deref();
        let below = root.map(|root| {
            let file = mapped.as_ref().and_then(|file| file.try_clone().ok());
            load(&self.locator.clone().with_sysroot(root), file)
        });
        // A process that has gone into a chroot after its start has its files outside.
        match below {
            Some(Ok(symbols)) => Ok(symbols),
            Some(Err(error)) => load(&self.locator, mapped).map_err(|_| error),
            None => load(&self.locator, mapped),
        }
        .map_err(|error| Some(reason(&error)))
    }
}

fn file_of(module: &Module, snapshot: &Snapshot) -> File {
    (
        snapshot.root.clone(),
        module.path.clone(),
        module.build_id.clone(),
        module.file,
    )
}

/// Opens the file that the process has mapped. Another process that got the same id later
/// has another file, which is not proven.
fn open(module: &Module, snapshot: &Snapshot) -> Option<fs::File> {
    let path = Path::new(OsStr::from_bytes(&module.path));
    let process = PathBuf::from(format!("/proc/{}", snapshot.process));
    let ran = Ran::new(&module.build_id, module.file);
    let is_in_file = path.is_absolute();
    is_in_file.then(|| open_mapped(&process, path, module.start, &ran))?
}

fn add(known: &[NamedFrame], place: Place, frames: &mut Vec<Frame>) {
    if known.is_empty() {
        frames.push(Frame::default().with_module(place));
        return;
    }
    let place = Place {
        missing: None,
        ..place
    };
    frames.extend(known.iter().map(|frame| frame.with_module(place.clone())));
}
