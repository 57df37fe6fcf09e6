//! What happens in the place of `malloc` and its relatives.
//!
//! A deallocation is recorded before the real call and an allocation after
//! it, so that an address is never recorded as handed out again before it was
//! given back. A call that fails changed nothing and is not recorded.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;

use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::wire::{self, kind};

#[cfg(target_arch = "x86_64")]
pub mod x86_64;

use crate::capture;
use crate::counts;
use crate::early;
use crate::events;
use crate::modules;
use crate::process;
use crate::sys::next::{self, Function};
use crate::thread;

#[inline(always)]
unsafe fn record_allocation(
    entry: u8,
    block: *mut c_void,
    size: usize,
    alignment_log2: u8,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: `enter` gives this thread's own state, free for this hook.
    unsafe {
        let thread = thread::enter(sp as usize);
        if thread.is_null() {
            return;
        }
        if events::ready(thread) {
            match capture::stack_id(thread, sp, bp) {
                Some(stack) => {
                    #[cfg(feature = "verify")]
                    crate::verify::compare(thread, sp.read());
                    events::allocation(
                        thread,
                        entry,
                        block as u64,
                        size as u64,
                        alignment_log2,
                        stack,
                    );
                }
                None => events::count_lost(thread),
            }
        } else {
            counts::allocation(thread, entry, size);
        }
        thread::leave(thread);
    }
}

#[inline(always)]
unsafe fn record_short(kind: u8, entry: u8, block: *mut c_void, sp: *const u64) {
    // SAFETY: as above.
    unsafe {
        let thread = thread::enter(sp as usize);
        if thread.is_null() {
            return;
        }
        if events::ready(thread) {
            events::block_event(thread, kind, entry, block as u64);
        } else {
            counts::deallocation(thread, entry);
        }
        thread::leave(thread);
    }
}

/// Counts an allocation whose thread has no counters yet, or is in a state in
/// which it may not be to be counted.
pub unsafe extern "C" fn count_allocation(
    entry: u8,
    block: *mut c_void,
    size: usize,
    sp: *const u64,
) {
    // SAFETY: as above. `events::ready` refuses where calls are counted; the
    // frame pointer is for events only.
    unsafe { record_allocation(entry, block, size, 0, sp, 0) };
}

/// As [`count_allocation`].
pub unsafe extern "C" fn count_deallocation(entry: u8, sp: *const u64) {
    // SAFETY: as above.
    unsafe { record_short(kind::DEALLOCATION, entry, ptr::null_mut(), sp) };
}

/// Has the image announced, if it is not yet: a program that allocates nothing
/// and is killed was recorded all the same.
pub unsafe fn announce_image() {
    let here = 0usize;
    // SAFETY: as above; the local's address stands for the stack pointer.
    unsafe {
        let thread = thread::enter(&raw const here as usize);
        if !thread.is_null() {
            thread::leave(thread);
        }
    }
}

/// Notes the status with which the image is about to exit.
pub unsafe fn record_exit(status: c_int) {
    let here = 0usize;
    // SAFETY: as above; the local's address stands for the stack pointer.
    unsafe {
        let thread = thread::enter(&raw const here as usize);
        if thread.is_null() {
            return;
        }
        if events::ready_for_note(thread) {
            events::write(thread, wire::exit(status));
        }
        thread::leave(thread);
    }
}

/// The next definition of a function as a function pointer, or what to do
/// before there is one.
macro_rules! next {
    ($function:ident as $type:ty $(, $early:expr)?) => {{
        let mut address = next::address(Function::$function);
        if address == 0 {
            if next::resolve() {
                address = next::address(Function::$function);
            }
            if address == 0 {
                return $($early)?;
            }
        }
        // SAFETY: `dlsym` found the function of this name, whose type is known.
        unsafe { core::mem::transmute::<usize, $type>(address) }
    }};
}

type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
type AllocateTwo = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Reallocate = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Release = unsafe extern "C" fn(*mut c_void);

/// The next `malloc` gave the program `block`.
pub unsafe extern "C" fn malloc_allocated(
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: the entry stub gives what it found.
    unsafe { record_allocation(EntryPoint::Malloc as u8, block, size, 0, sp, bp) };
    block
}

/// The next `calloc` gave the program `block` of `size` bytes in all.
pub unsafe extern "C" fn calloc_allocated(
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: the entry stub gives what it found.
    unsafe { record_allocation(EntryPoint::Calloc as u8, block, size, 0, sp, bp) };
    block
}

/// `malloc` as long as the next one is not known.
#[cold]
pub unsafe extern "C" fn malloc(size: usize, sp: *const u64, bp: u64) -> *mut c_void {
    // SAFETY: as `record_allocation`.
    let next = next!(Malloc as Allocate, unsafe {
        early_allocation(EntryPoint::Malloc as u8, size, 16, sp)
    });
    // SAFETY: the caller's contract is the original's.
    unsafe {
        let block = next(size);
        if !block.is_null() {
            record_allocation(EntryPoint::Malloc as u8, block, size, 0, sp, bp);
        }
        block
    }
}

/// `calloc` as long as the next one is not known.
#[cold]
pub unsafe extern "C" fn calloc(count: usize, size: usize, sp: *const u64, bp: u64) -> *mut c_void {
    // SAFETY: as `malloc`.
    let next = next!(Calloc as AllocateTwo, unsafe {
        early_calloc(count, size, sp)
    });
    // SAFETY: as `malloc`.
    unsafe {
        let block = next(count, size);
        if !block.is_null() {
            record_allocation(
                EntryPoint::Calloc as u8,
                block,
                count.wrapping_mul(size),
                0,
                sp,
                bp,
            );
        }
        block
    }
}

/// An allocation while there is no next allocator yet.
#[cold]
unsafe fn early_allocation(
    entry: u8,
    size: usize,
    alignment: usize,
    sp: *const u64,
) -> *mut c_void {
    let block = next::bump_allocate(size, alignment);
    // SAFETY: as `record_allocation`.
    unsafe { early::note(entry, block, size, alignment, ptr::null_mut(), sp) };
    block
}

#[cold]
unsafe fn early_calloc(count: usize, size: usize, sp: *const u64) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: passed on.
        Some(bytes) => unsafe { early_allocation(EntryPoint::Calloc as u8, bytes, 16, sp) },
        None => ptr::null_mut(),
    }
}

pub unsafe extern "C" fn realloc(
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: as `malloc`.
    unsafe { reallocate(EntryPoint::Realloc as u8, block, size, sp, bp) }
}

/// The C library's does no more than this, and would come back to our `realloc`.
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else {
        // SAFETY: libc's own variable.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return ptr::null_mut();
    };
    // SAFETY: as `malloc`.
    unsafe { reallocate(EntryPoint::Reallocarray as u8, block, bytes, sp, bp) }
}

#[inline(always)]
unsafe fn reallocate(
    entry: u8,
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: before there is a next allocator, blocks are the bump area's.
    let next = next!(Realloc as Reallocate, unsafe {
        early_realloc(entry, block, size, sp)
    });
    // SAFETY: as `malloc`.
    unsafe {
        if block.is_null() {
            let result = next(block, size);
            if !result.is_null() {
                record_allocation(entry, result, size, 0, sp, bp);
            }
            return result;
        }
        if next::is_bump(block) {
            return move_from_bump(entry, block, size, sp, bp);
        }
        let recorded = start_reallocation(entry, block, sp);
        let result = next(block, size);
        if recorded {
            finish_reallocation(entry, block, result, size, sp, bp);
        }
        result
    }
}

/// Records that a block is about to be reallocated. `false`: the reallocation
/// can not be recorded, and is not counted.
#[inline(always)]
unsafe fn start_reallocation(entry: u8, block: *mut c_void, sp: *const u64) -> bool {
    // SAFETY: as `record_allocation`.
    unsafe {
        let thread = thread::enter(sp as usize);
        if thread.is_null() {
            return false;
        }
        let recorded = events::ready(thread);
        if recorded {
            events::block_event(thread, kind::REALLOCATION_START, entry, block as u64);
        }
        let counted = !recorded && counts::are_kept(thread);
        thread::leave(thread);
        recorded || counted
    }
}

/// Answers a `ReallocationStart`: it must not stay open for a block that is
/// alive, so an answer that can not be written counts as lost.
#[inline(always)]
unsafe fn finish_reallocation(
    entry: u8,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: as `record_allocation`.
    unsafe {
        let thread = thread::enter(sp as usize);
        if thread.is_null() {
            return;
        }
        if events::ready(thread) {
            if !result.is_null() {
                match capture::stack_id(thread, sp, bp) {
                    Some(stack) => {
                        #[cfg(feature = "verify")]
                        crate::verify::compare(thread, sp.read());
                        events::reallocation_end(thread, entry, result as u64, size as u64, stack);
                    }
                    // The old block is gone all the same; `ready` left room for
                    // one word.
                    None => {
                        events::block_event(thread, kind::REALLOCATION_FREED, entry, block as u64);
                        events::count_lost(thread);
                    }
                }
            } else if size == 0 {
                events::block_event(thread, kind::REALLOCATION_FREED, entry, block as u64);
            } else {
                events::block_event(thread, kind::REALLOCATION_FAILED, entry, block as u64);
            }
        } else if !result.is_null() {
            counts::reallocation(thread, entry, size);
        } else if size == 0 {
            counts::deallocation(thread, entry);
        }
        thread::leave(thread);
    }
}

#[cold]
unsafe fn early_realloc(entry: u8, block: *mut c_void, size: usize, sp: *const u64) -> *mut c_void {
    let result = next::bump_allocate(size, 16);
    // SAFETY: as `record_allocation`.
    unsafe { early::note(entry, result, size, 16, block, sp) };
    if !result.is_null() && !block.is_null() && next::is_bump(block) {
        // SAFETY: both blocks are the bump area's and hold at least this.
        unsafe {
            ptr::copy_nonoverlapping(
                block.cast::<u8>(),
                result.cast::<u8>(),
                next::bump_size(block).min(size),
            );
        }
    }
    result
}

#[cold]
unsafe fn move_from_bump(
    entry: u8,
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    let next = next!(Malloc as Allocate, ptr::null_mut());
    // SAFETY: the block is the bump area's; the new one holds what is copied.
    unsafe {
        let recorded = early::is_recorded(block) && start_reallocation(entry, block, sp);
        let result = next(size);
        if recorded {
            finish_reallocation(entry, block, result, size.max(1), sp, bp);
        } else if !result.is_null() {
            record_allocation(entry, result, size, 0, sp, bp);
        }
        if !result.is_null() {
            let bytes = next::bump_size(block).min(size);
            ptr::copy_nonoverlapping(block.cast::<u8>(), result.cast::<u8>(), bytes);
        }
        result
    }
}

pub unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    alignment: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> c_int {
    type Next = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
    let next = next!(PosixMemalign as Next, libc::ENOMEM);
    // SAFETY: as `malloc`.
    unsafe {
        let error = thread::call_allocator(sp, || next(result, alignment, size));
        if error == 0 && !(*result).is_null() {
            record_aligned(
                EntryPoint::PosixMemalign as u8,
                *result,
                alignment,
                size,
                sp,
                bp,
            );
        }
        error
    }
}

#[inline(always)]
unsafe fn record_aligned(
    entry: u8,
    block: *mut c_void,
    alignment: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) {
    // The C library rounds an alignment that is no power of two up.
    let log2 = alignment.max(1).next_power_of_two().trailing_zeros() as u8;
    // SAFETY: as `record_allocation`.
    unsafe { record_allocation(entry, block, size, log2, sp, bp) };
}

pub unsafe extern "C" fn aligned_alloc(
    alignment: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: as `record_allocation`.
    let next = next!(AlignedAlloc as AllocateTwo, unsafe {
        early_allocation(EntryPoint::AlignedAlloc as u8, size, alignment, sp)
    });
    // SAFETY: as `malloc`.
    unsafe {
        let block = thread::call_allocator(sp, || next(alignment, size));
        if !block.is_null() {
            record_aligned(
                EntryPoint::AlignedAlloc as u8,
                block,
                alignment,
                size,
                sp,
                bp,
            );
        }
        block
    }
}

pub unsafe extern "C" fn memalign(
    alignment: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: as `record_allocation`.
    let next = next!(Memalign as AllocateTwo, unsafe {
        early_allocation(EntryPoint::Memalign as u8, size, alignment, sp)
    });
    // SAFETY: as `malloc`.
    unsafe {
        let block = thread::call_allocator(sp, || next(alignment, size));
        if !block.is_null() {
            record_aligned(EntryPoint::Memalign as u8, block, alignment, size, sp, bp);
        }
        block
    }
}

pub unsafe extern "C" fn valloc(size: usize, sp: *const u64, bp: u64) -> *mut c_void {
    let next = next!(Valloc as Allocate, ptr::null_mut());
    // SAFETY: as `malloc`.
    unsafe {
        let block = thread::call_allocator(sp, || next(size));
        if !block.is_null() {
            record_aligned(
                EntryPoint::Valloc as u8,
                block,
                allotrope_shm::layout::PAGE,
                size,
                sp,
                bp,
            );
        }
        block
    }
}

pub unsafe extern "C" fn pvalloc(size: usize, sp: *const u64, bp: u64) -> *mut c_void {
    let next = next!(Pvalloc as Allocate, ptr::null_mut());
    // SAFETY: as `malloc`.
    unsafe {
        let block = thread::call_allocator(sp, || next(size));
        if !block.is_null() {
            record_aligned(
                EntryPoint::Pvalloc as u8,
                block,
                allotrope_shm::layout::PAGE,
                size,
                sp,
                bp,
            );
        }
        block
    }
}

pub unsafe extern "C" fn free(block: *mut c_void, sp: *const u64, _: u64) {
    let next = next!(Free as Release, early_free(block));
    // SAFETY: as `malloc`.
    unsafe { release(EntryPoint::Free as u8, block, sp, |block| next(block)) }
}

/// The bump area takes nothing back.
#[cold]
fn early_free(block: *mut c_void) {
    early::is_recorded(block);
}

#[inline(always)]
unsafe fn release(entry: u8, block: *mut c_void, sp: *const u64, call: impl FnOnce(*mut c_void)) {
    if block.is_null() {
        return call(block);
    }
    if next::is_bump(block) {
        if early::is_recorded(block) {
            // SAFETY: as below.
            unsafe { record_short(kind::DEALLOCATION, entry, block, sp) };
        }
        return;
    }
    // SAFETY: as `record_allocation`.
    unsafe { record_short(kind::DEALLOCATION, entry, block, sp) };
    call(block);
}

pub unsafe extern "C" fn cfree(block: *mut c_void, sp: *const u64, _: u64) {
    // Old programs only; the C library keeps it as another name of `free`.
    let cfree = next::address(Function::Cfree);
    // SAFETY: as `malloc`; `dlsym` found a function of this type.
    unsafe {
        release_by::<Release>(EntryPoint::Cfree as u8, cfree, block, sp, |cfree| {
            cfree(block)
        })
    }
}

pub unsafe extern "C" fn free_sized(block: *mut c_void, size: usize, sp: *const u64, _: u64) {
    type Next = unsafe extern "C" fn(*mut c_void, usize);
    let sized = next::address(Function::FreeSized);
    // SAFETY: as `malloc`; `dlsym` found a function of this type.
    unsafe {
        release_by::<Next>(EntryPoint::FreeSized as u8, sized, block, sp, |sized| {
            sized(block, size)
        })
    }
}

pub unsafe extern "C" fn free_aligned_sized(
    block: *mut c_void,
    alignment: usize,
    size: usize,
    sp: *const u64,
    _: u64,
) {
    type Next = unsafe extern "C" fn(*mut c_void, usize, usize);
    let sized = next::address(Function::FreeAlignedSized);
    let call = |sized: Next| {
        // SAFETY: as `malloc`.
        unsafe { sized(block, alignment, size) }
    };
    // SAFETY: `dlsym` found a function of this type.
    unsafe { release_by::<Next>(EntryPoint::FreeAlignedSized as u8, sized, block, sp, call) }
}

/// By one of the other names of `free`, at `address`: the allocator may make it a
/// call of `free`, as glibc 2.43 does of C23's, which is no second deallocation.
/// Without such a function it is `free` by definition.
#[inline(always)]
unsafe fn release_by<F>(
    entry: u8,
    address: usize,
    block: *mut c_void,
    sp: *const u64,
    call: impl FnOnce(F),
) {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    let free = next!(Free as Release);
    // SAFETY: the caller vouches for the type of what is at the address.
    unsafe {
        release(entry, block, sp, |block| {
            if address == 0 {
                free(block);
            } else {
                let function = core::mem::transmute_copy::<usize, F>(&address);
                thread::call_allocator(sp, || call(function));
            }
        });
    }
}

pub unsafe extern "C" fn reported_allocation(
    entry: u8,
    block: *mut c_void,
    size: usize,
    alignment: usize,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: as `record_allocation`; the interface's caller vouches.
    unsafe {
        if alignment <= 1 {
            record_allocation(entry, block, size, 0, sp, bp);
        } else {
            record_aligned(entry, block, alignment, size, sp, bp);
        }
    }
}

pub unsafe extern "C" fn reported_deallocation(entry: u8, block: *mut c_void, sp: *const u64) {
    // SAFETY: as above.
    unsafe { record_short(kind::DEALLOCATION, entry, block, sp) };
}

pub unsafe extern "C" fn reported_reallocation_start(
    entry: u8,
    block: *mut c_void,
    sp: *const u64,
) -> bool {
    // SAFETY: as above.
    unsafe { start_reallocation(entry, block, sp) }
}

pub unsafe extern "C" fn reported_reallocation_end(
    entry: u8,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: as above.
    unsafe { finish_reallocation(entry, block, result, size, sp, bp) };
}

/// Notes that the image is about to be replaced. If the new image is not
/// recorded, this note is all that says what became of this one.
pub unsafe fn note_exec(path: *const c_char) {
    // A child that `vfork` made must not speak for its parent, and one that
    // `fork` made and that did nothing else yet is no image of its own.
    if process::is_recording() && !process::is_forked() && process::is_own_process() {
        // SAFETY: as `record_exit`.
        unsafe { record_exec(path) };
    }
}

#[cold]
unsafe fn record_exec(path: *const c_char) {
    /// As much of a path as is told.
    const PATH_BYTES: usize = 1024;
    let here = 0usize;
    // SAFETY: as above; a path is a C string or null.
    unsafe {
        let length = if path.is_null() {
            0
        } else {
            libc::strnlen(path, PATH_BYTES)
        };
        let path = if length == 0 {
            &[]
        } else {
            core::slice::from_raw_parts(path.cast::<u8>(), length)
        };
        let thread = thread::enter(&raw const here as usize);
        if thread.is_null() {
            return;
        }
        if events::ready_for_note(thread) {
            events::write_long(thread, &wire::Exec { path });
        }
        thread::leave(thread);
    }
}

/// Unloading makes unwind rules void.
///
/// # Safety
/// As the original.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    type Next = unsafe extern "C" fn(*mut c_void) -> c_int;
    let next = next!(Dlclose as Next, -1);
    // SAFETY: passed on.
    let result = unsafe { next(handle) };
    modules::unloaded();
    result
}

macro_rules! exit {
    ($name:ident, $function:ident) => {
        /// Notes the status, which nobody else can tell where the parent is
        /// not the recording's.
        ///
        /// # Safety
        /// As the original.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(status: c_int) -> ! {
            crate::image::note_exit(status, ptr::null_mut());
            let address = next::address(Function::$function);
            if address != 0 || next::resolve() {
                let address = next::address(Function::$function);
                if address != 0 {
                    // SAFETY: `dlsym` found the function of this name.
                    unsafe {
                        core::mem::transmute::<usize, unsafe extern "C" fn(c_int) -> !>(address)(
                            status,
                        )
                    }
                }
            }
            crate::sys::system::exit(status)
        }
    };
}

exit!(_exit, UnderscoreExit);
exit!(_Exit, Exit);
