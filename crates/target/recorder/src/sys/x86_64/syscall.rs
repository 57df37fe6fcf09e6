//! System calls without libc: they do not change `errno`, and no library can interpose
//! them. They return what the kernel does, negative error numbers included.

use core::arch::asm;

/// Numbers of the system calls used (`asm/unistd_64.h`).
pub mod number {
    #![allow(missing_docs)]
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const PREAD64: usize = 17;
    pub const ACCESS: usize = 21;
    pub const MREMAP: usize = 25;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const SENDTO: usize = 44;
    pub const RECVMSG: usize = 47;
    pub const SETSOCKOPT: usize = 54;
    pub const GETSOCKOPT: usize = 55;
    pub const FCNTL: usize = 72;
    pub const FTRUNCATE: usize = 77;
    pub const READLINK: usize = 89;
    pub const GETEUID: usize = 107;
    pub const GETEGID: usize = 108;
    pub const GETPPID: usize = 110;
    pub const GETRESUID: usize = 118;
    pub const SIGALTSTACK: usize = 131;
    pub const FSTATFS: usize = 138;
    pub const PRCTL: usize = 157;
    pub const GETTID: usize = 186;
    pub const FGETXATTR: usize = 193;
    pub const FUTEX: usize = 202;
    pub const GETDENTS64: usize = 217;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const TGKILL: usize = 234;
    pub const OPENAT: usize = 257;
    pub const NEWFSTATAT: usize = 262;
    pub const PRLIMIT64: usize = 302;
    pub const PROCESS_VM_READV: usize = 310;
    pub const GETRANDOM: usize = 318;
    pub const MEMFD_CREATE: usize = 319;
}

/// A system call with up to six arguments.
///
/// # Safety
/// As the call's manual page says; memory it is given must be valid for it.
#[inline(always)]
pub unsafe fn call<const N: usize>(number: usize, arguments: [usize; N]) -> isize {
    const { assert!(N <= 6) };
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    let result: isize;
    // SAFETY: the kernel changes rax, rcx and r11 only, and the memory that the
    // arguments stand for, for which the caller vouches.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") argument(0),
            in("rsi") argument(1),
            in("rdx") argument(2),
            in("r10") argument(3),
            in("r8") argument(4),
            in("r9") argument(5),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}
