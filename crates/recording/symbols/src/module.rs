//! One module's symbols: which files they are read from, and how the symbol tables
//! and the debug information are combined into the frames of an address.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use allotrope_demangle::{Demangler, Names, is_mangled};
use rustc_hash::FxHashMap;

use crate::block_types::{Described, NewBlock, NewBlocks};
use crate::compilers::with_producers;
use crate::dwarf::{DebugInformation, Location, Name, SplitFiles};
use crate::elf::ElfFile;
use crate::error::SymbolError;
use crate::index::{self, Index, IndexCache};
use crate::locator::Locator;
use crate::progress::Progress;
use crate::proof::Ran;
use crate::resolved::Resolved;
use crate::shared_strings::{Md5, SharedStrings};
use crate::symbol_table::SymbolTable;
use allotrope_trace::model::{BlockType, NamedFrame};

/// The symbols of one loaded module.
#[derive(Debug)]
pub struct ModuleSymbols {
    source: Source,
    compilers: Vec<String>,
    progress: Progress,
    demangler: Arc<Demangler>,
    /// The module's calls of `operator new`, if it has some.
    new_blocks: Option<NewBlocks>,
    /// MD5 sums of the source files of the frames resolved so far, by path.
    sources: Mutex<BTreeMap<Arc<str>, Md5>>,
}

/// The source of the names.
#[derive(Debug)]
enum Source {
    Files {
        symbols: SymbolTable,
        debug_information: Option<Box<DebugInformation>>,
    },
    Index(Box<Index>),
}

impl ModuleSymbols {
    /// Finds and reads the symbols of a module.
    ///
    /// `path` is the path as the program's loader knew it; `ran` is what is known of the
    /// file that was mapped. `file` is that file if it is still open; it is preferred,
    /// because the path may have been deleted or replaced since. A file that is not
    /// proven to be the one that ran is refused; debug files that are found by the build
    /// id alone are then used.
    ///
    /// # Errors
    /// Fails if neither the module nor a debug file of it can be read.
    pub fn load(
        locator: &Locator,
        path: &Path,
        ran: &Ran<'_>,
        file: Option<File>,
    ) -> Result<Self, SymbolError> {
        let module = open_module(&locator.module_path(path), ran, file);
        let wanted = match &module {
            Ok(module) => module.build_id(),
            Err(_) => ran.build_id(),
        };
        let mut compilers = module
            .as_ref()
            .map_or_else(|_| Vec::new(), ElfFile::compilers);
        let cache = locator.index_cache().filter(|_| !wanted.is_empty());
        if let Some(index) = cache.and_then(|cache| cache.open(wanted)) {
            let compilers = with_producers(compilers, index.compilers());
            let source = Source::Index(Box::new(index));
            let files = module.ok().into_iter().collect();
            return Ok(Self::new(source, compilers, locator, files));
        }
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
        if module.is_err() {
            compilers = debug.as_ref().map_or_else(Vec::new, ElfFile::compilers);
        }
        let described = files.iter().rev().find(|file| file.has_dwarf());
        let mut is_whole = true;
        let debug_information = described.map(|file| {
            let supplementary = locator.supplementary_file(file);
            is_whole = supplementary.is_some() || file.alternate_link().is_none();
            let split = SplitFiles::new(locator, file.build_id(), &files);
            DebugInformation::load(file, supplementary.as_ref(), split)
        });
        let producers = debug_information.iter().flat_map(|it| it.compilers());
        let compilers = with_producers(compilers, producers);
        let symbols = read_symbols(&files);
        if let (Some(cache), Some(information)) = (cache, &debug_information)
            && is_whole
            && let Some(index) =
                make_index(cache, wanted, information, &symbols, locator.progress())
        {
            let source = Source::Index(Box::new(index));
            let files = module.ok().into_iter().chain(debug).collect();
            return Ok(Self::new(source, compilers, locator, files));
        }
        let source = Source::Files {
            symbols,
            debug_information: debug_information.map(Box::new),
        };
        // Without debug information no class has a size.
        let files = match &source {
            Source::Files {
                debug_information: None,
                ..
            } => Vec::new(),
            _ => module.ok().into_iter().chain(debug).collect(),
        };
        Ok(Self::new(source, compilers, locator, files))
    }

    /// `files`: the module's own and its debug file.
    fn new(source: Source, compilers: Vec<String>, locator: &Locator, files: Vec<ElfFile>) -> Self {
        Self {
            new_blocks: NewBlocks::of(files),
            source,
            compilers,
            progress: locator.progress().clone(),
            demangler: Arc::clone(locator.demangler()),
            sources: Mutex::default(),
        }
    }

    /// Resolves many addresses; the results are in the order given. An address is
    /// relative to the file's program headers (run-time address minus load bias). With
    /// `true` it is exact; with `false` it is a return address, and the byte before it
    /// is looked up.
    ///
    /// Each call reads the debug information again, so that none of it stays in
    /// memory: pass all addresses at once.
    pub fn resolve(&self, addresses: &[(u64, bool)]) -> Vec<Resolved> {
        let blocks = self.new_blocks(addresses);
        let mut lookups: Vec<u64> = addresses.iter().filter_map(lookup).collect();
        lookups.extend(blocks.iter().flat_map(NewBlock::addresses));
        lookups.sort_unstable();
        lookups.dedup();
        let mut strings = SharedStrings::default();
        match &self.source {
            Source::Files {
                symbols,
                debug_information,
            } => {
                let locations = match debug_information {
                    Some(information) => information.locate(&lookups, &mut strings, &self.progress),
                    None => vec![None; lookups.len()],
                };
                self.add_sources(strings.take_sums());
                let mut resolver = Resolver::new(strings, &self.demangler);
                let mut resolved = in_order(addresses, &lookups, |address, index| {
                    let symbol = symbols.containing(lookups[index]);
                    let symbol = symbol.map(|it| (it.address, linkage_name(it.name.into())));
                    resolver.resolve(address, locations[index].clone(), symbol)
                });
                let code = Code {
                    demangler: &self.demangler,
                    location: |address| locations[lookups.binary_search(&address).ok()?].clone(),
                };
                add_types(&blocks, &code, addresses, &mut resolved);
                resolved
            }
            Source::Index(index) => {
                let mut resolver = Resolver::new(strings, &self.demangler);
                let mut resolved = in_order(addresses, &lookups, |address, number| {
                    let lookup = lookups[number];
                    let symbol = index.symbol(lookup);
                    let symbol =
                        symbol.map(|it| (it.address, linkage_name(it.name.to_vec().into())));
                    let location = index.location(lookup, &mut resolver.strings);
                    resolver.resolve(address, location, symbol)
                });
                self.add_sources(resolver.strings.take_sums());
                let strings = RefCell::new(resolver.strings);
                let code = Code {
                    demangler: &self.demangler,
                    location: |address| index.location(address, &mut strings.borrow_mut()),
                };
                add_types(&blocks, &code, addresses, &mut resolved);
                resolved
            }
        }
    }

    /// The blocks of the calls of `operator new` before those addresses that are return addresses.
    fn new_blocks(&self, addresses: &[(u64, bool)]) -> Vec<NewBlock> {
        let Some(blocks) = &self.new_blocks else {
            return Vec::new();
        };
        let mut returns: Vec<u64> = addresses
            .iter()
            .filter_map(|(address, exact)| (!exact).then_some(*address))
            .collect();
        returns.sort_unstable();
        returns.dedup();
        blocks.follow(returns.into_iter())
    }

    fn add_sources(&self, sums: BTreeMap<Arc<str>, Md5>) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.extend(sums);
    }

    /// The source files of the frames resolved so far whose MD5 sums the compiler wrote
    /// (DWARF 5; clang does, gcc does not), by the path that frames have.
    pub fn source_sums(&self) -> Vec<(Arc<str>, [u8; 16])> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources
            .iter()
            .map(|(path, md5)| (path.clone(), *md5))
            .collect()
    }

    /// The compilers and linkers that made the module, as its section `.comment` names
    /// them, and the compilers of its debug information that are not among them, as Swift's;
    /// empty if it was stripped.
    pub fn compilers(&self) -> &[String] {
        &self.compilers
    }

    /// Whether most of the module's code was compiled without optimisation; `None` if that is
    /// not known. gcc and swiftc record it, clang only with `-grecord-command-line`, rustc not:
    /// of these, a build without optimisation is recognised by where its variables are, if it
    /// has eight functions with variables; `docs/budgets.md` has how often.
    pub fn unoptimised(&self) -> Option<bool> {
        match &self.source {
            Source::Files {
                debug_information, ..
            } => debug_information.as_ref()?.unoptimised(),
            Source::Index(index) => index.unoptimised(),
        }
    }
}

/// The address to look up; for a return address, the last byte of the call.
fn lookup((address, exact): &(u64, bool)) -> Option<u64> {
    address.checked_sub(u64::from(!exact))
}

/// Calls `resolve` for each address, with its index among the sorted `lookups`.
fn in_order(
    addresses: &[(u64, bool)],
    lookups: &[u64],
    mut resolve: impl FnMut(u64, usize) -> Resolved,
) -> Vec<Resolved> {
    // Sorted, so that neighbouring parts of the file are read together.
    let mut order: Vec<(u64, usize)> = Vec::with_capacity(addresses.len());
    for (index, address) in addresses.iter().enumerate() {
        order.extend(lookup(address).map(|lookup| (lookup, index)));
    }
    order.sort_unstable();
    let mut all = vec![Resolved::default(); addresses.len()];
    let mut at = 0;
    for (lookup, index) in order {
        while lookups.get(at).is_some_and(|known| *known < lookup) {
            at += 1;
        }
        all[index] = resolve(addresses[index].0, at);
    }
    all
}

/// Writes the index of a module with much debug information into the cache. If
/// that fails the files are read directly.
fn make_index(
    cache: &IndexCache,
    build_id: &[u8],
    information: &DebugInformation,
    symbols: &SymbolTable,
    progress: &Progress,
) -> Option<Index> {
    if !cache.is_worthwhile(information.size()) {
        return None;
    }
    let table = information.segments(progress)?;
    let facts = index::Facts {
        unoptimised: information.unoptimised(),
        compilers: information.compilers(),
    };
    let stored = cache.store(build_id, |file| {
        index::write(file, build_id, &facts, table, symbols)
    });
    stored.ok().filter(|stored| *stored)?;
    cache.open(build_id)
}

/// The functions in the symbol tables; if these were stripped, the functions that
/// the distribution left in `.gnu_debugdata`.
fn read_symbols(files: &[&ElfFile]) -> SymbolTable {
    if files.iter().any(|file| file.has_symbol_table()) {
        return SymbolTable::read(files);
    }
    let embedded: Vec<ElfFile> = files.iter().filter_map(|file| file.embedded()).collect();
    let files: Vec<&ElfFile> = files.iter().copied().chain(&embedded).collect();
    SymbolTable::read(&files)
}

/// What the debug information has of code that initialises blocks.
struct Code<'d, L> {
    demangler: &'d Demangler,
    location: L,
}

impl<'a, L: Fn(u64) -> Option<Location<'a>>> Described<'a> for Code<'_, L> {
    fn location(&self, address: u64) -> Option<Location<'a>> {
        (self.location)(address)
    }

    fn function(&self, name: &Name<'_>) -> String {
        names_of(name, self.demangler).function
    }
}

/// Adds the types of the blocks to the frames of the functions that call `operator new`.
fn add_types<'a>(
    blocks: &[NewBlock],
    code: &impl Described<'a>,
    addresses: &[(u64, bool)],
    resolved: &mut [Resolved],
) {
    let types: FxHashMap<u64, Arc<BlockType>> = blocks
        .iter()
        .filter_map(|it| Some((it.address(), it.of_type(code)?)))
        .collect();
    if types.is_empty() {
        return;
    }
    for ((address, exact), resolved) in addresses.iter().zip(resolved) {
        if let (false, Some(innermost)) = (exact, resolved.frames.first_mut())
            && let Some(of_type) = types.get(address)
        {
            innermost.allocates = Some(of_type.clone());
        }
    }
}

/// A name's function and signature.
fn names_of(name: &Name<'_>, demangler: &Demangler) -> Names {
    let text = String::from_utf8_lossy(&name.text);
    match name.is_linkage {
        true => demangler.demangle(&text),
        false => Names::plain(&text),
    }
}

/// Builds frames; each name is demangled once.
struct Resolver<'a> {
    demangler: &'a Demangler,
    strings: SharedStrings,
    names: FxHashMap<Name<'a>, (Arc<str>, Arc<str>)>,
}

impl<'a> Resolver<'a> {
    fn new(strings: SharedStrings, demangler: &'a Demangler) -> Self {
        Self {
            demangler,
            strings,
            names: FxHashMap::default(),
        }
    }

    /// Combines the location from the debug information and the symbol that contains
    /// the address (its start and its name).
    fn resolve(
        &mut self,
        address: u64,
        location: Option<Location<'a>>,
        symbol: Option<(u64, Name<'a>)>,
    ) -> Resolved {
        let start = location.as_ref().and_then(|location| location.start);
        // A label far before the function may be the only symbol there is.
        let start = start.max(symbol.as_ref().map(|symbol| symbol.0));
        let symbol = symbol.map(|symbol| symbol.1);
        let offset = start.map_or(0, |start| address.saturating_sub(start));
        let Some(location) = location else {
            let frame = symbol.map(|name| self.frame(name, offset));
            return Resolved {
                frames: frame.into_iter().collect(),
            };
        };
        let outermost = location.frames.len() - 1;
        let mut symbol = symbol;
        let mut frames = Vec::with_capacity(location.frames.len());
        for (index, from) in location.frames.into_iter().enumerate() {
            let name = if index == outermost {
                function_name(from.name, symbol.take())
            } else {
                from.name
            };
            // A frame without a name is left out; the others are still right.
            let Some(name) = name else { continue };
            frames.push(NamedFrame {
                file: from.file,
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

    fn frame(&mut self, name: Name<'a>, offset: u64) -> NamedFrame {
        let (strings, demangler) = (&mut self.strings, self.demangler);
        let allocates = name.objects.as_ref().filter(|it| !it.name.is_empty());
        let allocates = allocates.map(|it| {
            Arc::new(BlockType {
                name: strings.share(&String::from_utf8_lossy(&it.name)),
                object_bytes: it.bytes.into(),
                is_array: false,
            })
        });
        let (function, signature) = self.names.entry(name).or_insert_with_key(|name| {
            let names = names_of(name, demangler);
            (
                strings.share(&names.function),
                strings.share(&names.signature),
            )
        });
        NamedFrame {
            function: function.clone(),
            signature: signature.clone(),
            offset: Some(offset),
            allocates,
            ..NamedFrame::default()
        }
    }
}

fn linkage_name(text: Cow<'_, [u8]>) -> Name<'_> {
    Name {
        text,
        is_linkage: true,
        objects: None,
    }
}

/// The name of a function that is not inlined: the linkage name if there is one,
/// which is the same in the symbol table and in every compiler's DWARF.
fn function_name<'a>(described: Option<Name<'a>>, symbol: Option<Name<'a>>) -> Option<Name<'a>> {
    match (described, symbol) {
        (Some(name), Some(symbol)) if !name.is_linkage && is_mangled(&symbol.text) => Some(symbol),
        (Some(name), _) => Some(name),
        (None, symbol) => symbol,
    }
}

/// The module's own file, if it is proven to be the one that ran.
fn open_module(path: &Path, ran: &Ran<'_>, file: Option<File>) -> Result<ElfFile, SymbolError> {
    let proven = |module: ElfFile| ran.check(&module).map(|()| module);
    let from_file = file.map(|file| ElfFile::from_file(file, path).and_then(proven));
    // A relative path would be looked up in another folder than the program's.
    let from_path = || match path.is_absolute() || ran.is_unverified() {
        true => ElfFile::open(path).and_then(proven),
        false => Err(SymbolError::Unproven {
            path: path.to_owned(),
        }),
    };
    match from_file {
        Some(Ok(module)) => Ok(module),
        // The error about the image's own file is the more useful one: the
        // path may be gone.
        Some(Err(error)) => from_path().map_err(|_| error),
        None => from_path(),
    }
}
