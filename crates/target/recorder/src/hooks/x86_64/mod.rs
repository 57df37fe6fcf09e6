//! The functions that the program calls, in x86-64 assembly.

/// A function in assembly. It has the signature of the function that it replaces.
macro_rules! stub {
    ($(#[$attribute:meta])* $name:ident, $($assembly:tt)*) => {
        /// See the function of this name in the C library's manual, or in `allotrope.h`.
        ///
        /// # Safety
        /// As the original.
        $(#[$attribute])*
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(".cfi_startproc", $($assembly)*)
        }
    };
}

/// A function in assembly that the program finds under this name.
macro_rules! exported {
    ($name:ident, $($assembly:tt)*) => {
        stub!(#[unsafe(no_mangle)] $name, $($assembly)*);
    };
}

pub mod counting;
pub mod detoured;
pub mod entry;
pub mod system;
pub mod unresolved;
