//! Damaged input: every reader returns an error or stacks, and never panics, hangs or
//! exhausts memory. A short form of the fuzz target `read`: the changes of the input are
//! determined by a fixed seed.

use std::io::Write as _;

use allotrope_formats::{ExportOptions, Input, Location, Problem, exporter, read_bytes};

const DTRACE: &str = "noise\n  42\n\n   lib`f+0x1\n   app`main+0x20\n     17\n\n   lib`g\n     3\n";
const BPFTRACE: &str =
    "Attaching...\n@m[\n    _ZN1a1bEi+1\n    0x7f00\n]: 5\n@bytes[\n    f+2\n, comm]: 64\n";
const HEAPTRACK: &str = "v 10400 3\nX ./p\ns 1 f\ns 4 main\ni 10 1 2 1 a 1 1 3\nt 1 0\ni 20 2\nt 2 1\na 10 2\na 20 1\n+ 0\n+ 1\n- 0\nc 5\n";
const PRINTED: &str = "Debuggee command was: ./p\n\n3 calls to allocation functions with 1.20K peak consumption from\nleaf\n  at p.c:3\n  in /p\n2 calls with 1.00K peak consumption from:\n    main\n      at p.c:4\n      in /p\n  and 1 from 1 other places\n\ntotal runtime\ncalls to allocation functions: 3 (1/s)\n";
const FOLDED: &str = "main;f;g 17\nmain;f (a.c) 3\n";
const DHAT: &str = "{\"dhatFileVersion\":2,\"mode\":\"heap\",\"bklt\":true,\"tu\":\"us\",\"cmd\":\"p\",\"pps\":[{\"tb\":5,\"tbk\":1,\"tl\":3,\"gb\":5,\"gbk\":1,\"eb\":0,\"ebk\":0,\"fs\":[1,2]}],\"ftbl\":[\"[root]\",\"0x1: f (a.c:3:1)\",\"0x2: main (in /p)\"]}\n";
const GPERFTOOLS: &str = "heap profile: 3: 48 [ 5: 80] @ heap_v2/512\n 2: 32 [ 4: 64] @ 0x1010 0x2020\n 1: 16 [ 1: 16] @ 0x2020\n\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00001000 00:00 12 /srv/app\n2000-3000 r--p 00000000 00:00 13 /srv/lib b.so\n";
const GO: &str = "heap profile: 2: 32 [4: 64] @ heap/2\n2: 32 [4: 64] @ 0x11 0x21 0x31\n#\t0x10\tmain.f+0x8\t/a.go:3\n#\t0x20\tmain.main+0x18\t/a.go:9\n\n# runtime.MemStats\n";
const JEMALLOC: &str = "heap_v2/524288\n  t*: 3: 48 [0: 0]\n  t0: 3: 48 [0: 0]\n@ 0x1010 0x2020\n  t*: 3: 48 [0: 0]\n  t0: 3: 48 [0: 0]\n\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 00:00 12 /srv/app\n";

/// xorshift64*: the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound).unwrap()
    }
}

/// A sample of each text format, the output of each exporter for one of them, and the
/// compressed one decompressed.
fn samples() -> Vec<Vec<u8>> {
    let texts = [
        DTRACE, BPFTRACE, HEAPTRACK, PRINTED, FOLDED, DHAT, GPERFTOOLS, GO, JEMALLOC,
    ];
    let mut samples: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).into();
    let set = read_bytes("sample", HEAPTRACK.as_bytes()).unwrap().set;
    let input = Input::of_set(&set);
    // Some formats consist of what only recordings have.
    // Formats that are read, too.
    for name in ["folded", "stacks", "dhat", "pprof", "json"] {
        let exporter = exporter(name).unwrap();
        let mut out = Vec::new();
        let written = exporter.write(&input, &ExportOptions::default(), &mut out);
        match written {
            Ok(()) => samples.push(out),
            Err(error) => panic!("{}: {error}", exporter.name()),
        }
    }
    let zipped = samples
        .iter()
        .position(|sample| sample.starts_with(&[0x1f, 0x8b]));
    let mut plain = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&samples[zipped.unwrap()][..]);
    std::io::copy(&mut decoder, &mut plain).unwrap();
    samples.push(plain);
    samples
}

fn damage(sample: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for _ in 0..=numbers.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = numbers.below(bytes.len());
        match numbers.below(6) {
            0 => bytes[at] = u8::try_from(numbers.below(256)).unwrap(),
            1 => bytes.truncate(at),
            2 => {
                bytes.remove(at);
            }
            3 => bytes.insert(at, b"0f;\n`@[{\"9 -"[numbers.below(12)]),
            4 => {
                let end = at + numbers.below(bytes.len() - at + 1);
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let digits = "9".repeat(1 + numbers.below(30));
                bytes.splice(at..at, digits.into_bytes());
            }
        }
    }
    bytes
}

#[test]
fn every_undamaged_sample_is_read() {
    for sample in samples() {
        let read = read_bytes("sample", &sample[..]);
        assert!(
            read.is_ok(),
            "{:?}: {}",
            read,
            String::from_utf8_lossy(&sample)
        );
    }
}

#[test]
fn damaged_input_gives_stacks_or_an_error() {
    let mut numbers = Numbers(0x005e_ed0f_a110_7209);
    let samples = samples();
    let mut errors = 0;
    for round in 0..20_000 {
        let bytes = damage(&samples[round % samples.len()], &mut numbers);
        match read_bytes("damaged", &bytes[..]) {
            Ok(read) => {
                let frames = read.set.frames.len();
                let mut all = read.set.stacks.iter().flat_map(|stack| &*stack.frames);
                assert!(all.all(|frame| (*frame as usize) < frames));
            }
            Err(error) => {
                errors += 1;
                let text = error.to_string();
                assert!(text.starts_with("damaged"), "{text}");
                assert!(!text.contains('\n'), "{text}");
            }
        }
    }
    assert!(errors > 1000, "too little damage: {errors} errors");
}

fn problem(bytes: impl std::io::Read) -> (Location, Problem) {
    let error = read_bytes("file", std::io::BufReader::new(bytes)).unwrap_err();
    (error.location, error.problem)
}

#[test]
fn unreadable_files_get_a_message() {
    let text = |bytes: &[u8]| read_bytes("x.txt", bytes).unwrap_err().to_string();
    assert!(text(b"").starts_with("x.txt: the file is empty"));
    assert!(text(b"hello\n").starts_with("x.txt: the text is in no known form"));
    assert!(
        text(&[0, 1, 2, 3, 255]).starts_with("x.txt: the file is binary data of no known form")
    );
    assert!(text(b"ALLOTROP....").starts_with("x.txt: is an Allotrope recording"));
    assert!(text(b"a;b 1\na;b\n").starts_with("x.txt: the text is in no known form"));
    assert!(text(&[0x1f, 0x8b, 8, 0, 0]).starts_with("x.txt: cannot be read"));
    let missing = allotrope_formats::read(std::path::Path::new("/nowhere/x")).unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("/nowhere/x: cannot be read")
    );
}

/// Endless input: `start`, then `rest` again and again.
fn endless(start: &'static [u8], rest: &'static [u8]) -> impl std::io::Read {
    use std::io::Read as _;
    struct Cycle(&'static [u8], usize);
    impl std::io::Read for Cycle {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            for byte in buffer.iter_mut() {
                *byte = self.0[self.1 % self.0.len()];
                self.1 += 1;
            }
            Ok(buffer.len())
        }
    }
    start.chain(Cycle(rest, 0))
}

#[test]
fn an_endless_line_is_refused() {
    for (start, rest, line) in [
        (&b""[..], &b"x"[..], 1),
        (b"", b"main;", 1),
        (b"main;f 3\n", b"main;", 2),
        (b"\n   a`f\n   3\n", b" x`", 4),
        (b"@m[\n", b" f", 2),
        (b"v 10400 3\n", b"s", 2),
        (b"heap profile: 1: 1 [1: 1] @ heap/2\n", b" 1:", 2),
    ] {
        let (location, problem) = problem(endless(start, rest));
        assert_eq!(location, Location::Line(line));
        assert!(matches!(problem, Problem::LineTooLong(_)), "{problem}");
    }
}

#[test]
fn an_endless_stack_is_refused() {
    for (start, rest) in [
        (&b"\n   a`f\n   3\n"[..], &b"  a`f\n"[..]),
        (b"@m[\n", b"  f\n"),
        (
            b"heap profile: 1: 1 [1: 1] @ heap/2\n1: 1 [1: 1] @ 0x1\n",
            b"#\t0x1\tf+0x1\n",
        ),
        (
            b"1 calls to allocation functions with 0B peak consumption from\n",
            b"f\n",
        ),
    ] {
        let (_, problem) = problem(endless(start, rest));
        assert!(matches!(problem, Problem::TooMuch { .. }), "{problem}");
    }
}

#[test]
fn a_decompression_bomb_does_not_exhaust_memory() {
    // A line of 64 MiB in 64 KiB.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        encoder.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 128 << 10);
    let (location, found) = problem(&bomb[..]);
    assert_eq!(location, Location::Line(1));
    assert!(matches!(found, Problem::LineTooLong(_)));

    let mut nested = FOLDED.as_bytes().to_vec();
    for _ in 0..3 {
        nested = zstd::bulk::compress(&nested, 1).unwrap();
    }
    assert!(matches!(problem(&nested[..]).1, Problem::Nested(_)));
}

#[test]
fn compressed_files_are_read_like_plain_ones() {
    let plain = read_bytes("plain", HEAPTRACK.as_bytes()).unwrap();
    let zstd = zstd::bulk::compress(HEAPTRACK.as_bytes(), 3).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(HEAPTRACK.as_bytes()).unwrap();
    for bytes in [zstd, gzip.finish().unwrap()] {
        assert_eq!(read_bytes("packed", &bytes[..]).unwrap().set, plain.set);
    }
}
