use allotrope_profile::sampled::SampledFigures;
use allotrope_profile::{CountedStack, Metric, Module, SamplingInfo, StackFrame};

use super::messages::{AnyValue, Dictionary};
use super::*;

const BUILD_ID: [u8; 2] = [0xab, 0x01];

/// Two stacks, `outer` and `inner` inlined into `outer`, of which the first has nothing live.
fn set() -> StackSet {
    let frame = |function: &str, inlined| StackFrame {
        function: function.into(),
        module: "program".into(),
        file: "program.c".into(),
        line: 7,
        inlined,
        ..StackFrame::default()
    };
    let stack = |frames: &[u32], live, all| {
        let mut figures = [0; Metric::OF_STACKS.len()];
        figures[Metric::LeakedBytes as usize] = 10 * live;
        figures[Metric::LeakedAllocations as usize] = live;
        figures[Metric::Bytes as usize] = 10 * all;
        figures[Metric::Allocations as usize] = all;
        CountedStack {
            frames: frames.into(),
            figures,
            maximum: None,
        }
    };
    let mut set = StackSet {
        frames: vec![frame("inner", true), frame("outer", false)],
        stacks: vec![stack(&[1], 0, 5), stack(&[0, 1], 2, 3), stack(&[], 1, 1)],
        known: SampledFigures::known(),
        ..StackSet::default()
    };
    set.run.executable = "/bin/program".to_owned();
    set.run.modules = vec![Module {
        path: "/bin/program".into(),
        build_id: BUILD_ID.to_vec(),
        ..Module::default()
    }];
    set.run.sampling = Some(SamplingInfo {
        period: 512,
        notes: Vec::new(),
    });
    set
}

fn request(processes: &[i64]) -> Request {
    let set = set();
    let period = allotrope_sampling::Period::new(512).expect("a period");
    let total = SampledFigures::of_site(period);
    let mut builder = RequestBuilder::new("1.2.3");
    assert!(builder.is_empty());
    for process in processes {
        builder.add(Process {
            set: &set,
            total: &total,
            time_unix_ns: 1_700_000_000_000_000_000,
            resource: vec![("process.pid".to_owned(), Value::Int(*process))],
            comments: vec!["a note".to_owned()],
            ids: [[1; 16], [2; 16], [3; 16], [4; 16]],
        });
    }
    // Of each process two stacks with something live, three with allocations; bytes and blocks.
    assert_eq!(builder.samples(), 10 * processes.len());
    builder.finish()
}

fn texts(tables: &Dictionary, stack: i32) -> Vec<Vec<&str>> {
    let locations = &tables.stacks[stack as usize].location_indices;
    let locations = locations.iter().map(|it| &tables.locations[*it as usize]);
    let lines = locations.map(|location| {
        let functions = location.lines.iter().map(|line| {
            let function = &tables.functions[line.function_index as usize];
            &*tables.strings[function.name_strindex as usize]
        });
        functions.collect()
    });
    lines.collect()
}

#[test]
fn each_process_has_a_profile_for_each_type() {
    let request = request(&[1, 2]);
    let tables = request.dictionary.as_ref().expect("tables");
    assert_eq!(request.resource_profiles.len(), 2);
    for resource in &request.resource_profiles {
        let profiles = &resource.scope_profiles[0].profiles;
        let found = profiles.iter().map(|profile| {
            let kind = profile.sample_type.expect("a type").type_strindex;
            let samples = profile.samples.iter();
            let samples = samples.map(|it| (texts(tables, it.stack_index), it.values.clone()));
            (&*tables.strings[kind as usize], samples.collect())
        });
        let found: Vec<(&str, Vec<_>)> = found.collect();
        let inlined = vec![vec!["inner", "outer"]];
        let outer = vec![vec!["outer"]];
        let live = |times| {
            vec![
                (inlined.clone(), vec![2 * times]),
                (Vec::new(), vec![times]),
            ]
        };
        let all = |times| {
            vec![
                (outer.clone(), vec![5 * times]),
                (inlined.clone(), vec![3 * times]),
                (Vec::new(), vec![times]),
            ]
        };
        let expected = vec![
            ("inuse_space", live(10)),
            ("inuse_objects", live(1)),
            ("alloc_space", all(10)),
            ("alloc_objects", all(1)),
        ];
        assert_eq!(found, expected);
    }
}

#[test]
fn tables_begin_with_the_empty_entry_and_have_each_once() {
    let one = request(&[1]).dictionary.expect("tables");
    // A second process with the same stacks adds nothing.
    assert_eq!(Some(&one), request(&[1, 2]).dictionary.as_ref());
    assert_eq!(one.strings[0], "");
    assert_eq!(one.functions.len(), 1 + 2);
    assert_eq!(one.locations.len(), 1 + 2);
    assert_eq!(one.stacks.len(), 1 + 2);
    assert_eq!(one.mappings.len(), 1 + 1);
    let mut strings = one.strings.clone();
    strings.sort();
    strings.dedup();
    assert_eq!(strings.len(), one.strings.len());
    let build_id: AnyValue = Value::from("ab01").into();
    let mapping = &one.mappings[1];
    assert_eq!(
        one.strings[mapping.filename_strindex as usize],
        "/bin/program"
    );
    let mut attributes = mapping.attribute_indices.iter();
    let found = attributes.any(|it| {
        let attribute = &one.attributes[*it as usize];
        one.strings[attribute.key_strindex as usize] == "process.executable.build_id.gnu"
            && attribute.value.as_ref() == Some(&build_id)
    });
    assert!(found, "{one:?}");
}

#[test]
fn answers_are_read_and_garbage_is_none() {
    assert_eq!(answer(&[]), Some(PartialSuccess::default()));
    let partial = PartialSuccess {
        rejected_profiles: 2,
        error_message: "why".to_owned(),
    };
    let response = Response {
        partial_success: Some(partial.clone()),
    };
    assert_eq!(answer(&response.encode_to_vec()), Some(partial));
    assert_eq!(answer(b"<html></html>"), None);
    let status = Status {
        message: "no".to_owned(),
    };
    assert_eq!(refusal(&status.encode_to_vec()), "no");
    assert_eq!(refusal(b"\xff\xff\xff"), "");
}
