//! Reads stack nodes separately from the other records, because a trace may have
//! millions of them. [`crate::TraceReader::outline`] returns their positions.

use crate::chunk::Header;
use crate::error::{CutReason, ReadError};
use crate::model::{ImageId, StackId, StackNode};
use crate::payload::PayloadBuffer;
use crate::records;
use crate::source::Source;
use crate::varint::Cursor;

/// The position of a [`Record::Stacks`](crate::model::Record::Stacks) in the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StacksRef {
    /// The image of the nodes.
    pub image: ImageId,
    /// Number of nodes in the record.
    pub nodes: usize,
    /// Offset of the chunk in the file.
    pub(crate) offset: u64,
    /// Header of the chunk.
    pub(crate) header: Header,
    /// Offset of the record in the decoded payload of the chunk.
    pub(crate) at: usize,
}

/// Decodes records of stack nodes; from [`crate::TraceReader::stack_nodes`]. It
/// decompresses a chunk once for consecutive calls with records of that chunk.
pub struct StackNodes<'a, S> {
    source: &'a S,
    buffer: PayloadBuffer,
    /// Offset of the chunk whose payload is in the buffer.
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

    /// Replaces the contents of `into` with the nodes of the record and returns the
    /// id of the first one. After an error the contents of `into` are unspecified.
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
        let record =
            record.ok_or_else(|| malformed("a record begins after the end of its chunk"))?;
        let decoded = records::decode_stacks(&mut Cursor::new(record), into);
        decoded.map_err(|reason| malformed(reason.0))
    }
}
