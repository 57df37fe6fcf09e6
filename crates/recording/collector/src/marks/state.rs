//! What the draining thread needs for named moments.

use std::sync::mpsc::Receiver;

use allotrope_trace::model::Clock;

use crate::clock;
use crate::control::{ControlServer, Received};
use crate::protocol::MadeFile;

/// What the draining thread needs for marks.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The listening thread and its queue; `None` where there are no sockets.
    control: Option<(ControlServer, Receiver<Received>)>,
    /// The trace file, if the launcher made it.
    pub(super) file: Option<MadeFile>,
    /// The launcher's process.
    pub(super) launcher: Option<u32>,
    /// The first reading of the clocks.
    started: Clock,
}

impl Marks {
    pub(crate) fn new(file: Option<MadeFile>) -> Self {
        let launcher = rustix::process::getppid();
        Self {
            control: ControlServer::start().ok(),
            file,
            launcher: launcher.and_then(|pid| pid.as_raw_nonzero().get().try_into().ok()),
            started: clock::reading(),
        }
    }

    pub(super) fn next(&self) -> Option<Received> {
        self.control.as_ref()?.1.try_recv().ok()
    }

    /// The time from one tick to `now`, in nanoseconds.
    pub(crate) fn between(&self, tick: u64, now: Clock) -> u64 {
        let ticks = now.tick.saturating_sub(self.started.tick).max(1) as f64;
        let ns = now.monotonic_ns.saturating_sub(self.started.monotonic_ns) as f64;
        (now.tick.saturating_sub(tick) as f64 * ns / ticks) as u64
    }
}
