//! The live bytes of sites over the snapshots so far, and whether they grow.
//!
//! All sites share one list of times. When it is full, every other snapshot is dropped, so that it
//! goes back to the first snapshot however long that is ago. Only the largest sites have a history.

use std::collections::hash_map::Entry;

use allotrope_profile::trend::{LAST_THIRD, MAX_DIP, deepest_dip, gains_of_thirds};
use rustc_hash::FxHashMap;

use crate::snapshot::SiteKey;

/// Most snapshots; even.
const MAX_SNAPSHOTS: usize = 120;
/// Most sites with a history.
const MAX_SITES: usize = 4096;
/// Fewest snapshots that give a trend.
const MIN_SNAPSHOTS: usize = 6;
/// Least part of the present bytes that must have been gained.
const MIN_GAIN: f64 = 0.2;
/// Fewest samples on which a trend can be based, and that must have been gained: fewer may be
/// chance.
const MIN_SAMPLES: u64 = 5;

/// How the live bytes of a site develop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// They rise, and lately as they did before.
    Growing,
    /// They have risen, and do so no longer, or much slower: a cache that fills up.
    Saturating,
    /// They do not rise, or they fall again and again.
    Flat,
    /// There are too few snapshots or samples.
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
}

impl History {
    /// Adds a snapshot: all sites that have live samples.
    pub fn add(&mut self, sites: &FxHashMap<SiteKey, Point>) {
        self.every = self.every.max(1);
        if self.is_last_dropped {
            self.snapshots -= 1;
            for points in self.sites.values_mut() {
                points.pop();
            }
        }
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
    }

    /// Drops every other snapshot, but not the latest.
    fn thin_out(&mut self) {
        self.every = self.every.saturating_mul(2);
        for points in self.sites.values_mut() {
            let last = points.pop();
            *points = points.iter().step_by(2).copied().chain(last).collect();
        }
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

    /// The trend of a site.
    pub fn trend(&self, key: SiteKey) -> Trend {
        match self.sites.get(&key) {
            Some(points) if points.len() >= MIN_SNAPSHOTS => trend(points),
            _ => Trend::Unknown,
        }
    }

    /// The live bytes of a site at the snapshots that are kept, the oldest first.
    pub fn bytes(&self, key: SiteKey) -> Vec<f64> {
        let points = self.sites.get(&key).into_iter().flatten();
        points.map(|it| it.bytes).collect()
    }
}

fn trend(points: &[Point]) -> Trend {
    let values: Vec<f64> = points.iter().map(|it| it.bytes).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Trend::Unknown;
    };
    if points.iter().all(|it| it.samples < MIN_SAMPLES) {
        return Trend::Unknown;
    }
    let gain = last.bytes - first.bytes;
    let is_gain = gain > 0.0
        && gain >= MIN_GAIN * last.bytes
        && last.samples >= first.samples.saturating_add(MIN_SAMPLES);
    if !is_gain || deepest_dip(&values) > MAX_DIP * gain {
        return Trend::Flat;
    }
    let [first_third, last_third] = gains_of_thirds(&values);
    // What rises in the middle only has stopped, too.
    match last_third < LAST_THIRD * first_third.max(gain / 3.0) {
        true => Trend::Saturating,
        false => Trend::Growing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(samples: &[u64]) -> Vec<Point> {
        let point = |&samples: &u64| Point {
            bytes: samples as f64 * 1000.0,
            samples,
        };
        samples.iter().map(point).collect()
    }

    #[test]
    fn trends_are_told_apart() {
        for (samples, expected) in [
            (&[0, 2, 4, 6, 8, 10, 12][..], Trend::Growing),
            (&[10, 11, 12, 14, 15, 17, 18], Trend::Growing),
            (&[0, 10, 18, 20, 20, 20, 20, 20, 20], Trend::Saturating),
            (&[0, 0, 0, 0, 20, 20, 20, 20, 20], Trend::Saturating),
            (&[20, 20, 20, 20, 20, 20], Trend::Flat),
            (&[20, 5, 20, 5, 20, 5, 26], Trend::Flat),
            (&[20, 18, 12, 8, 4, 2], Trend::Flat),
            // Reported: sites that only grow are called flat while they have four samples.
            (&[0, 0, 1, 1, 2, 4], Trend::Unknown),
            (&[2, 2, 2, 2, 2, 2], Trend::Unknown),
            (&[0, 0, 0, 0, 0, 0], Trend::Unknown),
            // There were enough.
            (&[9, 7, 4, 2, 1, 1], Trend::Flat),
        ] {
            assert_eq!(trend(&points(samples)), expected, "{samples:?}");
        }
    }

    #[test]
    fn a_long_history_keeps_its_beginning_and_its_length() {
        let mut history = History::default();
        for snapshot in 0..10_000u64 {
            let point = points(&[snapshot])[0];
            history.add(&FxHashMap::from_iter([(7, point)]));
            let bytes = history.bytes(7);
            assert!(bytes.len() <= MAX_SNAPSHOTS && bytes[0] == 0.0);
            assert_eq!(bytes[bytes.len() - 1], snapshot as f64 * 1000.0);
            assert!(bytes.is_sorted());
        }
        assert_eq!(history.trend(7), Trend::Growing);
        assert_eq!(history.trend(8), Trend::Unknown);
    }

    #[test]
    fn the_largest_sites_have_a_history() {
        let mut history = History::default();
        let sites = (0..3 * MAX_SITES as u64).map(|key| (key, points(&[key])[0]));
        history.add(&sites.collect());
        assert_eq!(history.sites.len(), MAX_SITES);
        assert!(history.bytes(0).is_empty() && !history.bytes(3 * MAX_SITES as u64 - 1).is_empty());
    }
}
