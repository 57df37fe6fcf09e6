//! `allotrope symbolize`: names for a trace that was recorded where the debug
//! files were not. Writes the trace anew with what is found now, under another
//! name until it is whole; what the trace says otherwise stays as it is.
//!
//! A name is replaced only by one that tells at least as much, and only files
//! of the build that ran are used: a wrong name is worse than none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufWriter, IntoInnerError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use allotrope_text::Shown;

use allotrope_files::{Output, Target};
use allotrope_symbols::{IndexCache, Locator, ModuleSymbols, Resolved, SymbolError, Work};
use allotrope_trace::model::{
    Frame, ImageId, Location, MappingId, Module, ModuleId, NO_MAPPING, Record, Symbols,
};
use allotrope_trace::{CutReason, Entry, TraceReader, TraceWriter};
use anyhow::{Context, anyhow};

use crate::debug_files::DebugFiles;
use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::message;
use crate::progress::{self, Progress};
use crate::record;
use crate::trace;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Debug files are sought as GDB does it, in what the debuginfod client has fetched
before and, with --debuginfod, on the servers that DEBUGINFOD_URLS names. A file
whose build id is not that of the recorded module is not used. Names that the
trace has already are replaced only by ones that tell as much.

Exit status: 0 if the trace was written, 1 if allotrope failed, 2 if a file can
not be used.";

/// Arguments of `allotrope symbolize`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A trace that `allotrope record` wrote
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Write to FILE [default: replace the trace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace FILE even if it is no trace
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    debug_files: DebugFiles,
    /// Use this file, a module or its debug file, for the module of its build id
    #[arg(long, value_name = "FILE")]
    module: Vec<PathBuf>,
    /// Use files for modules that were recorded without a build id, too: nobody
    /// can tell whether they are the ones that ran
    #[arg(long)]
    unverified: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// Writes the trace with names.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let path = &arguments.trace;
    let mut trace = trace::open(path)?;
    let locator = locator(arguments)?;
    let progress = Arc::new(Progress::new(arguments.quiet));
    let damaged = |error| Failure::new(BAD_INPUT, anyhow!("{}: {error}", path.shown()));
    progress.show("reading the trace", 0, 1);
    trace.verify().map_err(damaged)?;
    let contents = Contents::read(&trace).map_err(damaged)?;
    check_given(&locator, &contents, path)?;
    let mut tally = Tally::default();
    let found = name_modules(arguments, &contents, &locator, &progress, &mut tally);
    let output = arguments.output.as_deref().unwrap_or(path);
    rewrite(&trace, found, output, arguments.force, &progress)?;
    progress.finish();
    for warning in locator.take_complaints() {
        tally.warnings.push(warning);
    }
    if !arguments.quiet {
        tally.print(output, trace.cut_at().map(|cut| cut.to_string()));
    }
    Ok(FINE)
}

fn locator(arguments: &Arguments) -> Result<Locator, Failure> {
    let locator = arguments.debug_files.locator().status(BAD_INPUT)?;
    let mut locator = locator.with_index_cache(IndexCache::of_user());
    for file in &arguments.module {
        locator = locator.with_file(file).status(BAD_INPUT)?;
    }
    Ok(locator)
}

/// Refuses a file that belongs to none of the trace's modules.
fn check_given(locator: &Locator, contents: &Contents, trace: &Path) -> Result<(), Failure> {
    for (build_id, file) in locator.given_files() {
        if contents.modules.iter().any(|it| it.build_id == build_id) {
            continue;
        }
        let same_name = |module: &&Module| {
            let name = module.path.file_name();
            name.is_some() && name == file.file_name()
        };
        let ran = match contents.modules.iter().find(same_name) {
            Some(module) => format!(
                "{} ran with {}",
                module.path.shown(),
                if module.build_id.is_empty() {
                    "none".to_owned()
                } else {
                    hexadecimal(&module.build_id)
                }
            ),
            None => "no module there has it".to_owned(),
        };
        let sentence = anyhow!(
            "{} has build id {} and is not of the recording {}: {ran}; name the file that ran, or its debug file",
            file.shown(),
            hexadecimal(build_id),
            trace.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    Ok(())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An address in a module's file, and whether it is looked up as it is.
type FileAddress = (u64, bool);

/// What of a trace names depend on.
#[derive(Default)]
struct Contents {
    modules: Vec<Module>,
    wanted: BTreeMap<ModuleId, BTreeSet<FileAddress>>,
    /// Names that the trace has.
    known: HashMap<(ModuleId, FileAddress), Vec<Frame>>,
    unoptimised: HashMap<ModuleId, Option<bool>>,
}

impl Contents {
    fn read(trace: &TraceReader) -> Result<Self, allotrope_trace::ReadError> {
        let mut contents = Self::default();
        let mut mappings: HashMap<(ImageId, MappingId), (ModuleId, u64)> = HashMap::new();
        // Nodes may come before the mapping they lie in.
        let mut addresses: HashMap<(ImageId, MappingId), BTreeSet<FileAddress>> = HashMap::new();
        for entry in trace.entries() {
            match entry? {
                Entry::Record(Record::Module(module)) => contents.modules.push(module),
                Entry::Record(Record::Mapping(it)) => {
                    mappings.insert((it.image, it.mapping), (it.module, it.bias));
                }
                Entry::Record(Record::Stacks { image, nodes, .. }) => {
                    for node in nodes.iter().filter(|node| node.mapping != NO_MAPPING) {
                        let known = addresses.entry((image, node.mapping)).or_default();
                        known.insert((node.address, node.exact));
                    }
                }
                Entry::Record(Record::Symbols(symbols)) => contents.keep(&symbols),
                Entry::Record(_) | Entry::Events(_) => {}
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

    fn keep(&mut self, symbols: &Symbols) {
        let unoptimised = self.unoptimised.entry(symbols.module).or_default();
        *unoptimised = unoptimised.or(symbols.unoptimised);
        for location in &symbols.locations {
            let frames = location.frames.iter();
            let frames = frames.filter_map(|index| symbols.frames.get(*index as usize).cloned());
            let key = (symbols.module, (location.address, location.exact));
            self.known.insert(key, frames.collect());
        }
    }
}

/// What is told at the end.
#[derive(Default)]
struct Tally {
    addresses: usize,
    named_before: usize,
    named: usize,
    warnings: Vec<String>,
}

impl Tally {
    fn print(&self, output: &Path, cut: Option<String>) {
        for warning in &self.warnings {
            message::say(format_args!("warning: {warning}"));
        }
        if let Some(cut) = cut {
            message::say(format_args!(
                "warning: {} is not whole: {cut}",
                output.shown()
            ));
        }
        message::say(format_args!(
            "{} of {} addresses have names now, {} had before: {}",
            self.named,
            self.addresses,
            self.named_before,
            output.shown()
        ));
    }
}

/// The names of every module, those that the trace has among them.
fn name_modules(
    arguments: &Arguments,
    contents: &Contents,
    locator: &Locator,
    progress: &Arc<Progress>,
    tally: &mut Tally,
) -> Vec<Symbols> {
    let mut all = Vec::new();
    let total = contents.modules.len() as u64;
    for (done, module) in contents.modules.iter().enumerate() {
        let (reached, end) = progress::naming(done as u64, total, (0, 0));
        progress.show(progress::NAMING, reached, end);
        let mut wanted = contents
            .wanted
            .get(&module.module)
            .cloned()
            .unwrap_or_default();
        let known = contents.known.keys().filter(|(id, _)| *id == module.module);
        wanted.extend(known.map(|(_, address)| *address));
        let wanted: Vec<FileAddress> = wanted.into_iter().collect();
        if wanted.is_empty() {
            continue;
        }
        let shown = Arc::clone(progress);
        let locator = locator.clone().with_progress(move |work, part, parts| {
            let (reached, all) = progress::naming(done as u64, total, (part, parts));
            let what = match work {
                Work::Fetching => progress::FETCHING,
                Work::Reading => progress::NAMING,
            };
            shown.show(what, reached, all);
        });
        let symbols = load(arguments, module, &locator, tally);
        let resolved = match &symbols {
            Some(symbols) => symbols.resolve(&wanted),
            None => vec![Resolved::default(); wanted.len()],
        };
        let before = contents.unoptimised.get(&module.module).copied().flatten();
        let now = symbols.and_then(|symbols| symbols.unoptimised());
        let mut builder = Builder::new(module.module, now.or(before));
        for (address, resolved) in wanted.into_iter().zip(resolved) {
            let known = contents.known.get(&(module.module, address));
            let known = known.map_or(&[][..], |frames| frames);
            tally.addresses += 1;
            tally.named_before += usize::from(!known.is_empty());
            let frames = better(known, resolved.frames.iter().map(frame).collect());
            tally.named += usize::from(!frames.is_empty());
            builder.add(address, frames);
        }
        all.push(builder.symbols);
    }
    all
}

fn load(
    arguments: &Arguments,
    module: &Module,
    locator: &Locator,
    tally: &mut Tally,
) -> Option<ModuleSymbols> {
    // Code that is in no file has no absolute path (`linux-vdso.so.1`).
    if !module.path.is_absolute() {
        return None;
    }
    if module.build_id.is_empty() && !arguments.unverified {
        tally.warnings.push(format!(
            "{} was recorded without a build id, so that no file can be told to be the one that ran; --unverified takes what is there",
            module.path.shown()
        ));
        return None;
    }
    match ModuleSymbols::load(locator, &module.path, &module.build_id, None) {
        Ok(symbols) => Some(symbols),
        Err(error) => {
            if !matches!(error, SymbolError::NotAFile { .. }) {
                tally.warnings.push(error.to_string());
            }
            None
        }
    }
}

/// What tells more: the names found now, unless those known before have more
/// frames, or source positions that these lack.
fn better(known: &[Frame], found: Vec<Frame>) -> Vec<Frame> {
    let worth = |frames: &[Frame]| {
        let with_file = frames.iter().filter(|frame| !frame.file.is_empty());
        (with_file.count(), frames.len())
    };
    if worth(&found) >= worth(known) {
        found
    } else {
        known.to_vec()
    }
}

fn frame(frame: &allotrope_symbols::Frame) -> Frame {
    Frame {
        function: frame.function.to_string(),
        signature: frame.signature.to_string(),
        file: frame.file.to_string(),
        line: frame.line,
        column: frame.column,
        offset: frame.offset,
        inlined: frame.inlined,
    }
}

/// One module's record; the writer splits it where it is large.
struct Builder {
    symbols: Symbols,
    indexes: HashMap<Frame, u32>,
}

impl Builder {
    fn new(module: ModuleId, unoptimised: Option<bool>) -> Self {
        Self {
            symbols: Symbols {
                module,
                unoptimised,
                ..Symbols::default()
            },
            indexes: HashMap::new(),
        }
    }

    fn add(&mut self, (address, exact): FileAddress, frames: Vec<Frame>) {
        if frames.is_empty() {
            return;
        }
        let (symbols, indexes) = (&mut self.symbols, &mut self.indexes);
        let index = |frame: Frame| {
            *indexes.entry(frame).or_insert_with_key(|frame| {
                symbols.frames.push(frame.clone());
                (symbols.frames.len() - 1) as u32
            })
        };
        let frames = frames.into_iter().map(index).collect();
        symbols.locations.push(Location {
            address,
            exact,
            frames,
        });
    }
}

/// Writes the trace with these names in place of its own. The file gets its
/// name when it is whole.
fn rewrite(
    trace: &TraceReader,
    symbols: Vec<Symbols>,
    output: &Path,
    force: bool,
    progress: &Progress,
) -> Result<(), Failure> {
    let target = match Target::of(output) {
        Ok(stream @ Target::Stream(_)) => stream,
        _ => record::replaceable(output, force).status(BAD_INPUT)?,
    };
    let written = Output::at(target)
        .map_err(anyhow::Error::from)
        .and_then(|output| write(trace, symbols, output, progress));
    written
        .with_context(|| format!("cannot write {}; it is as it was", output.shown()))
        .status(FAILED)
}

fn write(
    trace: &TraceReader,
    symbols: Vec<Symbols>,
    output: Output,
    progress: &Progress,
) -> anyhow::Result<()> {
    let mut writer = TraceWriter::new(BufWriter::new(output))?;
    let mut events = Vec::new();
    let total = trace.readable_bytes();
    for entry in trace.entries() {
        match entry? {
            Entry::Record(Record::Symbols(_)) => {}
            Entry::Record(record) => writer.write(&record)?,
            Entry::Events(run) => {
                trace.read_events(&run, &mut events)?;
                writer.write_events(run.image, run.stream, run.first_ordinal, &events)?;
                progress.show(
                    "writing the trace",
                    writer.bytes_written().min(total),
                    total,
                );
            }
        }
    }
    for symbols in symbols {
        writer.write(&Record::Symbols(symbols))?;
    }
    // One that was cut stays one that was cut: something is missing.
    let was_closed = match trace.cut_at() {
        None => true,
        Some(cut) => cut.reason == CutReason::TrailingBytes,
    };
    let mut output = if was_closed {
        writer.finish()?
    } else {
        writer.into_unfinished()?
    };
    // Somebody may know how to mend it.
    trace.copy_unreadable(&mut output)?;
    let output = output.into_inner().map_err(IntoInnerError::into_error)?;
    output.sync()?;
    output.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[(&str, &str)]) -> Vec<Frame> {
        let frame = |(function, file): &(&str, &str)| Frame {
            function: (*function).to_owned(),
            file: (*file).to_owned(),
            ..Frame::default()
        };
        names.iter().map(frame).collect()
    }

    #[test]
    fn a_name_is_replaced_only_by_one_that_tells_as_much() {
        let symbol = frames(&[("outer", "")]);
        let inlined = frames(&[("inner", "a.c"), ("outer", "a.c")]);
        let renamed = frames(&[("inner", "b.c"), ("outer", "b.c")]);
        assert_eq!(better(&[], symbol.clone()), symbol);
        assert_eq!(better(&symbol, inlined.clone()), inlined);
        assert_eq!(better(&inlined, symbol.clone()), inlined);
        assert_eq!(better(&inlined, Vec::new()), inlined);
        assert_eq!(better(&inlined, renamed.clone()), renamed);
    }
}
