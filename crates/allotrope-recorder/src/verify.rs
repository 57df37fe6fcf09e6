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

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::arch::rule::EXACT;
use crate::arch::{entry, thread_slot};
use crate::capture::end;
use crate::image::Digits;
use crate::kept::State;
use crate::system;
use crate::thread::{DEPTH, STACK_BYTES, Thread};

static COMPARED: AtomicU64 = AtomicU64::new(0);
static DIFFERENT: AtomicU64 = AtomicU64::new(0);
static REPLAYED: AtomicU64 = AtomicU64::new(0);
static UNCHECKED: AtomicU64 = AtomicU64::new(0);
static BACKTRACE: AtomicUsize = AtomicUsize::new(0);
/// In `BACKTRACE`: libunwind is not there.
const ABSENT: usize = usize::MAX;
/// The process that counted; a forked child begins anew.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The deepest stack that is recorded, and the recorder's frames inside of it.
const FRAMES: usize = DEPTH + 64;
/// Differences that are described.
const DESCRIBED: u64 = 5;

/// The stack just captured took the replay path.
pub fn note_replay() {
    REPLAYED.fetch_add(1, Relaxed);
}

/// The stack just captured was walked and has so many frames, whether they are
/// kept or not.
pub fn note_frames(thread: *mut Thread, frames: usize) {
    // SAFETY: the thread's own second stack.
    unsafe { walked_frames(thread).write_volatile(frames as u64) };
}

/// A stack to compare, on the second stack.
struct Question {
    thread: *mut Thread,
    /// The return address of the call that is recorded.
    first: u64,
    kept: usize,
}

/// Compares the stack that was captured last.
#[inline(never)]
pub unsafe fn compare(thread: *mut Thread, first: u64) {
    begin_process();
    // SAFETY: the thread's own state; its second stack is free, for the capture
    // is over.
    unsafe {
        let walked = walked_frames(thread).read_volatile() as usize;
        walked_frames(thread).write_volatile(0);
        let kept = match (*Thread::guarded(thread)).kept {
            0 => walked,
            kept => kept,
        };
        if kept == 0 || interrupts_comparison(thread) {
            UNCHECKED.fetch_add(1, Relaxed);
            return;
        }
        let mut question = Question {
            thread,
            first,
            kept,
        };
        is_comparing(thread).write_volatile(1);
        entry::call_on_stack(
            (&raw mut question).cast(),
            answer,
            Thread::stack_top(thread),
        );
        is_comparing(thread).write_volatile(0);
    }
}

fn begin_process() {
    let process = system::process_id();
    if PROCESS.swap(process, Relaxed) != process {
        for count in [&COMPARED, &DIFFERENT, &REPLAYED, &UNCHECKED] {
            count.store(0, Relaxed);
        }
    }
}

/// A word at the far end of the second stack: libunwind is at work there, and
/// its caches are not to be used by a signal handler.
fn is_comparing(thread: *mut Thread) -> *mut u64 {
    Thread::stack_top(thread)
        .wrapping_sub(STACK_BYTES)
        .cast::<u64>()
}

/// A word beside it, see `note_frames`.
fn walked_frames(thread: *mut Thread) -> *mut u64 {
    is_comparing(thread).wrapping_add(1)
}

/// Whether this hook runs in a handler that interrupted a comparison.
unsafe fn interrupts_comparison(thread: *mut Thread) -> bool {
    let mut outer = thread_slot::get();
    // SAFETY: the states of this thread, from the outermost to the nested one.
    unsafe {
        while !outer.is_null() && outer != thread {
            if is_comparing(outer).read_volatile() != 0 {
                return true;
            }
            outer = (*outer).nested;
        }
    }
    false
}

unsafe extern "C" fn answer(question: *mut c_void) {
    // SAFETY: `compare` gives its own question; libunwind walks live frames.
    unsafe {
        let question = &*question.cast::<Question>();
        let Some(backtrace) = backtrace() else {
            UNCHECKED.fetch_add(1, Relaxed);
            return;
        };
        let mut theirs = [core::ptr::null_mut::<c_void>(); FRAMES];
        let count = backtrace(theirs.as_mut_ptr(), FRAMES as c_int).max(0) as usize;
        let is_whole = count < FRAMES;
        let theirs = &theirs[..count];
        let begin = theirs
            .iter()
            .position(|pc| *pc as u64 == question.first)
            .unwrap_or(count);
        let theirs = &theirs[begin..];
        // libunwind may add a frame of address 0 or 1 at the end.
        let theirs_count = theirs.iter().take_while(|pc| **pc as usize > 4096).count();
        let kept = question.kept;
        if !is_whole && theirs_count < kept {
            UNCHECKED.fetch_add(1, Relaxed);
            return;
        }
        COMPARED.fetch_add(1, Relaxed);
        let states = (&raw const (*Thread::guarded(question.thread)).states).cast::<State>();
        let ours = |index: usize| (*states.add(kept - 1 - index)).pc & (EXACT - 1);
        // Of a stack that was cut only what is left can agree.
        let is_cut = (*Thread::guarded(question.thread)).end == end::TRUNCATED;
        let same = (theirs_count == kept || is_cut && theirs_count > kept)
            && (0..kept).all(|index| ours(index) == theirs[index] as u64);
        if !same && DIFFERENT.fetch_add(1, Relaxed) < DESCRIBED {
            describe(kept, &ours, &theirs[..theirs_count]);
        }
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

fn describe(kept: usize, ours: &dyn Fn(usize) -> u64, theirs: &[*mut c_void]) {
    let mut text = [0u8; 64 << 10];
    let mut writer = Digits {
        bytes: &mut text,
        used: 0,
    };
    writer.text(b"different: ours | libunwind's\n");
    for index in 0..kept.max(theirs.len()) {
        writer.text(b"  ");
        writer.hexadecimal(if index < kept { ours(index) } else { 0 });
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
    writer.text(crate::image::executable());
    writer.text(b"\n");
    append(&writer);
}

fn append(text: &Digits<'_>) {
    if let Some(path) = crate::image::environment_value(b"ALLOTROPE_VERIFY") {
        let mut name = [0u8; 512];
        let length = path.len().min(name.len() - 1);
        name[..length].copy_from_slice(&path[..length]);
        system::append_file(&name, &text.bytes[..text.used]);
    }
}
