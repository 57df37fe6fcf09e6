//! Quotes words for a shell, so that a pasted command has the same arguments.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use crate::is_shown;

/// A word that a shell reads back byte for byte: unquoted if it is plain, in `'…'`
/// if all characters can be printed, else in `$'…'` with escapes (bash, zsh, ksh;
/// POSIX.1-2024).
pub fn word(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=^".contains(byte);
    match word.to_str() {
        Some(text) if !text.is_empty() && bytes.iter().all(plain) => text.to_owned(),
        Some(text) if text.chars().all(is_shown) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => format!("$'{}'", dollar_quoted(bytes)),
    }
}

/// Same as [`word`], for a file's name: a name that begins with `-` gets the prefix
/// `./`, so that no command takes it for an option.
pub fn quoted(name: &OsStr) -> String {
    if !name.as_bytes().starts_with(b"-") {
        return word(name);
    }
    let mut path = OsString::from("./");
    path.push(name);
    word(&path)
}

fn dollar_quoted(bytes: &[u8]) -> String {
    let mut quoted = String::new();
    // An octal escape always ends after three digits; a hexadecimal one does not.
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
