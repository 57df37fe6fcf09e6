//! The allocator behind the recorder: the next definition of every function that the
//! recorder defines too, looked up once by `dlsym(RTLD_NEXT)` if there is one
//! ([`definitions`] finds out), and a small bump area that serves the calls that come
//! before that.

use core::ffi::{c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

use crate::sys::definitions;

/// Functions that the recorder stands before, in the order of [`NAMES`].
#[derive(Clone, Copy)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum Function {
    Malloc,
    Calloc,
    Realloc,
    PosixMemalign,
    AlignedAlloc,
    Memalign,
    Valloc,
    Pvalloc,
    Free,
    Cfree,
    FreeSized,
    FreeAlignedSized,
    Exit,
    UnderscoreExit,
    Dlopen,
    Dlmopen,
    Dlclose,
    Execve,
    Execv,
    Execvp,
    Execvpe,
    Execl,
    Execlp,
    Execle,
    Fexecve,
    Execveat,
    PosixSpawn,
    PosixSpawnp,
    OnExit,
    DlFindObject,
    RDebug,
    GlibcVersion,
    RseqOffset,
    RseqSize,
    Prctl,
}

const NAMES: [&core::ffi::CStr; 35] = [
    c"malloc",
    c"calloc",
    c"realloc",
    c"posix_memalign",
    c"aligned_alloc",
    c"memalign",
    c"valloc",
    c"pvalloc",
    c"free",
    c"cfree",
    c"free_sized",
    c"free_aligned_sized",
    c"_Exit",
    c"_exit",
    c"dlopen",
    c"dlmopen",
    c"dlclose",
    c"execve",
    c"execv",
    c"execvp",
    c"execvpe",
    c"execl",
    c"execlp",
    c"execle",
    c"fexecve",
    c"execveat",
    c"posix_spawn",
    c"posix_spawnp",
    c"on_exit",
    c"_dl_find_object",
    c"_r_debug",
    c"gnu_get_libc_version",
    c"__rseq_offset",
    c"__rseq_size",
    c"prctl",
];

/// The next definitions, by [`Function`]; 0: not known yet, or there is none.
pub static NEXT: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

/// 0: not looked up, 1: being looked up, 2: done.
static STATE: AtomicU8 = AtomicU8::new(0);

/// The next definition of `function`; 0 if unknown yet or there is none.
#[inline(always)]
pub fn address(function: Function) -> usize {
    NEXT[function as usize].load(Relaxed)
}

/// The name of a function.
pub fn name(function: Function) -> &'static core::ffi::CStr {
    NAMES[function as usize]
}

/// As [`address`], by the function's number.
pub fn address_at(function: usize) -> usize {
    NEXT.get(function).map_or(0, |next| next.load(Relaxed))
}

/// A pointer that the loader must relocate: before it did, calling anything
/// outside this library is impossible (an ifunc resolver of another library
/// may call `malloc` as early as that).
#[repr(transparent)]
struct SelfPointer(*const AtomicU8);
// SAFETY: it is only compared.
unsafe impl Sync for SelfPointer {}
static SELF_POINTER: SelfPointer = SelfPointer(&raw const STATE);

fn is_relocated() -> bool {
    let here = &raw const STATE;
    // SAFETY: reading our own static; volatile, since the compiler knows the
    // value that it will have only after relocation.
    unsafe { (&raw const SELF_POINTER.0).read_volatile() == here }
}

/// Looks every function up. `false` while that is impossible or under way:
/// then the bump area must serve.
#[cold]
pub fn resolve() -> bool {
    if !is_relocated() {
        return false;
    }
    if let Err(state) = STATE.compare_exchange(0, 1, Relaxed, Relaxed) {
        return state == 2;
    }
    let debug = look_up(NAMES[Function::RDebug as usize]);
    // SAFETY: null, or the loader's symbol of this name; `dlsym` was called just
    // now, too.
    let behind = unsafe { definitions::behind(debug.cast(), (&raw const OWN_DYNAMIC).cast()) };
    let mut found = [0; NAMES.len()];
    for (address, name) in found.iter_mut().zip(&NAMES) {
        // A look-up that fails would leave its message for the program's next
        // `dlerror()`: only what is there is looked up.
        // SAFETY: as above.
        let is_defined =
            behind.is_none_or(|behind| unsafe { definitions::first(behind, name) }.is_some());
        if is_defined {
            *address = look_up(name) as usize;
        }
    }
    for (next, address) in NEXT.iter().zip(found) {
        next.store(address, Relaxed);
    }
    STATE.store(2, Relaxed);
    true
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    /// This library's dynamic section, by which the loader's list has it.
    #[link_name = "_DYNAMIC"]
    static OWN_DYNAMIC: [u64; 2];
}

fn look_up(name: &core::ffi::CStr) -> *mut c_void {
    // SAFETY: dlsym may allocate; those calls come back to us and are served
    // from the bump area, for no address is known yet.
    unsafe { dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Whether the functions are being looked up: what is allocated now is the
/// look-up's own.
pub fn is_resolving() -> bool {
    STATE.load(Relaxed) == 1
}

/// Size of the bump area. `dlsym`'s error messages take a few hundred bytes.
pub const BUMP_BYTES: usize = 64 << 10;

/// The bump area.
#[repr(align(4096))]
pub struct Bump(core::cell::UnsafeCell<[u8; BUMP_BYTES]>);
// SAFETY: its bytes are handed out once each, by the atomic counter below.
unsafe impl Sync for Bump {}
/// See [`Bump`].
pub static BUMP: Bump = Bump(core::cell::UnsafeCell::new([0; BUMP_BYTES]));
static BUMP_USED: AtomicUsize = AtomicUsize::new(0);

/// A zeroed block from the bump area; null if it is used up. Its size is kept
/// in the 16 bytes before it.
pub fn bump_allocate(size: usize, alignment: usize) -> *mut c_void {
    let alignment = alignment.max(16);
    let Some(bytes) = size.checked_add(16 + alignment) else {
        return ptr::null_mut();
    };
    let start = BUMP_USED.fetch_add(bytes, Relaxed);
    if start.saturating_add(bytes) > BUMP_BYTES {
        return ptr::null_mut();
    }
    let base = BUMP.0.get() as usize;
    let block = (base + start + 16).next_multiple_of(alignment);
    // SAFETY: `block - 16 .. block + size` lies in the part just claimed.
    unsafe { ((block - 16) as *mut usize).write(size) };
    block as *mut c_void
}

/// Whether the block came from the bump area.
#[inline(always)]
pub fn is_bump(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(BUMP.0.get() as usize) < BUMP_BYTES
}

/// Requested size of a block from the bump area.
///
/// # Safety
/// `is_bump(block)`, and `block` was handed out.
pub unsafe fn bump_size(block: *mut c_void) -> usize {
    // SAFETY: written when it was handed out.
    unsafe { ((block as usize - 16) as *const usize).read() }
}
