//! The container format: file header, chunk header, and their limits.
//! [`crate::records`] and [`crate::events`] encode and decode the payloads.
//!
//! ```text
//! file  = file header (16 bytes), chunk*, closing chunk
//! chunk = chunk header (28 bytes), summary, payload
//! ```

use crate::error::{CutReason, ReadError};

/// The first bytes of a trace.
pub const MAGIC: [u8; 8] = *b"ALLOTROP";
/// Incremented when a reader of the old version would misread a new file.
pub(crate) const MAJOR: u16 = 2;
/// Incremented when the format gets an addition that old readers may skip.
pub(crate) const MINOR: u16 = 8;
/// The major version of a sampled profile. Programs that read only recordings refuse it.
pub(crate) const SAMPLED_MAJOR: u16 = 3;
/// The minor version of a sampled profile.
const SAMPLED_MINOR: u16 = 1;
/// Bytes of the file header: magic, major, minor, flags.
pub(crate) const FILE_HEADER: usize = 16;
/// Bytes of a chunk header without its summary.
pub(crate) const CHUNK_HEADER: usize = 28;
/// The header checksum covers this many bytes of the header, and the summary.
const CHECKED: usize = 24;

/// Largest payload in bytes, stored or decoded. Bounds the memory of a reader.
pub(crate) const MAX_PAYLOAD: u32 = 32 << 20;
/// Largest decoded payload of a record chunk in bytes. It is smaller because a
/// record takes up to thirty times its encoded length in memory.
pub(crate) const MAX_RECORDS: u32 = 8 << 20;
/// Largest number of events in a chunk. Shapes and blocks of a chunk have 16-bit
/// numbers, and the number 65,535 means "none". Bounds the decoded events of a
/// chunk to 1.5 MiB.
pub(crate) const MAX_EVENTS: u32 = (1 << 16) - 1;
/// Largest possible compression ratio of zstd: a block of at least 4 bytes expands
/// to at most 128 KiB (RFC 8878, section 3.1.1.2). A reader rejects a chunk whose
/// header claims more before it allocates memory.
const MAX_GROWTH: u64 = (128 << 10) / 4;

/// Chunk kinds. A reader skips chunks of an unknown kind.
pub(crate) mod kind {
    /// A sequence of records other than events.
    pub(crate) const RECORDS: u16 = 1;
    /// Consecutive events of one stream.
    pub(crate) const EVENTS: u16 = 2;
    /// The closing chunk, with totals.
    pub(crate) const END: u16 = 3;
    /// The stacks of the deallocations of the event chunk that follows it.
    pub(crate) const FREE_STACKS: u16 = 4;
}

/// How a payload is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Raw,
    Zstd,
}

/// What a file contains; each has a major version of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Every allocation.
    Recording,
    /// Samples of allocations.
    Samples,
}

impl Contents {
    const fn version(self) -> (u16, u16) {
        match self {
            Self::Recording => (MAJOR, MINOR),
            Self::Samples => (SAMPLED_MAJOR, SAMPLED_MINOR),
        }
    }
}

/// The file header of the current version.
pub(crate) fn file_header(contents: Contents) -> [u8; FILE_HEADER] {
    let (major, minor) = contents.version();
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&major.to_le_bytes());
    header[10..12].copy_from_slice(&minor.to_le_bytes());
    header
}

/// Whether a file that begins like this is a sampled profile. At least 10 bytes are needed.
pub fn is_sampled(start: &[u8]) -> bool {
    let rest = start.strip_prefix(&MAGIC);
    rest.is_some_and(|rest| rest.starts_with(&SAMPLED_MAJOR.to_le_bytes()))
}

/// Checks the file header. `start` is the beginning of the file, or the whole file
/// if it is shorter than the header. `wanted` is what the caller can read.
pub(crate) fn check_file_header(start: &[u8], wanted: Contents) -> Result<(), ReadError> {
    if start.is_empty() {
        return Err(ReadError::Empty);
    }
    let magic = start.len().min(MAGIC.len());
    if start[..magic] != MAGIC[..magic] {
        return Err(ReadError::Foreign);
    }
    if start.len() < FILE_HEADER {
        return Err(ReadError::ShortHeader {
            length: start.len() as u64,
            header: FILE_HEADER as u64,
        });
    }
    let found_major = u16::from_le_bytes([start[8], start[9]]);
    let found_minor = u16::from_le_bytes([start[10], start[11]]);
    match found_major {
        MAJOR if wanted == Contents::Recording => Ok(()),
        SAMPLED_MAJOR if wanted == Contents::Samples => Ok(()),
        MAJOR => Err(ReadError::NotSampled),
        SAMPLED_MAJOR => Err(ReadError::Sampled),
        0 => Err(ReadError::Foreign),
        1..MAJOR => Err(ReadError::OlderVersion {
            found_major,
            found_minor,
            known_major: MAJOR,
        }),
        _ => Err(ReadError::NewerVersion {
            found_major,
            found_minor,
            known_major: MAJOR,
        }),
    }
}

/// A chunk header, without the summary that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: u16,
    pub coding: u8,
    pub summary_length: u16,
    /// Bytes of the payload in the file.
    pub stored: u32,
    /// Bytes of the payload after decompression.
    pub decoded: u32,
    /// Number of events or records in the payload.
    pub items: u32,
    pub payload_crc: u32,
}

impl Header {
    /// The bytes of the header in the file, with the checksum over it and `summary`.
    pub(crate) fn to_bytes(self, summary: &[u8]) -> [u8; CHUNK_HEADER] {
        let mut bytes = [0; CHUNK_HEADER];
        bytes[0..2].copy_from_slice(&self.kind.to_le_bytes());
        bytes[2] = self.coding;
        bytes[4..6].copy_from_slice(&self.summary_length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.decoded.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.items.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = header_crc(&bytes, summary);
        bytes[24..28].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the fields without checks: [`Header::check`] needs the summary, too.
    pub(crate) fn from_bytes(bytes: &[u8; CHUNK_HEADER]) -> Self {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32_at(bytes, at);
        Self {
            kind: u16_at(0),
            coding: bytes[2],
            summary_length: u16_at(4),
            stored: u32_at(8),
            decoded: u32_at(12),
            items: u32_at(16),
            payload_crc: u32_at(20),
        }
    }

    /// Offset of the payload in the chunk, in bytes.
    pub(crate) fn payload_offset(&self) -> u64 {
        CHUNK_HEADER as u64 + u64::from(self.summary_length)
    }

    /// Bytes of the whole chunk.
    pub(crate) fn length(&self) -> u64 {
        self.payload_offset() + u64::from(self.stored)
    }

    /// Checks the checksum over header and summary, and the lengths.
    pub(crate) fn check(bytes: &[u8; CHUNK_HEADER], summary: &[u8]) -> Result<Self, CutReason> {
        if header_crc(bytes, summary) != u32_at(bytes, CHECKED) {
            return Err(CutReason::HeaderChecksum);
        }
        let header = Self::from_bytes(bytes);
        if header.stored > MAX_PAYLOAD || header.decoded > MAX_PAYLOAD {
            return Err(CutReason::TooLarge);
        }
        Ok(header)
    }

    /// The coding of the payload, for chunks of a known kind.
    pub(crate) fn coding(&self) -> Result<Coding, CutReason> {
        match self.coding {
            0 if self.stored == self.decoded => Ok(Coding::Raw),
            1 if u64::from(self.decoded) <= u64::from(self.stored) * MAX_GROWTH => Ok(Coding::Zstd),
            0 | 1 => Err(CutReason::Compression),
            _ => Err(CutReason::UnknownCoding),
        }
    }
}

impl Coding {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
        }
    }
}

fn u32_at(bytes: &[u8; CHUNK_HEADER], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn header_crc(bytes: &[u8; CHUNK_HEADER], summary: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..CHECKED]);
    crc.update(summary);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: kind::EVENTS,
            coding: Coding::Zstd.number(),
            summary_length: 3,
            stored: 40,
            decoded: 400,
            items: 7,
            payload_crc: 0x0102_0304,
        }
    }

    #[test]
    fn a_header_round_trips() {
        let bytes = header().to_bytes(b"sum");
        assert_eq!(Header::check(&bytes, b"sum"), Ok(header()));
        assert_eq!(header().length(), 28 + 3 + 40);
    }

    #[test]
    fn every_flipped_bit_of_header_or_summary_is_noticed() {
        let bytes = header().to_bytes(b"sum");
        for bit in 0..CHUNK_HEADER * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Header::check(&flipped, b"sum"),
                Err(CutReason::HeaderChecksum)
            );
        }
        assert_eq!(
            Header::check(&bytes, b"sun"),
            Err(CutReason::HeaderChecksum)
        );
    }

    #[test]
    fn sizes_above_the_limit_are_refused() {
        let stored = Header {
            stored: MAX_PAYLOAD + 1,
            ..header()
        }
        .to_bytes(b"");
        assert_eq!(Header::check(&stored, b""), Err(CutReason::TooLarge));
        let decoded = Header {
            decoded: MAX_PAYLOAD + 1,
            ..header()
        }
        .to_bytes(b"");
        assert_eq!(Header::check(&decoded, b""), Err(CutReason::TooLarge));
    }

    #[test]
    fn a_compression_ratio_beyond_zstd_is_refused() {
        let bomb = Header {
            stored: 1,
            decoded: 32_769,
            ..header()
        };
        assert_eq!(bomb.coding(), Err(CutReason::Compression));
        let most = Header {
            stored: 1,
            decoded: 32_768,
            ..header()
        };
        assert_eq!(most.coding(), Ok(Coding::Zstd));
    }

    #[test]
    fn foreign_empty_short_newer_and_older_files_have_errors_of_their_own() {
        let good = file_header(Contents::Recording);
        assert!(check_file_header(&good, Contents::Recording).is_ok());
        assert!(matches!(
            check_file_header(b"", Contents::Recording),
            Err(ReadError::Empty)
        ));
        assert!(matches!(
            check_file_header(b"\x7fELF", Contents::Recording),
            Err(ReadError::Foreign)
        ));
        for length in 1..FILE_HEADER {
            let short = check_file_header(&good[..length], Contents::Recording);
            assert!(
                matches!(short, Err(ReadError::ShortHeader { .. })),
                "{length}"
            );
        }
        let mut newer = good;
        newer[8..12].copy_from_slice(&[4, 0, 5, 0]);
        let sentence = check_file_header(&newer, Contents::Recording)
            .unwrap_err()
            .to_string();
        assert!(
            sentence.contains("version 4.5")
                && sentence.contains("reads version 2.x")
                && sentence.contains("a newer one"),
            "{sentence}"
        );
        let mut older = good;
        older[8..12].copy_from_slice(&[1, 0, 0, 0]);
        let sentence = check_file_header(&older, Contents::Recording)
            .unwrap_err()
            .to_string();
        assert!(
            sentence.contains("version 1.0")
                && sentence.contains("reads version 2.x")
                && !sentence.contains("newer"),
            "{sentence}"
        );
        let mut newer_minor = good;
        newer_minor[10] = 9;
        assert!(check_file_header(&newer_minor, Contents::Recording).is_ok());
    }

    #[test]
    fn a_sampled_profile_is_no_recording_and_a_recording_no_sampled_profile() {
        let (recording, samples) = (
            file_header(Contents::Recording),
            file_header(Contents::Samples),
        );
        assert!(is_sampled(&samples) && !is_sampled(&recording) && !is_sampled(b"ALLOTROP"));
        assert!(check_file_header(&samples, Contents::Samples).is_ok());
        assert!(matches!(
            check_file_header(&samples, Contents::Recording),
            Err(ReadError::Sampled)
        ));
        assert!(matches!(
            check_file_header(&recording, Contents::Samples),
            Err(ReadError::NotSampled)
        ));
    }
}
