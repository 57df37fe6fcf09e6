//! Static probes (USDT): places in the code that `perf`, `bpftrace` and others find by a note in the
//! library's file, and patch while they look. The form of the note is that of SystemTap's
//! `sys/sdt.h`, version 3.
//!
//! Each probe has a *semaphore*, a counter that those who look increment, so that nothing has to be
//! computed for a probe at which nobody looks.
//!
//! Each place is a nop of five bytes. The kernel replaces such a nop by a call (Linux 6.18), where it
//! would have to trap at a shorter one: a hit costs 484 ns in place of 626.

/// A probe of our provider, with words as its arguments, which are computed only if somebody
/// looks.
macro_rules! probe {
    (
        $semaphore:ident, $name:literal,
        $first:tt = $value:expr $(, $register:tt = $argument:expr)*
    ) => {
        if $semaphore.load(core::sync::atomic::Ordering::Relaxed) != 0 {
            // SAFETY: a nop; what is put into the sections is no code.
            unsafe {
                core::arch::asm!(
                    "990: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
                    ".pushsection .note.stapsdt, \"\", \"note\"",
                    ".balign 4",
                    ".4byte 992f - 991f, 994f - 993f, 3",
                    "991: .asciz \"stapsdt\"",
                    "992: .balign 4",
                    "993: .8byte 990b",
                    ".8byte _.stapsdt.base",
                    ".8byte {}",
                    ".asciz \"allotrope\"",
                    concat!(".asciz \"", $name, "\""),
                    concat!(".asciz \"8@%", $first $(, " 8@%", $register)*, "\""),
                    "994: .balign 4",
                    ".popsection",
                    // By its address a reader knows how the library was moved (prelink).
                    ".ifndef _.stapsdt.base",
                    ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat",
                    ".weak _.stapsdt.base",
                    ".hidden _.stapsdt.base",
                    "_.stapsdt.base: .space 1",
                    ".size _.stapsdt.base, 1",
                    ".popsection",
                    ".endif",
                    sym $semaphore,
                    in($first) $value,
                    $(in($register) $argument,)*
                    options(nostack, preserves_flags, readonly),
                );
            }
        }
    };
}

pub(crate) use probe;
