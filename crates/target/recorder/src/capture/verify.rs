//! The verifying build (`--features verify`): every recorded stack is walked a
//! second time by libunwind and compared, address by address.
//!
//! libunwind must be preloaded behind the recorder. What was found is appended
//! as one line to the file that `ALLOTROPE_VERIFY` names when the process
//! exits; the first stacks that differ are appended as they are found. What was
//! recorded but could not be compared is counted as unchecked.
//!
//! libunwind runs on the thread's second stack: the program's may be too small
//! for it. It finds its way back through `call_on_stack`'s frame.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use allotrope_unwind::{DEPTH, Unwinder};

use crate::state::image;
use crate::state::thread::{OwnThread, Thread};
use crate::sys::arch::stack_switch;
use crate::sys::digits::Digits;
use crate::sys::system;

static COMPARED: AtomicU64 = AtomicU64::new(0);
static DIFFERENT: AtomicU64 = AtomicU64::new(0);
static REPLAYED: AtomicU64 = AtomicU64::new(0);
static UNCHECKED: AtomicU64 = AtomicU64::new(0);
static BACKTRACE: AtomicUsize = AtomicUsize::new(0);
/// Value of [`BACKTRACE`]: libunwind is not there.
const ABSENT: usize = usize::MAX;
/// The process that counted; a forked child begins anew.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The deepest stack that is recorded, and the recorder's frames inside of it.
const FRAMES: usize = DEPTH + 64;
/// Differences that are described.
const DESCRIBED: u64 = 5;

/// Compares the stack that was captured last, whose innermost return address is
/// `first`.
#[inline(never)]
pub fn compare(thread: OwnThread, first: u64) {
    begin_process();
    let unwinder = &thread.fork_local().unwinder;
    if unwinder.take_replayed() {
        REPLAYED.fetch_add(1, Relaxed);
    }
    let frames = unwinder.take_frame_count();
    if frames == 0 || interrupts_comparison(&thread) {
        UNCHECKED.fetch_add(1, Relaxed);
        return;
    }
    thread.is_comparing.store(true, Relaxed);
    // SAFETY: the second stack is free, for the capture is over.
    unsafe {
        stack_switch::on_stack(thread.stack_top(), || {
            compare_with_libunwind(unwinder, first, frames);
        });
    }
    thread.is_comparing.store(false, Relaxed);
}

fn begin_process() {
    let process = system::process_id();
    if PROCESS.swap(process, Relaxed) != process {
        for count in [&COMPARED, &DIFFERENT, &REPLAYED, &UNCHECKED] {
            count.store(0, Relaxed);
        }
    }
}

/// Whether this hook runs in a handler that interrupted a comparison: libunwind's caches
/// must not be used then.
fn interrupts_comparison(thread: &Thread) -> bool {
    // The states of this thread, from the outermost to the nested one.
    let mut outer = Thread::current();
    while let Some(state) = outer
        && !state.is(thread)
    {
        if state.is_comparing.load(Relaxed) {
            return true;
        }
        outer = state.nested.get();
    }
    false
}

fn compare_with_libunwind(unwinder: &Unwinder, first: u64, frames: usize) {
    let Some(backtrace) = backtrace() else {
        UNCHECKED.fetch_add(1, Relaxed);
        return;
    };
    let mut theirs = [core::ptr::null_mut::<c_void>(); FRAMES];
    // SAFETY: libunwind walks live frames and writes as many addresses as fit.
    let count = unsafe { backtrace(theirs.as_mut_ptr(), FRAMES as c_int) }.max(0) as usize;
    let is_whole = count < FRAMES;
    let theirs = &theirs[..count];
    let begin = theirs
        .iter()
        .position(|address| *address as u64 == first)
        .unwrap_or(count);
    let theirs = &theirs[begin..];
    // libunwind may add a frame of address 0 or 1 at the end.
    let theirs_count = theirs
        .iter()
        .take_while(|address| **address as usize > 4096)
        .count();
    if !is_whole && theirs_count < frames {
        UNCHECKED.fetch_add(1, Relaxed);
        return;
    }
    COMPARED.fetch_add(1, Relaxed);
    let ours = |index: usize| unwinder.frame(frames - 1 - index).address();
    // Of a stack that was cut only what is left can agree.
    let same = (theirs_count == frames || unwinder.is_truncated() && theirs_count > frames)
        && (0..frames).all(|index| ours(index) == theirs[index] as u64);
    if !same && DIFFERENT.fetch_add(1, Relaxed) < DESCRIBED {
        describe(frames, &ours, &theirs[..theirs_count]);
    }
}

type Backtrace = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;

fn backtrace() -> Option<Backtrace> {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    let mut address = BACKTRACE.load(Relaxed);
    if address == 0 {
        // SAFETY: looks a name up; allocations on the way are nested hooks'.
        address = unsafe { dlsym(libc::RTLD_DEFAULT, c"unw_backtrace".as_ptr()) } as usize;
        // The search is not repeated in vain: it allocates then.
        address = if address == 0 { ABSENT } else { address };
        BACKTRACE.store(address, Relaxed);
    }
    // SAFETY: libunwind's function of this name has this type.
    (address != ABSENT).then(|| unsafe { core::mem::transmute::<usize, Backtrace>(address) })
}

fn describe(frames: usize, ours: &dyn Fn(usize) -> u64, theirs: &[*mut c_void]) {
    let mut text = [0u8; 64 << 10];
    let mut writer = Digits {
        bytes: &mut text,
        used: 0,
    };
    writer.text(b"different: ours | libunwind's\n");
    for index in 0..frames.max(theirs.len()) {
        writer.text(b"  ");
        writer.hexadecimal(if index < frames { ours(index) } else { 0 });
        writer.text(b" | ");
        writer.hexadecimal(theirs.get(index).map_or(0, |pc| *pc as u64));
        writer.text(b"\n");
    }
    append(&writer);
}

/// Appends the result.
pub fn report() {
    begin_process();
    let mut text = [0u8; 512];
    let mut writer = Digits {
        bytes: &mut text,
        used: 0,
    };
    for (name, count) in [
        (&b"compared "[..], &COMPARED),
        (b" different ", &DIFFERENT),
        (b" replayed ", &REPLAYED),
        (b" unchecked ", &UNCHECKED),
    ] {
        writer.text(name);
        writer.number(count.load(Relaxed));
    }
    writer.text(b" ");
    writer.text(image::executable());
    writer.text(b"\n");
    append(&writer);
}

fn append(text: &Digits<'_>) {
    if let Some(path) = image::environment_value(b"ALLOTROPE_VERIFY") {
        let mut name = [0u8; 512];
        let length = path.len().min(name.len() - 1);
        name[..length].copy_from_slice(&path[..length]);
        if let Ok(name) = CStr::from_bytes_until_nul(&name) {
            system::append_file(name, &text.bytes[..text.used]);
        }
    }
}
