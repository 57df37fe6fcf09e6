//! The files, by format.

use std::fmt::Write as _;

use super::names::doubling;
use super::packed::{gzip, repeated, zstd};
use super::protobuf::Message;

/// The deepest stack that is read.
const MAX_DEPTH: u64 = 65_536;

/// How to make a file.
pub struct Recipe {
    pub name: &'static str,
    /// The file is beyond a limit. Others are read, whatever that costs.
    pub is_refused: bool,
    make: fn() -> Vec<u8>,
}

impl Recipe {
    /// The bytes of the file.
    pub fn make(&self) -> Vec<u8> {
        (self.make)()
    }
}

const fn refused(name: &'static str, make: fn() -> Vec<u8>) -> Recipe {
    Recipe {
        name,
        is_refused: true,
        make,
    }
}

const fn read(name: &'static str, make: fn() -> Vec<u8>) -> Recipe {
    Recipe {
        name,
        is_refused: false,
        make,
    }
}

/// All of them.
pub const BOMBS: &[Recipe] = &[
    refused("zstd: zstd in zstd", zstd_in_zstd),
    refused("gzip: gzip in gzip", gzip_in_gzip),
    refused("zstd: one in another that holds nothing", empty_frames),
    refused("folded: three million stacks", || {
        zstd(&folded_stacks(3_000_000))
    }),
    read("folded: as many stacks as are read", || {
        zstd(&folded_stacks(400_000))
    }),
    read("folded: nested thunks", nested_thunks),
    read("folded: short names of long ones", long_names),
    read("folded: deep stacks", deep_folded),
    refused("dtrace: three million stacks", || {
        zstd(&dtrace_stacks(3_000_000))
    }),
    refused("bpftrace: three million stacks", || {
        zstd(&bpftrace_stacks(3_000_000))
    }),
    read("bpftrace: long names of maps", bpftrace_maps),
    refused("pprof: deep stacks of few bytes", deep_samples),
    refused("pprof: a deep location in all stacks", deep_location),
    refused("pprof: one long name in all frames", long_string),
    refused("pprof: many empty samples", || gzip_samples(40_000_000)),
    read("pprof: as many samples as are read", pprof_samples),
    refused("heaptrack: all prefixes of a deep stack", heaptrack_chain),
    refused("heaptrack: many events", heaptrack_events),
    refused(
        "heaptrack_print: many stacks below a deep place",
        deep_place,
    ),
    read("DHAT: deep stacks of one address", one_address),
    read("DHAT: a long name in a deep stack", long_dhat_name),
    refused("DHAT: many points", dhat_points),
    refused("heap profile: a long path in many names", long_path),
    refused("heap profile: long comments", long_comments),
    refused("JSON: deep stacks", json_stacks),
    refused("JSON: nothing of interest", json_tokens),
];

/// Ends of lines, which take the least data.
fn zstd_in_zstd() -> Vec<u8> {
    let inner = repeated(zstd, b"main;f 1\n", &[b'\n'; 32 << 20], 64);
    zstd(&inner)
}

fn gzip_in_gzip() -> Vec<u8> {
    gzip(&repeated(gzip, b"main;f 1\n", &[b'\n'; 32 << 20], 64))
}

/// The outer layer unpacks to empty frames, which unpack to nothing at all.
fn empty_frames() -> Vec<u8> {
    let empty = zstd(b"").repeat(1 << 20);
    let times = (2 << 30) / empty.len();
    repeated(zstd, &zstd(b""), &empty, times)
}

fn folded_stacks(count: usize) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..count {
        let _ = writeln!(text, "main;{number:x} 1");
    }
    text.into()
}

fn nested_thunks() -> Vec<u8> {
    let name = "virtual thunk to ".repeat(900_000);
    zstd(format!("main;f 1\nmain;{name}a::f(int) 1\n").as_bytes())
}

/// Each of them alone is below the limit of one name.
fn long_names() -> Vec<u8> {
    let mut text = String::new();
    for number in 0..50_000 {
        let _ = writeln!(text, "main;{} 1", doubling(number, 15));
    }
    text.into()
}

fn deep_folded() -> Vec<u8> {
    let mut text = String::new();
    for stack in 0..20 {
        for frame in 0..65_000 {
            let _ = write!(text, "{:x};", frame + stack);
        }
        text.push_str("f 1\n");
    }
    text.into()
}

fn dtrace_stacks(count: usize) -> Vec<u8> {
    let mut text = String::from("\n");
    for number in 0..count {
        let _ = write!(text, "  a`{number:x}\n  1\n\n");
    }
    text.into()
}

fn bpftrace_stacks(count: usize) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..count {
        let _ = write!(text, "@[\n {number:x}\n]: 1\n");
    }
    text.into()
}

/// Maps that are left out, with a note for each.
fn bpftrace_maps() -> Vec<u8> {
    let long = "x".repeat(100_000);
    let mut text = String::new();
    for number in 0..500 {
        let _ = write!(text, "@free{number}{long}[\n f\n]: 1\n");
    }
    text.push_str("@[\n f\n]: 1\n");
    zstd(text.as_bytes())
}

fn deep_samples() -> Vec<u8> {
    let profile = Message::profile(&["f"])
        .function(1, 2)
        .location(1, [(1, 1)]);
    let profile = profile.location(2, [(1, 2)]);
    // One more than 10 million frames, each stack another one.
    let count = 10_000_000 / (MAX_DEPTH - 200) + 1;
    let samples = (0..count).fold(profile, |profile, number| {
        let locations = (0..MAX_DEPTH - 200).map(|at| 1 + u64::from(at == number));
        profile.sample(locations)
    });
    gzip(&samples.0)
}

fn deep_location() -> Vec<u8> {
    let lines = (0..60_000).map(|line| (1, line));
    let profile = Message::profile(&["f"]).function(1, 2).location(1, lines);
    let samples = (0..1_000_000).fold(profile, |profile, _| profile.sample([1]));
    gzip(&samples.0)
}

/// Four million bytes for each of 60,000 lines, all of them the same.
fn long_string() -> Vec<u8> {
    let name = "f".repeat(4_000_000);
    let profile = Message::profile(&[&name]).function(1, 2);
    let profile = profile.location(1, (0..60_000).map(|_| (1, 1)));
    gzip(&profile.sample([1]).0)
}

fn gzip_samples(count: usize) -> Vec<u8> {
    let start = Message::profile(&["f"])
        .function(1, 2)
        .location(1, [(1, 1)]);
    let sample = Message::default().sample([1]).0;
    repeated(gzip, &start.0, &sample.repeat(count / 10), 10)
}

/// Some 200,000 stacks of 40 frames each.
fn pprof_samples() -> Vec<u8> {
    let mut profile = Message::profile(&["f"]).function(1, 2);
    for line in 0..100 {
        profile = profile.location(1 + line, [(1, line)]);
    }
    for number in 0..200_000_u64 {
        let frames = (0..40).map(|at| 1 + (number >> (at % 18) & 1) * 50 + at);
        profile = profile.sample(frames);
    }
    gzip(&profile.0)
}

fn heaptrack_start() -> String {
    String::from("v 10400 3\nX ./p\ns 1 f\ni 10 0 1\n")
}

/// Each node of a stack of 60,000 frames has an allocation.
fn heaptrack_chain() -> Vec<u8> {
    let mut text = heaptrack_start();
    for parent in 0..60_000 {
        let _ = write!(
            text,
            "t 1 {parent:x}\na 10 {:x}\n+ {parent:x}\n",
            parent + 1
        );
    }
    zstd(text.as_bytes())
}

fn heaptrack_events() -> Vec<u8> {
    let start = heaptrack_start() + "t 1 0\na 0 1\n";
    let events = b"+ 0\n- 0\n".repeat(4 << 20);
    repeated(zstd, start.as_bytes(), &events, 32)
}

fn deep_place() -> Vec<u8> {
    let mut text = String::from("9 calls to allocation functions with 0B peak consumption from\n");
    for frame in 0..60_000 {
        let _ = writeln!(text, "{frame:x}");
    }
    for _ in 0..150_000 {
        text.push_str("1 calls with 0B peak consumption from:\n    g\n");
    }
    text.into()
}

fn dhat(points: impl IntoIterator<Item = String>, frames: &[String]) -> Vec<u8> {
    let mut text = String::from(
        r#"{"dhatFileVersion":2,"mode":"heap","bklt":false,"tu":"us","cmd":"p","ftbl":["#,
    );
    let frames: Vec<String> = frames.iter().map(|it| format!("\"{it}\"")).collect();
    text.push_str(&frames.join(","));
    text.push_str(r#"],"pps":["#);
    for (number, frames) in points.into_iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(text, r#"{comma}{{"tb":1,"tbk":1,"fs":[{frames}]}}"#);
    }
    text.push_str("]}");
    zstd(text.as_bytes())
}

/// All frames of each stack look inlined into the next one.
fn one_address() -> Vec<u8> {
    let frames: Vec<String> = (0..60_000)
        .map(|number| format!("0x1: f{number}"))
        .collect();
    let stack: Vec<String> = (0..60_000).map(|number: u32| number.to_string()).collect();
    let stack = stack.join(",");
    dhat((0..150).map(|_| stack.clone()), &frames)
}

fn long_dhat_name() -> Vec<u8> {
    let frames = [format!("0x1: {}", "f".repeat(8 << 20))];
    dhat([vec!["0"; 60_000].join(",")], &frames)
}

fn dhat_points() -> Vec<u8> {
    let frames: Vec<String> = (0..3_000_000).map(|number| format!("{number:x}")).collect();
    dhat(
        (0..3_000_000).map(|number: u32| number.to_string()),
        &frames,
    )
}

fn long_path() -> Vec<u8> {
    let mut text = String::from("heap profile: 1: 1 [1: 1] @ heapprofile\n");
    for number in 0..200_000 {
        let _ = writeln!(text, "1: 1 [1: 1] @ 0x{number:x}");
    }
    let path = "p".repeat(1 << 20);
    let _ = write!(
        text,
        "MAPPED_LIBRARIES:\n0-ffffffff r-xp 0 00:00 1 {path}\n"
    );
    zstd(text.as_bytes())
}

fn long_comments() -> Vec<u8> {
    let start = b"heap profile: 1: 1 [1: 1] @ heap/2\n1: 1 [1: 1] @ 0x1\n";
    let comment = format!("#\t0x1\t{}+0x1\n", "f".repeat(16 << 10));
    repeated(zstd, start, comment.repeat(1_000).as_bytes(), 40)
}

const JSON: &str = r#"{"format":"allotrope-stacks/1","title":"t","metrics":["allocations"],"frames":[{"function":"f","signature":"","module":"","file":"","line":0,"column":0,"offset":null,"inlined":false}],"#;

fn json_stacks() -> Vec<u8> {
    let stack = format!(
        r#"{{"stack":[{}],"figures":[1]}}"#,
        vec!["0"; 60_000].join(",")
    );
    zstd(format!("{JSON}\"stacks\":[{}]}}", vec![stack; 200].join(",")).as_bytes())
}

fn json_tokens() -> Vec<u8> {
    let start = format!("{JSON}\"other\":[[]");
    repeated(zstd, start.as_bytes(), &b",[]".repeat(8 << 20), 64)
}
