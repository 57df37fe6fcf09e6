//! The figures of each occurrence of a window: a named span of the program
//! that it opened and closed itself.
//!
//! An allocation or deallocation belongs to a window if it happened after the
//! opening and before the closing by the program's own synchronisation, on
//! whatever thread (or on the opening one only, if so asked), and if its thread
//! had not opted out. Time does not matter, so that the figures are exact;
//! only `peak` depends on the order that was found among threads.

use allotrope_trace::model::{Descriptors, Exit, ImageId, QuietWait};

use crate::model::{Process, Totals};

/// What an occurrence of a window is known by in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WindowKey {
    /// Its image.
    pub image: ImageId,
    /// The epoch that its opening made.
    pub opened: u64,
}

/// One occurrence of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRun {
    /// What it is known by.
    pub key: WindowKey,
    /// Its name as the program gave it: any text.
    pub name: String,
    /// Its number among the occurrences of its name in the image, from 1.
    pub occurrence: u32,
    /// Iterations that the program declared; 0 if it declared none.
    pub iterations: u64,
    /// Only events of this thread (index into [`Process::threads`]) count.
    pub thread: Option<u32>,
    /// When it opened, microseconds since the start of the image.
    pub opened_us: u64,
    /// To its close, or to the end of the image.
    pub duration_us: u64,
    /// The program closed it. Otherwise the figures are those up to the end of
    /// the image, or of what is known of it.
    pub closed: bool,
    /// Otherwise its figures are 0 and mean nothing: it was one too many at its
    /// time; or, where calls are only counted, it never closed, or it was one of
    /// a thread alone and another thread closed it.
    pub measured: bool,
    /// What came of waiting for quiet before it opened, and before it closed.
    pub quiet: [QuietWait; 2],
    /// Its figures.
    pub figures: WindowFigures,
    /// The file descriptors that it left open; `None` if that was not asked
    /// for or could not be read.
    pub descriptors: Option<Descriptors>,
}

/// The figures of a window. Bytes are requested bytes. Where calls are only
/// counted ([`Profile::is_counts_only`](crate::Profile::is_counts_only)) nothing
/// is known of what is temporary, remaining or at the peak: 0 means nothing there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowFigures {
    /// Allocations made in it.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Deallocations made in it, of whatever blocks.
    pub deallocations: u64,
    /// Those of its allocations that answered a reallocation.
    pub reallocations: u64,
    /// Those of its allocations that were temporary.
    pub temporary_allocations: u64,
    /// Allocated in it and live at its close.
    pub remaining_allocations: u64,
    /// Their bytes.
    pub remaining_bytes: u64,
    /// The largest number of bytes that were live at one moment, up to its
    /// close, of the blocks allocated in it.
    pub peak_bytes: u64,
    /// How many of those blocks were live then; the latest moment on a tie.
    pub peak_allocations: u64,
}

impl WindowFigures {
    /// Allocations less deallocations made in it.
    pub fn net(&self) -> i64 {
        self.allocations.wrapping_sub(self.deallocations) as i64
    }
}

impl From<&Totals> for WindowFigures {
    /// Those of a whole image, as if it were one window.
    fn from(totals: &Totals) -> Self {
        Self {
            allocations: totals.allocations,
            allocated_bytes: totals.allocated_bytes,
            deallocations: totals.deallocations,
            reallocations: totals.reallocations,
            temporary_allocations: totals.temporary_allocations,
            remaining_allocations: totals.leaked_allocations,
            remaining_bytes: totals.leaked_bytes,
            peak_bytes: totals.peak_bytes,
            peak_allocations: totals.peak_allocations,
        }
    }
}

impl Process {
    /// The whole image as one window without a name, closed if the image ended.
    pub fn whole(&self) -> WindowRun {
        WindowRun {
            key: WindowKey {
                image: self.id,
                opened: 0,
            },
            name: String::new(),
            occurrence: 1,
            iterations: 0,
            thread: None,
            opened_us: 0,
            duration_us: self.duration_us,
            closed: self.exit != Exit::Running,
            measured: true,
            quiet: [QuietWait::NotRequested; 2],
            figures: WindowFigures::from(&self.totals),
            descriptors: None,
        }
    }
}
