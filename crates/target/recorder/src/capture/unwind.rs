//! The id of the stack of a hook's caller: the host of allotrope-unwind, which emits
//! what the walks find, to the thread's ring or, where the process is watched, to its memory.

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::stack_end;
use allotrope_shm::samples::modules as watched;
use allotrope_shm::samples::stacks::Frame;
use allotrope_shm::samples::writer::Writer;
use allotrope_shm::wire::{self, NO_MAPPING, Node};
use allotrope_unwind::{
    CallKind, CodeId, Entry, FoundModule, FrameAddress, Host, Modules, Reserved, StackHash,
    StackIds, Unwinder,
};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use crate::capture::modules;
use crate::capture::stack_ids;
use crate::capture::unseen;
use crate::emit::events::{self, Space};
use crate::state::module_table::{Change, Found, Module, PATH_BYTES};
use crate::state::process::{self, Lock};
use crate::state::thread::OwnThread;
use crate::state::watched::Pages;
use crate::sys::arch;
use crate::sys::arch::stack_switch;
use crate::sys::clock;
use crate::sys::readable;
use crate::sys::system::SignalsBlocked;

/// The id of the stack of a hook's caller; `None` if there is no space to emit it.
#[inline(always)]
pub fn stack_id(space: Space, caller: Caller<'_>) -> Option<u32> {
    // SAFETY: the hook has not returned, as long as there is its `Caller`.
    let entry = unsafe { Entry::new(caller.stack_pointer(), caller.frame_pointer()) };
    allotrope_unwind::stack_id(Capturing(space), entry)
}

/// The id of the stack of a hook's caller in the memory of this process, which is watched;
/// [`stack_end::NOT_RECORDED`] if there was no place for it, which is counted.
pub fn stack_id_in_memory(
    thread: OwnThread,
    writer: Writer<'static, Pages>,
    kind: CallKind,
    caller: Caller<'_>,
) -> u32 {
    // SAFETY: as in `stack_id`.
    let entry = unsafe { Entry::new(caller.stack_pointer(), caller.frame_pointer()) };
    let has_lost_frame = &thread.fork_local().sampling.has_lost_frame;
    has_lost_frame.set(false);
    let memory = InMemory {
        thread,
        writer,
        kind,
    };
    let id = allotrope_unwind::stack_id(Capturing(memory), entry);
    if has_lost_frame.get() {
        // What is cached of it has no ids.
        thread.fork_local().unwinder.forget_stack();
        writer.count_lost_stack();
        return stack_end::NOT_RECORDED;
    }
    id.unwrap_or(stack_end::NOT_RECORDED)
}

/// The id of a stack of which only the innermost frame is known, by its return
/// address.
pub fn id_of_lone_frame(space: Space, return_address: u64) -> Option<u32> {
    let frame = FrameAddress::return_address(return_address);
    allotrope_unwind::id_of_lone_frame(Capturing(space), frame)
}

/// Where ids of stacks are defined, and for which thread.
trait Definitions: Copy {
    /// The calling thread's own state, while its hook is at work.
    fn thread(self) -> OwnThread;

    /// See [`Host::kind`].
    fn kind(self) -> CallKind;

    /// Reserves ids, see [`StackIds::reserve_ids`].
    fn reserve(self, count: usize) -> Reserved;

    /// The id of a frame with these callers; `None`: there is no place for it.
    fn define(self, callers: u32, frame: FrameAddress, mapping: u16) -> Option<u32>;

    /// Emits a change of the mapped modules; `false`: there is no space.
    fn emit(self, change: Change<'_>) -> bool;

    /// Gives the collector time to open the files of new modules.
    fn wait_until_reported(self);
}

/// The thread's ring.
impl Definitions for Space {
    #[inline(always)]
    fn thread(self) -> OwnThread {
        *self
    }

    /// A recording has the stacks of deallocations rarely; then they share the cache.
    #[inline(always)]
    fn kind(self) -> CallKind {
        CallKind::Allocation
    }

    #[inline(always)]
    fn reserve(self, count: usize) -> Reserved {
        stack_ids::reserve(*self, count)
    }

    #[inline(always)]
    fn define(self, callers: u32, frame: FrameAddress, mapping: u16) -> Option<u32> {
        let id = stack_ids::take(*self);
        self.write(wire::node(Node {
            address: frame.address(),
            exact: frame.is_instruction_pointer(),
            parent: callers,
            id,
            mapping,
        }));
        Some(id)
    }

    fn emit(self, change: Change<'_>) -> bool {
        match change {
            Change::Mapped(module, number) => write_mapping(*self, module, number),
            Change::Unmapped(number) => events::reserve(*self, 1)
                .map(|space| space.write(wire::unmapped(number)))
                .is_some(),
        }
    }

    fn wait_until_reported(self) {
        events::wait_until_reported(*self);
    }
}

/// The memory of the process, which is watched.
#[derive(Clone, Copy)]
struct InMemory {
    thread: OwnThread,
    writer: Writer<'static, Pages>,
    kind: CallKind,
}

impl Definitions for InMemory {
    fn thread(self) -> OwnThread {
        self.thread
    }

    #[inline(always)]
    fn kind(self) -> CallKind {
        self.kind
    }

    fn reserve(self, _: usize) -> Reserved {
        Reserved::Room
    }

    fn define(self, callers: u32, frame: FrameAddress, mapping: u16) -> Option<u32> {
        let lost = &self.thread.fork_local().sampling.has_lost_frame;
        let frame = Frame {
            address: frame.address(),
            exact: frame.is_instruction_pointer(),
            mapping,
        };
        let id = match lost.get() {
            false => self.writer.node(callers, frame),
            true => None,
        };
        lost.set(id.is_none());
        id
    }

    fn emit(self, change: Change<'_>) -> bool {
        let now = clock::monotonic();
        match change {
            Change::Mapped(module, number) => {
                let mut path = [0; PATH_BYTES];
                let module = watched::Module {
                    start: module.start,
                    end: module.end,
                    bias: module.bias,
                    file: module.file(),
                    build_id: module.build_id(),
                    path: module.absolute_path(&mut path),
                };
                self.writer.map(number, &module, now)
            }
            Change::Unmapped(number) => {
                self.writer.unmap(number, now);
                true
            }
        }
    }

    /// There is no collector.
    fn wait_until_reported(self) {}
}

/// The calling thread's own state, while its hook is at work and may define ids.
#[derive(Clone, Copy)]
struct Capturing<D>(D);

// SAFETY: the state is an `OwnThread`: the calling thread's, and a hook that interrupts
// this one uses another. `readable` asks the kernel; the loader's tables hold where
// modules lie.
unsafe impl<D: Definitions> Host for Capturing<D> {
    #[inline(always)]
    fn unwinder<'a>(self) -> &'a Unwinder
    where
        Self: 'a,
    {
        &self.0.thread().fork_local().unwinder
    }

    #[inline(always)]
    fn kind(self) -> CallKind {
        self.0.kind()
    }

    #[inline(always)]
    fn depth_limit(self) -> usize {
        self.0.thread().depth_limit.load(Relaxed) as usize
    }

    fn page_is_readable(page: u64) -> bool {
        readable::page_is_readable(page)
    }

    fn stack_of(self, stack_pointer: u64) -> Range<u64> {
        readable::stack_of(&self.0.thread().fork_local().own_stacks, stack_pointer)
    }

    #[inline(always)]
    fn on_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        // SAFETY: hooks of this state do not nest, and none but one that is under way
        // uses this stack.
        unsafe { stack_switch::on_stack(self.0.thread().stack_top(), function) }
    }

    #[inline(always)]
    fn on_small_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        // SAFETY: as above, of the lower part of the same stack.
        unsafe { stack_switch::on_stack(self.0.thread().careful_stack_top(), function) }
    }
}

impl<D: Definitions> Modules for Capturing<D> {
    const NO_MAPPING: u16 = NO_MAPPING;

    fn module_at(self, address: u64) -> Option<FoundModule> {
        let emit = |change: Change<'_>| self.0.emit(change);
        let (module, mapping) = match modules::find(address, emit) {
            Found::Module(module, number) => (module, Some(number)),
            Found::Unnumbered(module) => (module, None),
            Found::Nothing => return None,
        };
        Some(FoundModule {
            module: allotrope_unwind::Module {
                start: module.start,
                end: module.end,
                eh_frame_hdr: module.eh_frame_hdr,
            },
            mapping,
            is_loader: module.start == modules::loader_start(),
        })
    }

    fn follows_frame_pointers(self) -> bool {
        process::control().frame_pointers.load(Relaxed) != 0
    }

    #[inline(always)]
    fn generation(self) -> u32 {
        modules::generation()
    }

    fn settled_generation(self) -> u32 {
        modules::settle()
    }

    fn loader_allocated(self) {
        unseen::diagnose_namespaces();
        if modules::loader_allocated() {
            // It has mapped what it was asked to open, and nothing of that has run yet.
            let found = self.on_second_stack(|| {
                let _blocked = SignalsBlocked::new();
                let _locked = Lock::take();
                modules::report_loaded(&|change| self.0.emit(change))
            });
            if found {
                self.0.wait_until_reported();
            }
        }
    }
}

impl<D: Definitions> StackIds for Capturing<D> {
    #[inline(always)]
    fn known_id(self, hash: StackHash, code_id: CodeId, parent: u32) -> Option<u32> {
        let ids = &self.0.thread().fork_local().ids;
        ids.known(hash, code_id, parent)
    }

    #[inline(always)]
    fn reserve_ids(self, count: usize) -> Reserved {
        self.0.reserve(count)
    }

    #[inline(always)]
    fn define_id(self, hash: StackHash, parent: u32, code: FrameAddress, code_id: CodeId) -> u32 {
        let mapping = self.unwinder().mapping(code_id);
        let Some(id) = self.0.define(parent, code, mapping) else {
            return stack_end::NOT_RECORDED;
        };
        let ids = &self.0.thread().fork_local().ids;
        ids.add(hash, code_id, parent, id);
        id
    }

    fn forget_code_ids(self) {
        self.0.thread().fork_local().ids.forget();
    }
}

/// Writes the modules that the loader has mapped so far. The process lock is held, and the
/// program has only one thread.
pub fn write_modules(thread: OwnThread) {
    modules::report_loaded(&|change| match change {
        Change::Mapped(module, number) => write_mapping(thread, module, number),
        Change::Unmapped(_) => true,
    });
}

/// Writes the `Mapping` event of a module.
fn write_mapping(thread: OwnThread, module: &Module, number: u16) -> bool {
    let mut path = [0; PATH_BYTES];
    let event = wire::Mapping {
        mapping: number,
        start: module.start,
        end: module.end,
        bias: module.bias,
        tick: arch::tick(),
        file: module.file(),
        build_id: module.build_id(),
        path: module.absolute_path(&mut path),
    };
    events::write_long(thread, &event)
}
