//! The part of a stream between two timestamps, and the interpolated times of the
//! events in it.

use allotrope_trace::model::Event;

use super::Step;

/// Longest time in nanoseconds between two events without a timestamp: threads record
/// one every microsecond or two and after every break.
const LONGEST_STEP_NS: f64 = 1000.0;
/// Shortest: less is the clock's granularity.
const SHORTEST_STEP_NS: f64 = 10.0;
/// How much slower a thread may become than between the last two timestamps.
const SLOWER: f64 = 2.0;

/// Where the cursor is between two anchors.
#[derive(Default)]
pub(super) struct Segment {
    pub lower: u64,
    pub upper: u64,
    /// Estimates run from here, `step` nanoseconds an event.
    pub from: u64,
    pub step: f64,
    pub passed: u32,
    /// Counted events until the end of the segment.
    pub remaining: u64,
    /// Position of the anchor that ends it, or of the end of the buffer.
    pub end: usize,
}

impl Segment {
    /// Estimates run on from where they are, but not from before this time.
    pub(super) fn start_from(&mut self, lower: u64) {
        self.from = self.reached().clamp(lower, self.upper);
        self.passed = 0;
    }

    /// Spreads the remaining events evenly, but hardly wider than those before them: a
    /// thread that waits or computes for long does so mostly between two of its events,
    /// and the events that other threads depend on are the earlier ones.
    pub(super) fn set_step(&mut self) {
        let room = self.upper.saturating_sub(self.from) as f64;
        let even = room / self.remaining.max(1) as f64;
        let widest = if self.step > 0.0 {
            (self.step.max(SHORTEST_STEP_NS) * SLOWER).min(LONGEST_STEP_NS)
        } else {
            LONGEST_STEP_NS
        };
        self.step = even.min(widest);
    }

    /// Estimated time of the last event that was passed.
    #[inline]
    pub(super) fn reached(&self) -> u64 {
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
    // x86-64 has an instruction for signed numbers only.
    let offset = (f64::from(passed) * step) as i64;
    from.saturating_add(offset.cast_unsigned())
}

/// Interpolated times of the events between two timestamps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeInterpolation {
    from: u64,
    step: f64,
    passed: u32,
    /// None of them happened later.
    pub upper: u64,
}

impl TimeInterpolation {
    /// That of a single event with this estimated time.
    pub(crate) fn of_one(time: u64) -> Self {
        Self {
            from: time,
            step: 0.0,
            passed: 0,
            upper: time,
        }
    }

    /// That of the events from this index on.
    pub(crate) fn after(self, place: usize) -> Self {
        Self {
            passed: self.passed.wrapping_add(place as u32),
            ..self
        }
    }

    /// Interpolated time of the event at this index.
    #[inline]
    pub(crate) fn time(&self, place: usize) -> u64 {
        estimate(self.from, self.passed.wrapping_add(place as u32), self.step).min(self.upper)
    }

    /// How many of the first `events` events are not later than `latest`.
    #[inline]
    pub(crate) fn count_until(&self, latest: u64, events: usize) -> usize {
        if latest >= self.upper {
            return events;
        }
        // The next whole nanosecond is too late.
        let room = latest.saturating_sub(self.from).saturating_add(1) as f64;
        let guess = (room / self.step) as usize;
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
    /// The first one is an allocation or deallocation; the last one may be a mark.
    pub events: &'a [Event],
    pub thread: u32,
    /// Whether a reallocation that is answered at once may be taken for a
    /// deallocation and an allocation.
    pub moves: bool,
    pub times: TimeInterpolation,
    /// The step that the first event is, without what the event itself holds; the
    /// following ones differ from it by ordinal and time.
    pub first: Step,
}

impl EventBatch<'_> {
    /// Interpolated time of the event at this index.
    #[inline]
    pub(crate) fn time(&self, place: usize) -> u64 {
        self.times.time(place)
    }
}
