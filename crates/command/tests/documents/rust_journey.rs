//! "A memory profiling journey": a Rust library that uses too much memory, found by stats_alloc and
//! dhat-rs.
