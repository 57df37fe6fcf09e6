//! What the recorder asks of the kernel: the system calls of [`kernel`] with their
//! results as Rust types.

use core::ffi::CStr;
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::AtomicU32;

use crate::sys::arch::syscall::{call, number};
use crate::sys::digits::Digits;
use crate::sys::kernel::{self, Advice};

/// Ends the process at once.
pub fn abort() -> ! {
    // SAFETY: an instruction that always faults.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

/// The number of bytes that a call returned; 0 if it failed.
fn count(result: isize) -> usize {
    usize::try_from(result).unwrap_or(0)
}

/// What a page may be used for.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum Protection {
    /// Reading only.
    Read = libc::PROT_READ,
    /// Reading and writing.
    ReadWrite = libc::PROT_READ | libc::PROT_WRITE,
    /// Reading and executing.
    ReadExecute = libc::PROT_READ | libc::PROT_EXEC,
    /// Reading, writing and executing.
    All = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
}

/// Changes what pages may be used for; `false` on failure.
///
/// # Safety
/// Nobody needs what is taken away.
pub unsafe fn protect(start: *const u8, bytes: usize, protection: Protection) -> bool {
    let words = [start as usize, bytes, protection as usize];
    // SAFETY: passed on.
    unsafe { call(number::MPROTECT, words) == 0 }
}

/// The seals of a file in memory (`F_SEAL_…`); 0 if it has or can have none.
pub fn seals(descriptor: i32) -> i32 {
    count(kernel::get_seals(descriptor)) as i32
}

/// Random bytes; `None` if the kernel has none.
pub fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (count(kernel::getrandom(&mut bytes)) == N).then_some(bytes)
}

/// The real, effective and saved user ids.
pub fn users() -> [u32; 3] {
    let [mut real, mut effective, mut saved] = [u32::MAX; 3];
    kernel::getresuid(&mut real, &mut effective, &mut saved);
    [real, effective, saved]
}

/// See [`Advice`]. `false`: the kernel does not know it.
pub fn advise(start: *const u8, bytes: usize, advice: Advice) -> bool {
    kernel::madvise(start, bytes, advice) == 0
}

/// Makes sure that the pages exist and can be written. `true` too where the
/// kernel (before 5.14) does not know the request.
pub fn populate(start: *const u8, bytes: usize) -> bool {
    loop {
        let result = kernel::madvise(start, bytes, Advice::PopulateWrite);
        match i32::try_from(-result) {
            Ok(0 | libc::EINVAL) => return true,
            Ok(libc::EINTR | libc::EAGAIN) => {}
            _ => return false,
        }
    }
}

/// This process's id.
pub fn process_id() -> u32 {
    kernel::getpid() as u32
}

/// The parent's process id.
pub fn parent_id() -> u32 {
    kernel::getppid() as u32
}

/// This thread's id.
pub fn thread_id() -> u32 {
    kernel::gettid() as u32
}

/// The kernel's name of this thread, padded with zero bytes.
pub fn thread_name() -> Option<[u8; 16]> {
    let mut name = [0; 16];
    (kernel::get_name(&mut name) == 0).then_some(name)
}

/// The name of another thread of this process, as `/proc` has it; `None` if there is none.
pub fn name_of_thread(tid: u32) -> Option<[u8; 16]> {
    // 15 bytes at most, and a line feed.
    let mut name = [0; 16];
    let length = read_file_of_thread(tid, b"/comm", &mut name);
    let end = length.checked_sub(1)?;
    name[end] = 0;
    Some(name)
}

/// Reads the beginning of a file that `/proc` has of a thread of this process, such as `/comm`; 0 if
/// there is none.
pub fn read_file_of_thread(tid: u32, name: &[u8], into: &mut [u8]) -> usize {
    let mut path = [0; 48];
    let mut digits = Digits {
        bytes: &mut path,
        used: 0,
    };
    digits.text(b"/proc/self/task/");
    digits.number(u64::from(tid));
    digits.text(name);
    CStr::from_bytes_until_nul(&path).map_or(0, |path| read_file(path, into))
}

/// Whether the thread `tid` of this process has ended.
pub fn thread_is_gone(tid: u32) -> bool {
    kernel::tgkill_none(process_id(), tid) == -(libc::ESRCH as isize)
}

/// Waits until woken, at most `milliseconds`, while `word` is `expected`.
pub fn futex_wait(word: &AtomicU32, expected: u32, milliseconds: u64) {
    let timeout = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    kernel::futex_wait(word, expected, &timeout);
}

/// Wakes everybody who waits on `word`.
pub fn futex_wake(word: &AtomicU32) {
    kernel::futex_wake(word, i32::MAX);
}

/// Wakes one of those who wait on `word`.
pub fn futex_wake_one(word: &AtomicU32) {
    kernel::futex_wake(word, 1);
}

/// Reads a symbolic link; returns the number of bytes, 0 on failure.
pub fn read_link(path: &CStr, into: &mut [u8]) -> usize {
    count(kernel::readlink(path, into))
}

/// An open file, closed with this.
#[derive(Debug)]
pub struct Descriptor(i32);

impl Descriptor {
    /// What a call that opens something returned; `None` if it failed.
    pub fn returned(result: isize) -> Option<Self> {
        i32::try_from(result).ok().filter(|it| *it >= 0).map(Self)
    }

    /// Opens a file.
    pub fn open(path: &CStr, flags: i32) -> Option<Self> {
        Self::open_at(libc::AT_FDCWD, path, flags)
    }

    /// Same as [`open`](Self::open), for a path that is relative to an open folder.
    pub fn open_at(directory: i32, path: &CStr, flags: i32) -> Option<Self> {
        Self::returned(kernel::openat(directory, path, flags | libc::O_CLOEXEC))
    }

    /// A file in memory of so many bytes, all zero, that can neither shrink nor grow. `None` also
    /// where the process may not have files of that size: the kernel would end it with `SIGXFSZ`.
    pub fn sealed_memory(name: &CStr, bytes: usize) -> Option<Self> {
        if file_size_limit() < bytes as u64 {
            return None;
        }
        const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let file = Self::returned(kernel::memfd_create(name, flags))?;
        let is_made =
            kernel::ftruncate(file.0, bytes) == 0 && kernel::add_seals(file.0, SEALS) == 0;
        is_made.then_some(file)
    }

    /// Duplicates the descriptor to the first free number from `lowest` on; `None` if there is none
    /// below the process's limit.
    pub fn duplicate(&self, lowest: i32) -> Option<Self> {
        Self::returned(kernel::duplicate(self.0, lowest))
    }

    /// The descriptor with this number, which the caller knows to be its own.
    pub fn owned(number: i32) -> Self {
        Self(number)
    }

    /// Keeps it open; returns its number.
    pub fn leak(self) -> i32 {
        ManuallyDrop::new(self).0
    }

    /// Returns the number of the descriptor.
    pub fn number(&self) -> i32 {
        self.0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        kernel::close(self.0);
    }
}

/// Reads what fits from the start of a file; returns the number of bytes.
pub fn read_file(path: &CStr, into: &mut [u8]) -> usize {
    let Some(file) = Descriptor::open(path, libc::O_RDONLY) else {
        return 0;
    };
    let mut filled = 0;
    while filled < into.len() {
        match count(kernel::read(file.0, &mut into[filled..])) {
            0 => break,
            bytes => filled += bytes,
        }
    }
    filled
}

/// Reads from an open file where it stands; returns the number of bytes.
pub fn read(file: &Descriptor, into: &mut [u8]) -> usize {
    count(kernel::read(file.0, into))
}

/// Reads from an open file at an offset; returns the number of bytes.
pub fn read_at(descriptor: i32, into: &mut [u8], offset: u64) -> usize {
    count(kernel::pread(descriptor, into, offset))
}

/// The status of an open file.
pub fn status_of(descriptor: i32) -> Option<libc::stat> {
    // SAFETY: zeroes are a valid structure of numbers.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    (kernel::fstat(descriptor, &mut status) == 0).then_some(status)
}

/// The status of the file at a path. It is the system call with which the loader looks at
/// a library.
pub fn status_at(path: &CStr) -> Option<libc::stat> {
    // SAFETY: zeroes are a valid structure of numbers.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    (kernel::stat(path, &mut status) == 0).then_some(status)
}

/// Whether an open file lies on a file system that is mounted `nosuid`.
pub fn is_nosuid(descriptor: i32) -> bool {
    const FLAGS: usize = 10;
    let mut status = [0u64; 15];
    kernel::fstatfs(descriptor, &mut status) == 0 && status[FLAGS] & libc::ST_NOSUID != 0
}

/// Reads an extended attribute of an open file; returns the number of bytes, 0 if it
/// has none or does not fit.
pub fn attribute(descriptor: i32, name: &CStr, into: &mut [u8]) -> usize {
    count(kernel::fgetxattr(descriptor, name, into))
}

/// Whether a path may be executed as far as its mode shows; for one that is relative to
/// an open folder, the exec will find out. Like every call made for a
/// program to be executed, it is one that its loader makes as well, so that a
/// sandbox which allows the one allows the other.
pub fn may_execute(directory: i32, path: &CStr) -> bool {
    directory != libc::AT_FDCWD || kernel::access(path, libc::X_OK) == 0
}

/// Whether a library cannot be read under this path.
pub fn is_missing(path: &[u8]) -> bool {
    let mut text = [0u8; 1024];
    let Some(start) = text[..1023].get_mut(..path.len()) else {
        return false;
    };
    start.copy_from_slice(path);
    let path = CStr::from_bytes_until_nul(&text);
    path.is_ok_and(|path| kernel::access(path, libc::R_OK) != 0)
}

/// The user whose rights this process has.
pub fn effective_user() -> u32 {
    kernel::geteuid() as u32
}

/// The group whose rights this process has.
pub fn effective_group() -> u32 {
    kernel::getegid() as u32
}

/// Prints a sentence on the standard error output, if that is open.
#[cold]
pub fn say(sentence: &[u8]) {
    kernel::write(libc::STDERR_FILENO, sentence);
}

/// Appends to a file, for the verifying build.
#[cfg(feature = "verify")]
pub fn append_file(path: &CStr, text: &[u8]) {
    if let Some(file) = Descriptor::open(path, libc::O_WRONLY | libc::O_APPEND) {
        kernel::write(file.0, text);
    }
}

/// The thread's alternate signal stack, if it is running on it now: address and bytes.
pub fn alternate_stack_in_use() -> Option<(usize, usize)> {
    let mut stack = libc::stack_t {
        ss_sp: ptr::null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    let is_known = kernel::get_alternate_stack(&mut stack) == 0;
    (is_known && stack.ss_flags & libc::SS_ONSTACK != 0)
        .then_some((stack.ss_sp as usize, stack.ss_size))
}

/// Blocks every signal for this thread until dropped, so that what happens in
/// between is neither interrupted nor left by a `siglongjmp`.
pub struct SignalsBlocked(u64);

impl SignalsBlocked {
    /// Blocks them.
    pub fn new() -> Self {
        let mut before = 0;
        kernel::set_signal_mask(&u64::MAX, &mut before);
        Self(before)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        kernel::set_signal_mask(&self.0, &mut 0);
    }
}

/// Ends the process.
pub fn exit(status: i32) -> ! {
    loop {
        kernel::exit_group(status);
    }
}

/// Whether system calls of this process are filtered (`seccomp(2)`): 0 if they are not. The
/// question itself is a system call that a filter may forbid.
pub fn system_call_filter() -> isize {
    kernel::get_seccomp()
}

/// First number of a descriptor that the process may not use.
pub fn descriptor_limit() -> u64 {
    soft_limit(kernel::get_descriptor_limit)
}

/// Returns the largest number of bytes of a file that the process may write.
fn file_size_limit() -> u64 {
    soft_limit(kernel::get_file_size_limit)
}

/// 0 where the kernel does not tell it.
fn soft_limit(get: impl Fn(&mut [u64; 2]) -> isize) -> u64 {
    let mut limit = [0; 2];
    match get(&mut limit) {
        0 => limit[0],
        _ => 0,
    }
}

/// Milliseconds of the monotonic clock, from the kernel: a preloaded
/// library may give the program another time.
pub fn milliseconds() -> u64 {
    let mut time = [0u64; 2];
    kernel::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
    time[0] * 1000 + time[1] / 1_000_000
}

/// Whether the process has rights that its caller does not have (`AT_SECURE`): the kernel
/// sets it for a setuid program, among others. Whoever started such a program chose its
/// environment, and must not make it do anything by that.
pub fn has_gained_rights() -> bool {
    auxiliary_value(libc::AT_SECURE) != 0
}

/// A value that the kernel left for the process (`getauxval(3)`); 0 if there is none.
pub fn auxiliary_value(kind: u64) -> u64 {
    // SAFETY: it reads what the kernel wrote before the program began, and takes no lock.
    unsafe { libc::getauxval(kind) }
}
