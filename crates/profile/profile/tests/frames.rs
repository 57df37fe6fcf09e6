//! The frames of stacks: symbols, inlined frames, and the names of addresses for which
//! the trace has no symbol.

mod story;

use allotrope_profile::{
    AggregateError, MemoryTrace, NodeVisitor, Options, Process, Profile, StackPart, TraceSource,
    UNKNOWN_MODULE, Visitor, aggregate,
};
use allotrope_trace::model::*;
use proptest::prelude::*;
use story::*;

/// The profile of a trace with these additional nodes (parent, address, mapping, exact),
/// whose ids begin at 28, and with one allocation of the stack `used`.
fn profile_of(nodes: &[(u32, u64, u32, bool)], used: u32, more: &[Record]) -> Profile {
    let mut story = Story::one_image();
    for record in more {
        story.push(record.clone());
    }
    story.push(Record::Stacks {
        image: 0,
        first: 28,
        nodes: nodes
            .iter()
            .map(|&(parent, address, mapping, exact)| StackNode {
                parent,
                address,
                mapping,
                exact,
            })
            .collect(),
    });
    story.events(0, 0, &[thread(1), alloc(used, 0x10, 1), timestamp(900)]);
    story.end(0, 1_000);
    story.profile()
}

fn functions(profile: &Profile) -> Vec<&str> {
    let process: &Process = &profile.processes[0];
    let stack = process.sites[0].stack.iter();
    stack
        .map(|&frame| &*profile.frames[frame as usize].function)
        .collect()
}

fn module(unoptimised: Option<bool>) -> Vec<Record> {
    let named = |function: &str, inlined| NamedFrame {
        function: function.into(),
        signature: format!("{function}()").into(),
        line: 3,
        offset: Some(7),
        inlined,
        ..NamedFrame::default()
    };
    vec![
        Record::Module(Module {
            module: 4,
            path: "/lib/story.so".into(),
            build_id: vec![],
            file: FileIdentity::default(),
        }),
        Record::Mapping(Mapping {
            image: 0,
            mapping: 0,
            module: 4,
            start: 0x5000,
            end: 0x6000,
            bias: 0x5000,
            tick: 0,
        }),
        Record::Symbols(Symbols {
            module: 4,
            unoptimised,
            compilers: vec![],
            frames: vec![
                named("inner", true),
                named("outer", false),
                named("", false),
            ],
            locations: vec![
                Location {
                    address: 0x10,
                    exact: false,
                    frames: vec![0, 1, 99],
                },
                Location {
                    address: 0x20,
                    exact: true,
                    frames: vec![1],
                },
                Location {
                    address: 0x30,
                    exact: false,
                    frames: vec![2],
                },
            ],
            ..Symbols::default()
        }),
    ]
}

#[test]
fn inlined_frames_are_expanded_innermost_first() {
    let profile = profile_of(&[(0, 0x5010, 0, false)], 28, &module(None));
    assert_eq!(functions(&profile), ["inner", "outer"]);
    assert!(profile.frames[0].inlined && !profile.frames[1].inlined);
    assert_eq!(profile.module_name(&profile.frames[0]), "story.so");
    assert_eq!(
        (profile.frames[0].line, profile.frames[0].offset),
        (3, Some(7))
    );
}

#[test]
fn an_interrupted_address_and_an_equal_return_address_have_different_symbols() {
    let profile = profile_of(
        &[(0, 0x5020, 0, false), (28, 0x5020, 0, true)],
        29,
        &module(None),
    );
    assert_eq!(functions(&profile), ["outer", "story.so+0x20"]);
}

#[test]
fn code_without_a_name_shows_its_module_and_offset() {
    let profile = profile_of(
        &[
            (0, 0x5444, 0, false),
            (28, 0x5030, 0, false),
            (29, 0x7f00_0000_1234, NO_MAPPING, false),
        ],
        30,
        &module(None),
    );
    assert_eq!(
        functions(&profile),
        ["0x7f0000001234", "story.so+0x30", "story.so+0x444"]
    );
    assert_eq!(profile.frames[0].module, UNKNOWN_MODULE);
    assert_eq!(profile.module_name(&profile.frames[0]), "");
    assert!(profile.frames.iter().all(|frame| frame.offset.is_none()));
}

#[test]
fn the_end_of_a_stack_is_shown_or_counted() {
    let cut = profile_of(
        &[(stack_end::TRUNCATED, 0x5010, 0, false)],
        28,
        &module(None),
    );
    assert_eq!(functions(&cut), ["inner", "outer", "[truncated]"]);
    assert_eq!(cut.processes[0].truncated_stacks, 1);
    let blind = profile_of(
        &[(stack_end::NO_UNWIND_INFORMATION, 0x5010, 0, false)],
        28,
        &module(None),
    );
    assert_eq!(functions(&blind), ["inner", "outer"]);
    assert_eq!(blind.processes[0].stacks_without_unwind_information, 1);
    let none = profile_of(&[], stack_end::NOT_RECORDED, &[]);
    assert!(functions(&none).is_empty());
}

#[test]
fn the_walk_ends_at_a_cycle_and_at_an_unknown_node() {
    let cycle = profile_of(
        &[(29, 1, NO_MAPPING, false), (28, 2, NO_MAPPING, false)],
        29,
        &[],
    );
    assert_eq!(functions(&cycle), ["0x2", "0x1"]);
    let unknown = profile_of(&[], 4_000_000_000, &[]);
    assert!(functions(&unknown).is_empty());
}

#[test]
fn the_executables_optimisation_is_found_by_its_path_or_file_name() {
    let mut records = module(Some(true));
    records[0] = Record::Module(Module {
        module: 4,
        path: "/proc/self/root/bin/story".into(),
        build_id: vec![],
        file: FileIdentity::default(),
    });
    let profile = profile_of(&[], 8, &records);
    assert_eq!(profile.processes[0].unoptimised, Some(true));
}

#[test]
fn sites_are_numbered_by_allocations_through_all_processes() {
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 1, 1),
            alloc(9, 2, 1),
            alloc(9, 3, 1),
            timestamp(900),
        ],
    );
    story.end(0, 1_000);
    story.image(1, None, &[]);
    story.events(1, 1, &[thread(9), alloc(8, 1, 1), timestamp(900)]);
    story.end(1, 1_000);
    let profile = story.profile();
    let numbers: Vec<(u32, u32)> = profile
        .processes
        .iter()
        .flat_map(|process| &process.sites)
        .map(|site| (site.number, site.stack_id))
        .collect();
    assert_eq!(numbers, [(1, 9), (2, 8), (3, 8)]);
    let (process, site) = profile.site(3).expect("there are three");
    assert_eq!((process.id, site.stack_id), (1, 8));
    // Both processes ran the same code: one frame.
    assert_eq!(profile.frames.len(), 2);
}

/// The functions of a stack in a tree whose node `28 + n` has the address `n` in no
/// module, and the parent `parents[n]`.
fn walked(parents: &[u32], stack: u32) -> Vec<String> {
    let mut functions = Vec::new();
    let mut id = stack;
    while id >= stack_end::FIRST_NODE {
        let Some(&parent) = parents.get(id as usize - 28) else {
            return functions;
        };
        functions.push(format!("{:#x}", id - 28));
        if parent >= id {
            return functions;
        }
        id = parent;
    }
    functions.extend((id == stack_end::TRUNCATED).then(|| "[truncated]".to_owned()));
    functions
}

proptest! {
    #[test]
    fn each_stack_is_complete_whatever_it_shares_with_the_one_before(
        choices in prop::collection::vec(any::<(u8, u32)>(), 1..60),
        used in prop::collection::vec(any::<prop::sample::Index>(), 1..80),
    ) {
        let parents: Vec<u32> = (28..).zip(&choices).map(|(id, &(kind, choice))| match kind {
            0..10 => stack_end::COMPLETE,
            10..20 => stack_end::TRUNCATED,
            // As in a damaged file.
            20..24 => id + choice % 3,
            24..100 => id - 1,
            _ => 28 + choice % (id - 27),
        }).collect();
        // The node before the first one is an end.
        let parents: Vec<u32> = parents.into_iter().map(|p| if p == 27 { 0 } else { p }).collect();
        let mut story = Story::one_image();
        let node = |(address, &parent): (u64, &u32)| StackNode {
            parent,
            address,
            mapping: NO_MAPPING,
            exact: false,
        };
        let nodes = (0..).zip(&parents).map(node).collect();
        story.push(Record::Stacks { image: 0, first: 28, nodes });
        let used = used.iter().map(|index| 28 + index.index(parents.len()) as u32);
        let used: Vec<u32> = used.collect();
        let mut events = vec![thread(1)];
        events.extend((0..).zip(&used).map(|(at, &stack)| alloc(stack, at * 16, 1)));
        story.events(0, 0, &events);
        let profile = story.profile();
        let sites = &profile.processes[0].sites;
        for site in sites {
            let functions = site.stack.iter().map(|&f| profile.frames[f as usize].function.to_string());
            prop_assert_eq!(functions.collect::<Vec<_>>(), walked(&parents, site.stack_id));
        }
        let key = |site: &allotrope_profile::Site| {
            (std::cmp::Reverse(site.allocations), site.stack.clone(), site.stack_id)
        };
        prop_assert!(sites.is_sorted_by_key(key));
        let mut stacks = used;
        stacks.sort_unstable();
        stacks.dedup();
        prop_assert_eq!(sites.len(), stacks.len());
    }
}

/// Two images, a child forked from the other in the middle of its events, that use
/// every third of 30,000 stack ids each.
fn many_stacks(more: Option<Record>) -> Profile {
    const IDS: u32 = 30_000;
    let mut story = Story::one_image();
    story.image(1, Some(0), &[(0, 4_000)]);
    if let Some(record) = more {
        story.push(record);
    }
    for (image, base) in [(0, 0x1_0000), (1, 0x1_8000)] {
        // Half of the second part's ids have two different nodes: the first counts.
        for (first, part) in [(28, 0), (10_028, 10_000), (15_028, 15_000)] {
            let node = |n: u32| StackNode {
                parent: if n.is_multiple_of(50) { 8 } else { 27 + n },
                address: base + u64::from(n) + u64::from(part / 15_000),
                mapping: NO_MAPPING,
                exact: false,
            };
            let nodes = (part..part + 10_000).map(node).collect();
            story.push(Record::Stacks {
                image,
                first,
                nodes,
            });
        }
        let stacks = (28..28 + IDS).step_by(3).rev();
        let allocations = (1..).zip(stacks);
        let events: Vec<Event> = allocations
            .map(|(at, stack)| alloc(stack, at * 16, at))
            .collect();
        let stream = image;
        story.events(image, stream, &[thread(image * 8 + 1)]);
        for events in events.chunks(1_000) {
            story.events(image, stream, events);
        }
        story.events(image, stream, &[timestamp(900)]);
        story.end(image, 1_000);
    }
    story.profile()
}

#[test]
fn an_image_with_jit_code_has_the_same_stacks() {
    let code = Record::JitSymbols(JitSymbols {
        image: 0,
        tick: 0,
        frames: vec![],
        locations: vec![],
    });
    let (profile, with_code) = (many_stacks(None), many_stacks(Some(code)));
    assert!(profile == with_code);
    assert_eq!(profile.processes.len(), 2);
    for process in &profile.processes {
        assert_eq!(process.sites.len(), 10_000);
        let frames: usize = process.sites.iter().map(|site| site.stack.len()).sum();
        // There are 25,000 nodes, in chains of 50 whose outermost caller is node 8. A
        // site without a node has no frame.
        let expected = (0..25_000_usize).step_by(3).map(|n| n % 50 + 2);
        assert_eq!(frames, expected.sum::<usize>());
        let base = [0x1_0000, 0x1_8000][process.id as usize];
        for site in process.sites.iter().filter(|site| !site.stack.is_empty()) {
            let n = u64::from(site.stack_id - 28);
            let address = base + n + u64::from(n >= 20_000);
            let innermost = &profile.frames[site.stack[0] as usize];
            assert_eq!(*innermost.function, *format!("{address:#x}"));
        }
    }
}

#[test]
fn an_error_while_reading_stacks_is_an_error_of_the_aggregation() {
    struct WithoutStacks(MemoryTrace);
    impl TraceSource for WithoutStacks {
        type Handle = usize;
        type Stacks = usize;
        fn visit(&self, visitor: &mut Visitor<'_, usize, usize>) -> Result<(), AggregateError> {
            self.0.visit(visitor)
        }
        fn read_stacks(
            &self,
            parts: &[StackPart<usize>],
            _: &mut NodeVisitor<'_>,
        ) -> Result<(), AggregateError> {
            Err(AggregateError::NoSuchStacks(parts[0].handle))
        }
        fn read(&self, handle: &usize, into: &mut Vec<Event>) -> Result<(), AggregateError> {
            self.0.read(handle, into)
        }
        fn cut(&self) -> Option<String> {
            None
        }
    }
    for nodes in [10, 100_000] {
        let mut story = Story::one_image();
        let node = StackNode {
            parent: 0,
            address: 1,
            mapping: NO_MAPPING,
            exact: false,
        };
        story.push(Record::Stacks {
            image: 0,
            first: 28,
            nodes: vec![node; nodes],
        });
        story.events(0, 0, &[thread(1), alloc(28, 0x10, 1), timestamp(900)]);
        let aggregated = aggregate(&WithoutStacks(story.trace), &Options::default());
        assert!(matches!(aggregated, Err(AggregateError::NoSuchStacks(_))));
    }
}
