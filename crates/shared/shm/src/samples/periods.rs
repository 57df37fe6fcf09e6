//! At which period the process has sampled, and since when: what the watcher has set, as the
//! threads have noticed it.
//!
//! A thread looks at the setting at the end of each countdown. The first one that finds another
//! period than the last look writes down that it has changed, with the time, into a ring of the
//! latest changes. Other threads follow within the 64 KiB of their own countdowns.

use core::sync::atomic::Ordering::Relaxed;

use allotrope_sampling::Period;

use crate::samples::layout::CHANGES;
use crate::samples::seqlock;
use crate::samples::writer::{Host, Writer};

impl<H: Host> Writer<'_, H> {
    /// The period at which to sample from now on; `None`: sampling is off.
    pub fn setting(&self) -> Option<Period> {
        let period = Period::new(self.memory.control.0.period.load(Relaxed));
        let bytes = period.map_or(0, Period::bytes);
        if self.memory.counters.0.current_period.load(Relaxed) != bytes {
            self.change(bytes);
        }
        period
    }

    #[cold]
    fn change(&self, period: u64) {
        let counters = &self.memory.counters.0;
        let before = counters.current_period.swap(period, Relaxed);
        if before == period {
            return;
        }
        // The start of the process means that it was sampled from the start.
        let began = self.memory.header.0.began.load(Relaxed);
        let now = self.host.now().max(began.saturating_add(1));
        match (before, period) {
            (_, 0) => counters.off_since.store(now, Relaxed),
            (0, _) => {
                counters.on_since.store(now, Relaxed);
                counters.off_since.store(0, Relaxed);
            }
            _ => {}
        }
        self.note_period(now, period);
    }

    /// The process begins with this period, in bytes; 0: off.
    pub(crate) fn begin_period(&self, now: u64, period: u64) {
        let counters = &self.memory.counters.0;
        counters.current_period.store(period, Relaxed);
        if period != 0 {
            counters.on_since.store(now, Relaxed);
        }
        self.note_period(now, period);
    }

    fn note_period(&self, now: u64, period: u64) {
        let counters = &self.memory.counters.0;
        counters.longest_period.fetch_max(period, Relaxed);
        let number = counters.changed.fetch_add(1, Relaxed);
        let slot = &counters.changes[number as usize % CHANGES];
        // One that meets another writer here is lost: there are 64 later ones already.
        seqlock::write(&slot.version, number, || {
            slot.time.store(now, Relaxed);
            slot.period.store(period, Relaxed);
        });
    }
}
