//! Writes and reads operations files. [`allotrope_replayer`] describes their layout.
//!
//! A file that was not written here may have any contents: [`Operations::open`] checks all of
//! it, so that the replayer calls the allocator only as a correct program may.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use allotrope_replayer::operations::{
    Call, HEADER_BYTES, Header, MAX_ALIGNMENT_LOG2, MAX_THREADS, RECORD_BYTES, Record, ThreadExit,
};
use thiserror::Error;

/// Largest size of a block, exclusive: more than a process can have.
const MAX_BYTES: u64 = 1 << 47;
/// Records read at a time.
const BATCH: usize = 4096;

/// Why operations could not be written or read.
#[derive(Debug, Error)]
pub enum OperationsError {
    /// The file could not be written or read.
    #[error(
        "cannot keep the operations in a temporary file: {0}; is the folder for such files (TMPDIR) there, writable, and has it room?"
    )]
    Io(#[from] io::Error),
    /// There are no operations.
    #[error("there are no calls to replay")]
    Empty,
    /// There are more threads than a record has numbers.
    #[error("there are more than {MAX_THREADS} threads, which is more than a replay can have")]
    TooManyThreads,
    /// The file is not what was written.
    #[error("the operations file is damaged: {0}")]
    Damaged(&'static str),
    /// The operations contradict each other.
    #[error("operation {number} is impossible: {why}")]
    Impossible {
        /// Number of the operation.
        number: u64,
        /// Why.
        why: &'static str,
    },
}

/// Writes an operations file, in memory that does not depend on its length.
pub struct OperationsWriter {
    file: BufWriter<File>,
    crc: crc32fast::Hasher,
    header: Header,
}

impl OperationsWriter {
    /// Writes a file without a name in the folder for temporary files.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn temporary() -> io::Result<Self> {
        Self::new(tempfile::tempfile()?)
    }

    /// Writes an empty file, from its beginning.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn new(file: File) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(BATCH * RECORD_BYTES, file);
        file.write_all(&[0; HEADER_BYTES])?;
        Ok(Self {
            file,
            crc: crc32fast::Hasher::new(),
            header: Header::default(),
        })
    }

    /// Number of operations so far.
    pub fn len(&self) -> u64 {
        self.header.operations
    }

    /// Whether there are no operations yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an operation. Threads are numbered from 0 in order of their first operation;
    /// slots densely from 0.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        let header = &mut self.header;
        header.operations += 1;
        header.slots = header.slots.max(record.slot.saturating_add(1));
        header.threads = header.threads.max(u32::from(record.thread) + 1);
        if let Some(calls) = header.calls.get_mut(usize::from(record.call)) {
            *calls += 1;
        }
        self.write(&record.to_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.file.write_all(bytes)
    }

    /// Completes the file, with the ends of threads in any order. An end at or after the last
    /// operation is left out.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or there are no operations.
    pub fn finish(mut self, mut exits: Vec<ThreadExit>) -> Result<Operations, OperationsError> {
        if self.is_empty() {
            return Err(OperationsError::Empty);
        }
        exits.retain(|exit| exit.before < self.header.operations && exit.thread != 0);
        exits.sort_unstable_by_key(|exit| (exit.before, exit.thread));
        for exit in &exits {
            self.write(&exit.to_bytes())?;
        }
        self.header.exits = exits.len() as u32;
        self.header.contents_crc = self.crc.finalize();
        self.file.seek(SeekFrom::Start(0))?;
        let header = self.header.to_bytes(crc32fast::hash);
        self.file.write_all(&header)?;
        let file = self.file.into_inner().map_err(|error| error.into_error())?;
        Ok(Operations {
            file,
            header: self.header,
        })
    }
}

/// A complete operations file.
#[derive(Debug)]
pub struct Operations {
    file: File,
    header: Header,
}

impl Operations {
    /// Opens a file that may have any contents, and checks all of it.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is damaged, or no correct program can make these calls.
    pub fn open(file: File) -> Result<Self, OperationsError> {
        use OperationsError::Damaged;
        let mut bytes = [0; HEADER_BYTES];
        let length = file.metadata()?.len();
        if length < HEADER_BYTES as u64 {
            return Err(Damaged("it is shorter than its header"));
        }
        file.read_exact_at(&mut bytes, 0)?;
        let header =
            Header::from_bytes(&bytes).ok_or(Damaged("it does not begin as an operations file"))?;
        if crc32fast::hash(&bytes[..HEADER_BYTES - 4]) != Header::own_crc(&bytes) {
            return Err(Damaged("its header has another checksum"));
        }
        if header.file_bytes() != Some(length) {
            return Err(Damaged("it is longer or shorter than its header says"));
        }
        if header.operations == 0 {
            return Err(OperationsError::Empty);
        }
        if u64::from(header.slots) > header.operations {
            return Err(Damaged("it has more slots than operations"));
        }
        if !(1..=MAX_THREADS).contains(&header.threads) {
            return Err(OperationsError::TooManyThreads);
        }
        let operations = Self { file, header };
        operations.check()?;
        Ok(operations)
    }

    /// Checks every record and exit.
    fn check(&self) -> Result<(), OperationsError> {
        let mut crc = crc32fast::Hasher::new();
        let mut used = vec![false; self.header.slots as usize];
        let mut threads = 0;
        let mut calls = [0; Call::ALL.len()];
        // By thread: the number of its last operation.
        let mut last = vec![0; self.header.threads as usize];
        for (record, number) in self.records(0..self.len()).zip(0..) {
            let record = record?;
            crc.update(&record.to_bytes());
            check_record(&record, &mut used, &mut threads)
                .map_err(|why| OperationsError::Impossible { number, why })?;
            calls[usize::from(record.call)] += 1;
            let thread = last.get_mut(usize::from(record.thread));
            *thread.ok_or(OperationsError::Damaged("it has more threads than it says"))? = number;
        }
        let mut before = 0;
        for exit in self.exits()? {
            crc.update(&exit.to_bytes());
            let last = last.get(exit.thread as usize).filter(|_| exit.thread > 0);
            let last = *last.ok_or(OperationsError::Damaged("an unknown thread ends"))?;
            if exit.before < before || exit.before <= last {
                return Err(OperationsError::Damaged("a thread ends too early"));
            }
            before = exit.before;
        }
        if crc.finalize() != self.header.contents_crc {
            return Err(OperationsError::Damaged(
                "its contents have another checksum",
            ));
        }
        if threads != self.header.threads || calls != self.header.calls {
            return Err(OperationsError::Damaged("its header counts something else"));
        }
        Ok(())
    }

    /// The ends of threads, in order.
    fn exits(&self) -> Result<Vec<ThreadExit>, OperationsError> {
        let mut exits = Vec::new();
        for number in 0..u64::from(self.header.exits) {
            let mut bytes = [0; RECORD_BYTES];
            self.file
                .read_exact_at(&mut bytes, position(self.len() + number))?;
            let exit = ThreadExit::from_bytes(&bytes);
            exits.push(exit.ok_or(OperationsError::Damaged("an unknown thread ends"))?);
        }
        Ok(exits)
    }

    /// Number of operations.
    pub fn len(&self) -> u64 {
        self.header.operations
    }

    /// Whether there are no operations: never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of slots: the most blocks that are live at once.
    pub fn slots(&self) -> u32 {
        self.header.slots
    }

    /// Number of threads.
    pub fn threads(&self) -> u32 {
        self.header.threads
    }

    /// How many operations call a function.
    pub fn calls(&self, call: Call) -> u64 {
        self.header.calls[call as usize]
    }

    /// How many operations give out memory.
    pub fn allocations(&self) -> u64 {
        self.len() - self.calls(Call::Free)
    }

    /// An operation.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has no such operation.
    pub fn record(&self, number: u64) -> io::Result<Record> {
        if number >= self.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut bytes = [0; RECORD_BYTES];
        self.file.read_exact_at(&mut bytes, position(number))?;
        Ok(Record::from_bytes(&bytes))
    }

    /// Some operations, in order. Those that the file does not have are left out.
    pub fn records(&self, range: Range<u64>) -> Records<'_> {
        Records {
            file: &self.file,
            next: range.start,
            end: range.end.min(self.len()),
            batch: Vec::new(),
            at: 0,
        }
    }

    /// The file, for another process to map.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Where a record begins in the file.
fn position(number: u64) -> u64 {
    HEADER_BYTES as u64 + number * RECORD_BYTES as u64
}

/// Checks a record after those that led to this state: which slots are used, and how many
/// threads there were.
fn check_record(record: &Record, used: &mut [bool], threads: &mut u32) -> Result<(), &'static str> {
    let call = Call::from_number(record.call).ok_or("it calls no known function")?;
    if record.alignment_log2 > MAX_ALIGNMENT_LOG2 {
        return Err("its alignment is larger than an address space");
    }
    if record.size >= MAX_BYTES {
        return Err("its size is larger than an address space");
    }
    if !call.has_alignment() && record.alignment_log2 > 0 {
        return Err("its function takes no alignment");
    }
    let thread = u32::from(record.thread);
    if thread > *threads {
        return Err("its thread has another number than its turn");
    }
    *threads = (*threads).max(thread + 1);
    let used = used.get_mut(record.slot as usize).ok_or("it has no slot")?;
    match call {
        Call::Free if !*used => return Err("it frees no block"),
        Call::Free if record.size > 0 => return Err("a deallocation has a size"),
        _ if *used && call != Call::Free && !call.reallocates() => {
            return Err("its slot is still in use");
        }
        _ => *used = call != Call::Free,
    }
    Ok(())
}

/// Reads operations in order.
pub struct Records<'a> {
    file: &'a File,
    /// Number of the operation after the batch.
    next: u64,
    end: u64,
    batch: Vec<u8>,
    /// Bytes of the batch that were returned.
    at: usize,
}

impl Iterator for Records<'_> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        if self.at >= self.batch.len() {
            let count = self.end.saturating_sub(self.next).min(BATCH as u64);
            if count == 0 {
                return None;
            }
            self.batch.resize(count as usize * RECORD_BYTES, 0);
            self.at = 0;
            if let Err(error) = self
                .file
                .read_exact_at(&mut self.batch, position(self.next))
            {
                self.end = self.next;
                self.batch.clear();
                return Some(Err(error));
            }
            self.next += count;
        }
        let bytes = self.batch.get(self.at..)?.first_chunk()?;
        self.at += RECORD_BYTES;
        Some(Ok(Record::from_bytes(bytes)))
    }
}
