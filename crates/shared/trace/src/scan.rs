//! Finds the chunks of a trace and the end of its readable part. Reads the chunk
//! headers with their summaries, and of the payloads only that of the closing chunk.

use std::io;

use crate::chunk::{
    self, CHUNK_HEADER, Coding, Contents, FILE_HEADER, Header, MAX_EVENTS, MAX_RECORDS, kind,
};
use crate::error::{Cut, CutReason, ReadError};
use crate::source::Source;
use crate::summary::{EventsRef, SUMMARY};
use crate::totals::{TOTALS, Totals};

/// A chunk of a known kind, except the closing chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chunk {
    Records { offset: u64, header: Header },
    Events(EventsRef),
}

impl Chunk {
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Records { offset, .. } => *offset,
            Self::Events(events) => events.offset,
        }
    }

    pub(crate) fn header(&self) -> &Header {
        match self {
            Self::Records { header, .. } => header,
            Self::Events(events) => &events.header,
        }
    }
}

/// The result of [`scan`].
#[derive(Debug)]
pub(crate) struct Scan {
    /// The chunks of the readable part, in file order.
    pub chunks: Vec<Chunk>,
    /// Record chunks after the readable part. Readers use only the names in them.
    /// Set by [`TraceReader::cut_at_damage`](crate::TraceReader::cut_at_damage).
    pub records_after_cut: Vec<Chunk>,
    /// Length of the file, in bytes.
    pub length: u64,
    /// Number of counted events in the whole chunks after the readable part. Set by
    /// [`TraceReader::cut_at_damage`](crate::TraceReader::cut_at_damage).
    pub counted_after_cut: Option<u64>,
    /// Length of the readable part, in bytes.
    pub end: u64,
    /// Why the readable part ends there, unless the trace is complete.
    pub cut: Option<Cut>,
}

/// Bytes per read: a chunk header and the summary of an event chunk.
const READ: usize = CHUNK_HEADER + SUMMARY;

/// Why the scan ends.
enum Stop {
    Cut(CutReason),
    Failed(io::Error),
}

impl From<CutReason> for Stop {
    fn from(reason: CutReason) -> Self {
        Self::Cut(reason)
    }
}

struct Walk<'a, S> {
    source: &'a S,
    length: u64,
    offset: u64,
    chunks: Vec<Chunk>,
    /// The chunk before this one, if it is one of free stacks.
    free_stacks: Option<(u64, Header)>,
    totals: Totals,
    summary: Vec<u8>,
}

/// Scans the whole file.
pub(crate) fn scan<S: Source>(source: &S, wanted: Contents) -> Result<Scan, ReadError> {
    let failed = |source| ReadError::Io { offset: 0, source };
    let length = source.length().map_err(failed)?;
    let mut start = [0; FILE_HEADER];
    let start = &mut start[..length.min(FILE_HEADER as u64) as usize];
    source.read_exact_at(start, 0).map_err(failed)?;
    chunk::check_file_header(start, wanted)?;
    let mut walk = Walk {
        source,
        length,
        offset: FILE_HEADER as u64,
        chunks: Vec::new(),
        free_stacks: None,
        totals: Totals::default(),
        summary: Vec::new(),
    };
    let reason = walk.run()?;
    let cut = reason.map(|reason| Cut {
        offset: walk.offset,
        reason,
    });
    match cut {
        Some(cut) if walk.offset == FILE_HEADER as u64 => Err(ReadError::Nothing(cut)),
        _ => Ok(Scan {
            chunks: walk.chunks,
            records_after_cut: Vec::new(),
            length,
            counted_after_cut: None,
            end: walk.offset,
            cut,
        }),
    }
}

impl<S: Source> Walk<'_, S> {
    /// Scans to the end of the readable part. Returns why the trace is incomplete,
    /// or `None` if it is complete.
    fn run(&mut self) -> Result<Option<CutReason>, ReadError> {
        loop {
            if self.offset == self.length {
                return Ok(Some(CutReason::NotClosed));
            }
            let closed = match self.step() {
                Ok(closed) => closed,
                Err(Stop::Cut(reason)) => return Ok(Some(reason)),
                Err(Stop::Failed(source)) => {
                    return Err(ReadError::Io {
                        offset: self.offset,
                        source,
                    });
                }
            };
            if closed {
                let trails = self.offset != self.length;
                return Ok(trails.then_some(CutReason::TrailingBytes));
            }
        }
    }

    /// Scans one chunk. Returns whether it was the closing one.
    fn step(&mut self) -> Result<bool, Stop> {
        let header = self.header()?;
        let free_stacks = self.free_stacks.take();
        match header.kind {
            kind::RECORDS => {
                header.coding()?;
                if header.decoded > MAX_RECORDS {
                    return Err(CutReason::TooLarge.into());
                }
                self.totals.add_records(header.items);
                self.chunks.push(Chunk::Records {
                    offset: self.offset,
                    header,
                });
            }
            kind::EVENTS => self.events(header, free_stacks)?,
            kind::FREE_STACKS => {
                header.coding()?;
                if header.items > MAX_EVENTS {
                    return Err(CutReason::TooLarge.into());
                }
                self.free_stacks = Some((self.offset, header));
            }
            kind::END => {
                self.end(header)?;
                self.offset += header.length();
                return Ok(true);
            }
            // A chunk of a later minor version. Readers may skip it.
            _ => {}
        }
        self.totals.add_chunk();
        self.offset += header.length();
        Ok(false)
    }

    /// Reads and checks the chunk header at `offset`, and stores its summary in
    /// `self.summary`.
    fn header(&mut self) -> Result<Header, Stop> {
        let left = self.length - self.offset;
        if left < CHUNK_HEADER as u64 {
            return Err(CutReason::Truncated.into());
        }
        let mut read = [0; READ];
        let read = &mut read[..left.min(READ as u64) as usize];
        self.source
            .read_exact_at(read, self.offset)
            .map_err(Stop::Failed)?;
        let (bytes, rest) = read.split_at(CHUNK_HEADER);
        let mut header_bytes = [0; CHUNK_HEADER];
        header_bytes.copy_from_slice(bytes);
        let length = usize::from(Header::from_bytes(&header_bytes).summary_length);
        self.summary.clear();
        match rest.get(..length) {
            Some(summary) => self.summary.extend_from_slice(summary),
            None => self.long_summary(length, left)?,
        }
        let header = Header::check(&header_bytes, &self.summary)?;
        if header.length() > left {
            return Err(CutReason::Truncated.into());
        }
        Ok(header)
    }

    /// Reads a summary that is longer than those of event chunks.
    #[cold]
    fn long_summary(&mut self, length: usize, left: u64) -> Result<(), Stop> {
        if (CHUNK_HEADER + length) as u64 > left {
            return Err(CutReason::Truncated.into());
        }
        self.summary.resize(length, 0);
        let offset = self.offset + CHUNK_HEADER as u64;
        self.source
            .read_exact_at(&mut self.summary, offset)
            .map_err(Stop::Failed)
    }

    fn events(&mut self, header: Header, free_stacks: Option<(u64, Header)>) -> Result<(), Stop> {
        header.coding()?;
        if header.items > MAX_EVENTS {
            return Err(CutReason::TooLarge.into());
        }
        let mut events = EventsRef::from_chunk(self.offset, header, &self.summary)
            .map_err(|malformed| CutReason::Malformed(malformed.0))?;
        events.free_stacks = free_stacks;
        self.totals
            .add_events(events.events.into(), events.counted.into());
        self.chunks.push(Chunk::Events(events));
        Ok(())
    }

    fn end(&self, header: Header) -> Result<(), Stop> {
        if header.coding()? != Coding::Raw || (header.stored as usize) < TOTALS {
            return Err(CutReason::Malformed("the closing chunk has no totals").into());
        }
        let mut payload = vec![0; header.stored as usize];
        let offset = self.offset + header.payload_offset();
        self.source
            .read_exact_at(&mut payload, offset)
            .map_err(Stop::Failed)?;
        if crc32fast::hash(&payload) != header.payload_crc {
            return Err(CutReason::PayloadChecksum.into());
        }
        let totals =
            Totals::from_bytes(&payload).map_err(|malformed| CutReason::Malformed(malformed.0))?;
        if totals != self.totals {
            return Err(CutReason::Totals.into());
        }
        Ok(())
    }
}
