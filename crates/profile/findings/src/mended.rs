//! What a process would have been if a finding's mistake were mended: the run with the same events, but
//! some blocks freed earlier, never more of them than a limit, or not allocated at all.
//!
//! It is computed from the time table, which has when the blocks of each site were allocated and
//! freed. Its buckets are 1/256 of the run, so what is live within a bucket is known at its
//! ends only: the error of the peak is what the mended blocks change within one bucket.

use allotrope_profile::{LIVE_AT_END, TimeCell};

use crate::context::Context;
use crate::finding::Mended;
use crate::numbers::{percent, ratio};

/// One in so many of what a queue or a cache held at most is what it holds with a limit. Which limit is
/// right, nobody but its author knows; it is small beside what has no limit.
const LIMITED: u64 = 32;
/// Least change that is worth a word.
const MIN_CHANGE: f64 = 0.01;

/// ` Mended: peak −44 %, allocations −31 %.` with `Mended` to begin with; empty if nothing
/// changes by a hundredth.
pub(crate) fn text(mended: &Mended, begin: &str) -> String {
    let names = ["peak", "allocations", "bytes × time"];
    let changes = names.iter().zip(mended.less);
    let changes = changes.filter(|(_, less)| *less >= MIN_CHANGE);
    let changes: Vec<String> = changes
        .map(|(name, less)| format!("{name} −{}", percent(less)))
        .collect();
    match changes.is_empty() {
        true => String::new(),
        false => format!(" {begin}: {}.", changes.join(", ")),
    }
}

impl Context<'_> {
    /// The figures without so many allocations.
    pub(crate) fn with_fewer_allocations(&self, fewer: u64) -> Mended {
        self.mended(&[], 0, fewer)
    }

    /// The figures if the blocks of these cells were freed so long after their allocation.
    pub(crate) fn freed_after<'c>(
        &self,
        cells: impl Iterator<Item = &'c TimeCell>,
        life_ns: u64,
    ) -> Mended {
        let buckets = self.table.starts_ns.len();
        // What is live no more from each bucket on, and what would have been freed there anyway.
        let mut changes = vec![0_i64; buckets + 1];
        for cell in cells {
            let start = self.table.starts_ns[usize::from(cell.allocated)];
            let ends = self.table.bucket_at(start.saturating_add(life_ns));
            let ends = ends.max(usize::from(cell.allocated));
            let freed = match cell.freed {
                LIVE_AT_END => buckets,
                freed => usize::from(freed),
            };
            if ends < freed {
                changes[ends] = changes[ends].wrapping_add(cell.bytes as i64);
                changes[freed] = changes[freed].wrapping_sub(cell.bytes as i64);
            }
        }
        let gone = changes[..buckets].iter().scan(0_i64, |sum, change| {
            *sum = sum.wrapping_add(*change);
            Some((*sum).max(0) as u64)
        });
        self.mended(&gone.collect::<Vec<u64>>(), 0, 0)
    }

    /// The figures if these sites never held more than a small part of what they held at most.
    pub(crate) fn limited(&self, sites: &[u32]) -> Mended {
        let curve = self.curve(sites);
        let most = curve
            .live()
            .iter()
            .map(|live| live.bytes)
            .max()
            .unwrap_or(0);
        let above = curve.live().iter();
        let above = above.map(|live| live.bytes.saturating_sub(most / LIMITED));
        let at_peak = self.group(sites.iter().copied()).peak_bytes;
        let at_peak = at_peak.saturating_sub(most / LIMITED);
        self.mended(&above.collect::<Vec<u64>>(), at_peak, 0)
    }

    /// The figures if these sites held no more than what is usual; `rest` is the most that is live
    /// when they do not hold more.
    pub(crate) fn without_rise(&self, sites: &[u32], usual: u64, rest: u64) -> Mended {
        let curve = self.curve(sites);
        let held = curve.live().iter();
        let gone = held.map(|live| live.bytes.saturating_sub(usual));
        let at_peak = self.group(sites.iter().copied()).peak_bytes;
        let less = at_peak.saturating_sub(usual);
        let mut mended = self.mended(&gone.collect::<Vec<u64>>(), less, 0);
        self.set_peak(
            &mut mended,
            rest.max(self.peak_bytes().saturating_sub(less)),
        );
        mended
    }

    fn set_peak(&self, mended: &mut Mended, peak: u64) {
        mended.peak_bytes = peak.min(self.peak_bytes());
        mended.less[0] = 1.0 - ratio(mended.peak_bytes, self.peak_bytes().max(1));
    }

    /// The live bytes at the end of each bucket, and the largest number of them within it.
    fn live_and_peaks(&self) -> &[(u64, u64)] {
        self.cached.live.get_or_init(|| {
            let live = self.table.live_at_ends(&self.table.cells).into_iter();
            live.map(|live| live.bytes).zip(self.peaks()).collect()
        })
    }

    /// The largest number of live bytes in each bucket.
    fn peaks(&self) -> Vec<u64> {
        let series = &self.process.live;
        let sample_at = |ns: u64| {
            let sample = ns.saturating_sub(series.from_ns) / series.width_ns.max(1);
            usize::try_from(sample).unwrap_or(usize::MAX)
        };
        let last = series.samples.last().map_or(0, |sample| sample.bytes);
        let peaks = (0..self.table.starts_ns.len()).map(|bucket| {
            let from = sample_at(self.table.starts_ns[bucket]);
            let to = sample_at(self.bucket_end_ns(bucket as u16).saturating_sub(1));
            let samples = series.samples.get(from..=to.max(from));
            let samples = samples.or_else(|| series.samples.get(from..));
            let most = samples.and_then(|it| it.iter().map(|sample| sample.max_bytes).max());
            most.unwrap_or(last)
        });
        peaks.collect()
    }

    /// The figures without these bytes at the end of each bucket, and at the peak, and without so
    /// many allocations.
    fn mended(&self, gone: &[u64], at_peak: u64, fewer: u64) -> Mended {
        let at = self.table.bucket_at(self.peak_ns());
        let (mut held, mut rest) = (0.0, 0.0);
        let mut peak = 0;
        for (bucket, &(bytes, most)) in self.live_and_peaks().iter().enumerate() {
            // Samples and buckets begin at different times, so the most may be that of a neighbour; it is
            // live where most of what is gone is, too, if that is what rises.
            let near = match at_peak {
                0 => bucket.saturating_sub(1)..=bucket,
                _ => bucket.saturating_sub(2)..=bucket + 1,
            };
            let near = near.filter_map(|bucket| gone.get(bucket).copied());
            let mut within = near.max().unwrap_or(0);
            if bucket.abs_diff(at) <= 1 {
                within = within.max(at_peak);
            }
            peak = peak.max(most.saturating_sub(within));
            let start = self.table.starts_ns[bucket];
            let seconds = (self.bucket_end_ns(bucket as u16).saturating_sub(start)) as f64 / 1e9;
            held += bytes as f64 * seconds;
            let gone = gone.get(bucket).copied().unwrap_or(0);
            rest += bytes.saturating_sub(gone) as f64 * seconds;
        }
        let allocations = self.allocations().saturating_sub(fewer);
        let mut mended = Mended {
            allocations,
            byte_seconds: rest,
            less: [
                0.0,
                1.0 - ratio(allocations, self.allocations().max(1)),
                if held > 0.0 { 1.0 - rest / held } else { 0.0 },
            ],
            ..Mended::default()
        };
        self.set_peak(&mut mended, peak);
        mended
    }
}
