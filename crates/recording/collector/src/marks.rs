//! Named moments of a recording: answers the requests of `control` and writes the marks.

pub(crate) mod state;

use allotrope_shm::arena::tick_now;
use allotrope_trace::model::{Mark, Record};

use crate::clock;
use crate::control::{Answer, Target};
use crate::image::Slot;
use crate::recording::Recording;

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
