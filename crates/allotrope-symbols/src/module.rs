//! One module's symbols: which files they come from, and how what the symbol
//! tables and the debug information say about an address becomes frames.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::demangle::{Names, demangle};
use crate::elf::ElfFile;
use crate::error::{SymbolError, hexadecimal};
use crate::frame::{Frame, Resolved};
use crate::locator::Locator;
use crate::symbol_table::SymbolTable;

/// The symbols of one loaded module.
#[derive(Debug)]
pub struct ModuleSymbols {
    symbols: SymbolTable,
}

impl ModuleSymbols {
    /// Finds and reads the symbols of a module.
    ///
    /// `path` is the path as the program's loader knew it; `build_id` the one
    /// the running image had, empty if none. `file` is the image's file if it
    /// is still open somewhere, and preferred: the path may have been deleted
    /// or replaced since. A file with another build id is refused; debug files
    /// found by the build id alone then stand in.
    ///
    /// # Errors
    /// Where neither the module nor a debug file of it can be read.
    pub fn load(
        locator: &Locator,
        path: &Path,
        build_id: &[u8],
        file: Option<File>,
    ) -> Result<Self, SymbolError> {
        let module = open_module(path, build_id, file);
        let wanted = match &module {
            Ok(module) => module.build_id(),
            Err(_) => build_id,
        };
        let has_dwarf = module.as_ref().is_ok_and(ElfFile::has_dwarf);
        let debug = if has_dwarf {
            None
        } else {
            locator.debug_file(wanted, module.as_ref().ok())
        };
        let files: Vec<&ElfFile> = match (&module, &debug) {
            (Err(_), None) => return Err(module.unwrap_err()),
            (module, debug) => module.iter().chain(debug).collect(),
        };
        Ok(Self {
            symbols: SymbolTable::read(&files),
        })
    }

    /// Names many addresses, in the order given. An address is as in the
    /// file's program headers (run-time address minus load bias); with `false`
    /// it is a return address, and the byte before it is looked up.
    pub fn resolve(&self, addresses: &[(u64, bool)]) -> Vec<Resolved> {
        let mut names = FxHashMap::default();
        addresses
            .iter()
            .map(|(address, exact)| self.resolve_one(*address, *exact, &mut names))
            .collect()
    }

    /// Whether most of the module's code was compiled without optimisation;
    /// `None` where the compilers did not leave word of it.
    pub fn unoptimised(&self) -> Option<bool> {
        None
    }

    fn resolve_one<'a>(
        &'a self,
        address: u64,
        exact: bool,
        names: &mut FxHashMap<&'a [u8], (Arc<str>, Arc<str>)>,
    ) -> Resolved {
        let lookup = address.checked_sub(u64::from(!exact));
        let Some(symbol) = lookup.and_then(|lookup| self.symbols.containing(lookup)) else {
            return Resolved::default();
        };
        let (function, signature) = names.entry(symbol.name).or_insert_with(|| {
            let Names {
                function,
                signature,
            } = demangle(&String::from_utf8_lossy(symbol.name));
            (function.into(), signature.into())
        });
        Resolved {
            frames: vec![Frame {
                function: function.clone(),
                signature: signature.clone(),
                offset: address - symbol.address,
                ..Frame::default()
            }],
        }
    }
}

/// The module's own file, if it is the one that ran.
fn open_module(path: &Path, build_id: &[u8], file: Option<File>) -> Result<ElfFile, SymbolError> {
    let same_build = |module: ElfFile| {
        if build_id.is_empty() || module.build_id() == build_id {
            return Ok(module);
        }
        Err(SymbolError::BuildIdDiffers {
            path: path.to_owned(),
            found: match module.build_id() {
                [] => "none".to_owned(),
                found => hexadecimal(found),
            },
            expected: hexadecimal(build_id),
        })
    };
    let from_file = file.map(|file| ElfFile::from_file(file, path).and_then(same_build));
    match from_file {
        Some(Ok(module)) => Ok(module),
        _ => ElfFile::open(path).and_then(same_build),
    }
}
