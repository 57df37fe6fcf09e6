use super::*;
use crate::budget::Budget;
use crate::readers::tests::{describe, parse};

/// Written by gperftools 2.10 for a program that makes 100 allocations of 16 bytes and frees
/// them, and 7 of 1000 bytes that it keeps; most of the mappings were removed.
const GPERFTOOLS: &str = "\
heap profile:      7:     7000 [   107:     8600] @ heapprofile
     7:     7000 [     7:     7000] @ 0x55ef80f59182 0x55ef80f591a1 0x55ef80f591e1 0x7fc7b284524a
     0:        0 [   100:     1600] @ 0x55ef80f59182 0x55ef80f591b8 0x55ef80f591dc 0x7fc7b284524a

MAPPED_LIBRARIES:
55ef80f58000-55ef80f59000 r--p 00000000 00:00 10002496    /srv/gp
55ef80f59000-55ef80f5a000 r-xp 00001000 00:00 10002496    /srv/gp
55ef80f5a000-55ef80f5b000 r--p 00002000 00:00 10002496    /srv/gp
55efb3d70000-55efb4670000 rw-p 00000000 00:00 0           [heap]
7fc7b2390000-7fc7b2600000 rw-p 00000000 00:00 0           
7fc7b281e000-7fc7b2844000 r--p 00000000 00:00 326269      /usr/lib/x86_64-linux-gnu/libc.so.6
7fc7b2844000-7fc7b299a000 r-xp 00026000 00:00 326269      /usr/lib/x86_64-linux-gnu/libc.so.6
";

fn figures(parsed: &Parsed, stack: usize) -> [u64; 4] {
    [
        Metric::Allocations,
        Metric::Bytes,
        Metric::LeakedAllocations,
        Metric::LeakedBytes,
    ]
    .map(|metric| parsed.set.stacks[stack].figures[metric as usize])
}

#[test]
fn gperftools_figures_and_addresses_are_read() {
    let parsed = parse(GPERFTOOLS, read);
    // 0x7fc7b284524a - 0x7fc7b281e000 = 0x2724a.
    assert_eq!(
        describe(&parsed.set),
        [
            "gp`gp+0x1182 gp`gp+0x11a1 gp`gp+0x11e1 libc.so.6`libc.so.6+0x2724a = 7",
            "gp`gp+0x1182 gp`gp+0x11b8 gp`gp+0x11dc libc.so.6`libc.so.6+0x2724a = 100",
        ]
    );
    assert_eq!(figures(&parsed, 0), [7, 7000, 7, 7000]);
    assert_eq!(figures(&parsed, 1), [100, 1600, 0, 0]);
    assert!(parsed.set.known.has(Metric::Bytes));
    assert!(!parsed.set.known.has(Metric::PeakBytes));
    assert_eq!(parsed.notes.len(), 1, "{:?}", parsed.notes);
}

#[test]
fn addresses_outside_of_files_stay() {
    let text = "heap profile: 1: 1 [1: 1] @ heapprofile\n1: 1 [1: 1] @ 0x1500 0x3000 0x500\n";
    let maps = "MAPPED_LIBRARIES:\n1000-2000 r-xp 00000800 00:00 3 /srv/a b.so (deleted)\n";
    assert_eq!(
        describe(&parse(&format!("{text}{maps}"), read).set),
        // The file's first byte would be at 0x800.
        ["a b.so`a b.so+0xd00 `0x3000 `0x500 = 1"]
    );
    assert_eq!(
        describe(&parse(text, read).set),
        ["`0x1500 `0x3000 `0x500 = 1"]
    );
}

/// n / (1 - e^(-s/RATE)) blocks of size s: with s = RATE, 1.58 times as many.
#[test]
fn sampled_figures_are_scaled() {
    let sample = "1000: 512000 [1000: 512000] @ 0x10\n";
    let factor = 1.0 / (1.0 - f64::exp(-1.0));
    let expected = [1000.0 * factor, 512_000.0 * factor].map(|figure| figure as u64);
    for (kind, has_totals) in [
        ("heap_v2/512", false),
        ("heapz_v2/512", false),
        ("heap/1024", true),
    ] {
        let text = format!("heap profile: 1000: 512000 [1000: 512000] @ {kind}\n{sample}");
        let parsed = parse(&text, read);
        assert_eq!(figures(&parsed, 0)[2..], expected, "{kind}");
        assert_eq!(
            parsed.set.known.has(Metric::Allocations),
            has_totals,
            "{kind}"
        );
        assert!(parsed.notes[0].contains("one in 512 bytes"), "{kind}");
    }
    // Other sums in brackets are those of all allocations.
    let text = "heap profile: 1: 512 [3: 1536] @ heap_v2/512\n1: 512 [3: 1536] @ 0x10\n";
    assert_eq!(figures(&parse(text, read), 0), [4, 2429, 1, 809]);
    // A rate of one byte samples everything.
    for kind in ["heap_v2/1", "heap/2", "heap_v2/0"] {
        let text = format!("heap profile: 1000: 512000 [1000: 512000] @ {kind}\n{sample}");
        assert_eq!(
            figures(&parse(&text, read), 0)[2..],
            [1000, 512_000],
            "{kind}"
        );
    }
}

/// Written by Go 1.26 with `MemProfileRate` 1 for a program whose `main.keep` calls an
/// inlined function that makes a block of 4096 bytes 50 times; most samples were removed.
const GO: &str = "\
heap profile: 51: 204896 [60: 208800] @ heap/2
0: 0 [0: 0] @ 0x47c30c 0x47f249
#	0x4c5db0	runtime/pprof.writeHeapInternal+0xb0	/go/src/runtime/pprof/pprof.go:653

50: 204800 [50: 204800] @ 0x47c32c 0x47f249 0x4d975f 0x4d9737 0x4d9858 0x44cd15 0x484081
#	0x4d975e	main.small+0x3e		/srv/main.go:12
#	0x4d9736	main.keep+0x16		/srv/main.go:17
#	0x4d9857	main.main+0x97		/srv/main.go:25
#	0x44cd14	runtime.main+0x2d4	/go/src/runtime/proc.go:290

1: 96 [1: 96] @ 0x47c305
#	0x47c304	runtime.mallocgc+0xa4		/go/src/runtime/malloc.go:1150

# runtime.MemStats
# Alloc = 271968
# BySize = [{1 2 3}]
";

#[test]
fn gos_comments_have_names_and_lines() {
    let parsed = parse(GO, read);
    assert_eq!(
        describe(&parsed.set),
        [
            "`main.small `main.keep+22 `main.main+151 `runtime.main+724 = 50",
            "`runtime.mallocgc+164 = 1",
        ]
    );
    assert_eq!(figures(&parsed, 0), [50, 204_800, 50, 204_800]);
    let [small, keep, ..] = &parsed.set.frames[..] else {
        panic!("{:?}", parsed.set.frames)
    };
    // 0x4d975e - 0x3e = 0x4d9736 - 0x16: the machine code of both starts at 0x4d9720.
    assert!(small.inlined && !keep.inlined);
    assert_eq!((&*small.file, small.line), ("/srv/main.go", 12));
    assert!(parsed.notes.is_empty(), "{:?}", parsed.notes);
}

#[test]
fn jemallocs_figures_follow_the_addresses() {
    let text = "heap_v2/1\n  t*: 3: 48 [0: 0]\n  t0: 3: 48 [0: 0]\n@ 0x1010 0x1020\n  t*: 2: 32 [0: 0]\n  t0: 2: 32 [0: 0]\n@ 0x1010\n  t*: 1: 16 [0: 0]\n\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 00:00 12 /srv/app\n";
    let parsed = parse(text, read);
    assert_eq!(
        describe(&parsed.set),
        ["app`app+0x10 app`app+0x20 = 0", "app`app+0x10 = 0"]
    );
    assert_eq!(figures(&parsed, 0), [0, 0, 2, 32]);
    assert_eq!(
        parsed.set.known,
        MetricSet::of(&[Metric::LeakedAllocations, Metric::LeakedBytes])
    );
}

#[test]
fn output_before_the_header_is_ignored() {
    let text = format!("hello\n1: 2 [3: 4] @ 0x1\n{GPERFTOOLS}");
    assert_eq!(parse(&text, read).set.stacks.len(), 2);
}

#[test]
fn other_profiles_and_damaged_ones_are_refused() {
    let header = "heap profile: 1: 1 [1: 1] @ heapprofile\n";
    for (text, message) in [
        (
            "heap profile: 1: 1 [1: 1] @ growthz\n".to_owned(),
            "it counts growthz, not allocations",
        ),
        (
            "heap profile: 1: 1 [1: 1] @ heap_v2\n".to_owned(),
            "no sampling rate",
        ),
        (format!("{header}1: 1 [1: 1]\n"), "no addresses"),
        (
            format!("{header}1: 1 [1: 1] @ 0xyz\n"),
            "no hexadecimal number",
        ),
        (format!("{header}1: 1\n"), "the line is no sample"),
        (
            format!("{header}-1: -1 [1: 1] @ 0x1\n"),
            "a figure is negative",
        ),
        (
            format!("{header}99999999999999999999: 1 [1: 1] @ 0x1\n"),
            "the line is no sample",
        ),
    ] {
        let mut input = text.as_bytes();
        let problem = read(&mut Lines::new(&mut input, &Budget::default()))
            .unwrap_err()
            .problem;
        assert!(problem.to_string().contains(message), "{text}: {problem}");
    }
}

#[test]
fn sums_beyond_64_bits_are_refused() {
    let header = "heap profile: 1: 1 [1: 1] @ heapprofile\n";
    let line = format!("{0}: 1 [1: 1] @ 0x1\n", u64::MAX);
    let text = format!("{header}{line}{line}");
    let mut input = text.as_bytes();
    let problem = read(&mut Lines::new(&mut input, &Budget::default()))
        .unwrap_err()
        .problem;
    assert!(matches!(problem, Problem::CountsOverflow), "{problem}");
}

#[test]
fn a_profile_of_a_program_without_allocations_is_read() {
    let text = "heap profile: 0: 0 [ 0: 0] @ heapprofile\n\nMAPPED_LIBRARIES:\n";
    let read = crate::read_bytes("empty.heap", text.as_bytes()).unwrap();
    assert!(read.set.stacks.is_empty());
    assert!(read.set.known.has(Metric::Allocations));
}
