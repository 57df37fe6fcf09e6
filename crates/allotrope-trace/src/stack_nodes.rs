//! Reads stack nodes, of which a trace may have millions, apart from its other
//! records: [`crate::TraceReader::outline`] says where they are.

use crate::chunk::Header;
use crate::error::{CutReason, ReadError};
use crate::model::{ImageId, StackId, StackNode};
use crate::payload::PayloadBuffer;
use crate::records;
use crate::source::Source;
use crate::varint::Cursor;

/// Where a record of stack nodes is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StacksRef {
    /// The image whose nodes they are.
    pub image: ImageId,
    /// How many there are.
    pub nodes: usize,
    /// Of the chunk.
    pub(crate) offset: u64,
    pub(crate) header: Header,
    /// Where the record begins in the chunk's payload.
    pub(crate) at: usize,
}

/// See [`crate::TraceReader::stack_nodes`]. A chunk is expanded once for all its
/// records that are asked for one after another.
pub struct StackNodes<'a, S> {
    source: &'a S,
    buffer: PayloadBuffer,
    /// Offset of the chunk that is in the buffer.
    open: Option<u64>,
}

impl<'a, S: Source> StackNodes<'a, S> {
    pub(crate) fn new(source: &'a S) -> Self {
        Self {
            source,
            buffer: PayloadBuffer::default(),
            open: None,
        }
    }

    /// Replaces what is in `into` by the nodes of the record; gives the id of the
    /// first one. After an error the contents of `into` mean nothing.
    pub fn read(
        &mut self,
        stacks: &StacksRef,
        into: &mut Vec<StackNode>,
    ) -> Result<StackId, ReadError> {
        let StacksRef { offset, header, .. } = stacks;
        if self.open != Some(*offset) {
            self.open = None;
            self.buffer.load(self.source, *offset, header)?;
            self.open = Some(*offset);
        }
        let malformed = |reason: &'static str| ReadError::Damaged {
            offset: *offset,
            reason: CutReason::Malformed(reason),
        };
        let payload = self.buffer.payload(header);
        let record = payload.get(stacks.at..);
        let record = record.ok_or_else(|| malformed("a record begins behind its chunk's end"))?;
        let decoded = records::decode_stacks(&mut Cursor::new(record), into);
        decoded.map_err(|reason| malformed(reason.0))
    }
}
