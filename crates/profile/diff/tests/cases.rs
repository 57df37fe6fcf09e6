//! Golden cases of the diff: each test lists its stacks and the expected
//! result.

mod support;

use allotrope_attribution::Glue;
use allotrope_diff::{DiffOptions, Kind, compare};
use support::{Stacks, blames, check, functions, kinds, named, only};

/// Frames of Swift's runtime between an allocation and the user's code.
const SWIFT: &[&str] = &[
    "libsystem_malloc.dylib`malloc",
    "libswiftCore.dylib`swift_slowAlloc+0x19",
    "libswiftCore.dylib`swift_allocObject+0x27",
];

/// The stack of the "clone" example. `clone` is the number in the name of its
/// frame 6, counted from 0.
fn channel_options(clone: u32) -> Vec<String> {
    let clone = format!(
        "app`$s3NIO7Channel_pypypAA15EventLoopFutureCyytGIegnno_Ieggo_AaB_pxq_q0_r1_lyypypAEIsegnnr_Iegnr_TRTA.{clone}+0x9"
    );
    let outer = [
        "app`$s3NIO7Channel_pxq_q0_r1_lyypypAA15EventLoopFutureCyytGIsegnnr_Iegnr_AaB_pypypAEIegnno_Ieggo_TR+0x54",
        "app`$s3NIO7Channel_pypypAA15EventLoopFutureCyytGIegnno_Ieggo_AaB_pxq_q0_r1_lyypypAEIsegnnr_Iegnr_TR+0x20",
        "app`$s3NIO7Channel_pypypAA15EventLoopFutureCyytGIegnno_Ieggo_AaB_pxq_q0_r1_lyypypAEIsegnnr_Iegnr_TRTA+0x11",
        &clone,
        "app`$s3NIO7Channel_pxq_q0_r1_lyypypAA15EventLoopFutureCyytGIsegnnr_Iegnr_AaB_pypypAEIegnno_Ieggo_TR+0x2e",
        "app`specialized applyNext #1 () in ChannelOptions.Storage.applyAllChannelOptions(to:)+0x1a9",
        "app`closure #2 in ServerBootstrap.bind0(makeServerChannel:_:)+0xf8",
        "app`partial apply for closure #2 in ServerBootstrap.bind0(makeServerChannel:_:)+0x39",
        "app`partial apply for thunk for @escaping @callee_guaranteed () -> (@owned EventLoopFuture<Channel>, @error @owned Error)+0x14",
        "app`thunk for @escaping @callee_guaranteed () -> (@owned EventLoopFuture<Channel>, @error @owned Error)partial apply+0x9",
        "app`closure #1 in EventLoop.submit<A>(_:)+0x3c",
        "app`partial apply for thunk for @escaping @callee_guaranteed () -> ()+0x11",
        "app`partial apply for closure #3 in SelectableEventLoop.run()+0x11",
    ];
    let frames = SWIFT.iter().copied().chain(outer);
    frames.map(str::to_owned).collect()
}

fn do_requests(offset: &str, outer: &[&str]) -> Vec<String> {
    let own = format!("app`doRequests(group:number:)+{offset}");
    let frames = SWIFT.iter().copied().chain([own.as_str()]);
    frames
        .chain(outer.iter().copied())
        .map(str::to_owned)
        .collect()
}

const MEASURE: &[&str] = &[
    "app`closure #1 in run(identifier:)+0x12",
    "app`partial apply for closure #1 in measureOne #1 (throwAway:_:) in measureAll(_:)+0x11",
    "app`partial apply for thunk for @callee_guaranteed () -> (@error @owned Error)+0x11",
    "app`thunk for @callee_guaranteed () -> (@error @owned Error)partial apply+0x9",
];

#[test]
fn a_clone_with_another_number_is_folded() {
    let mut before = Stacks::default();
    before.add(11_000, &channel_options(33));
    let mut after = Stacks::default();
    after.add(11_000, &channel_options(18));
    let diff = check(&[before], &[after]);
    assert_eq!(diff.difference, 0);
    assert_eq!(kinds(&diff), [Kind::Moved]);
    let entry = &diff.entries[0];
    assert_eq!((entry.before, entry.after), (11_000, 11_000));
    assert!(entry.confidence > 0.9);
    let differs = entry.differs.expect("the clone");
    assert!(named(&diff, differs.before).ends_with("TRTA.33"));
    assert!(named(&diff, differs.after).ends_with("TRTA.18"));
    assert_eq!(entry.stacks.len(), 2, "both stacks");
}

#[test]
fn more_in_one_function_is_a_change_that_lists_both_call_sites() {
    let mut before = Stacks::default();
    before.add(11_000, &channel_options(33));
    before.add(10_000, &do_requests("0x66", MEASURE));
    let mut after = Stacks::default();
    after.add(11_000, &channel_options(18));
    after.add(10_000, &do_requests("0x66", MEASURE));
    after.add(10_000, &do_requests("0x1c4", MEASURE));
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::Changed, Kind::Moved]);
    let entry = &diff.entries[0];
    assert_eq!((entry.before, entry.after), (10_000, 20_000));
    assert_eq!(named(&diff, Some(entry.blame)), "doRequests(group:number:)");
    let own = |stack: &[u32]| diff.frames[stack[3] as usize].offset;
    let mut stacks: Vec<_> = entry
        .stacks
        .iter()
        .map(|stack| (own(&stack.frames), stack.before, stack.after))
        .collect();
    stacks.sort_unstable();
    assert_eq!(
        stacks,
        [(Some(0x66), 10_000, 10_000), (Some(0x1c4), 0, 10_000)]
    );
}

#[test]
fn two_new_call_sites_in_one_function_are_one_new_entry() {
    let mut before = Stacks::default();
    before.add(11_000, &channel_options(33));
    let mut after = Stacks::default();
    after.add(11_000, &channel_options(18));
    after.add(1000, &do_requests("0x66", MEASURE));
    after.add(1000, &do_requests("0x1c4", MEASURE));
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::New, Kind::Moved]);
    assert_eq!(diff.entries[0].after, 2000);
    assert_eq!(diff.entries[0].stacks.len(), 2);
    assert_eq!(blames(&diff)[0], "doRequests(group:number:)");
}

/// The stacks of the "moved read" example: the read before, the same read after,
/// and the new allocation after.
fn reads() -> (Vec<&'static str>, Vec<&'static str>, Vec<&'static str>) {
    let buffer = [
        "app`AdaptiveRecvByteBufferAllocator.buffer(allocator:)+0x5f",
        "app`protocol witness for RecvByteBufferAllocator.buffer(allocator:) in conformance AdaptiveRecvByteBufferAllocator+0x52",
    ];
    let run = [
        "app`closure #2 in SelectableEventLoop.run()+0x8",
        "app`SelectableEventLoop.run()+0x231",
        "libsystem_pthread.dylib`thread_start+0xf",
    ];
    let glue = SWIFT.iter().copied();
    let before = glue
        .clone()
        .chain(buffer)
        .chain([
            "app`specialized BaseStreamSocketChannel.readFromSocket()+0x88",
            "app`specialized SelectableEventLoop.handleEvent<A>(_:channel:)+0xcc",
        ])
        .chain(run);
    let readable = [
        "app`specialized BaseSocketChannel.readable0()+0x21",
        "app`specialized SelectableEventLoop.handleEvent<A>(_:channel:)+0x175",
    ];
    let after = glue
        .clone()
        .chain(buffer)
        .chain(["app`BaseStreamSocketChannel.readFromSocket()+0xa2"])
        .chain(readable)
        .chain(run);
    let curry = glue
        .chain([
            "app`curry thunk of SocketProtocol.read(pointer:)+0x84",
            "app`BaseStreamSocketChannel.readFromSocket()+0x2d7",
        ])
        .chain(readable)
        .chain(run);
    (before.collect(), after.collect(), curry.collect())
}

#[test]
fn an_inserted_frame_is_folded_and_the_curry_thunk_is_the_only_new_entry() {
    let (read_before, read_after, curry) = reads();
    let mut before = Stacks::default();
    before.add(22_022, &read_before);
    let mut after = Stacks::default();
    after.add(22_022, &read_after);
    after.add(22_022, &curry);
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::New, Kind::Moved]);
    assert_eq!(diff.difference, 22_022);
    assert_eq!(
        blames(&diff)[0],
        "curry thunk of SocketProtocol.read(pointer:)"
    );
    let differs = diff.entries[1].differs.expect("a frame");
    assert_eq!(differs.before, None);
    assert_eq!(
        named(&diff, differs.after),
        "specialized BaseSocketChannel.readable0()"
    );
}

#[test]
fn the_moved_read_is_found_among_hundreds_of_other_stacks() {
    let (read_before, read_after, curry) = reads();
    let mut before = Stacks::default();
    let mut after = Stacks::default();
    for side in [&mut before, &mut after] {
        for i in 0..300 {
            let (function, module) = (format!("app`work{i}+0x1"), i % 20);
            let caller = format!("app`module{module}+0x7");
            let stack = [
                "malloc",
                &function,
                &caller,
                "app`SelectableEventLoop.run()",
            ];
            side.add(1000 + i, &stack);
        }
    }
    before.add(22_022, &read_before);
    after.add(22_022, &read_after);
    after.add(22_022, &curry);
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::New, Kind::Moved]);
    assert!(blames(&diff)[0].starts_with("curry thunk"));
}

#[test]
fn a_frame_newly_inlined_is_folded() {
    // `g` was inlined into `f`, but not into its other caller `h`.
    let mut before = Stacks::default();
    before.add(500, &["malloc", "g", "f", "e", "d", "main"]);
    before.add(40, &["malloc", "g", "h", "main"]);
    let mut after = Stacks::default();
    after.add(500, &["malloc", "f", "e", "d", "main"]);
    after.add(40, &["malloc", "g", "h", "main"]);
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::Moved]);
    let differs = diff.entries[0].differs.expect("a frame");
    assert_eq!(named(&diff, differs.before), "g");
    assert_eq!(differs.after, None);
}

#[test]
fn specialised_functions_are_the_same() {
    let mut before = Stacks::default();
    before.add(500, &["malloc", "Socket.read()", "main"]);
    let mut after = Stacks::default();
    after.add(500, &["malloc", "specialized Socket.read()", "main"]);
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::Moved]);
    assert_eq!(
        named(&diff, diff.entries[0].differs.and_then(|d| d.after)),
        "specialized Socket.read()"
    );
}

#[test]
fn a_caller_nine_frames_out_distinguishes_stacks() {
    let inner = ["malloc", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"];
    let from = |caller: &'static str| {
        inner
            .into_iter()
            .chain([caller, "main"])
            .collect::<Vec<_>>()
    };
    // Both sides have both callers, so this is no renaming.
    let mut before = Stacks::default();
    before.add(1000, &from("caller_a"));
    before.add(7, &["malloc", "caller_a", "main"]);
    before.add(7, &["malloc", "caller_b", "main"]);
    let mut after = Stacks::default();
    after.add(1000, &from("caller_b"));
    after.add(7, &["malloc", "caller_a", "main"]);
    after.add(7, &["malloc", "caller_b", "main"]);
    let diff = check(&[before], &[after]);
    let mut found = kinds(&diff);
    found.sort_unstable();
    assert_eq!(found, [Kind::New, Kind::Gone]);
    for entry in &diff.entries {
        let stack = functions(&diff, &entry.stacks[0].frames);
        let caller = if entry.kind == Kind::New {
            "caller_b"
        } else {
            "caller_a"
        };
        assert_eq!(stack[9], caller);
    }
    // An additional stack through the other caller is new.
    let mut before = Stacks::default();
    before.add(1000, &from("caller_a"));
    let mut after = Stacks::default();
    after.add(1000, &from("caller_a"));
    after.add(1000, &from("caller_b"));
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::New]);
    assert_eq!(
        functions(&diff, &only(&diff).stacks[0].frames)[9],
        "caller_b"
    );
}

#[test]
fn operators_are_different_functions() {
    let mut before = Stacks::default();
    before.add(1000, &["malloc", "Text::operator+", "join", "main"]);
    let mut after = Stacks::default();
    after.add(1000, &["malloc", "Text::operator+=", "join", "main"]);
    let diff = check(&[before], &[after]);
    let mut found = kinds(&diff);
    found.sort_unstable();
    assert_eq!(found, [Kind::New, Kind::Gone]);
    let mut blamed = blames(&diff);
    blamed.sort_unstable();
    assert_eq!(blamed, ["Text::operator+", "Text::operator+="]);
}

#[test]
fn a_little_more_is_a_change() {
    let mut before = Stacks::default();
    before.add(999, &["malloc", "f", "main"]);
    let mut after = Stacks::default();
    after.add(1001, &["malloc", "f", "main"]);
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::Changed]);
    assert_eq!(only(&diff).difference, 2);
    assert_eq!((only(&diff).before, only(&diff).after), (999, 1001));
}

#[test]
fn stacks_equal_but_for_offsets_and_lines_are_not_listed() {
    let mut before = Stacks::default();
    before.add(10, &["malloc+0x1", "f+0x10@a.c:7", "main+0x8@a.c:20"]);
    let mut after = Stacks::default();
    after.add(10, &["malloc+0x2", "f+0x18@a.c:9", "main+0x9@a.c:22"]);
    assert!(check(&[before], &[after]).entries.is_empty());
}

#[test]
fn a_changed_stack_whose_lines_moved_is_one_stack() {
    let mut before = Stacks::default();
    before.add(10, &["malloc", "f@a.c:7", "main"]);
    let mut after = Stacks::default();
    after.add(15, &["malloc", "f@a.c:9", "main"]);
    let diff = check(&[before], &[after]);
    let [stack] = &only(&diff).stacks[..] else {
        panic!("{diff:?}");
    };
    assert_eq!((stack.before, stack.after), (10, 15));
    let line = |stack: &[u32]| diff.frames[stack[1] as usize].line;
    assert_eq!(line(&stack.frames), 9);
    assert_eq!(stack.frames_before.as_deref().map(line), Some(7));
}

#[test]
fn the_name_of_the_executable_is_ignored() {
    let mut before = Stacks::default();
    before.add(10, &["libc.so.6`malloc", "app-old`f", "app-old`main"]);
    let mut after = Stacks::default();
    after.add(10, &["libc.so.6`malloc", "app-new`f", "app-new`main"]);
    assert!(check(&[before], &[after]).entries.is_empty());
}

#[test]
fn functions_of_one_name_in_two_libraries_are_distinct() {
    let mut before = Stacks::default();
    before.add(10, &["malloc", "liba.so`init", "main"]);
    before.add(1, &["malloc", "libb.so`init", "main"]);
    let mut after = Stacks::default();
    after.add(10, &["malloc", "liba.so`init", "main"]);
    after.add(6, &["malloc", "libb.so`init", "main"]);
    let diff = check(&[before], &[after]);
    assert_eq!(only(&diff).difference, 5);
    assert_eq!(&*diff.frames[only(&diff).blame as usize].module, "libb.so");
}

#[test]
fn unrelated_stacks_are_not_matched() {
    let mut before = Stacks::default();
    before.add(70, &["malloc", "parse_header", "parse", "main"]);
    before.add(5, &["malloc", "log", "main"]);
    let mut after = Stacks::default();
    after.add(9000, &["malloc", "draw_shadow", "draw", "main"]);
    after.add(5, &["malloc", "log", "main"]);
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::New, Kind::Gone]);
    assert_eq!(blames(&diff), ["draw_shadow", "parse_header"]);
}

#[test]
fn balanced_stacks_are_not_netted() {
    let glue = "operator new";
    let mut less = Stacks::default();
    less.add(1, &["parse", "main"]);
    less.add(1, &["parse.isra.0", "main"]);
    less.add(7, &[glue, "parse.isra.0", "main"]);
    let mut more = Stacks::default();
    more.add(3, &["parse", "main"]);
    more.add(8, &["parse.isra.0", glue, "main"]);
    for (before, after, difference) in [(&less, &more, 2), (&more, &less, -2)] {
        let diff = check(std::slice::from_ref(before), std::slice::from_ref(after));
        assert_eq!(kinds(&diff), [Kind::Changed, Kind::Moved], "{diff:#?}");
        assert_eq!(diff.entries[0].difference, difference);
        assert_eq!(blames(&diff)[0], "parse");
        assert_eq!((diff.entries[1].before, diff.entries[1].after), (8, 8));
    }
}

/// Without the files of the repository the library is as much the user's own as the program.
#[test]
fn the_repository_heads_an_entry_and_the_library_is_beneath() {
    let stack = [
        "app`malloc",
        "app`std::vector<int>::push_back@/usr/include/c++/12/vector.c:3",
        "app`json::array::grow@/opt/json/json.c:80",
        "app`json::parse@/opt/json/json.c:12",
        "app`load@src/load.c:7",
        "app`main@src/main.c:2",
    ];
    let side = |count| {
        let mut stacks = Stacks::default();
        stacks.add(count, &stack);
        stacks.add(9, &["app`malloc", "app`main@src/main.c:3"]);
        [stacks.set]
    };
    let (before, after) = (side(10), side(14));
    let options = DiffOptions::default();
    let diff = compare(&before, &after, &options).expect("comparable");
    assert_eq!(blames(&diff), ["json::array::grow"]);
    assert_eq!(
        (diff.entries[0].through, diff.knows_repository),
        (None, false)
    );
    let files = ["src/load.c", "src/main.c"].map(str::to_owned);
    let options = DiffOptions {
        glue: Glue::default().within(files.into_iter().collect()),
        ..DiffOptions::default()
    };
    let diff = compare(&before, &after, &options).expect("comparable");
    assert_eq!(blames(&diff), ["load"]);
    assert!(diff.knows_repository);
    let through = diff.entries[0].through.map(|it| &diff.frames[it as usize]);
    assert_eq!(through.map(|it| &*it.function), Some("json::parse"));
}
