//! One module's symbols: which files they come from, and how what the symbol
//! tables and the debug information say about an address becomes frames.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::demangle::{Names, demangle, is_mangled};
use crate::dwarf::{DebugInformation, Location, Name, SplitFiles};
use crate::elf::ElfFile;
use crate::error::{SymbolError, hexadecimal};
use crate::frame::{Frame, Resolved};
use crate::locator::Locator;
use crate::shared_strings::SharedStrings;
use crate::symbol_table::{Symbol, SymbolTable};

/// The symbols of one loaded module.
#[derive(Debug)]
pub struct ModuleSymbols {
    symbols: SymbolTable,
    debug_information: Option<DebugInformation>,
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
        let module = open_module(&locator.module_path(path), build_id, file);
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
        let described = files.iter().rev().find(|file| file.has_dwarf());
        Ok(Self {
            symbols: read_symbols(&files),
            debug_information: described.map(|file| {
                let supplementary = locator.supplementary_file(file);
                let split = SplitFiles::new(locator, file.build_id(), &files);
                DebugInformation::load(file, supplementary.as_ref(), split)
            }),
        })
    }

    /// Names many addresses, in the order given. An address is as in the
    /// file's program headers (run-time address minus load bias); with `false`
    /// it is a return address, and the byte before it is looked up.
    ///
    /// Debug information is read anew by each call, so that nothing of it
    /// stays in memory: ask for all addresses at once.
    pub fn resolve(&self, addresses: &[(u64, bool)]) -> Vec<Resolved> {
        let lookup = |(address, exact): &(u64, bool)| address.checked_sub(u64::from(!exact));
        let mut lookups: Vec<u64> = addresses.iter().filter_map(lookup).collect();
        lookups.sort_unstable();
        lookups.dedup();
        let mut strings = SharedStrings::default();
        let locations = match &self.debug_information {
            Some(information) => information.locate(&lookups, &mut strings),
            None => vec![None; lookups.len()],
        };
        let mut resolver = Resolver {
            symbols: &self.symbols,
            strings,
            names: FxHashMap::default(),
        };
        let resolve = |address: &(u64, bool)| {
            let Some(lookup) = lookup(address) else {
                return Resolved::default();
            };
            let index = lookups.partition_point(|known| *known < lookup);
            resolver.resolve(address.0, lookup, locations[index].as_ref())
        };
        addresses.iter().map(resolve).collect()
    }

    /// Whether most of the module's code was compiled without optimisation;
    /// `None` where the compilers did not leave word of it: gcc does, clang
    /// only with `-grecord-command-line`, rustc does not.
    pub fn unoptimised(&self) -> Option<bool> {
        self.debug_information.as_ref()?.unoptimised()
    }
}

/// The functions that the symbol tables name; where they were stripped, those
/// that the distribution left in `.gnu_debugdata`.
fn read_symbols(files: &[&ElfFile]) -> SymbolTable {
    if files.iter().any(|file| file.has_symbol_table()) {
        return SymbolTable::read(files);
    }
    let embedded: Vec<ElfFile> = files.iter().filter_map(|file| file.embedded()).collect();
    let files: Vec<&ElfFile> = files.iter().copied().chain(&embedded).collect();
    SymbolTable::read(&files)
}

/// Puts frames together, each name demangled once.
struct Resolver<'a> {
    symbols: &'a SymbolTable,
    strings: SharedStrings,
    names: FxHashMap<Name<'a>, (Arc<str>, Arc<str>)>,
}

impl<'a> Resolver<'a> {
    fn resolve(&mut self, address: u64, lookup: u64, location: Option<&Location<'a>>) -> Resolved {
        let symbol = self.symbols.containing(lookup);
        let start = location.and_then(|location| location.start);
        // A label far before the function may be the only symbol there is.
        let start = start.max(symbol.map(|symbol| symbol.address));
        let offset = start.map_or(0, |start| address.saturating_sub(start));
        let Some(location) = location else {
            let frame = symbol.map(|symbol| self.frame(linkage_name(symbol), offset));
            return Resolved {
                frames: frame.into_iter().collect(),
            };
        };
        let outermost = location.frames.len() - 1;
        let mut frames = Vec::with_capacity(location.frames.len());
        for (index, from) in location.frames.iter().enumerate() {
            let name = if index == outermost {
                function_name(from.name.clone(), symbol)
            } else {
                from.name.clone()
            };
            // A frame that nothing names is no frame; the others still hold.
            let Some(name) = name else { continue };
            frames.push(Frame {
                file: from.file.clone(),
                line: from.line,
                column: from.column,
                inlined: index != outermost,
                ..self.frame(name, offset)
            });
        }
        if let Some(last) = frames.last_mut() {
            last.inlined = false;
        }
        Resolved { frames }
    }

    fn frame(&mut self, name: Name<'a>, offset: u64) -> Frame {
        let strings = &mut self.strings;
        let (function, signature) = self.names.entry(name).or_insert_with_key(|name| {
            let text = String::from_utf8_lossy(&name.text);
            let names = match name.is_linkage {
                true => demangle(&text),
                false => Names::plain(&text),
            };
            (
                strings.share(&names.function),
                strings.share(&names.signature),
            )
        });
        Frame {
            function: function.clone(),
            signature: signature.clone(),
            offset,
            ..Frame::default()
        }
    }
}

fn linkage_name(symbol: Symbol<'_>) -> Name<'_> {
    Name {
        text: symbol.name.into(),
        is_linkage: true,
    }
}

/// The name of a function that is not inlined: the linker's name for it if
/// there is one, which alone is the same whoever tells it.
fn function_name<'a>(described: Option<Name<'a>>, symbol: Option<Symbol<'a>>) -> Option<Name<'a>> {
    match (described, symbol) {
        (Some(name), Some(symbol)) if !name.is_linkage && is_mangled(symbol.name) => {
            Some(linkage_name(symbol))
        }
        (Some(name), _) => Some(name),
        (None, symbol) => symbol.map(linkage_name),
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
    let from_path = || ElfFile::open(path).and_then(same_build);
    match from_file {
        Some(Ok(module)) => Ok(module),
        // The image's own file tells more than the path, which may be gone.
        Some(Err(error)) => from_path().map_err(|_| error),
        None => from_path(),
    }
}
