//! Begins and ends: the recording, an image, a forked child, a thread, a hook. What is
//! above asks here for a thread's state that is ready for an event.

pub mod constructor;
pub mod detours;
pub mod early;
pub mod enter;
pub mod exit;
pub mod fork;
pub mod named_detours;
pub mod naming;
pub mod new_image;
pub mod patches;
pub mod reachability;
pub mod ready;
pub mod rings;
pub mod start;
pub mod threads;
pub mod watch;
