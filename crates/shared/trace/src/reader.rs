//! Reads a trace: iterates over its records in file order, and decodes the events
//! of single chunks. [`crate::scan`] finds the chunks.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::chunk::{Contents, FILE_HEADER, Header};
use crate::error::{Cut, CutReason, ReadError, Shortfall};
use crate::events::{COLUMN_NAMES, Decoder, columns_of};
use crate::free_stacks;
use crate::model::{Event, Record};
use crate::payload::PayloadBuffer;
use crate::records;
use crate::scan::{Chunk, Scan, scan};
use crate::source::Source;
use crate::stack_nodes::{StackNodes, StacksRef};
use crate::summary::EventsRef;
use crate::varint::{Cursor, Malformed};

/// A trace open for reading: a [`File`] or, in tests, a `&[u8]`.
///
/// Memory: an index of about 130 bytes for each chunk and, for each thread that
/// reads at the same time, a chunk's stored and its decoded payload (at most
/// 32 MiB each).
pub struct TraceReader<S = File> {
    source: S,
    scan: Scan,
    /// See [`TraceReader::set_growing`].
    is_growing: bool,
    /// Records that follow those of the file.
    added: Vec<Record>,
    /// Workspaces that no thread uses now.
    workspaces: Mutex<Vec<Workspace>>,
}

/// An entry of a trace: a record, or a chunk of events.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A record other than [`Record::Events`].
    Record(Record),
    /// A chunk of events; [`TraceReader::read_events`] decodes it.
    Events(EventsRef),
}

/// An entry of a trace, with stack nodes left undecoded.
#[derive(Debug, Clone, PartialEq)]
pub enum OutlineEntry {
    /// Any entry except stack nodes.
    Entry(Entry),
    /// Stack nodes; [`TraceReader::stack_nodes`] decodes them.
    Stacks(StacksRef),
}

impl From<Entry> for OutlineEntry {
    fn from(entry: Entry) -> Self {
        Self::Entry(entry)
    }
}

impl TraceReader<File> {
    /// Opens the file and reads its chunk headers; decodes no chunk.
    ///
    /// It is no error if the file was truncated or a header is damaged: see
    /// [`Self::cut_at`]. Damage in a payload is detected when the chunk is read, or
    /// by [`Self::verify`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|source| ReadError::Io { offset: 0, source })?;
        Self::new(file)
    }
}

impl<S: Source> TraceReader<S> {
    /// Like [`TraceReader::open`], for a source that is already open.
    pub fn new(source: S) -> Result<Self, ReadError> {
        Self::with(source, Contents::Recording)
    }

    /// Opens a sampled profile. It has no events, and is read only if it is whole.
    pub fn sampled(source: S) -> Result<Self, ReadError> {
        Self::with(source, Contents::Samples)
    }

    fn with(source: S, wanted: Contents) -> Result<Self, ReadError> {
        let scan = scan(&source, wanted)?;
        Ok(Self {
            source,
            scan,
            is_growing: false,
            added: Vec::new(),
            workspaces: Mutex::default(),
        })
    }

    /// Notes that the trace is still being written: that it ends without a closing chunk,
    /// or within a chunk, is no damage then. Chunks that are added after the trace was
    /// opened are not read.
    pub fn set_growing(&mut self) {
        self.is_growing = true;
    }

    /// Whether [`Self::set_growing`] was called.
    pub fn is_growing(&self) -> bool {
        self.is_growing
    }

    /// Adds records that [`Self::entries`] and [`Self::outline`] return after those of the
    /// file: names that the file does not have yet. No stack nodes.
    pub fn add_records(&mut self, records: impl IntoIterator<Item = Record>) {
        self.added.extend(records);
    }

    /// Verifies the checksum of every payload, which reads the whole file once.
    /// A damaged chunk becomes the end of the readable part, as if the file ended
    /// before it: [`Self::entries`] and [`Self::read_events`] then return no
    /// checksum errors.
    pub fn verify(&mut self) -> Result<(), ReadError> {
        let mut payload = PayloadBuffer::default();
        let verify = |chunk: &Chunk| {
            if let Chunk::Events(events) = chunk
                && let Some((offset, header)) = &events.free_stacks
            {
                payload.read(&self.source, *offset, header)?;
            }
            payload.read(&self.source, chunk.offset(), chunk.header())
        };
        if let Some((position, cut)) = self.first_damage(verify)? {
            self.cut_before(position, cut)?;
        }
        Ok(())
    }

    /// Like [`Self::verify`], but also decodes every chunk: afterwards all readable
    /// chunks can be decoded. After the damage, [`Self::entries`] continues with
    /// the names of functions, modules and threads, which a trace has at its end.
    pub fn cut_at_damage(&mut self) -> Result<(), ReadError> {
        let damage = self.first_damage(|chunk| self.check(chunk))?;
        let Some((position, cut)) = damage else {
            return Ok(());
        };
        let mut after = self.cut_before(position, cut)?;
        let counted = after.iter().map(|chunk| match chunk {
            Chunk::Events(events) => u64::from(events.counted),
            Chunk::Records { .. } => 0,
        });
        self.scan.counted_after_cut = Some(counted.sum());
        after.retain(|chunk| matches!(chunk, Chunk::Records { .. }) && self.check(chunk).is_ok());
        self.scan.records_after_cut = after;
        Ok(())
    }

    /// The position of the first chunk for which `check` returns an error because
    /// the chunk is damaged.
    fn first_damage(
        &self,
        mut check: impl FnMut(&Chunk) -> Result<(), ReadError>,
    ) -> Result<Option<(usize, Cut)>, ReadError> {
        for (position, chunk) in self.scan.chunks.iter().enumerate() {
            match check(chunk) {
                Ok(()) => {}
                Err(ReadError::Damaged { offset, reason }) => {
                    return Ok(Some((position, Cut { offset, reason })));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Ends the readable part before the chunk at `position`, and returns the
    /// chunks from there on.
    fn cut_before(&mut self, position: usize, cut: Cut) -> Result<Vec<Chunk>, ReadError> {
        if cut.offset == FILE_HEADER as u64 {
            return Err(ReadError::Nothing(cut));
        }
        self.scan.end = cut.offset;
        self.scan.cut = Some(cut);
        Ok(self.scan.chunks.split_off(position))
    }

    /// Decodes the chunk and drops the result.
    fn check(&self, chunk: &Chunk) -> Result<(), ReadError> {
        match chunk {
            Chunk::Events(events) => self.read_events(events, &mut Vec::new()),
            Chunk::Records { .. } => {
                let mut records = Entries {
                    chunks: std::slice::from_ref(chunk).iter(),
                    after_cut: [].iter(),
                    added: [].iter(),
                    ..self.entries()
                };
                records.try_for_each(|record| record.map(|_| ()))
            }
        }
    }

    /// Whether the trace has its closing chunk and no damage was found.
    pub fn is_complete(&self) -> bool {
        self.scan.cut.is_none()
    }

    /// Length of the readable part, in bytes.
    pub fn readable_bytes(&self) -> u64 {
        self.scan.end
    }

    /// Where and why the readable part ends, unless the trace is complete.
    pub fn cut_at(&self) -> Option<Cut> {
        self.scan.cut
    }

    /// Copies the bytes after the readable part to `to` and returns their number.
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

    /// Like [`Self::cut_at`], with the amount of data after the readable part.
    pub fn shortfall(&self) -> Option<Shortfall> {
        Some(Shortfall {
            cut: self.scan.cut?,
            bytes: self.scan.length.saturating_sub(self.scan.end),
            events: self.scan.counted_after_cut,
        })
    }

    /// All entries of the readable part, in file order; after
    /// [`Self::cut_at_damage`] also the names after it. Ends after an error.
    pub fn entries(&self) -> Entries<'_, S> {
        Entries {
            source: &self.source,
            chunks: self.scan.chunks.iter(),
            after_cut: self.scan.records_after_cut.iter(),
            added: self.added.iter(),
            only_names: false,
            current: RecordChunk::default(),
        }
    }

    /// Like [`Self::entries`], but does not decode stack nodes, because there may be
    /// millions.
    pub fn outline(&self) -> Outline<'_, S> {
        Outline(self.entries())
    }

    /// Decodes the stack nodes that [`Self::outline`] skipped.
    pub fn stack_nodes(&self) -> StackNodes<'_, S> {
        StackNodes::new(&self.source)
    }

    /// Replaces the contents of `into` with the events of the chunk. Several threads
    /// may call it at the same time. After an error `into` is empty.
    pub fn read_events(&self, at: &EventsRef, into: &mut Vec<Event>) -> Result<(), ReadError> {
        into.clear();
        let mut workspace = self.workspaces().pop().unwrap_or_default();
        let read = self.decode_events(at, &mut workspace, into);
        self.workspaces().push(workspace);
        if read.is_err() {
            into.clear();
        }
        read
    }

    /// The names and decompressed bytes of an event chunk's columns, for
    /// `examples/measure.rs`.
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
        if counted != at.counted as usize {
            let malformed = Malformed("the summary counts more or fewer events than there are");
            return Err(malformed_at(at.offset, malformed));
        }
        if let Some((offset, header)) = &at.free_stacks {
            let payload = workspace.payload.load(&self.source, *offset, header)?;
            free_stacks::decode(payload, into)
                .map_err(|malformed| malformed_at(*offset, malformed))?;
        }
        Ok(())
    }

    fn workspaces(&self) -> MutexGuard<'_, Vec<Workspace>> {
        // The list is valid even if a thread panicked while it held the lock.
        self.workspaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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

/// Buffers and decoder state of one thread, reused from chunk to chunk.
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

/// Iterates over the entries of a trace; from [`TraceReader::entries`].
pub struct Entries<'a, S> {
    source: &'a S,
    /// Chunks of the readable part that follow the current one.
    chunks: std::slice::Iter<'a, Chunk>,
    /// Record chunks after the cut; used when `chunks` is empty.
    after_cut: std::slice::Iter<'a, Chunk>,
    /// Records that follow those of the file.
    added: std::slice::Iter<'a, Record>,
    /// The current chunk lies after the cut.
    only_names: bool,
    current: RecordChunk,
}

impl<S: Source> Iterator for Entries<'_, S> {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(None)
    }
}

/// Iterates over the entries of a trace without decoding stack nodes; from
/// [`TraceReader::outline`].
pub struct Outline<'a, S>(Entries<'a, S>);

impl<S: Source> Iterator for Outline<'_, S> {
    type Item = Result<OutlineEntry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance(Some(OutlineEntry::Stacks))
    }
}

impl<S: Source> Entries<'_, S> {
    /// The next entry; nothing after an error. With `stacks`, records of stack nodes
    /// are not decoded, and the function converts their positions to entries.
    fn advance<T: From<Entry>>(
        &mut self,
        stacks: Option<fn(StacksRef) -> T>,
    ) -> Option<Result<T, ReadError>> {
        let next = self.try_advance(stacks).transpose();
        if matches!(next, Some(Err(_))) {
            (self.chunks, self.after_cut) = ([].iter(), [].iter());
            self.added = [].iter();
            self.current = RecordChunk::default();
        }
        next
    }

    fn try_advance<T: From<Entry>>(
        &mut self,
        stacks: Option<fn(StacksRef) -> T>,
    ) -> Result<Option<T>, ReadError> {
        loop {
            if let Some(stacks) = stacks
                && let Some(skipped) = self.current.skip_stacks()?
            {
                if self.only_names {
                    continue;
                }
                return Ok(Some(stacks(skipped)));
            }
            match self.current.next()? {
                Some(Some(record)) if !self.only_names || is_name(&record) => {
                    return Ok(Some(Entry::Record(record).into()));
                }
                Some(_) => continue,
                None => {}
            }
            let next = self.chunks.next().or_else(|| {
                self.only_names = true;
                self.after_cut.next()
            });
            match next {
                None => {
                    let added = self.added.next().cloned();
                    return Ok(added.map(|record| Entry::Record(record).into()));
                }
                Some(Chunk::Events(events)) => return Ok(Some(Entry::Events(*events).into())),
                Some(Chunk::Records { offset, header }) => {
                    self.current.open(self.source, *offset, *header)?;
                }
            }
        }
    }
}

/// Whether a record contributes to the names of functions, modules and threads.
fn is_name(record: &Record) -> bool {
    matches!(
        record,
        Record::Module(_)
            | Record::Mapping(_)
            | Record::Symbols(_)
            | Record::JitSymbols(_)
            | Record::ThreadName(_)
    )
}

/// The record chunk that [`Entries`] currently decodes.
#[derive(Default)]
struct RecordChunk {
    /// Offset in the file, and header.
    chunk: Option<(u64, Header)>,
    buffer: PayloadBuffer,
    /// Offset of the next record in the payload.
    at: usize,
    /// Number of records not decoded yet.
    left: u32,
}

impl RecordChunk {
    /// Replaces the chunk.
    fn open<S: Source>(
        &mut self,
        source: &S,
        offset: u64,
        header: Header,
    ) -> Result<(), ReadError> {
        self.buffer.load(source, offset, &header)?;
        (self.chunk, self.at, self.left) = (Some((offset, header)), 0, header.items);
        Ok(())
    }

    fn offset(&self) -> u64 {
        self.chunk.map_or(0, |(offset, _)| offset)
    }

    fn payload(&self) -> &[u8] {
        match &self.chunk {
            Some((_, header)) => self.buffer.payload(header),
            None => &[],
        }
    }

    /// Decodes the next record; `Some(None)` if its tag is unknown, `None` at the
    /// end of the chunk.
    fn next(&mut self) -> Result<Option<Option<Record>>, ReadError> {
        let payload = self.payload();
        if self.left > 0 {
            let mut cursor = Cursor::new(&payload[self.at..]);
            let record = records::decode(&mut cursor)
                .map_err(|malformed| malformed_at(self.offset(), malformed))?;
            self.at = payload.len() - cursor.left();
            self.left -= 1;
            return Ok(Some(record));
        }
        if self.at == payload.len() {
            return Ok(None);
        }
        let malformed = Malformed("a record chunk has bytes after its last record");
        Err(malformed_at(self.offset(), malformed))
    }

    /// Skips the next record if it holds stack nodes, and returns its position.
    fn skip_stacks(&mut self) -> Result<Option<StacksRef>, ReadError> {
        let Some((offset, header)) = self.chunk.filter(|_| self.left > 0) else {
            return Ok(None);
        };
        let payload = self.payload();
        let mut cursor = Cursor::new(&payload[self.at..]);
        let skipped = records::skip_stacks(&mut cursor);
        let Some(head) = skipped.map_err(|malformed| malformed_at(offset, malformed))? else {
            return Ok(None);
        };
        let after = payload.len() - cursor.left();
        let at = std::mem::replace(&mut self.at, after);
        self.left -= 1;
        Ok(Some(StacksRef {
            image: head.image,
            nodes: head.nodes,
            offset,
            header,
            at,
        }))
    }
}
