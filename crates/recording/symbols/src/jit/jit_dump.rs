//! `jit-PID.dump` (Linux, tools/perf/Documentation/jitdump-specification.txt):
//! records of code with the time at which it was added. Written by Node with
//! `--perf-prof`, Java with perf's agent, wasmtime, LLVM's JITs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{JitCode, MAX_NAME, MAX_PIECES};
use crate::elf::{u32_at, u64_at};

const MAGIC: u32 = 0x4a69_5444;
const HEADER: usize = 40;
const RECORD_HEADER: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
/// Times are the time stamp counter's, not the monotonic clock's.
const ARCH_TIMESTAMP: u64 = 1;
/// Bytes of a record that are read. The code itself, after the name, is not read.
const MAX_READ: usize = 1 << 20;
/// Largest number of line entries of all code together.
const MAX_LINES: usize = 16 << 20;
/// The most pieces of code before an address that a look-up examines.
const MAX_EXAMINED: usize = 1024;

/// The clock of a dump's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitClock {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    Monotonic,
    /// The time stamp counter.
    TimeStampCounter,
}

/// The dump of one process, with the records read so far.
#[derive(Debug)]
pub struct JitDump {
    file: File,
    read: u64,
    clock: JitClock,
    pieces: Vec<Piece>,
    /// Indexes of pieces by their start, in order of time.
    by_start: BTreeMap<u64, Vec<u32>>,
    /// The last piece of each code, for those that move.
    by_code: FxHashMap<u64, u32>,
    longest: u64,
    /// Lines announced for the code that is loaded next, by its address.
    announced: FxHashMap<u64, Arc<[LineEntry]>>,
    lines: usize,
}

#[derive(Debug, Clone)]
struct Piece {
    from: u64,
    start: u64,
    end: u64,
    name: Arc<str>,
    /// Relative to the start; sorted.
    lines: Arc<[LineEntry]>,
}

#[derive(Debug, Clone)]
struct LineEntry {
    offset: u64,
    file: Arc<str>,
    line: u32,
}

impl JitDump {
    /// Whether a mapped file is a dump, by its name. A runtime that writes a dump
    /// maps its first page as executable, so that profilers find it.
    pub fn is_marker(path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let id = name
            .strip_prefix("jit-")
            .and_then(|rest| rest.strip_suffix(".dump"));
        id.is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Opens a dump and reads what is there.
    ///
    /// # Errors
    /// Fails if it cannot be read, is no dump, or is from another machine.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(allotrope_files::open_regular(path)?)
    }

    /// Same as [`Self::open`], from an open file.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn new(file: File) -> io::Result<Self> {
        let invalid = |text: &'static str| io::Error::new(io::ErrorKind::InvalidData, text);
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        if u32_at(&header, 0) != Some(MAGIC) {
            return Err(invalid("it is no jitdump of a little-endian machine"));
        }
        let length = u32_at(&header, 8).unwrap_or_default();
        if (length as usize) < HEADER {
            return Err(invalid("the jitdump's header is too short"));
        }
        let is_ticks = u64_at(&header, 32).unwrap_or_default() & ARCH_TIMESTAMP != 0;
        let mut dump = Self {
            file,
            read: length.into(),
            clock: if is_ticks {
                JitClock::TimeStampCounter
            } else {
                JitClock::Monotonic
            },
            pieces: Vec::new(),
            by_start: BTreeMap::new(),
            by_code: FxHashMap::default(),
            longest: 0,
            announced: FxHashMap::default(),
            lines: 0,
        };
        dump.refresh()?;
        Ok(dump)
    }

    /// The clock of the times that [`Self::code`] takes.
    pub fn clock(&self) -> JitClock {
        self.clock
    }

    /// Reads the complete records that were added since the last call.
    ///
    /// # Errors
    /// Fails if the file cannot be read. Records read before stay.
    pub fn refresh(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        while let Some(header) = self.header(length)? {
            let (kind, size, time) = header;
            let Some(end) = self
                .read
                .checked_add(size.into())
                .filter(|end| *end <= length)
            else {
                break;
            };
            let wanted = (size as usize - RECORD_HEADER).min(MAX_READ);
            if matches!(kind, CODE_LOAD | CODE_MOVE | DEBUG_INFO) {
                let mut record = vec![0; wanted];
                self.file
                    .read_exact_at(&mut record, self.read + RECORD_HEADER as u64)?;
                // A damaged record loses only its own names.
                let _ = match kind {
                    CODE_LOAD => self.load(&record, time),
                    CODE_MOVE => self.moved(&record, time),
                    _ => self.announce(&record),
                };
            }
            self.read = end;
        }
        Ok(())
    }

    /// Kind, size and time of the next record, if its header was written.
    fn header(&self, length: u64) -> io::Result<Option<(u32, u32, u64)>> {
        let mut header = [0; RECORD_HEADER];
        if length.saturating_sub(self.read) < RECORD_HEADER as u64 {
            return Ok(None);
        }
        self.file.read_exact_at(&mut header, self.read)?;
        let fields = || {
            Some((
                u32_at(&header, 0)?,
                u32_at(&header, 4)?,
                u64_at(&header, 8)?,
            ))
        };
        // Without the size of a record, the start of the next one is unknown.
        Ok(fields().filter(|fields| fields.1 as usize >= RECORD_HEADER))
    }

    /// Adds code. The record has: process, thread, the address twice, size, number of
    /// the code, name.
    fn load(&mut self, record: &[u8], time: u64) -> Option<()> {
        let start = u64_at(record, 16)?;
        let size = u64_at(record, 24)?;
        let code = u64_at(record, 32)?;
        let name = text_at(record, 40)?;
        let lines = self.announced.remove(&start).unwrap_or_default();
        self.add(
            code,
            Piece {
                from: time,
                start,
                end: start.checked_add(size)?,
                name: name.into(),
                lines,
            },
        )
    }

    /// Adds code that moved. The record has: process, thread, address, old and new
    /// address, size, number of the code.
    fn moved(&mut self, record: &[u8], time: u64) -> Option<()> {
        let start = u64_at(record, 24)?;
        let size = u64_at(record, 32)?;
        let code = u64_at(record, 40)?;
        let known = self.pieces.get(*self.by_code.get(&code)? as usize)?.clone();
        self.add(
            code,
            Piece {
                from: time,
                start,
                end: start.checked_add(size)?,
                ..known
            },
        )
    }

    fn add(&mut self, code: u64, piece: Piece) -> Option<()> {
        if self.pieces.len() >= MAX_PIECES || piece.end <= piece.start {
            return None;
        }
        let index = self.pieces.len() as u32;
        self.longest = self.longest.max(piece.end - piece.start);
        self.by_start.entry(piece.start).or_default().push(index);
        self.by_code.insert(code, index);
        self.pieces.push(piece);
        Some(())
    }

    /// Stores the lines of code that a later record will add. The record has: address of
    /// the code, number of entries; for each entry its address, line, discriminator and
    /// file, which may mean "the same as before".
    fn announce(&mut self, record: &[u8]) -> Option<()> {
        let code = u64_at(record, 0)?;
        let count = u64_at(record, 8)?;
        let mut at = 16;
        let mut file: Arc<str> = Arc::default();
        let mut lines = Vec::new();
        for _ in 0..count {
            if self.lines + lines.len() >= MAX_LINES {
                break;
            }
            let Some(address) = u64_at(record, at) else {
                break;
            };
            let line = u32_at(record, at + 8)?;
            let name = bytes_at(record, at + 16)?;
            at += 16 + name.len() + 1;
            // This name means the same file as in the previous entry.
            if name != b"\xff" {
                let known = String::from_utf8_lossy(name);
                if *file != *known {
                    file = known.into();
                }
            }
            lines.push(LineEntry {
                offset: address.wrapping_sub(code),
                file: file.clone(),
                line,
            });
        }
        lines.sort_by_key(|line| line.offset);
        self.lines += lines.len();
        self.announced.insert(code, lines.into());
        Some(())
    }

    /// The code at `address` at `time` (see [`Self::clock`]): the last that was
    /// added by then and contains the address.
    pub fn code(&self, address: u64, time: u64) -> Option<JitCode> {
        let lowest = address.saturating_sub(self.longest);
        let before = self.by_start.range(lowest..=address).rev();
        let pieces = before.flat_map(|(_, pieces)| pieces.iter().rev());
        let covering = pieces.take(MAX_EXAMINED).filter(|index| {
            let piece = &self.pieces[**index as usize];
            piece.from <= time && address < piece.end
        });
        let last = covering.max_by_key(|index| (self.pieces[**index as usize].from, **index))?;
        Some(self.pieces[*last as usize].code_at(address))
    }

    /// All code that was ever at `address`, each with the time at which it was added
    /// (see [`Self::clock`]), sorted by time.
    pub fn history(&self, address: u64) -> Vec<(u64, JitCode)> {
        let lowest = address.saturating_sub(self.longest);
        let before = self.by_start.range(lowest..=address).rev();
        let pieces = before.flat_map(|(_, pieces)| pieces.iter().rev());
        let mut covering: Vec<(u64, u32)> = pieces
            .take(MAX_EXAMINED)
            .map(|index| (self.pieces[*index as usize].from, *index))
            .filter(|(_, index)| address < self.pieces[*index as usize].end)
            .collect();
        covering.sort_unstable();
        let code = |(from, index)| (from, self.pieces[index as usize].code_at(address));
        covering.into_iter().map(code).collect()
    }

    /// The number of pieces of code so far.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether no code was added so far.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

impl Piece {
    /// The piece, with the line of an address in it.
    fn code_at(&self, address: u64) -> JitCode {
        let after = self
            .lines
            .partition_point(|line| line.offset <= address - self.start);
        let line = after.checked_sub(1).map(|index| &self.lines[index]);
        JitCode {
            start: self.start,
            end: self.end,
            name: self.name.clone(),
            file: line.map(|line| line.file.clone()).unwrap_or_default(),
            line: line.map_or(0, |line| line.line),
        }
    }
}

fn bytes_at(record: &[u8], at: usize) -> Option<&[u8]> {
    let rest = record.get(at..)?;
    let end = rest.iter().take(MAX_NAME).position(|byte| *byte == 0)?;
    Some(&rest[..end])
}

fn text_at(record: &[u8], at: usize) -> Option<String> {
    Some(String::from_utf8_lossy(bytes_at(record, at)?).into_owned())
}

#[cfg(test)]
mod tests;
