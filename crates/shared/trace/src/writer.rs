//! Writes a trace: groups records into chunks, compresses them, and writes each
//! chunk with one call to the sink. [`crate::records`] and [`crate::events`] encode
//! the payloads.

use std::io::{self, Write};

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, compress_bound};

use crate::chunk::{self, CHUNK_HEADER, Coding, Contents, Header, MAX_EVENTS, MAX_RECORDS, kind};
use crate::error::WriteError;
use crate::events::{COLUMNS, Encoder};
use crate::free_stacks;
use crate::model::{Event, Events, ImageId, Record, StreamId};
use crate::records;
use crate::totals::Totals;

/// Compression level of zstd. On column-encoded events, level 3 saves another 1 % of
/// the bytes and takes 13 % more time (`examples/measure.rs`).
const LEVEL: i32 = 1;
/// Shortest match that zstd searches for in event chunks (`ZSTD_c_minMatch`). The
/// level's default of 5 or 6 gives 0.3 % more bytes and takes 7 % more time: in the
/// columns a shorter match costs more than its literals.
const MIN_MATCH: u32 = 7;
/// `ZSTD_c_minMatch` value for the default of the level.
const DEFAULT_MIN_MATCH: u32 = 0;
/// The writer writes a record chunk when its payload reaches this many bytes.
const RECORDS_BYTES: usize = 64 << 10;
/// Smaller payloads stay uncompressed: decompression would cost more than the bytes.
const MIN_COMPRESSED: usize = 128;
/// A column of at least this many bytes gets a zstd frame of its own, with its own
/// Huffman table.
const MIN_FRAME: usize = 1 << 10;

/// How chunks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Chunks are compressed with zstd at a fast level.
    #[default]
    Fast,
    /// Chunks are not compressed: for a collector that cannot keep up with the program.
    None,
}

/// Writes the records of a trace to a sink.
///
/// Dropping the writer loses the records that were not [flushed](Self::flush).
/// Without [`Self::finish`] a reader reports the trace as incomplete. After an error
/// of the sink the writer writes nothing more: readers would not get past the
/// incomplete chunk.
pub struct TraceWriter<W: Write> {
    sink: W,
    /// Number of bytes written.
    offset: u64,
    /// The sink returned an error.
    failed: bool,
    compression: Compression,
    encoder: Encoder,
    /// The encoder of the stacks of deallocations, in a recording that has them.
    free_stacks: Option<free_stacks::Encoder>,
    records: Pending,
    /// The payload of the current chunk before compression.
    payload: Vec<u8>,
    chunk: ChunkBuffer,
    totals: Totals,
}

/// The encoded records of the next record chunk.
#[derive(Default)]
struct Pending {
    payload: Vec<u8>,
    count: u32,
    /// Scratch space of [`records::encode`].
    body: Vec<u8>,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the file header. The sink needs no buffer: it gets each chunk with one
    /// call.
    pub fn new(sink: W) -> Result<Self, WriteError> {
        Self::with(sink, Contents::Recording)
    }

    /// Writes the file header of a sampled profile, which has no events, but [`Record::Sampling`],
    /// [`Record::Samples`] and [`Record::SampleTotals`].
    pub fn sampled(sink: W) -> Result<Self, WriteError> {
        Self::with(sink, Contents::Samples)
    }

    fn with(sink: W, contents: Contents) -> Result<Self, WriteError> {
        let mut writer = Self {
            sink,
            offset: 0,
            failed: false,
            compression: Compression::Fast,
            encoder: Encoder::default(),
            free_stacks: None,
            records: Pending::default(),
            payload: Vec::new(),
            chunk: ChunkBuffer::new()
                .map_err(|source| WriteError::Compress { offset: 0, source })?,
            totals: Totals::default(),
        };
        writer.write_to_sink(&chunk::file_header(contents))?;
        Ok(writer)
    }

    /// Writes a record. Events, and all records before them, reach the sink at once.
    /// Other records may stay in memory until [`Self::flush`].
    ///
    /// Fields of an event that its kind does not use are lost; so are the stacks of
    /// deallocations unless a [`Record::Recording`] with them was written before. Large
    /// [`Record::Stacks`] and [`Record::Symbols`] become several records.
    pub fn write(&mut self, record: &Record) -> Result<(), WriteError> {
        if let Record::Events(Events {
            image,
            stream,
            first_ordinal,
            events,
        }) = record
        {
            self.write_events(*image, *stream, *first_ordinal, events)?;
            return Ok(());
        }
        if let Record::Recording(recording) = record {
            let wanted = recording.free_stacks;
            self.free_stacks = wanted.then(free_stacks::Encoder::default);
        }
        if let Some(inconsistency) = records::inconsistency(record) {
            return Err(WriteError::Inconsistent(inconsistency));
        }
        for part in records::split(record) {
            self.add_record(&part)?;
        }
        Ok(())
    }

    /// Writes consecutive events of a stream, like [`Self::write`] with
    /// [`Record::Events`], in chunks of at most 65,535 events. `first_ordinal` is the
    /// number of counted events of the stream before these. Returns the number of
    /// counted events.
    pub fn write_events(
        &mut self,
        image: ImageId,
        stream: StreamId,
        first_ordinal: u64,
        events: &[Event],
    ) -> Result<u64, WriteError> {
        self.write_records()?;
        let mut ordinal = first_ordinal;
        let mut rest = events;
        loop {
            let (chunk, more) = rest.split_at(rest.len().min(MAX_EVENTS as usize));
            let counted = self.write_event_chunk(image, stream, ordinal, chunk)?;
            ordinal = ordinal.wrapping_add(counted);
            rest = more;
            if rest.is_empty() {
                return Ok(ordinal.wrapping_sub(first_ordinal));
            }
        }
    }

    /// Sets the compression of the following chunks.
    pub fn set_compression(&mut self, compression: Compression) {
        self.compression = compression;
    }

    /// Writes all pending records to the sink, and flushes the sink.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.write_records()?;
        self.sink.flush().map_err(|source| self.fail(source))
    }

    /// Number of bytes written to the sink.
    pub fn bytes_written(&self) -> u64 {
        self.offset
    }

    /// Writes the closing chunk, which marks the trace as complete.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.write_records()?;
        self.payload.clear();
        self.payload.extend(self.totals.to_bytes());
        self.write_chunk(Coding::Raw, kind::END, &[], 0, &[])?;
        self.flush()?;
        Ok(self.sink)
    }

    /// Flushes and returns the sink without the closing chunk. Readers report the
    /// trace as incomplete.
    pub fn into_unfinished(mut self) -> Result<W, WriteError> {
        self.flush()?;
        Ok(self.sink)
    }

    /// Adds a record to the pending chunk, and writes chunks that are full.
    fn add_record(&mut self, record: &Record) -> Result<(), WriteError> {
        let before = self.records.payload.len();
        records::encode(record, &mut self.records.body, &mut self.records.payload);
        let length = self.records.payload.len() - before;
        if length > MAX_RECORDS as usize {
            self.records.payload.truncate(before);
            return Err(WriteError::TooLarge {
                bytes: length as u64,
                limit: MAX_RECORDS.into(),
            });
        }
        if self.records.payload.len() > MAX_RECORDS as usize {
            // Too large together with the pending records: write those first.
            self.records.payload.truncate(before);
            self.write_records()?;
            records::encode(record, &mut self.records.body, &mut self.records.payload);
        }
        self.records.count += 1;
        if self.records.payload.len() >= RECORDS_BYTES {
            self.write_records()?;
        }
        Ok(())
    }

    /// Writes the pending records, if any, as a chunk.
    fn write_records(&mut self) -> Result<(), WriteError> {
        if self.records.count == 0 {
            return Ok(());
        }
        let count = std::mem::take(&mut self.records.count);
        std::mem::swap(&mut self.payload, &mut self.records.payload);
        self.records.payload.clear();
        self.totals.add_records(count);
        self.write_chunk(self.coding(), kind::RECORDS, &[], count, &[])
    }

    /// Writes at most [`MAX_EVENTS`] events as a chunk. Returns the number of counted
    /// events.
    fn write_event_chunk(
        &mut self,
        image: ImageId,
        stream: StreamId,
        first_ordinal: u64,
        events: &[Event],
    ) -> Result<u64, WriteError> {
        self.write_free_stacks(events)?;
        self.payload.clear();
        let sums = self.encoder.encode(events, &mut self.payload);
        // Columns have different byte statistics. So a long column begins a zstd
        // frame of its own; short ones share a frame, because frames have overhead.
        let mut frames = Vec::with_capacity(COLUMNS);
        for column in self.encoder.columns() {
            if column.len() >= MIN_FRAME {
                frames.push(self.payload.len());
            }
            self.payload.extend_from_slice(column);
        }
        let counted = u64::from(sums.counted());
        self.totals.add_events(events.len() as u64, counted);
        let summary = sums.to_summary(image, stream, first_ordinal);
        let count = events.len() as u32;
        self.write_chunk(self.coding(), kind::EVENTS, &summary, count, &frames)?;
        Ok(counted)
    }

    /// Writes the stacks of the deallocations among the events of the next chunk, if the
    /// recording has them.
    fn write_free_stacks(&mut self, events: &[Event]) -> Result<(), WriteError> {
        let Some(encoder) = &mut self.free_stacks else {
            return Ok(());
        };
        self.payload.clear();
        match encoder.encode(events, &mut self.payload) {
            0 => Ok(()),
            count => self.write_chunk(self.coding(), kind::FREE_STACKS, &[], count, &[]),
        }
    }

    fn coding(&self) -> Coding {
        match self.compression {
            Compression::Fast => Coding::Zstd,
            Compression::None => Coding::Raw,
        }
    }

    /// Writes `self.payload` as a chunk. If it gets compressed, a new zstd frame
    /// begins at each of the offsets `frames`, which ascend.
    fn write_chunk(
        &mut self,
        coding: Coding,
        kind: u16,
        summary: &[u8],
        items: u32,
        frames: &[usize],
    ) -> Result<(), WriteError> {
        if self.failed {
            return Err(WriteError::Broken {
                offset: self.offset,
            });
        }
        let offset = self.offset;
        let compress = |source| WriteError::Compress { offset, source };
        let length = self
            .chunk
            .fill(coding, kind, summary, items, &self.payload, frames)
            .map_err(compress)?;
        if kind != kind::END {
            self.totals.add_chunk();
        }
        let chunk = std::mem::take(&mut self.chunk.bytes);
        let written = self.write_to_sink(&chunk[..length]);
        self.chunk.bytes = chunk;
        written
    }

    fn write_to_sink(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.sink
            .write_all(bytes)
            .map_err(|source| self.fail(source))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    #[cold]
    fn fail(&mut self, source: io::Error) -> WriteError {
        self.failed = true;
        WriteError::Io {
            offset: self.offset,
            source,
        }
    }
}

impl<W: Write> std::fmt::Debug for TraceWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter")
            .field("bytes_written", &self.offset)
            .field("failed", &self.failed)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

/// Compresses a chunk and assembles its bytes, so that the sink gets them with one
/// call.
struct ChunkBuffer {
    compressor: Compressor<'static>,
    /// The chunk; as long as the largest chunk so far.
    bytes: Vec<u8>,
}

impl ChunkBuffer {
    fn new() -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        // The chunk header has the checksum and the length.
        compressor.include_checksum(false)?;
        compressor.include_contentsize(false)?;
        compressor.include_dictid(false)?;
        Ok(Self {
            compressor,
            bytes: Vec::new(),
        })
    }

    /// Assembles a chunk at the beginning of `bytes` and returns its length.
    fn fill(
        &mut self,
        coding: Coding,
        kind: u16,
        summary: &[u8],
        items: u32,
        payload: &[u8],
        frames: &[usize],
    ) -> io::Result<usize> {
        let min_match = if kind == kind::EVENTS {
            MIN_MATCH
        } else {
            DEFAULT_MIN_MATCH
        };
        self.compressor
            .set_parameter(CParameter::MinMatch(min_match))?;
        let start = CHUNK_HEADER + summary.len();
        let (coding, stored) = self.store(coding, payload, start, frames)?;
        let end = start + stored;
        let header = Header {
            kind,
            coding: coding.number(),
            summary_length: summary.len() as u16,
            stored: stored as u32,
            decoded: payload.len() as u32,
            items,
            payload_crc: crc32fast::hash(&self.bytes[start..end]),
        };
        self.bytes[..CHUNK_HEADER].copy_from_slice(&header.to_bytes(summary));
        self.bytes[CHUNK_HEADER..start].copy_from_slice(summary);
        Ok(end)
    }

    /// Stores the payload at `start`: compressed if `coding` requests it and it saves
    /// bytes. Returns the coding and the number of bytes.
    fn store(
        &mut self,
        coding: Coding,
        payload: &[u8],
        start: usize,
        frames: &[usize],
    ) -> io::Result<(Coding, usize)> {
        if coding == Coding::Zstd && payload.len() >= MIN_COMPRESSED {
            let stored = self.compress(payload, start, frames)?;
            if stored < payload.len() {
                return Ok((Coding::Zstd, stored));
            }
        }
        self.grow_to(start + payload.len());
        self.bytes[start..start + payload.len()].copy_from_slice(payload);
        Ok((Coding::Raw, payload.len()))
    }

    fn compress(&mut self, payload: &[u8], start: usize, frames: &[usize]) -> io::Result<usize> {
        let mut at = start;
        let mut from = 0;
        for &end in frames.iter().chain([&payload.len()]) {
            let frame = &payload[from..end];
            self.grow_to(at + compress_bound(frame.len()));
            at += self
                .compressor
                .compress_to_buffer(frame, &mut self.bytes[at..])?;
            from = end;
        }
        Ok(at - start)
    }

    fn grow_to(&mut self, length: usize) {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
    }
}
