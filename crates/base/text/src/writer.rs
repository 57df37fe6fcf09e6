//! A second filter for text outputs: escapes control characters that were not
//! escaped when they were put into the text. Line breaks, tabs and, if the text has
//! colours, colour sequences pass, so names must still be escaped by
//! [`shown`](crate::shown) before.

use std::io::{self, Write};

use crate::{is_shown, shown_bytes};

/// Largest number of bytes of parameters in a colour sequence that passes; Allotrope's own have at
/// most two.
const MAX_COLOR: usize = 16;

/// Writes text to `inner` with control characters escaped.
#[derive(Debug)]
pub struct TextWriter<W: Write> {
    inner: W,
    color: bool,
    /// The start of a character or of a colour sequence whose rest was not written yet.
    pending: Vec<u8>,
}

impl<W: Write> TextWriter<W> {
    /// `color`: the text has colour sequences of its own (ECMA-48 SGR), which pass.
    pub fn new(inner: W, color: bool) -> Self {
        Self {
            inner,
            color,
            pending: Vec::new(),
        }
    }

    /// Writes the complete characters of `bytes`; returns their length in bytes.
    fn pass(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let plain = rest.iter().position(|byte| !is_plain(*byte));
            let plain = plain.unwrap_or(rest.len());
            if plain > 0 {
                self.inner.write_all(&rest[..plain])?;
                at += plain;
                continue;
            }
            if rest[0] == 0x1b && self.color {
                match color_length(rest) {
                    Some(0) => return Ok(at),
                    Some(length) => {
                        self.inner.write_all(&rest[..length])?;
                        at += length;
                        continue;
                    }
                    None => {}
                }
            }
            let length = character_length(rest);
            if length == 0 {
                return Ok(at);
            }
            let character = &rest[..length];
            match std::str::from_utf8(character) {
                Ok(text) if text.chars().all(is_shown) => self.inner.write_all(character)?,
                _ => self.inner.write_all(shown_bytes(character).as_bytes())?,
            }
            at += length;
        }
        Ok(at)
    }
}

impl<W: Write> Write for TextWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pending.is_empty() {
            let passed = self.pass(bytes)?;
            self.pending.extend_from_slice(&bytes[passed..]);
            return Ok(bytes.len());
        }
        let mut all = std::mem::take(&mut self.pending);
        all.extend_from_slice(bytes);
        let passed = self.pass(&all)?;
        self.pending.extend_from_slice(&all[passed..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // The rest never came: the bytes are escaped one by one.
        let pending = std::mem::take(&mut self.pending);
        self.inner.write_all(shown_bytes(&pending).as_bytes())?;
        self.inner.flush()
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\t' | b' '..=b'~')
}

/// Length in bytes of the colour sequence at the start; 0 if its end is missing, `None`
/// if there is none.
fn color_length(bytes: &[u8]) -> Option<usize> {
    let is_parameter = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
    match bytes {
        [_] => Some(0),
        [_, b'[', rest @ ..] => {
            let parameters = rest.iter().take_while(|byte| is_parameter(byte)).count();
            match rest.get(parameters) {
                _ if parameters > MAX_COLOR => None,
                None => Some(0),
                Some(b'm') => Some(2 + parameters + 1),
                Some(_) => None,
            }
        }
        _ => None,
    }
}

/// Length in bytes of the character, or of the invalid sequence, at the start; 0 if more
/// bytes are needed to decide.
fn character_length(bytes: &[u8]) -> usize {
    let few = &bytes[..bytes.len().min(4)];
    match std::str::from_utf8(few) {
        Ok(text) => text.chars().next().map_or(0, char::len_utf8),
        Err(error) if error.valid_up_to() > 0 => character_length(&few[..error.valid_up_to()]),
        Err(error) => error.error_len().unwrap_or(0),
    }
}
