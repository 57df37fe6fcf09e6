//! What perf prints, as it comes: lines become events, and these the blocks of [`PerfBlocks`].

use std::time::{Duration, Instant};

use allotrope_sampling::Period;

use crate::perf_events::Parser;
use crate::perf_report::{Moment, PerfBlocks};

/// After this time without a line nothing more belongs to the last event.
const IDLE: Duration = Duration::from_millis(500);

/// The blocks of a stream that may still go on.
pub struct PerfStream {
    /// The blocks.
    pub blocks: PerfBlocks,
    parser: Parser,
    is_wanted: Box<dyn Fn(&str) -> bool + Send>,
    bounds: Bounds,
    /// Bytes since the last event.
    without_event: u64,
    /// When the last line and the last event were read.
    line_read: Instant,
    event_read: Instant,
}

/// What a stream may cost.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most bytes without an event.
    pub without_event: u64,
    /// Most bytes of memory for blocks and stacks.
    pub memory: u64,
}

/// A bound that a stream exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// [`Bounds::without_event`].
    WithoutEvent,
    /// [`Bounds::memory`].
    Memory,
}

impl PerfStream {
    /// Without blocks. `is_wanted`: whether the events of a thread of this name count.
    pub fn new(
        period: Period,
        bounds: Bounds,
        is_wanted: impl Fn(&str) -> bool + Send + 'static,
    ) -> Self {
        Self {
            blocks: PerfBlocks::new(period),
            parser: Parser::default(),
            is_wanted: Box::new(is_wanted),
            bounds,
            without_event: 0,
            line_read: Instant::now(),
            event_read: Instant::now(),
        }
    }

    /// Takes a line and the bytes that it took; of one that is too long, further bytes with `None`.
    ///
    /// # Errors
    /// The bound that is exceeded.
    pub fn line(&mut self, line: Option<&str>, bytes: u64) -> Result<(), Exceeded> {
        self.line_read = Instant::now();
        self.without_event += bytes;
        if let Some(event) = line.and_then(|it| self.parser.line(it)) {
            self.without_event = 0;
            self.add(event);
        }
        if self.without_event > self.bounds.without_event {
            return Err(Exceeded::WithoutEvent);
        }
        if self.blocks.memory() > self.bounds.memory {
            self.blocks.compact();
            // If little was freed, compacting would soon be all that is done.
            if self.blocks.memory() > self.bounds.memory / 4 * 3 {
                return Err(Exceeded::Memory);
            }
        }
        Ok(())
    }

    /// Takes the last event, whose frames have come, at the end or where nothing comes any more.
    pub fn end_event(&mut self, is_end: bool) {
        if (is_end || self.line_read.elapsed() >= IDLE)
            && let Some(event) = self.parser.end_event()
        {
            self.add(event);
        }
    }

    fn add(&mut self, event: crate::perf_events::Event) {
        if (self.is_wanted)(&event.name) {
            self.event_read = self.line_read;
            self.blocks.add(event);
        }
    }

    /// This moment: since the last event, time has gone on.
    pub fn now(&self, real_time: u64) -> Moment {
        let since = u64::try_from(self.event_read.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Moment {
            time: self.blocks.last_time().saturating_add(since),
            real_time,
        }
    }

    /// The moment of the last event.
    pub fn at_last_event(&self, real_time: u64) -> Moment {
        Moment {
            time: self.blocks.last_time(),
            real_time,
        }
    }

    /// Number of lines that are no events, and of events that perf says to have lost.
    pub fn left_out(&self) -> (u64, u64) {
        (self.parser.unknown, self.parser.lost)
    }
}
