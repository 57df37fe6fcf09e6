//! Makes mutants: of a trace's records, of its chunks, and of any file's bytes.

use allotrope_trace::model::*;

use super::numbers::Numbers;

const FILE_HEADER: usize = 16;
const CHUNK_HEADER: usize = 28;

/// Changes some of the records: another order, other ids, times and sizes.
pub fn records(records: &mut Vec<Record>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        if records.is_empty() {
            return;
        }
        let at = numbers.below(records.len());
        match numbers.below(8) {
            0 => {
                let other = numbers.below(records.len());
                records.swap(at, other);
            }
            1 => {
                records.remove(at);
            }
            2 => {
                let copy = records[at].clone();
                let to = numbers.below(records.len());
                records.insert(to, copy);
            }
            _ => record(&mut records[at], numbers),
        }
    }
}

/// Another number, near or far.
fn change(numbers: &mut Numbers, value: u64) -> u64 {
    match numbers.below(3) {
        0 => value.wrapping_add(1),
        1 => value.wrapping_sub(1 + numbers.below(20) as u64),
        _ => numbers.odd(),
    }
}

fn change32(numbers: &mut Numbers, value: u32) -> u32 {
    change(numbers, u64::from(value)) as u32
}

fn record(record: &mut Record, numbers: &mut Numbers) {
    let which = numbers.below(4);
    match record {
        Record::Events(run) => match which {
            0 => {
                run.image = numbers.below(5) as u32;
                run.stream = numbers.below(6) as u32;
            }
            1 => run.first_ordinal = change(numbers, run.first_ordinal),
            _ => events(&mut run.events, numbers),
        },
        Record::Clock(clock) => match which {
            0 | 1 => clock.tick = change(numbers, clock.tick),
            _ => clock.monotonic_ns = change(numbers, clock.monotonic_ns),
        },
        Record::Recording(recording) => match which {
            0 => recording.counts_only = !recording.counts_only,
            3 => recording.free_stacks = !recording.free_stacks,
            1 => recording.started_tick = numbers.odd(),
            2 => recording.started_unix_ns = numbers.odd(),
            _ => recording.depth_limit = numbers.odd() as u32,
        },
        Record::ImageStart(start) => match which {
            0 => start.image = change32(numbers, start.image),
            1 => start.forked_from = Some(numbers.below(5) as u32),
            2 => start.tick = change(numbers, start.tick),
            _ => {
                let point = ForkPoint {
                    stream: numbers.below(6) as u32,
                    ordinal: numbers.odd(),
                };
                start.fork_points.push(point);
                for point in &mut start.fork_points {
                    if numbers.once_in(2) {
                        point.ordinal = change(numbers, point.ordinal);
                    }
                }
            }
        },
        Record::LostBlocks { image, blocks } => match which {
            0 => *image = change32(numbers, *image),
            1 => blocks.reverse(),
            _ => {
                for block in blocks {
                    match numbers.below(8) {
                        0 => block.address = change(numbers, block.address) & !7,
                        1 => block.class = LostClass::ALL[numbers.below(LostClass::ALL.len())],
                        _ => {}
                    }
                }
            }
        },
        Record::Reachability(scan) => match which {
            0 => scan.image = change32(numbers, scan.image),
            1 => scan.tick = change(numbers, scan.tick),
            2 => scan.outcome = ScanOutcome::ALL[numbers.below(ScanOutcome::ALL.len())],
            _ => scan.other_threads = change32(numbers, scan.other_threads),
        },
        Record::ImageEnd(end) => match which {
            0 => end.image = change32(numbers, end.image),
            1 => end.exit = Exit::Signal(numbers.odd() as i32),
            _ => end.tick = change(numbers, end.tick),
        },
        Record::Stacks {
            image,
            first,
            nodes,
        } => match which {
            0 => *image = change32(numbers, *image),
            1 => *first = change32(numbers, *first),
            _ => {
                for _ in 0..=numbers.below(3) {
                    if nodes.is_empty() {
                        return;
                    }
                    let at = numbers.below(nodes.len());
                    let node = &mut nodes[at];
                    match numbers.below(4) {
                        0 => node.parent = change32(numbers, node.parent),
                        1 => node.address = change(numbers, node.address),
                        2 => node.mapping = change32(numbers, node.mapping),
                        _ => node.exact = !node.exact,
                    }
                }
            }
        },
        Record::Mapping(mapping) => match which {
            0 => mapping.module = change32(numbers, mapping.module),
            1 => mapping.start = change(numbers, mapping.start),
            2 => mapping.end = change(numbers, mapping.end),
            _ => mapping.bias = change(numbers, mapping.bias),
        },
        Record::Window(window) => match which {
            0 => window.opened = change(numbers, window.opened),
            1 => window.thread = Some(numbers.odd() as u32),
            2 => window.iterations = numbers.odd(),
            _ => window.tick = change(numbers, window.tick),
        },
        Record::WindowEnd(end) => match which {
            0 => end.opened = change(numbers, end.opened),
            1 => end.closed = change(numbers, end.closed),
            2 => {
                if let Some(descriptors) = &mut end.descriptors {
                    descriptors.more = numbers.odd();
                    descriptors.before = numbers.odd() as u32;
                }
            }
            _ => end.tick = change(numbers, end.tick),
        },
        Record::WindowCounts(counts) => match which {
            0 => counts.epoch = change(numbers, counts.epoch),
            1 => counts.all.allocations = numbers.odd(),
            2 => counts.of_thread.allocated_bytes = numbers.odd(),
            _ => counts.all.reallocations = numbers.odd(),
        },
        Record::Counts(counts) => {
            if which == 0 {
                counts.thread = numbers.odd() as u32;
            }
            for entry in &mut counts.entries {
                match numbers.below(5) {
                    0 => entry.allocations = numbers.odd(),
                    1 => entry.allocated_bytes = numbers.odd(),
                    2 => entry.deallocations = numbers.odd(),
                    3 => entry.reallocations = numbers.odd(),
                    _ => {}
                }
            }
        }
        Record::Loss(loss) => loss.events = numbers.odd(),
        Record::Waits(waits) => match which {
            0 | 1 => waits.waits = numbers.odd(),
            _ => waits.waited_ticks = numbers.odd(),
        },
        Record::ResidentSet {
            tick,
            bytes,
            recorder_bytes,
            ..
        } => match which {
            0 => *bytes = numbers.odd(),
            1 => *recorder_bytes = Some(numbers.odd()),
            _ => *tick = change(numbers, *tick),
        },
        Record::ThreadStart(start) => match which {
            0 => start.thread = change32(numbers, start.thread),
            1 => start.image = change32(numbers, start.image),
            _ => start.tick = numbers.odd(),
        },
        Record::Symbols(symbols) => match which {
            0 => symbols.module = change32(numbers, symbols.module),
            _ => names(&mut symbols.frames, &mut symbols.locations, numbers),
        },
        Record::JitSymbols(symbols) => match which {
            0 => symbols.tick = change(numbers, symbols.tick),
            _ => names(&mut symbols.frames, &mut symbols.locations, numbers),
        },
        _ => {}
    }
}

fn names(frames: &mut [NamedFrame], locations: &mut [Location], numbers: &mut Numbers) {
    if let Some(at) = numbers.below(locations.len() + 1).checked_sub(1) {
        match numbers.below(3) {
            0 => locations[at].address = numbers.odd(),
            1 => locations[at].frames.clear(),
            _ => {
                let repeated = locations[at].frames.clone();
                locations[at].frames.extend(repeated);
            }
        }
    }
    if let Some(at) = numbers.below(frames.len() + 1).checked_sub(1) {
        frames[at].function =
            (*numbers.one_of(&["", "\u{202e}x\u{1b}[2J", "a\nb", "é", "\0"])).into();
        frames[at].line = numbers.odd() as u32;
        frames[at].offset = Some(numbers.odd());
    }
}

fn events(events: &mut Vec<Event>, numbers: &mut Numbers) {
    const KINDS: [EventKind; 9] = [
        EventKind::Allocation,
        EventKind::Deallocation,
        EventKind::ReallocationStart,
        EventKind::ReallocationEnd,
        EventKind::ReallocationFailed,
        EventKind::ReallocationFreed,
        EventKind::Timestamp,
        EventKind::Thread,
        EventKind::Epoch,
    ];
    for _ in 0..=numbers.below(6) {
        if events.is_empty() {
            return;
        }
        let at = numbers.below(events.len());
        let other = numbers.below(events.len());
        match numbers.below(9) {
            0 => events[at].kind = *numbers.one_of(&KINDS),
            1 => events[at].address = change(numbers, events[at].address),
            2 => events[at].size = numbers.odd(),
            3 => events[at].stack = change32(numbers, events[at].stack),
            4 => events[at].entry = *numbers.one_of(&EntryPoint::ALL),
            5 => events[at].address = events[other].address,
            6 => events.swap(at, other),
            7 => {
                let copy = events[at];
                let times = 1 + numbers.below(40);
                events.splice(other..other, std::iter::repeat_n(copy, times));
            }
            _ => {
                let (from, to) = (at.min(other), at.max(other));
                events.drain(from..to);
            }
        }
    }
}

/// Changes a trace's bytes and chunks. Most often it then repairs the checksums, so that
/// the damage reaches the decoders.
pub fn trace(file: &mut Vec<u8>, numbers: &mut Numbers) {
    if numbers.once_in(3) {
        chunks(file, numbers);
    } else {
        let from = FILE_HEADER.min(file.len());
        for _ in 0..=numbers.below(4) {
            poke(file, from, numbers);
        }
    }
    if !numbers.once_in(4) {
        repair(file);
    }
    if numbers.once_in(12) {
        file.truncate(numbers.below(file.len() + 1));
    }
}

/// Start and end of each chunk, from the headers.
fn boundaries(file: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = FILE_HEADER;
    while at + CHUNK_HEADER <= file.len() {
        let summary = usize::from(u16::from_le_bytes([file[at + 4], file[at + 5]]));
        let stored = u32::from_le_bytes([file[at + 8], file[at + 9], file[at + 10], file[at + 11]]);
        let Some(end) = (at + CHUNK_HEADER + summary)
            .checked_add(stored as usize)
            .filter(|&end| end <= file.len())
        else {
            break;
        };
        found.push((at, end));
        at = end;
    }
    found
}

/// Deletes, doubles and exchanges chunks, and changes their headers' fields.
fn chunks(file: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(3) {
        let found = boundaries(file);
        if found.is_empty() {
            return;
        }
        let (start, end) = *numbers.one_of(&found);
        let (other, _) = *numbers.one_of(&found);
        let chunk = file[start..end].to_vec();
        match numbers.below(6) {
            0 => {
                file.drain(start..end);
            }
            1 => {
                file.splice(other..other, chunk);
            }
            2 if other > start => {
                file.splice(other..other, chunk);
                file.drain(start..end);
            }
            // A field of the header: kind, coding, lengths, items.
            3 => {
                let (at, bytes) =
                    *numbers.one_of(&[(0, 2), (2, 1), (4, 2), (8, 4), (12, 4), (16, 4)]);
                let value = numbers.odd().to_le_bytes();
                file[start + at..start + at + bytes].copy_from_slice(&value[..bytes]);
            }
            // A word of the summary.
            4 if end - start > CHUNK_HEADER + 8 => {
                let within = (end - start - CHUNK_HEADER - 8).min(72);
                let at = start + CHUNK_HEADER + numbers.below(within / 4 + 1) * 4;
                let value = numbers.odd().to_le_bytes();
                let bytes = *numbers.one_of(&[4, 8]);
                file[at..at + bytes].copy_from_slice(&value[..bytes]);
            }
            _ => {
                if end - start > CHUNK_HEADER {
                    let at = start + CHUNK_HEADER + numbers.below(end - start - CHUNK_HEADER);
                    file[at] ^= 1 << numbers.below(8);
                }
            }
        }
    }
}

/// Changes a few bytes from `from` on.
fn poke(bytes: &mut Vec<u8>, from: usize, numbers: &mut Numbers) {
    if bytes.len() <= from {
        return;
    }
    let at = from + numbers.below(bytes.len() - from);
    match numbers.below(7) {
        0 | 1 => bytes[at] ^= 1 << numbers.below(8),
        2 => bytes[at] = *numbers.one_of(&[0, 0xff, 0x80, 0x7f, 1]),
        3 => bytes[at] = numbers.next() as u8,
        4 => {
            let length = numbers.below(16).min(bytes.len() - at);
            let source = from + numbers.below(bytes.len() - from - length + 1);
            bytes.copy_within(source..source + length, at);
        }
        5 => {
            let end = (at + numbers.below(40)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let end = (at + numbers.below(200)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
    }
}

/// Makes the checksums of the chunks right again.
fn repair(file: &mut [u8]) {
    for (start, end) in boundaries(file) {
        let summary = usize::from(u16::from_le_bytes([file[start + 4], file[start + 5]]));
        let payload = start + CHUNK_HEADER + summary;
        let payload_crc = crc32fast::hash(&file[payload..end]).to_le_bytes();
        file[start + 20..start + 24].copy_from_slice(&payload_crc);
        let checked = [
            &file[start..start + 24],
            &file[start + CHUNK_HEADER..payload],
        ]
        .concat();
        let header_crc = crc32fast::hash(&checked).to_le_bytes();
        file[start + 24..start + 28].copy_from_slice(&header_crc);
    }
}

/// Changes a file of another format: bytes, lines, numbers.
pub fn foreign(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len().max(1));
        match numbers.below(6) {
            5 => fields(bytes, numbers),
            0 => {
                let digits = "9".repeat(1 + numbers.below(30));
                bytes.splice(at..at, digits.into_bytes());
            }
            1 => bytes.insert(at, *numbers.one_of(b"0f;\n`@[{\"9 -\\")),
            2 if numbers.once_in(4) => bytes.truncate(at),
            3 => lines(bytes, numbers),
            _ => poke(bytes, 0, numbers),
        }
        if bytes.is_empty() {
            return;
        }
    }
}

/// Exchanges or repeats lines.
fn lines(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let mut lines: Vec<Vec<u8>> = bytes
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let (at, to) = (numbers.below(lines.len()), numbers.below(lines.len()));
    if numbers.once_in(2) {
        lines.swap(at, to);
    } else {
        let copy = lines[at].clone();
        lines.splice(to..to, std::iter::repeat_n(copy, 1 + numbers.below(3)));
    }
    *bytes = lines.join(&b'\n');
}

/// Exchanges, repeats or leaves out fields of protobuf, if that is what the bytes are.
fn fields(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let mut fields: Vec<Vec<u8>> = Vec::new();
    let mut rest = &bytes[..];
    while let &[_, second, ..] = rest {
        // Messages shorter than 128 bytes, and numbers of one byte.
        let length = if rest[0] & 7 == 2 {
            2 + usize::from(second)
        } else {
            2
        };
        if second >= 0x80 || length > rest.len() {
            break;
        }
        let (field, behind) = rest.split_at(length);
        fields.push(field.to_vec());
        rest = behind;
    }
    if fields.len() < 2 {
        return;
    }
    let (at, to) = (numbers.below(fields.len()), numbers.below(fields.len()));
    match numbers.below(3) {
        0 => fields.swap(at, to),
        1 => {
            let copy = fields[at].clone();
            fields.insert(to, copy);
        }
        _ => {
            fields.remove(at);
        }
    }
    fields.push(rest.to_vec());
    *bytes = fields.concat();
}
