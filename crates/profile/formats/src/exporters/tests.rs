//! Round trips: the readers read the output of every exporter, and get the same
//! information back as far as the format contains it.

use std::collections::BTreeMap;

use allotrope_profile::{
    CountedStack, Maximum, Metric, MetricSet, MetricValues, Module, RunInfo, StackFrame, StackSet,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Format, read_bytes};

fn written(name: &str, set: &StackSet, metric: Metric) -> Vec<u8> {
    let mut out = Vec::new();
    exporter(name)
        .unwrap()
        .write(
            &Input::of_set(set),
            &ExportOptions {
                metric,
                ..ExportOptions::default()
            },
            &mut out,
        )
        .unwrap();
    out
}

fn read_back(name: &str, set: &StackSet, metric: Metric) -> crate::Read {
    read_bytes(name, &written(name, set, metric)[..]).unwrap()
}

/// The sums of these metrics by stack, with each frame as `show` returns it;
/// independent of order and duplicates.
fn stacks(
    set: &StackSet,
    metrics: &[Metric],
    show: impl Fn(&StackFrame) -> StackFrame,
) -> BTreeMap<Vec<StackFrame>, Vec<u64>> {
    let mut all: BTreeMap<Vec<StackFrame>, Vec<u64>> = BTreeMap::new();
    for stack in &set.stacks {
        let frames = stack
            .frames
            .iter()
            .map(|frame| show(&set.frames[*frame as usize]));
        let figures = metrics.iter().map(|metric| stack.figures[*metric as usize]);
        let sums = all
            .entry(frames.collect())
            .or_insert(vec![0; metrics.len()]);
        sums.iter_mut()
            .zip(figures)
            .for_each(|(sum, figure)| *sum += figure);
    }
    all.retain(|_, sums| sums.iter().any(|sum| *sum > 0));
    all
}

/// Function names as tools print them, with characters that have a meaning in
/// some format.
fn function() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}(::[a-z]{1,3}){0,2}",
        Just("operator+".to_owned()),
        Just("a::operator+=".to_owned()),
        Just("a::operator()".to_owned()),
        Just("std::operator<< <char>".to_owned()),
        Just("closure #1 in run(identifier:)".to_owned()),
        Just("doRequests(group:number:)".to_owned()),
        Just("core::iter::<impl A for [T]>::b".to_owned()),
        Just("$s3NIO7ChannelTRTA.18".to_owned()),
    ]
}

fn frame() -> impl Strategy<Value = StackFrame> {
    let location = prop_oneof![
        Just((String::new(), 0, 0)),
        ("[a-z]{1,2}\\.rs", 1..99_u32, 0..9_u32)
    ];
    let module = prop_oneof![Just(String::new()), "[a-z]{1,2}\\.so"];
    (
        function(),
        module,
        location,
        proptest::option::of(0..99_u64),
        any::<bool>(),
    )
        .prop_map(
            |(function, module, (file, line, column), offset, inlined)| StackFrame {
                signature: format!("{function}!").into(),
                function: function.into(),
                module: module.into(),
                file: file.into(),
                line,
                column,
                offset,
                inlined,
                ..StackFrame::default()
            },
        )
}

/// Sets as real tools record them: the last frame of a stack is not inlined,
/// and inlined frames are in the module of their caller.
fn set() -> impl Strategy<Value = StackSet> {
    let stack = proptest::collection::vec(frame(), 2..6);
    let figures = proptest::collection::vec(0..1000_u64, Metric::OF_STACKS.len());
    proptest::collection::vec((stack, figures), 1..8).prop_map(|stacks| {
        let mut set = StackSet {
            title: "./prog 1".into(),
            known: MetricSet::OF_STACKS,
            ..StackSet::default()
        };
        for (mut frames, figures) in stacks {
            frames.last_mut().unwrap().inlined = false;
            end_groups_at_repetitions(&mut frames);
            for at in (1..frames.len()).rev() {
                if frames[at - 1].inlined {
                    frames[at - 1].module = frames[at].module.clone();
                }
            }
            let mut figures: MetricValues = figures.try_into().unwrap();
            // Text formats omit stacks without allocations.
            figures[0] += 1;
            add(&mut set, frames, figures);
            let last = set.stacks.last_mut().unwrap();
            last.maximum = figures[1].is_multiple_of(2).then_some(Maximum {
                bytes: figures[1],
                allocations: figures[2],
            });
        }
        set
    })
}

/// Avoids functions that are inlined into themselves, which look like
/// recursion.
fn end_groups_at_repetitions(frames: &mut [StackFrame]) {
    let mut group = 0;
    for at in 1..frames.len() {
        let repeated = frames[group..at]
            .iter()
            .any(|f| f.function == frames[at].function);
        if repeated {
            frames[at - 1].inlined = false;
        }
        if !frames[at - 1].inlined {
            group = at;
        }
    }
}

fn add(set: &mut StackSet, frames: Vec<StackFrame>, figures: MetricValues) {
    let indexes = frames.into_iter().map(|frame| {
        let known = set.frames.iter().position(|other| *other == frame);
        known.unwrap_or_else(|| {
            set.frames.push(frame);
            set.frames.len() - 1
        }) as u32
    });
    let frames = indexes.collect();
    set.stacks.push(CountedStack {
        frames,
        figures,
        maximum: None,
    });
}

fn named(frame: &StackFrame) -> StackFrame {
    StackFrame {
        function: frame.function.clone(),
        ..StackFrame::default()
    }
}

proptest! {
    #[test]
    fn json_gives_everything_back(set in set()) {
        let read = read_back("json", &set, Metric::Allocations);
        prop_assert_eq!(read.format, Format::Json);
        prop_assert_eq!(read.set, set);
    }

    #[test]
    fn folded_gives_names_and_the_metric_back(set in set(), metric in proptest::sample::select(&Metric::OF_STACKS[..])) {
        let expected = stacks(&set, &[metric], named);
        prop_assume!(!expected.is_empty());
        let read = read_back("folded", &set, metric);
        prop_assert_eq!(read.format, Format::Folded);
        prop_assert_eq!(stacks(&read.set, &[Metric::Allocations], named), expected);
    }

    #[test]
    fn stacks_give_names_modules_and_offsets_back(set in set(), metric in proptest::sample::select(&Metric::OF_STACKS[..])) {
        let show = |frame: &StackFrame| StackFrame {
            module: frame.module.clone(),
            offset: frame.offset,
            ..named(frame)
        };
        let expected = stacks(&set, &[metric], show);
        prop_assume!(!expected.is_empty());
        let read = read_back("stacks", &set, metric);
        prop_assert_eq!(read.format, Format::Dtrace);
        prop_assert_eq!(stacks(&read.set, &[Metric::Allocations], show), expected);
    }

    #[test]
    fn dhat_gives_locations_and_figures_back(set in set()) {
        let read = read_back("dhat", &set, Metric::Allocations);
        prop_assert_eq!(read.format, Format::Dhat);
        let metrics = [
            Metric::Allocations,
            Metric::Bytes,
            Metric::LeakedAllocations,
            Metric::LeakedBytes,
            Metric::PeakAllocations,
            Metric::PeakBytes,
            Metric::Lifetime,
        ];
        // The file of a frame, or its module if there is none.
        let show = |frame: &StackFrame| StackFrame {
            module: if frame.file.is_empty() { frame.module.clone() } else { "".into() },
            file: frame.file.clone(),
            line: frame.line,
            column: frame.column,
            inlined: frame.inlined,
            ..named(frame)
        };
        prop_assert_eq!(stacks(&read.set, &metrics, show), stacks(&set, &metrics, show));
        prop_assert_eq!(read.set.title, set.title);
    }

    #[test]
    fn dhat_never_lists_the_same_frames_twice(set in set()) {
        let text = written("dhat", &set, Metric::Allocations);
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let lists: Vec<_> = json["pps"].as_array().unwrap().iter().map(|point| &point["fs"]).collect();
        for (at, frames) in lists.iter().enumerate() {
            prop_assert!(!frames.as_array().unwrap().is_empty());
            prop_assert!(!frames.as_array().unwrap().contains(&0.into()));
            prop_assert!(!lists[..at].contains(frames));
        }
    }

    #[test]
    fn pprof_gives_all_but_offsets_back(set in set()) {
        let read = read_back("pprof", &set, Metric::Allocations);
        prop_assert_eq!(read.format, Format::Pprof);
        let metrics = super::pprof::metrics();
        let show = |frame: &StackFrame| StackFrame { offset: None, ..frame.clone() };
        prop_assert_eq!(stacks(&read.set, &metrics, show), stacks(&set, &metrics, show));
    }
}

/// Values of some metrics; those of the others are 0.
fn values(known: &[(Metric, u64)]) -> MetricValues {
    let mut values = MetricValues::default();
    for &(metric, value) in known {
        values[metric as usize] = value;
    }
    values
}

/// A set with one stack, of which only the number of allocations is known.
fn counted() -> StackSet {
    let mut set = StackSet {
        known: MetricSet::of(&[Metric::Allocations]),
        ..StackSet::default()
    };
    let frames = ["f", "main"].map(|function| StackFrame {
        function: function.into(),
        ..StackFrame::default()
    });
    add(
        &mut set,
        frames.into(),
        values(&[(Metric::Allocations, 17)]),
    );
    set
}

#[test]
fn unknown_metrics_are_not_written() {
    let set = counted();
    for name in ["dhat", "pprof", "json"] {
        let read = read_back(name, &set, Metric::Allocations);
        assert_eq!(read.set.known, set.known, "{name}");
        assert_eq!(read.set.total(Metric::Allocations), 17, "{name}");
        assert_eq!(read.set.total(Metric::Bytes), 0, "{name}");
    }
    for name in ["folded", "stacks"] {
        let options = ExportOptions {
            metric: Metric::LeakedBytes,
            all_frames: false,
        };
        let error = exporter(name)
            .unwrap()
            .write(&Input::of_set(&set), &options, &mut Vec::new());
        assert!(matches!(
            error,
            Err(ExportError::Unknown(Metric::LeakedBytes))
        ));
    }
    let nothing = StackSet::default();
    for name in ["folded", "stacks", "dhat", "pprof"] {
        let error = exporter(name).unwrap().write(
            &Input::of_set(&nothing),
            &ExportOptions::default(),
            &mut Vec::new(),
        );
        assert!(error.is_err(), "{name}");
    }
}

/// A set of one process that ran 2 s, with all metrics of one stack.
fn recorded(figures: &[(Metric, u64)]) -> StackSet {
    let mut set = counted();
    set.known = MetricSet::OF_STACKS;
    set.stacks[0].figures = values(figures);
    set.run = RunInfo {
        images: 1,
        pid: Some(4711),
        started_unix_ns: Some(1_700_000_000_000_000_000),
        duration_us: Some(2_000_000),
        peak_time_us: Some(58_261),
        executable: "/srv/app".into(),
        sampling: None,
        modules: vec![Module {
            path: "/srv/app".into(),
            build_id: vec![0xab, 0x01],
            ..Module::default()
        }],
    };
    set
}

fn dhat(set: &StackSet) -> serde_json::Value {
    serde_json::from_slice(&written("dhat", set, Metric::Allocations)).unwrap()
}

/// Five blocks, of which two were live at the peak and one at the end.
const SOME_LIVE: [(Metric, u64); 7] = [
    (Metric::Allocations, 5),
    (Metric::Bytes, 50),
    (Metric::LeakedAllocations, 1),
    (Metric::LeakedBytes, 10),
    (Metric::PeakAllocations, 2),
    (Metric::PeakBytes, 20),
    (Metric::Lifetime, 21),
];

#[test]
fn dhat_has_the_times_and_the_process_of_the_run() {
    let set = recorded(&SOME_LIVE);
    let json = dhat(&set);
    for (key, expected) in [
        ("pid", json!(4711)),
        ("te", json!(2_000_000)),
        ("tg", json!(58_261)),
        ("bklt", json!(true)),
        ("tu", json!("\u{b5}s")),
    ] {
        assert_eq!(json[key], expected, "{key}");
    }
    let point = &json["pps"][0];
    for (key, expected) in [("gb", 20), ("gbk", 2), ("eb", 10), ("ebk", 1), ("tl", 21)] {
        assert_eq!(point[key], expected, "{key}");
    }
    let read = read_back("dhat", &set, Metric::Allocations).set.run;
    assert_eq!((read.images, read.pid), (1, set.run.pid));
    assert_eq!(read.duration_us, set.run.duration_us);
    assert_eq!(read.peak_time_us, set.run.peak_time_us);
}

#[test]
fn dhat_has_the_own_maximum_of_a_stack_where_it_is_known() {
    let mut set = recorded(&SOME_LIVE);
    let unknown = &dhat(&set)["pps"][0];
    // The viewer requires the keys.
    for key in ["mb", "mbk"] {
        assert_eq!(unknown.get(key), Some(&serde_json::Value::Null), "{key}");
    }
    set.stacks[0].maximum = Some(Maximum {
        bytes: 30,
        allocations: 3,
    });
    let known = &dhat(&set)["pps"][0];
    assert_eq!((&known["mb"], &known["mbk"]), (&json!(30), &json!(3)));
}

/// Each of several images has its peak at a time of its own.
#[test]
fn dhat_has_no_time_of_the_peak_for_several_images() {
    let mut set = recorded(&SOME_LIVE);
    set.run.images = 2;
    set.run.pid = None;
    set.run.peak_time_us = None;
    let json = dhat(&set);
    assert_eq!(json["bklt"], false);
    assert_eq!(json.get("tg"), None);
    assert_eq!(json["pid"], serde_json::Value::Null);
    assert_eq!(json["te"], 2_000_000);
    let point = &json["pps"][0];
    assert_eq!(
        (&point["gb"], &point["mb"]),
        (&json!(20), &serde_json::Value::Null)
    );
    for name in ["dhat", "pprof"] {
        let exporter = exporter(name).unwrap();
        assert_eq!(exporter.notes(&Input::of_set(&set)).len(), 1, "{name}");
        assert!(
            exporter
                .notes(&Input::of_set(&recorded(&SOME_LIVE)))
                .is_empty(),
            "{name}"
        );
    }
}

#[test]
fn dhat_guesses_nothing_that_is_unknown() {
    let mut set = recorded(&SOME_LIVE);
    set.run = RunInfo::default();
    let json = dhat(&set);
    for key in ["pid", "te"] {
        assert_eq!(json.get(key), Some(&serde_json::Value::Null), "{key}");
    }
    assert_eq!(json["bklt"], false);
}

#[test]
fn pprof_has_the_run_and_the_executable_first() {
    let mut set = recorded(&SOME_LIVE);
    // The first frame is of a library.
    set.frames[0].module = "libstdc++.so.6".into();
    set.frames[1].module = "app".into();
    let read = read_back("pprof", &set, Metric::Allocations).set;
    assert_eq!(read.run.started_unix_ns, set.run.started_unix_ns);
    assert_eq!(read.run.duration_us, set.run.duration_us);
    assert_eq!(read.run.executable, "/srv/app");
    assert_eq!(read.run.modules[0], set.run.modules[0]);
    assert_eq!(read.run.modules.len(), 2);
    assert!(read.known.has(Metric::PeakBytes));
    assert_eq!(read.total(Metric::PeakBytes), 20);
    assert_eq!(&*read.frames[1].module, "app");
}

/// An imported set has no executable; a command has the program first.
#[test]
fn pprof_finds_the_executable_in_the_command() {
    let mut set = counted();
    set.title = "/srv/app --fast".into();
    set.frames[0].module = "libc.so.6".into();
    set.frames[1].module = "app".into();
    let read = read_back("pprof", &set, Metric::Allocations).set;
    assert_eq!(read.run.executable, "app");
}

#[test]
fn a_set_without_stacks_is_read_back() {
    let set = StackSet {
        known: MetricSet::OF_STACKS,
        ..StackSet::default()
    };
    for name in ["dhat", "pprof", "json"] {
        let read = read_back(name, &set, Metric::Allocations);
        assert!(read.set.stacks.is_empty(), "{name}");
        assert_eq!(read.notes.len(), 1, "{name}");
    }
}

#[test]
fn dhat_has_live_blocks_also_without_lifetimes() {
    let mut set = counted();
    let known = [
        (Metric::Allocations, 17),
        (Metric::Bytes, 170),
        (Metric::LeakedAllocations, 3),
        (Metric::LeakedBytes, 30),
        (Metric::PeakAllocations, 5),
        (Metric::PeakBytes, 50),
    ];
    set.known = MetricSet::of(&known.map(|(metric, _)| metric));
    set.stacks[0].figures = values(&known);
    let read = read_back("dhat", &set, Metric::Allocations).set;
    assert_eq!(read.known, set.known);
    assert_eq!(read.stacks[0].figures, set.stacks[0].figures);
}

#[test]
fn a_stack_without_frames_is_written_as_no_stack() {
    let mut set = counted();
    set.stacks[0].frames = Box::default();
    for name in ["stacks", "dhat"] {
        let read = read_back(name, &set, Metric::Allocations);
        assert_eq!(&*read.set.frames[0].function, "[no stack]", "{name}");
    }
    assert_eq!(
        written("folded", &set, Metric::Allocations),
        b"[no stack] 17\n"
    );
}

#[test]
fn stacks_are_written_in_the_format_of_dtrace() {
    let mut set = counted();
    set.frames[0].module = "libsystem_malloc.dylib".into();
    set.frames[1].offset = Some(0x19);
    let nameless = StackFrame {
        function: "a+0x1191".into(),
        module: "a".into(),
        offset: Some(0),
        ..StackFrame::default()
    };
    set.frames.push(nameless);
    set.stacks[0].frames = Box::new([0, 1, 2]);
    let text = String::from_utf8(written("stacks", &set, Metric::Allocations)).unwrap();
    let expected = "
              libsystem_malloc.dylib`f
              ??`main+0x19
              a`0x1191
               17
";
    assert_eq!(text, expected);
}

#[test]
fn every_exporter_has_a_name_of_its_own() {
    let mut names: Vec<&str> = EXPORTERS.iter().map(|exporter| exporter.name()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "csv",
            "dhat",
            "firefox",
            "folded",
            "heaptrack",
            "json",
            "perfetto",
            "pprof",
            "speedscope",
            "stacks"
        ]
    );
    for exporter in EXPORTERS {
        assert!(!exporter.description().is_empty() && !exporter.extension().starts_with('.'));
    }
}

const FIGURES_OF_ALL: [Metric; Metric::OF_STACKS.len()] = Metric::OF_STACKS;

/// Each exporter recognises its own files, also by a part of the head, and no others.
#[test]
fn own_files_are_recognised_by_their_heads() {
    let figures = FIGURES_OF_ALL.map(|metric| (metric, 3));
    let set = recorded(&figures);
    let input = Input::of_set(&set);
    let options = ExportOptions {
        metric: Metric::Allocations,
        all_frames: false,
    };
    let of_sets = || EXPORTERS.iter().filter(|it| it.check(&input).is_ok());
    let foreign: [&[u8]; 9] = [
        b"Dear reader,\n\nthis is a letter.\n",
        b"<!doctype html>\n<p>page\n",
        b"{\"a\":1}\n",
        b"{\"dhatFileVersion\":2\n,\"mode\":\"heap\",\"verb\":\"Allocated\"\n,\"bklt\":true,\"bkacc\":true\n,\"tu\":\"instrs\",\"Mtu\":\"Minstr\"\n",
        b"process,name\r\n1,a\r\n",
        &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3],
        &[0x28, 0xb5, 0x2f, 0xfd, 0, 0],
        b"\x0a\x02\x50\x01",
        b"",
    ];
    let mut seen = 0;
    for exporter in of_sets() {
        let mut bytes = Vec::new();
        exporter.write(&input, &options, &mut bytes).unwrap();
        let name = exporter.name();
        assert!(exporter.is_own(&bytes), "{name}");
        for other in of_sets().filter(|it| it.name() != name) {
            assert!(!other.is_own(&bytes), "{name} is no {}", other.name());
        }
        for bytes in foreign {
            assert!(
                !exporter.is_own(bytes),
                "{name}: {}",
                String::from_utf8_lossy(bytes)
            );
        }
        seen += 1;
    }
    assert!(seen >= 7, "{seen}");
}
