//! Snapshots of text and JSON for one small recording: a program in C++ and Rust, and its
//! forked child.

use std::io::Write;

use allotrope_attribution::{Attributed, Glue};
use allotrope_profile::warnings::warnings;
use allotrope_profile::{
    Filter, MemoryTrace, Metric, Options, Profile, aggregate, blocks_of_sites,
};
use allotrope_report::json::JsonOptions;
use allotrope_report::text::{BlockList, TextOptions, TreeOrder, write_site};
use allotrope_report::{Blocks, Grouping, Style, json, sites_of_row, text};
use allotrope_text::columns;
use allotrope_trace::model::*;

const APP: u64 = 0x10_0000;
const LIBC: u64 = 0x90_0000;

/// Stack nodes 8, 9, …: (parent, address, mapping). Parents are callers.
const NODES: [(u32, u64, u32); 14] = [
    (0, LIBC + 0x100, 1),         // 8  __libc_start_main
    (8, APP + 0x10, 0),           // 9  main
    (9, APP + 0x20, 0),           // 10 parse (inlined into load)
    (10, APP + 0x30, 0),          // 11 vector::push_back
    (11, APP + 0x40, 0),          // 12 operator new
    (9, APP + 0x50, 0),           // 13 a long template
    (13, LIBC + 0x200, 1),        // 14 strdup
    (9, APP + 0x60, 0),           // 15 Rust
    (15, APP + 0x70, 0),          // 16 RawVec::grow_one
    (2, APP + 0x80, 0),           // 17 recurse, cut
    (17, APP + 0x80, 0),          // 18
    (0, 0x7fff_1234, NO_MAPPING), // 19 no module
    (1, APP + 0x999, 0),          // 20 unnamed, no unwind information
    (11, APP + 0x48, 0),          // 21 operator new, from elsewhere in it
];

fn frame(function: &str, signature: &str, file: &str, line: u32, inlined: bool) -> NamedFrame {
    NamedFrame {
        function: function.into(),
        signature: signature.into(),
        file: file.into(),
        line,
        column: u32::from(line > 0) * 5,
        offset: Some(16),
        inlined,
        ..NamedFrame::default()
    }
}

fn symbols(module: ModuleId, named: &[(u64, &[NamedFrame])]) -> Record {
    let mut symbols = Symbols {
        module,
        unoptimised: (module == 0).then_some(true),
        ..Symbols::default()
    };
    for &(address, frames) in named {
        let first = symbols.frames.len() as u32;
        symbols.frames.extend_from_slice(frames);
        symbols.locations.push(Location {
            address,
            exact: false,
            frames: (first..symbols.frames.len() as u32).collect(),
        });
    }
    Record::Symbols(symbols)
}

fn app_symbols() -> Record {
    let long = "tools::Registry<std::basic_string<char, std::char_traits<char>>, \
                std::vector<tools::Entry<int, long>>>::insert_or_assign";
    symbols(
        0,
        &[
            (
                0x10,
                &[frame(
                    "main",
                    "main",
                    "/home/ann/project/src/main.cpp",
                    12,
                    false,
                )],
            ),
            (
                0x20,
                &[
                    frame(
                        "parse",
                        "parse(char const*)",
                        "/home/ann/project/src/parse.cpp",
                        40,
                        true,
                    ),
                    frame(
                        "load",
                        "load(File&)",
                        "/home/ann/project/src/load.cpp",
                        7,
                        false,
                    ),
                ],
            ),
            (
                0x30,
                &[frame(
                    "std::vector<int, std::allocator<int>>::push_back",
                    "std::vector<int, std::allocator<int>>::push_back(int&&)",
                    "/usr/include/c++/12/bits/stl_vector.h",
                    1287,
                    false,
                )],
            ),
            (
                0x40,
                &[frame(
                    "operator new",
                    "operator new(unsigned long)",
                    "",
                    0,
                    false,
                )],
            ),
            (
                0x48,
                &[frame(
                    "operator new",
                    "operator new(unsigned long)",
                    "",
                    0,
                    false,
                )],
            ),
            (
                0x50,
                &[frame(
                    long,
                    long,
                    "/home/ann/project/src/registry.hpp",
                    210,
                    false,
                )],
            ),
            (
                0x60,
                &[frame(
                    "engine::run::{{closure}}",
                    "",
                    "src/engine.rs",
                    77,
                    false,
                )],
            ),
            (
                0x70,
                &[frame(
                    "alloc::raw_vec::RawVec<T,A>::grow_one",
                    "",
                    "raw_vec.rs",
                    340,
                    false,
                )],
            ),
            (
                0x80,
                &[frame(
                    "recurse",
                    "recurse(int)",
                    "/home/ann/project/src/deep.cpp",
                    3,
                    false,
                )],
            ),
        ],
    )
}

fn event(kind: EventKind, entry: EntryPoint, stack: u32, address: u64, size: u64) -> Event {
    Event {
        kind,
        entry,
        alignment_log2: 0,
        stack,
        address,
        size,
    }
}

fn parent_events() -> Vec<Event> {
    use EventKind::{Allocation, Deallocation, Thread, Timestamp};
    let mut events = vec![event(Thread, EntryPoint::Malloc, 0, 0, 0)];
    let mut next = 0x1000;
    let mut make = |stack, size, times, keep: bool| {
        for _ in 0..times {
            next += 0x100;
            events.push(event(
                Allocation,
                EntryPoint::OperatorNew,
                stack,
                next,
                size,
            ));
            if !keep {
                events.push(event(Deallocation, EntryPoint::OperatorDelete, 0, next, 0));
            }
        }
    };
    make(12, 48, 700, false); // temporary
    make(21, 16, 300, true);
    make(14, 5_000, 60, true);
    make(16, 1 << 20, 3, false);
    make(18, 128, 20, true);
    make(19, 64, 2, true);
    make(20, 0, 1, true);
    // Freed after all were allocated, the last one first; only that one is temporary.
    make(16, 1024, 4, true);
    let last: Vec<u64> = events.iter().rev().take(4).map(|e| e.address).collect();
    events.extend(
        last.iter()
            .map(|&at| event(Deallocation, EntryPoint::Free, 0, at, 0)),
    );
    events.push(event(Timestamp, EntryPoint::Malloc, 0, 2_000_000_000, 0));
    events
}

fn image(image: ImageId, parent: Option<ImageId>) -> Record {
    let child = parent.is_some();
    Record::ImageStart(ImageStart {
        image,
        pid: 4000 + image,
        parent_pid: if child { 4000 } else { 3999 },
        origin: if child { Origin::Fork } else { Origin::First },
        forked_from: parent,
        fork_points: parent.map_or(vec![], |_| {
            vec![ForkPoint {
                stream: 0,
                ordinal: 1_500,
            }]
        }),
        executable: "/home/ann/project/app".into(),
        command: vec!["./app".into(), "--input".into(), "data\x1b[2J.txt".into()],
        tick: u64::from(image) * 1_000_000_000,
    })
}

fn nodes(image: ImageId) -> Record {
    Record::Stacks {
        image,
        first: 8,
        nodes: NODES
            .iter()
            .map(|&(parent, address, mapping)| StackNode {
                parent,
                address,
                mapping,
                exact: false,
            })
            .collect(),
    }
}

fn start(records: &mut Vec<Record>, id: ImageId, parent: Option<ImageId>) {
    records.push(image(id, parent));
    for (mapping, start) in [(0, APP), (1, LIBC)] {
        records.push(Record::Mapping(Mapping {
            image: id,
            mapping,
            module: mapping,
            start,
            end: start + 0x10_0000,
            bias: start,
            tick: 0,
        }));
    }
    records.push(nodes(id));
    records.push(Record::ThreadStart(ThreadStart {
        image: id,
        thread: id,
        tid: 4000 + id,
        tick: u64::from(id) * 1_000_000_000,
    }));
    records.push(Record::ThreadName(ThreadName {
        thread: id,
        name: "app".into(),
    }));
}

fn end(image: ImageId, tick: u64, exit: Exit) -> Record {
    Record::ImageEnd(ImageEnd {
        image,
        tick,
        exit,
        complete: true,
    })
}

fn recording() -> Vec<Record> {
    let mut records = vec![Record::Recording(Recording {
        command: vec!["./app".into(), "--input".into(), "data\x1b[2J.txt".into()],
        started_unix_ns: 1_709_210_096_000_000_000,
        ..Recording::default()
    })];
    for (module, path) in [(0, "/home/ann/project/app"), (1, "/usr/lib/libc.so.6")] {
        records.push(Record::Module(Module {
            module,
            path: path.into(),
            build_id: vec![1, 2],
            file: FileIdentity::default(),
        }));
    }
    start(&mut records, 0, None);
    records.push(Record::Events(Events {
        image: 0,
        stream: 0,
        first_ordinal: 0,
        events: parent_events(),
    }));
    records.push(end(0, 3_000_000_000, Exit::Status(7)));
    records.push(app_symbols());
    let libc = [
        frame("__libc_start_main", "__libc_start_main", "", 0, false),
        frame("strdup", "strdup", "", 0, false),
    ];
    records.push(symbols(1, &[(0x100, &libc[..1]), (0x200, &libc[1..])]));
    records
}

/// The profile of the program without the child.
fn without_child() -> Profile {
    profile(recording())
}

/// The program with a child, losses and a process image that was not recorded; the trace
/// is incomplete.
fn with_problems() -> MemoryTrace {
    let mut records = recording();
    start(&mut records, 1, Some(0));
    records.push(Record::Events(Events {
        image: 1,
        stream: 1,
        first_ordinal: 0,
        events: vec![
            event(EventKind::Thread, EntryPoint::Malloc, 0, 1, 0),
            event(EventKind::Allocation, EntryPoint::Malloc, 12, 0x50, 2_000),
            event(EventKind::Allocation, EntryPoint::Malloc, 12, 0x50, 1_000),
            event(EventKind::Deallocation, EntryPoint::Free, 0, 0x77, 0),
            event(
                EventKind::Timestamp,
                EntryPoint::Malloc,
                0,
                1_400_000_000,
                0,
            ),
        ],
    }));
    records.push(end(1, 1_500_000_000, Exit::Signal(9)));
    records.push(Record::Loss(Loss {
        image: 1,
        reason: LossReason::RingFull,
        events: 1_234,
        tick: 0,
    }));
    records.push(Record::Waits(Waits {
        image: 1,
        thread: Some(1),
        tick: 0,
        waits: 12,
        waited_ticks: 34_000_000,
    }));
    records.push(Record::Unrecorded(Unrecorded {
        pid: 4_002,
        executable: "/bin/busybox".into(),
        reason: "it is statically linked; record a dynamically linked build.".into(),
        partly: false,
    }));
    records.retain(|record| !matches!(record, Record::ImageEnd(end) if end.image == 0));
    MemoryTrace {
        records,
        cut: Some("the trace is readable up to byte 4096: the file ends within a chunk".into()),
    }
}

fn profile(records: Vec<Record>) -> Profile {
    let trace = MemoryTrace { records, cut: None };
    aggregate(&trace, &Options::default()).expect("the recording can be aggregated")
}

fn attributed(profile: &Profile) -> Attributed<'_> {
    Attributed::new(profile, &Glue::default())
}

fn shown(profile: &Profile, options: &TextOptions) -> String {
    let mut out = Vec::new();
    text::write(&attributed(profile), options, &mut out).expect("memory takes everything");
    let text = String::from_utf8(out).expect("text is UTF-8");
    for line in text.lines() {
        assert!(columns(line) <= options.style.width, "{line}");
    }
    text
}

fn wide(width: usize) -> TextOptions {
    TextOptions {
        style: Style {
            color: false,
            width,
        },
        ..TextOptions::default()
    }
}

/// Names of functions and files with characters of two columns and of none.
#[test]
fn wide_names_fit_and_are_aligned() {
    let mut profile = without_child();
    for (index, frame) in profile.frames.iter_mut().enumerate() {
        frame.function = format!("{}漢字🦀e\u{301}", frame.function)
            .repeat(1 + index % 6)
            .into();
        if !frame.file.is_empty() {
            frame.file = format!("/源/{}漢字.cpp", frame.file).into();
        }
    }
    for width in [40, 80, 160] {
        let options = wide(width);
        // Checks the width of each line.
        let report = shown(&profile, &options);
        assert!(report.contains('漢'), "{report}");
        let tree = TextOptions {
            tree: Some(TreeOrder::TopDown),
            ..wide(width)
        };
        shown(&profile, &tree);
        let mut out = Vec::new();
        let attributed = attributed(&profile);
        text::write_by(&attributed, Grouping::Function, &options, &mut out).expect("memory");
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.lines().all(|line| columns(line) <= width), "{text}");
        let shares = text.lines().filter_map(|line| line.split_once(" %"));
        let mut ends: Vec<usize> = shares.map(|(before, _)| columns(before)).collect();
        assert!(ends.len() > 2, "{text}");
        ends.dedup();
        assert_eq!(ends.len(), 1, "{text}");
    }
}

#[test]
fn report_at_80_columns() {
    insta::assert_snapshot!(shown(&without_child(), &wide(80)));
}

#[test]
fn report_at_160_columns() {
    insta::assert_snapshot!(shown(&without_child(), &wide(160)));
}

#[test]
fn report_of_a_troubled_recording() {
    let profile = aggregate(&with_problems(), &Options::default()).expect("can be aggregated");
    assert!(!warnings(&profile).is_empty());
    let options = TextOptions {
        metric: Some(Metric::PeakBytes),
        top: 3,
        ..wide(80)
    };
    insta::assert_snapshot!(shown(&profile, &options));
}

#[test]
fn tree_from_the_allocation() {
    let options = TextOptions {
        tree: Some(TreeOrder::BottomUp),
        metric: Some(Metric::Bytes),
        ..wide(100)
    };
    insta::assert_snapshot!(shown(&without_child(), &options));
}

#[test]
fn tree_from_main() {
    let options = TextOptions {
        tree: Some(TreeOrder::TopDown),
        least_share: 0.05,
        all_frames: true,
        ..wide(100)
    };
    insta::assert_snapshot!(shown(&without_child(), &options));
}

#[test]
fn persisted_blocks_of_one_module() {
    let options = TextOptions {
        blocks: Blocks::Leaked,
        filter: Some(Filter::new("registry.hpp", true)),
        ..wide(80)
    };
    insta::assert_snapshot!(shown(&without_child(), &options));
}

#[test]
fn one_site_with_its_single_allocations() {
    let trace = MemoryTrace {
        records: recording(),
        cut: None,
    };
    let options = Options {
        site_details: true,
        ..Options::default()
    };
    let profile = aggregate(&trace, &options).expect("can be aggregated");
    let grown = profile.processes[0]
        .sites
        .iter()
        .find(|site| site.stack_id == 16);
    let number = grown.expect("stack 16 allocated").number;
    let mut out = Vec::new();
    let attributed = attributed(&profile);
    assert!(write_site(&attributed, number, &wide(80), &mut out).expect("memory"));
    writeln!(out).expect("memory");
    let sites = sites_of_row(&attributed, number, &wide(80));
    let mut list = BlockList::new(&attributed, &wide(80), &mut out).expect("memory");
    blocks_of_sites(&trace, &Options::default(), &sites, &mut |block| {
        list.write(block).expect("memory");
    })
    .expect("can be aggregated");
    list.finish().expect("memory");
    insta::assert_snapshot!(String::from_utf8(out).expect("UTF-8"));
    assert!(!write_site(&attributed, 10_000, &wide(80), &mut Vec::new()).expect("memory"));
}

#[test]
fn json_of_a_troubled_recording() {
    let profile = aggregate(&with_problems(), &Options::default()).expect("can be aggregated");
    let mut out = Vec::new();
    json::write(&attributed(&profile), &JsonOptions::default(), &mut out).expect("memory");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("is JSON");
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).expect("is JSON"));
    // Frames come before processes.
    assert!(out.starts_with(br#"{"format":"allotrope-report/1","frames":[{"function":"#));
}

#[test]
fn json_sites_are_sorted_complete_and_sum_up() {
    let mut out = Vec::new();
    json::write(
        &attributed(&without_child()),
        &JsonOptions::default(),
        &mut out,
    )
    .expect("memory");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("is JSON");
    let process = &value["processes"][0];
    let sites = process["sites"].as_array().expect("a list");
    let sum = |field: &str| {
        sites
            .iter()
            .filter_map(|site| site[field].as_u64())
            .sum::<u64>()
    };
    for (of_site, of_total) in [
        ("allocations", "allocations"),
        ("allocated_bytes", "allocated_bytes"),
        ("temporary_allocations", "temporary_allocations"),
        ("leaked_allocations", "leaked_allocations"),
        ("leaked_bytes", "leaked_bytes"),
        ("bytes_at_peak", "peak_bytes"),
        ("allocations_at_peak", "peak_allocations"),
    ] {
        assert_eq!(
            process["totals"][of_total].as_u64(),
            Some(sum(of_site)),
            "{of_site}"
        );
    }
    let counts: Vec<_> = sites
        .iter()
        .map(|site| site["allocations"].as_u64())
        .collect();
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
}

#[test]
fn colours_are_optional_and_change_no_text() {
    let plain = wide(80);
    let mut painted = plain.clone();
    painted.style.color = true;
    let mut out = Vec::new();
    text::write(&attributed(&without_child()), &painted, &mut out).expect("memory");
    let mut text = String::from_utf8(out).expect("UTF-8");
    assert!(text.contains("\x1b[36m"));
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[36m"] {
        text = text.replace(code, "");
    }
    assert_eq!(text, shown(&without_child(), &plain));
}

#[test]
fn every_width_is_respected_down_to_40() {
    for width in 40..120 {
        for tree in [None, Some(TreeOrder::TopDown)] {
            let options = TextOptions {
                tree,
                ..wide(width)
            };
            shown(&without_child(), &options);
            let profile =
                aggregate(&with_problems(), &Options::default()).expect("can be aggregated");
            shown(&profile, &options);
        }
    }
}

#[test]
fn an_empty_recording_is_reported_as_such() {
    let text = shown(&profile(vec![]), &wide(80));
    assert!(text.contains("No process was recorded."), "{text}");
}
