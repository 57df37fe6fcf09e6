//! The system calls of the recorder, each declared once: the Rust types that it takes,
//! and the words that they become. As with the declarations of an `extern` block, it is
//! here that types and words must be those of the manual page; the calls are safe.
//!
//! They return what the kernel does: a negative error number where it fails.

use core::ffi::CStr;
use core::sync::atomic::AtomicU32;

use crate::sys::arch::syscall::{call, number};

/// What fits in a register of a system call.
trait Word {
    fn word(self) -> usize;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Word for $type {
            #[inline(always)]
            fn word(self) -> usize {
                // Signed numbers keep their sign, as in C.
                self as usize
            }
        }
    )*};
}
numbers!(i32 u32 u64 usize);

impl<T> Word for *const T {
    #[inline(always)]
    fn word(self) -> usize {
        self as usize
    }
}

impl<T> Word for *mut T {
    #[inline(always)]
    fn word(self) -> usize {
        self as usize
    }
}

impl<T> Word for &T {
    #[inline(always)]
    fn word(self) -> usize {
        (&raw const *self).word()
    }
}

impl<T> Word for &mut T {
    #[inline(always)]
    fn word(self) -> usize {
        (&raw mut *self).word()
    }
}

macro_rules! system_calls {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $type:ty),*) = $number:ident($($word:expr),*);
    )*) => {$(
        $(#[$attribute])*
        #[inline]
        pub fn $name($($argument: $type),*) -> isize {
            let words = [$(Word::word($word)),*];
            // SAFETY: the call reads and writes at most what the references among its
            // arguments stand for, for these are the words of its manual page; of
            // mappings it changes none that exists.
            unsafe { call(number::$number, words) }
        }
    )*};
}

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
const SHARED: i32 = libc::MAP_SHARED | libc::MAP_NORESERVE;
/// Bytes of the kernel's signal mask.
const MASK_BYTES: usize = 8;

/// What the kernel may know of memory; nothing of it changes what the memory holds in
/// this process.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub enum Advice {
    /// It is not part of a core dump.
    DontDump = libc::MADV_DONTDUMP,
    /// The memory is zero in a forked child.
    WipeOnFork = libc::MADV_WIPEONFORK,
    /// The memory becomes zero.
    Forget = libc::MADV_DONTNEED,
    /// The pages will be written: they are to be there.
    PopulateWrite = libc::MADV_POPULATE_WRITE,
}

system_calls! {
    fn read(descriptor: i32, into: &mut [u8]) = READ(descriptor, into.as_mut_ptr(), into.len());
    fn pread(descriptor: i32, into: &mut [u8], offset: u64)
        = PREAD64(descriptor, into.as_mut_ptr(), into.len(), offset);
    fn write(descriptor: i32, bytes: &[u8]) = WRITE(descriptor, bytes.as_ptr(), bytes.len());
    fn close(descriptor: i32) = CLOSE(descriptor);
    fn openat(directory: i32, path: &CStr, flags: i32) = OPENAT(directory, path.as_ptr(), flags);
    fn readlink(path: &CStr, into: &mut [u8])
        = READLINK(path.as_ptr(), into.as_mut_ptr(), into.len());
    fn access(path: &CStr, mode: i32) = ACCESS(path.as_ptr(), mode);
    fn fstat(descriptor: i32, into: &mut libc::stat)
        = NEWFSTATAT(descriptor, c"".as_ptr(), into, libc::AT_EMPTY_PATH);
    fn stat(path: &CStr, into: &mut libc::stat)
        = NEWFSTATAT(libc::AT_FDCWD, path.as_ptr(), into, 0);
    // `struct statfs` (`asm-generic/statfs.h`) where all fields have 64 bits.
    fn fstatfs(descriptor: i32, into: &mut [u64; 15]) = FSTATFS(descriptor, into);
    fn fgetxattr(descriptor: i32, name: &CStr, into: &mut [u8])
        = FGETXATTR(descriptor, name.as_ptr(), into.as_mut_ptr(), into.len());
    fn get_seals(descriptor: i32) = FCNTL(descriptor, libc::F_GET_SEALS);
    fn add_seals(descriptor: i32, seals: i32) = FCNTL(descriptor, libc::F_ADD_SEALS, seals);
    fn duplicate(descriptor: i32, lowest: i32)
        = FCNTL(descriptor, libc::F_DUPFD_CLOEXEC, lowest);
    fn memfd_create(name: &CStr, flags: u32) = MEMFD_CREATE(name.as_ptr(), flags);
    fn ftruncate(descriptor: i32, bytes: usize) = FTRUNCATE(descriptor, bytes);

    fn mmap_private(bytes: usize) = MMAP(0, bytes, READ_WRITE, PRIVATE, -1, 0);
    fn mmap_shared(bytes: usize, descriptor: i32, offset: usize)
        = MMAP(0, bytes, READ_WRITE, SHARED, descriptor, offset);
    fn mmap_file(bytes: usize, descriptor: i32)
        = MMAP(0, bytes, libc::PROT_READ, libc::MAP_PRIVATE, descriptor, 0);
    // Older kernels than 4.17 may map elsewhere, but replace nothing either.
    fn mmap_at(address: usize, bytes: usize)
        = MMAP(address, bytes, READ_WRITE, PRIVATE | libc::MAP_FIXED_NOREPLACE, -1, 0);
    // An old size of 0 leaves the old mapping, of shared memory, as it is.
    fn mremap_again(from: *const u8, bytes: usize)
        = MREMAP(from, 0, bytes, libc::MREMAP_MAYMOVE);
    fn madvise(start: *const u8, bytes: usize, advice: Advice)
        = MADVISE(start, bytes, advice as i32);

    // Reads this process's own memory, where it can be read.
    fn process_vm_readv(process: u32, into: &mut Part<'_>, from: &[Remote])
        = PROCESS_VM_READV(process, into, 1, from.as_ptr(), from.len(), 0);
    fn getdents64(folder: i32, into: &mut [u8])
        = GETDENTS64(folder, into.as_mut_ptr(), into.len());

    fn getpid() = GETPID();
    fn getppid() = GETPPID();
    fn gettid() = GETTID();
    fn geteuid() = GETEUID();
    fn getegid() = GETEGID();
    fn getresuid(real: &mut u32, effective: &mut u32, saved: &mut u32)
        = GETRESUID(real, effective, saved);
    // Signal 0: whether the thread is there.
    fn tgkill_none(process: u32, thread: u32) = TGKILL(process, thread, 0);
    fn exit_group(status: i32) = EXIT_GROUP(status);
    fn get_stack_limit(into: &mut [u64; 2]) = PRLIMIT64(0, libc::RLIMIT_STACK, 0, into);
    fn get_descriptor_limit(into: &mut [u64; 2]) = PRLIMIT64(0, libc::RLIMIT_NOFILE, 0, into);
    fn get_file_size_limit(into: &mut [u64; 2]) = PRLIMIT64(0, libc::RLIMIT_FSIZE, 0, into);
    fn set_tsc(permission: i32) = PRCTL(libc::PR_SET_TSC, permission);
    fn get_tsc(permission: &mut i32) = PRCTL(libc::PR_GET_TSC, permission);
    fn get_name(into: &mut [u8; 16]) = PRCTL(libc::PR_GET_NAME, into);
    fn get_seccomp() = PRCTL(libc::PR_GET_SECCOMP);

    fn set_signal_mask(mask: &u64, before: &mut u64)
        = RT_SIGPROCMASK(libc::SIG_SETMASK, mask, before, MASK_BYTES);
    // There is no such operation: the mask is read, with a copy that cannot fault.
    fn read_signal_mask_only(address: u64) = RT_SIGPROCMASK(-1, address, 0, MASK_BYTES);
    fn get_alternate_stack(into: &mut libc::stack_t) = SIGALTSTACK(0, into);

    fn futex_wait(word: &AtomicU32, expected: u32, timeout: &[u64; 2])
        = FUTEX(word, libc::FUTEX_WAIT, expected, timeout);
    fn futex_wake(word: &AtomicU32, waiters: i32) = FUTEX(word, libc::FUTEX_WAKE, waiters);
    fn clock_gettime(clock: i32, into: &mut [u64; 2]) = CLOCK_GETTIME(clock, into);
    fn getrandom(into: &mut [u8]) = GETRANDOM(into.as_mut_ptr(), into.len(), 0);

    fn socket(domain: i32, kind: i32) = SOCKET(domain, kind, 0);
    fn connect(socket: i32, address: &[u8]) = CONNECT(socket, address.as_ptr(), address.len());
    fn send(socket: i32, packet: &[u8], flags: i32)
        = SENDTO(socket, packet.as_ptr(), packet.len(), flags, 0, 0);
    fn set_timeout(socket: i32, option: i32, time: &[u64; 2])
        = SETSOCKOPT(socket, libc::SOL_SOCKET, option, time, size_of_val(time));
    fn get_peer(socket: i32, into: &mut libc::ucred, bytes: &mut u32)
        = GETSOCKOPT(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, into, bytes);
    fn receive(socket: i32, message: &mut Message<'_>, flags: i32)
        = RECVMSG(socket, message, flags);
}

/// `struct msghdr` (on 64-bit Linux): where [`receive`] puts a packet and what comes
/// with it.
#[repr(C)]
pub struct Message<'m> {
    name: [usize; 2],
    parts: &'m mut Part<'m>,
    part_count: usize,
    control: &'m mut [u64; 3],
    control_bytes: usize,
    flags: usize,
}

/// `struct iovec`.
#[repr(C)]
pub struct Part<'m>(*mut u8, usize, core::marker::PhantomData<&'m mut [u8]>);

/// `struct iovec` of memory that may be another's, or not be there.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Remote {
    /// Its lowest address.
    pub start: u64,
    /// Number of bytes.
    pub bytes: u64,
}

const _: () = assert!(size_of::<libc::msghdr>() == size_of::<Message<'_>>());

impl<'m> Part<'m> {
    /// The packet's bytes go there.
    pub fn new(bytes: &'m mut [u8]) -> Self {
        let count = bytes.len();
        Self(bytes.as_mut_ptr(), count, core::marker::PhantomData)
    }
}

impl<'m> Message<'m> {
    /// A message of one part, and of what fits in `control`.
    pub fn new(part: &'m mut Part<'m>, control: &'m mut [u64; 3]) -> Self {
        Self {
            name: [0; 2],
            parts: part,
            part_count: 1,
            control_bytes: size_of_val(control),
            control,
            flags: 0,
        }
    }
}
