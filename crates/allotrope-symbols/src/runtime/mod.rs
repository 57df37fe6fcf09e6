//! Names of code that a process made while it ran (JavaScript, Java, .NET),
//! from what its runtime writes down: a [`PerfMap`] or a [`JitDump`].
//!
//! Such code is moved, dropped and written over, so an address has a name only
//! at a time. A map has no times: ask when the address was just seen running,
//! as a collector can when it first meets a stack. A dump says when each piece
//! of code came; ask it with the time of the allocation.
//!
//! Both files grow while the process runs: [`PerfMap::refresh`] and
//! [`JitDump::refresh`] read what was added since.

mod jit_dump;
mod perf_map;
mod spelling;

use std::sync::Arc;

pub use jit_dump::{JitClock, JitDump};
pub use perf_map::PerfMap;

use crate::frame::Frame;

/// Bytes of a name that are kept.
const MAX_NAME: usize = 16 << 10;
/// Pieces of code that are kept of one process.
const MAX_PIECES: usize = 1 << 20;

/// A piece of code that was made at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeCode {
    /// Where it starts.
    pub start: u64,
    /// Where it ends (exclusive).
    pub end: u64,
    /// Its name as the runtime wrote it.
    pub name: Arc<str>,
    /// Source file and line at the address asked for; empty and 0 if unknown.
    pub file: Arc<str>,
    /// Line from 1.
    pub line: u32,
}

impl RuntimeCode {
    /// The code as a frame for `address`. The function is the name without
    /// what V8 says of its compilation, and without its source position, which
    /// the frame has of its own.
    pub fn frame(&self, address: u64) -> Frame {
        let spelled = spelling::spell(&self.name);
        let is_known = !self.file.is_empty();
        Frame {
            function: spelled.function.into(),
            signature: self.name.clone(),
            file: match is_known {
                true => self.file.clone(),
                false => spelled.file.into(),
            },
            line: if is_known { self.line } else { spelled.line },
            column: if is_known { 0 } else { spelled.column },
            offset: address.saturating_sub(self.start),
            inlined: false,
        }
    }
}
