//! The bytes of an ELF file, in a file or in memory. Only the requested parts of a file
//! are read. The bytes are not interpreted here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that can be read at any offset.
#[derive(Debug)]
pub(crate) enum Content {
    File(File),
    Memory(Vec<u8>),
}

impl Content {
    /// Number of bytes; of a file that grows or shrinks, the current number.
    pub(crate) fn length(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Reads up to as many bytes as `into` has; fewer only at the end.
    pub(crate) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read_at(into, offset),
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = bytes.get(start..).unwrap_or_default();
                let count = rest.len().min(into.len());
                into[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
        }
    }

    /// Fills `into`; an error if there are fewer bytes.
    pub(crate) fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(into, offset),
            Self::Memory(_) if self.read_at(into, offset)? == into.len() => Ok(()),
            Self::Memory(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_behaves_like_a_file() {
        let content = Content::Memory(b"abcdef".to_vec());
        assert_eq!(content.length().unwrap(), 6);
        let mut four = [0; 4];
        content.read_exact_at(&mut four, 2).unwrap();
        assert_eq!(&four, b"cdef");
        assert_eq!(content.read_at(&mut four, 4).unwrap(), 2);
        assert_eq!(content.read_at(&mut four, u64::MAX).unwrap(), 0);
        let error = content.read_exact_at(&mut four, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
