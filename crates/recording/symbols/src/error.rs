//! Why a module's symbols could not be loaded.

use std::path::PathBuf;

use allotrope_text::Shown;

/// Why a module's symbols could not be loaded. None of these is fatal to a
/// recording: the module's addresses are then shown as `module+0xoffset`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolError {
    /// The file could not be opened or read.
    #[error("cannot read {}: {source}; its addresses stay without names unless a debug file with its build id is installed", path.shown())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The path does not name a regular file.
    #[error("{} is not a regular file; name the ELF file itself", path.shown())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is not an ELF file of the kind this crate reads.
    #[error("{} at byte {offset}: {problem}; expected a 64-bit x86-64 ELF file", path.shown())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// Offset of the problem in the file.
        offset: u64,
        /// What is wrong there.
        problem: &'static str,
    },
    /// A file given by name has no build id, so it cannot be matched with a module.
    #[error("{} has no build id, so it cannot be matched with a module; name a file linked with --build-id", path.shown())]
    NoBuildId {
        /// The file.
        path: PathBuf,
    },
    /// The file is not the one that was mapped.
    #[error("{} is not the file that the program ran with: it was changed or replaced since; put the old file back, or link with --build-id", path.shown())]
    FileDiffers {
        /// The file.
        path: PathBuf,
    },
    /// Nothing is known of the file that ran, so that no file can be proven to be it.
    #[error("{} was recorded without a build id, so it is unknown whether a file is the one that ran; link with --build-id", path.shown())]
    Unproven {
        /// The path of the module.
        path: PathBuf,
    },
    /// The file is another build than the one that ran.
    #[error("{} has build id {found}, the program ran with {expected}; it was rebuilt since, put the old file or its debug file back to get names", path.shown())]
    BuildIdDiffers {
        /// The file.
        path: PathBuf,
        /// Build id of the file in hexadecimal, `none` if it has none.
        found: String,
        /// Build id of the running image in hexadecimal.
        expected: String,
    },
}

/// A build id as people and file names write it.
pub(crate) fn hexadecimal(id: &[u8]) -> String {
    use std::fmt::Write;
    id.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
