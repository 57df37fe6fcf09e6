//! Turns the stack of an allocation into an id: walks it, or proves that most of
//! it is the one walked last.
//!
//! Unwinding is a pure function of a register state and the stack slots that it
//! reads. So the frames of the last walk are cached with the slots by which they
//! were found. As soon as a new walk reaches a cached frame and the slots outside
//! of it still hold what they held, the rest of the stack is the cached one. These
//! checks are independent loads, far cheaper than unwinding.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`walk`](stack_id) | from a hook's caller to a cached frame or the stack's end |
//! | `last_stack` | the cached frames: do they hold; caching those of a new walk |
//! | `rule_cache` | from code address to unwind rule and code id |
//! | `x86_64/rule` | what a rule is and how a step applies it |
//! | `x86_64/cfi` | from `.eh_frame` to a rule |
//! | `x86_64/general` | steps by `.eh_frame` itself: all registers, expressions |
//! | `x86_64/frame_pointer` | steps without unwind information |
//! | [`memory`](Memory), `stack` | what can be read: asked for, or known |
//! | [`modules`](Modules), [`Host`] | what the unwinder needs of its process |
//!
//! It is made for one purpose and not a general unwinder: it walks only the stack
//! of its own thread, from a function that has not returned; only what a stack
//! consists of comes out, no registers; and a stack is the id that [`StackIds`]
//! gives it. For other purposes see framehop, whose words are used here.
//!
//! # Signals
//! Everything belongs to one thread. A signal handler of it may interrupt the
//! unwinder at any instruction and jump away, but enters another [`Unwinder`].
//! So what is written at any time must hold by itself: fields are written one by
//! one, in the order that compiler fences keep, and what was not finished does not
//! count. No heap, no lock, no panic unwinding, little of the program's stack.
//!
//! # Another architecture
//! is a folder beside `x86_64/` that exports the same names:
//! - `FrameAddress`: packs address and kind in `BITS` bits. With more than 48 the
//!   rule cache has fewer distinct rules (its layout is asserted).
//! - `Frame`, `Entry`: the registers of a walk. On aarch64 an entry also has the
//!   link register, which is the innermost frame's return address; as three words
//!   it needs another way into the walks, whose arguments must stay in registers.
//! - `Rule`: where CFA, return address and frame pointer are. On aarch64 the return
//!   address has a slot of its own, or is in the link register of a leaf;
//!   `Frame::return_to` then takes the rule. Pointer authentication bits go in
//!   `FrameAddress::return_address`.
//! - `CachedFrame`, `FrameFlags`: which slots led to a frame. On aarch64 that of
//!   the return address is one more number.
//! - `step`, `rule_from_cfi`, `general_walk`, with the kernel's signal frame.
#![cfg_attr(not(test), no_std)]

mod last_stack;
pub mod lru_set;
mod memory;
mod modules;
mod rule_cache;
mod stack;
mod walk;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

#[cfg(test)]
mod tests;

use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

pub use arch::{Entry, FrameAddress};
pub use memory::{Memory, PageIsReadable};
pub use modules::{FoundModule, Module, Modules};
pub use rule_cache::CodeId;
pub use walk::{id_of_lone_frame, stack_id};

/// Frames that can be walked and cached.
pub const DEPTH: usize = 4096;

/// Begins with a cache line, so that no element lies in two.
#[repr(C, align(64))]
struct CacheLines<T>(T);

/// What a thread needs to unwind: ~2 MiB, of which it touches what it uses. All
/// zero, it knows nothing; so it may lie in memory that a fork wipes.
#[repr(C)]
pub struct Unwinder {
    stack: stack::KnownStack,
    /// The generation of modules for which rules are cached.
    generation: Cell<u32>,
    last: last_stack::LastStack,
    rules: rule_cache::UnwindRuleCache,
    #[cfg(feature = "verify")]
    verified: verify::Verified,
}

impl Unwinder {
    /// Forgets the cached frames: the next stack is walked to its end, or ids have
    /// been forgotten.
    pub fn forget_stack(&self) {
        self.last.set_len(0);
    }

    /// Forgets the known stack too: the thread is another one.
    pub fn forget_known_stack(&self) {
        self.forget_stack();
        self.stack.forget();
    }

    /// The mapping number of the code with this id.
    #[inline(always)]
    pub fn mapping(&self, id: CodeId) -> u16 {
        self.rules.mapping(id)
    }

    /// The next stack is to look at the generation, as if modules had changed.
    fn check_generation_next(&self) {
        const NEVER_SETTLED: u32 = 1;
        self.set_generation(NEVER_SETTLED);
    }

    fn set_generation(&self, generation: u32) {
        compiler_fence(SeqCst);
        self.generation.set(generation);
        compiler_fence(SeqCst);
    }
}

/// How a stack ends, with the id that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum StackEnd {
    /// At the outermost frame.
    Complete = 0,
    /// Where nothing shows how to go on.
    NoUnwindInformation = 1,
    /// At the depth limit.
    Truncated = 2,
}

/// A hash of all code ids of a stack, from the outermost frame, and of how it ends.
/// Its upper bits depend on all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct StackHash(u64);

impl StackHash {
    #[inline(always)]
    fn of_no_frame(end: u32) -> Self {
        Self(u64::from(end) << 32)
    }

    /// With one frame more, inside of all others (Fibonacci hashing, Knuth, volume
    /// 3, §6.4).
    #[inline(always)]
    fn with(self, id: CodeId) -> Self {
        Self((self.0 ^ u64::from(id.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The upper `bits` bits.
    #[inline(always)]
    pub const fn index(self, bits: u32) -> usize {
        (self.0 >> (u64::BITS - bits)) as usize
    }
}

/// What [`StackIds::reserve_ids`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// There is room.
    Room,
    /// There is room now: all ids were used up and are forgotten, the cached ones too.
    AfterRestart,
    /// There is no room.
    Nothing,
}

/// Gives ids to stacks: a stack is the id of its caller's stack and a code address.
pub trait StackIds: Copy {
    /// The id of the stack with this hash, whose innermost frame is at `code_id` and
    /// whose callers are `parent`, if it is known.
    fn known_id(self, hash: StackHash, code_id: CodeId, parent: u32) -> Option<u32>;

    /// Makes room for `count` new ids.
    fn reserve_ids(self, count: usize) -> Reserved;

    /// A new id, for which room was reserved.
    fn define_id(self, hash: StackHash, parent: u32, code: FrameAddress, code_id: CodeId) -> u32;

    /// Code ids are given anew: no id is known by one any more.
    fn forget_code_ids(self);
}

/// What the unwinder needs of the process and thread that it lives in.
///
/// # Safety
/// - [`Host::unwinder`] is used by the calling thread alone, and by no two calls of
///   [`stack_id`] at a time.
/// - [`Host::page_is_readable`] and [`Host::stack_of`] are true.
/// - [`Modules::module_at`] gives ranges of which [`Host::page_is_readable`] pages
///   stay readable during the call.
pub unsafe trait Host: Modules + StackIds {
    /// The thread's own.
    fn unwinder<'a>(self) -> &'a Unwinder
    where
        Self: 'a;

    /// Frames after which a stack is cut: 1 to [`DEPTH`].
    fn depth_limit(self) -> usize;

    /// Whether the page that begins at an address can be read.
    fn page_is_readable(page: u64) -> bool;

    /// The stack that `stack_pointer`, the thread's own, points into: from the first
    /// to the end of the second address everything can be read as long as the thread
    /// runs on it. Of a stack of which nothing is known that is its page.
    fn stack_of(self, stack_pointer: u64) -> Range<u64>;

    /// Calls `function` on a stack with 32 KiB to spare, which nothing else uses now.
    fn on_second_stack<R>(self, function: impl FnOnce() -> R) -> R;

    /// The same on another one, from which [`Host::on_second_stack`] may be called.
    fn on_small_second_stack<R>(self, function: impl FnOnce() -> R) -> R;
}

/// What the verifying recorder compares with libunwind.
#[cfg(feature = "verify")]
mod verify {
    use super::{Cell, FrameAddress, StackEnd, Unwinder};

    /// Of the last capture.
    #[repr(C)]
    pub struct Verified {
        pub(crate) walked: Cell<usize>,
        replayed: Cell<bool>,
    }

    impl Verified {
        pub(crate) fn note_replay(&self) {
            self.replayed.set(true);
        }
    }

    impl Unwinder {
        /// How many frames the stack just captured has; 0: it was not captured.
        pub fn take_frame_count(&self) -> usize {
            let walked = self.verified.walked.replace(0);
            match self.last.len() {
                0 => walked,
                cached => cached,
            }
        }

        /// Whether the stack just captured was not walked to its end.
        pub fn take_replayed(&self) -> bool {
            self.verified.replayed.replace(false)
        }

        /// Of the stack just captured, the frame at `index`, counted from the outermost.
        pub fn frame(&self, index: usize) -> FrameAddress {
            self.last.code(index)
        }

        /// Whether the stack just captured was cut at the depth limit.
        pub fn is_truncated(&self) -> bool {
            self.last.end() == StackEnd::Truncated as u32
        }
    }
}
