//! The part of a stream between two timestamps, and the interpolated times of the
//! events in it.

use allotrope_trace::model::Event;

use super::Step;

/// Largest estimate in nanoseconds of the time between two events without a timestamp
/// between them: threads record one every microsecond or two, and after interruptions.
const MAX_STEP_NS: f64 = 1000.0;
/// The step of the last segment counts as at least this many nanoseconds: smaller
/// differences are below the clock's granularity.
const MIN_STEP_NS: f64 = 10.0;
/// The step may grow at most by this factor from one segment to the next.
const SLOWER: f64 = 2.0;

/// The segment in which the cursor is: the events between two timestamps. The estimated
/// time of an event is `from` + `passed` × `step`.
#[derive(Default)]
pub(super) struct Segment {
    /// The segment's events happened between `lower` and `upper` (nanoseconds).
    pub lower: u64,
    pub upper: u64,
    /// Nanoseconds.
    pub from: u64,
    /// Nanoseconds an event.
    pub step: f64,
    /// Events since `from`.
    pub passed: u32,
    /// Counted events until the end of the segment.
    pub remaining: u64,
    /// Position in the buffer after the timestamp that ends it, or of the buffer's end.
    pub end: usize,
}

impl Segment {
    /// Continues the estimates from the present one, but from no earlier than `lower`.
    pub(super) fn start_from(&mut self, lower: u64) {
        self.from = self.next_estimate().clamp(lower, self.upper);
        self.passed = 0;
    }

    /// Spreads the remaining events evenly, but with steps at most [`SLOWER`] times those
    /// of the last segment: a thread that waits or computes for long does so mostly
    /// between two of its events, and the events that other threads depend on are the
    /// earlier ones.
    pub(super) fn set_step(&mut self) {
        let left = self.upper.saturating_sub(self.from) as f64;
        let even = left / self.remaining.max(1) as f64;
        let widest = if self.step > 0.0 {
            (self.step.max(MIN_STEP_NS) * SLOWER).min(MAX_STEP_NS)
        } else {
            MAX_STEP_NS
        };
        self.step = even.min(widest);
    }

    /// Estimated time of the next event.
    #[inline]
    pub(super) fn next_estimate(&self) -> u64 {
        estimate(self.from, self.passed, self.step)
    }

    /// The times of the events that come next.
    #[inline]
    pub(super) fn times(&self) -> TimeInterpolation {
        TimeInterpolation {
            from: self.from,
            step: self.step,
            passed: self.passed,
            upper: self.upper,
        }
    }
}

/// The time of the event after `passed` others of `step` nanoseconds each.
#[inline]
fn estimate(from: u64, passed: u32, step: f64) -> u64 {
    // x86-64 has a conversion instruction for signed numbers only.
    let offset = (f64::from(passed) * step) as i64;
    from.saturating_add(offset.cast_unsigned())
}

/// Interpolated times of the next events of a segment, by index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeInterpolation {
    from: u64,
    step: f64,
    passed: u32,
    /// No event of the segment happened later.
    pub upper: u64,
}

impl TimeInterpolation {
    /// Returns the interpolation for a single event with this estimated time.
    pub(crate) fn of_one(time: u64) -> Self {
        Self {
            from: time,
            step: 0.0,
            passed: 0,
            upper: time,
        }
    }

    /// Returns the interpolation for the events from this index on.
    pub(crate) fn after(self, index: usize) -> Self {
        Self {
            passed: self.passed.wrapping_add(index as u32),
            ..self
        }
    }

    /// Interpolated time of the event at this index.
    #[inline]
    pub(crate) fn time(&self, index: usize) -> u64 {
        estimate(self.from, self.passed.wrapping_add(index as u32), self.step).min(self.upper)
    }

    /// How many of the first `events` events are not later than `latest`.
    #[inline]
    pub(crate) fn count_until(&self, latest: u64, events: usize) -> usize {
        if latest >= self.upper {
            return events;
        }
        // Events before the next whole nanosecond are rounded down to `latest`.
        let end = latest.saturating_sub(self.from).saturating_add(1) as f64;
        let guess = (end / self.step) as usize;
        let mut count = guess.saturating_sub(self.passed as usize).min(events);
        while count < events && self.time(count) <= latest {
            count += 1;
        }
        while count > 0 && self.time(count - 1) > latest {
            count -= 1;
        }
        count
    }
}

/// The next events of a stream, up to the next timestamp at most: all by one thread, at
/// times that follow from their index.
pub(crate) struct EventBatch<'a> {
    /// The first one is counted. Whoever takes them must stop at a control event.
    pub events: &'a [Event],
    pub thread: u32,
    /// Whether a reallocation whose result is the next event may be taken as a
    /// deallocation and an allocation.
    pub moves: bool,
    pub times: TimeInterpolation,
    /// The step of the first event, without the fields that the event itself holds. The
    /// following steps differ from it by ordinal and time.
    pub first: Step,
}

impl EventBatch<'_> {
    /// Interpolated time of the event at this index.
    #[inline]
    pub(crate) fn time(&self, index: usize) -> u64 {
        self.times.time(index)
    }
}
