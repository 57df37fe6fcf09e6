//! Reads the payload of a chunk from the file, verifies its checksum and
//! decompresses it. Memory is bounded by the limits of [`crate::chunk`].

use std::io;

use zstd::bulk::Decompressor;

use crate::chunk::{Coding, Header};
use crate::error::{CutReason, ReadError};
use crate::source::Source;

/// Buffers for the payload of one chunk, reused from chunk to chunk.
#[derive(Default)]
pub(crate) struct PayloadBuffer {
    stored: Vec<u8>,
    expanded: Vec<u8>,
    decompressor: Option<Decompressor<'static>>,
}

impl PayloadBuffer {
    /// Reads the stored payload of the chunk at `offset` and verifies its checksum.
    pub(crate) fn read<S: Source>(
        &mut self,
        source: &S,
        offset: u64,
        header: &Header,
    ) -> Result<(), ReadError> {
        self.stored.resize(header.stored as usize, 0);
        let at = offset.saturating_add(header.payload_offset());
        source
            .read_exact_at(&mut self.stored, at)
            .map_err(|source| ReadError::Io { offset: at, source })?;
        if crc32fast::hash(&self.stored) != header.payload_crc {
            return Err(ReadError::Damaged {
                offset,
                reason: CutReason::PayloadChecksum,
            });
        }
        Ok(())
    }

    /// Reads the payload like [`Self::read`], and returns it decompressed.
    pub(crate) fn load<S: Source>(
        &mut self,
        source: &S,
        offset: u64,
        header: &Header,
    ) -> Result<&[u8], ReadError> {
        let damaged = |reason| ReadError::Damaged { offset, reason };
        let coding = header.coding().map_err(damaged)?;
        self.read(source, offset, header)?;
        match coding {
            Coding::Raw => Ok(&self.stored),
            Coding::Zstd => {
                let expanded = self.expand(header.decoded as usize);
                expanded.map_err(|_| damaged(CutReason::Compression))?;
                Ok(&self.expanded)
            }
        }
    }

    /// The payload that the last [`Self::load`], with this header, returned.
    pub(crate) fn payload(&self, header: &Header) -> &[u8] {
        match header.coding() {
            Ok(Coding::Zstd) => &self.expanded,
            _ => &self.stored,
        }
    }

    fn expand(&mut self, length: usize) -> io::Result<()> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new()?),
        };
        self.expanded.clear();
        self.expanded.reserve(length);
        decompressor.decompress_to_buffer(&self.stored, &mut self.expanded)?;
        if self.expanded.len() == length {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}
