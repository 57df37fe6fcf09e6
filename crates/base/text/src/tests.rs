use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use super::*;

#[test]
fn plain_text_is_unchanged() {
    for text in [
        "",
        "std::vec<int>::push_back",
        "größe, 日本語\u{3000}x, a\u{301}, ❤\u{fe0f}, 5\u{a0}kB",
        r"C:\x1b",
    ] {
        assert!(
            matches!(shown(text), Cow::Borrowed(same) if same == text),
            "{text}"
        );
    }
}

#[test]
fn control_and_misleading_characters_are_escaped() {
    assert_eq!(shown("a\x1b[2Jb\n\r\t\0\x7f"), r"a\x1b[2Jb\n\r\t\x00\x7f");
    assert_eq!(shown("\u{9b}31m \u{85}"), r"\u{9b}31m \u{85}");
    // Bidirectional characters, line separators, invisible and private characters.
    for c in [
        '\u{202a}',
        '\u{202e}',
        '\u{2066}',
        '\u{2069}',
        '\u{200e}',
        '\u{200f}',
        '\u{61c}',
        '\u{2028}',
        '\u{2029}',
        '\u{200b}',
        '\u{200d}',
        '\u{feff}',
        '\u{ad}',
        '\u{2060}',
        '\u{3164}',
        '\u{e0041}',
        '\u{e0100}',
        '\u{fff9}',
        '\u{e000}',
        '\u{34f}',
    ] {
        let text = format!("x{c}y");
        assert_eq!(shown(&text), format!("x\\u{{{:x}}}y", u32::from(c)));
    }
}

#[test]
fn shown_lines_keeps_lines_and_tabs() {
    assert_eq!(shown_lines("a\tb\nc\x1b[m\r"), "a\tb\nc\\x1b[m\\r");
    assert_eq!(shown_with_tabs("a\tb\nc\x1b"), "a\tb\\nc\\x1b");
}

#[test]
fn bytes_that_are_not_utf8_are_shown_in_hexadecimal() {
    assert_eq!(
        shown_bytes(b"caf\xe9/\x1b\xff\xfe"),
        r"caf\xe9/\x1b\xff\xfe"
    );
    assert_eq!(text_of(b"caf\xe9/\x1b"), "caf\\xe9/\x1b");
    assert_eq!(shown_bytes("é".as_bytes()), "é");
}

#[test]
fn json_has_the_same_value_and_no_control_characters() {
    let value = "a\u{202e}b\u{9b}\x7f\u{e0041}é\n\"";
    let json = to_json_string(value).unwrap();
    assert_eq!(json, r#""a\u202eb\u009b\u007f\udb40\udc41é\n\"""#);
    assert_eq!(serde_json::from_str::<String>(&json).unwrap(), value);
}

#[test]
fn json_has_no_command_of_a_ci_system() {
    let value = "::a ##vso[b]c ###[d] #\u{fe0f}#[e] # # é##";
    let json = to_json_string(value).unwrap();
    assert!(!json.contains("##"), "{json}");
    assert_eq!(serde_json::from_str::<String>(&json).unwrap(), value);
}

#[test]
fn a_shell_reads_the_quoted_words_back() {
    assert_eq!(quoted(OsStr::new("ls.12.allotrope")), "ls.12.allotrope");
    assert_eq!(quoted(OsStr::new("a b")), "'a b'");
    assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
    assert_eq!(quoted(OsStr::new("-x")), "./-x");
    assert_eq!(word(OsStr::new("-x")), "-x");
    assert_eq!(word(OsStr::new("")), "''");
    let raw = OsString::from_vec(b"-a'\\\n\x1b[2J\xff1\xe2\x80\xae$(x)".to_vec());
    assert_eq!(quoted(&raw), r"$'./-a\'\\\n\033[2J\3771\342\200\256$(x)'");
    if Command::new("bash").arg("-c").arg(":").status().is_err() {
        eprintln!("skipped: there is no bash to read the words back");
        return;
    }
    let script = format!("printf %s {}", quoted(&raw));
    let output = Command::new("bash").arg("-c").arg(script).output().unwrap();
    assert_eq!(output.stdout, [b"./", raw.as_bytes()].concat());
}

/// Writes the text to a [`TextWriter`] in pieces of `piece` bytes; returns its output.
fn filtered(text: &[u8], piece: usize, color: bool) -> String {
    use std::io::Write;
    let mut out = Vec::new();
    let mut writer = TextWriter::new(&mut out, color);
    for piece in text.chunks(piece) {
        writer.write_all(piece).unwrap();
    }
    writer.flush().unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_writer_escapes_alike_wherever_the_text_is_split() {
    let text = "é\u{202e}\t\x1b[1;31mred\x1b[0m\x1b[2J\n\u{9b}\x1b".as_bytes();
    let text = [text, b"\xff\x1b[3"].concat();
    for piece in 1..text.len() {
        assert_eq!(
            filtered(&text, piece, true),
            "é\\u{202e}\t\x1b[1;31mred\x1b[0m\\x1b[2J\n\\u{9b}\\x1b\\xff\\x1b[3"
        );
        assert_eq!(
            filtered(&text, piece, false),
            "é\\u{202e}\t\\x1b[1;31mred\\x1b[0m\\x1b[2J\n\\u{9b}\\x1b\\xff\\x1b[3"
        );
    }
}

#[test]
fn a_command_in_backticks_is_one_word() {
    let words = |text| words(text).collect::<Vec<_>>();
    assert_eq!(words("run `a b`; then c"), ["run", "`a b`;", "then", "c"]);
    assert_eq!(words("no `end of it"), ["no", "`end", "of", "it"]);
    assert_eq!(words("  two "), ["", "", "two", ""]);
    assert_eq!(words(""), [""]);
}
