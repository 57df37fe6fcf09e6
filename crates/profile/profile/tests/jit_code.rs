//! JIT code: a frame has the name that its code had when it allocated.

mod story;

use allotrope_profile::{Options, Process, Profile, blocks_of_sites};
use allotrope_trace::model::*;
use story::*;

/// The addresses of the stack, outermost first: no name, JIT code, no name.
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

/// Returns a record that names the code at the address from `tick` on.
fn named(tick: u64, address: u64, function: &str) -> Record {
    Record::JitSymbols(JitSymbols {
        image: 0,
        tick,
        frames: vec![NamedFrame {
            function: function.into(),
            ..NamedFrame::default()
        }],
        locations: vec![Location {
            address,
            exact: false,
            frames: vec![0],
        }],
    })
}

/// Stack 28 is the outermost frame; the innermost frame of 29 is the JIT code, that of 30
/// a function which it calls. Each stack allocates at 200, at 400 and at 600.
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
            events.extend([
                timestamp(tick),
                alloc(stack, tick * 100 + u64::from(stack), 1),
            ]);
        }
    }
    events.push(timestamp(700));
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
        frames.map(|frame| &*frame.function).collect()
    };
    let sites = process.sites.iter();
    let mut stacks: Vec<_> = sites
        .map(|site| (functions(&site.stack), site.allocations))
        .collect();
    stacks.sort();
    stacks
}

#[test]
fn without_names_frames_have_their_addresses_as_names() {
    let profile = story(&[]).profile();
    let expected = [
        (vec!["0x1010", "0x7000"], 3),
        (vec!["0x7000"], 3),
        (vec!["0x9000", "0x1010", "0x7000"], 3),
    ];
    assert_eq!(stacks(&profile), expected);
}

#[test]
fn the_first_name_of_an_address_counts_from_the_beginning() {
    let profile = story(&[named(450, CODE, "jit")]).profile();
    let expected = [
        (vec!["0x7000"], 3),
        (vec!["0x9000", "jit", "0x7000"], 3),
        (vec!["jit", "0x7000"], 3),
    ];
    assert_eq!(stacks(&profile), expected);
}

#[test]
fn code_that_replaces_other_code_has_its_own_stacks() {
    // Records may be out of order in the file.
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
    // The blocks are assigned to the stacks accordingly.
    let second = profile.processes[0].sites.iter().find(|site| {
        let frame = &profile.frames[site.stack[0] as usize];
        &*frame.function == "second"
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
fn names_may_change_in_several_frames_of_a_stack() {
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
