//! The walk over a trace's chunk headers: what chunks there are, and where the
//! readable part ends. Reads no payload but the closing chunk's few bytes.

use std::io;

use crate::chunk::{
    self, CHUNK_HEADER, Coding, FILE_HEADER, Header, MAX_EVENTS, MAX_RECORDS, kind,
};
use crate::error::{Cut, CutReason, ReadError};
use crate::source::Source;
use crate::summary::{EventsRef, SUMMARY};
use crate::totals::{TOTALS, Totals};

/// A chunk that holds something for the reader.
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

/// What the headers tell.
#[derive(Debug)]
pub(crate) struct Scan {
    pub chunks: Vec<Chunk>,
    /// Chunks of records behind damage, of which only names are used.
    pub behind: Vec<Chunk>,
    /// Length of the file.
    pub length: u64,
    /// Counted events in whole chunks behind the readable part, if it was shortened.
    pub events_behind: Option<u64>,
    /// Where the readable part ends.
    pub end: u64,
    /// Why it ends there, unless the trace is closed there.
    pub cut: Option<Cut>,
}

/// Bytes read at once: a chunk header and the summary of an event chunk.
const READ: usize = CHUNK_HEADER + SUMMARY;

/// What ends the walk.
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
    totals: Totals,
    summary: Vec<u8>,
}

/// Walks over the whole file.
pub(crate) fn scan<S: Source>(source: &S) -> Result<Scan, ReadError> {
    let failed = |source| ReadError::Io { offset: 0, source };
    let length = source.length().map_err(failed)?;
    let mut start = [0; FILE_HEADER];
    let start = &mut start[..length.min(FILE_HEADER as u64) as usize];
    source.read_exact_at(start, 0).map_err(failed)?;
    chunk::check_file_header(start)?;
    let mut walk = Walk {
        source,
        length,
        offset: FILE_HEADER as u64,
        chunks: Vec::new(),
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
            behind: Vec::new(),
            length,
            events_behind: None,
            end: walk.offset,
            cut,
        }),
    }
}

impl<S: Source> Walk<'_, S> {
    /// Goes on to the end of what can be read; says why it is not closed.
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

    /// Goes over one chunk; says whether it was the closing one.
    fn step(&mut self) -> Result<bool, Stop> {
        let header = self.header()?;
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
            kind::EVENTS => self.events(header)?,
            kind::END => {
                self.end(header)?;
                self.offset += header.length();
                return Ok(true);
            }
            // Of a later minor version; it says nothing that must be known.
            _ => {}
        }
        self.totals.add_chunk();
        self.offset += header.length();
        Ok(false)
    }

    /// Reads and checks the header at `offset` and leaves its summary in
    /// `summary`.
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

    fn events(&mut self, header: Header) -> Result<(), Stop> {
        header.coding()?;
        if header.items > MAX_EVENTS {
            return Err(CutReason::TooLarge.into());
        }
        let events = EventsRef::from_chunk(self.offset, header, &self.summary)
            .map_err(|malformed| CutReason::Malformed(malformed.0))?;
        self.totals
            .add_events(events.events.into(), events.counted.into());
        self.chunks.push(Chunk::Events(events));
        Ok(())
    }

    fn end(&self, header: Header) -> Result<(), Stop> {
        if header.coding()? != Coding::Raw || (header.stored as usize) < TOTALS {
            return Err(CutReason::Malformed("the closing chunk does not hold totals").into());
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
