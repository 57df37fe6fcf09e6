//! Access to the process in which the tests run: its modules, its readable pages.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::Module;

const PAGE: usize = 4096;

/// Whether the page that begins at an address can be read. The kernel copies the new
/// signal mask from there before it checks the operation, which is invalid.
pub fn page_is_readable(page: u64) -> bool {
    const NO_OPERATION: c_int = -1;
    // SAFETY: the kernel reads the mask, with a copy that returns an error on a fault.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            NO_OPERATION,
            page,
            ptr::null::<c_void>(),
            8,
        )
    };
    // With a null pointer no mask is copied, and there is no error.
    result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// All modules that are loaded, with their paths.
pub fn loaded_modules() -> Vec<(String, Module)> {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _: usize,
        modules: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` passes its own structure and our vector.
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

/// Loads a C++ library, for its call frame information; `false` if there is none.
pub fn load_cxx_library() -> bool {
    // SAFETY: the library's initialisation is as for every C++ program.
    !unsafe { libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_NOW) }.is_null()
}

/// Memory between two inaccessible pages.
pub struct Fenced {
    mapping: *mut u8,
    mapped: usize,
    /// Address of the bytes.
    pub start: u64,
    bytes: usize,
}

impl Fenced {
    /// `bytes` bytes at the end of the readable memory, before the inaccessible page.
    pub fn new(bytes: usize) -> Self {
        let inner = bytes.next_multiple_of(PAGE);
        let mapped = inner + 2 * PAGE;
        // SAFETY: the memory is new; only its inner part is made accessible.
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
        // SAFETY: the bytes are in the accessible part of the mapping.
        unsafe { std::slice::from_raw_parts_mut(self.start as *mut u8, self.bytes) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}

/// A small pseudo-random generator for repeatable tests (xorshift64*, Vigna 2016).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
