//! What programs call on purpose: windows, and waiting until other threads are quiet.

pub mod abi;
pub mod quiet;
pub mod windows;
