//! The module files of a recording and which of their addresses need names;
//! the files are kept open, for by the time the names are looked up they may
//! have been deleted or replaced.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use allotrope_shm::wire::{self, NO_MAPPING, PackedBytes};
use allotrope_symbolize::FileAddress;
use allotrope_trace::model::{self, ImageId, Mapping, MappingId, Module, ModuleId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::process;

/// Files kept open; modules beyond are looked up by their path later.
const MOST_FILES: usize = 512;
/// Modules of a recording; what lies in one beyond has no name.
const MOST_MODULES: usize = 1 << 16;
/// Addresses to be named in all modules together.
const MOST_ADDRESSES: usize = 8 << 20;
/// Mappings of an image over its life.
const MOST_MAPPINGS: usize = 1 << 18;

/// A module of the recording.
#[derive(Debug)]
pub(crate) struct KnownModule {
    pub(crate) module: Module,
    pub(crate) file: Option<File>,
    pub(crate) addresses: FxHashSet<FileAddress>,
}

/// All modules of the recording.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    ids: FxHashMap<(PathBuf, Vec<u8>), ModuleId>,
    known: Vec<KnownModule>,
    files: usize,
    addresses: usize,
}

impl Modules {
    /// The module's id and, if it is new, its record.
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

    fn want(&mut self, module: ModuleId, address: FileAddress) {
        if self.addresses < MOST_ADDRESSES && self.known[module as usize].addresses.insert(address)
        {
            self.addresses += 1;
        }
    }

    /// The modules with what is to be named in them.
    pub(crate) fn into_known(self) -> Vec<KnownModule> {
        self.known
    }
}

/// The file as the program sees it: in its root folder, or what it runs from.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    module: ModuleId,
    start: u64,
    end: u64,
    bias: u64,
}

/// The mappings of one image.
#[derive(Debug, Default)]
pub(crate) struct ImageMappings {
    /// What a number of the recorder's means now.
    current: FxHashMap<u16, (MappingId, Content)>,
    /// The ids among them by number, for it is asked with every stack node. Those
    /// beyond are the numbers themselves.
    ids: Vec<MappingId>,
    /// Addresses in mappings that are not known yet: the node may come through
    /// another ring than its mapping.
    early: FxHashMap<u16, Vec<FileAddress>>,
    /// Mappings beyond the recorder's numbers.
    renumbered: usize,
}

/// Id of the first mapping whose number was used before for another one.
const FIRST_RENUMBERED: MappingId = 1 << 16;
/// Addresses kept per mapping that is not known yet.
const MOST_EARLY: usize = 1 << 16;

/// What is new with a mapping event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewMapping {
    pub(crate) module: Option<Module>,
    pub(crate) mapping: Mapping,
}

impl ImageMappings {
    /// Takes note of a mapping event; gives what is to be written of it.
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
            Some(_) if self.renumbered >= MOST_MAPPINGS => return None,
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
            modules.want(module, (address.wrapping_sub(content.bias), exact));
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

    /// The trace's id for a number of the recorder's.
    #[inline]
    pub(crate) fn id(&self, number: u16) -> MappingId {
        if number == NO_MAPPING {
            return model::NO_MAPPING;
        }
        let id = self.ids.get(usize::from(number));
        id.map_or(MappingId::from(number), |id| *id)
    }

    /// Notes that a new stack node has this run-time address.
    pub(crate) fn want(&mut self, number: u16, address: u64, exact: bool, modules: &mut Modules) {
        if number == NO_MAPPING {
            return;
        }
        match self.current.get(&number) {
            Some((_, content)) => {
                modules.want(content.module, (address.wrapping_sub(content.bias), exact))
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
    fn a_mapping_told_again_is_written_once_and_its_number_may_be_used_again() {
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
    fn addresses_that_come_before_their_mapping_are_named_too() {
        let path = [u64::from_le_bytes(*b"/no/file")];
        let (mut mappings, mut modules) = (ImageMappings::default(), Modules::default());
        mappings.want(3, 0x5010, false, &mut modules);
        mappings.define(0, 1, &words(3, 0x5000, &path), &mut modules);
        mappings.want(3, 0x5020, true, &mut modules);
        mappings.want(3, 0x5020, true, &mut modules);
        let known = modules.into_known();
        let mut addresses: Vec<_> = known[0].addresses.iter().copied().collect();
        addresses.sort_unstable();
        assert_eq!(addresses, [(0x10, false), (0x20, true)]);
    }

    #[test]
    fn the_running_executable_is_opened_even_though_its_path_may_be_gone() {
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
