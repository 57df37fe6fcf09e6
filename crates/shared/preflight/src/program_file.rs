//! What [`judge`](crate::judge) needs of a file.

use crate::not_recordable::NotRecordable;

/// An open file that is about to be executed.
pub trait ProgramFile {
    /// Reads from a byte offset and returns the number of bytes: fewer than the length
    /// of `into` at the file's end, 0 on an error.
    fn read_at(&self, into: &mut [u8], offset: u64) -> usize;

    /// Why the loader would ignore `LD_PRELOAD` for this program; see
    /// [`privileges::judge`](crate::privileges::judge). Called for ELF files only, since
    /// set-id bits and capabilities of scripts have no effect.
    fn privileges(&self) -> Option<NotRecordable>;
}
