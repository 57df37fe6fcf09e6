//! The rise of a process's live bytes to their peak, above what is usually live.

use rustc_hash::FxHashSet;

use crate::context::{Context, Group};
use crate::curve::{Hump, median};
use crate::numbers::ratio;

/// Largest part of its time in which a process that waits for its work allocates anything.
pub(crate) const WAITING: f64 = 0.5;
/// Part of the time in which a program does something else, and by how much less it does that
/// during a step of its own that takes long.
const OTHERS: f64 = 0.1;
const FEWER: f64 = 3.0;
/// A kind of blocks is a rise only if it has this part of the peak.
const MIN_OF_PEAK: f64 = 0.1;

impl Context<'_> {
    /// The rise to the peak; `None` if it is not above the median.
    pub(crate) fn hump(&self) -> Option<&Hump> {
        self.cached.hump.get_or_init(|| self.find_hump()).as_ref()
    }

    fn find_hump(&self) -> Option<Hump> {
        let series = &self.process.live;
        let [begin, end] = self.active_ns;
        let at = |sample: usize| series.from_ns + sample as u64 * series.width_ns;
        let during =
            (0..series.samples.len()).filter(|&sample| at(sample) + series.width_ns > begin);
        let bytes = during.clone().map(|sample| series.samples[sample].bytes);
        let usual = median(bytes.collect());
        let rise = self
            .peak_bytes()
            .checked_sub(usual)
            .filter(|&rise| rise > 0)?;
        let level = usual + rise / 4;
        let is_above = |sample: usize| series.samples[sample].max_bytes > level;
        let above: Vec<usize> = during.clone().filter(|&sample| is_above(sample)).collect();
        let (&first, &last) = (above.first()?, above.last()?);
        // The flanks are a part of the rise, too.
        let flank = 1 + above.len() / 3;
        let is_apart = |sample: &usize| {
            let next = above.partition_point(|above| above < sample);
            let near = |at: Option<&usize>| at.is_some_and(|at| at.abs_diff(*sample) <= flank);
            !near(above.get(next)) && !near(next.checked_sub(1).and_then(|at| above.get(at)))
        };
        let rest = during.filter(is_apart);
        let rest = rest.map(|sample| series.samples[sample].max_bytes).max();
        let starts_ns = &self.table.starts_ns;
        let span = self.table.buckets_in([at(first), at(last + 1)]);
        let [inside, outside] = self.others_in(span, at(first));
        let in_one_step = outside >= OTHERS && inside <= outside / FEWER;
        let below = (0..starts_ns.len()).filter(|&bucket| {
            let end = self.bucket_end_ns(bucket as u16);
            let sample = end.saturating_sub(series.from_ns) / series.width_ns.max(1);
            let sample = usize::try_from(sample).unwrap_or(usize::MAX);
            starts_ns[bucket] >= begin && sample < series.samples.len() && !is_above(sample)
        });
        Some(Hump {
            usual,
            from_ns: at(first),
            above_ns: above.len() as u64 * series.width_ns,
            in_one_step,
            falls: at(last + 1) < end,
            rest: rest.unwrap_or(0),
            below: below.collect(),
        })
    }

    /// The part of these buckets of time, and of as many before and after them, in which blocks of other
    /// kinds are allocated than the one of which most is live at the peak and was not at `from_ns`.
    fn others_in(&self, [from, to]: [usize; 2], from_ns: u64) -> [f64; 2] {
        let rise = |family: &Group| {
            let before = self.curve(&family.sites).at(from_ns).bytes;
            family.peak_bytes.saturating_sub(before)
        };
        let large = |family: &&Group| ratio(family.peak_bytes, self.peak_bytes()) >= MIN_OF_PEAK;
        let families = self.families.iter().filter(large);
        let Some(risen) = families.max_by_key(|family| rise(family)) else {
            return [0.0; 2];
        };
        let mut others = vec![false; self.table.starts_ns.len()];
        let of_it: FxHashSet<u32> = risen.sites.iter().copied().collect();
        for cell in &self.table.cells {
            others[usize::from(cell.allocated)] |= !of_it.contains(&cell.site);
        }
        let part = |buckets: std::ops::Range<usize>| {
            let buckets = others.get(buckets).unwrap_or_default();
            let some = buckets.iter().filter(|&&other| other).count();
            ratio(some as u64, buckets.len() as u64)
        };
        // Its first and last bucket have a part of the steps before and after it.
        let inside = part(from + 1..to.saturating_sub(1).max(from + 1));
        let wide = to.saturating_sub(from);
        let before = part(from.saturating_sub(wide)..from);
        let after = part(to..(to + wide).min(others.len()));
        [inside, before.min(after)]
    }

    /// Whether the process does nothing for much of its time: it waits for its work, and does not only
    /// build something until it ends.
    pub(crate) fn waits(&self) -> bool {
        self.busy() <= WAITING
    }

    /// The part of its active time in which the process allocates anything.
    pub(crate) fn busy(&self) -> f64 {
        *self.cached.busy.get_or_init(|| self.find_busy())
    }

    fn find_busy(&self) -> f64 {
        let [begin, end] = self.active_ns;
        let [from, to] = self.table.buckets_in([begin, end]);
        let mut busy = vec![false; self.table.starts_ns.len()];
        for cell in &self.table.cells {
            busy[usize::from(cell.allocated)] = true;
        }
        let busy = busy.get(from..to).unwrap_or_default();
        let some = busy.iter().filter(|&&busy| busy).count();
        ratio(some as u64, busy.len() as u64)
    }
}
