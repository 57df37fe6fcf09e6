//! Code that a process made itself: the name that it had when it allocated.

mod story;

use allotrope_profile::{Options, Process, Profile, blocks_of_sites};
use allotrope_trace::model::*;
use story::*;

/// Outermost first: no name, code made at run time, no name again.
const OUTER: u64 = 0x7000;
const CODE: u64 = 0x1010;
const INNER: u64 = 0x9000;

fn node(parent: u32, address: u64) -> StackNode {
    StackNode {
        parent,
        address,
        mapping: NO_MAPPING,
        exact: false,
    }
}

fn named(tick: u64, address: u64, function: &str) -> Record {
    Record::JitSymbols(JitSymbols {
        image: 0,
        tick,
        frames: vec![Frame {
            function: function.into(),
            ..Frame::default()
        }],
        locations: vec![Location {
            address,
            exact: false,
            frames: vec![0],
        }],
    })
}

/// Stack 28 is the outermost frame, 29 ends in the made code, 30 in what that
/// calls. An allocation of each: at 200, at 400 and at 600.
fn story(names: &[Record]) -> Story {
    let mut story = Story::one_image();
    story.push(Record::Stacks {
        image: 0,
        first: 28,
        nodes: vec![node(0, OUTER), node(28, CODE), node(29, INNER)],
    });
    let mut events = vec![thread(1)];
    for tick in [200, 400, 600] {
        for stack in [28, 29, 30] {
            events.extend([anchor(tick), alloc(stack, tick * 100 + u64::from(stack), 1)]);
        }
    }
    events.push(anchor(700));
    story.events(0, 0, &events);
    for record in names {
        story.push(record.clone());
    }
    story.end(0, 1_000);
    story
}

fn stacks(profile: &Profile) -> Vec<(Vec<&str>, u64)> {
    let process: &Process = &profile.processes[0];
    let functions = |stack: &[u32]| -> Vec<&str> {
        let frames = stack.iter().map(|&frame| &profile.frames[frame as usize]);
        frames.map(|frame| frame.function.as_str()).collect()
    };
    let sites = process.sites.iter();
    let mut stacks: Vec<_> = sites
        .map(|site| (functions(&site.stack), site.allocations))
        .collect();
    stacks.sort();
    stacks
}

#[test]
fn without_names_addresses_stand_for_themselves() {
    let profile = story(&[]).profile();
    let expected = [
        (vec!["0x1010", "0x7000"], 3),
        (vec!["0x7000"], 3),
        (vec!["0x9000", "0x1010", "0x7000"], 3),
    ];
    assert_eq!(stacks(&profile), expected);
}

#[test]
fn a_name_that_became_known_late_is_the_name_from_the_beginning() {
    let profile = story(&[named(450, CODE, "made")]).profile();
    let expected = [
        (vec!["0x7000"], 3),
        (vec!["0x9000", "made", "0x7000"], 3),
        (vec!["made", "0x7000"], 3),
    ];
    assert_eq!(stacks(&profile), expected);
}

#[test]
fn code_that_came_later_has_its_own_stacks() {
    // In the file the later one may stand first.
    let names = [named(500, CODE, "second"), named(0, CODE, "first")];
    let story = story(&names);
    let profile = story.profile();
    let expected = [
        (vec!["0x7000"], 3),
        (vec!["0x9000", "first", "0x7000"], 2),
        (vec!["0x9000", "second", "0x7000"], 1),
        (vec!["first", "0x7000"], 2),
        (vec!["second", "0x7000"], 1),
    ];
    assert_eq!(stacks(&profile), expected);
    // And its own blocks.
    let second = profile.processes[0].sites.iter().find(|site| {
        let frame = &profile.frames[site.stack[0] as usize];
        frame.function == "second"
    });
    let wanted = [(0, second.unwrap().stack_id)];
    let mut seen = Vec::new();
    blocks_of_sites(&story.trace, &Options::default(), &wanted, &mut |block| {
        seen.push(block.address)
    })
    .unwrap();
    assert_eq!(seen, [600 * 100 + 29]);
}

#[test]
fn names_that_change_above_one_another_are_told_apart() {
    let names = [
        named(0, CODE, "first"),
        named(300, CODE, "second"),
        named(0, OUTER, "outer"),
        named(500, OUTER, "other"),
    ];
    let profile = story(&names).profile();
    let expected = [
        (vec!["0x9000", "first", "outer"], 1),
        (vec!["0x9000", "second", "other"], 1),
        (vec!["0x9000", "second", "outer"], 1),
        (vec!["first", "outer"], 1),
        (vec!["other"], 1),
        (vec!["outer"], 2),
        (vec!["second", "other"], 1),
        (vec!["second", "outer"], 1),
    ];
    assert_eq!(stacks(&profile), expected);
}
