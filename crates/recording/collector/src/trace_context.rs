//! State that is shared by all images and streams of a recording: the trace file, the
//! next ids, the budgets. `drain` passes it to `stream`.

use allotrope_trace::model::{ImageId, StreamId, ThreadId};

use crate::clock::CoarseClock;
use crate::figures::Figures;
use crate::jit_symbols::JitSymbolizer;
use crate::modules::Modules;
use crate::stacks::StackBudget;
use crate::trace_file::TraceFile;

/// The shared state; part of [`crate::recording::Recording`].
pub(crate) struct TraceContext {
    pub(crate) trace: TraceFile,
    pub(crate) modules: Modules,
    pub(crate) jit_symbols: JitSymbolizer,
    pub(crate) budget: StackBudget,
    pub(crate) coarse_clock: CoarseClock,
    /// Live figures, if the launcher wants them.
    pub(crate) figures: Option<Figures>,
    pub(crate) next_image: ImageId,
    /// When the first image began.
    pub(crate) first_image_tick: Option<u64>,
    pub(crate) next_stream: StreamId,
    pub(crate) next_thread: ThreadId,
    /// Pending events of all streams together.
    pub(crate) pending_events: usize,
    /// Number of stack ids that were not defined because the budget was used up.
    pub(crate) stacks_refused: u64,
}

impl TraceContext {
    pub(crate) fn new(trace: TraceFile) -> Self {
        Self {
            trace,
            modules: Modules::default(),
            jit_symbols: JitSymbolizer::default(),
            budget: StackBudget::default(),
            coarse_clock: CoarseClock::default(),
            figures: None,
            next_image: 0,
            first_image_tick: None,
            next_stream: 0,
            next_thread: 0,
            pending_events: 0,
            stacks_refused: 0,
        }
    }
}
