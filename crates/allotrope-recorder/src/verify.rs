//! The verifying build (`--features verify`): every recorded stack is walked a
//! second time by libunwind and compared, address by address.
//!
//! libunwind must be preloaded behind the recorder. What was found is appended
//! as one line to the file that `ALLOTROPE_VERIFY` names when the process
//! exits; the first stacks that differ are appended as they are found.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::arch::rule::EXACT;
use crate::image::Digits;
use crate::system;
use crate::thread::{State, Thread};

static COMPARED: AtomicU64 = AtomicU64::new(0);
static DIFFERENT: AtomicU64 = AtomicU64::new(0);
static REPLAYED: AtomicU64 = AtomicU64::new(0);
static UNCHECKED: AtomicU64 = AtomicU64::new(0);
static BACKTRACE: AtomicUsize = AtomicUsize::new(0);

const FRAMES: usize = 1024;
/// Differences that are described.
const DESCRIBED: u64 = 5;

/// The stack just captured took the replay path.
pub fn note_replay() {
    REPLAYED.fetch_add(1, Relaxed);
}

/// Compares the stack that was captured last.
#[inline(never)]
pub unsafe fn compare(thread: *mut Thread, first: u64) {
    // SAFETY: the thread's own state; libunwind walks live frames.
    unsafe {
        if (*thread).is_nested {
            return;
        }
        let kept = (*Thread::guarded(thread)).kept;
        let Some(backtrace) = backtrace() else { return };
        if kept == 0 {
            UNCHECKED.fetch_add(1, Relaxed);
            return;
        }
        let mut theirs = [core::ptr::null_mut::<c_void>(); FRAMES];
        let count = backtrace(theirs.as_mut_ptr(), FRAMES as c_int).max(0) as usize;
        let theirs = &theirs[..count];
        let begin = theirs
            .iter()
            .position(|pc| *pc as u64 == first)
            .unwrap_or(count);
        let theirs = &theirs[begin..];
        let states = (&raw const (*Thread::guarded(thread)).states).cast::<State>();
        let ours = |index: usize| (*states.add(kept - 1 - index)).pc & (EXACT - 1);
        COMPARED.fetch_add(1, Relaxed);
        // libunwind may add a frame of address 0 or 1 at the end.
        let theirs_count = theirs.iter().take_while(|pc| **pc as usize > 4096).count();
        let same =
            theirs_count == kept && (0..kept).all(|index| ours(index) == theirs[index] as u64);
        if !same && begin + theirs_count < FRAMES && DIFFERENT.fetch_add(1, Relaxed) < DESCRIBED {
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
        BACKTRACE.store(address, Relaxed);
    }
    // SAFETY: libunwind's function of this name has this type.
    (address != 0).then(|| unsafe { core::mem::transmute::<usize, Backtrace>(address) })
}

fn describe(kept: usize, ours: &dyn Fn(usize) -> u64, theirs: &[*mut c_void]) {
    let mut text = [0u8; 16 << 10];
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
