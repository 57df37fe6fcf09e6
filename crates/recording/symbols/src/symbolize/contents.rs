//! Collects the modules of a trace, the addresses in them and the names that the trace
//! has ([`Contents::read`]), and finds names for these addresses again
//! ([`Contents::name`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::fs::File;
use std::path::PathBuf;

use crate::{Locator, ModuleSymbols, Ran, Resolved, SymbolError, Work, open_mapped};
use allotrope_trace::model::{
    ImageId, MappingId, MissingNames, Module, ModuleId, NO_MAPPING, NamedFrame, Record, Symbols,
};
use allotrope_trace::{Entry, ReadError, Source, TraceReader};

use crate::symbolize::frames::{FileAddress, SymbolsBuilder};
use crate::symbolize::missing::{missing_names, sources_of};

/// The part of a trace that naming needs.
#[derive(Debug, Default)]
pub struct Contents {
    modules: Vec<Module>,
    /// The addresses of the stacks' frames, by module.
    wanted: BTreeMap<ModuleId, BTreeSet<FileAddress>>,
    /// The frames that the trace has for an address, innermost first.
    known: HashMap<(ModuleId, FileAddress), Vec<NamedFrame>>,
    /// Whether a module was compiled without optimisation, if the trace has that.
    unoptimised: HashMap<ModuleId, Option<bool>>,
    /// Why a module's addresses have no names, as far as the trace says it.
    missing: HashMap<ModuleId, MissingNames>,
    /// MD5 sums of a module's source files.
    sources: HashMap<ModuleId, Vec<(String, [u8; 16])>>,
    /// The process that mapped the module last, and at which address.
    mapped: HashMap<ModuleId, (u32, u64)>,
    /// The compilers that made a module, as far as the trace has them.
    compilers: HashMap<ModuleId, Vec<String>>,
}

/// Which files may give names, besides those at the modules' paths and the debug files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Candidates {
    /// The file at the path, for a module that was recorded without a build id, even if it
    /// is not proven to be the one that ran.
    pub unverified: bool,
    /// The files that the processes of the trace have open, since they may still run.
    pub of_processes: bool,
}

/// The names of all modules of a trace.
#[derive(Debug, Default)]
pub struct Naming {
    /// The names, to be written in place of the trace's own.
    pub symbols: Vec<Symbols>,
    /// The number of addresses in all modules.
    pub addresses: usize,
    /// How many of them have a name in the trace.
    pub named_before: usize,
    /// How many of them have a name now.
    pub named: usize,
    /// Modules that got no names.
    pub warnings: Vec<Warning>,
}

/// Why a module got no names.
#[derive(Debug)]
pub enum Warning {
    /// It was recorded without a build id, and no file is proven to be the one that ran.
    NoBuildId(PathBuf),
    /// The symbols of the module could not be read.
    Unreadable(SymbolError),
}

impl Contents {
    /// Reads the records of a trace.
    ///
    /// # Errors
    /// If the trace cannot be read or is damaged.
    pub fn read<S: Source>(trace: &TraceReader<S>) -> Result<Self, ReadError> {
        Self::collect(trace.entries().filter_map(|entry| match entry {
            Ok(Entry::Record(record)) => Some(Ok(record)),
            Ok(Entry::Events(_)) => None,
            Err(error) => Some(Err(error)),
        }))
    }

    /// Takes the records of a trace that is still to be written.
    pub fn of_records(records: &[Record]) -> Self {
        let records = records.iter().cloned().map(Ok::<_, Infallible>);
        let Ok(contents) = Self::collect(records);
        contents
    }

    fn collect<E>(records: impl Iterator<Item = Result<Record, E>>) -> Result<Self, E> {
        let mut contents = Self::default();
        let mut pids: HashMap<ImageId, u32> = HashMap::new();
        let mut mappings: HashMap<(ImageId, MappingId), (ModuleId, u64)> = HashMap::new();
        // A stack may come before the mapping that its addresses are in.
        let mut addresses: HashMap<(ImageId, MappingId), BTreeSet<FileAddress>> = HashMap::new();
        for record in records {
            match record? {
                Record::Module(module) => contents.modules.push(module),
                Record::ImageStart(it) => {
                    pids.insert(it.image, it.pid);
                }
                Record::Mapping(it) => {
                    if let Some(pid) = pids.get(&it.image) {
                        contents.mapped.insert(it.module, (*pid, it.start));
                    }
                    mappings.insert((it.image, it.mapping), (it.module, it.bias));
                }
                Record::Stacks { image, nodes, .. } => {
                    for node in nodes.iter().filter(|node| node.mapping != NO_MAPPING) {
                        let known = addresses.entry((image, node.mapping)).or_default();
                        known.insert((node.address, node.exact));
                    }
                }
                Record::Symbols(symbols) => contents.add_known(&symbols),
                _ => {}
            }
        }
        for (mapping, addresses) in addresses {
            if let Some((module, bias)) = mappings.get(&mapping) {
                let wanted = contents.wanted.entry(*module).or_default();
                let in_file = |(address, exact): FileAddress| (address.wrapping_sub(*bias), exact);
                wanted.extend(addresses.into_iter().map(in_file));
            }
        }
        Ok(contents)
    }

    fn add_known(&mut self, symbols: &Symbols) {
        let unoptimised = self.unoptimised.entry(symbols.module).or_default();
        *unoptimised = unoptimised.or(symbols.unoptimised);
        let compilers = self.compilers.entry(symbols.module).or_default();
        compilers.extend_from_slice(&symbols.compilers);
        if let Some(reason) = symbols.missing {
            self.missing.insert(symbols.module, reason);
        }
        let sources = self.sources.entry(symbols.module).or_default();
        sources.extend_from_slice(&symbols.sources);
        for location in &symbols.locations {
            let frames = location.frames.iter();
            let frames = frames.filter_map(|index| symbols.frames.get(*index as usize));
            let key = (symbols.module, (location.address, location.exact));
            self.known.insert(key, frames.cloned().collect());
        }
    }

    /// The trace's modules.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Opens a module's file through a process that has it mapped, if that still runs.
    fn open_mapped(&self, module: &Module) -> Option<File> {
        let (pid, start) = self.mapped.get(&module.module)?;
        let process = PathBuf::from(format!("/proc/{pid}"));
        let ran = Ran::new(&module.build_id, module.file);
        // Another process that got the same id later has another file, which is not proven.
        open_mapped(&process, &module.path, *start, &ran)
    }

    /// Finds names for every module. A name of the trace is replaced only by one that is
    /// at least as detailed.
    ///
    /// `progress` is called with the number of modules done and, during long work on the
    /// next one, with the kind of work, the amount done and the total amount (0 if
    /// unknown).
    pub fn name(
        &self,
        locator: &Locator,
        candidates: Candidates,
        progress: impl Fn(usize, Option<(Work, u64, u64)>) + Clone + Send + Sync + 'static,
    ) -> Naming {
        let mut naming = Naming::default();
        for (done, module) in self.modules.iter().enumerate() {
            progress(done, None);
            let mut wanted = self.wanted.get(&module.module).cloned().unwrap_or_default();
            let known = self.known.keys().filter(|(id, _)| *id == module.module);
            wanted.extend(known.map(|(_, address)| *address));
            if wanted.is_empty() {
                continue;
            }
            let file = match candidates.of_processes {
                true => self.open_mapped(module),
                false => None,
            };
            let progress = progress.clone();
            let report = move |work, part, parts| progress(done, Some((work, part, parts)));
            let locator = locator.clone().with_progress(report);
            let mut missing = self.missing.get(&module.module).copied();
            let symbols = match load(module, &locator, candidates.unverified, file) {
                Ok(symbols) => symbols,
                Err(error) => {
                    // The recording says more: it knows whether the process was seen.
                    missing = missing.or_else(|| missing_names(&error, true));
                    naming.warnings.push(Warning::of(error));
                    None
                }
            };
            self.name_module(module.module, wanted, symbols, missing, &mut naming);
        }
        naming
    }

    fn name_module(
        &self,
        module: ModuleId,
        wanted: BTreeSet<FileAddress>,
        symbols: Option<ModuleSymbols>,
        missing: Option<MissingNames>,
        naming: &mut Naming,
    ) {
        let wanted: Vec<FileAddress> = wanted.into_iter().collect();
        let resolved = match &symbols {
            Some(symbols) => symbols.resolve(&wanted),
            None => vec![Resolved::default(); wanted.len()],
        };
        let before = self.unoptimised.get(&module).copied().flatten();
        let now = symbols.as_ref().and_then(ModuleSymbols::unoptimised);
        let compilers = match symbols.as_ref().map(ModuleSymbols::compilers) {
            Some(found) if !found.is_empty() => found.to_vec(),
            _ => self.compilers.get(&module).cloned().unwrap_or_default(),
        };
        let mut record = SymbolsBuilder::new(module, now.or(before), compilers);
        let (addresses, named) = (naming.addresses, naming.named);
        for (address, resolved) in wanted.into_iter().zip(resolved) {
            let known = self.known.get(&(module, address));
            let known = known.map_or(&[][..], |frames| frames);
            let frames = better(known, &resolved.frames);
            naming.addresses += 1;
            naming.named_before += usize::from(!known.is_empty());
            naming.named += usize::from(!frames.is_empty());
            record.add(address, frames);
        }
        let is_complete = naming.named - named == naming.addresses - addresses;
        record.set_missing(match symbols {
            _ if is_complete => None,
            Some(_) => Some(MissingNames::Stripped),
            None => missing,
        });
        record.set_sources(match &symbols {
            Some(symbols) => sources_of(symbols),
            None => self.sources.get(&module).cloned().unwrap_or_default(),
        });
        // The writer splits a record that is too large.
        naming.symbols.push(record.take());
    }
}

/// Loads the module's symbols; `None` if the module is not in a file.
fn load(
    module: &Module,
    locator: &Locator,
    unverified: bool,
    file: Option<File>,
) -> Result<Option<ModuleSymbols>, SymbolError> {
    // The path of a module that is not in a file is not absolute (`linux-vdso.so.1`).
    if !module.path.is_absolute() && file.is_none() {
        return Ok(None);
    }
    let ran = match module.build_id.is_empty() && unverified {
        true => Ran::unverified(),
        false => Ran::new(&module.build_id, module.file),
    };
    match ModuleSymbols::load(locator, &module.path, &ran, file) {
        Ok(symbols) => Ok(Some(symbols)),
        Err(SymbolError::NotAFile { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Warning {
    fn of(error: SymbolError) -> Self {
        match error {
            SymbolError::Unproven { path } | SymbolError::FileDiffers { path } => {
                Self::NoBuildId(path)
            }
            error => Self::Unreadable(error),
        }
    }
}

/// The more detailed of two lists of frames: the one with more source positions or, if
/// these are equal, with more frames; `found` if both are equal.
fn better<'a>(known: &'a [NamedFrame], found: &'a [NamedFrame]) -> &'a [NamedFrame] {
    let worth = |frames: &[NamedFrame]| {
        let with_file = frames.iter().filter(|frame| !frame.file.is_empty());
        (with_file.count(), frames.len())
    };
    if worth(found) >= worth(known) {
        found
    } else {
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[(&str, &str)]) -> Vec<NamedFrame> {
        let frame = |(function, file): &(&str, &str)| NamedFrame {
            function: (*function).into(),
            file: (*file).into(),
            ..NamedFrame::default()
        };
        names.iter().map(frame).collect()
    }

    #[test]
    fn a_name_is_replaced_only_by_one_that_is_as_detailed() {
        let symbol = frames(&[("outer", "")]);
        let inlined = frames(&[("inner", "a.c"), ("outer", "a.c")]);
        let renamed = frames(&[("inner", "b.c"), ("outer", "b.c")]);
        assert_eq!(better(&[], &symbol), symbol);
        assert_eq!(better(&symbol, &inlined), inlined);
        assert_eq!(better(&inlined, &symbol), inlined);
        assert_eq!(better(&inlined, &[]), inlined);
        assert_eq!(better(&inlined, &renamed), renamed);
    }
}
