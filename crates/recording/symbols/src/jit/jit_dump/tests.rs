//! Reads dumps that the tests write record by record, according to the specification.

use super::*;
use std::io::Write;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn header(flags: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [MAGIC, 1, HEADER as u32, 62, 0, 7] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(words(&[5, flags]));
    bytes
}

fn record(kind: u32, time: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(((RECORD_HEADER + body.len()) as u32).to_le_bytes());
    bytes.extend(time.to_le_bytes());
    bytes.extend(body);
    bytes
}

fn load(time: u64, start: u64, size: u64, code: u64, name: &str) -> Vec<u8> {
    // Process and thread share a word; the address occurs twice.
    let mut body = words(&[7 << 32 | 7, start, start, size, code]);
    body.extend(name.as_bytes());
    body.push(0);
    body.extend(vec![0xcc; size as usize]);
    record(CODE_LOAD, time, &body)
}

fn moved(time: u64, from: u64, to: u64, size: u64, code: u64) -> Vec<u8> {
    record(
        CODE_MOVE,
        time,
        &words(&[7 << 32 | 7, to, from, to, size, code]),
    )
}

fn lines(code: u64, lines: &[(u64, u32, &[u8])]) -> Vec<u8> {
    let mut body = words(&[code, lines.len() as u64]);
    for (address, line, file) in lines {
        body.extend(address.to_le_bytes());
        body.extend(line.to_le_bytes());
        body.extend(0u32.to_le_bytes());
        body.extend(*file);
        body.push(0);
    }
    record(DEBUG_INFO, 0, &body)
}

fn dump(parts: &[Vec<u8>]) -> (tempfile::NamedTempFile, JitDump) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&parts.concat()).unwrap();
    let dump = JitDump::open(file.path()).unwrap();
    (file, dump)
}

fn name(dump: &JitDump, address: u64, time: u64) -> Option<String> {
    dump.code(address, time).map(|code| code.name.to_string())
}

#[test]
fn the_history_of_an_address_is_sorted_by_time() {
    let (_file, dump) = dump(&[
        header(0),
        load(30, 0x1000, 0x40, 1, "third"),
        load(10, 0x1000, 0x100, 2, "first"),
        load(20, 0x0ff0, 0x20, 3, "second, and shorter"),
    ]);
    let names = |address| -> Vec<(u64, String)> {
        let history = dump.history(address).into_iter();
        history
            .map(|(from, code)| (from, code.name.to_string()))
            .collect()
    };
    let of = |from, name: &str| (from, name.to_owned());
    let all = [
        of(10, "first"),
        of(20, "second, and shorter"),
        of(30, "third"),
    ];
    assert_eq!(names(0x1008), all);
    assert_eq!(names(0x1020), [of(10, "first"), of(30, "third")]);
    assert_eq!(names(0x5000), []);
    assert_eq!(dump.len(), 3);
}

#[test]
fn an_address_has_the_name_that_it_had_at_the_time() {
    let (mut file, mut dump) = dump(&[
        header(0),
        load(10, 0x1000, 0x100, 1, "first"),
        load(20, 0x1080, 0x10, 2, "inner"),
        moved(30, 0x1000, 0x5000, 0x100, 1),
        load(40, 0x1000, 0x40, 3, "second"),
    ]);
    assert_eq!(dump.clock(), JitClock::Monotonic);
    assert_eq!(name(&dump, 0x1000, 9), None);
    assert_eq!(name(&dump, 0x1000, 10).as_deref(), Some("first"));
    assert_eq!(name(&dump, 0x1084, 19).as_deref(), Some("first"));
    assert_eq!(name(&dump, 0x1084, 25).as_deref(), Some("inner"));
    assert_eq!(name(&dump, 0x5010, 29), None);
    assert_eq!(name(&dump, 0x5010, 30).as_deref(), Some("first"));
    assert_eq!(name(&dump, 0x1000, 50).as_deref(), Some("second"));
    let added = load(60, 0x1000, 0x40, 4, "third");
    file.write_all(&added[..added.len() - 1]).unwrap();
    dump.refresh().unwrap();
    assert_eq!(
        name(&dump, 0x1000, 60).as_deref(),
        Some("second"),
        "the record is incomplete"
    );
    file.write_all(&added[added.len() - 1..]).unwrap();
    dump.refresh().unwrap();
    assert_eq!(name(&dump, 0x1000, 60).as_deref(), Some("third"));
    assert_eq!(name(&dump, 0x1000, 59).as_deref(), Some("second"));
}

#[test]
fn lines_come_before_their_code() {
    let (_file, dump) = dump(&[
        header(ARCH_TIMESTAMP),
        lines(
            0x1000,
            &[
                (0x1000, 3, b"/srv/a.js"),
                (0x1010, 4, b"\xff"),
                (0x1100, 5, b"b.js"),
            ],
        ),
        load(1, 0x1000, 0x120, 1, "f"),
    ]);
    assert_eq!(dump.clock(), JitClock::TimeStampCounter);
    let frame = dump.code(0x1012, 5).unwrap().frame(0x1012);
    assert_eq!(
        (&*frame.function, &*frame.file, frame.line),
        ("f", "/srv/a.js", 4)
    );
    assert_eq!(frame.offset, Some(0x12));
    assert_eq!(dump.code(0x100f, 5).unwrap().line, 3);
    let last = dump.code(0x1104, 5).unwrap();
    assert_eq!((&*last.file, last.line), ("b.js", 5));
}

#[test]
fn damage_loses_names_only() {
    let whole = [
        header(0),
        lines(0x1000, &[(0x1000, 3, b"a.js")]),
        load(10, 0x1000, 0x100, 1, "first"),
        moved(30, 0x1000, 0x5000, 0x100, 1),
    ]
    .concat();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for at in 0..whole.len() {
        for value in [0, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            file.as_file_mut().set_len(0).unwrap();
            file.as_file().write_all_at(&damaged, 0).unwrap();
            if let Ok(dump) = JitDump::open(file.path()) {
                for address in [0, 0x1000, 0x5000, u64::MAX] {
                    let _ = dump.code(address, u64::MAX);
                }
            }
        }
        file.as_file_mut().set_len(at as u64).unwrap();
        let _ = JitDump::open(file.path());
    }
    assert!(JitDump::open(Path::new("/dev/null")).is_err());
}

#[test]
fn a_dump_is_recognised_by_its_name() {
    for (path, expected) in [
        ("/tmp/jit-17.dump", true),
        ("/home/u/.debug/jit/x/jit-1.dump", true),
        ("jit-.dump", false),
        ("/tmp/jit-17.dump.old", false),
        ("/tmp/profit-17.dump", false),
    ] {
        assert_eq!(JitDump::is_marker(path), expected, "{path}");
    }
}
