//! The memory in which this process keeps its own state while it is watched
//! (`samples` of `allotrope-shm`): makes it, and finds it again.
//!
//! A watcher finds it by a descriptor, which stays open. It is a high one, so that the program's
//! own descriptors get the numbers that they would get without it.

use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicIsize, AtomicPtr, AtomicU64};

use allotrope_sampling::Period;
use allotrope_shm::layout::PAGE;
use allotrope_shm::samples::layout::{self, Memory};
use allotrope_shm::samples::writer::{Host, Private, Process, Writer};

use crate::state::image;
use crate::state::process;
use crate::state::thread::Thread;
use crate::sys::clock;
use crate::sys::kernel::Advice;
use crate::sys::mapping::Mapping;
use crate::sys::next::{self, Function};
use crate::sys::system::{self, Descriptor};

/// What belongs to the process alone, in pages that the kernel wipes in a forked child: it
/// recognises no block, and has no memory.
#[repr(C, align(4096))]
pub struct SamplingState {
    private: Private,
    memory: AtomicPtr<Memory>,
}

/// See [`SamplingState`]. `free` looks into it, at [`BYTES`].
pub static SAMPLING_STATE: SamplingState = SamplingState {
    private: Private::new(),
    memory: AtomicPtr::new(ptr::null_mut()),
};

/// Offset in [`SAMPLING_STATE`] of the table of bytes by which blocks are recognised.
pub const BYTES: usize = offset_of!(SamplingState, private) + offset_of!(Private, recognised);

/// The descriptor of the memory, and its file's number; those of the parent in a forked child
/// without a memory. -1: none.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
static FILE: AtomicU64 = AtomicU64::new(0);
/// Whether system calls were filtered when the first memory was made.
static FILTER: AtomicIsize = AtomicIsize::new(0);

/// Commits pages of the memory.
#[derive(Clone, Copy)]
pub struct Pages;

impl Host for Pages {
    fn commit(&self, page: usize) -> bool {
        let memory = SAMPLING_STATE.memory.load(Relaxed).cast::<u8>();
        !memory.is_null() && system::populate(memory.wrapping_add(page * PAGE), PAGE)
    }

    fn now(&self) -> u64 {
        clock::monotonic()
    }
}

/// The writer of this process's memory; `None`: it has none.
#[inline]
pub fn writer() -> Option<Writer<'static, Pages>> {
    // SAFETY: null, or what `make` has mapped for good.
    let memory = unsafe { SAMPLING_STATE.memory.load(Relaxed).as_ref() }?;
    Some(Writer::resume(memory, &SAMPLING_STATE.private, Pages))
}

/// Whether a block may have been sampled. `false` is certain.
#[inline(always)]
pub fn may_be_sampled(block: u64) -> bool {
    SAMPLING_STATE.private.recognised.may_contain(block)
}

/// Has forks wipe [`SAMPLING_STATE`]. `false` if they would go unnoticed.
pub fn wipe_on_fork() -> bool {
    let start = (&raw const SAMPLING_STATE).cast::<u8>();
    system::advise(start, size_of::<SamplingState>(), Advice::WipeOnFork)
}

/// Makes the memory of a process that starts. `other_malloc`: see [`layout::Header`]; `is_standby`:
/// see [`Process`].
pub fn make_first(period: Option<Period>, is_standby: bool, other_malloc: u64) -> bool {
    OTHER_MALLOC.store(other_malloc, Relaxed);
    OF_CHILDREN.store(period.map_or(0, Period::bytes), Relaxed);
    if is_standby {
        STANDBY.store(period.map_or(0, Period::bytes), Relaxed);
    }
    FILTER.store(system::system_call_filter(), Relaxed);
    make(period)
}

/// Makes the memory of a forked child, which begins with its parent's setting for children. `false`: there
/// is none. Where the child may do less than its parent, it does not try: a filter of
/// system calls may end it for trying.
pub fn make_of_child() -> bool {
    if system::system_call_filter() != FILTER.load(Relaxed) {
        return false;
    }
    close_parents();
    make(Period::new(OF_CHILDREN.load(Relaxed)))
}

/// The period of forked children that a thread of the process found when it last looked; 0: off.
static OF_CHILDREN: AtomicU64 = AtomicU64::new(0);

/// [`layout::Control::standby`] of this process; a forked child begins with its parent's.
static STANDBY: AtomicU64 = AtomicU64::new(0);

/// See [`layout::Header`]; a forked child has its parent's.
static OTHER_MALLOC: AtomicU64 = AtomicU64::new(0);

/// The watcher's setting; `None`: sampling is off.
pub fn setting() -> Option<Period> {
    let writer = writer()?;
    let of_children = writer.setting_of_children().map_or(0, Period::bytes);
    if OF_CHILDREN.load(Relaxed) != of_children {
        OF_CHILDREN.store(of_children, Relaxed);
    }
    writer.setting()
}

fn make(period: Option<Period>) -> bool {
    let Some(file) = file() else {
        return false;
    };
    let Some(mapping) = Mapping::shared(file.number(), 0, layout::BYTES) else {
        return false;
    };
    // It stays in core files: `allotrope postmortem` reads it there.
    SAMPLING_STATE.memory.store(mapping.leak().cast(), Release);
    // SAFETY: just mapped, for good; all fields are atomics.
    let memory = unsafe { SAMPLING_STATE.memory.load(Relaxed).as_ref() };
    let process = Process {
        id: system::process_id(),
        now: clock::monotonic(),
        real_now: clock::real(),
        executable: image::executable(),
        command: image::command(),
        other_malloc: OTHER_MALLOC.load(Relaxed),
        next_malloc: next::address(Function::Malloc) as u64,
        state_bytes: size_of::<Thread>() as u64,
        is_standby: period.is_some_and(|it| it.bytes() == STANDBY.load(Relaxed)),
    };
    let begun = memory
        .and_then(|memory| Writer::begin(memory, &SAMPLING_STATE.private, Pages, &process, period));
    if begun.is_none() {
        SAMPLING_STATE.memory.store(ptr::null_mut(), Relaxed);
        return false;
    }
    let number = system::status_of(file.number()).map_or(0, |status| status.st_ino);
    FILE.store(number, Relaxed);
    DESCRIPTOR.store(file.leak(), Relaxed);
    true
}

/// The memory's file, under a high number.
fn file() -> Option<Descriptor> {
    /// Where to look for a free number: programs that use `select` cannot have larger ones, and
    /// many look at all numbers up to the largest in use.
    const FROM: i32 = 960;
    /// No lower one is used.
    const LOWEST: i32 = 100;
    let name = c"allotrope-watched";
    let file = Descriptor::sealed_memory(name, layout::BYTES)?;
    let limit = i32::try_from(system::descriptor_limit()).unwrap_or(i32::MAX);
    let from = FROM.min(limit.saturating_sub(32));
    let high = (from > LOWEST).then(|| file.duplicate(from)).flatten();
    high.or_else(|| file.duplicate(LOWEST))
}

const _: () = assert!(layout::NAME.len() == c"allotrope-watched".count_bytes());

/// Closes the descriptor that the child has got from its parent, if it still leads to the
/// parent's memory: the program may have closed it and use its number.
fn close_parents() {
    let number = DESCRIPTOR.swap(-1, Relaxed);
    if number >= 0
        && system::seals(number) != 0
        && system::status_of(number).is_some_and(|it| it.st_ino == FILE.load(Relaxed))
    {
        drop(Descriptor::owned(number));
    }
}

/// Notes where the state of a thread is, which the kernel counts as the program's memory.
pub fn note_state(state: &'static Thread) {
    let number = process::threads().position(|it| it.is(state));
    if let (Some(writer), Some(number)) = (writer(), number) {
        writer.note_state(number, ptr::from_ref(state) as u64);
    }
}

/// Notes the status with which the process exits.
pub fn note_exit(status: i32) {
    if let Some(writer) = writer() {
        writer.note_exit(status);
    }
}

/// A thread without a state could not look at the settings: what it allocates is in no
/// sample.
pub fn count_lost_look() {
    if let Some(writer) = writer() {
        writer.count_lost_sample();
    }
}
