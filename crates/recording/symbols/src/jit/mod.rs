//! Names of JIT code (JavaScript, Java, .NET), from the files that runtimes write:
//! a [`PerfMap`] or a [`JitDump`].
//!
//! JIT code is moved, freed and overwritten, so the name of an address depends on
//! time. A map has no times: an address must be looked up soon after its code ran, as
//! the collector does when it first reads a stack. A dump has the time at which each
//! piece of code was added: an address is looked up with the time of the allocation.
//!
//! Both files grow while the process runs: [`PerfMap::refresh`] and
//! [`JitDump::refresh`] read what was added since.

mod jit_dump;
mod perf_map;
mod spelling;

use std::sync::Arc;

pub use jit_dump::{JitClock, JitDump};
pub use perf_map::PerfMap;

use allotrope_trace::model::NamedFrame;

/// Longest name in bytes.
const MAX_NAME: usize = 16 << 10;
/// Largest number of pieces of code of one process.
const MAX_PIECES: usize = 1 << 20;

/// A piece of JIT code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitCode {
    /// First address of the code.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// Name of the code as the runtime wrote it.
    pub name: Arc<str>,
    /// Source file of the requested address; empty if unknown.
    pub file: Arc<str>,
    /// Source line of the requested address, from 1; 0 if unknown.
    pub line: u32,
}

impl JitCode {
    /// The code as a frame for `address`. The function is the name without V8's
    /// mark for the compiler and without the source position, which becomes the
    /// frame's file and line.
    pub fn frame(&self, address: u64) -> NamedFrame {
        let spelled = spelling::spell(&self.name);
        let is_known = !self.file.is_empty();
        NamedFrame {
            function: spelled.function.into(),
            signature: self.name.clone(),
            file: match is_known {
                true => self.file.clone(),
                false => spelled.file.into(),
            },
            line: if is_known { self.line } else { spelled.line },
            column: if is_known { 0 } else { spelled.column },
            offset: Some(address.saturating_sub(self.start)),
            ..NamedFrame::default()
        }
    }
}
