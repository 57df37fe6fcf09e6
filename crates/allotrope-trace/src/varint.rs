//! Whole numbers in as few bytes as they need: LEB128 varints, zigzag for
//! signed ones, and the cursor that reads them from bytes nobody vouches for.

/// Contents that contradict themselves; says how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub &'static str);

const SHORT: Malformed = Malformed("a field ends behind the end of its column");
const TOO_LONG: Malformed = Malformed("a number has more than 64 bits");

/// Appends `value`, seven bits a byte, least significant first.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps small numbers of either sign to small numbers: 0, -1, 1, -2 → 0, 1, 2, 3.
#[inline]
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
#[inline]
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends what must be added to `from` (modulo 2⁶⁴) to get `to`.
#[inline]
pub(crate) fn put_delta(out: &mut Vec<u8>, from: u64, to: u64) {
    put(out, zigzag(to.wrapping_sub(from) as i64));
}

/// The unread rest of some bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Number of bytes not read yet.
    pub(crate) const fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes not read yet.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.bytes.split_first().ok_or(SHORT)?;
        self.bytes = rest;
        Ok(first)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(SHORT)?;
        self.bytes = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.varint_rest(first)
    }

    fn varint_rest(&mut self, first: u8) -> Result<u64, Malformed> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(TOO_LONG);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(TOO_LONG)
    }

    /// A varint that must fit 32 bits.
    pub(crate) fn varint_u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed("a number has more than 32 bits"))
    }

    /// A varint that must fit the bytes that are left: the length of a list or
    /// string whose elements take at least a byte each.
    pub(crate) fn length(&mut self) -> Result<usize, Malformed> {
        let length = self.varint()?;
        usize::try_from(length)
            .ok()
            .filter(|&length| length <= self.left())
            .ok_or(Malformed("a list is longer than what is left of the chunk"))
    }

    #[inline]
    pub(crate) fn delta(&mut self, from: u64) -> Result<u64, Malformed> {
        Ok(from.wrapping_add(unzigzag(self.varint()?) as u64))
    }

    /// Little-endian.
    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    /// Little-endian.
    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn coded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, value);
        out
    }

    #[test]
    fn seven_bits_a_byte_least_significant_first() {
        assert_eq!(coded(0), [0]);
        assert_eq!(coded(0x7f), [0x7f]);
        assert_eq!(coded(0x80), [0x80, 0x01]);
        assert_eq!(coded(0b101_0000011), [0b1000_0011, 0b101]);
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        let mut nine_full_bytes_and_two = vec![0xff; 9];
        nine_full_bytes_and_two.push(2);
        assert_eq!(
            Cursor::new(&nine_full_bytes_and_two).varint(),
            Err(TOO_LONG)
        );
        assert_eq!(Cursor::new(&[0xff; 11]).varint(), Err(TOO_LONG));
    }

    #[test]
    fn a_number_cut_short_is_refused() {
        assert_eq!(Cursor::new(&[]).varint(), Err(SHORT));
        assert_eq!(Cursor::new(&[0x80]).varint(), Err(SHORT));
    }

    #[test]
    fn a_list_longer_than_the_bytes_is_refused() {
        assert!(Cursor::new(&[2, 0]).length().is_err());
        assert_eq!(Cursor::new(&[1, 0]).length(), Ok(1));
    }

    proptest! {
        #[test]
        fn varints_come_back(value: u64) {
            let bytes = coded(value);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.varint(), Ok(value));
            prop_assert_eq!(cursor.left(), 0);
        }

        #[test]
        fn zigzag_comes_back(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }

        #[test]
        fn deltas_come_back(from: u64, to: u64) {
            let mut out = Vec::new();
            put_delta(&mut out, from, to);
            prop_assert_eq!(Cursor::new(&out).delta(from), Ok(to));
        }
    }
}
