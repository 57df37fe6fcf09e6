//! How events are put into words, for both sides.
//!
//! Every event begins with a word `payload | kind << 48 | extra << 56`; the
//! payload is an address (48 bits) where there is one. The hot events take one
//! word (deallocation) or two (allocation). [`decode`] reads them all.

/// Bits of an address in an event's first word.
pub const ADDRESS_MASK: u64 = (1 << 48) - 1;
/// Bits of a stack id.
pub const STACK_BITS: u32 = 24;
/// Stack ids stay below this: the recorder starts anew with [`kind::FORGET`]
/// when it has used them up.
pub const STACK_IDS: u32 = 1 << 20;
/// Mask of a stack id.
pub const STACK_MASK: u64 = (1 << STACK_BITS) - 1;
/// Sizes from here on need the long form.
pub const LONG_SIZE: u64 = 1 << 40;
/// Mapping number of an address outside every known module.
pub const NO_MAPPING: u16 = u16::MAX;

/// The kinds of event, in bits 48 to 55 of the first word.
pub mod kind {
    /// `[address, entry] [stack 24, size 40]`
    pub const ALLOCATION: u8 = 1;
    /// `[address, entry] [stack 24, alignment_log2 8] [size]`
    pub const ALLOCATION_LONG: u8 = 2;
    /// `[address, entry]`
    pub const DEALLOCATION: u8 = 3;
    /// `[old address, entry]`, before the call.
    pub const REALLOCATION_START: u8 = 4;
    /// `[address, entry] [stack 24, size 40]`
    pub const REALLOCATION_END: u8 = 5;
    /// `[address, entry] [stack 24] [size]`
    pub const REALLOCATION_END_LONG: u8 = 6;
    /// `[old address]`
    pub const REALLOCATION_FAILED: u8 = 7;
    /// `[old address]`
    pub const REALLOCATION_FREED: u8 = 8;
    /// `[clock 32] [tick]`: the time, and the coarse clock (0: unknown) that the
    /// thread saw with every event since the mark before.
    pub const ANCHOR: u8 = 9;
    /// `[0, 1 if opted out] [tick] [epoch]`: what follows was recorded at that
    /// epoch of the image, or belongs to no window.
    pub const EPOCH: u8 = 10;
    /// `[tid, 1 if nested] [tick]`: what follows is that thread's.
    pub const THREAD: u8 = 11;
    /// `[address, 1 if exact] [parent 24, id 24, mapping 16]`: defines a stack id.
    pub const NODE: u8 = 12;
    /// `[0]`: every stack id of this ring is forgotten.
    pub const FORGET: u8 = 13;
    /// `[mapping 16 | words << 16] [start] [end] [bias] [tick] [build id bytes | path bytes << 32] build id… path…`
    pub const MAPPING: u8 = 14;
    /// `[words << 16] [pid | parent pid << 32] [tick] [origin | parent slot + 1 << 32] [fork points | executable bytes << 16 | command bytes << 32] (ring, ordinal)… executable… command…`
    pub const IMAGE: u8 = 15;
    /// `[status]`: the image is about to exit with it.
    pub const EXIT: u8 = 16;
    /// `[mapping]`: unloaded, noticed now.
    pub const UNMAPPED: u8 = 17;
    /// `[words << 16] [path bytes] path…`: the thread calls `exec`. If that
    /// succeeds nothing more comes from this image.
    pub const EXEC: u8 = 18;
    /// `[words << 16, window flags] [opened] [iterations] [tick] [name bytes] name…`:
    /// the thread opened a window.
    pub const WINDOW: u8 = 19;
    /// `[0, window flags] [opened] [closed] [tick]`: a window was closed.
    pub const WINDOW_END: u8 = 20;
    /// `[0]`: the descriptors that are open now are to be remembered for the
    /// window that this ring opens next.
    pub const DESCRIPTORS: u8 = 21;
    /// `[ticks]`: the thread has waited so long for room in its ring.
    pub const WAITED: u8 = 22;
    /// `[words << 16] (entry, allocations, bytes, deallocations, reallocations)…`:
    /// the ring's counters as its last thread left them; entry points without
    /// any are left out. What a thread did that had opted out of windows
    /// has the entry's number beyond those that are counted apart.
    pub const COUNTS: u8 = 32;
    /// `[0] [epoch] [sums of the image 4] [sums of the thread 4]`: what was
    /// counted when a window's opening or closing made that epoch, without
    /// what threads did that had opted out; sums are allocations, bytes,
    /// deallocations, reallocations.
    pub const WINDOW_COUNTS: u8 = 33;
}

/// The extra byte of the two window events.
pub mod window_flag {
    /// Only the opening thread's events belong to it.
    pub const THIS_THREAD_ONLY: u8 = 1;
    /// Open file descriptors are compared at its ends.
    pub const DESCRIPTORS: u8 = 2;
    /// Where what came of waiting for quiet begins, as a [`Quiet`](crate::numbers::Quiet) number.
    pub const QUIET_SHIFT: u32 = 2;
    /// And its mask.
    pub const QUIET_MASK: u8 = 3;
}

/// Longest name of a window, in bytes.
pub const WINDOW_NAME_BYTES: usize = 255;

/// Where an image comes from, in the `IMAGE` event.
pub mod origin {
    /// By `exec`, the recorded command's own included.
    pub const EXEC: u32 = 0;
    /// By `fork` of a recorded image.
    pub const FORK: u32 = 1;
}

/// First word of an event.
#[inline(always)]
pub const fn head(kind: u8, extra: u8, payload: u64) -> u64 {
    (payload & ADDRESS_MASK) | (kind as u64) << 48 | (extra as u64) << 56
}

/// Second word of a short allocation; `size` must be below [`LONG_SIZE`].
#[inline(always)]
pub const fn stack_and_size(stack: u32, size: u64) -> u64 {
    (stack as u64) | size << STACK_BITS
}

/// Second word of a node.
#[inline(always)]
pub const fn node(parent: u32, id: u32, mapping: u16) -> u64 {
    parent as u64 | (id as u64) << 24 | (mapping as u64) << 48
}

/// A decoded event. Byte strings of the long events are handed out as words
/// with their length in bytes (see [`bytes`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are those of `kind`
pub enum WireEvent<'a> {
    Allocation {
        entry: u8,
        address: u64,
        size: u64,
        stack: u32,
        alignment_log2: u8,
    },
    Deallocation {
        entry: u8,
        address: u64,
    },
    ReallocationStart {
        entry: u8,
        address: u64,
    },
    ReallocationEnd {
        entry: u8,
        address: u64,
        size: u64,
        stack: u32,
    },
    ReallocationFailed {
        address: u64,
    },
    ReallocationFreed {
        address: u64,
    },
    Anchor {
        tick: u64,
        clock: u32,
    },
    Epoch {
        tick: u64,
        epoch: u64,
        opted_out: bool,
    },
    /// `nested`: a second ring of the thread that has this tid now; otherwise
    /// a new thread, even if its tid was seen before.
    Thread {
        tid: u32,
        tick: u64,
        nested: bool,
    },
    Node(NodeWords),
    Forget,
    Mapping(MappingWords<'a>),
    Image(ImageWords<'a>),
    Exit {
        status: i32,
    },
    Unmapped {
        mapping: u16,
    },
    Exec {
        path: (&'a [u64], usize),
    },
    Window(WindowWords<'a>),
    WindowEnd {
        flags: u8,
        opened: u64,
        closed: u64,
        tick: u64,
    },
    Descriptors,
    Waited {
        ticks: u64,
    },
    /// Five words for each entry point, see [`kind::COUNTS`].
    Counts(&'a [[u64; COUNTS_WORDS]]),
    WindowCounts {
        epoch: u64,
        image: Sums,
        thread: Sums,
    },
}

/// A `NODE` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NodeWords {
    pub address: u64,
    pub exact: bool,
    pub parent: u32,
    pub id: u32,
    pub mapping: u16,
}

/// The `NODE` event of two words.
#[inline(always)]
pub const fn decode_node(first: u64, second: u64) -> NodeWords {
    NodeWords {
        address: first & ADDRESS_MASK,
        exact: first >> 56 != 0,
        parent: (second & STACK_MASK) as u32,
        id: (second >> 24 & STACK_MASK) as u32,
        mapping: (second >> 48) as u16,
    }
}

/// Allocations, bytes, deallocations, reallocations.
pub type Sums = [u64; COUNTS_WORDS - 1];
/// Words of `WINDOW_COUNTS`.
pub const WINDOW_COUNTS_WORDS: usize = 2 + 2 * (COUNTS_WORDS - 1);

/// A `WINDOW` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct WindowWords<'a> {
    /// See [`window_flag`].
    pub flags: u8,
    pub opened: u64,
    pub iterations: u64,
    pub tick: u64,
    pub name: (&'a [u64], usize),
}

/// Words that `COUNTS` has for an entry point.
pub const COUNTS_WORDS: usize = 5;

/// A `MAPPING` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MappingWords<'a> {
    pub mapping: u16,
    pub start: u64,
    pub end: u64,
    pub bias: u64,
    pub tick: u64,
    pub build_id: (&'a [u64], usize),
    pub path: (&'a [u64], usize),
}

/// An `IMAGE` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ImageWords<'a> {
    pub pid: u32,
    pub parent_pid: u32,
    pub tick: u64,
    /// One of [`origin`].
    pub origin: u32,
    /// The parent's image slot, for a fork.
    pub parent_slot: Option<u32>,
    /// Pairs of ring and ordinal, the forking thread's first.
    pub fork_points: &'a [u64],
    pub executable: (&'a [u64], usize),
    /// Arguments, each ended by a zero byte.
    pub command: (&'a [u64], usize),
}

/// What can be wrong with words that a producer wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The event's length exceeds the words at hand: more may come.
    Short,
    /// No event looks like this.
    Kind(u8),
    /// A length inside the event contradicts the event's own.
    Length,
}

/// Bytes of a byte string in words (little-endian, zero-padded).
pub const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// The bytes of a byte string of a long event.
pub fn bytes(string: (&[u64], usize)) -> impl Iterator<Item = u8> + '_ {
    string
        .0
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .take(string.1)
}

/// Length in words of the event that begins with `first`, or `None` if there
/// is no such event.
#[inline]
pub fn length(first: u64) -> Option<usize> {
    Some(match (first >> 48) as u8 {
        kind::DEALLOCATION
        | kind::REALLOCATION_START
        | kind::REALLOCATION_FAILED
        | kind::REALLOCATION_FREED
        | kind::FORGET
        | kind::EXIT
        | kind::UNMAPPED
        | kind::DESCRIPTORS
        | kind::WAITED => 1,
        kind::ALLOCATION | kind::REALLOCATION_END | kind::ANCHOR | kind::THREAD | kind::NODE => 2,
        kind::ALLOCATION_LONG | kind::REALLOCATION_END_LONG | kind::EPOCH => 3,
        kind::WINDOW_END => 4,
        kind::WINDOW_COUNTS => WINDOW_COUNTS_WORDS,
        kind::MAPPING | kind::IMAGE | kind::EXEC | kind::WINDOW | kind::COUNTS => {
            let words = (first >> 16) as u32 as usize;
            if !(1..=crate::layout::MAX_EVENT_WORDS).contains(&words) {
                return None;
            }
            words
        }
        _ => return None,
    })
}

/// Decodes the event at the start of `words`; also gives its length in words.
#[inline]
pub fn decode(words: &[u64]) -> Result<(WireEvent<'_>, usize), Malformed> {
    let first = *words.first().ok_or(Malformed::Short)?;
    let tag = (first >> 48) as u8;
    let length = length(first).ok_or(Malformed::Kind(tag))?;
    let words = words.get(..length).ok_or(Malformed::Short)?;
    let entry = (first >> 56) as u8;
    let address = first & ADDRESS_MASK;
    let second = |index: usize| words.get(index).copied().unwrap_or(0);
    let stack = (second(1) & STACK_MASK) as u32;
    let word = match tag {
        kind::ALLOCATION => WireEvent::Allocation {
            entry,
            address,
            size: second(1) >> STACK_BITS,
            stack,
            alignment_log2: 0,
        },
        kind::ALLOCATION_LONG => WireEvent::Allocation {
            entry,
            address,
            size: second(2),
            stack,
            alignment_log2: (second(1) >> STACK_BITS) as u8,
        },
        kind::DEALLOCATION => WireEvent::Deallocation { entry, address },
        kind::REALLOCATION_START => WireEvent::ReallocationStart { entry, address },
        kind::REALLOCATION_END => WireEvent::ReallocationEnd {
            entry,
            address,
            size: second(1) >> STACK_BITS,
            stack,
        },
        kind::REALLOCATION_END_LONG => WireEvent::ReallocationEnd {
            entry,
            address,
            size: second(2),
            stack,
        },
        kind::REALLOCATION_FAILED => WireEvent::ReallocationFailed { address },
        kind::REALLOCATION_FREED => WireEvent::ReallocationFreed { address },
        kind::ANCHOR => WireEvent::Anchor {
            tick: second(1),
            clock: address as u32,
        },
        kind::EPOCH => WireEvent::Epoch {
            tick: second(1),
            epoch: second(2),
            opted_out: entry != 0,
        },
        kind::THREAD => WireEvent::Thread {
            tid: address as u32,
            tick: second(1),
            nested: entry != 0,
        },
        kind::NODE => WireEvent::Node(decode_node(first, second(1))),
        kind::FORGET => WireEvent::Forget,
        kind::MAPPING => WireEvent::Mapping(decode_mapping(words)?),
        kind::IMAGE => WireEvent::Image(decode_image(words)?),
        kind::EXEC => WireEvent::Exec {
            path: string(words, 2, second(1) as usize)?,
        },
        kind::COUNTS => match words[1..].as_chunks() {
            (counts, []) => WireEvent::Counts(counts),
            _ => return Err(Malformed::Length),
        },
        kind::WINDOW_COUNTS => WireEvent::WindowCounts {
            epoch: second(1),
            image: core::array::from_fn(|at| second(2 + at)),
            thread: core::array::from_fn(|at| second(2 + COUNTS_WORDS - 1 + at)),
        },
        kind::EXIT => WireEvent::Exit {
            status: address as u32 as i32,
        },
        kind::WINDOW => WireEvent::Window(decode_window(words, entry)?),
        kind::WINDOW_END => WireEvent::WindowEnd {
            flags: entry,
            opened: second(1),
            closed: second(2),
            tick: second(3),
        },
        kind::DESCRIPTORS => WireEvent::Descriptors,
        kind::WAITED => WireEvent::Waited { ticks: address },
        _ => WireEvent::Unmapped {
            mapping: address as u16,
        },
    };
    Ok((word, length))
}

fn string(words: &[u64], at: usize, length: usize) -> Result<(&[u64], usize), Malformed> {
    let end = at.checked_add(words_of(length)).ok_or(Malformed::Length)?;
    Ok((words.get(at..end).ok_or(Malformed::Length)?, length))
}

fn decode_mapping(words: &[u64]) -> Result<MappingWords<'_>, Malformed> {
    let &[first, start, end, bias, tick, lengths, ..] = words else {
        return Err(Malformed::Length);
    };
    let build_id = string(words, 6, lengths as u32 as usize)?;
    let path = string(words, 6 + build_id.0.len(), (lengths >> 32) as usize)?;
    Ok(MappingWords {
        mapping: first as u16,
        start,
        end,
        bias,
        tick,
        build_id,
        path,
    })
}

fn decode_window(words: &[u64], flags: u8) -> Result<WindowWords<'_>, Malformed> {
    let &[_, opened, iterations, tick, length, ..] = words else {
        return Err(Malformed::Length);
    };
    if length > WINDOW_NAME_BYTES as u64 {
        return Err(Malformed::Length);
    }
    Ok(WindowWords {
        flags,
        opened,
        iterations,
        tick,
        name: string(words, 5, length as usize)?,
    })
}

fn decode_image(words: &[u64]) -> Result<ImageWords<'_>, Malformed> {
    let &[_, pids, tick, origin, lengths, ..] = words else {
        return Err(Malformed::Length);
    };
    let points = lengths as u16 as usize * 2;
    let fork_points = words.get(5..5 + points).ok_or(Malformed::Length)?;
    let executable = string(words, 5 + points, (lengths >> 16) as u16 as usize)?;
    let command = string(
        words,
        5 + points + executable.0.len(),
        (lengths >> 32) as usize,
    )?;
    Ok(ImageWords {
        pid: pids as u32,
        parent_pid: (pids >> 32) as u32,
        tick,
        origin: origin as u32,
        parent_slot: ((origin >> 32) as u32).checked_sub(1),
        fork_points,
        executable,
        command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_events_come_back_as_they_were_written() {
        let address = 0x7fff_1234_5670;
        let words = [
            head(kind::ALLOCATION, 9, address),
            stack_and_size(77, LONG_SIZE - 1),
        ];
        assert_eq!(
            decode(&words),
            Ok((
                WireEvent::Allocation {
                    entry: 9,
                    address,
                    size: LONG_SIZE - 1,
                    stack: 77,
                    alignment_log2: 0
                },
                2
            ))
        );
        let words = [
            head(kind::NODE, 1, address),
            node(0xabcdef, 0x123456, 0xfffe),
        ];
        assert_eq!(
            decode(&words),
            Ok((
                WireEvent::Node(NodeWords {
                    address,
                    exact: true,
                    parent: 0xabcdef,
                    id: 0x123456,
                    mapping: 0xfffe
                }),
                2
            ))
        );
        assert_eq!(
            decode(&[head(kind::EXIT, 0, u64::from(-3i32 as u32))]),
            Ok((WireEvent::Exit { status: -3 }, 1))
        );
        assert_eq!(
            decode(&[head(kind::WAITED, 0, ADDRESS_MASK)]),
            Ok((
                WireEvent::Waited {
                    ticks: (1 << 48) - 1
                },
                1
            ))
        );
    }

    #[test]
    fn an_event_cut_short_asks_for_more() {
        assert_eq!(decode(&[]), Err(Malformed::Short));
        assert_eq!(decode(&[head(kind::ANCHOR, 0, 0)]), Err(Malformed::Short));
    }

    #[test]
    fn nonsense_is_named() {
        assert_eq!(decode(&[0]), Err(Malformed::Kind(0)));
        assert_eq!(decode(&[head(200, 0, 0)]), Err(Malformed::Kind(200)));
        // A mapping of 6 words whose strings would need more.
        let mut words = [0u64; 6];
        words[0] = head(kind::MAPPING, 0, 6 << 16);
        words[5] = 20 | 100 << 32;
        assert_eq!(decode(&words), Err(Malformed::Length));
    }

    #[test]
    fn windows_come_back_as_they_were_written() {
        let flags = window_flag::THIS_THREAD_ONLY | 2 << window_flag::QUIET_SHIFT;
        let mut words = [0, 7, 1000, 55, 6, u64::from_le_bytes(*b"encode\0\0")];
        words[0] = head(kind::WINDOW, flags, 6 << 16);
        let (WireEvent::Window(window), 6) = decode(&words).unwrap() else {
            panic!()
        };
        assert_eq!(window.flags, flags);
        assert_eq!(
            (window.opened, window.iterations, window.tick),
            (7, 1000, 55)
        );
        assert!(bytes(window.name).eq(*b"encode"));
        words[4] = 9;
        assert_eq!(decode(&words), Err(Malformed::Length), "a word too few");
        words[4] = u64::MAX;
        assert_eq!(decode(&words), Err(Malformed::Length), "no such name");
        assert_eq!(
            decode(&[head(kind::WINDOW, 0, 3 << 16), 1, 2]),
            Err(Malformed::Length)
        );
        let end = [head(kind::WINDOW_END, flags, 0), 7, 8, 66];
        let expected = WireEvent::WindowEnd {
            flags,
            opened: 7,
            closed: 8,
            tick: 66,
        };
        assert_eq!(decode(&end), Ok((expected, 4)));
        assert_eq!(decode(&end[..3]), Err(Malformed::Short));
    }

    #[test]
    fn what_was_counted_at_an_end_of_a_window_comes_back() {
        let mut words: Vec<u64> = (0..WINDOW_COUNTS_WORDS as u64).collect();
        words[0] = head(kind::WINDOW_COUNTS, 0, 0);
        let expected = WireEvent::WindowCounts {
            epoch: 1,
            image: [2, 3, 4, 5],
            thread: [6, 7, 8, 9],
        };
        assert_eq!(decode(&words), Ok((expected, 10)));
        assert_eq!(decode(&words[..9]), Err(Malformed::Short));
    }

    #[test]
    fn counts_are_whole_or_nonsense() {
        let mut words = [0u64; 1 + 2 * COUNTS_WORDS];
        words[0] = head(kind::COUNTS, 0, 11 << 16);
        words[1..6].copy_from_slice(&[0, 2, 30, 0, 0]);
        words[6..].copy_from_slice(&[9, 0, 0, 1, 0]);
        let expected = [[0, 2, 30, 0, 0], [9, 0, 0, 1, 0]];
        assert_eq!(decode(&words), Ok((WireEvent::Counts(&expected), 11)));
        words[0] = head(kind::COUNTS, 0, 1 << 16);
        assert_eq!(decode(&words), Ok((WireEvent::Counts(&[]), 1)));
        words[0] = head(kind::COUNTS, 0, 10 << 16);
        assert_eq!(decode(&words), Err(Malformed::Length));
    }

    #[test]
    fn long_events_carry_their_strings() {
        let mut words = [0u64; 5 + 2 + 2 + 1];
        words[0] = head(kind::IMAGE, 0, 10 << 16);
        words[1] = 42 | 41 << 32;
        words[2] = 1000;
        words[3] = u64::from(origin::FORK) | 8 << 32;
        words[4] = 1 | 9 << 16 | 4 << 32;
        words[5] = 3;
        words[6] = 99;
        words[7] = u64::from_le_bytes(*b"/bin/sle");
        words[8] = u64::from_le_bytes(*b"p\0\0\0\0\0\0\0");
        words[9] = u64::from_le_bytes(*b"a\0b\0\0\0\0\0");
        let (WireEvent::Image(image), 10) = decode(&words).unwrap() else {
            panic!()
        };
        assert_eq!(
            (image.pid, image.parent_pid, image.parent_slot),
            (42, 41, Some(7))
        );
        assert_eq!(image.fork_points, [3, 99]);
        assert!(bytes(image.executable).eq(*b"/bin/slep"));
        assert!(bytes(image.command).eq(*b"a\0b\0"));
    }
}
