//! System calls and the C library, in the form that the replayer needs. Nothing here
//! allocates from the heap.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use allotrope_replayer::results;

/// The words of the results file. Also written by the parent, which may read at any time.
#[derive(Clone, Copy)]
pub struct Words(*mut u64);

impl Words {
    /// The word at this index of the layout.
    #[inline]
    pub fn get(self, index: usize) -> u64 {
        debug_assert!(index < results::WORDS);
        // SAFETY: the mapping has `results::WORDS` words and is never unmapped.
        unsafe { self.0.add(index).read_volatile() }
    }

    /// Sets the word at this index of the layout.
    #[inline]
    pub fn set(self, index: usize, value: u64) {
        debug_assert!(index < results::WORDS);
        // SAFETY: as in `get`; only the thread whose turn it is writes.
        unsafe { self.0.add(index).write_volatile(value) }
    }

    /// Adds to the word at this index of the layout.
    #[inline]
    pub fn add(self, index: usize, more: u64) {
        self.set(index, self.get(index).wrapping_add(more));
    }
}

/// Maps the results file; `None` if that fails or it is none.
pub fn open_results(path: &CStr) -> Option<Words> {
    // SAFETY: a string that ends with 0, and constants.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if file < 0 || file_bytes(file)? < results::BYTES as i64 {
        return None;
    }
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    let words = Words(map(results::BYTES, flags, file)?.cast());
    (words.get(results::MAGIC_WORD) == results::MAGIC).then_some(words)
}

/// Length of a file.
pub fn file_bytes(file: c_int) -> Option<i64> {
    // SAFETY: all zero is a valid `stat`, which fstat(2) fills in.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is a place for the result.
    (unsafe { libc::fstat(file, &raw mut stat) } == 0).then_some(stat.st_size)
}

/// Memory of this process that is never freed, all of it resident.
pub fn own_memory(bytes: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    map(bytes.max(1), flags, -1)
}

fn map(bytes: usize, flags: c_int, file: c_int) -> Option<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, file, 0) };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

/// Opens a file for reading.
pub fn open(path: &CStr) -> Option<c_int> {
    // SAFETY: a string that ends with 0, and constants.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    (file >= 0).then_some(file)
}

/// Fills the buffer from a position of a file; `None` if the file is shorter.
pub fn read_at(file: c_int, buffer: &mut [u8], at: u64) -> Option<()> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut buffer[done..];
        let position = i64::try_from(at + done as u64).ok()?;
        // SAFETY: the buffer has so many bytes.
        let read = unsafe { libc::pread(file, rest.as_mut_ptr().cast(), rest.len(), position) };
        done += usize::try_from(read).ok().filter(|&read| read > 0)?;
    }
    Some(())
}

/// Reads a file from its beginning; returns the number of bytes read.
pub fn read_whole<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = open(path)?;
    // SAFETY: the buffer has so many bytes, and the descriptor is this function's own.
    let read = unsafe {
        let read = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(file);
        read
    };
    buffer.get(..usize::try_from(read).ok()?)
}

/// Writes a few bytes to a file that exists; errors are ignored.
pub fn write_to(path: &CStr, bytes: &[u8]) {
    // SAFETY: a string that ends with 0, a buffer with so many bytes, and a descriptor of this
    // function's own.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file >= 0 {
            libc::write(file, bytes.as_ptr().cast(), bytes.len());
            libc::close(file);
        }
    }
}

/// Prints a message to standard error.
pub fn print(message: &CStr) {
    // SAFETY: the message has so many bytes.
    unsafe { libc::write(2, message.as_ptr().cast(), message.count_bytes()) };
}

/// Ends the process at once.
pub fn exit_now(status: c_int) -> ! {
    // SAFETY: has no requirements.
    unsafe { libc::_exit(status) }
}

/// Ends the process with a state that says why.
#[cold]
pub fn give_up(results: Words, state: u64) -> ! {
    results.set(results::STATE, state);
    exit_now(0)
}

/// Executes this program again without randomised addresses, if they are randomised and this
/// can be changed: what an allocator does may depend on its addresses.
///
/// # Safety
///
/// There must be no other thread, and the arguments must be those of `main`.
pub unsafe fn disable_address_randomisation(arguments: *const *const c_char) {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    if fix_next_addresses() {
        // SAFETY: the strings are those of the process.
        unsafe { execute_again(arguments, environ) };
    }
}

/// Lets the addresses of the next program that this process executes not be randomised. Returns
/// whether that is a change: where it is forbidden it is none, and executing again for it would
/// not end.
pub fn fix_next_addresses() -> bool {
    const QUERY: libc::c_ulong = 0xffff_ffff;
    // SAFETY: personality(2) has no requirements.
    unsafe {
        let now = libc::personality(QUERY);
        if now < 0 || now & libc::ADDR_NO_RANDOMIZE != 0 {
            return false;
        }
        libc::personality((now | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
        libc::personality(QUERY) & libc::ADDR_NO_RANDOMIZE != 0
    }
}

/// Executes this program again. Returns the error number if that fails.
///
/// # Safety
///
/// There must be no other thread. Both arrays must end with a null pointer and consist of strings.
pub unsafe fn execute_again(
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: passed on; the error number is this thread's.
    unsafe {
        libc::execve(c"/proc/self/exe".as_ptr(), arguments, environment);
        *libc::__errno_location()
    }
}

/// Lets the kernel kill this process when the thread that started it ends.
pub fn end_with_parent() {
    // SAFETY: only numbers are passed.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Lets the calling thread run on one processor only; errors are ignored.
pub fn run_on(processor: u64) {
    let Ok(processor) = usize::try_from(processor) else {
        return;
    };
    if processor >= libc::CPU_SETSIZE as usize {
        return;
    }
    // SAFETY: all zero is an empty set, and the number is within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// The path of the library that a function is in.
pub fn library_of(function: *const c_void) -> Option<&'static CStr> {
    // SAFETY: all zero is a valid `Dl_info`, which dladdr(3) fills in; the path is the
    // loader's and stays.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(function, &raw mut info) != 0 && !info.dli_fname.is_null();
        found.then(|| CStr::from_ptr(info.dli_fname))
    }
}

/// The time stamp counter, read after all earlier instructions and before all later ones.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: instructions of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        let ticks = std::arch::x86_64::_rdtsc();
        std::arch::x86_64::_mm_lfence();
        ticks
    }
}

/// The smallest difference of two readings of [`ticks`], one directly after the other, that
/// is not 0. A virtual machine may advance the counter by several ticks at a time.
pub fn tick_step() -> u64 {
    const READINGS: u32 = 10_000;
    let differences = (0..READINGS).map(|_| {
        let before = ticks();
        ticks().saturating_sub(before)
    });
    differences.filter(|&it| it > 0).min().unwrap_or(1)
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
pub fn now_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Processor time of the calling thread, in nanoseconds.
pub fn processor_ns() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a place for the result.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Page faults without a file, and forced context switches, of the process so far.
pub fn usage() -> (u64, u64) {
    // SAFETY: all zero is a valid `rusage`, which getrusage(2) fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    (
        usage.ru_minflt.cast_unsigned(),
        usage.ru_nivcsw.cast_unsigned(),
    )
}

/// How often a waiting thread looks before it sleeps.
const SPINS: u32 = 2_000;

/// Waits until the word is not 0, and returns it.
pub fn wait(word: &AtomicU32) -> u32 {
    wait_while(word, 0)
}

/// Waits until the word is not this value, and returns it.
pub fn wait_while(word: &AtomicU32, value: u32) -> u32 {
    for _ in 0..SPINS {
        let now = word.load(Ordering::Acquire);
        if now != value {
            return now;
        }
        std::hint::spin_loop();
    }
    loop {
        let now = word.load(Ordering::Acquire);
        if now != value {
            return now;
        }
        // SAFETY: the word is valid for as long as a thread waits.
        unsafe {
            let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            let no_limit = ptr::null::<libc::timespec>();
            libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, no_limit);
        }
    }
}

/// Sets the word and wakes the thread that waits for it.
pub fn wake(word: &AtomicU32, value: u32) {
    wake_some(word, value, 1);
}

/// Sets the word and wakes all threads that wait for it.
pub fn wake_all(word: &AtomicU32, value: u32) {
    wake_some(word, value, i32::MAX);
}

fn wake_some(word: &AtomicU32, value: u32, most: c_int) {
    word.store(value, Ordering::Release);
    // SAFETY: the word is valid for as long as a thread waits.
    unsafe {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most);
    }
}
