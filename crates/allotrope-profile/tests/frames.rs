//! Stacks become frames: symbols, inlined frames, and what is shown where the
//! trace has no name.

mod story;

use allotrope_profile::{Process, Profile, UNKNOWN_MODULE};
use allotrope_trace::model::*;
use proptest::prelude::*;
use story::*;

/// A stack of one node at this address, mapping and end.
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
    story.events(0, 0, &[thread(1), alloc(used, 0x10, 1), anchor(900)]);
    story.end(0, 1_000);
    story.profile()
}

fn functions(profile: &Profile) -> Vec<&str> {
    let process: &Process = &profile.processes[0];
    let stack = process.sites[0].stack.iter();
    stack
        .map(|&frame| profile.frames[frame as usize].function.as_str())
        .collect()
}

fn module(unoptimised: Option<bool>) -> Vec<Record> {
    let named = |function: &str, inlined| Frame {
        function: function.into(),
        signature: format!("{function}()"),
        line: 3,
        offset: 7,
        inlined,
        ..Frame::default()
    };
    vec![
        Record::Module(Module {
            module: 4,
            path: "/lib/story.so".into(),
            build_id: vec![],
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
        }),
    ]
}

#[test]
fn inlined_frames_are_expanded_innermost_first() {
    let profile = profile_of(&[(0, 0x5010, 0, false)], 28, &module(None));
    assert_eq!(functions(&profile), ["inner", "outer"]);
    assert!(profile.frames[0].inlined && !profile.frames[1].inlined);
    assert_eq!(profile.module_name(&profile.frames[0]), "story.so");
    assert_eq!((profile.frames[0].line, profile.frames[0].offset), (3, 7));
}

#[test]
fn an_interrupted_address_is_another_place_than_a_return_address() {
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
    assert!(profile.frames.iter().all(|frame| frame.offset == 0));
}

#[test]
fn how_a_stack_ends_is_shown_or_counted() {
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
fn a_tree_that_leads_in_circles_or_nowhere_ends() {
    let circle = profile_of(
        &[(29, 1, NO_MAPPING, false), (28, 2, NO_MAPPING, false)],
        29,
        &[],
    );
    assert_eq!(functions(&circle), ["0x2", "0x1"]);
    let nowhere = profile_of(&[], 4_000_000_000, &[]);
    assert!(functions(&nowhere).is_empty());
}

#[test]
fn whether_the_executable_was_optimised_is_known_by_its_path_or_name() {
    let mut records = module(Some(true));
    records[0] = Record::Module(Module {
        module: 4,
        path: "/proc/self/root/bin/story".into(),
        build_id: vec![],
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
            anchor(900),
        ],
    );
    story.end(0, 1_000);
    story.image(1, None, &[]);
    story.events(1, 1, &[thread(9), alloc(8, 1, 1), anchor(900)]);
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

/// The functions of a stack in a tree whose node `28 + n` has the address `n` and
/// the parent `parents[n]`, and lies in no module.
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
    fn each_stack_is_whole_whatever_it_shares_with_the_one_before(
        choices in prop::collection::vec(any::<(u8, u32)>(), 1..60),
        used in prop::collection::vec(any::<prop::sample::Index>(), 1..80),
    ) {
        let parents: Vec<u32> = (28..).zip(&choices).map(|(id, &(kind, choice))| match kind {
            0..10 => stack_end::COMPLETE,
            10..20 => stack_end::TRUNCATED,
            // What a damaged file may say.
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
            let functions = site.stack.iter().map(|&f| profile.frames[f as usize].function.clone());
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
