//! Writing a trace: records in, chunks out, each in one call to the sink. How
//! records and events are coded is for [`crate::records`] and
//! [`crate::events`] to say.

use std::io::{self, Write};

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, compress_bound};

use crate::chunk::{self, CHUNK_HEADER, Coding, Header, MAX_EVENTS, MAX_RECORDS, kind};
use crate::error::WriteError;
use crate::events::Encoder;
use crate::model::{Event, Events, ImageId, Record, StreamId};
use crate::records;
use crate::summary::Summary;
use crate::totals::Totals;

/// Behind the columns, level 3 saves 1 % more bytes for 13 % more time
/// (`examples/measure.rs`).
const LEVEL: i32 = 1;
/// Shortest repetition that zstd looks for in the columns of events. Shorter
/// ones cost more than their bytes one by one: with the level's own 5 or 6 it is
/// 0.3 % more bytes, and 7 % more of the time that compression takes.
const SHORTEST_MATCH: u32 = 7;
/// Record chunks are written when they have grown to this many bytes.
const RECORDS_BYTES: usize = 64 << 10;
/// Below this, compression saves less than it costs to undo.
const WORTH_COMPRESSING: usize = 128;
/// A column of at least this many bytes gets a zstd frame, and so statistics,
/// of its own.
const OWN_FRAME: usize = 1 << 10;

/// Has zstd choose a parameter by the level and the length.
const LEVELS_OWN: u32 = 0;

/// How hard chunks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Column-coded, then zstd at a fast level.
    #[default]
    Fast,
    /// Column-coded only: for when the collector is under pressure.
    None,
}

/// Writes the records of a trace to a sink.
///
/// What has not been [flushed](Self::flush) is lost when the writer is dropped;
/// without [`Self::finish`] the file counts as cut. After an error of the sink
/// nothing more is written: readers would not get past the broken chunk.
pub struct TraceWriter<W: Write> {
    sink: W,
    offset: u64,
    broken: bool,
    compression: Compression,
    encoder: Encoder,
    records: Pending,
    /// A payload before compression.
    payload: Vec<u8>,
    chunk: ChunkBuffer,
    totals: Totals,
}

/// Records that wait for their chunk.
#[derive(Default)]
struct Pending {
    payload: Vec<u8>,
    count: u32,
    body: Vec<u8>,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the file header. The sink need not buffer: each chunk is given
    /// to it in one call.
    pub fn new(sink: W) -> Result<Self, WriteError> {
        let mut writer = Self {
            sink,
            offset: 0,
            broken: false,
            compression: Compression::Fast,
            encoder: Encoder::default(),
            records: Pending::default(),
            payload: Vec::new(),
            chunk: ChunkBuffer::new()
                .map_err(|source| WriteError::Compress { offset: 0, source })?,
            totals: Totals::default(),
        };
        writer.give(&chunk::file_header())?;
        Ok(writer)
    }

    /// Writes a record. Events reach the sink at once, behind everything that
    /// was written before them; other records may wait for [`Self::flush`].
    ///
    /// Fields of an event that its kind does not name are not kept. Large
    /// [`Record::Stacks`] and [`Record::Symbols`] may become several records.
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
        if let Some(contradiction) = records::contradiction(record) {
            return Err(WriteError::Contradiction(contradiction));
        }
        for part in records::split(record) {
            self.write_small(&part)?;
        }
        Ok(())
    }

    /// As [`Self::write`] of a [`Record::Events`]. They make one chunk, or
    /// several if there are more than 65,535. Gives the number of counted ones.
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
            let (run, behind) = rest.split_at(rest.len().min(MAX_EVENTS as usize));
            ordinal = ordinal.wrapping_add(self.write_run(image, stream, ordinal, run)?);
            rest = behind;
            if rest.is_empty() {
                return Ok(ordinal.wrapping_sub(first_ordinal));
            }
        }
    }

    /// Chooses the compression of the chunks that follow.
    pub fn set_compression(&mut self, compression: Compression) {
        self.compression = compression;
    }

    /// Gives everything written so far to the sink, and flushes the sink.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.write_records()?;
        self.sink.flush().map_err(|source| self.broke(source))
    }

    /// Bytes given to the sink so far.
    pub fn bytes_written(&self) -> u64 {
        self.offset
    }

    /// Writes the closing chunk, which says that the trace is complete.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.write_records()?;
        self.payload.clear();
        self.payload.extend(self.totals.to_bytes());
        self.write_chunk(Coding::Raw, kind::END, &[], 0, &[])?;
        self.flush()?;
        Ok(self.sink)
    }

    /// Gives the sink back without closing the trace, which counts as cut.
    pub fn into_unfinished(mut self) -> Result<W, WriteError> {
        self.flush()?;
        Ok(self.sink)
    }

    fn write_small(&mut self, record: &Record) -> Result<(), WriteError> {
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
            // Too much together with what waits: that goes first.
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

    /// Writes the records that wait, if any.
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

    /// Writes a chunk of events; gives the number of counted ones.
    fn write_run(
        &mut self,
        image: ImageId,
        stream: StreamId,
        first_ordinal: u64,
        events: &[Event],
    ) -> Result<u64, WriteError> {
        self.payload.clear();
        let sums = self.encoder.encode(events, &mut self.payload);
        // Columns differ in what bytes they hold: a long one is compressed on
        // its own, short ones share what a zstd frame costs.
        let mut cuts = [0; crate::events::COLUMNS];
        for (cut, column) in cuts.iter_mut().zip(self.encoder.columns()) {
            *cut = if column.len() >= OWN_FRAME {
                self.payload.len()
            } else {
                0
            };
            self.payload.extend_from_slice(column);
        }
        let counted = u64::from(sums.counted());
        self.totals.add_events(events.len() as u64, counted);
        let summary = Summary::new(image, stream, first_ordinal, &sums).to_bytes();
        let count = events.len() as u32;
        self.write_chunk(self.coding(), kind::EVENTS, &summary, count, &cuts)?;
        Ok(counted)
    }

    fn coding(&self) -> Coding {
        match self.compression {
            Compression::Fast => Coding::Zstd,
            Compression::None => Coding::Raw,
        }
    }

    /// Writes `self.payload` as a chunk; compressed, if at all, in frames that
    /// begin at `cuts`.
    fn write_chunk(
        &mut self,
        coding: Coding,
        kind: u16,
        summary: &[u8],
        items: u32,
        cuts: &[usize],
    ) -> Result<(), WriteError> {
        if self.broken {
            return Err(WriteError::Broken {
                offset: self.offset,
            });
        }
        let offset = self.offset;
        let compress = |source| WriteError::Compress { offset, source };
        let length = self
            .chunk
            .fill(coding, kind, summary, items, &self.payload, cuts)
            .map_err(compress)?;
        if kind != kind::END {
            self.totals.add_chunk();
        }
        let chunk = std::mem::take(&mut self.chunk.bytes);
        let given = self.give(&chunk[..length]);
        self.chunk.bytes = chunk;
        given
    }

    fn give(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.sink
            .write_all(bytes)
            .map_err(|source| self.broke(source))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    #[cold]
    fn broke(&mut self, source: io::Error) -> WriteError {
        self.broken = true;
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
            .field("broken", &self.broken)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

/// Where a chunk is put together, so that the sink gets it in one piece.
struct ChunkBuffer {
    compressor: Compressor<'static>,
    /// Long enough for the largest chunk so far.
    bytes: Vec<u8>,
}

impl ChunkBuffer {
    fn new() -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        // Chunks have a checksum and a length of their own.
        compressor.include_checksum(false)?;
        compressor.include_contentsize(false)?;
        compressor.include_dictid(false)?;
        Ok(Self {
            compressor,
            bytes: Vec::new(),
        })
    }

    /// Puts the chunk at the beginning of `bytes`; gives its length.
    fn fill(
        &mut self,
        coding: Coding,
        kind: u16,
        summary: &[u8],
        items: u32,
        payload: &[u8],
        cuts: &[usize],
    ) -> io::Result<usize> {
        let shortest = if kind == kind::EVENTS {
            SHORTEST_MATCH
        } else {
            LEVELS_OWN
        };
        self.compressor
            .set_parameter(CParameter::MinMatch(shortest))?;
        let start = CHUNK_HEADER + summary.len();
        let (coding, stored) = self.store(coding, payload, start, cuts)?;
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

    /// Puts the payload at `start`, compressed if that is asked for and pays.
    fn store(
        &mut self,
        coding: Coding,
        payload: &[u8],
        start: usize,
        cuts: &[usize],
    ) -> io::Result<(Coding, usize)> {
        if coding == Coding::Zstd && payload.len() >= WORTH_COMPRESSING {
            let stored = self.compress(payload, start, cuts)?;
            if stored < payload.len() {
                return Ok((Coding::Zstd, stored));
            }
        }
        self.make_room(start + payload.len());
        self.bytes[start..start + payload.len()].copy_from_slice(payload);
        Ok((Coding::Raw, payload.len()))
    }

    fn compress(&mut self, payload: &[u8], start: usize, cuts: &[usize]) -> io::Result<usize> {
        let mut at = start;
        let mut from = 0;
        let ends = cuts
            .iter()
            .copied()
            .filter(|&cut| cut > 0)
            .chain([payload.len()]);
        for end in ends {
            let piece = &payload[from..end];
            self.make_room(at + compress_bound(piece.len()));
            at += self
                .compressor
                .compress_to_buffer(piece, &mut self.bytes[at..])?;
            from = end;
        }
        Ok(at - start)
    }

    fn make_room(&mut self, length: usize) {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
    }
}
