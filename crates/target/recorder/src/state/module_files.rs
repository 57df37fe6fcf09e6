//! The files of mapped modules that have no build id, as they were when the loader mapped
//! them: only this shows later whether a file is the one that runs. A forked child keeps
//! what its parent found, since another file may be at the path by then.

use core::ffi::CStr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::mapped_file::{FileIdentity, IDENTITY_WORDS, code_hash};

use crate::state::detours;
use crate::state::image;
use crate::state::module_table::{Module, PATH_BYTES};
use crate::sys::system;

/// Largest number of modules without a build id; further ones have no known file.
const FILES: usize = 512;

/// The file of one module; changed under the process lock.
struct Entry {
    /// Where the module is mapped; 0: the entry is free.
    start: AtomicU64,
    bias: AtomicU64,
    file: [AtomicU64; IDENTITY_WORDS],
}

static ENTRIES: [Entry; FILES] = [const {
    Entry {
        start: AtomicU64::new(0),
        bias: AtomicU64::new(0),
        file: [const { AtomicU64::new(0) }; IDENTITY_WORDS],
    }
}; FILES];

/// The file of a module without a build id; all zero if it is not known. The process lock
/// is held.
pub fn identity(module: &Module) -> FileIdentity {
    let known = ENTRIES
        .iter()
        .find(|it| it.start.load(Relaxed) == module.start && it.bias.load(Relaxed) == module.bias);
    if let Some(entry) = known.filter(|_| !module.is_new()) {
        return entry.file();
    }
    let entry = known.or_else(|| ENTRIES.iter().find(|it| it.start.load(Relaxed) == 0));
    let Some(entry) = entry else {
        return FileIdentity::default();
    };
    let file = look_up(module).unwrap_or_default();
    entry.start.store(module.start, Relaxed);
    entry.bias.store(module.bias, Relaxed);
    for (to, word) in entry.file.iter().zip(file.to_words()) {
        to.store(word, Relaxed);
    }
    file
}

/// Forgets the modules that are mapped no more, because another one may be mapped in the
/// place of one. The process lock is held.
pub fn retain(is_mapped: impl Fn(u64) -> bool) {
    for entry in &ENTRIES {
        let start = entry.start.load(Relaxed);
        if start != 0 && !is_mapped(start) {
            entry.start.store(0, Relaxed);
        }
    }
}

/// Whether no module is known.
pub fn is_empty() -> bool {
    ENTRIES.iter().all(|it| it.start.load(Relaxed) == 0)
}

impl Entry {
    fn file(&self) -> FileIdentity {
        FileIdentity::from_words(self.file.each_ref().map(|word| word.load(Relaxed)))
    }
}

/// What the file system shows at the module's path. The code is compared later with that of
/// the file, in case the file was replaced since the loader opened it.
fn look_up(module: &Module) -> Option<FileIdentity> {
    let mut path = [0; PATH_BYTES + 1];
    let path = match module.is_program() && !image::is_started_by_loader() {
        true => c"/proc/self/exe",
        false => {
            let name = module.path();
            // A relative path is relative to the folder in which the loader opened it.
            if !(name.starts_with(b"/") || module.is_new() && name.contains(&b'/')) {
                return None;
            }
            path.get_mut(..name.len())?.copy_from_slice(name);
            CStr::from_bytes_until_nul(&path).ok()?
        }
    };
    let status = system::status_at(path)?;
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let seconds = number(status.st_mtime).wrapping_mul(1_000_000_000);
    Some(FileIdentity {
        device: status.st_dev,
        inode: status.st_ino,
        size: number(status.st_size),
        modified_ns: seconds.wrapping_add(number(status.st_mtime_nsec)),
        code: code(module),
    })
}

/// The hash of its headers and code; 0 if it is not known, or if the recorder has patched
/// the code.
fn code(module: &Module) -> u64 {
    let program = detours::program();
    if program.start < module.end && module.start < program.end {
        return 0;
    }
    let found = module.headers_and_code();
    found.map_or(0, |(headers, code)| code_hash(headers, code))
}
