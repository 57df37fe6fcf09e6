//! Writes every file that Allotrope writes, so that other users who can write to the
//! same folder can neither read, replace nor redirect it.
//!
//! A new file starts under a random hidden name, opened with `O_EXCL` (which follows
//! no link) and mode 0600. Once it is complete it gets its final mode and is renamed
//! to its path, so that a reader sees either the old file or the new one.
//! Only regular files are replaced: a device or a pipe is written through, a
//! folder, a socket or a block device is refused. A symbolic link that the user
//! names stays a link and its target is replaced, unless another user put the link
//! into a folder that others can write to.
//!
//! [`Target::kept`] says whether an existing file is one that Allotrope wrote; nothing else is
//! replaced unless the user asks for that. [`append`] opens a log.
//!
//! [`open_regular`] opens a file for reading whose path comes from a program or a
//! trace; [`open_stored`] refuses files of the kernel, too. [`Folder`] reads, writes and removes
//! files of a repository, in which no link is followed.
//!
//! What a file may contain, and by what it is recognised, is the caller's decision.
#![forbid(unsafe_code)]

mod append;
mod beneath;
mod new_file;
mod output;
mod regular;
mod stored;
mod target;
mod unfinished;

pub use append::{Whose, append};
pub use beneath::Folder;
pub use new_file::{FileId, NewFile};
pub use output::{Output, write};
pub use regular::open_regular;
pub use stored::{open_stored, open_stored_at_most, read_stored, read_stored_text};
pub use target::{Kept, Target};
pub use unfinished::remove_unfinished;
