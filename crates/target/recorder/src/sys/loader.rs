//! Data of the dynamic loader, as `link.h` and `dlfcn.h` describe them. The loader
//! changes them while others read: what changes is atomic here.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::iter;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

use crate::sys::system;

/// More modules than any program has, in case the list is a ring.
const MAX_MODULES: usize = 1 << 16;

/// `struct link_map`: the part that is public. A module that was loaded at the
/// program's start, and its entry, stay.
#[repr(C)]
pub struct LinkMap {
    /// Run-time address minus address in the file.
    pub bias: u64,
    /// Path of the module; empty for the program itself.
    pub name: *const c_char,
    dynamic: *const [u64; 2],
    next: AtomicPtr<Self>,
    previous: AtomicPtr<Self>,
}

impl LinkMap {
    /// Path of the module; empty for the program itself, and while it is being loaded.
    pub fn path(&self) -> &[u8] {
        self.path_as_c_string().map_or(&[], CStr::to_bytes)
    }

    /// Same as [`path`](Self::path); `None` if there is none.
    pub fn path_as_c_string(&self) -> Option<&CStr> {
        // SAFETY: null, or the loader's own string, which it frees with the entry.
        (!self.name.is_null()).then(|| unsafe { CStr::from_ptr(self.name) })
    }

    /// The entry's module and those behind it in the loader's list.
    pub fn and_following(&'static self) -> impl Iterator<Item = &'static Self> {
        // SAFETY: a member of the list leads to another or to null.
        let next = |map: &&Self| unsafe { map.next.load(Relaxed).as_ref() };
        iter::successors(Some(self), next).take(MAX_MODULES)
    }

    /// The entry behind it.
    pub fn next(&self) -> Option<&'static Self> {
        // SAFETY: as in `and_following`.
        unsafe { self.next.load(Relaxed).as_ref() }
    }

    /// Whether this is the address of its dynamic section.
    pub fn has_dynamic_section_at(&self, address: usize) -> bool {
        self.dynamic as usize == address
    }

    /// Returns the tags and values of the module's dynamic section.
    pub fn dynamic_section(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut entry = self.dynamic;
        iter::from_fn(move || {
            if entry.is_null() {
                return None;
            }
            // SAFETY: within the section, which is mapped as long as the module is: an
            // entry with the tag `DT_NULL` (0) ends it.
            let [tag, value] = unsafe { entry.read() };
            entry = entry.wrapping_add(1);
            (tag != 0).then_some((tag, value))
        })
    }
}

/// `struct r_debug`: a namespace's modules, for debuggers.
#[repr(C)]
pub struct Debug {
    version: AtomicU32,
    maps: AtomicPtr<LinkMap>,
    breakpoint: u64,
    state: AtomicU32,
    loader: u64,
}

/// `struct r_debug_extended`.
#[repr(C)]
struct DebugExtended {
    debug: Debug,
    next: AtomicPtr<Debug>,
}

impl Debug {
    /// The first module of the loader's list; `None` while a namespace is being made.
    pub fn first_module(&self) -> Option<&'static LinkMap> {
        // SAFETY: null, or the head of the list, which is the program itself or the
        // first module of a namespace.
        unsafe { self.maps.load(Relaxed).as_ref() }
    }

    /// Whether the loader is mapping or unmapping a module now.
    pub fn is_changing(&self) -> bool {
        self.state.load(Relaxed) != 0
    }

    /// The namespace that was made after this one by `dlmopen`.
    pub fn next_namespace(&self) -> Option<&'static Self> {
        /// glibc 2.35; before, the structure ends earlier.
        const WITH_NEXT: u32 = 2;
        if self.version.load(Relaxed) < WITH_NEXT {
            return None;
        }
        let extended = (&raw const *self) as usize as *const DebugExtended;
        // SAFETY: the loader's variables of this version are of the extended type, and
        // those of namespaces are never freed.
        unsafe { (*extended).next.load(Relaxed).as_ref() }
    }
}

/// `struct dl_find_object`.
#[repr(C)]
pub struct Object {
    flags: u64,
    /// Lowest address of the module.
    pub start: u64,
    /// End of the module.
    pub end: u64,
    link_map: AtomicPtr<LinkMap>,
    /// Address of `.eh_frame_hdr`; 0 if there is none.
    pub eh_frame_hdr: u64,
    reserved: [u64; 7],
}

/// Type of `_dl_find_object`. It takes no lock and may be called anywhere (glibc
/// manual, "Dynamic Linker Introspection"); the address may be any.
pub type FindObject = extern "C" fn(address: u64, into: &mut Object) -> c_int;

impl Object {
    /// What the loader knows of the module at an address.
    pub fn find(find: FindObject, address: u64) -> Option<(Self, &'static LinkMap)> {
        let mut object = Self {
            flags: 0,
            start: 0,
            end: 0,
            link_map: AtomicPtr::default(),
            eh_frame_hdr: 0,
            reserved: [0; 7],
        };
        if find(address, &mut object) != 0 {
            return None;
        }
        // SAFETY: null, or the loader's entry, which is there while the module is.
        let map = unsafe { object.link_map.load(Relaxed).as_ref() }?;
        Some((object, map))
    }
}

/// The program headers of the program itself, which stay mapped as long as it runs.
pub fn program_headers() -> &'static [libc::Elf64_Phdr] {
    let first = system::auxiliary_value(libc::AT_PHDR) as *const libc::Elf64_Phdr;
    if first.is_null() {
        return &[];
    }
    let count = system::auxiliary_value(libc::AT_PHNUM) as usize;
    // SAFETY: the kernel mapped that many at this address.
    unsafe { core::slice::from_raw_parts(first, count) }
}

/// Calls `visit` for each module, with its bias, its program headers and its name, until
/// it returns `Some` (`dl_iterate_phdr`).
pub fn find_module<T, F>(visit: F) -> Option<T>
where
    F: FnMut(u64, &[libc::Elf64_Phdr], *const c_char) -> Option<T>,
{
    struct Search<F, T> {
        visit: F,
        found: Option<T>,
    }
    unsafe extern "C" fn step<T, F>(
        information: *mut libc::dl_phdr_info,
        _: usize,
        search: *mut c_void,
    ) -> c_int
    where
        F: FnMut(u64, &[libc::Elf64_Phdr], *const c_char) -> Option<T>,
    {
        // SAFETY: `dl_iterate_phdr` passes its own structure, and the search below.
        let (module, search, headers) = unsafe {
            let module = &*information;
            let count = module.dlpi_phnum as usize;
            let headers = core::slice::from_raw_parts(module.dlpi_phdr, count);
            (module, &mut *search.cast::<Search<F, T>>(), headers)
        };
        search.found = (search.visit)(module.dlpi_addr, headers, module.dlpi_name);
        c_int::from(search.found.is_some())
    }
    let mut search = Search { visit, found: None };
    // SAFETY: the callback gets the search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(step::<T, F>), (&raw mut search).cast()) };
    search.found
}
