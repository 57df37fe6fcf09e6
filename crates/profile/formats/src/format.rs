//! The formats of other tools that are read.

use std::fmt;

/// The formats that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// dtrace's aggregated stacks, `agg[ustack()] = count()`.
    Dtrace,
    /// bpftrace's maps with a stack as key.
    Bpftrace,
    /// The text that `heaptrack_print` writes.
    HeaptrackPrint,
    /// heaptrack's data file, decompressed.
    Heaptrack,
    /// The text heap profiles of gperftools, tcmalloc, jemalloc and Go.
    HeapProfile,
    /// DHAT's JSON, from valgrind or another writer.
    Dhat,
    /// massif's output file.
    Massif,
    /// Folded ("collapsed") stacks.
    Folded,
    /// pprof's protobuf, decompressed.
    Pprof,
    /// `allotrope-stacks/1`.
    Json,
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Dtrace => "dtrace's aggregated stacks",
            Self::Bpftrace => "bpftrace output",
            Self::HeaptrackPrint => "heaptrack_print output",
            Self::Heaptrack => "heaptrack data",
            Self::HeapProfile => "a text heap profile",
            Self::Dhat => "DHAT JSON",
            Self::Massif => "massif output",
            Self::Folded => "folded stacks",
            Self::Pprof => "a pprof profile",
            Self::Json => "allotrope-stacks JSON",
        })
    }
}
