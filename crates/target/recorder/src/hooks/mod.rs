//! What happens in the place of `malloc` and its relatives, one file for each family.
//!
//! A deallocation is recorded before the real call and an allocation after it, so that
//! no address is recorded as allocated again before its deallocation is. A call that
//! fails changed nothing and is not recorded.
//!
//! The functions that the program calls are the stubs in `x86_64`. They pass the
//! program's arguments on, and a [`Caller`]: where the stack of the call begins. A hook
//! that hands a block of the program's to the next allocator is `unsafe`: that the block
//! is one of the allocator's is the program's promise, as it is without the recorder.
//!
//! [`Caller`]: allotrope_shm::hook_api::Caller

pub mod aligned;
pub mod allocation;
pub mod deallocation;
pub mod detour_call;
pub mod detoured;
pub mod exit;
pub mod hook_api;
pub mod inner;
pub mod named;
pub mod probes;
pub mod reallocation;
pub mod record;
pub mod reported;
pub mod sampled;
pub mod system;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;
