//! At which period a process has sampled, and since when.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::fence;

use allotrope_sampling::Period;
use allotrope_sampling::estimate::Figures;

use crate::samples::layout::{CHANGES, ChangeSlot, Memory};
use crate::samples::reader::{Found, Reader};

/// When a process has sampled, and at which periods. All times are by `CLOCK_MONOTONIC_COARSE`, in
/// nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Periods {
    /// When the memory was made.
    pub began: u64,
    /// Since when sampling has been on without a break, or was until [`Self::off_since`].
    /// `None`: it was never on.
    pub on_since: Option<u64>,
    /// Since when it has been off again; `None`: it is on, or was never on.
    pub off_since: Option<u64>,
    /// The latest changes, the oldest first. The first setting is one, too.
    pub changes: Vec<Change>,
    /// Number of earlier changes.
    pub forgotten: u64,
    /// The longest period at which a thread has sampled; `None`: sampling was never on.
    pub longest: Option<Period>,
}

/// A change of the period, as the first thread noticed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// When it was noticed.
    pub time: u64,
    /// The period from then on; `None`: sampling was off.
    pub period: Option<Period>,
}

impl Periods {
    /// Whether sampling was never off. Then every block could be sampled.
    pub fn is_complete(&self) -> bool {
        self.covers(self.began)
    }

    /// Whether sampling was never off since `time`.
    pub fn covers(&self, time: u64) -> bool {
        self.off_since.is_none() && self.on_since.is_some_and(|it| it <= time)
    }

    /// Whether earlier blocks are known worse than those that come now: they were sampled at longer
    /// periods, or could not be.
    pub fn were_worse(&self) -> bool {
        let now = self.changes.last().and_then(|it| it.period);
        !self.is_complete() || self.longest > now
    }

    /// The figures of no block, among all that were ever allocated. `None`: sampling was never on.
    pub fn none(&self) -> Option<Figures> {
        self.longest
            .map(|it| self.open(Figures::new(it), self.began))
    }

    /// The figures of no block, among those that were allocated since `time`.
    pub fn none_since(&self, time: u64) -> Option<Figures> {
        let longest = self.longest_since(time)?;
        Some(self.open(Figures::new(longest), time))
    }

    fn open(&self, mut figures: Figures, since: u64) -> Figures {
        if !self.covers(since) {
            figures.open_upwards();
        }
        figures
    }

    /// The longest period since `time`, as far as changes are known back to then.
    fn longest_since(&self, time: u64) -> Option<Period> {
        let later = self.changes.partition_point(|it| it.time <= time);
        let Some(first) = later.checked_sub(1) else {
            return self.longest;
        };
        let longest = self.changes[first..].iter().filter_map(|it| it.period);
        longest.max().or(self.longest)
    }
}

impl Reader<'_> {
    pub(super) fn periods(&mut self, memory: &Memory) -> Periods {
        let counters = &memory.counters.0;
        let time = |word: u64| (word != 0).then_some(word);
        let mut changes = Vec::new();
        for (place, slot) in counters.changes.iter().enumerate() {
            changes.extend(self.stable(|| change(place, slot)));
        }
        changes.sort_unstable_by_key(|(number, _)| *number);
        // Only the last ones without a gap: what a lost one was is not known.
        let gaps = changes.windows(2).rposition(|it| it[0].0 + 1 != it[1].0);
        changes.drain(..gaps.map_or(0, |it| it + 1));
        let forgotten = changes.first().map_or(0, |(number, _)| number - 1);
        let mut changes: Vec<Change> = changes.into_iter().map(|(_, it)| it).collect();
        changes.sort_by_key(|it| it.time);
        Periods {
            began: memory.header.0.began.load(Relaxed),
            on_since: time(counters.on_since.load(Relaxed)),
            off_since: time(counters.off_since.load(Relaxed)),
            changes,
            forgotten,
            longest: Period::new(counters.longest_period.load(Relaxed)),
        }
    }
}

/// A change and its number, from 1.
fn change(place: usize, slot: &ChangeSlot) -> Found<(u64, Change)> {
    let version = slot.version.load(Acquire);
    if version == 0 {
        return Found::Nothing;
    }
    let time = slot.time.load(Relaxed);
    let period = slot.period.load(Relaxed);
    fence(Acquire);
    if version & 1 != 0 || slot.version.load(Relaxed) != version {
        return Found::Changed;
    }
    let number = version >> 1;
    let known = Period::new(period);
    if (number - 1) as usize % CHANGES != place || period != known.map_or(0, Period::bytes) {
        return Found::Malformed;
    }
    Found::Part((
        number,
        Change {
            time,
            period: known,
        },
    ))
}
