//! Where a cursor is between two anchors, and at what times the events lie there.

use allotrope_trace::model::Event;

/// Longest time between two events without a mark in nanoseconds: threads mark
/// the time every microsecond or two and after every break.
const LONGEST_STEP_NS: f64 = 1000.0;
/// Shortest: less is the clock's granularity.
const SHORTEST_STEP_NS: f64 = 10.0;
/// How much slower than between the last two marks a thread is thought to be.
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

    /// Spreads the remaining events evenly, but hardly wider than those before
    /// them: a thread that waits or computes for long does so mostly in one place,
    /// and what others may be waiting for is then behind it.
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
    pub(super) fn pace(&self) -> Pace {
        Pace {
            from: self.from,
            step: self.step,
            passed: self.passed,
            upper: self.upper,
        }
    }
}

/// The time of the event that follows so many others, `step` nanoseconds each.
#[inline]
fn estimate(from: u64, passed: u32, step: f64) -> u64 {
    // By way of a signed number, which the processor converts at once.
    let offset = (f64::from(passed) * step) as i64;
    from.saturating_add(offset.cast_unsigned())
}

/// The estimated times of events that follow each other between two marks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    from: u64,
    step: f64,
    passed: u32,
    /// None of them happened later.
    pub upper: u64,
}

impl Pace {
    /// That of a single event with this estimated time.
    pub(crate) fn of_one(time: u64) -> Self {
        Self {
            from: time,
            step: 0.0,
            passed: 0,
            upper: time,
        }
    }

    /// That of the events from this place on.
    pub(crate) fn after(self, place: usize) -> Self {
        Self {
            passed: self.passed.wrapping_add(place as u32),
            ..self
        }
    }

    /// Estimated time of the event at this place.
    #[inline]
    pub(crate) fn time(&self, place: usize) -> u64 {
        estimate(self.from, self.passed.wrapping_add(place as u32), self.step).min(self.upper)
    }

    /// How many of so many events are not estimated later than `latest`.
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

/// What lies next in a stream, up to the next mark at most: all by one thread,
/// at times that follow from their places.
pub(crate) struct Stretch<'a> {
    /// The first one is counted; the last one may be a mark.
    pub events: &'a [Event],
    pub thread: u32,
    /// Whether a reallocation that is answered at once may be taken for a
    /// deallocation and an allocation.
    pub moves: bool,
    pub pace: Pace,
}

impl Stretch<'_> {
    /// Estimated time of the event at this place in it.
    #[inline]
    pub(crate) fn time(&self, place: usize) -> u64 {
        self.pace.time(place)
    }
}
