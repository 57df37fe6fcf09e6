//! One pass over all operations: the loop that is measured, and what surrounds it. At any
//! time only one thread, the one whose turn it is, uses a [`Pass`].

use std::ffi::{c_int, c_void};
use std::ptr;

use allotrope_replayer::operations::{
    Call, HEADER_BYTES, Header, RECORD_BYTES, Record, ThreadExit,
};
use allotrope_replayer::results;

use crate::calls::{ALLOCATOR, Calls, NULL};
use crate::memory;
use crate::stepped::allotrope_stepped_call;
use crate::system::{self, Words};

/// Records read at a time: 64 KiB, a fraction of a core's second-level cache.
const BATCH: usize = 4096;
const PAGE: u64 = 4096;

/// What both passes need: the files, and memory that does not grow.
pub struct World {
    file: c_int,
    samples: Option<c_int>,
    /// What is in the operations file.
    pub header: Header,
    /// The results file.
    pub results: Words,
    /// The block in each slot, or null.
    slots: *mut *mut c_void,
    /// The size of the block in each slot; only for [`results::TOUCH_PAGES`].
    sizes: *mut u64,
    buffer: *mut Record,
}

impl World {
    /// Gets the memory.
    pub fn new(
        file: c_int,
        samples: Option<c_int>,
        header: &Header,
        results: Words,
    ) -> Option<Self> {
        let slots = usize::try_from(header.slots).ok()?;
        let bytes = slots.checked_mul(size_of::<usize>())?;
        let has_sizes = results.get(results::TOUCH) == results::TOUCH_PAGES;
        Some(Self {
            file,
            samples,
            header: *header,
            results,
            slots: system::own_memory(bytes)?.cast(),
            sizes: system::own_memory(if has_sizes { bytes } else { 1 })?.cast(),
            buffer: system::own_memory(BATCH * RECORD_BYTES)?.cast(),
        })
    }

    /// Empties all slots.
    pub fn clear_slots(&self) {
        // SAFETY: the table has so many slots.
        unsafe { self.slots.write_bytes(0, self.header.slots as usize) };
    }

    fn records(&self, at: u64, count: usize) -> Option<&[Record]> {
        // SAFETY: the buffer has `BATCH` records, which may have any bytes, and only the
        // thread whose turn it is uses it.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.buffer.cast(), count * RECORD_BYTES) };
        let position = HEADER_BYTES as u64 + at * RECORD_BYTES as u64;
        system::read_at(self.file, bytes, position)?;
        // SAFETY: as above.
        Some(unsafe { std::slice::from_raw_parts(self.buffer, count) })
    }

    fn exit(&self, number: u32) -> Option<ThreadExit> {
        if number >= self.header.exits {
            return None;
        }
        let mut bytes = [0; RECORD_BYTES];
        let index = self.header.operations + u64::from(number);
        let position = HEADER_BYTES as u64 + index * RECORD_BYTES as u64;
        system::read_at(self.file, &mut bytes, position)?;
        ThreadExit::from_bytes(&bytes)
    }

    /// The sampled operation with this number in the list; `u64::MAX` if there is none.
    fn sample(&self, number: u64) -> u64 {
        let mut bytes = [0; 8];
        let read = self
            .samples
            .and_then(|file| system::read_at(file, &mut bytes, number * 8));
        read.map_or(u64::MAX, |()| u64::from_le_bytes(bytes))
    }
}

/// Which functions a pass calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Functions that do nothing.
    Null,
    /// The allocator's.
    Real,
}

/// Why a thread stops replaying.
pub enum Next {
    /// It is this thread's turn.
    Turn(u32),
    /// This thread, not the calling one, must end now.
    Exit(u32),
    /// All is done.
    End,
}

/// See the [module](self).
pub struct Pass<'w> {
    world: &'w World,
    kind: Kind,
    calls: &'static Calls,
    /// Number of the next operation.
    position: u64,
    /// The records in the buffer, and the number of the first.
    records: &'w [Record],
    first: u64,
    /// Time in the loop so far, as [`results::TIME`].
    pub time: u64,
    /// The operations file is damaged.
    pub is_bad: bool,
    touch: u64,
    is_latency: bool,
    next_exit: Option<ThreadExit>,
    exits_done: u32,
    next_sample: u64,
    samples_done: u64,
    points_wanted: u64,
    next_point: u64,
    points_taken: u64,
    base: memory::Memory,
    peak: u64,
}

impl<'w> Pass<'w> {
    /// A pass before the first operation.
    pub fn new(world: &'w World, kind: Kind) -> Self {
        let results = world.results;
        let mode = results.get(results::MODE);
        let is_real = kind == Kind::Real;
        let is_stepped = is_real && mode == results::MODE_STEPPED;
        let touch = match results.get(results::TOUCH) {
            // There is no more to touch than the first byte.
            results::TOUCH_PAGES if !is_real => results::TOUCH_FIRST,
            touch => touch,
        };
        let points = results.get(results::POINTS_WANTED);
        let mut pass = Self {
            world,
            kind,
            calls: if is_real { &ALLOCATOR } else { &NULL },
            position: 0,
            records: &[],
            first: 0,
            time: 0,
            is_bad: false,
            touch,
            is_latency: mode == results::MODE_LATENCY,
            next_exit: is_real.then(|| world.exit(0)).flatten(),
            exits_done: 0,
            next_sample: if is_stepped {
                world.sample(0)
            } else {
                u64::MAX
            },
            samples_done: 0,
            points_wanted: points.min(results::MAX_POINTS as u64),
            next_point: u64::MAX,
            points_taken: 0,
            base: memory::Memory::default(),
            peak: 0,
        };
        pass.next_point = pass.point(1);
        pass
    }

    /// Number of the operation before which the point with this number is taken.
    fn point(&self, number: u64) -> u64 {
        if number > self.points_wanted {
            return u64::MAX;
        }
        let operations = u128::from(self.world.header.operations);
        (operations * u128::from(number) / u128::from(self.points_wanted)) as u64
    }

    /// Starts to measure memory: what there is now is the process's own.
    pub fn start_memory(&mut self) {
        memory::reset_peak();
        self.base = memory::read();
        let results = self.world.results;
        results.set(results::BASE_MEMORY, self.base.own);
    }

    /// Runs the whole pass on this thread, without turns.
    pub fn run_alone(&mut self) {
        let mut thread = 0;
        while let Next::Turn(next) = self.advance(thread) {
            thread = next;
        }
    }

    /// Calls the operations of a thread up to the next one of another thread.
    pub fn advance(&mut self, thread: u32) -> Next {
        loop {
            if self.position >= self.world.header.operations || self.is_bad {
                return Next::End;
            }
            let Some(next) = self.refill() else {
                self.is_bad = true;
                return Next::End;
            };
            let next = u32::from(next.thread);
            if let Some(exit) = self.next_exit
                && exit.before <= self.position
                && exit.thread != next
                && exit.thread != thread
            {
                self.exits_done += 1;
                self.next_exit = self.world.exit(self.exits_done);
                return Next::Exit(exit.thread);
            }
            if next != thread {
                return Next::Turn(next);
            }
            if self.position == self.next_sample {
                self.call_stepped();
            } else {
                self.call_some(next);
            }
            if self.position == self.next_point {
                self.take_point();
            }
        }
    }

    /// Makes sure that the record of the next operation is in the buffer, and returns it.
    fn refill(&mut self) -> Option<Record> {
        let index = (self.position - self.first) as usize;
        if let Some(record) = self.records.get(index) {
            return Some(*record);
        }
        let left = self.world.header.operations - self.position;
        let count = left.min(BATCH as u64) as usize;
        self.records = &[];
        self.records = self.world.records(self.position, count)?;
        self.first = self.position;
        self.records.first().copied()
    }

    /// Calls the operations in the buffer up to the next one that needs something else.
    fn call_some(&mut self, thread: u32) {
        let limit = self.next_point.min(self.next_sample) - self.position;
        let from = (self.position - self.first) as usize;
        let records = &self.records[from..];
        let most = usize::try_from(limit).map_or(records.len(), |it| it.min(records.len()));
        let count = if self.world.header.threads == 1 {
            most
        } else {
            let mut own = records[..most].iter();
            own.position(|it| u32::from(it.thread) != thread)
                .unwrap_or(most)
        };
        let records = &records[..count];
        let start = self.clock();
        // SAFETY: this thread has its turn, and the slots are those of this pass.
        let whole = unsafe {
            match (self.touch, self.is_latency) {
                (results::TOUCH_NONE, false) => self.run::<0, false>(records),
                (results::TOUCH_FIRST, false) => self.run::<1, false>(records),
                (_, false) => self.run::<2, false>(records),
                (results::TOUCH_NONE, true) => self.run::<0, true>(records),
                (results::TOUCH_FIRST, true) => self.run::<1, true>(records),
                (_, true) => self.run::<2, true>(records),
            }
        };
        self.time += self.clock() - start;
        self.is_bad |= !whole;
        self.position += count as u64;
    }

    /// The clock of [`results::TIME`]. A turn of one of several threads may be too short for a
    /// system call.
    #[inline]
    fn clock(&self) -> u64 {
        if self.world.header.threads == 1 {
            system::processor_ns()
        } else {
            system::ticks()
        }
    }

    /// The loop that is measured. `false` if a record is no operation on a slot.
    ///
    /// # Safety
    ///
    /// The thread must have its turn. What is in the slots must come from the functions that
    /// are called.
    #[inline(never)]
    unsafe fn run<const TOUCH: u64, const LATENCY: bool>(&self, records: &[Record]) -> bool {
        // In registers: for all the compiler knows, a call may change what `self` refers to.
        let (calls, results) = (self.calls, self.world.results);
        let (slots, slot_count) = (self.world.slots, self.world.header.slots);
        for (record, number) in records.iter().zip(self.position..) {
            if record.slot >= slot_count {
                return false;
            }
            results.set(results::CURRENT, number);
            let size = record.size as usize;
            let start = if LATENCY { system::ticks() } else { 0 };
            // The alignment that the function takes, if it does.
            let alignment = || 1_usize << (record.alignment_log2 & 63);
            // SAFETY: the slot is within the table; the functions get what C's standard
            // allows, since a slot has null or a block that was not freed.
            unsafe {
                let slot = slots.add(record.slot as usize);
                let block = match record.call {
                    MALLOC => (calls.malloc)(size),
                    FREE => {
                        let block = slot.replace(ptr::null_mut());
                        (calls.free)(block);
                        if LATENCY {
                            self.count_latency(FREE, system::ticks() - start);
                        }
                        continue;
                    }
                    CALLOC => (calls.calloc)(1, size),
                    REALLOC | REALLOCARRAY => {
                        let old = slot.read();
                        let new = if record.call == REALLOC {
                            (calls.realloc)(old, size)
                        } else {
                            (calls.reallocarray)(old, 1, size)
                        };
                        if LATENCY {
                            self.count_latency(record.call, system::ticks() - start);
                        }
                        if new.is_null() && size > 0 {
                            // The old block stays.
                            self.failed(number);
                            continue;
                        }
                        slot.write(new);
                        self.touch_grown::<TOUCH>(record, new, old.is_null());
                        continue;
                    }
                    POSIX_MEMALIGN => calls.aligned(alignment(), size),
                    ALIGNED_ALLOC => (calls.aligned_alloc)(alignment(), size),
                    MEMALIGN => (calls.memalign)(alignment(), size),
                    VALLOC => (calls.valloc)(size),
                    PVALLOC => (calls.pvalloc)(size),
                    _ => return false,
                };
                if LATENCY {
                    self.count_latency(record.call, system::ticks() - start);
                }
                slot.write(block);
                if block.is_null() {
                    if size > 0 {
                        self.failed(number);
                    }
                    continue;
                }
                match TOUCH {
                    0 => {}
                    1 => {
                        if size > 0 {
                            block.cast::<u8>().write_volatile(1);
                        }
                    }
                    _ => self.touch_pages(record, block, 0),
                }
            }
        }
        results.add(results::DONE, records.len() as u64);
        true
    }

    /// Touches the result of a reallocation.
    ///
    /// # Safety
    ///
    /// `block` must be null or have the bytes of the record.
    #[inline]
    unsafe fn touch_grown<const TOUCH: u64>(
        &self,
        record: &Record,
        block: *mut c_void,
        is_new: bool,
    ) {
        if block.is_null() || record.size == 0 {
            return;
        }
        // SAFETY: the caller's promise; the slot was checked.
        unsafe {
            match TOUCH {
                0 => {}
                1 => block.cast::<u8>().write_volatile(1),
                _ => {
                    let old = match is_new {
                        true => 0,
                        false => self.world.sizes.add(record.slot as usize).read(),
                    };
                    self.touch_pages(record, block, old);
                }
            }
        }
    }

    /// Writes a byte of each page of the wanted share of a block of which `old` bytes were
    /// touched before.
    ///
    /// # Safety
    ///
    /// `block` must have the bytes of the record, whose slot must be within the table.
    #[inline]
    unsafe fn touch_pages(&self, record: &Record, block: *mut c_void, old: u64) {
        let (size, block) = (record.size, block.cast::<u8>());
        // SAFETY: the slot is within the table, and all offsets are below `size`.
        unsafe {
            self.world.sizes.add(record.slot as usize).write(size);
            if size == 0 {
                return;
            }
            if old == 0 {
                block.write_volatile(1);
            }
            if size > PAGE {
                self.touch_large(block, size, old);
            }
        }
    }

    /// Touches a block of more than a page.
    ///
    /// # Safety
    ///
    /// `block` must have `size` bytes.
    #[inline(never)]
    unsafe fn touch_large(&self, block: *mut u8, size: u64, old: u64) {
        let share = self.world.results.get(results::TOUCH_SHARE);
        let share = share.min(results::WHOLE);
        let part = |of: u64| (of >> 16) * share + (((of & 0xffff) * share) >> 16);
        let (from, to) = (part(old), part(size));
        let mut at = (from / PAGE + 1) * PAGE;
        // SAFETY: the offsets are below `to`, which is at most `size`.
        unsafe {
            while at < to {
                block.add(at as usize).write_volatile(1);
                at += PAGE;
            }
            if to > from {
                block.add(to as usize - 1).write_volatile(1);
            }
        }
    }

    #[cold]
    fn failed(&self, number: u64) {
        if self.kind == Kind::Real {
            let results = self.world.results;
            results.add(results::FAILURES, 1);
            if results.get(results::FIRST_FAILURE) == 0 {
                results.set(results::FIRST_FAILURE, number + 1);
            }
        }
    }

    #[inline]
    fn count_latency(&self, call: u8, ticks: u64) {
        let first = match self.kind {
            Kind::Null => results::NULL_HISTOGRAMS,
            Kind::Real => results::HISTOGRAMS,
        };
        let of_call = usize::from(call) * results::BUCKETS;
        let index = first + of_call + results::bucket(ticks);
        self.world.results.add(index, 1);
    }

    /// Calls the operation at the position through the function that a tracer knows.
    fn call_stepped(&mut self) {
        self.samples_done += 1;
        self.next_sample = self.world.sample(self.samples_done);
        let record = self.records[(self.position - self.first) as usize];
        // Ascending numbers only: anything else would never be reached.
        if record.slot >= self.world.header.slots
            || record.call > FREE
            || self.next_sample <= self.position
        {
            self.is_bad = true;
            return;
        }
        let results = self.world.results;
        results.set(results::CURRENT, self.position);
        // SAFETY: as in `run`.
        unsafe { self.step_through(&record) };
        self.position += 1;
        results.add(results::DONE, 1);
    }

    /// # Safety
    ///
    /// As for [`Self::run`], for this record.
    unsafe fn step_through(&self, record: &Record) {
        let calls = self.calls;
        let (size, number) = (record.size as usize, self.position);
        let alignment = 1_usize << (record.alignment_log2 & 63);
        // SAFETY: the slot is within the table, and the functions get the arguments of their
        // signatures.
        unsafe {
            let slot = self.world.slots.add(record.slot as usize);
            let old = slot.read();
            let block_in = old as usize;
            let call = |function, a, b, c| allotrope_stepped_call(function, a, b, c, number);
            let mut aligned = ptr::null_mut::<c_void>();
            let to = (&raw mut aligned) as usize;
            let block = match record.call {
                MALLOC => call(calls.malloc as *const c_void, size, 0, 0),
                CALLOC => call(calls.calloc as *const c_void, 1, size, 0),
                REALLOC => call(calls.realloc as *const c_void, block_in, size, 0),
                REALLOCARRAY => call(calls.reallocarray as *const c_void, block_in, 1, size),
                POSIX_MEMALIGN => {
                    let function = calls.posix_memalign as *const c_void;
                    let error = call(function, to, alignment, size) as usize as c_int;
                    if error == 0 {
                        (&raw const aligned).read_volatile()
                    } else {
                        ptr::null_mut()
                    }
                }
                ALIGNED_ALLOC => call(calls.aligned_alloc as *const c_void, alignment, size, 0),
                MEMALIGN => call(calls.memalign as *const c_void, alignment, size, 0),
                VALLOC => call(calls.valloc as *const c_void, size, 0, 0),
                PVALLOC => call(calls.pvalloc as *const c_void, size, 0, 0),
                _ => {
                    slot.write(ptr::null_mut());
                    call(calls.free as *const c_void, block_in, 0, 0);
                    return;
                }
            };
            let reallocates = matches!(record.call, REALLOC | REALLOCARRAY);
            if block.is_null() && size > 0 {
                self.failed(number);
                if reallocates {
                    return;
                }
            }
            slot.write(block);
            let is_new = !reallocates || old.is_null();
            match self.touch {
                results::TOUCH_NONE => {}
                results::TOUCH_FIRST => self.touch_grown::<1>(record, block, is_new),
                _ => self.touch_grown::<2>(record, block, is_new),
            }
        }
    }

    #[cold]
    fn take_point(&mut self) {
        if self.kind == Kind::Real {
            let memory = memory::read().own.saturating_sub(self.base.own);
            self.peak = self.peak.max(memory);
            let results = self.world.results;
            let at = results::POINTS + 2 * self.points_taken as usize;
            results.set(at, self.position);
            results.set(at + 1, memory);
        }
        self.points_taken += 1;
        self.next_point = self.point(self.points_taken + 1);
    }

    /// Writes the figures of the whole pass.
    pub fn finish(&self) {
        let results = self.world.results;
        let end = memory::read();
        let last = end.own.saturating_sub(self.base.own);
        // The kernel's peak includes pages of files, which hardly grow.
        let before = self.base.own + self.base.files.max(end.files);
        let peak = end.peak_with_files.saturating_sub(before);
        results.set(results::TIME, self.time);
        results.set(results::PEAK_MEMORY, peak.max(self.peak).max(last));
        results.set(results::FINAL_MEMORY, last);
        results.set(results::POINTS_TAKEN, self.points_taken);
    }
}

const MALLOC: u8 = Call::Malloc as u8;
const CALLOC: u8 = Call::Calloc as u8;
const REALLOC: u8 = Call::Realloc as u8;
const REALLOCARRAY: u8 = Call::Reallocarray as u8;
const POSIX_MEMALIGN: u8 = Call::PosixMemalign as u8;
const ALIGNED_ALLOC: u8 = Call::AlignedAlloc as u8;
const MEMALIGN: u8 = Call::Memalign as u8;
const VALLOC: u8 = Call::Valloc as u8;
const PVALLOC: u8 = Call::Pvalloc as u8;
const FREE: u8 = Call::Free as u8;
