//! Texts of this image: its executable, its command line and its environment.

use core::cell::UnsafeCell;
use core::ffi::c_char;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize};

use allotrope_shm::layout;
use allotrope_shm::location::Request;

use crate::sys::c_strings::{self, StringArray};
use crate::sys::mapping::PrivateMemory;
use crate::sys::system;

/// Text that is written once.
struct Text<const N: usize> {
    bytes: UnsafeCell<[u8; N]>,
    state: AtomicU8,
    length: AtomicUsize,
}
// SAFETY: `bytes` is written by the one caller of `fill` that changes `state` from
// `EMPTY`, and read once that is `FILLED`.
unsafe impl<const N: usize> Sync for Text<N> {}

/// Value of [`Text::state`]: the text is not set.
const EMPTY: u8 = 0;
const BEING_FILLED: u8 = 1;
const FILLED: u8 = 2;

impl<const N: usize> Text<N> {
    const fn new() -> Self {
        Self {
            bytes: UnsafeCell::new([0; N]),
            state: AtomicU8::new(EMPTY),
            length: AtomicUsize::new(0),
        }
    }

    fn fill(&self, fill: impl FnOnce(&mut [u8]) -> usize) {
        let state = &self.state;
        if state
            .compare_exchange(EMPTY, BEING_FILLED, Relaxed, Relaxed)
            .is_ok()
        {
            // SAFETY: see `Sync`.
            let length = fill(unsafe { &mut *self.bytes.get() }).min(N);
            self.length.store(length, Relaxed);
            state.store(FILLED, Release);
        }
    }

    fn get(&self) -> &[u8] {
        if self.state.load(Acquire) != FILLED {
            return &[];
        }
        // SAFETY: see `Sync`.
        unsafe { &(&*self.bytes.get())[..self.length.load(Relaxed)] }
    }
}

static EXECUTABLE: Text<1024> = Text::new();
static PROGRAM: Text<1024> = Text::new();
static COMMAND: Text<4096> = Text::new();

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether the environment is set up.
fn environment_is_ready() -> bool {
    !environment().is_null()
}

/// The environment that the loader passes to constructors, while the recorder's run: they
/// come before libc's.
static OF_CONSTRUCTORS: AtomicPtr<*const c_char> = AtomicPtr::new(ptr::null_mut());

/// Sets the environment for as long as libc has none, or takes it back with null.
pub fn lend_environment(environment: *const *const c_char) {
    OF_CONSTRUCTORS.store(environment.cast_mut(), Relaxed);
}

/// The program's environment, as libc has it.
pub fn environment() -> *const *const c_char {
    // SAFETY: libc's variable, read as a plain pointer.
    let of_libc = unsafe { (&raw const environ).read_volatile() };
    if of_libc.is_null() {
        return OF_CONSTRUCTORS.load(Relaxed);
    }
    of_libc
}

/// What the environment asks for.
#[derive(Debug)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// To record, or to be watched.
    For(Request),
    /// The user's variable makes no sense.
    Malformed,
}

impl Asked {
    /// What is asked for by variables of these values.
    fn by<'a>(value: impl Fn(&[u8]) -> Option<&'a [u8]>) -> Self {
        if let Some(value) = value(layout::ENVIRONMENT_VARIABLE.as_bytes()) {
            return Request::parse(value).map_or(Self::Nothing, Self::For);
        }
        match value(layout::WATCH_VARIABLE.as_bytes()) {
            None | Some([]) => Self::Nothing,
            Some(value) => Request::parse_watch(value).map_or(Self::Malformed, Self::For),
        }
    }
}

/// What the environment asks for. `None`: that cannot be known yet.
pub fn request() -> Option<Asked> {
    if environment_is_ready() {
        Some(Asked::by(environment_value))
    } else {
        request_before_libc()
    }
}

/// What the environment that the kernel gave the process asks for: a resolver may
/// allocate before libc knows it. `None`: it cannot be read.
fn request_before_libc() -> Option<Asked> {
    // The kernel's limit for arguments and environment together is 6 MiB for
    // the usual stack limit (`execve(2)`).
    const MAX: usize = 8 << 20;
    let mut memory = PrivateMemory::new(MAX)?;
    let bytes = memory.bytes();
    let length = system::read_file(c"/proc/self/environ", bytes);
    let entries = bytes[..length].split(|byte| *byte == 0);
    let value = |name: &[u8]| {
        entries
            .clone()
            .find_map(|entry| c_strings::value(entry, name))
    };
    (length > 0).then(|| Asked::by(value))
}

/// The value of an environment variable. Only at start, where libc would look
/// at it as well, and in the verifying build: a program may change its
/// environment on another thread.
pub fn environment_value(name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: see above.
    unsafe { StringArray::new(environment()) }?.variable(name)
}

/// Whether the environment names libraries to preload. The loader of a program that gains
/// rights removes that, so that the children of such a program have it only if somebody
/// with their rights has set it: whoever did could make them do anything.
pub fn was_preloaded() -> bool {
    environment_value(b"LD_PRELOAD").is_some_and(|list| !list.is_empty())
}

/// Notes what this image is called, once, before its first event; a forked
/// child has its parent's.
pub fn remember_self() {
    EXECUTABLE.fill(|into| system::read_link(c"/proc/self/exe", into));
    COMMAND.fill(|into| system::read_file(c"/proc/self/cmdline", into));
    if is_started_by_loader() {
        PROGRAM.fill(started_program);
    }
}

/// Whether the loader itself was executed, with the program as its argument: then it has no
/// loader. (Of a static program the recorder is not a part.)
pub fn is_started_by_loader() -> bool {
    system::auxiliary_value(libc::AT_BASE) == 0
}

/// The absolute path of the program that the loader was executed for. The loader puts what
/// it was given in the place of its own name.
fn started_program(into: &mut [u8]) -> usize {
    let name = system::auxiliary_value(libc::AT_EXECFN) as *const c_char;
    // SAFETY: the argument's text stays as long as the process runs.
    match unsafe { c_strings::c_string(name) } {
        Some(name) => absolute(name.to_bytes(), into),
        None => 0,
    }
}

/// Writes the absolute path of `path`, which is relative to the current folder unless it
/// begins at the root; returns its length, 0 if it does not fit.
pub fn absolute(path: &[u8], into: &mut [u8]) -> usize {
    let mut length = 0;
    let mut path = path;
    if !path.starts_with(b"/") {
        length = system::read_link(c"/proc/self/cwd", into);
        if length == 0 {
            return 0;
        }
        while let Some(rest) = path.strip_prefix(b"./") {
            path = rest;
        }
        if into[..length] != *b"/" {
            let Some(separator) = into.get_mut(length) else {
                return 0;
            };
            *separator = b'/';
            length += 1;
        }
    }
    let Some(rest) = into.get_mut(length..length + path.len()) else {
        return 0;
    };
    rest.copy_from_slice(path);
    length + path.len()
}

/// Path of the file of the program, which is the executable unless the loader was executed
/// for it.
pub fn program() -> &'static [u8] {
    match PROGRAM.get() {
        [] => executable(),
        program => program,
    }
}

/// Path of the executable.
pub fn executable() -> &'static [u8] {
    EXECUTABLE.get()
}

/// The command line, arguments separated by zero bytes.
pub fn command() -> &'static [u8] {
    COMMAND.get()
}
