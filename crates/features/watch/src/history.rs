//! The live bytes of sites over the snapshots so far, and whether they grow: [`crate::verdict`] says
//! what is evidence.
//!
//! All sites share one list of times. When it is full, every other snapshot is dropped, so that it
//! goes back to the first snapshot however long that is ago. Only the largest sites have a history.

use std::collections::hash_map::Entry;

use allotrope_profile::trend::{LAST_THIRD, gains_of_thirds};
use rustc_hash::FxHashMap;

use crate::sites::Block;
use crate::snapshot::SiteKey;
use crate::survival::{ProcessLook, Survival};
use crate::verdict::{Evidence, MIN_SAMPLES, Survives, survives};

/// Most snapshots; even.
const MAX_SNAPSHOTS: usize = 120;
/// Most sites with a history.
const MAX_SITES: usize = 4096;
/// Fewest snapshots that give a trend.
const MIN_SNAPSHOTS: usize = 6;
/// Least part of what sites seem to gain by which resident memory must have grown, too.
const MIN_RESIDENT: f64 = 0.5;

/// How the live bytes of a site develop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// They rise, and lately as they did before.
    Growing,
    /// They have risen, and do so no longer, or much slower: a cache that fills up.
    Saturating,
    /// They do not rise, or they fall again and again.
    Flat,
    /// There are too few snapshots or samples, samples were lost, or what lived before it was
    /// followed may be freed unseen.
    Unknown,
}

impl Trend {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Growing => "growing",
            Self::Saturating => "saturating",
            Self::Flat => "flat",
            Self::Unknown => "unknown",
        }
    }
}

/// What a site has in a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// The estimate of its live bytes.
    pub bytes: f64,
    /// Its live samples.
    pub samples: u64,
}

/// The snapshots so far, thinned out.
#[derive(Debug, Default)]
pub struct History {
    /// Number of snapshots in each of the lists. The last one is always the latest snapshot.
    snapshots: usize,
    /// One of this many snapshots is kept.
    every: u64,
    /// Number of all snapshots so far.
    seen: u64,
    /// The last snapshot of the lists is dropped when the next one comes.
    is_last_dropped: bool,
    sites: FxHashMap<SiteKey, Vec<Point>>,
    /// The resident memory of all processes at the snapshots, in bytes; 0: unknown.
    resident: Vec<f64>,
    /// Resident memory grows as what sites seem to gain does.
    is_resident_growing: bool,
    survival: Survival,
}

impl History {
    /// Adds a snapshot: all sites that have live samples, the processes, and the resident memory of
    /// all of them in bytes, 0 if it is not known.
    pub fn add<B>(
        &mut self,
        sites: &FxHashMap<SiteKey, Point>,
        looks: Vec<ProcessLook<B>>,
        resident: u64,
    ) where
        B: Iterator<Item = (Block, SiteKey, u32)>,
    {
        self.survival.add(looks);
        self.every = self.every.max(1);
        if self.is_last_dropped {
            self.snapshots -= 1;
            for points in self.sites.values_mut() {
                points.pop();
            }
            self.resident.pop();
        }
        self.resident.push(resident as f64);
        self.is_last_dropped = !self.seen.is_multiple_of(self.every);
        self.seen += 1;
        for (key, points) in &mut self.sites {
            points.push(sites.get(key).copied().unwrap_or_default());
        }
        for (key, point) in sites {
            if let Entry::Vacant(place) = self.sites.entry(*key) {
                let mut points = vec![Point::default(); self.snapshots];
                points.push(*point);
                place.insert(points);
            }
        }
        self.snapshots += 1;
        self.forget();
        if self.snapshots == MAX_SNAPSHOTS {
            self.thin_out();
        }
        self.is_resident_growing = self.resident_grows();
    }

    /// Drops every other snapshot, but not the latest.
    fn thin_out(&mut self) {
        self.every = self.every.saturating_mul(2);
        self.sites.values_mut().for_each(thinned);
        thinned(&mut self.resident);
        // The last one's place is odd: the next snapshot replaces it.
        self.snapshots = MAX_SNAPSHOTS / 2 + 1;
        self.is_last_dropped = true;
    }

    /// Keeps the sites that have, or had, most.
    fn forget(&mut self) {
        if self.sites.len() <= MAX_SITES {
            return;
        }
        let most = |points: &[Point]| points.iter().fold(0.0, |most: f64, it| most.max(it.bytes));
        let mut order: Vec<(f64, SiteKey)> = self
            .sites
            .iter()
            .map(|(key, points)| (most(points), *key))
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, key) in order.drain(MAX_SITES..) {
            self.sites.remove(&key);
        }
    }

    /// The trend of a site, and what shows that it grows. `has_gained`: it has gained bytes whatever is
    /// not known of older blocks.
    pub fn trend(&self, key: SiteKey, has_gained: bool) -> (Trend, Option<Evidence>) {
        let Some(points) = self.sites.get(&key) else {
            return (Trend::Unknown, None);
        };
        let is_enough = points.iter().any(|it| it.samples >= MIN_SAMPLES);
        if points.len() < MIN_SNAPSHOTS || !is_enough {
            return (Trend::Unknown, None);
        }
        match self.survives(key) {
            Survives::Grows(evidence) if evidence.age == 0 && !is_rising(points) => {
                (Trend::Saturating, None)
            }
            Survives::Grows(evidence) => (Trend::Growing, Some(evidence)),
            Survives::SeemsToGrow(_) if !is_rising(points) => (Trend::Flat, None),
            Survives::SeemsToGrow(evidence) if has_gained || self.is_resident_growing => {
                (Trend::Growing, Some(evidence))
            }
            Survives::InBalance => (Trend::Flat, None),
            Survives::SeemsToGrow(_) | Survives::Unknown => (Trend::Unknown, None),
        }
    }

    fn survives(&self, key: SiteKey) -> Survives {
        let account = self.survival.account(key);
        account.map_or(Survives::Unknown, survives)
    }

    /// Whether resident memory has grown by enough of what all sites have gained that seem to grow.
    fn resident_grows(&self) -> bool {
        if self.resident.contains(&0.0) {
            return false;
        }
        let mut gained = 0.0;
        for (key, account) in self.survival.accounts() {
            let seems = matches!(survives(account), Survives::SeemsToGrow(_));
            let points = self
                .sites
                .get(&key)
                .filter(|points| seems && is_rising(points));
            gained += points.map_or(0.0, |points| risen(points.iter().map(|it| it.bytes)));
        }
        let resident = risen(self.resident.iter().copied());
        gained > 0.0 && resident >= MIN_RESIDENT * gained
    }

    /// The live bytes of a site at the snapshots that are kept, the oldest first.
    pub fn bytes(&self, key: SiteKey) -> Vec<f64> {
        let points = self.sites.get(&key).into_iter().flatten();
        points.map(|it| it.bytes).collect()
    }
}

/// Whether the last third of the time gained at least a quarter of what the first third did, or an
/// average one.
fn is_rising(points: &[Point]) -> bool {
    let values: Vec<f64> = points.iter().map(|it| it.bytes).collect();
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return false;
    };
    let gain = last - first;
    let [first_third, last_third] = gains_of_thirds(&values);
    // What rises in the middle only has stopped, too.
    gain > 0.0 && last_third >= LAST_THIRD * first_third.max(gain / 3.0)
}

/// By how much the mean of the last third is above that of the first one.
fn risen(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = values.len();
    let third = (count / 3).max(1);
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / third as f64;
    let first = mean(&mut values.clone().take(third));
    mean(&mut values.skip(count.saturating_sub(third))) - first
}

/// Drops every other value, but not the last.
fn thinned<T: Copy>(values: &mut Vec<T>) {
    let last = values.pop();
    *values = values.iter().step_by(2).copied().chain(last).collect();
}

#[cfg(test)]
mod tests {
    use allotrope_sampling::Period;

    use super::*;

    fn points(samples: &[u64]) -> Vec<Point> {
        let point = |&samples: &u64| Point {
            bytes: samples as f64 * 1000.0,
            samples,
        };
        samples.iter().map(point).collect()
    }

    /// A history in which a site has so many samples at looks 10 s apart. The oldest are freed first.
    fn history(samples: &[u64], is_complete: bool, resident: impl Fn(usize) -> u64) -> History {
        let mut history = History::default();
        let (mut first, mut next) = (0_u64, 0_u64);
        for (look, &count) in samples.iter().enumerate() {
            let time = (look as u64 + 1) * 10_000_000_000;
            let mut live: Vec<u64> = (first..next).collect();
            live.drain(..live.len().saturating_sub(count as usize));
            first = next - live.len() as u64;
            next = first + count;
            // Allocated just before the look that sees it first.
            let blocks = first..next;
            let known: Vec<_> = blocks.map(|it| ((it, born(samples, it)), 7, 0)).collect();
            let process = ProcessLook {
                instance: (1, 1),
                time,
                period: Some(Period::DEFAULT),
                is_complete,
                lost: 0,
                blocks: known.into_iter(),
                freed: FxHashMap::from_iter([(0, first)]),
            };
            let point = points(&[count])[0];
            history.add(
                &FxHashMap::from_iter([(7, point)]),
                vec![process],
                resident(look),
            );
        }
        history
    }

    /// When the block of a number is allocated, in nanoseconds.
    fn born(samples: &[u64], number: u64) -> u64 {
        let (mut first, mut next) = (0_u64, 0_u64);
        for (look, &count) in samples.iter().enumerate() {
            first = next.saturating_sub(count).max(first);
            next = first + count;
            if number < next {
                return (look as u64 + 1) * 10_000_000_000 - 1;
            }
        }
        0
    }

    #[test]
    fn trends_are_told_apart() {
        for (samples, expected) in [
            (&[0, 4, 8, 12, 16, 20, 24][..], Trend::Growing),
            (&[10, 14, 18, 22, 26, 30, 34], Trend::Growing),
            (&[0, 20, 36, 40, 40, 40, 40, 40, 40], Trend::Saturating),
            (&[0, 0, 0, 0, 20, 20, 20, 20, 20], Trend::Saturating),
            (&[20, 5, 20, 5, 20, 5, 26], Trend::Flat),
            (&[20, 18, 12, 8, 4, 2], Trend::Flat),
            // Fifteen more may be chance.
            (&[0, 2, 4, 6, 8, 10, 15], Trend::Unknown),
            // Nothing was allocated or freed.
            (&[20, 20, 20, 20, 20, 20], Trend::Flat),
            // Reported: sites that only grow are called flat while they have four samples.
            (&[0, 0, 1, 1, 2, 4], Trend::Unknown),
            (&[2, 2, 2, 2, 2, 2], Trend::Unknown),
            (&[0, 0, 0, 0, 0, 0], Trend::Unknown),
            // There were enough.
            (&[9, 7, 4, 2, 1, 1], Trend::Flat),
        ] {
            let history = history(samples, true, |_| 0);
            assert_eq!(history.trend(7, false).0, expected, "{samples:?}");
        }
    }

    /// What lived before may be freed unseen, unless resident memory grows as well.
    #[test]
    fn after_a_late_switch_resident_memory_decides() {
        let samples: Vec<u64> = (0..12).map(|it| 4 * it).collect();
        let of =
            |resident: &dyn Fn(usize) -> u64| history(&samples, false, resident).trend(7, false).0;
        assert_eq!(of(&|_| 0), Trend::Unknown);
        assert_eq!(of(&|_| 1 << 20), Trend::Unknown);
        // The site gains 4,000 bytes at each look.
        assert_eq!(of(&|look| (1 << 20) + 4000 * look as u64), Trend::Growing);
        assert_eq!(of(&|look| (1 << 20) + 1500 * look as u64), Trend::Unknown);
        // Or the interval of what was gained, which counts what may have been freed unseen.
        let gained = history(&samples, false, |_| 0).trend(7, true);
        assert_eq!(gained.0, Trend::Growing);
    }

    #[test]
    fn a_long_history_keeps_its_beginning_and_its_length() {
        let samples: Vec<u64> = (0..600).collect();
        let history = history(&samples, true, |_| 0);
        let bytes = history.bytes(7);
        assert!(bytes.len() <= MAX_SNAPSHOTS && bytes[0] == 0.0);
        assert_eq!(bytes[bytes.len() - 1], 599_000.0);
        assert!(bytes.is_sorted());
        assert_eq!(history.resident.len(), bytes.len());
        assert_eq!(history.trend(7, false).0, Trend::Growing);
        assert_eq!(history.trend(8, false).0, Trend::Unknown);
    }

    #[test]
    fn the_largest_sites_have_a_history() {
        let mut history = History::default();
        let sites = (0..3 * MAX_SITES as u64).map(|key| (key, points(&[key])[0]));
        let none = Vec::<ProcessLook<std::iter::Empty<_>>>::new();
        history.add(&sites.collect(), none, 0);
        assert_eq!(history.sites.len(), MAX_SITES);
        assert!(history.bytes(0).is_empty() && !history.bytes(3 * MAX_SITES as u64 - 1).is_empty());
    }
}
