//! The layout of the operations file. The crate describes it.

/// The first bytes of the file.
pub const MAGIC: [u8; 8] = *b"ALTROPS1";
/// The version of the layout. A reader refuses any other.
pub const VERSION: u32 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 128;
/// Bytes of a record, and of an exit.
pub const RECORD_BYTES: usize = 16;
/// Largest number of threads.
pub const MAX_THREADS: u32 = 1 << 16;
/// Largest base-2 logarithm of an alignment: more than an address space has.
pub const MAX_ALIGNMENT_LOG2: u8 = 40;

/// The function that an operation calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // each has the name of its function
pub enum Call {
    Malloc = 0,
    Calloc = 1,
    Realloc = 2,
    Reallocarray = 3,
    PosixMemalign = 4,
    AlignedAlloc = 5,
    Memalign = 6,
    Valloc = 7,
    Pvalloc = 8,
    Free = 9,
}

impl Call {
    /// All calls, by their numbers.
    pub const ALL: [Self; 10] = [
        Self::Malloc,
        Self::Calloc,
        Self::Realloc,
        Self::Reallocarray,
        Self::PosixMemalign,
        Self::AlignedAlloc,
        Self::Memalign,
        Self::Valloc,
        Self::Pvalloc,
        Self::Free,
    ];

    /// The call of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The function's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malloc => "malloc",
            Self::Calloc => "calloc",
            Self::Realloc => "realloc",
            Self::Reallocarray => "reallocarray",
            Self::PosixMemalign => "posix_memalign",
            Self::AlignedAlloc => "aligned_alloc",
            Self::Memalign => "memalign",
            Self::Valloc => "valloc",
            Self::Pvalloc => "pvalloc",
            Self::Free => "free",
        }
    }

    /// Whether the function takes an alignment.
    pub const fn has_alignment(self) -> bool {
        matches!(
            self,
            Self::PosixMemalign | Self::AlignedAlloc | Self::Memalign
        )
    }

    /// Whether the function takes a block and returns one.
    pub const fn reallocates(self) -> bool {
        matches!(self, Self::Realloc | Self::Reallocarray)
    }
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Record {
    /// Number of the [`Call`].
    pub call: u8,
    /// Base-2 logarithm of the alignment, where the function takes one; else 0.
    pub alignment_log2: u8,
    /// Number of the thread that calls.
    pub thread: u16,
    /// The block's slot: taken from there, put there, or both.
    pub slot: u32,
    /// Bytes; 0 for `free`. `calloc` and `reallocarray` are called with 1 × this.
    pub size: u64,
}

impl Record {
    /// The bytes in the file.
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = self.call;
        bytes[1] = self.alignment_log2;
        bytes[2..4].copy_from_slice(&self.thread.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    /// The record of these bytes, with any values.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Self {
        let [call, alignment_log2, t0, t1, s0, s1, s2, s3, size @ ..] = *bytes;
        Self {
            call,
            alignment_log2,
            thread: u16::from_le_bytes([t0, t1]),
            slot: u32::from_le_bytes([s0, s1, s2, s3]),
            size: u64::from_le_bytes(size),
        }
    }
}

/// A thread's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadExit {
    /// The thread, which is not that of operation 0.
    pub thread: u32,
    /// It ends before this operation, and has none from there on.
    pub before: u64,
}

impl ThreadExit {
    /// The bytes in the file.
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&u64::from(self.thread).to_le_bytes());
        bytes[8..].copy_from_slice(&self.before.to_le_bytes());
        bytes
    }

    /// The exit of these bytes; `None` if the thread's number is too large.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let thread = u64_at(bytes, 0)?;
        Some(Self {
            thread: u32::try_from(thread).ok()?,
            before: u64_at(bytes, 8)?,
        })
    }
}

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Number of operations.
    pub operations: u64,
    /// Number of slots.
    pub slots: u32,
    /// Number of threads.
    pub threads: u32,
    /// Number of exits.
    pub exits: u32,
    /// CRC-32 of records and exits.
    pub contents_crc: u32,
    /// How many operations call each function, by the number of [`Call`].
    pub calls: [u64; Call::ALL.len()],
}

impl Header {
    /// The bytes in the file. `crc` computes a CRC-32.
    pub fn to_bytes(&self, crc: impl Fn(&[u8]) -> u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.contents_crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.operations.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.slots.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.threads.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.exits.to_le_bytes());
        for (call, to) in self.calls.iter().zip(bytes[40..120].chunks_exact_mut(8)) {
            to.copy_from_slice(&call.to_le_bytes());
        }
        let own = crc(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// The header of these bytes; `None` if they are no header of this version. Does not
    /// check the CRCs.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        if bytes[..8] != MAGIC || u32_at(bytes, 8)? != VERSION {
            return None;
        }
        let mut calls = [0; Call::ALL.len()];
        for (call, at) in calls.iter_mut().zip((40..).step_by(8)) {
            *call = u64_at(bytes, at)?;
        }
        Some(Self {
            contents_crc: u32_at(bytes, 12)?,
            operations: u64_at(bytes, 16)?,
            slots: u32_at(bytes, 24)?,
            threads: u32_at(bytes, 28)?,
            exits: u32_at(bytes, 32)?,
            calls,
        })
    }

    /// The CRC-32 that the header has of its own other bytes.
    pub fn own_crc(bytes: &[u8; HEADER_BYTES]) -> u32 {
        u32_at(bytes, HEADER_BYTES - 4).unwrap_or(0)
    }

    /// Bytes of the whole file; `None` if no file can be so long.
    pub fn file_bytes(&self) -> Option<u64> {
        let entries = self.operations.checked_add(self.exits.into())?;
        entries
            .checked_mul(RECORD_BYTES as u64)?
            .checked_add(HEADER_BYTES as u64)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_of_calls_agree() {
        for (number, call) in (0..).zip(Call::ALL) {
            assert_eq!(call as u8, number);
            assert_eq!(Call::from_number(number), Some(call));
        }
        assert_eq!(Call::from_number(10), None);
    }

    #[test]
    fn a_record_survives_its_bytes() {
        let record = Record {
            call: Call::PosixMemalign as u8,
            alignment_log2: 12,
            thread: 0x1234,
            slot: 0x5678_9abc,
            size: 0x0123_4567_89ab_cdef,
        };
        assert_eq!(Record::from_bytes(&record.to_bytes()), record);
    }

    #[test]
    fn a_header_survives_its_bytes_and_another_version_is_refused() {
        let header = Header {
            operations: 1 << 40,
            slots: 7,
            threads: 3,
            exits: 2,
            contents_crc: 99,
            calls: [1, 2, 3, 4, 5, 6, 7, 8, 9, u64::MAX],
        };
        let mut bytes = header.to_bytes(|_| 17);
        assert_eq!(Header::from_bytes(&bytes), Some(header));
        assert_eq!(Header::own_crc(&bytes), 17);
        bytes[8] = 2;
        assert_eq!(Header::from_bytes(&bytes), None);
    }

    #[test]
    fn an_impossible_length_is_none() {
        let header = Header {
            operations: u64::MAX,
            ..Header::default()
        };
        assert_eq!(header.file_bytes(), None);
    }
}
