use super::*;
use crate::budget::Budget;
use crate::readers::tests::{describe, parse};

const TEXT: &str = "reading file \"out.zst\" - please wait, this might take some time...
Debuggee command was: ./p
finished reading file, now analyzing data:

MAX CALLS TO ALLOCATION FUNCTIONS
117 calls to allocation functions with 57.00K peak consumption from
leaf
  at /src/p.c:3
  in /src/p
100 calls with 0B peak consumption from:
    temp
      at /src/p.c:4
      in /src/p
    main
      at /src/p.c:8
      in /src/p
10 calls with 50.00K peak consumption from:
    peak
      at /src/p.c:6
      in /src/p
  and 7 from 1 other places

1 calls to allocation functions with 0B peak consumption from
in1
  at /src/p.c:7
  in /src/p
main
  at /src/p.c:8
1 calls with 0B peak consumption from:
    _start
      in /src/p


MAX TEMPORARY ALLOCATIONS
101 temporary allocations of 117 allocations in total (86.32%) from
leaf
  at /src/p.c:3
  in /src/p
100 temporary allocations of 100 allocations in total (100.00%) from:
    temp
      at /src/p.c:4
      in /src/p
    main
      at /src/p.c:8
      in /src/p


total runtime: 0.00s.
calls to allocation functions: 118 (119000/s)
temporary memory allocations: 101 (101000/s)
";

#[test]
fn stacks_follow_their_merged_location() {
    let parsed = parse(TEXT, read);
    assert_eq!(
        describe(&parsed.set),
        [
            "p`leaf p`temp p`main = 100",
            "p`leaf p`peak = 10",
            "p`in1 p`main p`_start = 1",
        ]
    );
    assert_eq!(parsed.set.title, "./p");
    let figure = |stack: usize, metric: Metric| parsed.set.stacks[stack].figures[metric as usize];
    assert_eq!(figure(0, Metric::Temporary), 100);
    assert_eq!(figure(1, Metric::PeakBytes), 50_000);
    assert!(parsed.set.known.has(Metric::Temporary));
    assert!(!parsed.set.known.has(Metric::LeakedBytes));
}

#[test]
fn the_frame_above_one_without_module_is_inlined() {
    let parsed = parse(TEXT, read);
    let inlined: Vec<&str> = parsed
        .set
        .frames
        .iter()
        .filter(|frame| frame.inlined)
        .map(|frame| &*frame.function)
        .collect();
    assert_eq!(inlined, ["in1"]);
}

#[test]
fn a_note_states_what_is_not_printed() {
    let notes = parse(TEXT, read).notes;
    // 118 in total, 100 + 10 + 1 printed.
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("7 allocations are not")),
        "{notes:?}"
    );
}

#[test]
fn unmerged_lists_have_their_frames_below_the_label() {
    let text = "3 calls to allocation functions with 1.50K peak consumption from
  f(int)
    at a.cpp:3
    in /lib/a.so
  0x1234
    in ??

";
    let parsed = parse(text, read);
    assert_eq!(describe(&parsed.set), ["a.so`f `0x1234 = 3"]);
    assert_eq!(&*parsed.set.frames[0].signature, "f(int)");
}

#[test]
fn swift_stacks_of_the_debugging_document_are_read() {
    let text = "MAX TEMPORARY ALLOCATIONS
307740 temporary allocations of 290324 allocations in total (106.00%) from
swift_slowAlloc
  in /usr/lib/swift/linux/libswiftCore.so
22208 temporary allocations of 22276 allocations in total (99.69%) from:
    swift_allocObject
      in /usr/lib/swift/linux/libswiftCore.so
    NIO.URing.getEnvironmentVar(Swift.String) -> Swift.String?
      at /src/LinuxURing.swift:291
      in /build/test
...
22196 temporary allocations of 22276 allocations in total (99.64%) from:
";
    let parsed = parse(text, read);
    assert_eq!(
        describe(&parsed.set),
        [
            "libswiftCore.so`swift_slowAlloc libswiftCore.so`swift_allocObject test`NIO.URing.getEnvironmentVar(Swift.String) -> Swift.String? = 22276",
            "libswiftCore.so`swift_slowAlloc = 22276",
        ]
    );
}

#[test]
fn a_difference_is_refused() {
    let mut input: &[u8] =
        b"-3 calls to allocation functions with -1.00K peak consumption from\nf\n  in x\n";
    let fault = read(&mut Lines::new(&mut input, &Budget::default())).unwrap_err();
    assert_eq!(fault.location, crate::error::Location::Line(1));
    assert!(
        fault
            .problem
            .to_string()
            .contains("difference of two recordings")
    );
}
