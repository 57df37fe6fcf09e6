//! Where a cursor is between two anchors, and at what times the events lie there.

use allotrope_trace::model::Event;

use crate::subject::Subject;

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

/// Of how many events [times](Pace::estimate_all) are estimated together.
pub(crate) const TOGETHER: usize = 32;
/// Of how many at once.
const SIDE_BY_SIDE: usize = 4;
/// Numbers from here to its double have no bits behind the point.
const WHOLE: f64 = (1_u64 << 52) as f64;
/// No event is estimated so much later than the first between two marks, for fewer
/// than 2^32 lie there, each at most [`LONGEST_STEP_NS`] behind the one before it.
const MOST_NS: u64 = 1 << 51;

/// The whole part of a number from 0 to [`MOST_NS`].
#[inline(always)]
fn whole(number: f64) -> u64 {
    let nearest = number + WHOLE;
    let above = nearest - WHOLE > number;
    (nearest.to_bits() - WHOLE.to_bits()).wrapping_sub(u64::from(above))
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

    /// Estimated times of the events from this place on, of so many at least as far
    /// as there is room for them.
    // What `estimate` does, for several at once: without a conversion, for which a
    // processor has no instruction that does so. Not inlined, for it needs all registers.
    #[inline(never)]
    pub(crate) fn estimate_all(&self, place: usize, events: usize, into: &mut [u64; TOGETHER]) {
        let first = f64::from(self.passed) + place as f64;
        let room = self.upper.saturating_sub(self.from).min(MOST_NS) as f64;
        let from = self.from.min(self.upper);
        let groups = into.as_chunks_mut::<SIDE_BY_SIDE>().0.iter_mut();
        for (group, at) in groups.zip((0..events).step_by(SIDE_BY_SIDE)) {
            for (time, at) in group.iter_mut().zip(at as u32..) {
                let offset = (first + f64::from(at)) * self.step;
                let offset = if offset < room { offset } else { room };
                *time = from + whole(offset);
            }
        }
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
    /// The block of which each speaks, and each of those that come behind them; empty
    /// if that was not found out before.
    pub subjects: &'a [Subject],
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_of_several_events_are_those_of_each(
            from in 0..1_u64 << 60, room in prop_oneof![0..10_000_u64, 0..u64::MAX >> 4],
            remaining in 1..2_000_u64, even in 0..10_000_u64, passed in 0..5_000_u32,
            place in 0..100_usize, events in 0..=TOGETHER,
        ) {
            let step = (even as f64 / remaining as f64).min(LONGEST_STEP_NS);
            let pace = Pace { from, step, passed, upper: from + room };
            let mut times = [0; TOGETHER];
            pace.estimate_all(place, events, &mut times);
            for (at, &time) in times.iter().enumerate().take(events) {
                prop_assert_eq!(time, pace.time(place + at));
            }
        }
    }

    #[test]
    fn whole_numbers_are_rounded_down() {
        for number in [0, 1, 2, 3, 1 << 40, MOST_NS - 1] {
            for behind_the_point in [0.0, 0.25, 0.5, 0.75] {
                assert_eq!(whole(number as f64 + behind_the_point), number);
            }
        }
        assert_eq!(whole(MOST_NS as f64), MOST_NS);
    }
}
