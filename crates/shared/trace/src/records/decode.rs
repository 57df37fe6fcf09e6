//! Decodes records from untrusted bytes. A list cannot have more elements than there
//! are bytes left, and texts must be UTF-8.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use allotrope_shm::mapped_file::{FileIdentity, IDENTITY_WORDS};

use super::{inconsistency, inconsistent_nodes, tag};
use crate::model::{
    BlockType, Clock, Counts, Descriptors, EntryCounts, EntryPoint, Environment, Exit, ForkPoint,
    ImageEnd, ImageId, ImageStart, JitSymbols, LeftOpen, Location, Loss, LossReason, LostBlock,
    LostClass, Mapping, Mark, MissingNames, Module, NamedFrame, Origin, QuietWait, Reachability,
    Record, Recording, Sample, SampleTotal, Sampling, SamplingTimes, ScanOutcome, StackId,
    StackNode, Symbols, ThreadEnd, ThreadName, ThreadStart, Unrecorded, Variable, Waits, Window,
    WindowCounts, WindowEnd, WindowSums,
};
use crate::varint::{Cursor, Malformed};

/// Smallest encoded size of a stack node, in bytes.
const MIN_NODE: usize = 3;

/// Decodes the next record. `None` if its tag is unknown.
pub(crate) fn decode(payload: &mut Cursor<'_>) -> Result<Option<Record>, Malformed> {
    let tag = payload.varint()?;
    let length = payload.length()?;
    let mut body = Cursor::new(payload.take(length)?);
    let record = fields(tag, &mut body)?;
    match record.as_ref().and_then(inconsistency) {
        Some(inconsistency) => Err(Malformed(inconsistency)),
        None => Ok(record),
    }
}

/// The fields of a record of stack nodes that precede the nodes.
pub(crate) struct StacksHead {
    pub image: ImageId,
    pub first: StackId,
    /// Number of nodes.
    pub nodes: usize,
}

/// Skips the next record if it holds stack nodes.
pub(crate) fn skip_stacks(payload: &mut Cursor<'_>) -> Result<Option<StacksHead>, Malformed> {
    let mut ahead = *payload;
    if ahead.varint()? != tag::STACKS {
        return Ok(None);
    }
    let length = ahead.length()?;
    let head = stacks_head(&mut Cursor::new(ahead.take(length)?))?;
    *payload = ahead;
    Ok(Some(head))
}

/// Decodes the next record, which must hold stack nodes. Replaces the contents of
/// `into` with the nodes and returns the id of the first one.
pub(crate) fn decode_stacks(
    payload: &mut Cursor<'_>,
    into: &mut Vec<StackNode>,
) -> Result<StackId, Malformed> {
    if payload.varint()? != tag::STACKS {
        return Err(Malformed("a record has no stack nodes"));
    }
    let length = payload.length()?;
    let head = stack_nodes(&mut Cursor::new(payload.take(length)?), into)?;
    match inconsistent_nodes(head.first, into) {
        Some(inconsistency) => Err(Malformed(inconsistency)),
        None => Ok(head.first),
    }
}

fn fields(tag: u64, from: &mut Cursor<'_>) -> Result<Option<Record>, Malformed> {
    let record = match tag {
        tag::RECORDING => Record::Recording(recording(from)?),
        tag::CLOCK => Record::Clock(Clock {
            tick: from.varint()?,
            monotonic_ns: from.varint()?,
        }),
        tag::IMAGE_START => Record::ImageStart(image_start(from)?),
        tag::ENVIRONMENT => Record::Environment(Environment {
            image: from.varint_u32()?,
            variables: list(from, variable)?,
        }),
        tag::IMAGE_END => Record::ImageEnd(image_end(from)?),
        tag::THREAD_START => Record::ThreadStart(ThreadStart {
            image: from.varint_u32()?,
            thread: from.varint_u32()?,
            tid: from.varint_u32()?,
            tick: from.varint()?,
        }),
        tag::THREAD_NAME => Record::ThreadName(ThreadName {
            thread: from.varint_u32()?,
            name: string(from)?,
        }),
        tag::THREAD_END => Record::ThreadEnd(ThreadEnd {
            thread: from.varint_u32()?,
            tick: from.varint()?,
        }),
        tag::MODULE => Record::Module(Module {
            module: from.varint_u32()?,
            path: raw(from)?,
            build_id: bytes(from)?.to_vec(),
            file: match from.left() {
                0 => FileIdentity::default(),
                _ => file_identity(from)?,
            },
        }),
        tag::MAPPING => Record::Mapping(mapping(from)?),
        tag::UNMAPPED => Record::Unmapped {
            image: from.varint_u32()?,
            mapping: from.varint_u32()?,
            tick: from.varint()?,
        },
        tag::STACKS => stacks(from)?,
        tag::RESIDENT_SET => Record::ResidentSet {
            image: from.varint_u32()?,
            tick: from.varint()?,
            bytes: from.varint()?,
            // Traces of older recorders end before this field.
            recorder_bytes: match from.left() {
                0 => None,
                _ => Some(from.varint()?),
            },
        },
        tag::LOSS => Record::Loss(loss(from)?),
        tag::WAITS => Record::Waits(Waits {
            image: from.varint_u32()?,
            thread: optional_u32(from)?,
            tick: from.varint()?,
            waits: from.varint()?,
            waited_ticks: from.varint()?,
        }),
        tag::COUNTS => Record::Counts(counts(from)?),
        tag::WINDOW => Record::Window(window(from)?),
        tag::WINDOW_END => Record::WindowEnd(window_end(from)?),
        tag::WINDOW_COUNTS => Record::WindowCounts(WindowCounts {
            image: from.varint_u32()?,
            epoch: from.varint()?,
            thread: optional_u32(from)?,
            all: window_sums(from)?,
            of_thread: window_sums(from)?,
        }),
        tag::SYMBOLS => Record::Symbols(symbols(from)?),
        tag::JIT_SYMBOLS => Record::JitSymbols(jit_symbols(from)?),
        tag::UNRECORDED => Record::Unrecorded(Unrecorded {
            pid: from.varint_u32()?,
            executable: raw(from)?,
            reason: string(from)?,
            partly: from.varint()? != 0,
        }),
        tag::MARK => Record::Mark(Mark {
            tick: from.varint()?,
            name: string(from)?,
        }),
        tag::LOST_BLOCKS => {
            let image = from.varint_u32()?;
            let mut before = 0;
            let block = |from: &mut Cursor<'_>| {
                before = from.delta(before)?;
                lost_block(before)
            };
            Record::LostBlocks {
                image,
                blocks: list(from, block)?,
            }
        }
        tag::REACHABILITY => Record::Reachability(Reachability {
            image: from.varint_u32()?,
            tick: from.varint()?,
            outcome: ScanOutcome::from_number(from.varint()?).ok_or(Malformed(
                "a scan for reachable blocks has an unknown outcome",
            ))?,
            blocks: from.varint()?,
            other_threads: from.varint_u32()?,
        }),
        tag::SAMPLING => Record::Sampling(Sampling {
            image: from.varint_u32()?,
            period: from.varint()?,
            longest_period: from.varint()?,
            lost_samples: from.varint()?,
            lost_stacks: from.varint()?,
            lost_totals: from.varint()?,
            unreadable: from.varint()?,
            times: match from.left() {
                0 => None,
                _ => Some(SamplingTimes {
                    on_since: from.varint()?,
                    off_since: from.varint()?,
                }),
            },
        }),
        tag::SAMPLES => Record::Samples {
            image: from.varint_u32()?,
            samples: list(from, sample)?,
        },
        tag::SAMPLE_TOTALS => Record::SampleTotals {
            image: from.varint_u32()?,
            totals: list(from, sample_total)?,
        },
        _ => return Ok(None),
    };
    Ok(Some(record))
}

fn bytes<'a>(from: &mut Cursor<'a>) -> Result<&'a [u8], Malformed> {
    let length = from.length()?;
    from.take(length)
}

fn text<'a>(from: &mut Cursor<'a>) -> Result<&'a str, Malformed> {
    std::str::from_utf8(bytes(from)?).map_err(|_| Malformed("a text is not UTF-8"))
}

fn string(from: &mut Cursor<'_>) -> Result<String, Malformed> {
    text(from).map(str::to_owned)
}

/// Decodes a path or an argument, which may contain any bytes.
fn raw<T: From<OsString>>(from: &mut Cursor<'_>) -> Result<T, Malformed> {
    Ok(OsString::from_vec(bytes(from)?.to_vec()).into())
}

/// Decodes a list whose elements take at least one byte each.
fn list<T>(
    from: &mut Cursor<'_>,
    mut element: impl FnMut(&mut Cursor<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let length = from.length()?;
    (0..length).map(|_| element(from)).collect()
}

fn boolean(from: &mut Cursor<'_>) -> Result<bool, Malformed> {
    match from.varint()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("a boolean is neither 0 nor 1")),
    }
}

fn optional_u32(from: &mut Cursor<'_>) -> Result<Option<u32>, Malformed> {
    if boolean(from)? {
        from.varint_u32().map(Some)
    } else {
        Ok(None)
    }
}

/// A lost block in one word: its address, and its class in the bits that are 0 in addresses.
fn lost_block(word: u64) -> Result<LostBlock, Malformed> {
    let address = word & !(LostBlock::ALIGNMENT - 1);
    let class = LostClass::from_number(word - address);
    Ok(LostBlock {
        address,
        class: class.ok_or(Malformed("a lost block is of an unknown class"))?,
    })
}

fn recording(from: &mut Cursor<'_>) -> Result<Recording, Malformed> {
    Ok(Recording {
        tool_version: string(from)?,
        command: list(from, raw)?,
        started_unix_ns: from.varint()?,
        started_tick: from.varint()?,
        system: string(from)?,
        architecture: string(from)?,
        depth_limit: from.varint_u32()?,
        // Traces of older recorders end before these fields.
        counts_only: from.left() > 0 && boolean(from)?,
        free_stacks: from.left() > 0 && boolean(from)?,
    })
}

fn image_start(from: &mut Cursor<'_>) -> Result<ImageStart, Malformed> {
    Ok(ImageStart {
        image: from.varint_u32()?,
        pid: from.varint_u32()?,
        parent_pid: from.varint_u32()?,
        origin: match from.varint()? {
            0 => Origin::First,
            1 => Origin::Fork,
            2 => Origin::Exec,
            _ => return Err(Malformed("an image has an unknown origin")),
        },
        forked_from: optional_u32(from)?,
        fork_points: list(from, |from| {
            Ok(ForkPoint {
                stream: from.varint_u32()?,
                ordinal: from.varint()?,
            })
        })?,
        executable: raw(from)?,
        command: list(from, raw)?,
        tick: from.varint()?,
    })
}

fn variable(from: &mut Cursor<'_>) -> Result<Variable, Malformed> {
    let length = |length: u64| {
        u32::try_from(length)
            .map_err(|_| Malformed("an environment is larger than a process can have"))
    };
    let name = from.varint()?;
    let name_bytes = length(name >> 1)?;
    let name = match name & 1 {
        0 => None,
        _ => Some(OsString::from_vec(from.take(name_bytes as usize)?.to_vec())),
    };
    Ok(Variable {
        name_bytes,
        name,
        value_bytes: from.varint()?.checked_sub(1).map(length).transpose()?,
    })
}

fn image_end(from: &mut Cursor<'_>) -> Result<ImageEnd, Malformed> {
    let image = from.varint_u32()?;
    let tick = from.varint()?;
    let complete = boolean(from)?;
    let kind = from.varint()?;
    let number = i32::try_from(from.delta(0)? as i64)
        .map_err(|_| Malformed("an exit status has more than 32 bits"))?;
    let exit = match kind {
        0 => Exit::Status(number),
        1 => Exit::Signal(number),
        2 => Exit::Exec,
        3 => Exit::Running,
        4 => Exit::Unknown,
        _ => return Err(Malformed("an image has an unknown exit")),
    };
    Ok(ImageEnd {
        image,
        tick,
        exit,
        complete,
    })
}

fn mapping(from: &mut Cursor<'_>) -> Result<Mapping, Malformed> {
    Ok(Mapping {
        image: from.varint_u32()?,
        mapping: from.varint_u32()?,
        module: from.varint_u32()?,
        start: from.varint()?,
        end: from.varint()?,
        bias: from.varint()?,
        tick: from.varint()?,
    })
}

fn stacks(from: &mut Cursor<'_>) -> Result<Record, Malformed> {
    let mut nodes = Vec::new();
    let head = stack_nodes(from, &mut nodes)?;
    Ok(Record::Stacks {
        image: head.image,
        first: head.first,
        nodes,
    })
}

fn stacks_head(from: &mut Cursor<'_>) -> Result<StacksHead, Malformed> {
    Ok(StacksHead {
        image: from.varint_u32()?,
        first: from.varint_u32()?,
        nodes: from.length()?,
    })
}

/// Decodes the fields of a record of stack nodes. Replaces the contents of `into`
/// with the nodes.
fn stack_nodes(from: &mut Cursor<'_>, into: &mut Vec<StackNode>) -> Result<StacksHead, Malformed> {
    let head = stacks_head(from)?;
    into.clear();
    into.reserve(head.nodes.min(from.left() / MIN_NODE));
    let first = u64::from(head.first);
    let mut address = 0;
    // A record may have very many nodes. This loop takes a third of the time of
    // `list`, which assembles each node in memory and waits for the stores.
    for id in first..first + head.nodes as u64 {
        let distance = from.varint()?;
        address = from.delta(address)?;
        let parent = id
            .checked_sub(distance >> 1)
            .and_then(|parent| u32::try_from(parent).ok())
            .ok_or(Malformed("a stack node's parent is no stack id"))?;
        let mapping = from.varint_u32()?.wrapping_sub(1);
        into.push(StackNode {
            parent,
            address,
            mapping,
            exact: distance & 1 != 0,
        });
    }
    Ok(head)
}

fn loss(from: &mut Cursor<'_>) -> Result<Loss, Malformed> {
    Ok(Loss {
        image: from.varint_u32()?,
        reason: LossReason::from_number(from.varint()?)
            .ok_or(Malformed("events were lost for an unknown reason"))?,
        events: from.varint()?,
        tick: from.varint()?,
    })
}

fn counts(from: &mut Cursor<'_>) -> Result<Counts, Malformed> {
    Ok(Counts {
        image: from.varint_u32()?,
        thread: from.varint_u32()?,
        tick: from.varint()?,
        entries: list(from, entry_counts)?,
    })
}

fn sample(from: &mut Cursor<'_>) -> Result<Sample, Malformed> {
    Ok(Sample {
        stack: from.varint_u32()?,
        size: from.varint()?,
        period: from.varint()?,
        tick: from.varint()?,
        tid: from.varint_u32()?,
        entry: u8::try_from(from.varint()?)
            .ok()
            .and_then(EntryPoint::from_number)
            .ok_or(Malformed("a sample has an unknown entry point"))?,
    })
}

fn sample_total(from: &mut Cursor<'_>) -> Result<SampleTotal, Malformed> {
    Ok(SampleTotal {
        stack: from.varint_u32()?,
        period: from.varint()?,
        smallest: from.varint()?,
        largest: from.varint()?,
        allocated: from.varint()?,
        allocated_bytes: from.varint()?,
        freed: from.varint()?,
        freed_bytes: from.varint()?,
    })
}

fn entry_counts(from: &mut Cursor<'_>) -> Result<EntryCounts, Malformed> {
    let number = from.varint()?;
    let entry = u8::try_from(number).ok().and_then(EntryPoint::from_number);
    Ok(EntryCounts {
        entry: entry.ok_or(Malformed("a count has an unknown entry point"))?,
        allocations: from.varint()?,
        allocated_bytes: from.varint()?,
        deallocations: from.varint()?,
        reallocations: from.varint()?,
    })
}

fn window(from: &mut Cursor<'_>) -> Result<Window, Malformed> {
    Ok(Window {
        image: from.varint_u32()?,
        opened: from.varint()?,
        thread: optional_u32(from)?,
        this_thread_only: boolean(from)?,
        name: string(from)?,
        iterations: from.varint()?,
        quiet: quiet_wait(from)?,
        tick: from.varint()?,
    })
}

fn quiet_wait(from: &mut Cursor<'_>) -> Result<QuietWait, Malformed> {
    QuietWait::from_number(from.varint()?).ok_or(Malformed("the result of a wait is unknown"))
}

fn window_end(from: &mut Cursor<'_>) -> Result<WindowEnd, Malformed> {
    Ok(WindowEnd {
        image: from.varint_u32()?,
        opened: from.varint()?,
        closed: from.varint()?,
        quiet: quiet_wait(from)?,
        tick: from.varint()?,
        descriptors: boolean(from)?.then(|| descriptors(from)).transpose()?,
    })
}

fn window_sums(from: &mut Cursor<'_>) -> Result<WindowSums, Malformed> {
    Ok(WindowSums {
        allocations: from.varint()?,
        allocated_bytes: from.varint()?,
        deallocations: from.varint()?,
        reallocations: from.varint()?,
    })
}

fn descriptors(from: &mut Cursor<'_>) -> Result<Descriptors, Malformed> {
    Ok(Descriptors {
        before: from.varint_u32()?,
        after: from.varint_u32()?,
        left: list(from, |from| {
            Ok(LeftOpen {
                name: string(from)?,
                count: from.varint_u32()?,
            })
        })?,
        more: from.varint()?,
    })
}

fn symbols(from: &mut Cursor<'_>) -> Result<Symbols, Malformed> {
    let module = from.varint_u32()?;
    let unoptimised = match from.varint()? {
        0 => None,
        1 => Some(false),
        2 => Some(true),
        _ => return Err(Malformed("a module has an unknown optimisation state")),
    };
    let (mut frames, locations) = frames_and_locations(from)?;
    let compilers = match from.left() {
        0 => Vec::new(),
        _ => list(from, string)?,
    };
    let missing = match from.left() {
        0 => None,
        // A reason of a later minor version is unknown.
        _ => MissingNames::from_number(from.varint()?),
    };
    let sources = match from.left() {
        0 => Vec::new(),
        _ => list(from, source_file)?,
    };
    if from.left() > 0 {
        for (index, of_type) in list(from, block_type)? {
            let frame = frames.get_mut(index as usize);
            let frame = frame.ok_or(Malformed("a frame with a type is not in the record"))?;
            frame.allocates = Some(of_type);
        }
    }
    Ok(Symbols {
        module,
        unoptimised,
        compilers,
        frames,
        locations,
        missing,
        sources,
    })
}

fn block_type(from: &mut Cursor<'_>) -> Result<(u32, Arc<BlockType>), Malformed> {
    let index = from.varint_u32()?;
    let of_type = BlockType {
        name: text(from)?.into(),
        object_bytes: from.varint()?,
        is_array: boolean(from)?,
    };
    Ok((index, Arc::new(of_type)))
}

fn source_file(from: &mut Cursor<'_>) -> Result<(String, [u8; 16]), Malformed> {
    let file = string(from)?;
    let md5 = bytes(from)?.try_into();
    Ok((
        file,
        md5.map_err(|_| Malformed("an MD5 sum is not 16 bytes"))?,
    ))
}

fn file_identity(from: &mut Cursor<'_>) -> Result<FileIdentity, Malformed> {
    let mut words = [0; IDENTITY_WORDS];
    for word in &mut words {
        *word = from.varint()?;
    }
    Ok(FileIdentity::from_words(words))
}

fn jit_symbols(from: &mut Cursor<'_>) -> Result<JitSymbols, Malformed> {
    let (image, tick) = (from.varint_u32()?, from.varint()?);
    let (frames, locations) = frames_and_locations(from)?;
    Ok(JitSymbols {
        image,
        tick,
        frames,
        locations,
    })
}

fn frames_and_locations(
    from: &mut Cursor<'_>,
) -> Result<(Vec<NamedFrame>, Vec<Location>), Malformed> {
    let mut frames = list(from, frame)?;
    let mut last_address = 0;
    let mut last_frame = 0;
    let locations = list(from, |from| {
        let address = from.delta(last_address)?;
        last_address = address;
        let (count, exact) = count_and_exact(from)?;
        let frames = (0..count).map(|_| frame_index(from, &mut last_frame));
        Ok(Location {
            address,
            exact,
            frames: frames.collect::<Result<_, _>>()?,
        })
    })?;
    if from.left() > 0 {
        for index in list(from, |from| from.varint_u32())? {
            let frame = frames.get_mut(index as usize);
            let frame = frame.ok_or(Malformed("a generated frame is not in the record"))?;
            frame.generated = true;
        }
    }
    Ok((frames, locations))
}

fn frame(from: &mut Cursor<'_>) -> Result<NamedFrame, Malformed> {
    Ok(NamedFrame {
        function: text(from)?.into(),
        signature: text(from)?.into(),
        module: (),
        file: text(from)?.into(),
        line: from.varint_u32()?,
        column: from.varint_u32()?,
        offset: Some(from.varint()?),
        inlined: boolean(from)?,
        // Listed at the end of the record.
        generated: false,
        allocates: None,
        interrupted: false,
    })
}

fn count_and_exact(from: &mut Cursor<'_>) -> Result<(usize, bool), Malformed> {
    let field = from.varint()?;
    let count = usize::try_from(field >> 1)
        .ok()
        .filter(|&count| count <= from.left());
    let count = count.ok_or(Malformed("a location has more frames than there are bytes"))?;
    Ok((count, field & 1 != 0))
}

fn frame_index(from: &mut Cursor<'_>, last: &mut u32) -> Result<u32, Malformed> {
    let index = from.delta(u64::from(*last))?;
    *last = u32::try_from(index).map_err(|_| Malformed("a frame index has more than 32 bits"))?;
    Ok(*last)
}
