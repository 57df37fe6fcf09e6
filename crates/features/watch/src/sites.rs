//! Live samples grouped by stack, over all processes: estimates of what is live, old, and has
//! grown since the mark.

use allotrope_sampling::Period;
use allotrope_sampling::estimate::{Estimate, Figures, MIN};
use allotrope_shm::samples::writer::Sample;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::look::{Look, SiteKey};

/// A process and the moment at which its memory was made.
pub type Instance = (u32, u64);

/// A live block that a watcher remembers: its address and when it was allocated. A block that
/// is reallocated becomes another one.
pub type Block = (u64, u64);

/// Estimates of some blocks.
#[derive(Debug, Clone)]
pub struct Sums {
    /// All that are live.
    pub live: Figures,
    /// Those of them that are old.
    pub old: Figures,
    /// Those of them that were not there at the mark.
    pub new: Figures,
    /// Those of the mark that are not live any more.
    pub gone: Figures,
}

impl Sums {
    /// Of no blocks.
    pub fn new(longest: Period) -> Self {
        Self {
            live: Figures::new(longest),
            old: Figures::new(longest),
            new: Figures::new(longest),
            gone: Figures::new(longest),
        }
    }

    /// By how many bytes they have grown since the mark; negative if they have shrunk.
    pub fn grown_bytes(&self) -> Estimate {
        difference(self.new.bytes(), self.gone.bytes())
    }

    /// The same in blocks, none of which is smaller than `smallest` bytes.
    pub fn grown_blocks(&self, smallest: u64) -> Estimate {
        difference(self.new.blocks(smallest), self.gone.blocks(smallest))
    }

    /// Adds the blocks of another part.
    pub fn merge(&mut self, other: &Self) {
        self.live.merge(&other.live);
        self.old.merge(&other.old);
        self.new.merge(&other.new);
        self.gone.merge(&other.gone);
    }
}

/// The difference of two independent estimates. Its interval is made of theirs: Zou and
/// Donner, "Construction of confidence limits about effect measures: a general approach",
/// Statistics in Medicine 27, 2008.
fn difference(plus: Estimate, minus: Estimate) -> Estimate {
    let value = plus.value - minus.value;
    Estimate {
        value,
        low: value - (plus.value - plus.low).hypot(minus.high - minus.value),
        high: value + (plus.high - plus.value).hypot(minus.value - minus.low),
    }
}

/// The blocks of one stack.
#[derive(Debug, Clone)]
pub struct Site {
    /// The stack.
    pub key: SiteKey,
    /// Its figures, in all processes.
    pub sums: Sums,
    /// The age of its oldest sample, in nanoseconds.
    pub oldest: u64,
    /// A process that has it, by its place among the looks, and the stack's id there.
    pub example: (usize, u32),
    /// The live bytes and samples in each process, by its place among the looks.
    pub processes: FxHashMap<usize, Figures>,
}

impl Site {
    /// The smallest size that its blocks can have: blocks of one stack are alike.
    pub fn smallest(&self) -> u64 {
        self.sums.live.smallest_sample()
    }
}

/// The live samples of a process at the mark.
#[derive(Debug, Default)]
pub struct Mark {
    processes: FxHashMap<Instance, FxHashMap<Block, (SiteKey, u64, Period)>>,
}

/// What the samples are grouped with.
#[derive(Debug)]
pub struct Grouping<'a> {
    /// Older than this is old, in nanoseconds.
    pub old_age: u64,
    /// The mark.
    pub mark: &'a Mark,
    /// Blocks that are known, and no longer reported as old.
    pub known: &'a FxHashMap<Instance, FxHashSet<Block>>,
}

/// All sites, those with most live bytes first, and the figures of each process.
#[derive(Debug)]
pub struct Sites {
    /// The sites.
    pub sites: Vec<Site>,
    /// By the process's place among the looks; `None`: sampling was never on there.
    pub processes: Vec<Option<Sums>>,
}

impl Mark {
    /// Marks the blocks of these processes.
    pub fn set(&mut self, looks: &[Look]) {
        self.processes.clear();
        for look in looks {
            let samples = look.state.samples.iter();
            let marked = samples.map(|it| (block(it), (look.key(it), it.size, it.period)));
            self.processes.insert(look.instance(), marked.collect());
        }
    }

    /// Forgets processes that are watched no longer.
    pub fn keep(&mut self, is_watched: impl Fn(&Instance) -> bool) {
        self.processes.retain(|instance, _| is_watched(instance));
    }
}

/// The block of a sample.
pub fn block(sample: &Sample) -> Block {
    (sample.address, sample.allocated)
}

impl Sites {
    /// Groups the live samples of these processes.
    pub fn new(looks: &[Look], grouping: &Grouping<'_>) -> Self {
        let mut sites: FxHashMap<SiteKey, Site> = FxHashMap::default();
        let mut processes = Vec::new();
        for (place, look) in looks.iter().enumerate() {
            processes.push(group(place, look, grouping, &mut sites));
        }
        let mut sites: Vec<Site> = sites.into_values().collect();
        let order = |it: &Site| it.sums.live.bytes().value;
        sites.sort_by_cached_key(|it| (std::cmp::Reverse(order(it) as u64), it.key));
        Self { sites, processes }
    }

    /// The figures of all processes together.
    pub fn total(&self) -> Option<Sums> {
        let mut sums = self.processes.iter().flatten();
        let mut total = sums.next()?.clone();
        sums.for_each(|it| total.merge(it));
        Some(total)
    }

    /// The smallest size of blocks of which nothing is known but that they are blocks.
    pub const MIN: u64 = MIN;
}

fn group(
    place: usize,
    look: &Look,
    grouping: &Grouping<'_>,
    sites: &mut FxHashMap<SiteKey, Site>,
) -> Option<Sums> {
    let state = &look.state;
    let longest = state.samples.iter().map(|it| it.period).max();
    let longest = state.longest_period.max(longest)?;
    let mut all = Sums::new(longest);
    let mut marked = grouping.mark.processes.get(&look.instance()).cloned();
    let known = grouping.known.get(&look.instance());
    for sample in &state.samples {
        let (age, block) = (look.age(sample), block(sample));
        let was_there = marked.as_mut().and_then(|it| it.remove(&block)).is_some();
        let is_old = age >= grouping.old_age && !known.is_some_and(|it| it.contains(&block));
        let key = look.key(sample);
        let site = sites.entry(key).or_insert_with(|| Site {
            key,
            sums: Sums::new(longest),
            oldest: 0,
            example: (place, sample.stack),
            processes: FxHashMap::default(),
        });
        site.oldest = site.oldest.max(age);
        let here = site.processes.entry(place);
        here.or_insert_with(|| Figures::new(longest))
            .add(sample.size, sample.period);
        for sums in [&mut site.sums, &mut all] {
            sums.live.add(sample.size, sample.period);
            if is_old {
                sums.old.add(sample.size, sample.period);
            }
            if !was_there {
                sums.new.add(sample.size, sample.period);
            }
        }
    }
    for (key, size, period) in marked.into_iter().flatten().map(|(_, it)| it) {
        all.gone.add(size, period);
        if let Some(site) = sites.get_mut(&key) {
            site.sums.gone.add(size, period);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high }
    }

    #[test]
    fn a_difference_is_as_uncertain_as_its_parts() {
        let found = difference(estimate(10.0, 7.0, 14.0), estimate(5.0, 2.0, 9.0));
        // 3-4-5 triangles: 10 - 7 and 9 - 5; 14 - 10 and 5 - 2.
        assert_eq!(found, estimate(5.0, 0.0, 10.0));
        let exact = difference(estimate(10.0, 10.0, 10.0), estimate(4.0, 4.0, 4.0));
        assert_eq!(exact, estimate(6.0, 6.0, 6.0));
    }
}
