//! Why a module's addresses have no names, as the trace says it.

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

/// The MD5 sums of a module's source files, for a trace.
pub fn sources_of(symbols: &ModuleSymbols) -> Vec<(String, [u8; 16])> {
    let sums = symbols.source_sums().into_iter();
    sums.map(|(path, md5)| (path.to_string(), md5)).collect()
}
