//! Calls of the functions that the recorder exports (`docs/client-abi.md`). They exist
//! only in a process that was started under Allotrope. The first call looks all of them
//! up with `dlsym` and caches their addresses.
//!
//! The program's allocator calls this code through [`Recorded`](recorded::Recorded). So
//! nothing here allocates or takes a lock, apart from `dlsym` in the first call, which may
//! call `malloc`, but never the program's global allocator.

pub(crate) mod recorded;

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

/// The functions of the recorder. Each is an index into [`NAMES`] and [`FOUND`].
#[derive(Clone, Copy)]
#[repr(usize)]
enum Function {
    Recording,
    WindowOpen,
    WindowClose,
    Quiet,
    OptOut,
    PoolAllocation,
    PoolDeallocation,
    PoolReallocationStart,
    PoolReallocationEnd,
    AllocatorEnter,
    AllocatorLeave,
    AllocatorAllocation,
    AllocatorDeallocation,
    AllocatorReallocationStart,
    AllocatorReallocationEnd,
}

const NAMES: [&CStr; 15] = [
    c"allotrope_recording",
    c"allotrope_window_open",
    c"allotrope_window_close",
    c"allotrope_quiet",
    c"allotrope_opt_out",
    c"allotrope_pool_allocation",
    c"allotrope_pool_deallocation",
    c"allotrope_pool_reallocation_start",
    c"allotrope_pool_reallocation_end",
    c"allotrope_allocator_enter",
    c"allotrope_allocator_leave",
    c"allotrope_allocator_allocation",
    c"allotrope_allocator_deallocation",
    c"allotrope_allocator_reallocation_start",
    c"allotrope_allocator_reallocation_end",
];

const UNKNOWN: u8 = 0;
const ABSENT: u8 = 1;
const PRESENT: u8 = 2;

/// [`UNKNOWN`] before the first call, then whether the process has a recorder.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// The addresses of the functions. Set before [`STATE`] becomes [`PRESENT`]; null for a
/// function that the recorder does not have.
static FOUND: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

/// The address of a function; `None` if there is no recorder or it lacks the function.
#[inline(always)]
fn address(function: Function) -> Option<*mut c_void> {
    let mut state = STATE.load(Acquire);
    if state == UNKNOWN {
        state = find();
    }
    if state != PRESENT {
        return None;
    }
    let found = FOUND[function as usize].load(Relaxed);
    (!found.is_null()).then_some(found)
}

/// Looks up all functions. Several threads may do this at the same time, because all find
/// the same addresses.
#[cold]
fn find() -> u8 {
    let mut state = ABSENT;
    if !look_up(c"allotrope_abi").is_null() {
        for (found, name) in FOUND.iter().zip(NAMES) {
            found.store(look_up(name), Relaxed);
        }
        state = PRESENT;
    }
    STATE.store(state, Release);
    state
}

/// Looks up one function. The recorder is a shared library, which glibc's dynamic loader
/// loads. Statically linked programs have no dynamic loader.
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    not(target_feature = "crt-static")
))]
fn look_up(name: &CStr) -> *mut c_void {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    // SAFETY: `RTLD_DEFAULT` is null on Linux; the name is a C string.
    unsafe { dlsym(ptr::null_mut(), name.as_ptr()) }
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    not(target_feature = "crt-static")
)))]
fn look_up(_: &CStr) -> *mut c_void {
    ptr::null_mut()
}

/// Calls a function of the recorder and returns its result. Returns `$absent` if there is
/// no recorder.
macro_rules! call {
    ($function:ident as $type:ty, ($($argument:expr),*), $absent:expr) => {
        match address(Function::$function) {
            // SAFETY: `address` is the recorder's function with this name, and its
            // type is that in docs/client-abi.md. It reads no memory except the bytes
            // of a window's name, which are a borrowed string, and it never
            // dereferences the address of a block.
            Some(address) => unsafe {
                transmute::<*mut c_void, $type>(address)($($argument),*)
            },
            None => $absent,
        }
    };
}

pub(crate) fn recording() -> u32 {
    call!(Recording as unsafe extern "C" fn() -> u32, (), 0)
}

pub(crate) fn window_open(name: &str, iterations: u64, flags: u32) -> u64 {
    call!(
        WindowOpen as unsafe extern "C" fn(*const c_char, usize, u64, u32) -> u64,
        (name.as_ptr().cast(), name.len(), iterations, flags),
        0
    )
}

pub(crate) fn window_close(window: u64, flags: u32) {
    call!(
        WindowClose as unsafe extern "C" fn(u64, u32),
        (window, flags),
        ()
    );
}

pub(crate) fn quiet(quiet_milliseconds: u32, timeout_milliseconds: u32) -> bool {
    call!(
        Quiet as unsafe extern "C" fn(u32, u32) -> u32,
        (quiet_milliseconds, timeout_milliseconds),
        1
    ) != 0
}

pub(crate) fn opt_out(on: bool) {
    call!(OptOut as unsafe extern "C" fn(u32), (u32::from(on)), ());
}

#[inline(always)]
pub(crate) fn pool_allocation(block: *const u8, size: usize, alignment: usize) {
    call!(
        PoolAllocation as unsafe extern "C" fn(*const u8, usize, usize),
        (block, size, alignment),
        ()
    );
}

#[inline(always)]
pub(crate) fn pool_deallocation(block: *const u8) {
    call!(
        PoolDeallocation as unsafe extern "C" fn(*const u8),
        (block),
        ()
    );
}

#[inline(always)]
pub(crate) fn pool_reallocation_start(block: *const u8) -> u64 {
    call!(
        PoolReallocationStart as unsafe extern "C" fn(*const u8) -> u64,
        (block),
        0
    )
}

#[inline(always)]
pub(crate) fn pool_reallocation_end(token: u64, block: *const u8, size: usize) {
    call!(
        PoolReallocationEnd as unsafe extern "C" fn(u64, *const u8, usize),
        (token, block, size),
        ()
    );
}
