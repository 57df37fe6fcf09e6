//! Reading a trace: what is in it, in order, and the events of single chunks.
//! Finding the chunks is [`crate::scan`]'s business.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::chunk::{FILE_HEADER, Header};
use crate::error::{Cut, CutReason, ReadError, Shortfall};
use crate::events::{COLUMN_NAMES, Decoder, columns_of};
use crate::model::{Event, Record};
use crate::payload::PayloadBuffer;
use crate::records;
use crate::scan::{Chunk, Scan, scan};
use crate::source::Source;
use crate::stack_nodes::{StackNodes, StacksRef};
use crate::summary::EventsRef;
use crate::varint::{Cursor, Malformed};

/// A trace open for reading: a [`File`] or, for tests, a `&[u8]`.
///
/// Memory: an index of about 130 bytes a chunk; for each thread that reads at
/// the same time, one chunk as it is stored and expanded (at most 32 MiB
/// each).
pub struct TraceReader<S = File> {
    source: S,
    scan: Scan,
    idle: Mutex<Vec<Workspace>>,
}

/// What follows next in a trace.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A record that is no [`Record::Events`].
    Record(Record),
    /// A run of events, to be had from [`TraceReader::read_events`].
    Events(EventsRef),
}

/// What follows next in a trace whose stack nodes are left for later.
#[derive(Debug, Clone, PartialEq)]
pub enum OutlineEntry {
    /// All else.
    Entry(Entry),
    /// Stack nodes, to be had from [`TraceReader::stack_nodes`].
    Stacks(StacksRef),
}

impl TraceReader<File> {
    /// Opens the file and scans its chunk headers; decodes no chunk.
    ///
    /// The file being cut, or damaged in a header, is no error: see
    /// [`Self::cut_at`]. Damage within a chunk shows when it is read, or in
    /// [`Self::verify`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|source| ReadError::Io { offset: 0, source })?;
        Self::new(file)
    }
}

impl<S: Source> TraceReader<S> {
    /// As [`TraceReader::open`], from what is open already.
    pub fn new(source: S) -> Result<Self, ReadError> {
        let scan = scan(&source)?;
        Ok(Self {
            source,
            scan,
            idle: Mutex::default(),
        })
    }

    /// Checks the contents of every chunk against its checksum, which takes
    /// reading the whole file once. Damage moves the cut there, as if the file
    /// ended before it; [`Self::entries`] and [`Self::read_events`] then give
    /// no checksum errors.
    pub fn verify(&mut self) -> Result<(), ReadError> {
        let Some((position, cut)) = self.first_damage()? else {
            return Ok(());
        };
        if cut.offset == FILE_HEADER as u64 {
            return Err(ReadError::Nothing(cut));
        }
        self.scan.chunks.truncate(position);
        self.scan.end = cut.offset;
        self.scan.cut = Some(cut);
        Ok(())
    }

    /// As [`Self::verify`], but also decodes every chunk: afterwards whatever is
    /// readable can be decoded. Chunks behind the damage are used for names only: of
    /// functions, modules and threads, which a trace has at its end.
    pub fn cut_at_damage(&mut self) -> Result<(), ReadError> {
        let mut damaged = None;
        for (position, chunk) in self.scan.chunks.iter().enumerate() {
            match self.check(chunk) {
                Ok(()) => {}
                Err(ReadError::Damaged { offset, reason }) => {
                    damaged = Some((position, Cut { offset, reason }));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let Some((position, cut)) = damaged else {
            return Ok(());
        };
        if cut.offset == FILE_HEADER as u64 {
            return Err(ReadError::Nothing(cut));
        }
        let mut behind = self.scan.chunks.split_off(position);
        let events = behind.iter().map(|chunk| match chunk {
            Chunk::Events(events) => u64::from(events.counted),
            Chunk::Records { .. } => 0,
        });
        self.scan.events_behind = Some(events.sum());
        behind.retain(|chunk| matches!(chunk, Chunk::Records { .. }) && self.check(chunk).is_ok());
        self.scan.behind = behind;
        self.scan.end = cut.offset;
        self.scan.cut = Some(cut);
        Ok(())
    }

    /// Whether the chunk can be decoded.
    fn check(&self, chunk: &Chunk) -> Result<(), ReadError> {
        match chunk {
            Chunk::Events(events) => self.read_events(events, &mut Vec::new()),
            Chunk::Records { .. } => {
                let mut records = Entries {
                    chunks: std::slice::from_ref(chunk).iter(),
                    behind: [].iter(),
                    ..self.entries()
                };
                records.try_for_each(|record| record.map(|_| ()))
            }
        }
    }

    /// The trace was closed and nothing of it is known to be damaged.
    pub fn is_complete(&self) -> bool {
        self.scan.cut.is_none()
    }

    /// Length of the part that can be read, in bytes.
    pub fn readable_bytes(&self) -> u64 {
        self.scan.end
    }

    /// Where the readable part ends and why, unless the trace is complete.
    pub fn cut_at(&self) -> Option<Cut> {
        self.scan.cut
    }

    /// Copies what lies behind the readable part, as it is, and gives its length.
    pub fn copy_unreadable(&self, to: &mut impl Write) -> io::Result<u64> {
        let length = self.source.length()?;
        let mut block = vec![0; 1 << 16];
        let mut offset = self.scan.end;
        while offset < length {
            let part = block.len().min((length - offset) as usize);
            self.source.read_exact_at(&mut block[..part], offset)?;
            to.write_all(&block[..part])?;
            offset += part as u64;
        }
        Ok(length.saturating_sub(self.scan.end))
    }

    /// As [`Self::cut_at`], with what is missing.
    pub fn shortfall(&self) -> Option<Shortfall> {
        Some(Shortfall {
            cut: self.scan.cut?,
            bytes: self.scan.length.saturating_sub(self.scan.end),
            events: self.scan.events_behind,
        })
    }

    /// Everything in the readable part, in file order, and names behind it after
    /// [`Self::cut_at_damage`]. Ends after an error.
    pub fn entries(&self) -> Entries<'_, S> {
        Entries {
            reader: self,
            chunks: self.scan.chunks.iter(),
            behind: self.scan.behind.iter(),
            only_names: false,
            buffer: PayloadBuffer::default(),
            open: OpenRecords::default(),
        }
    }

    /// As [`Self::entries`], but stack nodes, of which there may be millions, are
    /// only passed over.
    pub fn outline(&self) -> Outline<'_, S> {
        Outline(self.entries())
    }

    /// Reads the stack nodes that an outline passed over.
    pub fn stack_nodes(&self) -> StackNodes<'_, S> {
        StackNodes::new(&self.source)
    }

    /// Replaces what is in `into` by the events of the run. Several threads
    /// may call it at the same time. After an error `into` is empty.
    pub fn read_events(&self, at: &EventsRef, into: &mut Vec<Event>) -> Result<(), ReadError> {
        into.clear();
        let mut workspace = self.idle().pop().unwrap_or_default();
        let read = self.decode_events(at, &mut workspace, into);
        self.idle().push(workspace);
        if read.is_err() {
            into.clear();
        }
        read
    }

    /// The columns of a run, name and expanded bytes, for those who measure
    /// what an event takes (`examples/measure.rs`).
    #[doc(hidden)]
    pub fn columns(&self, at: &EventsRef) -> Result<Vec<(&'static str, Vec<u8>)>, ReadError> {
        let mut buffer = PayloadBuffer::default();
        let payload = buffer.load(&self.source, at.offset, &at.header)?;
        let (_, columns) =
            columns_of(payload).map_err(|malformed| malformed_at(at.offset, malformed))?;
        let named = COLUMN_NAMES.into_iter().zip(columns);
        Ok(named
            .map(|(name, column)| (name, column.rest().to_vec()))
            .collect())
    }

    fn decode_events(
        &self,
        at: &EventsRef,
        workspace: &mut Workspace,
        into: &mut Vec<Event>,
    ) -> Result<(), ReadError> {
        let payload = workspace
            .payload
            .load(&self.source, at.offset, &at.header)?;
        let counted = workspace
            .decoder
            .decode(payload, at.header.items as usize, into)
            .map_err(|malformed| malformed_at(at.offset, malformed))?;
        if counted == at.counted as usize {
            Ok(())
        } else {
            let malformed = Malformed("the summary counts other events than there are");
            Err(malformed_at(at.offset, malformed))
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Workspace>> {
        // Whoever panicked with the lock held left a list of workspaces.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first chunk whose payload does not fit its checksum.
    fn first_damage(&self) -> Result<Option<(usize, Cut)>, ReadError> {
        let mut payload = PayloadBuffer::default();
        for (position, chunk) in self.scan.chunks.iter().enumerate() {
            match payload.read(&self.source, chunk.offset(), chunk.header()) {
                Ok(()) => {}
                Err(ReadError::Damaged { offset, reason }) => {
                    return Ok(Some((position, Cut { offset, reason })));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl<S> std::fmt::Debug for TraceReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader")
            .field("chunks", &self.scan.chunks.len())
            .field("readable_bytes", &self.scan.end)
            .field("cut", &self.scan.cut)
            .finish_non_exhaustive()
    }
}

/// What reading an event chunk needs beside the reader.
#[derive(Default)]
struct Workspace {
    payload: PayloadBuffer,
    decoder: Decoder,
}

fn malformed_at(offset: u64, malformed: Malformed) -> ReadError {
    ReadError::Damaged {
        offset,
        reason: CutReason::Malformed(malformed.0),
    }
}

/// See [`TraceReader::entries`].
pub struct Entries<'a, S> {
    reader: &'a TraceReader<S>,
    chunks: std::slice::Iter<'a, Chunk>,
    behind: std::slice::Iter<'a, Chunk>,
    /// The open chunk lies behind the damage.
    only_names: bool,
    buffer: PayloadBuffer,
    open: OpenRecords,
}

/// The record chunk whose records are being given out.
#[derive(Default)]
struct OpenRecords {
    /// Where it stands, and its header.
    chunk: Option<(u64, Header)>,
    payload: Vec<u8>,
    /// How far `payload` has been read.
    at: usize,
    /// Records still in it.
    left: u32,
}

impl<S: Source> Iterator for Entries<'_, S> {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            self.end();
        }
        next
    }
}

impl<S: Source> Entries<'_, S> {
    fn advance(&mut self) -> Result<Option<Entry>, ReadError> {
        loop {
            match self.open.next()? {
                Some(Some(record)) if self.is_wanted(&record) => {
                    return Ok(Some(Entry::Record(record)));
                }
                Some(_) => {}
                None => match self.next_chunk()? {
                    Opened::Records => {}
                    Opened::Events(events) => return Ok(Some(Entry::Events(events))),
                    Opened::Nothing => return Ok(None),
                },
            }
        }
    }

    /// Whether a record says something of what is readable.
    fn is_wanted(&self, record: &Record) -> bool {
        !self.only_names
            || matches!(
                record,
                Record::Module(_)
                    | Record::Mapping(_)
                    | Record::Symbols(_)
                    | Record::JitSymbols(_)
                    | Record::ThreadName(_)
            )
    }

    fn next_chunk(&mut self) -> Result<Opened, ReadError> {
        let next = self.chunks.next().or_else(|| {
            self.only_names = true;
            self.behind.next()
        });
        match next {
            None => Ok(Opened::Nothing),
            Some(Chunk::Events(events)) => Ok(Opened::Events(*events)),
            Some(Chunk::Records { offset, header }) => {
                let payload = self.buffer.load(&self.reader.source, *offset, header)?;
                self.open.chunk = Some((*offset, *header));
                self.open.payload.clear();
                self.open.payload.extend_from_slice(payload);
                self.open.at = 0;
                self.open.left = header.items;
                Ok(Opened::Records)
            }
        }
    }

    fn end(&mut self) {
        (self.chunks, self.behind) = ([].iter(), [].iter());
        self.open = OpenRecords::default();
    }
}

/// What the next chunk turned out to be.
enum Opened {
    Records,
    Events(EventsRef),
    Nothing,
}

/// See [`TraceReader::outline`].
pub struct Outline<'a, S>(Entries<'a, S>);

impl<S: Source> Iterator for Outline<'_, S> {
    type Item = Result<OutlineEntry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            self.0.end();
        }
        next
    }
}

impl<S: Source> Outline<'_, S> {
    fn advance(&mut self) -> Result<Option<OutlineEntry>, ReadError> {
        loop {
            if let Some(stacks) = self.0.open.pass_stacks()? {
                if self.0.only_names {
                    continue;
                }
                return Ok(Some(OutlineEntry::Stacks(stacks)));
            }
            match self.0.open.next()? {
                Some(Some(record)) if self.0.is_wanted(&record) => {
                    return Ok(Some(OutlineEntry::Entry(Entry::Record(record))));
                }
                Some(_) => {}
                None => match self.0.next_chunk()? {
                    Opened::Records => {}
                    Opened::Events(events) => {
                        return Ok(Some(OutlineEntry::Entry(Entry::Events(events))));
                    }
                    Opened::Nothing => return Ok(None),
                },
            }
        }
    }
}

impl OpenRecords {
    /// The next record, or `None` in its place if its tag is unknown; `None` at the
    /// end.
    fn next(&mut self) -> Result<Option<Option<Record>>, ReadError> {
        if self.left > 0 {
            let mut cursor = Cursor::new(&self.payload[self.at..]);
            let record = records::decode(&mut cursor)
                .map_err(|malformed| malformed_at(self.offset(), malformed))?;
            self.at = self.payload.len() - cursor.left();
            self.left -= 1;
            return Ok(Some(record));
        }
        if self.at == self.payload.len() {
            return Ok(None);
        }
        let malformed = Malformed("a record chunk holds more than its records");
        Err(malformed_at(self.offset(), malformed))
    }

    /// Passes over the next record if it holds stack nodes.
    fn pass_stacks(&mut self) -> Result<Option<StacksRef>, ReadError> {
        let Some((offset, header)) = self.chunk.filter(|_| self.left > 0) else {
            return Ok(None);
        };
        let mut cursor = Cursor::new(&self.payload[self.at..]);
        let passed = records::pass_stacks(&mut cursor);
        let Some(head) = passed.map_err(|malformed| malformed_at(offset, malformed))? else {
            return Ok(None);
        };
        let at = self.at;
        self.at = self.payload.len() - cursor.left();
        self.left -= 1;
        Ok(Some(StacksRef {
            image: head.image,
            nodes: head.nodes,
            offset,
            header,
            at,
        }))
    }

    fn offset(&self) -> u64 {
        self.chunk.map_or(0, |(offset, _)| offset)
    }
}
