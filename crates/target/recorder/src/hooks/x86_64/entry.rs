//! The exported functions. Each jumps to a Rust function, its hook, which has the same
//! arguments and one more: a `Caller`, the caller's stack pointer and rbp, in the next
//! two argument registers. With them and the return address at the stack pointer the
//! walk begins in the caller, not in the recorder.
//!
//! `malloc`, `calloc` and `free` first compare the number of the mode's stubs
//! (`state::stubs`) with 0. It is negative where calls are sampled, positive where they are
//! counted.
//!
//! # Sampling
//! An allocation subtracts its size from the thread's countdown and jumps to the next
//! function; a deallocation looks into the table of bytes (`allotrope_shm::samples::byte_table`)
//! and does the same. Only where the countdown ends, or the table has the block's byte, a
//! hook is called. This code follows the comparison immediately: a jump that is taken costs
//! 0.27 ns, which is much for it and little for a call that is recorded.
//! The functions begin with a cache line: the directive at their end aligns the sections
//! that the compiler puts each of them into.
//! (`free` does not recognise the recorder's own blocks, see `emit::mode::choose_watching`.)
//!
//! A subtraction that ends the countdown is undone, and the hook decides. If a signal
//! handler comes between the two and leaves by a jump, the countdown stays below 0;
//! `state::sampling` finds that at the thread's next call that comes to a hook.

use allotrope_shm::samples::byte_table;

use crate::capture::loader_tables;
use crate::hooks::aligned;
use crate::hooks::allocation;
use crate::hooks::deallocation;
use crate::hooks::reallocation;
use crate::hooks::reported;
use crate::hooks::x86_64::counting;
use crate::state::stubs;
use crate::state::watched;
use crate::sys::next::NEXT;

/// Exports a function that jumps to its hook. The registers are those of the hook's
/// `Caller`: behind the arguments that the function has.
macro_rules! entry {
    ($name:ident, $sp:literal, $bp:literal, $hook:path) => {
        exported!(
            $name,
            concat!("mov ", $sp, ", rsp"),
            concat!("mov ", $bp, ", rbp"),
            "jmp {}",
            ".cfi_endproc",
            sym $hook,
        );
    };
}

/// The address of the next definition of a function, in [`crate::sys::next`].
macro_rules! next_address {
    ($function:ident) => {
        crate::sys::next::Function::$function as usize * size_of::<usize>()
    };
}

// The stub uses two words of the program's stack while it calls the allocator: a handler
// may run on a stack that is just large enough for the allocator.
exported!(
    malloc,
    // Not a pointer to jump through: that would have to be relocated
    // before the first call.
    "cmp byte ptr [rip + {stubs}], 0",
    "jns 4f",
    // Sampled. An allocation of 0 bytes counts as one of 1 byte.
    "cmp rdi, 1",
    "mov rdx, rdi",
    "adc rdx, 0",
    "mov rcx, qword ptr [rip + allotrope_countdown@GOTTPOFF]",
    "sub qword ptr fs:[rcx], rdx",
    // As large as what was left, or larger.
    "jbe 5f",
    "jmp qword ptr [rip + {table} + {next}]",
    "5: add qword ptr fs:[rcx], rdx",
    "mov rsi, rsp",
    "mov rdx, rbp",
    "jmp {early}",
    "4:",
    "jne {counting}",
    "mov rax, [rip + {table} + {next}]",
    "test rax, rax",
    "jz 2f",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "call rax",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "test rax, rax",
    "jz 3f",
    "mov rdi, rax",
    "mov rdx, rsp",
    "mov rcx, rbp",
    "jmp {allocated}",
    "2:",
    "mov rsi, rsp",
    "mov rdx, rbp",
    "jmp {early}",
    "3:",
    "ret",
    ".cfi_endproc",
    ".p2align 6",
    stubs = sym stubs::STUBS,
    counting = sym counting::malloc,
    table = sym NEXT,
    next = const next_address!(Malloc),
    allocated = sym allocation::malloc_allocated,
    early = sym allocation::malloc,
);

exported!(
    calloc,
    "cmp byte ptr [rip + {stubs}], 0",
    "jns 6f",
    // Sampled. A product that is too large makes the call fail.
    "mov rdx, rdi",
    "imul rdx, rsi",
    "cmp rdx, 1",
    "adc rdx, 0",
    "mov rcx, qword ptr [rip + allotrope_countdown@GOTTPOFF]",
    "sub qword ptr fs:[rcx], rdx",
    "jbe 7f",
    "jmp qword ptr [rip + {table} + {next}]",
    "7: add qword ptr fs:[rcx], rdx",
    "mov rdx, rsp",
    "mov rcx, rbp",
    "jmp {early}",
    "6:",
    "jne {counting}",
    "mov rax, [rip + {table} + {next}]",
    "test rax, rax",
    "jz 2f",
    "mov rdx, rdi",
    // A product that is too large makes the call fail.
    "imul rdx, rsi",
    "cmp rsi, {slot}",
    "je 4f",
    "5:",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "call rax",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "test rax, rax",
    "jz 3f",
    "mov rdi, rax",
    "mov rdx, rsp",
    "mov rcx, rbp",
    "jmp {allocated}",
    "2:",
    "mov rdx, rsp",
    "mov rcx, rbp",
    "jmp {early}",
    "3:",
    "ret",
    // Perhaps a table of the loader's, with a slot for this library.
    "4:",
    "mov rcx, [rsp]",
    "sub rcx, [rip + {loader}]",
    "cmp rcx, [rip + {loader} + 8]",
    "jae 5b",
    "sub rdx, {slot}",
    "jmp 5b",
    ".cfi_endproc",
    ".p2align 6",
    slot = const loader_tables::SLOT_BYTES,
    loader = sym loader_tables::LOADER,
    stubs = sym stubs::STUBS,
    counting = sym counting::calloc,
    table = sym NEXT,
    next = const next_address!(Calloc),
    allocated = sym allocation::calloc_allocated,
    early = sym allocation::calloc,
);

exported!(
    free,
    "cmp byte ptr [rip + {stubs} + {number}], 0",
    "jns 3f",
    "movabs rax, {spread}",
    "imul rax, rdi",
    "shr rax, {shift}",
    "lea rcx, [rip + {watched} + {bytes}]",
    "cmp byte ptr [rcx + rax], 0",
    "jne 2f",
    "jmp qword ptr [rip + {table} + {next}]",
    "3:",
    "jne {counting}",
    // It may have been sampled, or may have to be recorded.
    "2:",
    "mov rsi, rsp",
    "mov rdx, rbp",
    "jmp {hook}",
    ".cfi_endproc",
    ".p2align 6",
    stubs = sym stubs::STUBS,
    number = const stubs::FREE,
    spread = const byte_table::SPREAD,
    shift = const u64::BITS - byte_table::BITS,
    watched = sym watched::SAMPLING_STATE,
    bytes = const watched::BYTES,
    table = sym NEXT,
    next = const next_address!(Free),
    counting = sym counting::free,
    hook = sym deallocation::free,
);

entry!(realloc, "rdx", "rcx", reallocation::realloc);
entry!(reallocarray, "rcx", "r8", reallocation::reallocarray);
entry!(posix_memalign, "rcx", "r8", aligned::posix_memalign);
entry!(aligned_alloc, "rdx", "rcx", aligned::aligned_alloc);
entry!(memalign, "rdx", "rcx", aligned::memalign);
entry!(valloc, "rsi", "rdx", aligned::valloc);
entry!(pvalloc, "rsi", "rdx", aligned::pvalloc);
entry!(cfree, "rsi", "rdx", deallocation::cfree);
entry!(free_sized, "rdx", "rcx", deallocation::free_sized);
entry!(
    free_aligned_sized,
    "rcx",
    "r8",
    deallocation::free_aligned_sized
);

// What a program reports itself.
entry!(
    allotrope_pool_allocation,
    "rcx",
    "r8",
    reported::pool_allocation
);
entry!(
    allotrope_pool_deallocation,
    "rsi",
    "rdx",
    reported::pool_deallocation
);
entry!(
    allotrope_pool_reallocation_start,
    "rsi",
    "rdx",
    reported::pool_reallocation_start
);
entry!(
    allotrope_pool_reallocation_end,
    "rcx",
    "r8",
    reported::pool_reallocation_end
);
entry!(
    allotrope_allocator_enter,
    "rdi",
    "rsi",
    reported::allocator_enter
);
entry!(
    allotrope_allocator_allocation,
    "r8",
    "r9",
    reported::allocator_allocation
);
entry!(
    allotrope_allocator_deallocation,
    "rsi",
    "rdx",
    reported::allocator_deallocation
);
entry!(
    allotrope_allocator_leave,
    "rsi",
    "rdx",
    reported::allocator_leave
);
entry!(
    allotrope_allocator_reallocation_start,
    "rsi",
    "rdx",
    reported::allocator_reallocation_start
);
entry!(
    allotrope_allocator_reallocation_end,
    "r8",
    "r9",
    reported::allocator_reallocation_end
);

/// The exec family: `execution::prepare` may change the arguments, and returns
/// the function to which all, those on the stack too, go on.
macro_rules! exec {
    ($name:ident, $function:ident) => {
        exported!(
            $name,
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "push r9",
            "push rax",
            ".cfi_def_cfa_offset 64",
            "mov rdi, rsp",
            "mov esi, {function}",
            "call {prepare}",
            "mov r11, rax",
            "pop rax",
            "pop r9",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            ".cfi_def_cfa_offset 8",
            "jmp r11",
            ".cfi_endproc",
            function = const crate::sys::next::Function::$function as usize,
            prepare = sym crate::exec::execution::prepare,
        );
    };
}

exec!(execve, Execve);
exec!(execv, Execv);
exec!(execvp, Execvp);
exec!(execvpe, Execvpe);
exec!(execl, Execl);
exec!(execlp, Execlp);
exec!(execle, Execle);
exec!(fexecve, Fexecve);
exec!(execveat, Execveat);

/// A function that opens a library; `$flags` is where its flags are. It is jumped to:
/// whose library calls it decides on where it looks.
macro_rules! opening {
    ($name:ident, $function:ident, $flags:literal) => {
        exported!(
            $name,
            "push rdi",
            "push rsi",
            "push rdx",
            ".cfi_def_cfa_offset 32",
            concat!("mov esi, ", $flags),
            "mov edi, {function}",
            "call {prepare}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            ".cfi_def_cfa_offset 8",
            "jmp rax",
            ".cfi_endproc",
            function = const crate::sys::next::Function::$function as usize,
            prepare = sym crate::exec::deep_binding::prepare,
        );
    };
}

opening!(dlopen, Dlopen, "esi");
opening!(dlmopen, Dlmopen, "edx");
