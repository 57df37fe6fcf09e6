//! The module files of all processes, each once; and texts of the header.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use allotrope_shm::samples::reader;
use allotrope_trace::model::{FileIdentity, Module, ModuleId, Record};
use rustc_hash::FxHashMap;

/// A map from a module's path and what was mapped to its id in the file.
#[derive(Debug, Default)]
pub(crate) struct ModuleTable {
    ids: FxHashMap<(Vec<u8>, Vec<u8>, FileIdentity), ModuleId>,
}

impl ModuleTable {
    /// The id of a module file. Appends its record if it is new.
    pub(crate) fn id(&mut self, module: &reader::Module, records: &mut Vec<Record>) -> ModuleId {
        let reader::Module {
            path,
            build_id,
            file,
            ..
        } = module;
        let next = self.ids.len() as ModuleId;
        let key = (path.clone(), build_id.clone(), *file);
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            records.push(Record::Module(Module {
                module: id,
                path: path_of(path),
                build_id: build_id.clone(),
                file: *file,
            }));
        }
        id
    }
}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

/// The arguments of a command line, each of which a zero byte ends. The last one may be cut.
pub(crate) fn arguments(command: &[u8]) -> Vec<OsString> {
    let command = command.strip_suffix(b"\0").unwrap_or(command);
    if command.is_empty() {
        return Vec::new();
    }
    let words = command.split(|&byte| byte == 0);
    words
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_end_with_a_zero_byte() {
        assert_eq!(arguments(b"a\0--b\0"), ["a", "--b"]);
        assert_eq!(arguments(b"a\0\0"), ["a", ""]);
        assert_eq!(arguments(b"a\0cu"), ["a", "cu"]);
        assert!(arguments(b"").is_empty());
    }
}
