//! The modules of a recording (executables and shared libraries) and the addresses in
//! them that need names ([`Modules`]); the mappings of each image ([`ImageMappings`]).
//!
//! `stream` calls this file for each mapping event and each new stack node; at the end
//! `symbolise` takes the modules. Their files are opened when they are first mapped,
//! since they may be deleted or replaced before the end of the recording. Only a file that
//! is proven to be the mapped one is kept (`proof` of allotrope-symbols).

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use allotrope_shm::wire::{self, NO_MAPPING, PackedBytes};
use allotrope_symbols::symbolize::FileAddress;
use allotrope_symbols::{FileIdentity, Ran, identity_of, open_at, open_mapped};
use allotrope_trace::model::{self, ImageId, Mapping, MappingId, Module, ModuleId};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::process;

/// Largest number of files kept open, as far as the limit of descriptors allows; the files of
/// further modules are opened by path at the end.
const MAX_FILES: usize = 4 << 10;
/// Descriptors that the collector needs for other things.
const OTHER_DESCRIPTORS: usize = 512;
/// Largest number of modules of a recording; addresses in further ones get no names.
const MAX_MODULES: usize = 1 << 16;
/// Largest number of addresses in all modules together; further ones get no names.
const MAX_ADDRESSES: usize = 8 << 20;
/// Largest number of mappings of an image whose number was in use before.
const MAX_RENUMBERED: usize = 1 << 18;

/// A module, its file if that could be opened, and the addresses that need names.
#[derive(Debug)]
pub(crate) struct KnownModule {
    pub(crate) module: Module,
    /// Proven to be the file that ran.
    pub(crate) file: Option<File>,
    /// The process was there when the module was reported, so that its files could be seen.
    pub(crate) was_seen: bool,
    pub(crate) addresses: FxHashSet<FileAddress>,
}

/// What identifies a module: two builds at one path are two modules.
type Key = (PathBuf, Vec<u8>, FileIdentity);

/// All modules of the recording.
#[derive(Debug)]
pub(crate) struct Modules {
    ids: FxHashMap<Key, ModuleId>,
    known: Vec<KnownModule>,
    files: usize,
    most_files: usize,
    addresses: usize,
}

impl Default for Modules {
    fn default() -> Self {
        Self {
            ids: FxHashMap::default(),
            known: Vec::new(),
            files: 0,
            most_files: raise_descriptor_limit().min(MAX_FILES),
            addresses: 0,
        }
    }
}

/// Raises the limit of open descriptors as far as the process may, and returns the number
/// that modules can have. The collector starts no program that would inherit the limit.
fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let reached = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let reached = reached.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
    reached.saturating_sub(OTHER_DESCRIPTORS)
}

impl Modules {
    /// Finds or adds a module that is mapped at `start` in the process `pid`, if that can be
    /// seen; returns its id and whether it is new. `None` if there are too many.
    fn intern(&mut self, pid: Option<u32>, key: Key, start: u64) -> Option<(ModuleId, bool)> {
        if let Some(&id) = self.ids.get(&key) {
            // Another process may see the file where the first one was gone already.
            if self.known[id as usize].file.is_none() && pid.is_some() {
                self.open(id, pid, start);
            }
            return Some((id, false));
        }
        if self.known.len() >= MAX_MODULES {
            return None;
        }
        let id = self.known.len() as ModuleId;
        let (path, build_id, file) = key.clone();
        self.known.push(KnownModule {
            module: Module {
                module: id,
                path,
                build_id,
                file,
            },
            file: None,
            was_seen: false,
            addresses: FxHashSet::default(),
        });
        self.ids.insert(key, id);
        self.open(id, pid, start);
        Some((id, true))
    }

    /// Opens the module's file, unless too many are open.
    fn open(&mut self, id: ModuleId, pid: Option<u32>, start: u64) {
        let known = &mut self.known[id as usize];
        known.was_seen |= pid.is_some();
        if self.files >= self.most_files {
            return;
        }
        known.file = open_module(pid, &known.module, start);
        if let Some(file) = &known.file {
            self.files += 1;
            let module = &mut known.module;
            // The code is compared for modules without a build id only.
            let code = module.file.code;
            let identity = identity_of(file).unwrap_or_default();
            module.file = FileIdentity { code, ..identity };
        }
    }

    fn request(&mut self, module: ModuleId, address: FileAddress) {
        if self.addresses < MAX_ADDRESSES && self.known[module as usize].addresses.insert(address) {
            self.addresses += 1;
        }
    }

    /// The modules with their addresses, by id.
    pub(crate) fn into_known(self) -> Vec<KnownModule> {
        self.known
    }
}

/// Opens a module's file through the process that has mapped it or, where that cannot be
/// seen, at its path; `None` if no file is proven to be the one that is mapped.
fn open_module(pid: Option<u32>, module: &Module, start: u64) -> Option<File> {
    // The path of a module that is in no file is not absolute (`linux-vdso.so.1`).
    if !module.path.is_absolute() && !module.path.as_os_str().as_bytes().contains(&b'/') {
        return None;
    }
    let ran = Ran::new(&module.build_id, module.file);
    let of_process =
        pid.and_then(|pid| open_mapped(&process::folder(pid), &module.path, start, &ran));
    of_process.or_else(|| open_at(&module.path, &ran))
}

/// What a mapping's number refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    module: ModuleId,
    start: u64,
    end: u64,
    bias: u64,
}

/// The mappings of one image. The recorder numbers them with 16 bits and reuses the
/// numbers of unmapped ones; the trace's ids are unique. The first mapping with a number
/// has the number as its id, later ones have ids from [`FIRST_RENUMBERED`] on.
#[derive(Debug, Default)]
pub(crate) struct ImageMappings {
    /// The current mapping of each of the recorder's numbers.
    current: FxHashMap<u16, (MappingId, Content)>,
    /// The ids in `current` once more, indexed by number, since every stack node needs
    /// one. A number beyond the end is its own id.
    ids: Vec<MappingId>,
    /// Run-time addresses in mappings that were not received yet: a stack node and its
    /// mapping may arrive through different rings.
    early: FxHashMap<u16, Vec<FileAddress>>,
    /// Number of mappings with an id from [`FIRST_RENUMBERED`] on.
    renumbered: usize,
}

/// Id of the first mapping whose number was in use before.
const FIRST_RENUMBERED: MappingId = 1 << 16;
/// Largest number of early addresses for each mapping.
const MAX_EARLY: usize = 1 << 16;

/// The records for a mapping event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewMapping {
    pub(crate) module: Option<Module>,
    pub(crate) mapping: Mapping,
}

impl ImageMappings {
    /// Adds the mapping of an event; returns the records to write. `None` if the image
    /// has this mapping already or a limit is reached.
    pub(crate) fn define(
        &mut self,
        image: ImageId,
        pid: Option<u32>,
        words: &wire::Mapping<PackedBytes<'_>>,
        modules: &mut Modules,
    ) -> Option<NewMapping> {
        let number = words.mapping;
        if number == NO_MAPPING {
            return None;
        }
        let path: Vec<u8> = words.path.iter().collect();
        let path = PathBuf::from(OsString::from_vec(path));
        let key = (path, words.build_id.iter().collect(), words.file);
        let (module, is_new) = modules.intern(pid, key, words.start)?;
        let content = Content {
            module,
            start: words.start,
            end: words.end,
            bias: words.bias,
        };
        let id = match self.current.get(&number) {
            Some((_, known)) if *known == content => return None,
            None => MappingId::from(number),
            Some(_) if self.renumbered >= MAX_RENUMBERED => return None,
            Some(_) => {
                self.renumbered += 1;
                FIRST_RENUMBERED + self.renumbered as MappingId - 1
            }
        };
        self.current.insert(number, (id, content));
        let known = self.ids.len() as MappingId;
        self.ids.extend(known..=MappingId::from(number));
        self.ids[usize::from(number)] = id;
        for (address, exact) in self.early.remove(&number).unwrap_or_default() {
            modules.request(module, (address.wrapping_sub(content.bias), exact));
        }
        Some(NewMapping {
            module: is_new.then(|| modules.known[module as usize].module.clone()),
            mapping: Mapping {
                image,
                mapping: id,
                module,
                start: content.start,
                end: content.end,
                bias: content.bias,
                tick: words.tick,
            },
        })
    }

    /// The trace's id of the recorder's mapping `number`.
    #[inline]
    pub(crate) fn id(&self, number: u16) -> MappingId {
        if number == NO_MAPPING {
            return model::NO_MAPPING;
        }
        let id = self.ids.get(usize::from(number));
        id.map_or(MappingId::from(number), |id| *id)
    }

    /// Requests a name for the run-time address of a new stack node.
    pub(crate) fn request(
        &mut self,
        number: u16,
        address: u64,
        exact: bool,
        modules: &mut Modules,
    ) {
        if number == NO_MAPPING {
            return;
        }
        match self.current.get(&number) {
            Some((_, content)) => {
                modules.request(content.module, (address.wrapping_sub(content.bias), exact))
            }
            None => {
                let early = self.early.entry(number).or_default();
                if early.len() < MAX_EARLY {
                    early.push((address, exact));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn words(number: u16, start: u64, path: &[u64]) -> wire::Mapping<PackedBytes<'_>> {
        wire::Mapping {
            mapping: number,
            start,
            end: start + 0x1000,
            bias: start,
            tick: 1,
            file: FileIdentity::default(),
            build_id: PackedBytes::default(),
            path: PackedBytes {
                words: path,
                length: path.len() * 8,
            },
        }
    }

    #[test]
    fn a_repeated_mapping_is_written_once_and_a_reused_number_gets_a_new_id() {
        let path = [u64::from_le_bytes(*b"/no/file")];
        let (mut mappings, mut modules) = (ImageMappings::default(), Modules::default());
        let first = mappings
            .define(0, None, &words(3, 0x5000, &path), &mut modules)
            .unwrap();
        assert_eq!(first.module.unwrap().path, Path::new("/no/file"));
        assert_eq!(first.mapping.mapping, 3);
        let again = mappings.define(0, None, &words(3, 0x5000, &path), &mut modules);
        assert_eq!(again, None);
        let other = mappings
            .define(0, None, &words(3, 0x9000, &path), &mut modules)
            .unwrap();
        assert_eq!(other.module, None, "the same file");
        assert_eq!(other.mapping.mapping, FIRST_RENUMBERED);
        assert_eq!(mappings.id(3), FIRST_RENUMBERED);
        assert_eq!(mappings.id(2), 2);
        assert_eq!(mappings.id(4), 4);
        assert_eq!(mappings.id(NO_MAPPING), model::NO_MAPPING);
    }

    #[test]
    fn addresses_that_arrive_before_their_mapping_are_named_too() {
        let path = [u64::from_le_bytes(*b"/no/file")];
        let (mut mappings, mut modules) = (ImageMappings::default(), Modules::default());
        mappings.request(3, 0x5010, false, &mut modules);
        mappings.define(0, None, &words(3, 0x5000, &path), &mut modules);
        mappings.request(3, 0x5020, true, &mut modules);
        mappings.request(3, 0x5020, true, &mut modules);
        let known = modules.into_known();
        let mut addresses: Vec<_> = known[0].addresses.iter().copied().collect();
        addresses.sort_unstable();
        assert_eq!(addresses, [(0x10, false), (0x20, true)]);
    }

    /// A module of the file at `path`, as a recorder describes one without a build id.
    fn module_of(path: &Path) -> Module {
        let file = File::open(path).unwrap();
        Module {
            module: 0,
            path: path.to_owned(),
            build_id: Vec::new(),
            file: identity_of(&file).unwrap(),
        }
    }

    #[test]
    fn only_a_file_that_is_proven_to_be_the_mapped_one_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let module = module_of(&path);
        assert!(open_module(None, &module, 0).is_some());
        // Another file of the same contents takes its place.
        let other = folder.path().join("other.so");
        std::fs::copy(&path, &other).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(open_module(None, &module, 0).is_none());
        let unknown = Module {
            file: FileIdentity::default(),
            ..module
        };
        assert!(open_module(None, &unknown, 0).is_none());
    }

    #[test]
    fn the_running_executable_and_a_deleted_file_are_opened_through_the_process() {
        let pid = Some(std::process::id());
        let executable = module_of(&std::env::current_exe().unwrap());
        let elsewhere = Module {
            path: PathBuf::from("/no/such/file"),
            ..executable.clone()
        };
        assert!(open_module(pid, &executable, 0).is_some());
        assert!(open_module(pid, &elsewhere, 0).is_some());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        std::fs::copy(&executable.path, &path).unwrap();
        let deleted = module_of(&path);
        let descriptor = File::open(&path).unwrap();
        drop(folder);
        assert!(open_module(pid, &deleted, 0).is_some());
        drop(descriptor);
        assert!(open_module(pid, &deleted, 0).is_none());
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let device = module_of(Path::new("/dev/null"));
        assert!(open_module(None, &device, 0).is_none());
        let relative = Module {
            path: PathBuf::from("relative"),
            ..device
        };
        assert!(open_module(None, &relative, 0).is_none());
    }

    #[test]
    fn two_builds_at_one_path_are_two_modules() {
        let path = [u64::from_le_bytes(*b"/no/file")];
        let (mut mappings, mut modules) = (ImageMappings::default(), Modules::default());
        let build = |inode| wire::Mapping {
            file: FileIdentity::from_words([1, inode, 3, 4, 5]),
            ..words(3, 0x5000, &path)
        };
        let first = mappings.define(0, None, &build(1), &mut modules).unwrap();
        let second = mappings.define(0, None, &build(2), &mut modules).unwrap();
        assert_ne!(first.mapping.module, second.mapping.module);
        assert_eq!(second.mapping.mapping, FIRST_RENUMBERED);
    }
}
