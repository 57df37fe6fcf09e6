//! Proptest strategies for every record of the model, and functions that write and
//! read whole traces.
#![allow(dead_code)] // each test file uses a part of it

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use allotrope_trace::model::*;
use allotrope_trace::{Compression, Entry, OutlineEntry, ReadError, TraceReader, TraceWriter};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A path or an argument, which may contain any bytes.
fn raw<T: From<OsString> + std::fmt::Debug>() -> impl Strategy<Value = T> {
    vec(any::<u8>(), 0..40).prop_map(|bytes| OsString::from_vec(bytes).into())
}

/// Text, not only ASCII.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-zA-Z:<>(), ]{0,20}",
        vec(any::<char>(), 0..8).prop_map(|characters| characters.into_iter().collect::<String>())
    ]
}

/// Numbers: small ones, the largest one, and any others.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..300_u64,
        any::<u64>(),
        Just(u64::MAX),
        any::<u32>().prop_map(u64::from)
    ]
}

/// Like [`number`], for ids.
fn id() -> impl Strategy<Value = u32> {
    prop_oneof![0..300_u32, any::<u32>(), Just(u32::MAX)]
}

/// An event. It has one of few addresses, so that blocks are freed and reused.
pub fn event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![
        4 => Just(EventKind::Allocation),
        4 => Just(EventKind::Deallocation),
        1 => Just(EventKind::ReallocationStart),
        1 => Just(EventKind::ReallocationEnd),
        1 => Just(EventKind::ReallocationFailed),
        1 => Just(EventKind::ReallocationFreed),
        1 => Just(EventKind::Timestamp),
        1 => Just(EventKind::Thread),
        1 => Just(EventKind::Epoch),
    ];
    let address = prop_oneof![8 => (1..20_u64).prop_map(|n| n * 16), 1 => number()];
    let size = prop_oneof![4 => 0..100_u64, 1 => number()];
    let stack = prop_oneof![4 => 8..100_u32, 1 => id()];
    let entry = prop_oneof![3 => Just(0_usize), 1 => 0..EntryPoint::ALL.len()];
    let alignment = prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
    (kind, entry, alignment, stack, address, size).prop_map(
        |(kind, entry, alignment_log2, stack, address, size)| {
            let is_allocation = matches!(kind, EventKind::Allocation | EventKind::ReallocationEnd);
            let has_no_address = matches!(
                kind,
                EventKind::ReallocationFailed | EventKind::ReallocationFreed
            );
            Event {
                kind,
                entry: EntryPoint::ALL[entry],
                alignment_log2,
                stack: if is_allocation { stack } else { 0 },
                address: if has_no_address { 0 } else { address },
                size: if is_allocation { size } else { 0 },
            }
        },
    )
}

pub fn events(most: usize) -> impl Strategy<Value = Events> {
    (id(), id(), 0..u64::MAX / 2, vec(event(), 0..most)).prop_map(
        |(image, stream, first_ordinal, events)| Events {
            image,
            stream,
            first_ordinal,
            events,
        },
    )
}

fn recording() -> impl Strategy<Value = Record> {
    (
        text(),
        vec(raw(), 0..3),
        number(),
        number(),
        text(),
        text(),
        id(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(
                tool_version,
                command,
                started_unix_ns,
                started_tick,
                system,
                architecture,
                depth,
                counts_only,
                free_stacks,
            )| {
                Record::Recording(Recording {
                    tool_version,
                    command,
                    started_unix_ns,
                    started_tick,
                    system,
                    architecture,
                    depth_limit: depth,
                    counts_only,
                    free_stacks,
                })
            },
        )
}

fn image_start() -> impl Strategy<Value = Record> {
    let origin = prop_oneof![Just(Origin::First), Just(Origin::Fork), Just(Origin::Exec)];
    let point = (id(), number()).prop_map(|(stream, ordinal)| ForkPoint { stream, ordinal });
    let ids = (id(), id(), id());
    (
        ids,
        origin,
        option::of(id()),
        vec(point, 0..4),
        raw(),
        vec(raw(), 0..3),
        number(),
    )
        .prop_map(
            |(
                (image, pid, parent_pid),
                origin,
                forked_from,
                fork_points,
                executable,
                command,
                tick,
            )| {
                Record::ImageStart(ImageStart {
                    image,
                    pid,
                    parent_pid,
                    origin,
                    forked_from,
                    fork_points,
                    executable,
                    command,
                    tick,
                })
            },
        )
}

fn image_end() -> impl Strategy<Value = Record> {
    let exit = prop_oneof![
        any::<i32>().prop_map(Exit::Status),
        any::<i32>().prop_map(Exit::Signal),
        Just(Exit::Exec),
        Just(Exit::Running),
        Just(Exit::Unknown),
    ];
    (id(), number(), exit, any::<bool>()).prop_map(|(image, tick, exit, complete)| {
        Record::ImageEnd(ImageEnd {
            image,
            tick,
            exit,
            complete,
        })
    })
}

fn thread() -> impl Strategy<Value = Record> {
    prop_oneof![
        (id(), id(), id(), number()).prop_map(|(image, thread, tid, tick)| {
            Record::ThreadStart(ThreadStart {
                image,
                thread,
                tid,
                tick,
            })
        }),
        (id(), text()).prop_map(|(thread, name)| Record::ThreadName(ThreadName { thread, name })),
        (id(), number()).prop_map(|(thread, tick)| Record::ThreadEnd(ThreadEnd { thread, tick })),
    ]
}

fn module() -> impl Strategy<Value = Record> {
    let addresses = (number(), number(), number());
    prop_oneof![
        (
            id(),
            raw(),
            vec(any::<u8>(), 0..21),
            option::of(any::<[u64; 5]>())
        )
            .prop_map(|(module, path, build_id, file)| {
                let file = file.map_or_else(FileIdentity::default, FileIdentity::from_words);
                // Without an inode there is no file.
                let file = match file.is_known() {
                    true => file,
                    false => FileIdentity::default(),
                };
                Record::Module(Module {
                    module,
                    path,
                    build_id,
                    file,
                })
            }),
        (id(), id(), id(), addresses, number()).prop_map(
            |(image, mapping, module, (start, end, bias), tick)| {
                Record::Mapping(Mapping {
                    image,
                    mapping,
                    module,
                    start,
                    end,
                    bias,
                    tick,
                })
            }
        ),
        (id(), id(), number()).prop_map(|(image, mapping, tick)| Record::Unmapped {
            image,
            mapping,
            tick
        }),
    ]
}

fn stacks() -> impl Strategy<Value = Record> {
    let node = (id(), number(), id(), any::<bool>());
    (id(), stack_end::FIRST_NODE..1000, vec(node, 0..20)).prop_map(|(image, first, nodes)| {
        let node =
            |(id, (parent, address, mapping, exact)): (u32, (u32, u64, u32, bool))| StackNode {
                parent: parent % id,
                address,
                mapping,
                exact,
            };
        Record::Stacks {
            image,
            first,
            nodes: (first..).zip(nodes).map(node).collect(),
        }
    })
}

fn loss() -> impl Strategy<Value = Record> {
    let reason = prop_oneof![
        Just(LossReason::RingFull),
        Just(LossReason::NoRing),
        Just(LossReason::CollectorGone),
        Just(LossReason::Corrupt),
        Just(LossReason::NoMemory),
        Just(LossReason::TooEarly),
    ];
    (id(), reason, number(), number()).prop_map(|(image, reason, events, tick)| {
        Record::Loss(Loss {
            image,
            reason,
            events,
            tick,
        })
    })
}

fn waits() -> impl Strategy<Value = Record> {
    (id(), option::of(id()), number(), number(), number()).prop_map(
        |(image, thread, tick, waits, waited_ticks)| {
            Record::Waits(Waits {
                image,
                thread,
                tick,
                waits,
                waited_ticks,
            })
        },
    )
}

fn mark() -> impl Strategy<Value = Record> {
    (number(), text()).prop_map(|(tick, name)| Record::Mark(Mark { tick, name }))
}

fn lost_blocks() -> impl Strategy<Value = Record> {
    let class = (0..LostClass::ALL.len()).prop_map(|index| LostClass::ALL[index]);
    let block = (number(), class).prop_map(|(number, class)| LostBlock {
        address: number & !(LostBlock::ALIGNMENT - 1),
        class,
    });
    (id(), vec(block, 0..40)).prop_map(|(image, blocks)| Record::LostBlocks { image, blocks })
}

fn reachability() -> impl Strategy<Value = Record> {
    let outcome = (0..ScanOutcome::ALL.len()).prop_map(|index| ScanOutcome::ALL[index]);
    (id(), number(), outcome, number(), id()).prop_map(
        |(image, tick, outcome, blocks, other_threads)| {
            Record::Reachability(Reachability {
                image,
                tick,
                outcome,
                blocks,
                other_threads,
            })
        },
    )
}

fn environment() -> impl Strategy<Value = Record> {
    let name = option::of("[a-zA-Z_]{0,20}");
    let variable = (0..1000_u32, name, option::of(0..1000_u32));
    let variable = variable.prop_map(|(bytes, name, value_bytes)| Variable {
        name_bytes: name.as_ref().map_or(bytes, |name| name.len() as u32),
        name: name.map(Into::into),
        value_bytes,
    });
    (id(), vec(variable, 0..40))
        .prop_map(|(image, variables)| Record::Environment(Environment { image, variables }))
}

fn quiet_wait() -> impl Strategy<Value = QuietWait> {
    prop_oneof![
        Just(QuietWait::NotRequested),
        Just(QuietWait::Reached),
        Just(QuietWait::TimedOut)
    ]
}

fn counts() -> impl Strategy<Value = Record> {
    let entry = (
        0..EntryPoint::ALL.len(),
        number(),
        number(),
        number(),
        number(),
    )
        .prop_map(
            |(entry, allocations, allocated_bytes, deallocations, reallocations)| EntryCounts {
                entry: EntryPoint::ALL[entry],
                allocations,
                allocated_bytes,
                deallocations,
                reallocations,
            },
        );
    (id(), id(), number(), vec(entry, 0..4)).prop_map(|(image, thread, tick, entries)| {
        Record::Counts(Counts {
            image,
            thread,
            tick,
            entries,
        })
    })
}

fn window() -> impl Strategy<Value = Record> {
    let opening = (id(), number(), option::of(id()), any::<bool>());
    (opening, text(), number(), quiet_wait(), number()).prop_map(
        |((image, opened, thread, this_thread_only), name, iterations, quiet, tick)| {
            Record::Window(Window {
                image,
                opened,
                thread,
                this_thread_only,
                name,
                iterations,
                quiet,
                tick,
            })
        },
    )
}

fn window_end() -> impl Strategy<Value = Record> {
    let left = (text(), id()).prop_map(|(name, count)| LeftOpen { name, count });
    let descriptors =
        (id(), id(), vec(left, 0..4), number()).prop_map(|(before, after, left, more)| {
            Descriptors {
                before,
                after,
                left,
                more,
            }
        });
    let closing = (id(), number(), number(), quiet_wait(), number());
    (closing, option::of(descriptors)).prop_map(
        |((image, opened, closed, quiet, tick), descriptors)| {
            Record::WindowEnd(WindowEnd {
                image,
                opened,
                closed,
                quiet,
                tick,
                descriptors,
            })
        },
    )
}

fn window_counts() -> impl Strategy<Value = Record> {
    let sums = || {
        (number(), number(), number(), number()).prop_map(
            |(allocations, allocated_bytes, deallocations, reallocations)| WindowSums {
                allocations,
                allocated_bytes,
                deallocations,
                reallocations,
            },
        )
    };
    let fields = (id(), number(), option::of(id()), sums(), sums());
    fields.prop_map(|(image, epoch, thread, all, of_thread)| {
        Record::WindowCounts(WindowCounts {
            image,
            epoch,
            thread,
            all,
            of_thread,
        })
    })
}

fn frames_and_locations() -> impl Strategy<Value = (Vec<NamedFrame>, Vec<Location>)> {
    let texts = (text(), text(), text());
    let frame = (texts, id(), id(), number(), any::<(bool, bool)>()).prop_map(
        |((function, signature, file), line, column, offset, (inlined, generated))| NamedFrame {
            function: function.into(),
            signature: signature.into(),
            module: (),
            file: file.into(),
            line,
            column,
            offset: Some(offset),
            inlined,
            generated,
            allocates: None,
            interrupted: false,
        },
    );
    let location =
        (number(), any::<bool>(), vec(0..10_u32, 0..4)).prop_map(|(address, exact, frames)| {
            Location {
                address,
                exact,
                frames,
            }
        });
    (vec(frame, 10..12), vec(location, 0..6))
}

fn symbols() -> impl Strategy<Value = Record> {
    let compilers = vec(text(), 0..3);
    let missing = prop::sample::select(vec![
        MissingNames::FileGone,
        MissingNames::OtherBuild,
        MissingNames::ProcessGone,
        MissingNames::Stripped,
    ]);
    (
        id(),
        option::of(any::<bool>()),
        compilers,
        frames_and_locations(),
        option::of(missing),
        vec((text(), any::<[u8; 16]>()), 0..3),
        vec(option::of((text(), number(), any::<bool>())), 0..10),
    )
        .prop_map(
            |(module, unoptimised, compilers, (mut frames, locations), missing, sources, types)| {
                for (frame, of_type) in frames.iter_mut().zip(types) {
                    frame.allocates = of_type.map(|(name, object_bytes, is_array)| {
                        Arc::new(BlockType {
                            name: name.into(),
                            object_bytes,
                            is_array,
                        })
                    });
                }
                Record::Symbols(Symbols {
                    module,
                    unoptimised,
                    compilers,
                    frames,
                    locations,
                    missing,
                    sources,
                })
            },
        )
}

fn jit_symbols() -> impl Strategy<Value = Record> {
    (id(), number(), frames_and_locations()).prop_map(|(image, tick, (frames, locations))| {
        Record::JitSymbols(JitSymbols {
            image,
            tick,
            frames,
            locations,
        })
    })
}

/// Any record, including events.
pub fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        recording(),
        (number(), number())
            .prop_map(|(tick, monotonic_ns)| Record::Clock(Clock { tick, monotonic_ns })),
        image_start(),
        image_end(),
        thread(),
        module(),
        stacks(),
        events(60).prop_map(Record::Events),
        (id(), number(), number(), prop::option::of(number())).prop_map(
            |(image, tick, bytes, recorder_bytes)| Record::ResidentSet {
                image,
                tick,
                bytes,
                recorder_bytes,
            }
        ),
        loss(),
        waits(),
        mark(),
        environment(),
        lost_blocks(),
        reachability(),
        counts(),
        window(),
        window_end(),
        window_counts(),
        symbols(),
        jit_symbols(),
        (id(), raw(), text(), any::<bool>()).prop_map(|(pid, executable, reason, partly)| {
            Record::Unrecorded(Unrecorded {
                pid,
                executable,
                reason,
                partly,
            })
        }),
    ]
}

pub fn compression() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::Fast), Just(Compression::None)]
}

/// A complete trace of the records.
pub fn written(records: &[Record], compression: Compression) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    writer.set_compression(compression);
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap()
}

/// Every record of the readable part, up to the first error. Checks that reading
/// stack nodes separately gives the same.
pub fn records_of(reader: &TraceReader<&[u8]>) -> (Vec<Record>, Option<ReadError>) {
    let entries = reader.entries().map(|entry| entry.map(OutlineEntry::Entry));
    let (records, error) = records_from(reader, entries);
    let (outlined, outline_error) = records_from(reader, reader.outline());
    assert_eq!(outlined, records);
    let text = |error: &Option<ReadError>| error.as_ref().map(ToString::to_string);
    assert_eq!(text(&outline_error), text(&error));
    (records, error)
}

fn records_from(
    reader: &TraceReader<&[u8]>,
    entries: impl Iterator<Item = Result<OutlineEntry, ReadError>>,
) -> (Vec<Record>, Option<ReadError>) {
    let mut records = Vec::new();
    let mut stack_nodes = reader.stack_nodes();
    for entry in entries {
        let record = match entry {
            Ok(OutlineEntry::Entry(Entry::Record(record))) => record,
            Ok(OutlineEntry::Stacks(at)) => {
                let mut nodes = Vec::new();
                match stack_nodes.read(&at, &mut nodes) {
                    Err(error) => return (records, Some(error)),
                    Ok(first) => {
                        assert_eq!(nodes.len(), at.nodes);
                        Record::Stacks {
                            image: at.image,
                            first,
                            nodes,
                        }
                    }
                }
            }
            Ok(OutlineEntry::Entry(Entry::Events(at))) => {
                let mut events = Vec::new();
                if let Err(error) = reader.read_events(&at, &mut events) {
                    return (records, Some(error));
                }
                Record::Events(Events {
                    image: at.image,
                    stream: at.stream,
                    first_ordinal: at.first_ordinal,
                    events,
                })
            }
            Err(error) => return (records, Some(error)),
        };
        records.push(record);
    }
    (records, None)
}
