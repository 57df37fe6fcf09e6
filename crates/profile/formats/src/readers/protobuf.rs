//! Reads protobuf's wire format one top-level field at a time, with bounded
//! size.
//!
//! Source: the Protocol Buffers documentation, "Encoding".

use std::io::{BufRead, Read};

use crate::budget::Budget;
use crate::error::{Fault, Location, Problem};
use crate::format::Format;

/// The largest message or string, in bytes. A stack of the maximum depth is
/// smaller.
pub(super) const MAX_FIELD: u64 = 4 << 20;

/// The value of a field.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A fixed-width value; no field of interest has one.
    Other,
}

/// Reads fields.
pub(super) struct Fields<'a> {
    input: &'a mut dyn BufRead,
    budget: Budget,
    bytes: Vec<u8>,
    /// Bytes read so far.
    offset: u64,
    /// The offset of the last field.
    pub start: u64,
}

impl<'a> Fields<'a> {
    /// The fields of `input`, whose reader may use this budget.
    pub fn new(input: &'a mut dyn BufRead, budget: &Budget) -> Self {
        Self {
            input,
            budget: budget.clone(),
            bytes: Vec::new(),
            offset: 0,
            start: 0,
        }
    }

    /// The next field's number and value; `None` after the last.
    pub fn next(&mut self) -> Result<Option<(u32, Value<'_>)>, Fault> {
        self.start = self.offset;
        match self.input.fill_buf() {
            Ok([]) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(self.fault(error)),
        }
        let taken = self.budget.take_record();
        taken.map_err(|problem| self.fault(problem))?;
        let key = self.varint()?;
        let number = u32::try_from(key >> 3)
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| self.malformed("a field has no valid number"))?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.bytes(8).map(|_| Value::Other)?,
            2 => {
                let length = self.varint()?;
                if length > MAX_FIELD {
                    return Err(self.malformed("a field is larger than any that pprof writes"));
                }
                Value::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Value::Other)?,
            _ => return Err(self.malformed("a field has an unknown wire type")),
        };
        Ok(Some((number, value)))
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed("a number has more than ten bytes"))
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let first = self.input.fill_buf().map(|buffer| buffer.first().copied());
        match first.map_err(|error| self.fault(error))? {
            Some(byte) => {
                self.input.consume(1);
                self.offset += 1;
                Ok(byte)
            }
            None => Err(self.malformed("the file ends within a field")),
        }
    }

    fn bytes(&mut self, length: u64) -> Result<&[u8], Fault> {
        self.bytes.clear();
        let read = (&mut *self.input).take(length).read_to_end(&mut self.bytes);
        let read = read.map_err(|error| self.fault(error))? as u64;
        self.offset += read;
        if read < length {
            return Err(self.malformed("the file ends within a field"));
        }
        Ok(&self.bytes)
    }

    /// A problem of the last field.
    pub fn fault(&self, problem: impl Into<Problem>) -> Fault {
        Fault {
            location: Location::Byte(self.start),
            problem: problem.into(),
        }
    }

    pub fn malformed(&self, what: &str) -> Fault {
        self.fault(malformed(what))
    }
}

pub(super) fn malformed(what: &str) -> Problem {
    Problem::Malformed {
        format: Format::Pprof,
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order() {
        let mut input: &[u8] = &[0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 1, 2, 3, 4];
        let mut fields = Fields::new(&mut input, &Budget::default());
        assert_eq!(fields.next().unwrap(), Some((1, Value::Number(150))));
        assert_eq!(fields.next().unwrap(), Some((2, Value::Bytes(b"hi"))));
        assert_eq!(fields.next().unwrap(), Some((3, Value::Other)));
        assert_eq!(fields.next().unwrap(), None);
    }

    #[test]
    fn hostile_fields_are_errors_with_their_offset() {
        for bytes in [
            &[0x08, 0x01, 0x12, 0xff, 0xff, 0xff, 0xff, 0x7f][..],
            &[0x08, 0x01, 0x12, 5, b'x'],
            &[0x08, 0x01, 0x0b],
            &[0x08, 0x01, 0x00, 0x01],
            &[
                0x08, 0x01, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            ],
        ] {
            let mut input = bytes;
            let mut fields = Fields::new(&mut input, &Budget::default());
            fields.next().unwrap();
            assert_eq!(
                fields.next().unwrap_err().location,
                Location::Byte(2),
                "{bytes:x?}"
            );
        }
    }
}
