//! Encoding and decoding of the events in a ring.
//!
//! An event is one word or more. Its first word is
//! `payload | kind << 48 | extra << 56`; the payload is a 48-bit address if the event has
//! one. The frequent events are short: a deallocation is one word, an allocation two.
//! [`kind`] describes the words of each kind.
//!
//! Events of a fixed length have a `const fn` that returns their words as an array,
//! which the recorder stores directly. Events that contain strings or lists implement
//! [`Encode`]. [`WireEvent`] is any event: [`decode`] reads it and its `Encode` writes
//! it, so that tests can compare the two directions.

use crate::mapped_file::{FileIdentity, IDENTITY_WORDS};
use crate::numbers::LostClass;

/// Bits of an address in an event's first word.
pub const ADDRESS_MASK: u64 = (1 << 48) - 1;
/// Bits of a stack id.
pub const STACK_BITS: u32 = 24;
/// Stack ids are below this. A thread that has used all of them writes
/// [`kind::RESET_STACK_IDS`] and starts again from the first one.
pub const STACK_IDS: u32 = 1 << 20;
/// Mask of a stack id.
pub const STACK_MASK: u64 = (1 << STACK_BITS) - 1;
/// The smallest size that needs the long form of an event.
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
    /// thread read with every event since the timestamp before.
    pub const TIMESTAMP: u8 = 9;
    /// `[0, 1 if opted out] [tick] [epoch]`: a timestamp; the following events were
    /// recorded in this epoch of the image, or, if opted out, belong to no window.
    pub const EPOCH: u8 = 10;
    /// `[tid, 1 if nested] [tick]`: the following events are of this thread.
    pub const THREAD: u8 = 11;
    /// `[address, 1 if exact] [parent 24, id 24, mapping 16]`: defines a stack id.
    pub const NODE: u8 = 12;
    /// `[0]`: every stack id of this ring becomes undefined.
    pub const RESET_STACK_IDS: u8 = 13;
    /// `[mapping 16 | words << 16] [start] [end] [bias] [tick] [build id bytes | path bytes << 32] build id… path…`
    pub const MAPPING: u8 = 14;
    /// `[words << 16] [pid | parent pid << 32] [tick] [origin | parent slot + 1 << 32] [fork points | executable bytes << 16 | command bytes << 32] (ring, ordinal)… executable… command…`
    pub const IMAGE: u8 = 15;
    /// `[status]`: the image is about to exit with this status.
    pub const EXIT: u8 = 16;
    /// `[mapping]`: the recorder has noticed that the mapping's module is unloaded.
    pub const UNMAPPED: u8 = 17;
    /// `[words << 16] [path bytes] path…`: the thread calls `exec`. If the call
    /// succeeds, this is the image's last event.
    pub const EXEC: u8 = 18;
    /// `[words << 16, window flags] [opened] [iterations] [tick] [name bytes] name…`:
    /// the thread opened a window.
    pub const WINDOW: u8 = 19;
    /// `[0, window flags] [opened] [closed] [tick]`: a window was closed.
    pub const WINDOW_END: u8 = 20;
    /// `[0]`: a request to list the open descriptors, for the window that this
    /// ring opens next.
    pub const DESCRIPTORS: u8 = 21;
    /// `[ticks]`: the thread has waited that long for space in its ring.
    pub const WAITED: u8 = 22;
    /// `[address, entry] [stack 24]`: as [`DEALLOCATION`], with the stack of the call.
    pub const DEALLOCATION_AT: u8 = 23;
    /// `[old address, entry] [stack 24]`: as [`REALLOCATION_START`], with the stack of
    /// the call.
    pub const REALLOCATION_START_AT: u8 = 24;
    /// `[tid] [tick] [name 8 bytes] [name 8 bytes]`: the thread's name at that time, see
    /// [`ThreadName`](crate::wire::ThreadName).
    pub const THREAD_NAME: u8 = 25;
    /// `[address, class]`: a block that the scan of [`REACHABILITY`] did not find reachable; the
    /// class is a [`LostClass`](crate::numbers::LostClass).
    pub const LOST_BLOCK: u8 = 26;
    /// `[blocks, outcome] [tick] [threads]`: the end of the scan for reachable blocks that began
    /// at this tick, and its [`ScanOutcome`](crate::numbers::ScanOutcome); how many blocks it
    /// examined, and how many other threads the process had.
    pub const REACHABILITY: u8 = 27;
    /// `[words << 16] (entry, allocations, bytes, deallocations, reallocations)…`:
    /// the ring's counters at the end of its last thread, without entries that are all
    /// 0. `entry` indexes [`Counters::all`](crate::layout::Counters::all).
    pub const COUNTS: u8 = 32;
    /// `[0] [epoch] [sums of the image 4] [sums of the thread 4]`: the counters at the
    /// opening or closing of a window that began this epoch, without calls of threads
    /// that had opted out. The sums are allocations, bytes, deallocations,
    /// reallocations.
    pub const WINDOW_COUNTS: u8 = 33;
}

/// The extra byte of the two window events.
pub mod window_flag {
    /// Only the opening thread's events belong to the window.
    pub const THIS_THREAD_ONLY: u8 = 1;
    /// Open file descriptors at the window's start and end are compared.
    pub const DESCRIPTORS: u8 = 2;
    /// Lowest bit of the field that contains a [`QuietWait`](crate::numbers::QuietWait).
    pub const QUIET_SHIFT: u32 = 2;
    /// Mask of that field.
    pub const QUIET_MASK: u8 = 3;
}

/// Longest name of a window, in bytes.
pub const WINDOW_NAME_BYTES: usize = 255;

/// How an image came to be, in the `IMAGE` event.
pub mod origin {
    /// The image came to be by `exec`, the recorded command's own included.
    pub const EXEC: u32 = 0;
    /// The image came to be by `fork` of a recorded image.
    pub const FORK: u32 = 1;
}

/// First word of an event.
#[inline(always)]
pub const fn head(kind: u8, extra: u8, payload: u64) -> u64 {
    (payload & ADDRESS_MASK) | (kind as u64) << 48 | (extra as u64) << 56
}

/// First word of an event that contains its own length in words.
const fn long_head(kind: u8, extra: u8, words: usize) -> u64 {
    head(kind, extra, (words as u64) << 16)
}

/// `ALLOCATION`. `size` must be below [`LONG_SIZE`].
#[inline(always)]
pub const fn allocation(entry: u8, address: u64, size: u64, stack: u32) -> [u64; 2] {
    short_result(kind::ALLOCATION, entry, address, size, stack)
}

/// `ALLOCATION_LONG`.
#[inline(always)]
pub const fn allocation_long(
    entry: u8,
    address: u64,
    size: u64,
    stack: u32,
    alignment_log2: u8,
) -> [u64; 3] {
    let stack = stack as u64 | (alignment_log2 as u64) << STACK_BITS;
    [head(kind::ALLOCATION_LONG, entry, address), stack, size]
}

/// `REALLOCATION_END`. `size` must be below [`LONG_SIZE`].
#[inline(always)]
pub const fn reallocation_end(entry: u8, address: u64, size: u64, stack: u32) -> [u64; 2] {
    short_result(kind::REALLOCATION_END, entry, address, size, stack)
}

/// `REALLOCATION_END_LONG`.
#[inline(always)]
pub const fn reallocation_end_long(entry: u8, address: u64, size: u64, stack: u32) -> [u64; 3] {
    let head = head(kind::REALLOCATION_END_LONG, entry, address);
    [head, stack as u64, size]
}

#[inline(always)]
const fn short_result(kind: u8, entry: u8, address: u64, size: u64, stack: u32) -> [u64; 2] {
    [
        head(kind, entry, address),
        stack as u64 | size << STACK_BITS,
    ]
}

/// `DEALLOCATION`, or one of the `REALLOCATION_…` events of one word.
#[inline(always)]
pub const fn block_event(kind: u8, entry: u8, address: u64) -> [u64; 1] {
    [head(kind, entry, address)]
}

/// `DEALLOCATION_AT` or `REALLOCATION_START_AT`.
#[inline(always)]
pub const fn block_event_at(kind: u8, entry: u8, address: u64, stack: u32) -> [u64; 2] {
    [head(kind, entry, address), stack as u64]
}

/// `TIMESTAMP`.
pub const fn timestamp(tick: u64, clock: u32) -> [u64; 2] {
    [head(kind::TIMESTAMP, 0, clock as u64), tick]
}

/// `EPOCH`.
pub const fn epoch(tick: u64, epoch: u64, opted_out: bool) -> [u64; 3] {
    [head(kind::EPOCH, opted_out as u8, 0), tick, epoch]
}

/// `THREAD`.
pub const fn thread(tid: u32, tick: u64, nested: bool) -> [u64; 2] {
    [head(kind::THREAD, nested as u8, tid as u64), tick]
}

/// The kernel's name of a thread (`comm`): at most 15 bytes, padded with zero bytes.
pub type ThreadName = [u8; 16];

/// `THREAD_NAME`.
pub const fn thread_name(tid: u32, tick: u64, name: ThreadName) -> [u64; 4] {
    let name = u128::from_le_bytes(name);
    let head = head(kind::THREAD_NAME, 0, tid as u64);
    [head, tick, name as u64, (name >> 64) as u64]
}

/// `NODE`.
#[inline(always)]
pub const fn node(node: Node) -> [u64; 2] {
    [
        head(kind::NODE, node.exact as u8, node.address),
        node.parent as u64 | (node.id as u64) << 24 | (node.mapping as u64) << 48,
    ]
}

/// `RESET_STACK_IDS`.
pub const fn reset_stack_ids() -> [u64; 1] {
    [head(kind::RESET_STACK_IDS, 0, 0)]
}

/// `EXIT`.
pub const fn exit(status: i32) -> [u64; 1] {
    [head(kind::EXIT, 0, status as u32 as u64)]
}

/// `UNMAPPED`.
pub const fn unmapped(mapping: u16) -> [u64; 1] {
    [head(kind::UNMAPPED, 0, mapping as u64)]
}

/// `WINDOW_END`.
pub const fn window_end(flags: u8, opened: u64, closed: u64, tick: u64) -> [u64; 4] {
    [head(kind::WINDOW_END, flags, 0), opened, closed, tick]
}

/// `DESCRIPTORS`.
pub const fn descriptors() -> [u64; 1] {
    [head(kind::DESCRIPTORS, 0, 0)]
}

/// `WAITED`; a wait that does not fit into 48 bits is written as the largest number that
/// does.
pub const fn waited(ticks: u64) -> [u64; 1] {
    let most = ADDRESS_MASK;
    [head(
        kind::WAITED,
        0,
        if ticks < most { ticks } else { most },
    )]
}

/// `LOST_BLOCK`.
pub const fn lost_block(address: u64, class: LostClass) -> [u64; 1] {
    [head(kind::LOST_BLOCK, class as u8, address)]
}

/// `REACHABILITY`.
pub const fn reachability(it: Reachability) -> [u64; 3] {
    let Reachability {
        outcome,
        tick,
        blocks,
        threads,
    } = it;
    let head = head(kind::REACHABILITY, outcome, blocks);
    [head, tick, threads as u64]
}

/// `WINDOW_COUNTS`.
pub const fn window_counts(epoch: u64, image: Sums, thread: Sums) -> [u64; WINDOW_COUNTS_WORDS] {
    let ([a, b, c, d], [e, f, g, h]) = (image, thread);
    [
        head(kind::WINDOW_COUNTS, 0, 0),
        epoch,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
    ]
}

/// An event that can be encoded as words.
pub trait Encode {
    /// Upper limit of the number of words that [`encode`](Self::encode) writes.
    fn most_words(&self) -> usize;

    /// Calls `put` with the index and the value of each word of the event, in any order;
    /// returns the event's length in words.
    fn encode(&self, put: impl FnMut(usize, u64)) -> usize;
}

impl<const WORDS: usize> Encode for [u64; WORDS] {
    #[inline(always)]
    fn most_words(&self) -> usize {
        WORDS
    }

    #[inline(always)]
    fn encode(&self, mut put: impl FnMut(usize, u64)) -> usize {
        for (index, word) in self.iter().enumerate() {
            put(index, *word);
        }
        WORDS
    }
}

/// A byte string in an event. In a ring it consists of little-endian words, the last one
/// padded with zero bytes.
pub trait ByteString {
    /// Returns the length in bytes.
    fn length(&self) -> usize;
    /// One of its words.
    fn word(&self, index: usize) -> u64;
    /// Returns the length in words.
    fn words(&self) -> usize {
        self.length().div_ceil(8)
    }
}

impl ByteString for &[u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn word(&self, index: usize) -> u64 {
        let mut word = [0; 8];
        let bytes = self.chunks(8).nth(index).unwrap_or_default();
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }
}

/// A byte string in a decoded event, still in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PackedBytes<'a> {
    /// The words that contain it.
    pub words: &'a [u64],
    /// Length of the string in bytes, at most eight times the number of words.
    pub length: usize,
}

impl<'a> PackedBytes<'a> {
    /// The bytes.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<'a> {
        let bytes = self.words.iter().flat_map(|word| word.to_le_bytes());
        bytes.take(self.length)
    }
}

impl ByteString for PackedBytes<'_> {
    fn length(&self) -> usize {
        self.length
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }
}

fn put_string(string: &impl ByteString, at: usize, mut put: impl FnMut(usize, u64)) {
    for index in 0..string.words() {
        put(at + index, string.word(index));
    }
}

/// Any event; `S` is the type of its byte strings. The fields are described at [`kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WireEvent<'a, S = PackedBytes<'a>> {
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
        /// The stack of the call, if it was recorded.
        stack: Option<u32>,
    },
    ReallocationStart {
        entry: u8,
        address: u64,
        /// The stack of the call, if it was recorded.
        stack: Option<u32>,
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
    Timestamp {
        tick: u64,
        clock: u32,
    },
    Epoch {
        tick: u64,
        epoch: u64,
        opted_out: bool,
    },
    /// `nested`: the ring is a second one of the current thread with this tid.
    /// Otherwise the thread is a new one, even if its tid was seen before.
    Thread {
        tid: u32,
        tick: u64,
        nested: bool,
    },
    ThreadName {
        tid: u32,
        tick: u64,
        name: ThreadName,
    },
    Node(Node),
    ResetStackIds,
    Mapping(Mapping<S>),
    Image(Image<'a, S>),
    Exit {
        status: i32,
    },
    Unmapped {
        mapping: u16,
    },
    Exec(Exec<S>),
    Window(Window<S>),
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
    LostBlock {
        address: u64,
        class: u8,
    },
    Reachability(Reachability),
    /// Five words for each entry point, see [`kind::COUNTS`].
    Counts(&'a [[u64; COUNTS_WORDS]]),
    WindowCounts {
        epoch: u64,
        image: Sums,
        thread: Sums,
    },
}

/// A `REACHABILITY` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Reachability {
    pub outcome: u8,
    pub tick: u64,
    pub blocks: u64,
    pub threads: u32,
}

/// A `NODE` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Node {
    pub address: u64,
    pub exact: bool,
    pub parent: u32,
    pub id: u32,
    pub mapping: u16,
}

/// Decodes the `NODE` event of these two words.
#[inline(always)]
pub const fn decode_node(first: u64, second: u64) -> Node {
    Node {
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
/// Words that `COUNTS` has for an entry point.
pub const COUNTS_WORDS: usize = 5;

/// A `MAPPING` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Mapping<S> {
    pub mapping: u16,
    pub start: u64,
    pub end: u64,
    pub bias: u64,
    pub tick: u64,
    /// The file that was mapped, if there is no build id.
    pub file: FileIdentity,
    pub build_id: S,
    pub path: S,
}

impl<S: ByteString> Encode for Mapping<S> {
    fn most_words(&self) -> usize {
        6 + IDENTITY_WORDS + self.build_id.words() + self.path.words()
    }

    fn encode(&self, mut put: impl FnMut(usize, u64)) -> usize {
        let words = self.most_words();
        let head = long_head(kind::MAPPING, 0, words) | u64::from(self.mapping);
        let lengths = self.build_id.length() as u64 | (self.path.length() as u64) << 32;
        let [device, inode, size, modified_ns, code] = self.file.to_words();
        let fixed = [
            head,
            self.start,
            self.end,
            self.bias,
            self.tick,
            lengths,
            device,
            inode,
            size,
            modified_ns,
            code,
        ];
        let path_at = fixed.encode(&mut put) + self.build_id.words();
        put_string(&self.build_id, fixed.len(), &mut put);
        put_string(&self.path, path_at, &mut put);
        words
    }
}

/// An `IMAGE` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Image<'a, S> {
    pub pid: u32,
    pub parent_pid: u32,
    pub tick: u64,
    /// One of [`origin`].
    pub origin: u32,
    /// The parent's image slot, for a fork.
    pub parent_slot: Option<u32>,
    /// Pairs of ring and ordinal, the forking thread's first.
    pub fork_points: &'a [u64],
    pub executable: S,
    /// The arguments, each followed by a zero byte.
    pub command: S,
}

impl<S: ByteString> Encode for Image<'_, S> {
    fn most_words(&self) -> usize {
        5 + self.fork_points.len() + self.executable.words() + self.command.words()
    }

    fn encode(&self, mut put: impl FnMut(usize, u64)) -> usize {
        let words = self.most_words();
        let parent = self.parent_slot.map_or(0, |slot| slot + 1);
        let points = self.fork_points.len() / 2;
        let fixed = [
            long_head(kind::IMAGE, 0, words),
            u64::from(self.pid) | u64::from(self.parent_pid) << 32,
            self.tick,
            u64::from(self.origin) | u64::from(parent) << 32,
            points as u64
                | (self.executable.length() as u64) << 16
                | (self.command.length() as u64) << 32,
        ];
        let points_at = fixed.encode(&mut put);
        for (index, word) in self.fork_points.iter().enumerate() {
            put(points_at + index, *word);
        }
        let executable_at = points_at + self.fork_points.len();
        put_string(&self.executable, executable_at, &mut put);
        let command_at = executable_at + self.executable.words();
        put_string(&self.command, command_at, &mut put);
        words
    }
}

/// An `EXEC` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Exec<S> {
    pub path: S,
}

impl<S: ByteString> Encode for Exec<S> {
    fn most_words(&self) -> usize {
        2 + self.path.words()
    }

    fn encode(&self, mut put: impl FnMut(usize, u64)) -> usize {
        let words = self.most_words();
        put(0, long_head(kind::EXEC, 0, words));
        put(1, self.path.length() as u64);
        put_string(&self.path, 2, put);
        words
    }
}

/// A `WINDOW` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Window<S> {
    /// See [`window_flag`].
    pub flags: u8,
    pub opened: u64,
    pub iterations: u64,
    pub tick: u64,
    pub name: S,
}

impl<S: ByteString> Encode for Window<S> {
    fn most_words(&self) -> usize {
        5 + self.name.words()
    }

    fn encode(&self, mut put: impl FnMut(usize, u64)) -> usize {
        let words = self.most_words();
        let head = long_head(kind::WINDOW, self.flags, words);
        let length = self.name.length() as u64;
        let fixed = [head, self.opened, self.iterations, self.tick, length];
        let name_at = fixed.encode(&mut put);
        put_string(&self.name, name_at, put);
        words
    }
}

/// A `COUNTS` event to be written: for each entry point its index in
/// [`Counters::all`](crate::layout::Counters::all) and its sums.
#[derive(Debug, Clone)]
pub struct Counts<I>(pub I);

impl<I: Iterator<Item = (usize, Sums)> + Clone> Encode for Counts<I> {
    fn most_words(&self) -> usize {
        1 + 2 * crate::layout::COUNTED_ENTRIES * COUNTS_WORDS
    }

    fn encode(&self, mut put: impl FnMut(usize, u64)) -> usize {
        let mut length = 1;
        let entries = self.0.clone().filter(|(_, sums)| *sums != [0; 4]);
        for (entry, sums) in entries.take(2 * crate::layout::COUNTED_ENTRIES) {
            put(length, entry as u64);
            for (index, sum) in sums.into_iter().enumerate() {
                put(length + 1 + index, sum);
            }
            length += COUNTS_WORDS;
        }
        put(0, long_head(kind::COUNTS, 0, length));
        length
    }
}

impl<S: ByteString> Encode for WireEvent<'_, S> {
    fn most_words(&self) -> usize {
        match self {
            Self::Mapping(it) => it.most_words(),
            Self::Image(it) => it.most_words(),
            Self::Exec(it) => it.most_words(),
            Self::Window(it) => it.most_words(),
            Self::Counts(counts) => 1 + counts.as_flattened().len(),
            _ => WINDOW_COUNTS_WORDS,
        }
    }

    fn encode(&self, mut put: impl FnMut(usize, u64)) -> usize {
        match *self {
            Self::Allocation {
                entry,
                address,
                size,
                stack,
                alignment_log2,
            } => {
                if size < LONG_SIZE && alignment_log2 == 0 {
                    allocation(entry, address, size, stack).encode(put)
                } else {
                    allocation_long(entry, address, size, stack, alignment_log2).encode(put)
                }
            }
            Self::Deallocation {
                entry,
                address,
                stack,
            } => match stack {
                None => block_event(kind::DEALLOCATION, entry, address).encode(put),
                Some(stack) => {
                    block_event_at(kind::DEALLOCATION_AT, entry, address, stack).encode(put)
                }
            },
            Self::ReallocationStart {
                entry,
                address,
                stack,
            } => match stack {
                None => block_event(kind::REALLOCATION_START, entry, address).encode(put),
                Some(stack) => {
                    block_event_at(kind::REALLOCATION_START_AT, entry, address, stack).encode(put)
                }
            },
            Self::ReallocationEnd {
                entry,
                address,
                size,
                stack,
            } => {
                if size < LONG_SIZE {
                    reallocation_end(entry, address, size, stack).encode(put)
                } else {
                    reallocation_end_long(entry, address, size, stack).encode(put)
                }
            }
            Self::ReallocationFailed { address } => {
                block_event(kind::REALLOCATION_FAILED, 0, address).encode(put)
            }
            Self::ReallocationFreed { address } => {
                block_event(kind::REALLOCATION_FREED, 0, address).encode(put)
            }
            Self::Timestamp { tick, clock } => timestamp(tick, clock).encode(put),
            Self::Epoch {
                tick,
                epoch: number,
                opted_out,
            } => epoch(tick, number, opted_out).encode(put),
            Self::Thread { tid, tick, nested } => thread(tid, tick, nested).encode(put),
            Self::ThreadName { tid, tick, name } => thread_name(tid, tick, name).encode(put),
            Self::Node(it) => node(it).encode(put),
            Self::ResetStackIds => reset_stack_ids().encode(put),
            Self::Mapping(ref it) => it.encode(put),
            Self::Image(ref it) => it.encode(put),
            Self::Exit { status } => exit(status).encode(put),
            Self::Unmapped { mapping } => unmapped(mapping).encode(put),
            Self::Exec(ref it) => it.encode(put),
            Self::Window(ref it) => it.encode(put),
            Self::WindowEnd {
                flags,
                opened,
                closed,
                tick,
            } => window_end(flags, opened, closed, tick).encode(put),
            Self::Descriptors => descriptors().encode(put),
            Self::Waited { ticks } => waited(ticks).encode(put),
            Self::LostBlock { address, class } => {
                block_event(kind::LOST_BLOCK, class, address).encode(put)
            }
            Self::Reachability(it) => reachability(it).encode(put),
            Self::Counts(counts) => {
                let words = counts.as_flattened();
                put(0, long_head(kind::COUNTS, 0, 1 + words.len()));
                for (index, word) in words.iter().enumerate() {
                    put(1 + index, *word);
                }
                1 + words.len()
            }
            Self::WindowCounts {
                epoch,
                image,
                thread,
            } => window_counts(epoch, image, thread).encode(put),
        }
    }
}

/// Why words could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The event is longer than the given words: more may follow.
    Short,
    /// There is no event of this kind.
    Kind(u8),
    /// A length inside the event contradicts the event's own.
    Length,
}

/// Length in words of the event that begins with `first`; `None` if no event begins with
/// this word.
#[inline]
pub fn length(first: u64) -> Option<usize> {
    Some(match (first >> 48) as u8 {
        kind::DEALLOCATION
        | kind::REALLOCATION_START
        | kind::REALLOCATION_FAILED
        | kind::REALLOCATION_FREED
        | kind::RESET_STACK_IDS
        | kind::EXIT
        | kind::UNMAPPED
        | kind::DESCRIPTORS
        | kind::WAITED
        | kind::LOST_BLOCK => 1,
        kind::ALLOCATION
        | kind::REALLOCATION_END
        | kind::TIMESTAMP
        | kind::THREAD
        | kind::NODE
        | kind::DEALLOCATION_AT
        | kind::REALLOCATION_START_AT => 2,
        kind::ALLOCATION_LONG | kind::REALLOCATION_END_LONG | kind::EPOCH | kind::REACHABILITY => 3,
        kind::WINDOW_END | kind::THREAD_NAME => 4,
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

/// Decodes the event at the start of `words`; returns it and its length in words.
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
        kind::DEALLOCATION | kind::DEALLOCATION_AT => WireEvent::Deallocation {
            entry,
            address,
            stack: (tag == kind::DEALLOCATION_AT).then_some(stack),
        },
        kind::REALLOCATION_START | kind::REALLOCATION_START_AT => WireEvent::ReallocationStart {
            entry,
            address,
            stack: (tag == kind::REALLOCATION_START_AT).then_some(stack),
        },
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
        kind::TIMESTAMP => WireEvent::Timestamp {
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
        kind::THREAD_NAME => WireEvent::ThreadName {
            tid: address as u32,
            tick: second(1),
            name: (u128::from(second(2)) | u128::from(second(3)) << 64).to_le_bytes(),
        },
        kind::NODE => WireEvent::Node(decode_node(first, second(1))),
        kind::RESET_STACK_IDS => WireEvent::ResetStackIds,
        kind::MAPPING => WireEvent::Mapping(decode_mapping(words)?),
        kind::IMAGE => WireEvent::Image(decode_image(words)?),
        kind::EXEC => WireEvent::Exec(Exec {
            path: string(words, 2, second(1) as usize)?,
        }),
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
        kind::LOST_BLOCK => WireEvent::LostBlock {
            address,
            class: entry,
        },
        kind::REACHABILITY => WireEvent::Reachability(Reachability {
            outcome: entry,
            tick: second(1),
            blocks: address,
            threads: second(2) as u32,
        }),
        _ => WireEvent::Unmapped {
            mapping: address as u16,
        },
    };
    Ok((word, length))
}

fn string(words: &[u64], at: usize, length: usize) -> Result<PackedBytes<'_>, Malformed> {
    let end = at
        .checked_add(length.div_ceil(8))
        .ok_or(Malformed::Length)?;
    let words = words.get(at..end).ok_or(Malformed::Length)?;
    Ok(PackedBytes { words, length })
}

fn decode_mapping(words: &[u64]) -> Result<Mapping<PackedBytes<'_>>, Malformed> {
    const FIXED: usize = 6 + IDENTITY_WORDS;
    let &[
        first,
        start,
        end,
        bias,
        tick,
        lengths,
        device,
        inode,
        size,
        modified_ns,
        code,
        ..,
    ] = words
    else {
        return Err(Malformed::Length);
    };
    let build_id = string(words, FIXED, lengths as u32 as usize)?;
    let path = string(
        words,
        FIXED + build_id.words.len(),
        (lengths >> 32) as usize,
    )?;
    Ok(Mapping {
        mapping: first as u16,
        start,
        end,
        bias,
        tick,
        file: FileIdentity::from_words([device, inode, size, modified_ns, code]),
        build_id,
        path,
    })
}

fn decode_window(words: &[u64], flags: u8) -> Result<Window<PackedBytes<'_>>, Malformed> {
    let &[_, opened, iterations, tick, length, ..] = words else {
        return Err(Malformed::Length);
    };
    if length > WINDOW_NAME_BYTES as u64 {
        return Err(Malformed::Length);
    }
    Ok(Window {
        flags,
        opened,
        iterations,
        tick,
        name: string(words, 5, length as usize)?,
    })
}

fn decode_image(words: &[u64]) -> Result<Image<'_, PackedBytes<'_>>, Malformed> {
    let &[_, pids, tick, origin, lengths, ..] = words else {
        return Err(Malformed::Length);
    };
    let points = lengths as u16 as usize * 2;
    let fork_points = words.get(5..5 + points).ok_or(Malformed::Length)?;
    let executable = string(words, 5 + points, (lengths >> 16) as u16 as usize)?;
    let command = string(
        words,
        5 + points + executable.words.len(),
        (lengths >> 32) as usize,
    )?;
    Ok(Image {
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
    fn short_events_are_decoded_as_they_were_written() {
        let address = 0x7fff_1234_5670;
        let words = [
            head(kind::ALLOCATION, 9, address),
            77 | (LONG_SIZE - 1) << STACK_BITS,
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
            0xabcdef | 0x123456 << 24 | 0xfffe << 48,
        ];
        assert_eq!(
            decode(&words),
            Ok((
                WireEvent::Node(Node {
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
    fn deallocations_are_decoded_with_and_without_their_stack() {
        let (entry, address) = (9, 0x7fff_1234_5670);
        let short = block_event(kind::DEALLOCATION, entry, address);
        let stack = None;
        let expected = WireEvent::Deallocation {
            entry,
            address,
            stack,
        };
        assert_eq!(decode(&short), Ok((expected, 1)));
        let words = block_event_at(kind::DEALLOCATION_AT, entry, address, 0xabcdef);
        let stack = Some(0xabcdef);
        let expected = WireEvent::Deallocation {
            entry,
            address,
            stack,
        };
        assert_eq!(decode(&words), Ok((expected, 2)));
        assert_eq!(decode(&words[..1]), Err(Malformed::Short));
        let words = block_event_at(kind::REALLOCATION_START_AT, entry, address, 0xabcdef);
        let expected = WireEvent::ReallocationStart {
            entry,
            address,
            stack,
        };
        assert_eq!(decode(&words), Ok((expected, 2)));
    }

    #[test]
    fn an_incomplete_event_is_short() {
        assert_eq!(decode(&[]), Err(Malformed::Short));
        assert_eq!(
            decode(&[head(kind::TIMESTAMP, 0, 0)]),
            Err(Malformed::Short)
        );
    }

    #[test]
    fn unknown_kinds_and_wrong_lengths_are_malformed() {
        assert_eq!(decode(&[0]), Err(Malformed::Kind(0)));
        assert_eq!(decode(&[head(200, 0, 0)]), Err(Malformed::Kind(200)));
        // A mapping of 6 words whose strings would need more.
        let mut words = [0u64; 6];
        words[0] = head(kind::MAPPING, 0, 6 << 16);
        words[5] = 20 | 100 << 32;
        assert_eq!(decode(&words), Err(Malformed::Length));
    }

    #[test]
    fn windows_are_decoded_as_they_were_written() {
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
        assert!(window.name.iter().eq(*b"encode"));
        words[4] = 9;
        assert_eq!(decode(&words), Err(Malformed::Length), "a word too few");
        words[4] = u64::MAX;
        assert_eq!(decode(&words), Err(Malformed::Length), "name too long");
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
    fn window_counts_are_decoded_as_they_were_written() {
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
    fn counts_with_an_incomplete_entry_are_malformed() {
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
    fn long_events_are_decoded_with_their_strings() {
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
        assert!(image.executable.iter().eq(*b"/bin/slep"));
        assert!(image.command.iter().eq(*b"a\0b\0"));
    }
}
