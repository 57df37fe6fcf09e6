//! JSON that is safe to print: characters that JSON allows in a string but that
//! control a terminal or mislead a reader, such as C1 controls and bidirectional
//! characters, are written as escapes like `\u202e`. So are number signs that follow another
//! one, which a CI system would take for one of its [commands](crate::without_commands). A parser
//! reads the same value.

use std::io;

use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use crate::is_shown;

/// Compact JSON with such characters escaped.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonFormatter;

impl Formatter for JsonFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // A fragment has no character that JSON itself escapes, but may have DEL.
        let is_plain = |byte: &u8| byte.is_ascii() && *byte != 0x7f;
        if fragment.as_bytes().iter().all(is_plain) && !fragment.contains("##") {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        let mut rest = fragment;
        let mut before = ' ';
        let mut is_escaped = |c| {
            let follows = (before, c) == ('#', '#');
            // Variation selectors count for nothing there.
            if !matches!(c, '\u{fe0e}' | '\u{fe0f}') {
                before = c;
            }
            follows || !is_shown(c)
        };
        while let Some(at) = rest.find(&mut is_escaped) {
            let (head, tail) = rest.split_at(at);
            writer.write_all(head.as_bytes())?;
            let mut characters = tail.chars();
            for unit in characters
                .next()
                .unwrap_or_default()
                .encode_utf16(&mut [0; 2])
            {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// `serde_json::to_writer` with [`JsonFormatter`].
pub fn to_json_writer<W, T>(writer: W, value: &T) -> serde_json::Result<()>
where
    W: io::Write,
    T: ?Sized + serde::Serialize,
{
    value.serialize(&mut Serializer::with_formatter(writer, JsonFormatter))
}

/// `serde_json::to_string` with [`JsonFormatter`].
pub fn to_json_string<T: ?Sized + serde::Serialize>(value: &T) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    to_json_writer(&mut bytes, value)?;
    String::from_utf8(bytes).map_err(|error| serde_json::Error::io(io::Error::other(error)))
}
