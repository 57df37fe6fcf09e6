//! A process's memory in a file: a copy of the memory, or a core file.
//!
//! A core file has the memory if the kernel wrote it (core(5)): by default it includes shared mappings of
//! files that have no name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;

use allotrope_files::open_regular;
use allotrope_shm::samples::file::Mapped;
use allotrope_shm::samples::layout::{BYTES, MAGIC};
use allotrope_shm::samples::reader::State;
use allotrope_text::Shown;
use anyhow::{Context, bail};
use object::elf::{ET_CORE, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use rustix::fs::{MemfdFlags, SealFlags};

/// Largest number of segments of a core file. Linux maps 65,530 by default.
const MAX_SEGMENTS: usize = 1 << 20;

/// The state in a file.
pub fn state_in(path: &Path) -> anyhow::Result<State> {
    let shown = path.shown();
    let file = open_regular(path).with_context(|| format!("cannot read {shown}"))?;
    let read = || format!("cannot read {shown}");
    let copies = match file.metadata().with_context(read)?.len() == BYTES as u64 {
        true => vec![(0, BYTES as u64)],
        false if is_profile(&file) => {
            bail!("{shown} is a sampled profile or a recording; look at it with `allotrope report`")
        }
        false => in_core(&file).with_context(|| {
            format!("{shown} is neither a core file nor a copy of a process's memory")
        })?,
    };
    let mut states = Vec::new();
    let mut error = None;
    for place in copies {
        let copy = copy(&file, place).with_context(read)?;
        match State::read(Mapped::new(&copy)?.memory()) {
            Ok(state) => states.push(state),
            Err(it) => error = Some(it),
        }
    }
    // A forked child has its parent's as well until it has made its own.
    match (states.into_iter().max_by_key(|it| it.process.began), error) {
        (Some(state), _) => Ok(state),
        (None, Some(error)) => {
            Err(error).with_context(|| format!("the memory in {shown} cannot be read"))
        }
        (None, None) => bail!(
            "the core file {shown} has no memory of a watched process: the process was not started by `allotrope standby`, or its core files are without shared mappings (core(5), /proc/PID/coredump_filter)"
        ),
    }
}

/// Offsets and sizes of the segments of a core file that begin as a memory does.
fn in_core(file: &File) -> anyhow::Result<Vec<(u64, u64)>> {
    let data = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&data)?;
    let endian = header.endian()?;
    if header.e_type(endian) != ET_CORE || endian != Endianness::Little {
        bail!("it is an ELF file, but no core file of this machine");
    }
    let segments = usize::try_from(header.phnum(endian, &data)?)?;
    if segments > MAX_SEGMENTS {
        bail!("it has {segments} segments");
    }
    let mut found = Vec::new();
    for segment in header.program_headers(endian, &data)? {
        let (offset, bytes) = segment.file_range(endian);
        if segment.p_type(endian) == PT_LOAD
            && bytes >= size_of_val(&MAGIC) as u64
            && first_word(file, offset).is_ok_and(|it| it == MAGIC)
        {
            found.push((offset, bytes));
        }
    }
    // Of more than these at most one is the process's.
    found.truncate(16);
    Ok(found)
}

/// Whether it has the format of a trace, as sampled profiles have.
fn is_profile(file: &File) -> bool {
    first_word(file, 0).is_ok_and(|it| it.to_le_bytes() == allotrope_trace::MAGIC)
}

fn first_word(mut file: &File, offset: u64) -> io::Result<u64> {
    let mut word = [0; 8];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Copies a part of the file, which may change or shrink while it is read.
fn copy(mut file: &File, (offset, bytes): (u64, u64)) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let copy = rustix::fs::memfd_create("allotrope-copy", flags)?;
    let mut copy = File::from(copy);
    file.seek(SeekFrom::Start(offset))?;
    io::copy(&mut file.take(bytes.min(BYTES as u64)), &mut copy)?;
    copy.set_len(BYTES as u64)?;
    rustix::fs::fcntl_add_seals(&copy, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(copy.into())
}
