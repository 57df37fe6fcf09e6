//! Reading a file of any known form: unpacks it, tells what it is from its
//! contents, has the form's own reader read it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read as _};
use std::path::Path;

use allotrope_text::Shown;

use allotrope_profile::StackSet;

use crate::error::{Fault, Place, Problem, ReadError};
use crate::lines::{Lines, MAX_LINE};
use crate::readers::{bpftrace, dhat, dtrace, folded, heaptrack, heaptrack_print, json, pprof};
use crate::recognise::{Format, Recognised, recognise};

/// What a file holds.
#[derive(Debug)]
pub struct Read {
    /// The stacks.
    pub set: StackSet,
    /// The form they came in.
    pub format: Format,
    /// What a person should know before trusting the figures, a sentence each.
    pub notes: Vec<String>,
}

/// Stacks and notes, as one reader gives them.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub set: StackSet,
    pub notes: Vec<String>,
}

/// Bytes looked at first; most files are known by far fewer.
const FIRST_LOOK: usize = 64 << 10;
/// Bytes looked at where the first look says nothing: a program's own output
/// stands before the stacks.
const LONG_LOOK: usize = MAX_LINE;
/// heaptrack data and pprof profiles are compressed once; some people compress
/// once more.
const MAX_LAYERS: u32 = 2;

/// Reads a file. Errors name the file as `path` displays.
pub fn read(path: &Path) -> Result<Read, ReadError> {
    let name = path.shown().into_owned();
    match File::open(path) {
        Ok(file) => read_bytes(&name, BufReader::with_capacity(256 << 10, file)),
        Err(error) => Err(Fault::whole(error).named(&name)),
    }
}

/// Reads from memory or a pipe; `name` is what errors call it.
pub fn read_bytes(name: &str, mut input: impl BufRead) -> Result<Read, ReadError> {
    unpack(&mut input, 0).map_err(|fault| fault.named(name))
}

/// Takes one layer of compression off, or reads what has none.
fn unpack(input: &mut dyn BufRead, layers: u32) -> Result<Read, Fault> {
    let mut head = Vec::new();
    look(input, &mut head, FIRST_LOOK)?;
    let mut recognised = recognise(&head);
    if recognised == Recognised::UnknownText && head.len() == FIRST_LOOK {
        look(input, &mut head, LONG_LOOK - FIRST_LOOK)?;
        recognised = recognise(&head);
    }
    if recognised == Recognised::UnknownText && is_one_long_line(&head) {
        return Err(Fault {
            place: Place::Line(1),
            problem: Problem::LineTooLong(MAX_LINE),
        });
    }
    let mut whole = Cursor::new(head).chain(input);
    let problem = match recognised {
        Recognised::Gzip | Recognised::Zstd if layers == MAX_LAYERS => Problem::Nested(MAX_LAYERS),
        Recognised::Gzip => {
            let unpacked = flate2::bufread::MultiGzDecoder::new(whole);
            return unpack(
                &mut BufReader::with_capacity(256 << 10, unpacked),
                layers + 1,
            );
        }
        Recognised::Zstd => {
            let unpacked = zstd::Decoder::with_buffer(whole).map_err(Fault::whole)?;
            return unpack(
                &mut BufReader::with_capacity(256 << 10, unpacked),
                layers + 1,
            );
        }
        Recognised::Format(format) => return parse(format, &mut whole),
        Recognised::Empty => Problem::Empty,
        Recognised::Trace => Problem::Trace,
        Recognised::UnknownText => Problem::UnknownText,
        Recognised::UnknownBinary => Problem::UnknownBinary,
    };
    Err(Fault::whole(problem))
}

fn is_one_long_line(head: &[u8]) -> bool {
    head.len() >= MAX_LINE && !head.contains(&b'\n')
}

/// Appends up to `bytes` more to what was looked at.
fn look(input: &mut dyn BufRead, head: &mut Vec<u8>, bytes: usize) -> Result<(), Fault> {
    let read: io::Result<usize> = input.take(bytes as u64).read_to_end(head);
    read.map(|_| ()).map_err(Fault::whole)
}

fn parse(format: Format, input: &mut dyn BufRead) -> Result<Read, Fault> {
    let Parsed { set, notes } = match format {
        Format::Dtrace => dtrace::read(&mut Lines::new(input)),
        Format::Bpftrace => bpftrace::read(&mut Lines::new(input)),
        Format::HeaptrackPrint => heaptrack_print::read(&mut Lines::new(input)),
        Format::Heaptrack => heaptrack::read(&mut Lines::new(input)),
        Format::Folded => folded::read(&mut Lines::new(input)),
        Format::Dhat => dhat::read(input),
        Format::Pprof => pprof::read(input),
        Format::Json => json::read(input),
    }?;
    if set.stacks.is_empty() {
        return Err(Fault::whole(Problem::NoStacks(format)));
    }
    Ok(Read { set, format, notes })
}
