//! Words for a shell: what the reader pastes is what was meant.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use crate::is_shown;

/// A file's name or an argument as a word that a shell reads back byte for
/// byte: as it is where that is plain, in `'…'` where all of it is shown as it
/// is, else in `$'…'` with its escapes (bash, zsh, ksh; POSIX.1-2024).
///
/// A name that begins with `-` gets `./` before it.
pub fn quoted(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    let dash = if bytes.starts_with(b"-") { "./" } else { "" };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(byte);
    let text = word.to_str();
    match text {
        Some(text) if dash.is_empty() && !text.is_empty() && bytes.iter().all(plain) => {
            text.to_owned()
        }
        Some(text) if text.chars().all(is_shown) => {
            format!("'{dash}{}'", text.replace('\'', r"'\''"))
        }
        _ => format!("$'{dash}{}'", dollar_quoted(bytes)),
    }
}

fn dollar_quoted(bytes: &[u8]) -> String {
    let mut quoted = String::new();
    // Three octal digits end an escape whatever follows; hexadecimal ones need not.
    let octal = |bytes: &[u8], quoted: &mut String| {
        for byte in bytes {
            let _ = write!(quoted, "\\{byte:03o}");
        }
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                c if is_shown(c) => quoted.push(c),
                c => octal(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut quoted),
            }
        }
        octal(chunk.invalid(), &mut quoted);
    }
    quoted
}
