//! The modules of the process, so that addresses can be looked up after it has ended.

use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::mapped_file::FileIdentity;

use crate::samples::layout::{BUILD_ID, MODULE_PATH, MODULES, module_state};
use crate::samples::writer::{Host, Writer, store_bytes};

/// A mapped module.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// Lowest address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// What is added to the addresses of its file.
    pub bias: u64,
    /// The file that was mapped, if there is no build id.
    pub file: FileIdentity,
    /// Build id of the file; one that is longer than [`BUILD_ID`] is cut.
    pub build_id: &'a [u8],
    /// Path of the file.
    pub path: &'a [u8],
}

impl<H: Host> Writer<'_, H> {
    /// A module is mapped, and has this number, which none had before. `false`: there is no
    /// place for it, which is counted. The caller holds the lock of its module table.
    pub fn map(&self, number: u16, module: &Module<'_>, now: u64) -> bool {
        let slot = self.memory.modules.get(usize::from(number));
        let Some(slot) = slot.filter(|slot| self.commits(*slot)) else {
            self.memory.counters.0.lost_modules.fetch_add(1, Relaxed);
            return false;
        };
        slot.start.store(module.start, Relaxed);
        slot.end.store(module.end, Relaxed);
        slot.bias.store(module.bias, Relaxed);
        slot.mapped.store(now, Relaxed);
        let build_id = &module.build_id[..module.build_id.len().min(BUILD_ID)];
        let path = &module.path[module.path.len().saturating_sub(MODULE_PATH)..];
        for (to, word) in slot.file.iter().zip(module.file.to_words()) {
            to.store(word, Relaxed);
        }
        store_bytes(&slot.build_id, build_id);
        store_bytes(&slot.path, path);
        let lengths = build_id.len() as u64 | (path.len() as u64) << 32;
        slot.lengths.store(lengths, Relaxed);
        slot.state.store(module_state::MAPPED, Release);
        true
    }

    /// The module with this number is gone. Its stacks stay.
    pub fn unmap(&self, number: u16, now: u64) {
        const _: () = assert!(MODULES <= u16::MAX as usize);
        let slot = self.memory.modules.get(usize::from(number));
        if let Some(slot) = slot.filter(|slot| self.is_committed(*slot)) {
            slot.unmapped.store(now, Relaxed);
            slot.state.store(module_state::UNMAPPED, Release);
        }
    }
}
