//! The calls of `malloc`, `calloc` and `free` where allocations are sampled. An allocation
//! subtracts its size from the thread's countdown and jumps to the next function; a
//! deallocation looks into the table of bytes (`allotrope_watched::byte_table`) and does the same.
//! Only where the countdown ends, or the table has the block's byte, a hook is called.
//!
//! A subtraction that ends the countdown is undone, and the hook decides. If a signal handler
//! comes between the two and leaves by a jump, the countdown stays below 0;
//! `state::sampling` finds that at the thread's next call that comes to a hook.

use allotrope_watched::byte_table;

use crate::hooks::allocation;
use crate::hooks::deallocation;
use crate::state::watched;
use crate::sys::next::{self, Function};

const fn next_at(function: Function) -> usize {
    function as usize * size_of::<usize>()
}

stub!(
    malloc,
    // An allocation of 0 bytes counts as one of 1 byte.
    "cmp rdi, 1",
    "mov rdx, rdi",
    "adc rdx, 0",
    "mov rcx, qword ptr [rip + allotrope_countdown@GOTTPOFF]",
    "sub qword ptr fs:[rcx], rdx",
    // As large as what was left, or larger.
    "jbe 2f",
    "jmp qword ptr [rip + {next} + {malloc}]",
    "2: add qword ptr fs:[rcx], rdx",
    "mov rsi, rsp",
    "mov rdx, rbp",
    "jmp {hook}",
    ".cfi_endproc",
    next = sym next::NEXT,
    malloc = const next_at(Function::Malloc),
    hook = sym allocation::malloc,
);

stub!(
    calloc,
    // A product that is too large makes the call fail.
    "mov rdx, rdi",
    "imul rdx, rsi",
    "cmp rdx, 1",
    "adc rdx, 0",
    "mov rcx, qword ptr [rip + allotrope_countdown@GOTTPOFF]",
    "sub qword ptr fs:[rcx], rdx",
    "jbe 2f",
    "jmp qword ptr [rip + {next} + {calloc}]",
    "2: add qword ptr fs:[rcx], rdx",
    "mov rdx, rsp",
    "mov rcx, rbp",
    "jmp {hook}",
    ".cfi_endproc",
    next = sym next::NEXT,
    calloc = const next_at(Function::Calloc),
    hook = sym allocation::calloc,
);

stub!(
    free,
    "movabs rax, {multiplier}",
    "imul rax, rdi",
    "shr rax, {shift}",
    "lea rcx, [rip + {watched} + {bytes}]",
    "cmp byte ptr [rcx + rax], 0",
    "jne 2f",
    "lea rcx, [rip + {bump} + {last}]",
    "sub rcx, rdi",
    "cmp rcx, {last}",
    "jbe 2f",
    "jmp qword ptr [rip + {next} + {free}]",
    // It may have been sampled, or is a block of the recorder's own.
    "2: mov rsi, rsp",
    "mov rdx, rbp",
    "jmp {hook}",
    ".cfi_endproc",
    multiplier = const byte_table::MULTIPLIER,
    shift = const u64::BITS - byte_table::BITS,
    watched = sym watched::WATCHED,
    bytes = const watched::BYTES,
    next = sym next::NEXT,
    free = const next_at(Function::Free),
    bump = sym next::BUMP,
    last = const next::BUMP_BYTES - 1,
    hook = sym deallocation::free,
);
