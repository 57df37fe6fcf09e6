//! The allocator behind the recorder: the next definition of every function that the
//! recorder defines too, looked up once by `dlsym(RTLD_NEXT)` if there is one
//! ([`definitions`] finds out), and a small bump area that serves the calls that come
//! before that.

use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed,
};

use crate::sys::definitions;
use crate::sys::loader::{Debug, FindObject};

/// Functions that the recorder defines too, and what else it looks up, in the order of
/// [`NAMES`].
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
    AtQuickExit,
    DlFindObject,
    RDebug,
    GlibcVersion,
    RseqOffset,
    RseqSize,
    Prctl,
    Syscall,
    PthreadSetname,
    PthreadKeyCreate,
    PthreadKeyDelete,
    PthreadSetspecific,
}

const NAMES: [&core::ffi::CStr; 41] = [
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
    c"__cxa_at_quick_exit",
    c"_dl_find_object",
    c"_r_debug",
    c"gnu_get_libc_version",
    c"__rseq_offset",
    c"__rseq_size",
    c"prctl",
    c"syscall",
    c"pthread_setname_np",
    c"pthread_key_create",
    c"pthread_key_delete",
    c"pthread_setspecific",
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

/// Same as [`address`], but looks all functions up if that has not been done.
#[inline(always)]
pub fn resolved(function: Function) -> usize {
    #[cold]
    fn after_resolving(function: Function) -> usize {
        resolve();
        address(function)
    }
    match address(function) {
        0 => after_resolving(function),
        address => address,
    }
}

/// A typed accessor for each next definition that Rust code uses. `None`: there is none,
/// or it cannot be known yet.
macro_rules! accessors {
    ($($accessor:ident: $function:ident as $type:ty;)*) => {$(
        #[doc = concat!("See [`Function::", stringify!($function), "`].")]
        #[inline(always)]
        pub fn $accessor() -> Option<$type> {
            let address = resolved(Function::$function) as *const ();
            // SAFETY: null, which is `None`, or what `dlsym` found under this name: a
            // function or a variable of this type, in a module that stays loaded.
            unsafe { core::mem::transmute::<*const (), Option<$type>>(address) }
        }
    )*};
}

// A call is safe if the function works for any values of its arguments, as those that
// only allocate do.
accessors! {
    malloc: Malloc as extern "C" fn(usize) -> *mut c_void;
    calloc: Calloc as extern "C" fn(usize, usize) -> *mut c_void;
    realloc: Realloc as unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
    posix_memalign: PosixMemalign
        as unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
    aligned_alloc: AlignedAlloc as extern "C" fn(usize, usize) -> *mut c_void;
    memalign: Memalign as extern "C" fn(usize, usize) -> *mut c_void;
    valloc: Valloc as extern "C" fn(usize) -> *mut c_void;
    pvalloc: Pvalloc as extern "C" fn(usize) -> *mut c_void;
    free: Free as unsafe extern "C" fn(*mut c_void);
    cfree: Cfree as unsafe extern "C" fn(*mut c_void);
    free_sized: FreeSized as unsafe extern "C" fn(*mut c_void, usize);
    free_aligned_sized: FreeAlignedSized as unsafe extern "C" fn(*mut c_void, usize, usize);
    exit: Exit as extern "C" fn(c_int) -> !;
    underscore_exit: UnderscoreExit as extern "C" fn(c_int) -> !;
    dlclose: Dlclose as unsafe extern "C" fn(*mut c_void) -> c_int;
    posix_spawn: PosixSpawn as Spawn;
    posix_spawnp: PosixSpawnp as Spawn;
    on_exit: OnExit as extern "C" fn(extern "C" fn(c_int, *mut c_void), *mut c_void) -> c_int;
    at_quick_exit: AtQuickExit
        as extern "C" fn(extern "C" fn(*mut c_void, c_int), *mut c_void) -> c_int;
    dl_find_object: DlFindObject as FindObject;
    loader_debug: RDebug as &'static Debug;
    rseq_offset: RseqOffset as &'static AtomicI64;
    rseq_size: RseqSize as &'static AtomicU32;
    prctl: Prctl as unsafe extern "C" fn(c_int, *const c_char, c_ulong, c_ulong, c_ulong) -> c_int;
    pthread_setname: PthreadSetname
        as unsafe extern "C" fn(libc::pthread_t, *const c_char) -> c_int;
    pthread_key_create: PthreadKeyCreate
        as extern "C" fn(&mut c_uint, extern "C" fn(*mut c_void)) -> c_int;
    pthread_key_delete: PthreadKeyDelete as extern "C" fn(c_uint) -> c_int;
    pthread_setspecific: PthreadSetspecific as extern "C" fn(c_uint, *const c_void) -> c_int;
}

/// Type of `posix_spawn`: process id, path, actions, attributes, arguments, environment.
pub type Spawn = unsafe extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    *const *const c_char,
    *const *const c_char,
) -> c_int;

/// Holds an address that the loader must relocate. Before it did, nothing outside this
/// library can be called (an ifunc resolver of another library may call `malloc` as
/// early as that).
static OWN_ADDRESS: &AtomicU8 = &STATE;

fn is_relocated() -> bool {
    // SAFETY: a static of this library; volatile, since the compiler knows the value
    // that it has after relocation.
    let stored = unsafe { (&raw const OWN_ADDRESS).cast::<usize>().read_volatile() };
    stored == &raw const STATE as usize
}

/// Another recorder's definitions go before this one's.
static IS_SECOND: AtomicBool = AtomicBool::new(false);

/// Whether another recorder was loaded before this one, whose calls come here. `false` until the
/// functions were looked up.
pub fn is_second() -> bool {
    IS_SECOND.load(Relaxed)
}

/// Looks every function up. `false` while that is impossible or under way:
/// then the bump area must serve.
#[cold]
pub fn resolve() -> bool {
    if STATE.load(Relaxed) == 2 {
        return true;
    }
    if !is_relocated() {
        return false;
    }
    if let Err(state) = STATE.compare_exchange(0, 1, Relaxed, Relaxed) {
        return state == 2;
    }
    // A look-up that fails would leave its message for the program's next `dlerror()`:
    // only what is defined in a module behind this library is looked up.
    let variable = look_up(name(Function::RDebug)).cast_const().cast::<Debug>();
    // SAFETY: null, or the loader's variable of this name.
    let debug = unsafe { variable.as_ref() };
    let own_section = &raw const OWN_DYNAMIC as usize;
    let own = debug.and_then(Debug::first_module).and_then(|first| {
        first
            .and_following()
            .find(|map| map.has_dynamic_section_at(own_section))
    });
    let mut found = [0; NAMES.len()];
    for (address, name) in found.iter_mut().zip(&NAMES) {
        let is_defined =
            own.is_none_or(|own| definitions::first(own.and_following().skip(1), name).is_some());
        if is_defined {
            *address = look_up(name) as usize;
        }
    }
    let before = debug
        .and_then(Debug::first_module)
        .into_iter()
        .flat_map(|first| {
            let before = first.and_following();
            before.take_while(|map| !map.has_dynamic_section_at(own_section))
        });
    let is_second = definitions::first(before, c"allotrope_recorder_interface").is_some();
    IS_SECOND.store(own.is_some() && is_second, Relaxed);
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
    let found = unsafe { dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    // `RTLD_NEXT` means the definition behind the caller's: the call must not become a jump.
    core::hint::black_box(found)
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
// SAFETY: the atomic counter below allocates each byte once.
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

/// Whether a block of the bump area was ever allocated.
pub fn is_bump_used() -> bool {
    BUMP_USED.load(Relaxed) != 0
}

/// The addresses of the bump area.
pub fn bump_area() -> core::ops::Range<u64> {
    let start = BUMP.0.get() as u64;
    start..start + BUMP_BYTES as u64
}

/// Whether the block came from the bump area.
#[inline(always)]
pub fn is_bump(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(BUMP.0.get() as usize) < BUMP_BYTES
}

/// Requested size of a block from the bump area.
///
/// # Safety
/// `block` is what [`bump_allocate`] returned.
pub unsafe fn bump_size(block: *mut c_void) -> usize {
    // SAFETY: written when it was allocated.
    unsafe { ((block as usize - 16) as *const usize).read() }
}
