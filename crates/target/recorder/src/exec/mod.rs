//! Programs that this one executes, and libraries that it opens so that they would not
//! find the recorder.

pub mod deep_binding;
pub mod execution;
pub mod program;
