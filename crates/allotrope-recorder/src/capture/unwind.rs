//! The id of a hook's caller's stack: gives allotrope-unwind what it needs of the
//! recorder, and emits what it finds.

use allotrope_shm::wire::{self, NO_MAPPING, Node};
use allotrope_unwind::{
    CodeId, Entry, FoundModule, FrameAddress, Host, Modules, Reserved, StackHash, StackIds,
    Unwinder,
};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use crate::capture::modules;
use crate::capture::stack_ids;
use crate::capture::unseen;
use crate::emit::events;
use crate::state::module_table::{Change, Found, Module};
use crate::state::process;
use crate::state::thread::Thread;
use crate::sys::arch;
use crate::sys::arch::stack_switch;
use crate::sys::readable;

/// The id of the stack of a hook's caller; `None` if there is no room to emit it.
/// `sp` is the hook's stack pointer, at which the return address lies; `bp` the
/// caller's rbp.
#[inline(always)]
pub unsafe fn stack_id(thread: *mut Thread, sp: *const u64, bp: u64) -> Option<u32> {
    // SAFETY: the hook has not returned.
    let entry = unsafe { Entry::new(sp as u64, bp) };
    allotrope_unwind::stack_id(Capturing { thread }, entry)
}

/// The id of a stack of which only the innermost frame is known, by its return
/// address.
pub unsafe fn id_of_lone_frame(thread: *mut Thread, return_address: u64) -> Option<u32> {
    let frame = FrameAddress::return_address(return_address);
    allotrope_unwind::id_of_lone_frame(Capturing { thread }, frame)
}

/// The calling thread's own state, while its hook is at work.
#[derive(Clone, Copy)]
struct Capturing {
    thread: *mut Thread,
}

// SAFETY: the state is the calling thread's, and a hook that interrupts this one
// takes another. `readable` asks the kernel; the loader's tables hold where modules
// lie.
unsafe impl Host for Capturing {
    #[inline(always)]
    fn unwinder<'a>(self) -> &'a Unwinder
    where
        Self: 'a,
    {
        // SAFETY: states are never unmapped; all zero is a valid one.
        unsafe { &(*Thread::fork_local(self.thread)).unwinder }
    }

    #[inline(always)]
    fn depth_limit(self) -> usize {
        // SAFETY: the thread's own state.
        unsafe { (*self.thread).depth_limit as usize }
    }

    fn page_is_readable(page: u64) -> bool {
        readable::page_is_readable(page)
    }

    fn stack_of(self, stack_pointer: u64) -> Range<u64> {
        // SAFETY: the thread's own state.
        let own = unsafe { &(*Thread::fork_local(self.thread)).own_stacks };
        readable::stack_of(own, stack_pointer)
    }

    #[inline(always)]
    fn on_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        // SAFETY: hooks of this state do not nest, and none but one that is under way
        // uses this stack.
        unsafe { stack_switch::on_stack(Thread::stack_top(self.thread), function) }
    }

    #[inline(always)]
    fn on_small_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        // SAFETY: as above, of the lower part of the same stack.
        unsafe { stack_switch::on_stack(Thread::careful_stack_top(self.thread), function) }
    }
}

impl Modules for Capturing {
    const NO_MAPPING: u16 = NO_MAPPING;

    fn module_at(self, address: u64) -> Option<FoundModule> {
        let emit = |change: Change<'_>| self.emit(change);
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
        modules::loader_allocated();
    }
}

impl StackIds for Capturing {
    #[inline(always)]
    fn known_id(self, hash: StackHash, code_id: CodeId, parent: u32) -> Option<u32> {
        // SAFETY: the thread's own state.
        unsafe { &(*Thread::fork_local(self.thread)).ids }.known(hash, code_id, parent)
    }

    #[inline(always)]
    fn reserve_ids(self, count: usize) -> Reserved {
        // SAFETY: the thread's own state.
        unsafe { stack_ids::reserve(self.thread, count) }
    }

    #[inline(always)]
    fn define_id(self, hash: StackHash, parent: u32, code: FrameAddress, code_id: CodeId) -> u32 {
        let mapping = self.unwinder().mapping(code_id);
        // SAFETY: the thread's own state, with room for it.
        unsafe {
            let id = stack_ids::take(self.thread);
            let node = Node {
                address: code.address(),
                exact: code.is_instruction_pointer(),
                parent,
                id,
                mapping,
            };
            events::node(self.thread, node);
            (*Thread::fork_local(self.thread))
                .ids
                .add(hash, code_id, parent, id);
            id
        }
    }

    fn forget_code_ids(self) {
        // SAFETY: the thread's own state.
        unsafe { &(*Thread::fork_local(self.thread)).ids }.forget();
    }
}

impl Capturing {
    /// Emits a change of the mapped modules; `false`: there is no room.
    fn emit(self, change: Change<'_>) -> bool {
        // SAFETY: the thread's own state, free for this hook.
        unsafe {
            match change {
                Change::Mapped(module, number) => {
                    events::write_long(self.thread, &mapping(module, number))
                }
                Change::Unmapped(number) => {
                    let has_room = events::reserve(self.thread, 1);
                    if has_room {
                        events::write(self.thread, wire::unmapped(number));
                    }
                    has_room
                }
            }
        }
    }
}

/// The `Mapping` event of a module.
fn mapping(module: &Module, number: u16) -> wire::Mapping<&[u8]> {
    wire::Mapping {
        mapping: number,
        start: module.start,
        end: module.end,
        bias: module.bias,
        tick: arch::tick(),
        build_id: module.build_id(),
        path: module.path(),
    }
}
