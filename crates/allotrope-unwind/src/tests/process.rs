//! What tests need of the process that they run in.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::Module;

const PAGE: usize = 4096;

/// Whether the page that begins at an address can be read: the kernel copies the new
/// signal mask before it looks at the operation, which there is not.
pub fn page_is_readable(page: u64) -> bool {
    const NO_OPERATION: c_int = -1;
    // SAFETY: the kernel reads the mask, with a copy that can not fault.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            NO_OPERATION,
            page,
            ptr::null::<c_void>(),
            8,
        )
    };
    // For a null pointer there is no mask to copy, and no error.
    result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// All modules that are loaded, with their paths.
pub fn loaded_modules() -> Vec<(String, Module)> {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _: usize,
        modules: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` hands out its own structure and our vector.
        let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Vec<(String, Module)>>()) };
        // SAFETY: the module's own headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        // SAFETY: the loader's own string.
        let name = unsafe { std::ffi::CStr::from_ptr(info.dlpi_name) };
        let mut module = Module {
            start: u64::MAX,
            end: 0,
            eh_frame_hdr: 0,
        };
        for header in headers {
            let from = info.dlpi_addr + header.p_vaddr;
            match header.p_type {
                libc::PT_LOAD => {
                    module.start = module.start.min(from & !(PAGE as u64 - 1));
                    module.end = module.end.max(from + header.p_memsz);
                }
                libc::PT_GNU_EH_FRAME => module.eh_frame_hdr = from,
                _ => {}
            }
        }
        modules.push((name.to_string_lossy().into_owned(), module));
        0
    }
    let mut modules = Vec::<(String, Module)>::new();
    // SAFETY: the callback does not outlive the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut modules).cast()) };
    modules.retain(|(_, module)| module.eh_frame_hdr != 0);
    modules
}

/// Loads a C++ library, for its call frame information; `false`: there is none here.
pub fn load_cxx_library() -> bool {
    // SAFETY: the library's initialisation is as for every C++ program.
    !unsafe { libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_NOW) }.is_null()
}

/// Memory that ends where nothing can be read, and begins behind such a place.
pub struct Fenced {
    mapping: *mut u8,
    mapped: usize,
    /// Where the bytes lie.
    pub start: u64,
    bytes: usize,
}

impl Fenced {
    /// Room for so many bytes, at the end of the memory that can be read.
    pub fn new(bytes: usize) -> Self {
        let inner = bytes.next_multiple_of(PAGE);
        let mapped = inner + 2 * PAGE;
        // SAFETY: new memory; the part within is made accessible.
        let mapping = unsafe {
            let mapping = libc::mmap(
                ptr::null_mut(),
                mapped,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(mapping, libc::MAP_FAILED);
            let within = mapping.cast::<u8>().add(PAGE);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(within.cast(), inner, access), 0);
            mapping.cast::<u8>()
        };
        Self {
            mapping,
            mapped,
            start: mapping as u64 + (PAGE + inner - bytes) as u64,
            bytes,
        }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping's own, which can be read and written.
        unsafe { std::slice::from_raw_parts_mut(self.start as *mut u8, self.bytes) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}

/// A small generator of numbers for tests that must be repeatable (xorshift64*,
/// Vigna 2016).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
