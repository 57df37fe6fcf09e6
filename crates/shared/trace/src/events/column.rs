//! The output buffer of a column. It has space for the largest possible column of
//! the chunk, so that writing a number needs neither a capacity check nor a loop
//! over its bytes.

use crate::varint::{spread, zigzag};

/// A varint of up to 56 bits is stored as eight bytes. The next number overwrites
/// the bytes that it does not use.
const SLACK: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Column {
    buffer: Vec<u8>,
    length: usize,
}

impl Column {
    /// Empties the column and reserves space for `capacity` bytes.
    pub(crate) fn reset(&mut self, capacity: usize) {
        self.length = 0;
        if self.buffer.len() < capacity + SLACK {
            // Zeroed memory: only the pages that are written become resident.
            self.buffer = vec![0; capacity + SLACK];
        }
    }

    /// The bytes written since the last reset.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// Takes the buffer out, for a caller that writes to it directly, from its start.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Puts the buffer back, with `length` bytes written.
    pub(crate) fn put_buffer(&mut self, buffer: Vec<u8>, length: usize) {
        self.buffer = buffer;
        self.length = length;
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.buffer[self.length] = byte;
        self.length += 1;
    }

    /// Writes a varint. Fast for numbers of at most 14 bits.
    #[inline(always)]
    pub(crate) fn varint(&mut self, value: u64) {
        if value < 1 << 14 {
            // Nearly all numbers. Writes two bytes without a branch on the length,
            // because the CPU would mispredict it.
            let more = value >= 1 << 7;
            let low = value & 0x7f | u64::from(more) << 7;
            let bytes = (low | (value >> 7) << 8) as u16;
            self.buffer[self.length..self.length + 2].copy_from_slice(&bytes.to_le_bytes());
            self.length += 1 + usize::from(more);
        } else if let Some((bytes, length)) = spread(value) {
            self.buffer[self.length..self.length + SLACK].copy_from_slice(&bytes.to_le_bytes());
            self.length += length;
        } else {
            self.long_varint(value);
        }
    }

    /// Like [`Self::varint`]. Faster if the lengths of the numbers vary.
    #[inline(always)]
    pub(crate) fn wide_varint(&mut self, value: u64) {
        if let Some((bytes, length)) = spread(value) {
            self.buffer[self.length..self.length + SLACK].copy_from_slice(&bytes.to_le_bytes());
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

    /// Writes the delta from `from` to `to`: the zigzag varint of `to - from`
    /// (modulo 2⁶⁴).
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
        fn numbers_are_written_as_varints(values in proptest::collection::vec((any::<u64>(), 0..64_u32, any::<bool>()), 0..50)) {
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
