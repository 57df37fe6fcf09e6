//! Integer codings: LEB128 varints (DWARF 5, section 7.6), zigzag for signed
//! numbers (as in Protocol Buffers), and deltas, which are zigzag varints of
//! differences. [`Cursor`] decodes them from untrusted bytes.

/// The bytes do not follow the format. The text describes the violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub &'static str);

const SHORT: Malformed = Malformed("the bytes end within a field");
const TOO_LONG: Malformed = Malformed("a number has more than 64 bits");

/// Appends `value` as a varint: seven bits per byte, least significant first; the
/// high bit of a byte is set if another byte follows.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Numbers with more bits do not fit into the eight bytes of [`spread`].
const SPREAD_BITS: u32 = 56;

/// Encodes a number of at most 56 bits as a varint without a loop. Returns the
/// bytes, the first one lowest, and their number. Spreads the seven-bit groups to
/// bytes, as the instruction `pdep` with the mask `0x7f7f…` does.
#[inline(always)]
pub(crate) const fn spread(value: u64) -> Option<(u64, usize)> {
    let bits = 64 - (value | 1).leading_zeros();
    if bits > SPREAD_BITS {
        return None;
    }
    // Each step splits groups into halves and shifts the upper halves up: by 4, 2
    // and 1 bits, so that in the end each seven-bit group begins at a byte.
    let halves = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let quarters = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
    let groups = quarters & 0x007f_007f_007f_007f | (quarters & 0x3f80_3f80_3f80_3f80) << 1;
    // `bits / 7`, rounded up; exact for up to 56 bits.
    let length = (bits * 9 + 64) >> 6;
    let all_but_last = (1 << (8 * (length - 1))) - 1;
    Some((
        groups | 0x8080_8080_8080_8080 & all_but_last,
        length as usize,
    ))
}

/// Decodes the varint at the start of eight bytes, the inverse of [`spread`].
/// Returns the number and the length of its varint in bytes, or `None` if the
/// varint is longer than eight bytes.
#[inline(always)]
const fn gather(bytes: u64) -> Option<(u64, usize)> {
    let ends = !bytes & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    // Clears the bytes after the first one without the high bit.
    let varint = bytes & (ends ^ (ends - 1));
    let groups = varint & 0x7f7f_7f7f_7f7f_7f7f;
    let quarters = groups & 0x007f_007f_007f_007f | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
    let halves = quarters & 0x0000_3fff_0000_3fff | (quarters & 0x3fff_0000_3fff_0000) >> 2;
    let value = halves & 0x0fff_ffff | (halves & 0x0fff_ffff_0000_0000) >> 4;
    Some((value, (ends.trailing_zeros() / 8 + 1) as usize))
}

/// Maps signed numbers of small magnitude to small unsigned ones: 0, -1, 1, -2 →
/// 0, 1, 2, 3.
#[inline]
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
#[inline]
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends the delta from `from` to `to`: the zigzag varint of `to - from`
/// (modulo 2⁶⁴).
#[inline]
pub(crate) fn put_delta(out: &mut Vec<u8>, from: u64, to: u64) {
    put(out, zigzag(to.wrapping_sub(from) as i64));
}

/// The bytes that are not decoded yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Number of bytes not decoded yet.
    pub(crate) const fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes not decoded yet.
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

    /// Decodes a varint. Fast for varints of one or two bytes.
    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        if let Some((&[first, second], _)) = self.bytes.split_first_chunk() {
            // No branch on the length, because the CPU would mispredict it.
            let more = first >> 7;
            if more & (second >> 7) == 0 {
                self.bytes = &self.bytes[usize::from(1 + more)..];
                let high = if more == 0 { 0 } else { second };
                return Ok(u64::from(first & 0x7f) | u64::from(high) << 7);
            }
        }
        self.wide_varint()
    }

    /// Like [`Self::varint`]. Faster if the lengths of the varints vary.
    #[inline(always)]
    pub(crate) fn wide_varint(&mut self) -> Result<u64, Malformed> {
        if let Some((ahead, _)) = self.bytes.split_first_chunk()
            && let Some((value, length)) = gather(u64::from_le_bytes(*ahead))
        {
            self.bytes = &self.bytes[length..];
            return Ok(value);
        }
        self.varint_by_bytes()
    }

    /// Decodes a varint byte by byte: one near the end of the bytes, or one of more
    /// than eight bytes.
    #[cold]
    fn varint_by_bytes(&mut self) -> Result<u64, Malformed> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
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

    /// Decodes a varint of at most 32 bits.
    pub(crate) fn varint_u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed("a number has more than 32 bits"))
    }

    /// Decodes the length of a list or text whose elements take at least one byte
    /// each. A length larger than the number of remaining bytes is malformed.
    pub(crate) fn length(&mut self) -> Result<usize, Malformed> {
        let length = self.varint()?;
        usize::try_from(length)
            .ok()
            .filter(|&length| length <= self.left())
            .ok_or(Malformed("a list is longer than the rest of the chunk"))
    }

    /// Decodes a delta from `from`; the inverse of [`put_delta`].
    #[inline]
    pub(crate) fn delta(&mut self, from: u64) -> Result<u64, Malformed> {
        Ok(from.wrapping_add(unzigzag(self.wide_varint()?) as u64))
    }

    /// Decodes four little-endian bytes.
    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    /// Decodes eight little-endian bytes.
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

    fn encoded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, value);
        out
    }

    #[test]
    fn seven_bits_a_byte_least_significant_first() {
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(0x7f), [0x7f]);
        assert_eq!(encoded(0x80), [0x80, 0x01]);
        assert_eq!(encoded(0b101_0000011), [0b1000_0011, 0b101]);
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
        fn varints_round_trip(value: u64, shift in 0..64_u32, more in 0..9_usize) {
            let value = value >> shift;
            let mut bytes = encoded(value);
            bytes.resize(bytes.len() + more, 0xff);
            for read in [Cursor::varint, Cursor::wide_varint] {
                let mut cursor = Cursor::new(&bytes);
                prop_assert_eq!(read(&mut cursor), Ok(value));
                prop_assert_eq!(cursor.left(), more);
            }
        }

        #[test]
        fn spread_is_the_varint_and_gather_undoes_it(value: u64, shift in 0..64_u32) {
            let value = value >> shift;
            let expected = encoded(value);
            let Some((bytes, length)) = spread(value) else {
                prop_assert!(expected.len() > 8);
                return Ok(());
            };
            prop_assert_eq!(&bytes.to_le_bytes()[..length], &expected[..]);
            prop_assert!(length == 8 || bytes >> (8 * length) == 0);
            prop_assert_eq!(gather(bytes), Some((value, length)));
        }

        #[test]
        fn zigzag_round_trips(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }

        #[test]
        fn deltas_round_trip(from: u64, to: u64) {
            let mut out = Vec::new();
            put_delta(&mut out, from, to);
            prop_assert_eq!(Cursor::new(&out).delta(from), Ok(to));
        }
    }
}
