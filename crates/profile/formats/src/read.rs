//! Reads a file of any known format: decompresses it, recognises the format and
//! calls its reader.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read as _};
use std::path::Path;

use allotrope_text::Shown;
use allotrope_text::numbers::{bytes, count};

use allotrope_profile::StackSet;

use crate::bounded::Bounded;
use crate::budget::Budget;
use crate::error::{Fault, Location, Problem, ReadError};
use crate::format::Format;
use crate::limits::Limits;
use crate::lines::{Lines, MAX_LINE};
use crate::readers::{
    Parsed, bpftrace, dhat, dtrace, folded, heap_profile, heaptrack, heaptrack_print, json, massif,
    pprof,
};
use crate::recognise::{Recognised, recognise};

/// The contents of a file.
#[derive(Debug)]
pub struct Read {
    /// The stacks.
    pub set: StackSet,
    /// The format of the file.
    pub format: Format,
    /// Notes on how far the figures can be trusted, a sentence each.
    pub notes: Vec<String>,
}

/// Bytes that are inspected first; they suffice for most files.
const FIRST_INSPECTION: usize = 64 << 10;
/// Bytes that are inspected if these do not suffice, because the output of a
/// program precedes the stacks.
const LONG_INSPECTION: usize = MAX_LINE;
/// heaptrack's files and pprof profiles are compressed once; users may compress
/// them again.
const MAX_LAYERS: u32 = 2;

/// Reads a file. Errors name it as `path` displays.
pub fn read(path: &Path) -> Result<Read, ReadError> {
    let name = path.shown().into_owned();
    match File::open(path) {
        Ok(file) => read_bytes(&name, BufReader::with_capacity(256 << 10, file)),
        Err(error) => Err(Fault::whole(error).named(&name)),
    }
}

/// Reads from memory or a pipe; errors use `name` for it.
pub fn read_bytes(name: &str, input: impl BufRead) -> Result<Read, ReadError> {
    read_bytes_within(name, input, Limits::default())
}

/// Same as [`read_bytes`], within other limits.
pub fn read_bytes_within(
    name: &str,
    input: impl BufRead,
    limits: Limits,
) -> Result<Read, ReadError> {
    let budget = Budget::new(limits);
    let read = unpack(&mut Bounded::new(input, &budget), 0, &budget);
    read.map_err(|fault| {
        // Decompressors and parsers keep only the text of an error that they pass on.
        let problem = budget.exceeded().map_or(fault.problem, Problem::from);
        Fault { problem, ..fault }.named(name)
    })
}

/// Removes one layer of compression, or reads an uncompressed file.
fn unpack(input: &mut dyn BufRead, layers: u32, budget: &Budget) -> Result<Read, Fault> {
    let mut head = Vec::new();
    inspect(input, &mut head, FIRST_INSPECTION)?;
    let mut recognised = recognise(&head);
    if recognised == Recognised::UnknownText && head.len() == FIRST_INSPECTION {
        inspect(input, &mut head, LONG_INSPECTION - FIRST_INSPECTION)?;
        recognised = recognise(&head);
    }
    if recognised == Recognised::UnknownText && is_one_long_line(&head) {
        return Err(Fault {
            location: Location::Line(1),
            problem: Problem::LineTooLong(MAX_LINE),
        });
    }
    let mut whole = Cursor::new(head).chain(input);
    let problem = match recognised {
        Recognised::Gzip | Recognised::Zstd if layers == MAX_LAYERS => Problem::Nested(MAX_LAYERS),
        Recognised::Gzip => {
            let unpacked = flate2::bufread::MultiGzDecoder::new(whole);
            return unpack_layer(unpacked, layers, budget);
        }
        Recognised::Zstd => {
            let unpacked = zstd::Decoder::with_buffer(whole).map_err(Fault::whole)?;
            return unpack_layer(unpacked, layers, budget);
        }
        Recognised::Format(format) => return parse(format, &mut whole, budget),
        Recognised::Foreign(foreign) => Problem::Foreign(foreign),
        Recognised::Empty => Problem::Empty,
        Recognised::Trace => Problem::Trace,
        Recognised::UnknownText => Problem::UnknownText,
        Recognised::UnknownBinary => Problem::UnknownBinary,
    };
    Err(Fault::whole(problem))
}

/// Reads what a decompressor gives.
fn unpack_layer(unpacked: impl io::Read, layers: u32, budget: &Budget) -> Result<Read, Fault> {
    let unpacked = BufReader::with_capacity(256 << 10, unpacked);
    unpack(&mut Bounded::new(unpacked, budget), layers + 1, budget)
}

fn is_one_long_line(head: &[u8]) -> bool {
    head.len() >= MAX_LINE && !head.contains(&b'\n')
}

/// Extends the inspected bytes by up to `bytes`.
fn inspect(input: &mut dyn BufRead, head: &mut Vec<u8>, bytes: usize) -> Result<(), Fault> {
    let read: io::Result<usize> = input.take(bytes as u64).read_to_end(head);
    read.map(|_| ()).map_err(Fault::whole)
}

/// Whether a tool writes a file without stacks for a program that allocated nothing, so
/// that it is no sign of a failed recording.
fn has_valid_empty_files(format: Format) -> bool {
    match format {
        Format::Dhat | Format::HeapProfile | Format::Json | Format::Pprof => true,
        Format::Bpftrace
        | Format::Dtrace
        | Format::Folded
        | Format::Heaptrack
        | Format::HeaptrackPrint
        | Format::Massif => false,
    }
}

fn parse(format: Format, input: &mut dyn BufRead, budget: &Budget) -> Result<Read, Fault> {
    let Parsed { set, mut notes } = match format {
        Format::Dtrace => dtrace::read(&mut Lines::new(input, budget)),
        Format::Bpftrace => bpftrace::read(&mut Lines::new(input, budget)),
        Format::HeaptrackPrint => heaptrack_print::read(&mut Lines::new(input, budget)),
        Format::Heaptrack => heaptrack::read(&mut Lines::new(input, budget)),
        Format::HeapProfile => heap_profile::read(&mut Lines::new(input, budget)),
        Format::Folded => folded::read(&mut Lines::new(input, budget)),
        Format::Dhat => dhat::read(input, budget),
        Format::Massif => massif::read(&mut Lines::new(input, budget)),
        Format::Pprof => pprof::read(input, budget),
        Format::Json => json::read(input, budget),
    }?;
    if set.stacks.is_empty() {
        if !has_valid_empty_files(format) {
            return Err(Fault::whole(Problem::NoStacks(format)));
        }
        notes.push("the file is whole and holds no stack: nothing was allocated".to_owned());
    }
    let left_mangled = budget.names().left_mangled();
    if left_mangled > 0 {
        notes.push(format!(
            "the demangled names would take more than {}, so {} stay mangled; if the file comes from somebody whom you trust, read it with a larger --input-limit SIZE (now {})",
            bytes(budget.limits().names()),
            count(left_mangled),
            bytes(budget.limits().input()),
        ));
    }
    Ok(Read { set, format, notes })
}
