//! Named moments of a recording: answers the requests of `control` and writes the marks.

use std::sync::mpsc::Receiver;

use allotrope_shm::arena::tick_now;
use allotrope_trace::model::{Clock, Mark, Record};

use crate::clock;
use crate::control::{Answer, ControlServer, Received, Target};
use crate::protocol::MadeFile;
use crate::recording::{Recording, Slot};

/// What the draining thread needs for marks.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The listening thread and its queue; `None` where there are no sockets.
    control: Option<(ControlServer, Receiver<Received>)>,
    /// The trace file, if the launcher made it.
    file: Option<MadeFile>,
    /// The launcher's process.
    launcher: Option<u32>,
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

    fn next(&self) -> Option<Received> {
        self.control.as_ref()?.1.try_recv().ok()
    }

    /// The time from one tick to `now`, in nanoseconds.
    pub(crate) fn between(&self, tick: u64, now: Clock) -> u64 {
        let ticks = now.tick.saturating_sub(self.started.tick).max(1) as f64;
        let ns = now.monotonic_ns.saturating_sub(self.started.monotonic_ns) as f64;
        (now.tick.saturating_sub(tick) as f64 * ns / ticks) as u64
    }
}

impl Recording {
    /// Answers the requests that have arrived.
    pub(crate) fn answer_requests(&mut self) {
        while let Some(request) = self.marks.next() {
            let answer = match self.is_own(request.target) {
                true => self.mark(request.mark),
                false => Answer::OtherRecording,
            };
            // Fails if the server has given up on the answer.
            let _ = request.answer.send(answer);
        }
    }

    /// Whether a request means this recording.
    fn is_own(&self, target: Target) -> bool {
        match target {
            Target::Process(pid) => {
                let mut images = self.slots.iter().filter_map(Slot::image);
                images.any(|image| image.pid_if_seen() == Some(pid) && !image.gone)
                    || self.first.pid() == Some(pid) && self.first.exit.is_none()
                    || self.marks.launcher == Some(pid)
                    || std::process::id() == pid
            }
            Target::File { device, inode } => {
                let file = self.marks.file;
                file.is_some_and(|it| it.device == device && it.inode == inode)
            }
        }
    }

    /// Writes a mark of now, and before it everything that was recorded until now.
    fn mark(&mut self, name: String) -> Answer {
        let tick = tick_now();
        self.drain();
        self.write_all_events();
        let now = clock::reading();
        let trace = &mut self.context.trace;
        trace.write(&Record::Clock(now));
        trace.write(&Record::Mark(Mark { tick, name }));
        trace.flush();
        let first = self.context.first_image_tick.unwrap_or(tick);
        let since_now = self.marks.between(tick, now);
        let ns = self.marks.between(first, now).saturating_sub(since_now);
        Answer::Marked { ns }
    }
}
