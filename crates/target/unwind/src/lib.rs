//! Unwinds the stack of an allocation and returns its id; most often proves that most of
//! the stack is the same as at the last capture instead of unwinding it (stack
//! memoization). The recorder calls [`stack_id`] for each recorded allocation.
//!
//! Unwinding is a pure function of a register state and the stack slots that it reads.
//! So the frames of the last walk are cached together with the slots by which they were
//! found. When a new walk reaches a cached frame, and the slots of the frames outside of
//! it have the same values as before, the rest of the stack is the cached one. These
//! checks are independent loads, far cheaper than unwinding.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`walk`](stack_id) | walks from a hook's caller to a cached frame or stack's end |
//! | `last_stack` | checks the cached frames; caches those of a new walk |
//! | `rule_cache` | maps a code address to its unwind rule and code id |
//! | `x86_64/rule` | the format of rules; steps by a rule |
//! | `x86_64/cfi` | makes a rule from `.eh_frame` |
//! | `x86_64/general` | steps by `.eh_frame` itself: all registers, expressions |
//! | `x86_64/frame_pointer` | steps without unwind information |
//! | [`memory`](Memory), `stack` | which memory can be read |
//! | [`modules`](Modules), [`Host`] | what the unwinder needs of its process |
//!
//! This is not a general unwinder. It walks only the stack of its own thread, from a
//! function that has not returned. Its result has code addresses but no registers, and a
//! stack is represented by the id that [`StackIds`] assigns to it. For other purposes see
//! framehop, whose terms are used here.
//!
//! # Signals
//! All state belongs to one thread. A signal handler of that thread may interrupt the
//! unwinder at any instruction and leave by a jump (`siglongjmp`); it uses another
//! [`Unwinder`]. So the state must be valid after each single write: fields are written
//! one by one, in an order that compiler fences enforce, and unfinished work does not
//! count. No heap, no locks, no panic unwinding, and little of the program's stack.
//!
//! # Another architecture
//! is a folder beside `x86_64/` that exports the same names:
//! - `FrameAddress`: packs address and kind in `BITS` bits. With more than 48 the
//!   rule cache has fewer distinct rules (its layout is asserted).
//! - `Frame`, `Entry`: the registers of a walk. On aarch64 an entry also has the
//!   link register, which is the innermost frame's return address. It then has three
//!   words, which must be passed to the walks in another way, since their arguments must
//!   stay in registers.
//! - `Rule`: where CFA, return address and frame pointer are. On aarch64 the return
//!   address has a slot of its own, or is in the link register of a leaf;
//!   `Frame::return_to` then needs the rule. `FrameAddress::return_address` removes
//!   pointer authentication bits.
//! - `CachedFrame`, `FrameFlags`: the slots by which a frame was found. On aarch64 the
//!   slot of the return address has to be stored too.
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

/// Most frames that can be walked and cached.
pub const DEPTH: usize = 4096;

/// A table aligned to a cache line, so that no element crosses into another line.
#[repr(C, align(64))]
struct CacheLines<T>(T);

/// The unwinder's state for one thread: ~2 MiB of address space, of which only used pages
/// are touched. All zero is a valid empty state, so it may be in memory that the kernel
/// clears in a forked child.
#[repr(C)]
pub struct Unwinder {
    stack: stack::KnownStack,
    /// The generation of modules ([`Modules::generation`]) for which the cached rules are
    /// valid.
    generation: Cell<u32>,
    /// By [`CallKind`].
    last_stacks: [last_stack::LastStack; 2],
    rules: rule_cache::UnwindRuleCache,
    #[cfg(feature = "verify")]
    verified: verify::Verified,
}

impl Unwinder {
    /// Removes all cached frames, so that the next stacks are walked to their ends. Also to be
    /// called when stack ids become invalid.
    pub fn forget_stack(&self) {
        for last in &self.last_stacks {
            last.set_len(0);
        }
    }

    /// The last stack of this kind of call.
    #[inline(always)]
    fn last(&self, kind: CallKind) -> &last_stack::LastStack {
        &self.last_stacks[kind as usize]
    }

    /// Removes the cached frames and the known stack: another thread uses this state.
    pub fn forget_known_stack(&self) {
        self.forget_stack();
        self.stack.forget();
    }

    /// The mapping number of the code with this id.
    #[inline(always)]
    pub fn mapping(&self, id: CodeId) -> u16 {
        self.rules.mapping(id)
    }

    /// Makes the next capture check the generation, as if modules had changed.
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

/// How a stack ends; the value is the stack id that represents this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum StackEnd {
    /// At the outermost frame.
    Complete = 0,
    /// At code whose caller cannot be found.
    NoUnwindInformation = 1,
    /// At the depth limit.
    Truncated = 2,
}

/// A hash of how a stack ends and of all its code ids from the outermost frame inwards.
/// Its upper bits depend on all other bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct StackHash(u64);

impl StackHash {
    #[inline(always)]
    fn of_no_frame(end: u32) -> Self {
        Self(u64::from(end) << 32)
    }

    /// The hash of the stack with one more frame, inside of all others (Fibonacci
    /// hashing, Knuth, volume 3, §6.4).
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

/// The result of [`StackIds::reserve_ids`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// The ids can be defined.
    Room,
    /// The ids can be defined, but all earlier ones have become invalid, including those
    /// of cached frames.
    AfterRestart,
    /// The ids cannot be defined.
    Nothing,
}

/// Assigns ids to stacks. A stack is defined by the id of its caller's stack and a code
/// address, so ids are the nodes of a trie.
pub trait StackIds: Copy {
    /// The id of the stack with this hash, whose innermost frame is at `code_id` and
    /// whose callers are the stack `parent`; `None` if it has no id yet.
    fn known_id(self, hash: StackHash, code_id: CodeId, parent: u32) -> Option<u32>;

    /// Reserves `count` new ids.
    fn reserve_ids(self, count: usize) -> Reserved;

    /// Assigns a new, reserved id to a stack.
    fn define_id(self, hash: StackHash, parent: u32, code: FrameAddress, code_id: CodeId) -> u32;

    /// Called when all code ids become invalid: no stack may be found by an old one.
    fn forget_code_ids(self);
}

/// Which call captures a stack. Each kind has a cached stack of its own: a program that
/// allocates and frees in turns does so at different places, and each stack is most like
/// the last one of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// An allocation, and whatever else is not a deallocation of [`Host::kind`].
    Allocation = 0,
    /// A deallocation.
    Deallocation = 1,
}

/// What the unwinder needs of the process and thread in which it runs.
///
/// # Safety
/// - The result of [`Host::unwinder`] is used only by the calling thread, and not by two
///   calls of [`stack_id`] at the same time.
/// - [`Host::page_is_readable`] and [`Host::stack_of`] return the truth.
/// - Pages in the ranges that [`Modules::module_at`] returns, if they are
///   [`Host::page_is_readable`], stay readable during the call.
pub unsafe trait Host: Modules + StackIds {
    /// The calling thread's unwinder.
    fn unwinder<'a>(self) -> &'a Unwinder
    where
        Self: 'a;

    /// Which call captures the stack.
    fn kind(self) -> CallKind;

    /// Most frames of a stack, 1 to [`DEPTH`]; longer ones are truncated.
    fn depth_limit(self) -> usize;

    /// Whether the page that begins at an address can be read.
    fn page_is_readable(page: u64) -> bool;

    /// The stack that contains `stack_pointer`, the thread's current one. The whole range
    /// can be read as long as the thread runs on this stack. For an unknown stack, the
    /// page of the stack pointer.
    fn stack_of(self, stack_pointer: u64) -> Range<u64>;

    /// Calls `function` on a stack with at least 32 KiB of space, which nothing else uses
    /// at that time.
    fn on_second_stack<R>(self, function: impl FnOnce() -> R) -> R;

    /// Calls `function` on a further stack, from which [`Host::on_second_stack`] may be
    /// called.
    fn on_small_second_stack<R>(self, function: impl FnOnce() -> R) -> R;
}

/// State for the verifying recorder, which compares each stack with libunwind's.
#[cfg(feature = "verify")]
mod verify {
    use super::{CallKind, Cell, FrameAddress, StackEnd, Unwinder};

    /// About the last capture. Only stacks of allocations are compared.
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
        /// Number of frames of the stack just captured; 0 if it was not captured.
        pub fn take_frame_count(&self) -> usize {
            let walked = self.verified.walked.replace(0);
            match self.last(CallKind::Allocation).len() {
                0 => walked,
                cached => cached,
            }
        }

        /// Whether the stack just captured was not walked to its end.
        pub fn take_replayed(&self) -> bool {
            self.verified.replayed.replace(false)
        }

        /// The frame at `index` of the stack just captured, counted from the outermost.
        pub fn frame(&self, index: usize) -> FrameAddress {
            self.last(CallKind::Allocation).code(index)
        }

        /// Whether the stack just captured was cut at the depth limit.
        pub fn is_truncated(&self) -> bool {
            self.last(CallKind::Allocation).end() == StackEnd::Truncated as u32
        }
    }
}
