//! The figures of each occurrence of a window: a named span of the program's run that the
//! program itself opened and closed.
//!
//! An allocation or deallocation belongs to a window if the program's own synchronisation
//! orders it after the opening and before the closing, and if its thread had not opted
//! out. It may be on any thread, or only on the opening one if the program chose that.
//! Times play no part, so the figures are exact; only the peak depends on the order that
//! the aggregation found among threads.

use allotrope_trace::model::{Descriptors, ImageId, QuietWait};

/// Identifies an occurrence of a window in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WindowKey {
    /// Image of the window.
    pub image: ImageId,
    /// The epoch that its opening began.
    pub opened: u64,
}

/// One occurrence of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRun {
    /// Identifies it in the trace.
    pub key: WindowKey,
    /// Name of the window as the program gave it: any text.
    pub name: String,
    /// Number of this run among the occurrences of the name in the image, from 1.
    pub occurrence: u32,
    /// Iterations that the program declared; 0 if it declared none.
    pub iterations: u64,
    /// Thread (index into [`Process::threads`](crate::Process::threads)) whose events alone count.
    pub thread: Option<u32>,
    /// When it opened, microseconds since the start of the image.
    pub opened_us: u64,
    /// Microseconds from its opening to its close, or to the end of the image.
    pub duration_us: u64,
    /// The program closed it. Otherwise the figures are those up to the end of the image,
    /// or of the part of it that the trace has.
    pub closed: bool,
    /// The figures of the window are known. Otherwise they are 0 and mean nothing: too many windows
    /// were open at the same time; or, where calls are only counted, it never closed, or it was
    /// limited to one thread and another thread closed it.
    pub measured: bool,
    /// Results of waiting for the other threads, before it opened and before it closed.
    pub quiet: [QuietWait; 2],
    /// Figures of the window.
    pub figures: WindowFigures,
    /// The file descriptors that it left open; `None` if the program did not ask for them
    /// or they could not be read.
    pub descriptors: Option<Descriptors>,
}

/// The figures of a window. Bytes are requested bytes. Where calls are only counted
/// ([`Profile::is_counts_only`](crate::Profile::is_counts_only)) the temporary, remaining
/// and peak figures are unknown and 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowFigures {
    /// Allocations made in it.
    pub allocations: u64,
    /// Bytes of the allocations.
    pub allocated_bytes: u64,
    /// Deallocations made in it, of any blocks.
    pub deallocations: u64,
    /// Allocations of the window that were made by a reallocation.
    pub reallocations: u64,
    /// Allocations of the window that were temporary.
    pub temporary_allocations: u64,
    /// Allocations made in it whose blocks were live at its close.
    pub remaining_allocations: u64,
    /// Bytes of the allocations whose blocks were live at the close.
    pub remaining_bytes: u64,
    /// Largest number of live bytes up to its close, counting only blocks allocated in
    /// it.
    pub peak_bytes: u64,
    /// Number of those blocks that were live then; the latest moment on a tie.
    pub peak_allocations: u64,
}

impl WindowFigures {
    /// Allocations less deallocations made in it.
    pub fn net(&self) -> i64 {
        self.allocations.wrapping_sub(self.deallocations) as i64
    }
}
