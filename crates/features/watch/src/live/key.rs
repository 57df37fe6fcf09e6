//! A key, and the bytes that a terminal sends for it (ECMA-48; xterm, "Control Sequences").

/// A key that the view knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// A letter with the control key.
    Control(char),
    /// The cursor key.
    Up,
    /// The cursor key.
    Down,
    /// The page before.
    PageUp,
    /// The next page.
    PageDown,
    /// The first line.
    Home,
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Backspace.
    Backspace,
}

/// The beginning of what a terminal has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// A key, or one that the view does not know, and its bytes.
    Key(Option<Key>, usize),
    /// More bytes are needed, unless no more come: a cursor key begins as the escape key does.
    Incomplete,
}

impl Key {
    /// The first key of these bytes, of which there is at least one.
    pub fn first(bytes: &[u8]) -> First {
        let one = |key| First::Key(Some(key), 1);
        match *bytes {
            [0x1b] | [] => First::Incomplete,
            [0x1b, b'[', ..] => sequence(bytes),
            // "Application" cursor keys.
            [0x1b, b'O'] => First::Incomplete,
            [0x1b, b'O', last, ..] => First::Key(of_sequence(last, b""), 3),
            [0x1b, ..] => one(Key::Esc),
            [b'\r' | b'\n', ..] => one(Key::Enter),
            [0x7f | 0x08, ..] => one(Key::Backspace),
            [b'\t' | 0 | 0x1c..=0x1f, ..] => First::Key(None, 1),
            [control @ 1..=26, ..] => one(Key::Control(char::from(control - 1 + b'a'))),
            [ascii @ ..0x80, ..] => one(Key::Char(char::from(ascii))),
            _ => character(bytes),
        }
    }
}

/// A control sequence: `ESC [`, parameters, and a last byte.
fn sequence(bytes: &[u8]) -> First {
    let rest = &bytes[2..];
    match rest.iter().position(|it| (0x40..=0x7e).contains(it)) {
        Some(last) => First::Key(of_sequence(rest[last], &rest[..last]), last + 3),
        None => First::Incomplete,
    }
}

fn of_sequence(last: u8, parameters: &[u8]) -> Option<Key> {
    // After a semicolon come the modifiers.
    let first = parameters.split(|it| *it == b';').next();
    match (last, first.unwrap_or_default()) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'H', _) | (b'~', b"1" | b"7") => Some(Key::Home),
        (b'M', _) => Some(Key::Enter),
        (b'~', b"5") => Some(Key::PageUp),
        (b'~', b"6") => Some(Key::PageDown),
        _ => None,
    }
}

/// A character of more than one byte.
fn character(bytes: &[u8]) -> First {
    let bytes = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => match (error.valid_up_to(), error.error_len()) {
            (0, None) => return First::Incomplete,
            (0, Some(wrong)) => return First::Key(None, wrong),
            (valid, _) => std::str::from_utf8(&bytes[..valid]).unwrap_or_default(),
        },
    };
    match valid.chars().next() {
        Some(c) => First::Key(Some(Key::Char(c)), c.len_utf8()),
        None => First::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_bytes_of_xterm() {
        for (bytes, key) in [
            (&b"q"[..], Key::Char('q')),
            (b"\xc3\xa9", Key::Char('é')),
            (b"\r", Key::Enter),
            (b"\x03", Key::Control('c')),
            (b"\x1a", Key::Control('z')),
            (b"\x7f", Key::Backspace),
            (b"\x1b[A", Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\x1b[1;5A", Key::Up),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[6~", Key::PageDown),
            (b"\x1b[H", Key::Home),
            (b"\x1b[1~", Key::Home),
        ] {
            let more = [bytes, b"x"].concat();
            for bytes in [bytes, &more[..]] {
                let length = more.len() - 1;
                assert_eq!(
                    Key::first(bytes),
                    First::Key(Some(key), length),
                    "{bytes:?}"
                );
            }
            for begin in 1..bytes.len() {
                assert_eq!(Key::first(&bytes[..begin]), First::Incomplete, "{bytes:?}");
            }
        }
    }

    #[test]
    fn an_escape_key_is_followed_by_another_key() {
        assert_eq!(Key::first(b"\x1bq"), First::Key(Some(Key::Esc), 1));
        assert_eq!(Key::first(b"\x1b\x1b"), First::Key(Some(Key::Esc), 1));
    }

    #[test]
    fn what_is_no_known_key_is_skipped_as_a_whole() {
        for bytes in [&b"\x1b[200~"[..], b"\x1b[C", b"\t", b"\xff", b"\x1bOP"] {
            assert_eq!(
                Key::first(bytes),
                First::Key(None, bytes.len()),
                "{bytes:?}"
            );
        }
    }
}
