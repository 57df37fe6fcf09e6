//! The lowest layer: system calls, this architecture, the C library's and the loader's
//! functions and tables. It has no state of the recording and knows nothing of it.

pub mod c_strings;
pub mod clock;
pub mod definitions;
pub mod digits;
pub mod kernel;
pub mod loader;
pub mod mapped_list;
pub mod mapping;
pub mod namespaces;
pub mod next;
pub mod readable;
pub mod system;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

/// The architecture's part.
#[cfg(target_arch = "x86_64")]
pub use x86_64 as arch;
