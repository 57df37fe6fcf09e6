//! Recognises a file's format by its first bytes, never by its name.
//!
//! Compressed files and binary formats have magic bytes, JSON formats a key
//! near the start, text formats a line that only one tool writes. The output of
//! the profiled program may precede that line.

use crate::foreign::{self, Foreign};
use crate::format::Format;
use crate::readers::{
    bpftrace, dtrace, folded, heap_profile, heaptrack, heaptrack_print, massif, pprof,
};

/// The result of recognition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognised {
    /// The file has no bytes.
    Empty,
    /// A recording of Allotrope.
    Trace,
    /// A gzip file.
    Gzip,
    /// A Zstandard file.
    Zstd,
    /// A format that this crate reads.
    Format(Format),
    /// Output of a tool that cannot be read.
    Foreign(Foreign),
    /// Text; these bytes match no known format.
    UnknownText,
    /// Binary data of no known format.
    UnknownBinary,
}

const TRACE: &[u8] = b"ALLOTROP";
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Recognises a file by its first bytes. 64 KiB nearly always suffice, but text
/// formats may follow program output of any length.
pub fn recognise(first_bytes: &[u8]) -> Recognised {
    for (magic, what) in [
        (TRACE, Recognised::Trace),
        (GZIP, Recognised::Gzip),
        (ZSTD, Recognised::Zstd),
    ] {
        if first_bytes.starts_with(magic) {
            return what;
        }
    }
    if first_bytes.is_empty() {
        Recognised::Empty
    } else if is_binary(first_bytes) {
        if pprof::begins(first_bytes) {
            Recognised::Format(Format::Pprof)
        } else {
            Recognised::UnknownBinary
        }
    } else {
        let text = String::from_utf8_lossy(first_bytes);
        if let Some(foreign) = foreign::recognise(text.lines()) {
            return Recognised::Foreign(foreign);
        }
        text_format(first_bytes).map_or(Recognised::UnknownText, Recognised::Format)
    }
}

/// Control characters that do not occur in text. Escape and backspace do:
/// programs write them to terminals.
fn is_binary(bytes: &[u8]) -> bool {
    let window = &bytes[..bytes.len().min(64 << 10)];
    let odd = |byte: &u8| *byte < 0x20 && !matches!(*byte, b'\t' | b'\n' | b'\r' | 0x1b | 8 | 0xc);
    window.iter().any(odd)
}

fn text_format(bytes: &[u8]) -> Option<Format> {
    if let Some(format) = json_format(bytes) {
        return Some(format);
    }
    let complete = bytes.ends_with(b"\n");
    let text = String::from_utf8_lossy(bytes);
    let lines = || text.lines();
    if heaptrack::begins(lines()) {
        return Some(Format::Heaptrack);
    }
    if massif::begins(lines()) {
        return Some(Format::Massif);
    }
    [
        (Format::Bpftrace, bpftrace::first_sign(lines())),
        (Format::HeapProfile, heap_profile::first_sign(lines())),
        (Format::HeaptrackPrint, heaptrack_print::first_sign(lines())),
        (Format::Dtrace, dtrace::first_sign(lines())),
    ]
    .into_iter()
    .filter_map(|(format, line)| Some((line?, format)))
    .min_by_key(|(line, _)| *line)
    .map(|(_, format)| format)
    .or_else(|| folded::begins(lines(), complete).then_some(Format::Folded))
}

/// A JSON format, by a key that may be anywhere in these bytes.
fn json_format(bytes: &[u8]) -> Option<Format> {
    let start = bytes.trim_ascii_start();
    if !start.starts_with(b"{") {
        return None;
    }
    let contains = |word: &[u8]| start.windows(word.len()).any(|window| window == word);
    if contains(b"\"dhatFileVersion\"") {
        Some(Format::Dhat)
    } else if contains(b"\"allotrope-stacks/") {
        Some(Format::Json)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(text: &str) -> Recognised {
        recognise(text.as_bytes())
    }

    #[test]
    fn binary_formats_have_magic_numbers() {
        assert_eq!(recognise(b""), Recognised::Empty);
        assert_eq!(recognise(b"ALLOTROP\x01\0\0\0"), Recognised::Trace);
        assert_eq!(recognise(&[0x1f, 0x8b, 8]), Recognised::Gzip);
        assert_eq!(recognise(&[0x28, 0xb5, 0x2f, 0xfd, 0]), Recognised::Zstd);
    }

    #[test]
    fn each_format_is_recognised_by_its_contents() {
        for (text, expected) in [
            ("\n   lib`f+0x1\n   3\n", Format::Dtrace),
            (
                "Attaching 2 probes...\n@m[\n    f+1\n]: 3\n",
                Format::Bpftrace,
            ),
            (
                "3 calls with 1.00K peak consumption from:\n    f\n      in /p\n",
                Format::HeaptrackPrint,
            ),
            (
                "heap profile: 1: 16 [2: 32] @ heapprofile\n",
                Format::HeapProfile,
            ),
            ("heap_v2/524288\n  t*: 1: 16 [0: 0]\n", Format::HeapProfile),
            (
                "desc: (none)\ncmd: ./p\ntime_unit: i\n#---\n",
                Format::Massif,
            ),
            ("v 10400 3\nX ./p\nI 1000 5\n", Format::Heaptrack),
            ("{\"dhatFileVersion\":2\n,\"mode\":\"heap\"", Format::Dhat),
            ("main;f;g 3\nmain;f 4\n", Format::Folded),
            (" {\"format\":\"allotrope-stacks/1\"", Format::Json),
        ] {
            assert_eq!(format(text), Recognised::Format(expected), "{text}");
        }
    }

    #[test]
    fn a_programs_own_output_may_precede_the_stacks() {
        let noise = "Time: 5, Allocated: 7\n  42\n".repeat(3000);
        assert_eq!(
            format(&format!("{noise}\n   lib`f\n   3\n")),
            Recognised::Format(Format::Dtrace)
        );
    }

    #[test]
    fn other_files_are_unknown() {
        for text in [
            "hello\n",
            "   42\n",
            "Time: 5, Allocated: 7\n",
            "{\"a\":1}",
            "main 3\n",
            "total:\n     42\n",
            "\n\n",
        ] {
            assert_eq!(format(text), Recognised::UnknownText, "{text}");
        }
        assert_eq!(
            recognise(b"\x7fELF\x02\x01\x01\0"),
            Recognised::UnknownBinary
        );
        assert_eq!(recognise(&[0; 100]), Recognised::UnknownBinary);
    }
}
