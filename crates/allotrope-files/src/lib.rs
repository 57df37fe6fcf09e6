//! Every file that Allotrope writes is written here, as if other users were
//! watching the folder.
//!
//! A new file begins under a random hidden name, opened with `O_EXCL` (which
//! follows no link) and mode 0600. When it is whole it gets its mode and is
//! renamed to its place, so that a reader sees the old file or the new one.
//! Only regular files are replaced: a device or a pipe is written through, a
//! folder, a socket or a block device is refused. A symbolic link that the user
//! names stays one and its target is replaced, unless another user put the link
//! into a shared folder.
//!
//! [`open_regular`] is for reading what others name.
//!
//! What a file may contain, and whether an existing one may be replaced, is the
//! caller's decision.
#![forbid(unsafe_code)]

mod new_file;
mod output;
mod regular;
mod target;

pub use new_file::{FileId, NewFile};
pub use output::{Output, write};
pub use regular::open_regular;
pub use target::Target;
