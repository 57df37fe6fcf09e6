//! Thin names for the system calls that the recorder makes.

use core::ptr;
use core::sync::atomic::AtomicU32;

use crate::sys::arch::syscall::{call, number};

/// Ends the process at once.
pub fn abort() -> ! {
    // SAFETY: an instruction that always faults.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

/// Fresh zeroed private memory; null if there is none.
pub fn map_private(bytes: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a mapping at an address of the kernel's choice overlaps nothing.
    address(unsafe {
        call(
            number::MMAP,
            [0, bytes, protection as usize, flags as usize, usize::MAX, 0],
        )
    })
}

/// What a mapping may be used for.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum Protection {
    /// Reading only.
    Read = libc::PROT_READ,
    /// Reading and writing.
    ReadWrite = libc::PROT_READ | libc::PROT_WRITE,
}

/// A shared mapping of `bytes` of the file from `offset` on; null on failure.
pub fn map_shared(descriptor: i32, offset: usize, bytes: usize, protection: Protection) -> *mut u8 {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let descriptor = descriptor as usize;
    let arguments = [
        0,
        bytes,
        protection as usize,
        flags as usize,
        descriptor,
        offset,
    ];
    // SAFETY: a mapping at an address of the kernel's choice overlaps nothing.
    address(unsafe { call(number::MMAP, arguments) })
}

/// Maps the beginning of a file, for reading, in the place of a mapping of
/// ours; `false` on failure.
///
/// # Safety
/// Nobody uses what was mapped there.
pub unsafe fn replace_by_shared(at: *mut u8, descriptor: i32, bytes: usize) -> bool {
    let flags = (libc::MAP_SHARED | libc::MAP_FIXED) as usize;
    let protection = Protection::Read as usize;
    let arguments = [
        at as usize,
        bytes,
        protection,
        flags,
        descriptor as usize,
        0,
    ];
    // SAFETY: passed on.
    address(unsafe { call(number::MMAP, arguments) }) == at
}

/// Changes what a mapping may be used for; `false` on failure.
///
/// # Safety
/// Nobody needs what is taken away.
pub unsafe fn protect(address: *mut u8, bytes: usize, protection: Protection) -> bool {
    let arguments = [address as usize, bytes, protection as usize, 0, 0, 0];
    // SAFETY: passed on.
    unsafe { call(number::MPROTECT, arguments) == 0 }
}

/// A second mapping of shared memory, of `bytes` of its file from the page
/// `from` on, which may be more than is mapped there; null on failure.
pub fn map_again(from: *mut u8, bytes: usize) -> *mut u8 {
    let flags = libc::MREMAP_MAYMOVE as usize;
    // SAFETY: an old size of 0 leaves the old mapping as it is (`mremap(2)`);
    // the new one is at an address of the kernel's choice.
    address(unsafe { call(number::MREMAP, [from as usize, 0, bytes, flags, 0, 0]) })
}

/// What a call that maps memory gave; null if it failed.
fn address(result: isize) -> *mut u8 {
    if (-4095..0).contains(&result) {
        ptr::null_mut()
    } else {
        result as *mut u8
    }
}

/// The seals of a file in memory (`F_SEAL_…`); 0 if it has or can have none.
pub fn seals(descriptor: i32) -> i32 {
    let arguments = [descriptor as usize, libc::F_GET_SEALS as usize, 0, 0, 0, 0];
    // SAFETY: asks only.
    let seals = unsafe { call(number::FCNTL, arguments) };
    i32::try_from(seals).map_or(0, |seals| seals.max(0))
}

/// Random bytes; `None` if the kernel has none.
pub fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let arguments = [bytes.as_mut_ptr() as usize, N, 0, 0, 0, 0];
    // SAFETY: the kernel fills the array.
    let filled = unsafe { call(number::GETRANDOM, arguments) };
    (filled == N as isize).then_some(bytes)
}

/// The real, effective and saved user ids.
pub fn users() -> [u32; 3] {
    let mut users = [u32::MAX; 3];
    let [real, effective, saved] = users.each_mut().map(|user| (&raw mut *user) as usize);
    // SAFETY: the kernel fills three words.
    unsafe { call(number::GETRESUID, [real, effective, saved, 0, 0, 0]) };
    users
}

/// Removes a mapping that was made here.
///
/// # Safety
/// Nothing refers to it any more.
pub unsafe fn unmap(address: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe { call(number::MUNMAP, [address as usize, bytes, 0, 0, 0, 0]) };
}

/// Gives the kernel an advice that does not change what the memory holds now.
pub fn advise(address: *mut u8, bytes: usize, advice: i32) -> bool {
    // SAFETY: only used with DONTDUMP, WIPEONFORK and POPULATE_WRITE.
    unsafe {
        call(
            number::MADVISE,
            [address as usize, bytes, advice as usize, 0, 0, 0],
        ) == 0
    }
}

/// Makes sure that the pages exist and can be written. `true` too where the
/// kernel (before 5.14) does not know the request.
pub fn populate(address: *mut u8, bytes: usize) -> bool {
    const EINVAL: isize = -(libc::EINVAL as isize);
    let arguments = [
        address as usize,
        bytes,
        libc::MADV_POPULATE_WRITE as usize,
        0,
        0,
        0,
    ];
    loop {
        // SAFETY: the pages' contents stay.
        match unsafe { call(number::MADVISE, arguments) } {
            0 | EINVAL => return true,
            error if error == -(libc::EINTR as isize) || error == -(libc::EAGAIN as isize) => {}
            _ => return false,
        }
    }
}

/// This process's id.
pub fn process_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(number::GETPID, [0; 6]) as u32 }
}

/// The parent's process id.
pub fn parent_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(number::GETPPID, [0; 6]) as u32 }
}

/// This thread's id.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(number::GETTID, [0; 6]) as u32 }
}

/// Whether the thread `tid` of this process has ended.
pub fn thread_is_gone(tid: u32) -> bool {
    const ESRCH: isize = -(libc::ESRCH as isize);
    // SAFETY: signal 0 only asks.
    unsafe {
        call(
            number::TGKILL,
            [process_id() as usize, tid as usize, 0, 0, 0, 0],
        ) == ESRCH
    }
}

/// Waits until woken, at most `milliseconds`, while `word` is `expected`.
pub fn futex_wait(word: &AtomicU32, expected: u32, milliseconds: u64) {
    let timeout = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    let arguments = [
        word.as_ptr() as usize,
        libc::FUTEX_WAIT as usize,
        expected as usize,
        timeout.as_ptr() as usize,
        0,
        0,
    ];
    // SAFETY: the word and the timeout live as long as the call.
    unsafe { call(number::FUTEX, arguments) };
}

/// Wakes everybody who waits on `word`.
pub fn futex_wake(word: &AtomicU32) {
    wake(word, i32::MAX);
}

/// Wakes one of those who wait on `word`.
pub fn futex_wake_one(word: &AtomicU32) {
    wake(word, 1);
}

fn wake(word: &AtomicU32, waiters: i32) {
    let arguments = [
        word.as_ptr() as usize,
        libc::FUTEX_WAKE as usize,
        waiters as usize,
        0,
        0,
        0,
    ];
    // SAFETY: waking touches no memory.
    unsafe { call(number::FUTEX, arguments) };
}

/// Reads a symbolic link; gives the number of bytes, 0 on failure. `path` ends
/// with a zero byte.
pub fn read_link(path: &[u8], into: &mut [u8]) -> usize {
    debug_assert!(path.ends_with(&[0]));
    let arguments = [
        path.as_ptr() as usize,
        into.as_mut_ptr() as usize,
        into.len(),
        0,
        0,
        0,
    ];
    // SAFETY: both buffers live as long as the call.
    let result = unsafe { call(number::READLINK, arguments) };
    usize::try_from(result).unwrap_or(0)
}

/// Opens a file; negative on failure. `path` ends with a zero byte.
pub fn open(path: &[u8], flags: i32) -> i32 {
    open_at(libc::AT_FDCWD, path, flags)
}

/// As [`open`], for a path that is taken from an open folder.
pub fn open_at(directory: i32, path: &[u8], flags: i32) -> i32 {
    debug_assert!(path.ends_with(&[0]));
    let directory = directory as isize as usize;
    let arguments = [
        directory,
        path.as_ptr() as usize,
        (flags | libc::O_CLOEXEC) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the path lives as long as the call.
    unsafe { call(number::OPENAT, arguments) as i32 }
}

/// Reads what fits from the start of a file; the number of bytes.
pub fn read_file(path: &[u8], into: &mut [u8]) -> usize {
    let descriptor = open(path, libc::O_RDONLY);
    if descriptor < 0 {
        return 0;
    }
    let mut filled = 0;
    while filled < into.len() {
        let rest = &mut into[filled..];
        let arguments = [
            descriptor as usize,
            rest.as_mut_ptr() as usize,
            rest.len(),
            0,
            0,
            0,
        ];
        // SAFETY: the buffer lives as long as the call.
        let count = unsafe { call(number::READ, arguments) };
        if count <= 0 {
            break;
        }
        filled += count as usize;
    }
    close(descriptor);
    filled
}

/// Reads from an open file at an offset; the number of bytes.
pub fn read_at(descriptor: i32, into: &mut [u8], offset: u64) -> usize {
    let arguments = [
        descriptor as usize,
        into.as_mut_ptr() as usize,
        into.len(),
        offset as usize,
        0,
        0,
    ];
    // SAFETY: the buffer lives as long as the call.
    let count = unsafe { call(number::PREAD64, arguments) };
    usize::try_from(count).unwrap_or(0)
}

/// The status of an open file.
pub fn status_of(descriptor: i32) -> Option<libc::stat> {
    // SAFETY: zeroes are a valid structure of numbers.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    let arguments = [
        descriptor as usize,
        c"".as_ptr() as usize,
        (&raw mut status) as usize,
        libc::AT_EMPTY_PATH as usize,
        0,
        0,
    ];
    // SAFETY: the kernel fills the structure.
    let result = unsafe { call(number::NEWFSTATAT, arguments) };
    (result == 0).then_some(status)
}

/// Whether an open file lies on a file system that is mounted `nosuid`.
pub fn is_nosuid(descriptor: i32) -> bool {
    // `struct statfs` (`asm-generic/statfs.h`) where all fields have 64 bits.
    const FLAGS: usize = 10;
    let mut status = [0u64; 15];
    let arguments = [descriptor as usize, (&raw mut status) as usize, 0, 0, 0, 0];
    // SAFETY: the kernel fills the structure.
    let result = unsafe { call(number::FSTATFS, arguments) };
    result == 0 && status[FLAGS] & libc::ST_NOSUID != 0
}

/// Reads an extended attribute of an open file; the number of bytes, 0 if it
/// has none or does not fit.
pub fn attribute(descriptor: i32, name: &core::ffi::CStr, into: &mut [u8]) -> usize {
    let arguments = [
        descriptor as usize,
        name.as_ptr() as usize,
        into.as_mut_ptr() as usize,
        into.len(),
        0,
        0,
    ];
    // SAFETY: name and buffer live as long as the call.
    let count = unsafe { call(number::FGETXATTR, arguments) };
    usize::try_from(count).unwrap_or(0)
}

/// Whether a path may be executed as far as its mode says; taken from an open
/// folder, that is for the exec to find out. Like every call made for a
/// program to be executed, it is one that its loader makes as well, so that a
/// sandbox which allows the one allows the other.
pub fn may_execute(directory: i32, path: &core::ffi::CStr) -> bool {
    directory != libc::AT_FDCWD || access(path, libc::X_OK)
}

/// Whether a library cannot be read under this path.
pub fn is_missing(path: &[u8]) -> bool {
    let mut text = [0u8; 1024];
    let Some(place) = text[..1023].get_mut(..path.len()) else {
        return false;
    };
    place.copy_from_slice(path);
    let path = core::ffi::CStr::from_bytes_until_nul(&text);
    path.is_ok_and(|path| !access(path, libc::R_OK))
}

fn access(path: &core::ffi::CStr, mode: i32) -> bool {
    let arguments = [path.as_ptr() as usize, mode as usize, 0, 0, 0, 0];
    // SAFETY: the path lives as long as the call.
    unsafe { call(number::ACCESS, arguments) == 0 }
}

/// The user whose rights this process has.
pub fn effective_user() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(number::GETEUID, [0; 6]) as u32 }
}

/// The group whose rights this process has.
pub fn effective_group() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(number::GETEGID, [0; 6]) as u32 }
}

/// Appends to a file, for the verifying build.
#[cfg(feature = "verify")]
pub fn append_file(path: &[u8], text: &[u8]) {
    let descriptor = open(path, libc::O_WRONLY | libc::O_APPEND);
    if descriptor >= 0 {
        let arguments = [
            descriptor as usize,
            text.as_ptr() as usize,
            text.len(),
            0,
            0,
            0,
        ];
        // SAFETY: the text lives as long as the call.
        unsafe { call(number::WRITE, arguments) };
        close(descriptor);
    }
}

/// Closes a descriptor of ours.
pub fn close(descriptor: i32) {
    // SAFETY: the recorder opened it itself.
    unsafe { call(number::CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// The thread's alternate signal stack, if it is running on it now.
pub fn alternate_stack_in_use() -> Option<(usize, usize)> {
    let mut stack = libc::stack_t {
        ss_sp: ptr::null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    let arguments = [0, (&raw mut stack) as usize, 0, 0, 0, 0];
    // SAFETY: the kernel fills the structure.
    let result = unsafe { call(number::SIGALTSTACK, arguments) };
    (result == 0 && stack.ss_flags & libc::SS_ONSTACK != 0)
        .then_some((stack.ss_sp as usize, stack.ss_size))
}

/// Blocks every signal for this thread until dropped, so that what happens in
/// between is neither interrupted nor left by a `siglongjmp`.
pub struct SignalsBlocked(u64);

impl SignalsBlocked {
    /// Blocks them.
    pub fn new() -> Self {
        let all = u64::MAX;
        let mut before = 0u64;
        let arguments = [
            libc::SIG_SETMASK as usize,
            (&raw const all) as usize,
            (&raw mut before) as usize,
            8,
            0,
            0,
        ];
        // SAFETY: both words live as long as the call; 8 is the kernel's sigset size.
        unsafe { call(number::RT_SIGPROCMASK, arguments) };
        Self(before)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let arguments = [
            libc::SIG_SETMASK as usize,
            (&raw const self.0) as usize,
            0,
            8,
            0,
            0,
        ];
        // SAFETY: as above.
        unsafe { call(number::RT_SIGPROCMASK, arguments) };
    }
}

/// Ends the process.
pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(number::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Milliseconds of the monotonic clock, as the kernel has it: a preloaded
/// library may tell the program another time.
pub fn milliseconds() -> u64 {
    let mut time = [0u64; 2];
    let arguments = [
        libc::CLOCK_MONOTONIC as usize,
        (&raw mut time) as usize,
        0,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel fills seconds and nanoseconds.
    unsafe { call(number::CLOCK_GETTIME, arguments) };
    time[0] * 1000 + time[1] / 1_000_000
}
