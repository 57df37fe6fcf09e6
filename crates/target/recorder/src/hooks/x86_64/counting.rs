//! Counting a call of `malloc`, `calloc` or `free` in as few instructions as it takes:
//! the call of the next function, the thread's counters, an addition in memory
//! for each. One instruction adds, so that a signal handler that counts too
//! comes before it or after it.

use core::mem::offset_of;

use allotrope_shm::layout::EntryCounters;
use allotrope_shm::numbers::EntryPoint;

use crate::capture::loader_tables;
use crate::hooks::deallocation;
use crate::hooks::record;
use crate::sys::next::{self, Function};

const fn next_at(function: Function) -> usize {
    function as usize * size_of::<usize>()
}

const fn counter_at(entry: EntryPoint, offset: usize) -> usize {
    entry as usize * size_of::<EntryCounters>() + offset
}

stub!(
    malloc,
    "push rdi",
    ".cfi_def_cfa_offset 16",
    "call qword ptr [rip + {next} + {malloc}]",
    "pop rdx",
    ".cfi_def_cfa_offset 8",
    "test rax, rax",
    "jz 2f",
    "mov rcx, qword ptr [rip + allotrope_counters@GOTTPOFF]",
    "mov rcx, qword ptr fs:[rcx]",
    "test rcx, rcx",
    "jz 3f",
    "add qword ptr [rcx + {bytes}], rdx",
    "inc qword ptr [rcx + {allocations}]",
    "2: ret",
    "3: mov edi, {entry}",
    "mov rsi, rax",
    "mov rcx, rsp",
    "mov r8, rbp",
    "push rax",
    ".cfi_def_cfa_offset 16",
    "call {rare}",
    "pop rax",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    next = sym next::NEXT,
    malloc = const next_at(Function::Malloc),
    entry = const EntryPoint::Malloc as u8,
    allocations = const counter_at(EntryPoint::Malloc, offset_of!(EntryCounters, allocations)),
    bytes = const counter_at(EntryPoint::Malloc, offset_of!(EntryCounters, allocated_bytes)),
    rare = sym record::count_allocation,
);

stub!(
    calloc,
    "mov rdx, rdi",
    // A product that is too large makes the call fail.
    "imul rdx, rsi",
    "cmp rsi, {slot}",
    "je 4f",
    "5:",
    "push rdx",
    ".cfi_def_cfa_offset 16",
    "call qword ptr [rip + {next} + {calloc}]",
    "pop rdx",
    ".cfi_def_cfa_offset 8",
    "test rax, rax",
    "jz 2f",
    "mov rcx, qword ptr [rip + allotrope_counters@GOTTPOFF]",
    "mov rcx, qword ptr fs:[rcx]",
    "test rcx, rcx",
    "jz 3f",
    "add qword ptr [rcx + {bytes}], rdx",
    "inc qword ptr [rcx + {allocations}]",
    "2: ret",
    "3: mov edi, {entry}",
    "mov rsi, rax",
    "mov rcx, rsp",
    "mov r8, rbp",
    "push rax",
    ".cfi_def_cfa_offset 16",
    "call {rare}",
    "pop rax",
    ".cfi_def_cfa_offset 8",
    "ret",
    // See `entry::calloc`.
    "4:",
    "mov rcx, [rsp]",
    "sub rcx, [rip + {loader}]",
    "cmp rcx, [rip + {loader} + 8]",
    "jae 5b",
    "sub rdx, {slot}",
    "jmp 5b",
    ".cfi_endproc",
    slot = const loader_tables::SLOT_BYTES,
    loader = sym loader_tables::LOADER,
    next = sym next::NEXT,
    calloc = const next_at(Function::Calloc),
    entry = const EntryPoint::Calloc as u8,
    allocations = const counter_at(EntryPoint::Calloc, offset_of!(EntryCounters, allocations)),
    bytes = const counter_at(EntryPoint::Calloc, offset_of!(EntryCounters, allocated_bytes)),
    rare = sym record::count_allocation,
);

// Also the stub where the stacks of deallocations are recorded: then no thread has
// counters, and every call is a rare one.
stub!(
    free,
    "test rdi, rdi",
    "jz 2f",
    "lea rcx, [rip + {bump} + {last}]",
    "sub rcx, rdi",
    "cmp rcx, {last}",
    "jbe 4f",
    "mov rcx, qword ptr [rip + allotrope_counters@GOTTPOFF]",
    "mov rcx, qword ptr fs:[rcx]",
    "test rcx, rcx",
    "jz 3f",
    "inc qword ptr [rcx + {deallocations}]",
    "2: jmp qword ptr [rip + {next} + {free}]",
    // A block of the recorder's own.
    "4: mov rsi, rsp",
    "mov rdx, rbp",
    "jmp {early}",
    "3: mov rdx, rsp",
    "mov rcx, rbp",
    "mov rsi, rdi",
    "push rdi",
    ".cfi_def_cfa_offset 16",
    "mov edi, {entry}",
    "call {rare}",
    "pop rdi",
    ".cfi_def_cfa_offset 8",
    "jmp 2b",
    ".cfi_endproc",
    next = sym next::NEXT,
    free = const next_at(Function::Free),
    bump = sym next::BUMP,
    last = const next::BUMP_BYTES - 1,
    entry = const EntryPoint::Free as u8,
    deallocations = const counter_at(EntryPoint::Free, offset_of!(EntryCounters, deallocations)),
    early = sym deallocation::free,
    rare = sym record::free_without_counters,
);
