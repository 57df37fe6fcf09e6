//! Readers, one module for each format.

pub(crate) mod bpftrace;
pub(crate) mod dhat;
pub(crate) mod dtrace;
pub(crate) mod folded;
pub(crate) mod heap_profile;
pub(crate) mod heaptrack;
pub(crate) mod heaptrack_print;
pub(crate) mod json;
mod json_input;
pub(crate) mod pprof;
mod protobuf;

#[cfg(test)]
pub(crate) mod tests;
