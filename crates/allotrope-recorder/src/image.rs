//! A process image's beginning and end, as the collector is told of them.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicUsize, fence};

use allotrope_shm::layout::{self, ImageSlot, image_state};
use allotrope_shm::location::Location;
use allotrope_shm::wire;

use crate::events;
use crate::process;
use crate::sys::arch;
use crate::sys::system;
use crate::thread::Thread;

/// Text that is written once, at start or in a child with one thread.
struct Text<const N: usize> {
    bytes: UnsafeCell<[u8; N]>,
    length: AtomicUsize,
}
// SAFETY: written before other threads can know of it, with signals blocked.
unsafe impl<const N: usize> Sync for Text<N> {}

impl<const N: usize> Text<N> {
    const fn new() -> Self {
        Self {
            bytes: UnsafeCell::new([0; N]),
            length: AtomicUsize::new(0),
        }
    }

    fn fill(&self, fill: impl FnOnce(&mut [u8]) -> usize) {
        // SAFETY: see `Sync`.
        let bytes = unsafe { &mut *self.bytes.get() };
        let length = fill(bytes).min(N);
        self.length.store(length, Relaxed);
    }

    fn get(&self) -> &[u8] {
        // SAFETY: nobody writes once it is filled.
        unsafe { &(&*self.bytes.get())[..self.length.load(Relaxed)] }
    }
}

static EXECUTABLE: Text<1024> = Text::new();
static COMMAND: Text<4096> = Text::new();

/// Most fork points that an image event can hold beside its texts.
const MAX_FORK_POINTS: usize = 180;

/// Fork points of the child that this process has become: pairs of ring and
/// ordinal.
struct ForkPoints {
    words: UnsafeCell<[u64; MAX_FORK_POINTS * 2]>,
    count: AtomicUsize,
}
// SAFETY: written under the process lock.
unsafe impl Sync for ForkPoints {}
static FORK_POINTS: ForkPoints = ForkPoints {
    words: UnsafeCell::new([0; MAX_FORK_POINTS * 2]),
    count: AtomicUsize::new(0),
};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether libc has set the environment up.
fn environment_is_ready() -> bool {
    !environment().is_null()
}

/// The program's environment, as libc has it.
pub fn environment() -> *const *const c_char {
    // SAFETY: libc's variable, read as a plain pointer.
    unsafe { (&raw const environ).read_volatile() }
}

/// Where the arena is according to the environment. `Some(None)`: there is none;
/// `None`: that can not be known yet.
pub fn arena_location() -> Option<Option<Location>> {
    let name = layout::ENVIRONMENT_VARIABLE.as_bytes();
    if environment_is_ready() {
        Some(environment_value(name).and_then(Location::parse))
    } else {
        location_before_libc(name)
    }
}

/// Where the arena is according to the environment that the kernel gave the
/// process: a resolver may allocate before libc knows it. `None`: it can not
/// be read.
fn location_before_libc(name: &[u8]) -> Option<Option<Location>> {
    // The kernel's limit for arguments and environment together is 6 MiB for
    // the usual stack limit (`execve(2)`).
    const MOST: usize = 8 << 20;
    let memory = system::map_private(MOST);
    if memory.is_null() {
        return None;
    }
    // SAFETY: just mapped, zeroed, nobody else's.
    let bytes = unsafe { core::slice::from_raw_parts_mut(memory, MOST) };
    let length = system::read_file(b"/proc/self/environ\0", bytes);
    let mut entries = bytes[..length].split(|byte| *byte == 0);
    let location = entries.find_map(|entry| match entry.strip_prefix(name) {
        Some([b'=', value @ ..]) => Some(Location::parse(value)),
        _ => None,
    });
    // SAFETY: the slice is not used any more.
    unsafe { system::unmap(memory, MOST) };
    (length > 0).then_some(location.flatten())
}

/// The value of an environment variable. Only at start, where libc would look
/// at it as well, and in the verifying build: a program may change its
/// environment on another thread.
pub fn environment_value(name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: an array of C strings that ends with a null pointer; see above.
    unsafe {
        let mut entry = (&raw const environ).read_volatile();
        if entry.is_null() {
            return None;
        }
        while !(*entry).is_null() {
            let text = core::ffi::CStr::from_ptr(*entry).to_bytes();
            if let Some([b'=', value @ ..]) = text.strip_prefix(name) {
                return Some(value);
            }
            entry = entry.add(1);
        }
    }
    None
}

/// Notes what this image is called, once, before its first event; a forked
/// child keeps the notes.
pub fn remember_self() {
    EXECUTABLE.fill(|into| system::read_link(b"/proc/self/exe\0", into));
    COMMAND.fill(|into| system::read_file(b"/proc/self/cmdline\0", into));
}

/// Path of the executable.
pub fn executable() -> &'static [u8] {
    EXECUTABLE.get()
}

/// Notes where the parent's streams stood, as this forked child's copy of the
/// thread states tells.
pub fn note_fork_points(first: *mut Thread, all: impl Iterator<Item = *mut Thread> + Clone) {
    // SAFETY: under the process lock, in a child whose other states nobody uses.
    unsafe {
        let points = &mut *FORK_POINTS.words.get();
        let mut count = 0;
        let ordered = core::iter::once(first).chain(all.filter(|state| *state != first));
        for state in ordered.filter(|state| !state.is_null() && (**state).writer.is_attached()) {
            if count < MAX_FORK_POINTS {
                points[count * 2] = u64::from((*state).ring_index);
                points[count * 2 + 1] = (*state).events;
                count += 1;
            }
        }
        FORK_POINTS.count.store(count, Relaxed);
    }
}

/// Writes the `Image` event as the first of `thread`'s ring and waits a moment
/// for the collector to know the process, so that it can watch its end.
pub unsafe fn announce(
    thread: *mut Thread,
    origin: u32,
    parent_slot: u32,
    slot: &'static ImageSlot,
) -> bool {
    let points = if origin == wire::origin::FORK {
        FORK_POINTS.count.load(Relaxed)
    } else {
        0
    };
    // SAFETY: the ring was just claimed by this thread, under the process lock,
    // which guards the fork points.
    unsafe {
        let image = wire::Image {
            pid: system::process_id(),
            parent_pid: process::parent_id(),
            tick: arch::tick(),
            origin,
            parent_slot: parent_slot.checked_sub(1),
            fork_points: &(&*FORK_POINTS.words.get())[..points * 2],
            executable: EXECUTABLE.get(),
            command: COMMAND.get(),
        };
        if !events::write_long(thread, &image) {
            return false;
        }
        slot.first_ring.store((*thread).ring_index, Relaxed);
    }
    slot.state.store(image_state::READY, Release);
    fence(core::sync::atomic::Ordering::SeqCst);
    events::ring_doorbell();
    // The collector opens a descriptor of this process meanwhile, with which
    // it learns of its end and status; without one it learns less.
    for _ in 0..5 {
        if slot.state.load(Acquire) != image_state::READY {
            break;
        }
        system::futex_wait(&slot.state, image_state::READY, 4);
    }
    true
}

/// Runs when the library is loaded, often not as the first thing: other
/// libraries' constructors may have allocated before.
extern "C" fn constructor() {
    if crate::sys::next::resolve() && (process::is_recording() || process::start()) {
        // SAFETY: as any hook.
        unsafe { crate::hooks::announce_image() };
        // The earliest registration runs last. It needs no memory: libc keeps
        // the first 32 in static storage.
        type OnExit = unsafe extern "C" fn(extern "C" fn(c_int, *mut c_void), *mut c_void) -> c_int;
        let on_exit = crate::sys::next::address(crate::sys::next::Function::OnExit);
        if on_exit != 0 {
            // SAFETY: `dlsym` found the function of this name; ours lives as
            // long as the process.
            unsafe { core::mem::transmute::<usize, OnExit>(on_exit)(note_exit, ptr::null_mut()) };
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

/// Notes the status with which the image exits.
pub extern "C" fn note_exit(status: c_int, _: *mut c_void) {
    #[cfg(feature = "verify")]
    crate::verify::report();
    // A `vfork` child that gives up must not speak for its parent.
    if process::is_recording() && process::is_own_process() {
        // SAFETY: as any hook; the address stands for this frame.
        unsafe { crate::hooks::record_exit(status) };
    }
}
