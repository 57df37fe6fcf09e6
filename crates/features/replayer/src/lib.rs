//! The layout of the files between `replay` of `allotrope-allocators` and the replayer, the program of this
//! package: the *operations file*, which says what to call, and the *results file*, which
//! says how to call it and takes what was measured. Neither file is kept.
//!
//! # The operations file
//!
//! ```text
//! header   128 bytes    operations::Header
//! records  16 bytes each, one an operation: operation number i is at 128 + 16 i
//! exits    16 bytes each, ascending: thread (u64), operation before which it ends (u64)
//! ```
//!
//! All numbers are little-endian. A *slot* is a cell of the replayer's table of blocks: an
//! allocation puts the address that it got into the slot, `free` takes it out, and a
//! reallocation takes it out and puts the new one into the same slot. So the slot that goes
//! in is the one that comes out. (`realloc(NULL, n)` finds an empty slot.) The header has
//! the CRC-32 of the records and exits, and of itself.
//!
//! # The replayer
//!
//! `allotrope-replayer OPERATIONS RESULTS [SAMPLES]`: paths of files, usually
//! `/proc/PID/fd/N` of files without a name that the caller has open. It
//!
//! 1. switches the randomisation of addresses off (personality(2)) and executes itself again
//!    if it was on, so a tracer sees one more `exec`;
//! 2. maps the results file, reads what is wanted from it, and prepares its own memory (table
//!    of slots, buffers, threads), so that this does not grow any more;
//! 3. runs the loop over all operations with functions that do nothing (the *null loop*);
//! 4. runs it with the allocator's functions, which the dynamic linker bound: `LD_PRELOAD`
//!    decides which allocator that is;
//! 5. writes what it measured, and ends by `_exit(0)`.
//!
//! From step 3 on, nothing but the replayed calls calls the allocator, except when a thread
//! ends: then the C library frees the thread's own memory. (With more than
//! [`THREADS_AT_START`] threads, those beyond are created when they are first needed, and
//! the C library allocates for them.) `results::STATE` says how far it got and
//! `results::CURRENT` which operation it is in, so that a crash can be reported with the
//! operation's number.
//!
//! # The environment
//!
//! `allotrope-replayer --environment FILE …`: the file has the entries of an environment, each
//! followed by a zero byte. The program executes itself with exactly these, in this order, and
//! with the arguments after the file. The allocator (`LD_PRELOAD`) is among the entries, so that
//! it is not loaded before.
//!
//! # Stepping
//!
//! In mode [`results::MODE_STEPPED`] the replayer reads a third file: the numbers of sampled
//! operations, ascending, 8 bytes each. It calls the allocator for each of them through the
//! exported function `allotrope_stepped_call`, and for all others at full speed:
//!
//! ```text
//! allotrope_stepped_call:          rdi: function, rsi, rdx, rcx: its arguments,
//!     push rbx                     r8: number of the operation
//!     mov  rbx, r8
//!     mov  rax, rdi
//!     mov  rdi, rsi
//!     mov  rsi, rdx
//!     mov  rdx, rcx
//!     int3                     ──▶ SIGTRAP; rip is allotrope_stepped_begin, rbx the number,
//! allotrope_stepped_begin:         rax the function, rdi, rsi, rdx its arguments
//!     call rax                     a tracer steps from here …
//! allotrope_stepped_end:       ──▶ … until rip is here: all but the `call` is the allocator
//!     int3                         SIGTRAP; rip is allotrope_stepped_end + 1
//!     pop  rbx
//!     ret
//! ```
//!
//! A tracer (ptrace(2)) gets SIGTRAP at each `int3` and suppresses it. At the first it
//! single-steps until `rip` is `allotrope_stepped_end`, then continues; at the second it
//! continues. Without a tracer the mode ends with SIGTRAP. The function is the exported one
//! of the allocator; it is looked up by the linker before the replay, so no step is the
//! linker's. In this mode there is no null loop and nothing is timed.
//!
//! # Patterns
//!
//! In mode [`results::MODE_BENCH`] there is no operations file (its path is not used): each
//! thread makes the calls of a pattern, all threads at the same time.
#![forbid(unsafe_code)]

/// The option with which the program executes itself with another environment; see
/// [The environment](self#the-environment).
pub const ENVIRONMENT_OPTION: &str = "--environment";

pub mod operations;
pub mod results;

/// Number of threads that are created before the replay. Further ones are created when they are
/// needed.
pub const THREADS_AT_START: u32 = 512;
