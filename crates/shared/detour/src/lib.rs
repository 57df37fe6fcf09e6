//! Finds the entry points of an allocator that is linked into a program, and plans
//! *detours*: patches with which their calls reach a hook first.
//!
//! A program's calls of such an allocator do not pass through the loader, so that no
//! preloaded library receives them. But the symbol table of the program's file has the
//! addresses of its functions. At each of them a detour puts a jump to a hook, and moves
//! the instructions that the jump replaces into a *trampoline*, by which the hook calls
//! the function:
//!
//! ```text
//! before                     after
//!
//! mi_malloc:                 mi_malloc:
//!   push rbx                   jmp thunk ───────▶ thunk: number of the function,
//!   mov  rbx, [rip + x]        (rest of it)               jump to the hook
//!   test rbx, rbx              test rbx, rbx ◀─┐
//!                                              │  trampoline: push rbx
//!                                              │              mov  rbx, [rip + x']
//!                                              └───────────── jmp  back
//! ```
//!
//! | module | responsible for |
//! | --- | --- |
//! | [`allocators`] | the names of all allocators that are known, for every part of Allotrope |
//! | [`elf`] | the symbols and the code of an ELF file |
//! | [`functions`] | which functions are entry points, and what their arguments mean |
//! | [`named`] | the functions of a program's own allocators, as a user names them |
//! | [`survey`] | the entry points of one program, and which allocators they belong to |
//! | [`instruction`] | one x86-64 instruction: what a move to another address changes |
//! | [`plan`] | whether the beginning of a function can be moved, and the bytes of it there |
//!
//! This crate only reads bytes and writes bytes: the recorder maps pages and patches. It
//! runs in other programs' processes on files that may be hostile, so it does not
//! allocate and does not panic. What it cannot prove to be safe it refuses, with a
//! [`Refusal`](plan::Refusal).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod allocators;
pub mod elf;
pub mod functions;
pub mod instruction;
pub mod named;
pub mod plan;
pub mod survey;
