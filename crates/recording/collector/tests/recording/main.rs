//! Whole recordings: simulated recorders in processes of their own write known events
//! (`program`), the collector records them (`session`), and the trace must contain the
//! same events.

mod program;
mod session;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use allotrope_collector::protocol::{FirstExit, FromLauncher, ToLauncher};
use allotrope_trace::model::{
    EntryPoint, EpochChange, Event, EventKind, Exit, ForkPoint, NO_MAPPING, Origin, QuietWait,
    Record, StackNode, Window, stack_end,
};

use program::{BUILD_ID, CODE, HEAP, MODULE, PAIRS, STACK, STATUS};
use session::{Recorded, Session, program};

const MAIN: u32 = stack_end::FIRST_NODE;
const CALLEE: u32 = MAIN + 1;

fn freed(address: u64) -> Event {
    Event {
        kind: EventKind::Deallocation,
        entry: EntryPoint::Free,
        alignment_log2: 0,
        stack: 0,
        address,
        size: 0,
    }
}

fn allocated(address: u64, size: u64, stack: u32) -> Event {
    Event {
        kind: EventKind::Allocation,
        entry: EntryPoint::Malloc,
        alignment_log2: 0,
        stack,
        address,
        size,
    }
}

fn pairs() -> Vec<Event> {
    let pair = |number| {
        let address = HEAP + number * 16;
        [allocated(address, number, CALLEE), freed(address)]
    };
    (0..PAIRS).flat_map(pair).collect()
}

fn nodes(recorded: &Recorded) -> Vec<StackNode> {
    let nodes = |record: &Record| match record {
        Record::Stacks { nodes, .. } => Some(nodes.clone()),
        _ => None,
    };
    recorded
        .records
        .iter()
        .filter_map(nodes)
        .flatten()
        .collect()
}

#[test]
fn all_events_of_many_laps_of_a_ring_are_in_the_trace() {
    let recorded = Session::record("pairs");
    let counted = recorded.counted(0);
    assert_eq!(counted.len(), 1);
    assert!(counted[0].1 == pairs());
    assert_eq!(recorded.exits(), [(0, Exit::Status(STATUS))]);
    assert_eq!(recorded.losses(0), []);
    let done = &recorded.done;
    assert_eq!((done.images, done.events), (1, PAIRS * 2));
    assert_eq!((done.lost_events, done.unrecorded.len()), (0, 0));

    let image = recorded.images()[0];
    assert_eq!(image.origin, Origin::First);
    assert_eq!(image.executable, Path::new("/bin/program"));
    assert_eq!(image.command, ["program", "argument", ""]);
    let node = |parent, address| StackNode {
        parent,
        address,
        mapping: 3,
        exact: false,
    };
    assert_eq!(nodes(&recorded), [node(0, STACK[0]), node(MAIN, STACK[1])]);
    let has = |wanted: &dyn Fn(&Record) -> bool| recorded.records.iter().any(wanted);
    assert!(has(&|record| matches!(record, Record::Module(module)
        if module.path == Path::new(MODULE) && module.build_id == BUILD_ID && module.module == 0)));
    assert!(has(&|record| matches!(record, Record::Mapping(mapping)
        if mapping.start == CODE && mapping.bias == CODE && mapping.mapping == 3)));
    assert!(has(&|record| matches!(
        record,
        Record::Unmapped { mapping: 3, .. }
    )));
    assert!(has(&|record| matches!(record, Record::ResidentSet { .. })));
    assert!(has(&|record| matches!(record, Record::ThreadName(_))));
    let clocks = recorded.records.iter();
    let clocks = clocks.filter(|record| matches!(record, Record::Clock(_)));
    assert!(clocks.count() >= 2, "at the start and at the end");
}

#[test]
fn threads_nested_rings_and_all_kinds_of_events_are_in_the_trace() {
    let recorded = Session::record("threads");
    let starts = recorded.records.iter().filter_map(|record| match record {
        Record::ThreadStart(start) => Some((start.tid, start.thread)),
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    assert_eq!(starts.len(), 3, "a nested ring is no new thread");
    let thread = |tid| starts.iter().find(|start| start.0 == tid).unwrap().1;
    let main = thread(recorded.images()[0].pid);

    let realloc = |kind, address, size, stack| Event {
        kind,
        entry: EntryPoint::Realloc,
        ..allocated(address, size, stack)
    };
    let start = |address| realloc(EventKind::ReallocationStart, address, 0, 0);
    let without_block = |kind| Event {
        kind,
        ..allocated(0, 0, 0)
    };
    let aligned = |stack| Event {
        entry: EntryPoint::Memalign,
        alignment_log2: 12,
        ..allocated(HEAP, 1 << 45, stack)
    };
    let exact = StackNode {
        parent: stack_end::NO_UNWIND_INFORMATION,
        address: STACK[0],
        mapping: NO_MAPPING,
        exact: true,
    };
    let exact_id = nodes(&recorded).iter().position(|it| *it == exact).unwrap() as u32 + MAIN;
    let end = EventKind::ReallocationEnd;
    let other = [
        aligned(exact_id),
        start(HEAP),
        without_block(EventKind::ReallocationFailed),
        start(HEAP),
        realloc(end, HEAP + 64, 5, stack_end::NOT_RECORDED),
        start(HEAP + 64),
        realloc(end, HEAP, (1 << 45) + 1, stack_end::NOT_RECORDED),
        start(HEAP),
        without_block(EventKind::ReallocationFreed),
        freed(HEAP),
    ];
    // The `Thread` events in a stream show whose events it has.
    let mut seen = 0;
    for events in recorded.events.values() {
        let markers = events
            .iter()
            .filter(|event| event.kind == EventKind::Thread);
        let threads: Vec<u64> = markers.map(|event| event.address).collect();
        let counted: Vec<Event> = events
            .iter()
            .filter(|it| it.is_counted())
            .copied()
            .collect();
        if counted.len() == other.len() {
            assert_eq!(counted, other);
            let expected = [thread(1_000_001), thread(1_000_002)].map(u64::from);
            assert_eq!(threads, expected);
            assert!(
                events
                    .iter()
                    .any(|it| it.kind == EventKind::Epoch && it.address == 2 * 99)
            );
        } else {
            assert_eq!(counted.len(), 1);
            assert_eq!(threads, [u64::from(main)]);
        }
        seen += 1;
    }
    assert_eq!(seen, 3);
    let ends = recorded.records.iter();
    let ends = ends.filter(|record| matches!(record, Record::ThreadEnd(_)));
    assert_eq!(ends.count(), 3);
    // One for the stack id that was reset (3: corrupt), the others from the recorder's
    // counters.
    let mut losses = recorded.losses(0);
    losses.sort_unstable();
    assert_eq!(losses, [(0, 5), (3, 1), (4, 6)]);
    assert_eq!(recorded.done.lost_events, 12);
    let waited = |tid| {
        let records = recorded.records.iter().filter_map(|record| match record {
            Record::Waits(it) if it.thread == Some(thread(tid)) => Some(it),
            _ => None,
        });
        records.fold((0, 0), |sum, it| {
            (sum.0 + it.waits, sum.1 + it.waited_ticks)
        })
    };
    assert_eq!(waited(1_000_001), (2, 30 + 12));
    assert_eq!(waited(1_000_002), (1, 1 << 47));
}

#[test]
fn windows_are_in_the_trace_and_invalid_ones_are_harmless() {
    let recorded = Session::record("windows");
    let windows: Vec<&Window> = recorded
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Window(window) => Some(window),
            _ => None,
        })
        .collect();
    let ends: Vec<(u64, u64)> = recorded
        .records
        .iter()
        .filter_map(|record| match record {
            Record::WindowEnd(end) => Some((end.opened, end.closed)),
            _ => None,
        })
        .collect();
    let [window, strange] = windows[..] else {
        panic!("{windows:?}")
    };
    assert_eq!(
        (&*window.name, window.opened, window.iterations),
        ("encode", 1, 1000)
    );
    assert!(window.this_thread_only && window.thread.is_some());
    assert_eq!(window.quiet, QuietWait::Reached);
    assert_eq!(strange.name, "\u{fffd}".repeat(255));
    assert_eq!(
        strange.quiet,
        QuietWait::NotRequested,
        "there is no such outcome"
    );
    assert_eq!(ends, [(1, 2), (77, 3), (u64::MAX, 0)]);
    let markers: Vec<EpochChange> = recorded
        .events
        .values()
        .flatten()
        .filter(|event| event.kind == EventKind::Epoch)
        .map(|event| EpochChange::from_word(event.address))
        .collect();
    let change = |opted_out| EpochChange {
        epoch: 1,
        opted_out,
    };
    assert_eq!(markers, [change(false), change(true)]);
    // The ring with a window whose name is too long.
    assert_eq!(recorded.losses(0), [(3, 1)]);
}

#[test]
fn the_rest_of_a_corrupt_ring_is_lost_and_blocks_nothing() {
    let recorded = Session::record("corrupt");
    assert_eq!(recorded.exits(), [(0, Exit::Status(STATUS))]);
    let counted: Vec<_> = recorded.counted(0).into_iter().map(|it| it.1).collect();
    assert_eq!(counted, [vec![freed(HEAP)], vec![freed(HEAP)]]);
    assert_eq!(recorded.losses(0), [(3, 1)]);
    let incomplete = |record: &Record| matches!(record, Record::ImageEnd(end) if !end.complete);
    assert!(recorded.records.iter().any(incomplete));
}

#[test]
fn an_impossible_position_is_corrupt() {
    let recorded = Session::record("forged");
    assert_eq!(recorded.losses(0), [(3, 1)]);
    assert_eq!(recorded.done.events, 0);
}

/// A hostile program writes anything into all memory that it can write. The collector
/// continues, stays within its memory limits, and loses nothing of a ring that the
/// program leaves alone.
///
/// `ALLOTROPE_HOSTILE_ROUNDS` and `ALLOTROPE_HOSTILE_SEED` change the numbers
/// (scripts/hostile).
#[test]
fn a_hostile_program_spoils_nothing_but_what_it_writes_to() {
    let number = |name: &str, otherwise| {
        let value = std::env::var(name).ok();
        value.map_or(otherwise, |value| value.parse().expect("a number"))
    };
    let rounds: u64 = number("ALLOTROPE_HOSTILE_ROUNDS", 20_000);
    let seed: u64 = number("ALLOTROPE_HOSTILE_SEED", 1);
    println!("{rounds} rounds, seed {seed}");
    let mut session = Session::start_in_process();
    let child = session.spawn(&format!("besieged {rounds} {seed}"));
    session.wait_for(child);
    let recorded = session.finish();
    let image = recorded.images()[0].image;
    let pairs = pairs();
    let streams = recorded.counted(image);
    assert!(streams.iter().any(|(_, events)| *events == pairs), "lost");
    // Less than the sum of the limits in the collector's documentation.
    let peak = recorded.peak_kilobytes.unwrap() / 1024;
    println!("the collector took {peak} MiB");
    assert!(peak < 1024, "{peak} MiB");
}

#[test]
fn an_image_that_does_not_begin_with_an_image_event_is_unrecorded() {
    let recorded = Session::record("stranger");
    assert_eq!((recorded.done.images, recorded.done.events), (0, 0));
    let reasons: Vec<&str> = recorded
        .done
        .unrecorded
        .iter()
        .map(|image| image.reason.as_str())
        .collect();
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].contains("first event"), "{reasons:?}");
}

#[test]
fn a_killed_program_loses_nothing() {
    let recorded = Session::record("killed");
    assert_eq!(recorded.exits(), [(0, Exit::Signal(9))]);
    let expected: Vec<Event> = (0..1000).map(|number| freed(HEAP + number)).collect();
    assert_eq!(recorded.counted(0)[0].1, expected);
}

#[test]
fn a_forked_child_has_its_parent_and_the_points_of_the_fork() {
    let recorded = Session::record("fork");
    let child = recorded.images()[1];
    assert_eq!((child.origin, child.forked_from), (Origin::Fork, Some(0)));
    let stream = recorded.counted(0)[0].0;
    assert_eq!(child.fork_points, [ForkPoint { stream, ordinal: 3 }]);
    let exits = [(0, Exit::Status(0)), (1, Exit::Status(STATUS))];
    assert_eq!(recorded.exits(), exits);
    assert_eq!(recorded.counted(1)[0].1, [freed(HEAP)]);
}

#[test]
fn an_exec_ends_one_image_and_begins_the_next() {
    let recorded = Session::record("exec");
    let images = recorded.images();
    assert_eq!(images[0].pid, images[1].pid);
    assert_eq!(
        (images[0].origin, images[1].origin),
        (Origin::First, Origin::Exec)
    );
    let exits = [(0, Exit::Exec), (1, Exit::Status(STATUS))];
    assert_eq!(recorded.exits(), exits);
    assert_eq!(recorded.counted(0)[0].1, [freed(HEAP)]);
    assert!(recorded.counted(1)[0].1 == pairs());
}

#[test]
fn an_exec_of_a_program_without_recorder_is_listed() {
    let recorded = Session::record("exec-unrecorded");
    assert_eq!(recorded.exits(), [(0, Exit::Exec)]);
    assert_eq!(recorded.done.unrecorded.len(), 1);
    let unrecorded = &recorded.done.unrecorded[0];
    assert_eq!(unrecorded.pid, recorded.images()[0].pid);
    let written = |record: &Record| matches!(record, Record::Unrecorded(it) if it.executable == unrecorded.executable);
    assert!(recorded.records.iter().any(written));
}

/// Opening the pipe would block until some process writes to it.
#[test]
fn an_exec_of_a_pipe_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let recorded = Session::record(&format!("exec-of {}", pipe.display()));
    assert_eq!(recorded.exits(), [(0, Exit::Exec)]);
    assert_eq!(recorded.done.unrecorded[0].executable, pipe);
}

#[test]
fn addresses_get_the_names_of_their_functions() {
    let recorded = Session::record("names");
    let symbols: Vec<_> = recorded
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Symbols(symbols) => Some(symbols),
            _ => None,
        })
        .collect();
    let [symbols] = symbols[..] else {
        panic!("one module: {symbols:?}")
    };
    let [location] = &symbols.locations[..] else {
        panic!("one address: {symbols:?}")
    };
    // Functions inlined into it come before it.
    let outermost = *location.frames.last().unwrap() as usize;
    let name = &symbols.frames[outermost].function;
    assert!(name.ends_with("program::known_function"), "{symbols:?}");
}

#[test]
fn the_trace_of_a_running_recording_can_be_read() {
    let mut session = Session::start();
    let mut child = stay(&mut session);
    let begin = Instant::now();
    let events = |path: &std::path::Path| {
        let reader = allotrope_trace::TraceReader::open(path).unwrap();
        assert!(!reader.is_complete());
        reader
            .entries()
            .filter_map(|entry| match entry.unwrap() {
                allotrope_trace::Entry::Events(at) => Some(at.counted),
                allotrope_trace::Entry::Record(_) => None,
            })
            .sum::<u32>()
    };
    while events(session.output()) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    session.wait_for(child);
    assert_eq!(session.finish().exits(), [(0, Exit::Signal(9))]);
}

#[test]
fn a_recording_can_be_stopped_while_the_program_runs() {
    let mut session = Session::start();
    let mut child = stay(&mut session);
    std::thread::sleep(Duration::from_millis(100));
    session.send(&FromLauncher::Stop);
    let recorded = session.finish();
    assert_eq!(recorded.exits(), [(0, Exit::Running)]);
    assert_eq!(recorded.done.events, 1);
    assert!(child.try_wait().unwrap().is_none(), "it still runs");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A program that has registered and waits for the end of its input.
fn stay(session: &mut Session) -> std::process::Child {
    let mut command = program(session.arena(), "stay");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    session.send(&FromLauncher::FirstStarted { pid: child.id() });
    // It writes a `!` once it has attached.
    let mut byte = [0];
    let output = child.stdout.as_mut().unwrap();
    while byte != *b"!" {
        std::io::Read::read_exact(output, &mut byte).unwrap();
    }
    child
}

#[test]
fn the_launcher_learns_which_processes_still_run() {
    let mut session = Session::start();
    let mut command = program(session.arena(), "orphan");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    session.send(&FromLauncher::FirstStarted { pid: child.id() });
    let mut input = child.stdin.take().unwrap();
    session.wait_for(child);
    let ToLauncher::Waiting { pids } = session.receive() else {
        panic!("no process still runs");
    };
    assert_eq!(pids.len(), 1);
    input.write_all(b"go").unwrap();
    drop(input);
    let recorded = session.finish();
    assert_eq!(recorded.images().len(), 2);
    assert_eq!(recorded.images()[1].pid, pids[0]);
    assert_eq!(recorded.exits()[0], (0, Exit::Status(0)));
}

#[test]
fn the_end_of_the_launcher_does_not_end_the_recording() {
    let mut session = Session::start();
    let mut child = stay(&mut session);
    let session = session.hang_up();
    std::thread::sleep(Duration::from_millis(100));
    drop(child.stdin.take());
    child.wait().unwrap();
    let recorded = session.finish();
    assert_eq!(recorded.exits(), [(0, Exit::Status(0))]);
    assert_eq!(recorded.done.events, 1);
}

#[test]
fn a_program_that_never_attaches_leaves_no_image() {
    let mut session = Session::start();
    session.send(&FromLauncher::FirstEnded(FirstExit::Status(0)));
    let begin = Instant::now();
    let recorded = session.finish();
    assert_eq!((recorded.done.images, recorded.done.events), (0, 0));
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_trace_that_cannot_be_begun_is_an_error() {
    let (input, mut to) = std::io::pipe().unwrap();
    let start = allotrope_collector::protocol::Start::new("/dev/full", vec![]);
    let mut line = serde_json::to_vec(&FromLauncher::Start(Box::new(start))).unwrap();
    line.push(b'\n');
    to.write_all(&line).unwrap();
    let mut output = Vec::new();
    let error = allotrope_collector::run(input, &mut output).unwrap_err();
    assert!(error.to_string().contains("/dev/full"), "{error}");
    let last = output.split(|byte| *byte == b'\n').rev().nth(1).unwrap();
    let message = error.to_string();
    assert_eq!(
        serde_json::from_slice::<ToLauncher>(last).unwrap(),
        ToLauncher::Failed { message }
    );
}

#[test]
fn a_trace_that_cannot_be_continued_is_an_error_and_the_program_continues() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
    // Writing to a FIFO without a reader fails, as on a full disk.
    let reader = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut session = Session::start_with(|start| start.output.clone_from(&path));
    drop(reader);
    // It writes more than a ring holds: it would wait forever for a collector that
    // neither drains nor announces that it has stopped.
    let mut child = program(session.arena(), "pairs-until-stopped")
        .spawn()
        .unwrap();
    session.send(&FromLauncher::FirstStarted { pid: child.id() });
    let message = session.failure();
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    assert!(child.wait().unwrap().success());
}
