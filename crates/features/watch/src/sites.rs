//! Live samples grouped by stack, over all processes: estimates of what is live, old, and has
//! grown since the mark.

use std::cmp::Reverse;

use allotrope_sampling::Period;
use allotrope_sampling::estimate::{Estimate, Figures};
use allotrope_shm::samples::writer::Sample;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::snapshot::{SiteKey, Snapshot};

/// What the process's clock may be behind ours: a tick of the kernel's timer (10 ms with 100 a second).
const TICK: u64 = 10_000_000;

/// So many live samples are enough to say something of a site.
pub const ENOUGH_SAMPLES: u64 = 4;

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
    /// Blocks of the mark may have been sampled at longer periods than those that come now, or not at
    /// all.
    pub are_worse_known_before: bool,
}

impl Sums {
    /// Of no blocks.
    pub fn new(longest: Period) -> Self {
        let none = Figures::new(longest);
        Self::without_samples(none, none, false)
    }

    /// Of no blocks, with the figures of none of all and of none of those that came since the
    /// mark: these may have been sampled at shorter periods.
    fn without_samples(none: Figures, none_new: Figures, are_worse_known_before: bool) -> Self {
        Self {
            live: none,
            old: none,
            new: none_new,
            gone: none,
            are_worse_known_before,
        }
    }

    /// By how many bytes they have grown since the mark; negative if they have shrunk.
    pub fn grown_bytes(&self) -> Estimate {
        self.new.bytes().minus(&self.gone.bytes())
    }

    /// The same in blocks, none of which is smaller than `smallest` bytes.
    pub fn grown_blocks(&self, smallest: u64) -> Estimate {
        let gone = self.gone.blocks(smallest);
        self.new.blocks(smallest).minus(&gone)
    }

    fn add(&mut self, block: &LiveBlock) {
        let LiveBlock { size, period, .. } = *block;
        self.live.add(size, period);
        if block.is_old {
            self.old.add(size, period);
        }
        if block.is_new {
            self.new.add(size, period);
        }
    }

    /// Adds the blocks of another part.
    pub fn merge(&mut self, other: &Self) {
        self.live.merge(&other.live);
        self.old.merge(&other.old);
        self.new.merge(&other.new);
        self.gone.merge(&other.gone);
        self.are_worse_known_before |= other.are_worse_known_before;
    }
}

/// A sampled block that is live.
#[derive(Debug)]
pub(crate) struct LiveBlock {
    /// The site.
    pub key: SiteKey,
    /// The stack's id in its process.
    pub stack: u32,
    /// Its size in bytes.
    pub size: u64,
    /// The period at which it was sampled.
    pub period: Period,
    /// Its age in nanoseconds.
    pub age: u64,
    /// It is reported as old.
    pub is_old: bool,
    /// It was not there at the mark.
    pub is_new: bool,
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
    /// A process that has it, by its index, and the stack's id there.
    pub example: (usize, u32),
    /// The live bytes and samples in each process, by its index, in ascending order.
    pub processes: Vec<(usize, Figures)>,
}

/// The live samples of each process at the mark.
#[derive(Debug, Default)]
pub struct Mark {
    processes: FxHashMap<Instance, Marked>,
}

/// The live samples of a process at the mark.
#[derive(Debug, Clone)]
struct Marked {
    /// The moment, by the process's clock.
    time: u64,
    blocks: FxHashMap<Block, (SiteKey, u64, Period)>,
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
    /// By the process's index; `None`: sampling was never on there.
    pub processes: Vec<Option<Sums>>,
}

impl Site {
    /// Whether so few of its samples are live that nothing can be said of it alone: of many sites those
    /// with most live bytes are chosen, and a site is among them by chance. Blocks that are far larger than
    /// the period are nearly all sampled, so that few of them are enough.
    pub fn has_few_samples(&self) -> bool {
        let bytes = self.sums.live.bytes();
        self.sums.live.samples() < ENOUGH_SAMPLES && bytes.value * 2.0 < bytes.high
    }
}

impl Mark {
    /// Marks the blocks of these processes.
    pub fn set(&mut self, snapshots: &[Snapshot]) {
        self.processes.clear();
        for snapshot in snapshots {
            let samples = snapshot.state.samples.iter();
            let marked = samples.map(|it| (block(it), (snapshot.key(it), it.size, it.period)));
            let marked = Marked {
                time: snapshot.time,
                blocks: marked.collect(),
            };
            self.processes.insert(snapshot.instance(), marked);
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
    pub fn new(snapshots: &[Snapshot], grouping: &Grouping<'_>) -> Self {
        let mut builder = SitesBuilder::default();
        for snapshot in snapshots {
            group(snapshot, grouping, &mut builder);
        }
        builder.finish()
    }

    /// The figures of all processes together.
    pub fn total(&self) -> Option<Sums> {
        let mut sums = self.processes.iter().flatten();
        let mut total = sums.next()?.clone();
        sums.for_each(|it| total.merge(it));
        Some(total)
    }
}

fn group(snapshot: &Snapshot, with: &Grouping<'_>, builder: &mut SitesBuilder) {
    let instance = snapshot.instance();
    let mut marked = with.mark.processes.get(&instance).cloned();
    let mark = marked.as_ref().map(|it| it.time.saturating_sub(TICK));
    builder.begin_process(snapshot.none().map(|none| {
        let periods = &snapshot.state.periods;
        let new = mark.and_then(|it| periods.none_since(it));
        Sums::without_samples(none, new.unwrap_or(none), periods.were_worse())
    }));
    let known = with.known.get(&instance);
    for sample in &snapshot.state.samples {
        let (age, block) = (snapshot.age(sample), block(sample));
        let was_there = marked.as_mut().and_then(|it| it.blocks.remove(&block));
        builder.add(&LiveBlock {
            key: snapshot.key(sample),
            stack: sample.stack,
            size: sample.size,
            period: sample.period,
            age,
            is_old: age >= with.old_age && !known.is_some_and(|it| it.contains(&block)),
            is_new: was_there.is_none(),
        });
    }
    for (key, size, period) in marked.into_iter().flat_map(|it| it.blocks.into_values()) {
        builder.add_gone(key, size, period);
    }
}

/// Groups live blocks, one process after the other.
#[derive(Debug, Default)]
pub(crate) struct SitesBuilder {
    sites: FxHashMap<SiteKey, Site>,
    processes: Vec<Option<Sums>>,
    /// The present process without samples.
    none: Option<Sums>,
}

impl SitesBuilder {
    /// Begins the next process, with its figures without samples; `None`: sampling was never on
    /// there.
    pub(crate) fn begin_process(&mut self, none: Option<Sums>) {
        self.processes.push(none.clone());
        self.none = none;
    }

    /// Adds a block of the present process.
    pub(crate) fn add(&mut self, block: &LiveBlock) {
        let process = self.processes.len().saturating_sub(1);
        let none = self.none.get_or_insert(Sums::new(block.period));
        let site = self.sites.entry(block.key).or_insert_with(|| Site {
            key: block.key,
            sums: none.clone(),
            oldest: 0,
            example: (process, block.stack),
            processes: Vec::new(),
        });
        site.oldest = site.oldest.max(block.age);
        if site.processes.last().is_none_or(|it| it.0 != process) {
            site.processes.push((process, none.live));
            // What is not known of this process is not known of the sum.
            site.sums.merge(none);
        }
        if let Some((_, here)) = site.processes.last_mut() {
            here.add(block.size, block.period);
        }
        site.sums.add(block);
        if let Some(Some(sums)) = self.processes.last_mut() {
            sums.add(block);
        }
    }

    /// Adds a block of the mark that the present process has freed since.
    pub(crate) fn add_gone(&mut self, key: SiteKey, size: u64, period: Period) {
        if let Some(Some(sums)) = self.processes.last_mut() {
            sums.gone.add(size, period);
        }
        if let Some(site) = self.sites.get_mut(&key) {
            site.sums.gone.add(size, period);
        }
    }

    pub(crate) fn finish(self) -> Sites {
        let mut sites: Vec<Site> = self.sites.into_values().collect();
        let order = |it: &Site| it.sums.live.bytes().value;
        sites.sort_by_cached_key(|it| (Reverse(order(it) as u64), it.key));
        Sites {
            sites,
            processes: self.processes,
        }
    }
}
