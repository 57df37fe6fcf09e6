//! The data of a thread's sampling; what works on it is in `state::sampling`.

use core::cell::Cell;

use allotrope_sampling::countdown::Sampler;

/// Sampling state of a thread, in the part of its state that a fork wipes: a child draws anew.
#[repr(C)]
pub struct Sampling {
    /// Which allocations are sampled; `None`: nothing has been drawn.
    pub sampler: Cell<Option<Sampler>>,
    /// A frame of the stack that is being captured got no id.
    pub has_lost_frame: Cell<bool>,
}

impl Sampling {
    /// Begins anew: another thread uses this state.
    pub fn reset(&self) {
        self.sampler.set(None);
    }
}
