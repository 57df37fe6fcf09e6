//! A column while it is written. Its memory is set aside for the most that the
//! events of a chunk can need, so that a number is written without asking for
//! room and without a branch for each of its bytes.

use crate::varint::{spread, zigzag};

/// A varint of up to 56 bits is written as eight bytes, of which those that
/// it does not need are overwritten by the next.
const SLACK: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Column {
    room: Vec<u8>,
    length: usize,
}

impl Column {
    /// Empties the column; `most` bytes will be written at most.
    pub(crate) fn reset(&mut self, most: usize) {
        self.length = 0;
        if self.room.len() < most + SLACK {
            // New memory that is zero already, of which only what is written
            // to becomes resident.
            self.room = vec![0; most + SLACK];
        }
    }

    /// What was written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room[..self.length]
    }

    /// The column's room, to be written from its beginning.
    pub(crate) fn lend(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.room)
    }

    /// Gives the room back, `length` bytes written.
    pub(crate) fn give_back(&mut self, room: Vec<u8>, length: usize) {
        self.room = room;
        self.length = length;
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.room[self.length] = byte;
        self.length += 1;
    }

    #[inline(always)]
    pub(crate) fn varint(&mut self, value: u64) {
        if value < 1 << 14 {
            // Most numbers by far; how many of them need a second byte is hard
            // to foresee, so both are written.
            let more = value >= 1 << 7;
            let low = value & 0x7f | u64::from(more) << 7;
            let bytes = (low | (value >> 7) << 8) as u16;
            self.room[self.length..self.length + 2].copy_from_slice(&bytes.to_le_bytes());
            self.length += 1 + usize::from(more);
        } else if let Some((bytes, length)) = spread(value) {
            self.room[self.length..self.length + SLACK].copy_from_slice(&bytes.to_le_bytes());
            self.length += length;
        } else {
            self.long_varint(value);
        }
    }

    /// As [`Self::varint`], where numbers need any number of bytes.
    #[inline(always)]
    pub(crate) fn wide_varint(&mut self, value: u64) {
        if let Some((bytes, length)) = spread(value) {
            self.room[self.length..self.length + SLACK].copy_from_slice(&bytes.to_le_bytes());
            self.length += length;
        } else {
            self.long_varint(value);
        }
    }

    #[cold]
    fn long_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// Writes what must be added to `from` (modulo 2⁶⁴) to get `to`.
    #[inline(always)]
    pub(crate) fn delta(&mut self, from: u64, to: u64) {
        self.wide_varint(zigzag(to.wrapping_sub(from) as i64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint::put;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_stand_as_varints(values in proptest::collection::vec((any::<u64>(), 0..64_u32, any::<bool>()), 0..50)) {
            let mut column = Column::default();
            column.reset(values.len() * 10);
            let mut expected = Vec::new();
            for (value, shift, is_wide) in values {
                if is_wide {
                    column.wide_varint(value >> shift);
                } else {
                    column.varint(value >> shift);
                }
                put(&mut expected, value >> shift);
            }
            prop_assert_eq!(column.bytes(), &expected[..]);
        }
    }
}
