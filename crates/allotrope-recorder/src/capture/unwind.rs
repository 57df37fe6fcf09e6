//! The id of the stack of a hook's caller: the host of allotrope-unwind, which emits
//! what the walks find.

use allotrope_shm::hook_api::Caller;
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
use crate::emit::events::{self, Space};
use crate::state::module_table::{Change, Found, Module};
use crate::state::process;
use crate::sys::arch;
use crate::sys::arch::stack_switch;
use crate::sys::readable;

/// The id of the stack of a hook's caller; `None` if there is no space to emit it.
#[inline(always)]
pub fn stack_id(space: Space, caller: Caller<'_>) -> Option<u32> {
    // SAFETY: the hook has not returned, as long as there is its `Caller`.
    let entry = unsafe { Entry::new(caller.stack_pointer(), caller.frame_pointer()) };
    allotrope_unwind::stack_id(Capturing { space }, entry)
}

/// The id of a stack of which only the innermost frame is known, by its return
/// address.
pub fn id_of_lone_frame(space: Space, return_address: u64) -> Option<u32> {
    let frame = FrameAddress::return_address(return_address);
    allotrope_unwind::id_of_lone_frame(Capturing { space }, frame)
}

/// The calling thread's own state, while its hook is at work and may write events.
#[derive(Clone, Copy)]
struct Capturing {
    space: Space,
}

// SAFETY: the state is an `OwnThread`: the calling thread's, and a hook that interrupts
// this one uses another. `readable` asks the kernel; the loader's tables hold where
// modules lie.
unsafe impl Host for Capturing {
    #[inline(always)]
    fn unwinder<'a>(self) -> &'a Unwinder
    where
        Self: 'a,
    {
        &self.space.fork_local().unwinder
    }

    #[inline(always)]
    fn depth_limit(self) -> usize {
        self.space.depth_limit.load(Relaxed) as usize
    }

    fn page_is_readable(page: u64) -> bool {
        readable::page_is_readable(page)
    }

    fn stack_of(self, stack_pointer: u64) -> Range<u64> {
        readable::stack_of(&self.space.fork_local().own_stacks, stack_pointer)
    }

    #[inline(always)]
    fn on_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        // SAFETY: hooks of this state do not nest, and none but one that is under way
        // uses this stack.
        unsafe { stack_switch::on_stack(self.space.stack_top(), function) }
    }

    #[inline(always)]
    fn on_small_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        // SAFETY: as above, of the lower part of the same stack.
        unsafe { stack_switch::on_stack(self.space.careful_stack_top(), function) }
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
        self.space.fork_local().ids.known(hash, code_id, parent)
    }

    #[inline(always)]
    fn reserve_ids(self, count: usize) -> Reserved {
        stack_ids::reserve(*self.space, count)
    }

    #[inline(always)]
    fn define_id(self, hash: StackHash, parent: u32, code: FrameAddress, code_id: CodeId) -> u32 {
        let mapping = self.unwinder().mapping(code_id);
        let id = stack_ids::take(*self.space);
        self.space.write(wire::node(Node {
            address: code.address(),
            exact: code.is_instruction_pointer(),
            parent,
            id,
            mapping,
        }));
        self.space.fork_local().ids.add(hash, code_id, parent, id);
        id
    }

    fn forget_code_ids(self) {
        self.space.fork_local().ids.forget();
    }
}

impl Capturing {
    /// Emits a change of the mapped modules; `false`: there is no space.
    fn emit(self, change: Change<'_>) -> bool {
        match change {
            Change::Mapped(module, number) => {
                events::write_long(*self.space, &mapping(module, number))
            }
            Change::Unmapped(number) => events::reserve(*self.space, 1)
                .map(|space| space.write(wire::unmapped(number)))
                .is_some(),
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
