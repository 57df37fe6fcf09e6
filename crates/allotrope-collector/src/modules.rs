//! The modules of a recording (executables and shared libraries) and the addresses in
//! them that need names ([`Modules`]); the mappings of each image ([`ImageMappings`]).
//!
//! `stream` calls this file for each mapping event and each new stack node; at the end
//! `symbolise` takes the modules. Their files are opened when they are first mapped,
//! since they may be deleted or replaced before the end of the recording.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use allotrope_shm::wire::{self, NO_MAPPING, PackedBytes};
use allotrope_symbolize::FileAddress;
use allotrope_trace::model::{self, ImageId, Mapping, MappingId, Module, ModuleId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::process;

/// Most files kept open; the files of further modules are opened by path at the end.
const MOST_FILES: usize = 512;
/// Most modules of a recording; addresses in further ones get no names.
const MOST_MODULES: usize = 1 << 16;
/// Most addresses in all modules together; further ones get no names.
const MOST_ADDRESSES: usize = 8 << 20;
/// Most mappings of an image whose number was in use before.
const MOST_RENUMBERED: usize = 1 << 18;

/// A module, its file if that could be opened, and the addresses that need names.
#[derive(Debug)]
pub(crate) struct KnownModule {
    pub(crate) module: Module,
    pub(crate) file: Option<File>,
    pub(crate) addresses: FxHashSet<FileAddress>,
}

/// All modules of the recording; a module is identified by its path and build id.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    ids: FxHashMap<(PathBuf, Vec<u8>), ModuleId>,
    known: Vec<KnownModule>,
    files: usize,
    addresses: usize,
}

impl Modules {
    /// Finds or adds a module; returns its id and whether it is new. `None` if there
    /// are too many.
    fn intern(&mut self, pid: u32, path: PathBuf, build_id: Vec<u8>) -> Option<(ModuleId, bool)> {
        let key = (path, build_id);
        if let Some(id) = self.ids.get(&key) {
            return Some((*id, false));
        }
        if self.known.len() >= MOST_MODULES {
            return None;
        }
        let id = self.known.len() as ModuleId;
        let file = (self.files < MOST_FILES)
            .then(|| open_module(pid, &key.0))
            .flatten();
        self.files += usize::from(file.is_some());
        self.known.push(KnownModule {
            module: Module {
                module: id,
                path: key.0.clone(),
                build_id: key.1.clone(),
            },
            file,
            addresses: FxHashSet::default(),
        });
        self.ids.insert(key, id);
        Some((id, true))
    }

    fn request(&mut self, module: ModuleId, address: FileAddress) {
        if self.addresses < MOST_ADDRESSES && self.known[module as usize].addresses.insert(address)
        {
            self.addresses += 1;
        }
    }

    /// The modules with their addresses, by id.
    pub(crate) fn into_known(self) -> Vec<KnownModule> {
        self.known
    }
}

/// Opens a module's file as the process `pid` sees it: its running executable, or the
/// path in its root folder; if that fails, the path in the collector's.
fn open_module(pid: u32, path: &Path) -> Option<File> {
    let regular = |file: File| file.metadata().is_ok_and(|it| it.is_file()).then_some(file);
    if !path.is_absolute() {
        return None;
    }
    let open = |path: &Path| allotrope_files::open_regular(path).ok();
    let is_executable = process::executable_path(pid).is_some_and(|executable| executable == path);
    if is_executable && let Ok(file) = process::open_executable(pid) {
        return regular(file);
    }
    open(&process::rooted(pid, path))
        .or_else(|| open(path))
        .and_then(regular)
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
/// Most early addresses for each mapping.
const MOST_EARLY: usize = 1 << 16;

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
        pid: u32,
        words: &wire::Mapping<PackedBytes<'_>>,
        modules: &mut Modules,
    ) -> Option<NewMapping> {
        let number = words.mapping;
        if number == NO_MAPPING {
            return None;
        }
        let path: Vec<u8> = words.path.iter().collect();
        let path = PathBuf::from(OsString::from_vec(path));
        let (module, is_new) = modules.intern(pid, path, words.build_id.iter().collect())?;
        let content = Content {
            module,
            start: words.start,
            end: words.end,
            bias: words.bias,
        };
        let id = match self.current.get(&number) {
            Some((_, known)) if *known == content => return None,
            None => MappingId::from(number),
            Some(_) if self.renumbered >= MOST_RENUMBERED => return None,
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
                if early.len() < MOST_EARLY {
                    early.push((address, exact));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(number: u16, start: u64, path: &[u64]) -> wire::Mapping<PackedBytes<'_>> {
        wire::Mapping {
            mapping: number,
            start,
            end: start + 0x1000,
            bias: start,
            tick: 1,
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
            .define(0, 1, &words(3, 0x5000, &path), &mut modules)
            .unwrap();
        assert_eq!(first.module.unwrap().path, Path::new("/no/file"));
        assert_eq!(first.mapping.mapping, 3);
        let again = mappings.define(0, 1, &words(3, 0x5000, &path), &mut modules);
        assert_eq!(again, None);
        let other = mappings
            .define(0, 1, &words(3, 0x9000, &path), &mut modules)
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
        mappings.define(0, 1, &words(3, 0x5000, &path), &mut modules);
        mappings.request(3, 0x5020, true, &mut modules);
        mappings.request(3, 0x5020, true, &mut modules);
        let known = modules.into_known();
        let mut addresses: Vec<_> = known[0].addresses.iter().copied().collect();
        addresses.sort_unstable();
        assert_eq!(addresses, [(0x10, false), (0x20, true)]);
    }

    #[test]
    fn the_running_executable_is_opened_and_only_regular_files_are() {
        let pid = std::process::id();
        let path = std::env::current_exe().unwrap();
        assert!(open_module(pid, &path).is_some());
        assert!(
            open_module(pid, Path::new("/dev/null")).is_none(),
            "no regular file"
        );
        assert!(open_module(pid, Path::new("relative")).is_none());
    }
}
