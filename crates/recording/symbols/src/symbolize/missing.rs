//! Why a module's addresses have no names, as the trace says it.

use std::io::ErrorKind;

use crate::{ModuleSymbols, SymbolError};
use allotrope_trace::model::MissingNames;

/// The reason for an error; `None` if the module is in no file or in one without symbols of
/// this kind. `was_seen`: the process could be seen when it mapped the module.
pub fn missing_names(error: &SymbolError, was_seen: bool) -> Option<MissingNames> {
    match error {
        SymbolError::Unreadable { .. } if was_seen => Some(MissingNames::FileGone),
        SymbolError::Unreadable { .. } => Some(MissingNames::ProcessGone),
        SymbolError::BuildIdDiffers { .. }
        | SymbolError::FileDiffers { .. }
        | SymbolError::Unproven { .. } => Some(MissingNames::OtherBuild),
        _ => None,
    }
}

/// The reason for an error in a few words, for a sentence that names the module: finer than
/// [`missing_names`], which a trace can say.
pub fn reason(error: &SymbolError) -> &'static str {
    match error {
        SymbolError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => {
            MissingNames::FileGone.reason()
        }
        SymbolError::Unreadable { .. } => "its file cannot be read",
        SymbolError::NotAFile { .. } | SymbolError::NotElf { .. } => "its file is no ELF file",
        SymbolError::NoBuildId { .. }
        | SymbolError::FileDiffers { .. }
        | SymbolError::Unproven { .. }
        | SymbolError::BuildIdDiffers { .. } => MissingNames::OtherBuild.reason(),
    }
}

/// The MD5 sums of a module's source files, for a trace.
pub fn sources_of(symbols: &ModuleSymbols) -> Vec<(String, [u8; 16])> {
    let sums = symbols.source_sums().into_iter();
    sums.map(|(path, md5)| (path.to_string(), md5)).collect()
}
