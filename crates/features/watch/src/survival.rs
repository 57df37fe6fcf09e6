//! What became of the sampled blocks of each site: how many reached an age, and how many of these
//! were freed. That says whether a site keeps what it allocates, also where it frees most of it.
//!
//! Blocks are followed from look to look. An *age class* is an age, 0 and then 1 s, 2 s, 4 s, …. A
//! block *enters* a class when it is seen alive at that age, and *leaves* it when it is gone at a later
//! look. Blocks that were live at the first look only leave: of a site that neither grows nor shrinks as
//! many blocks enter a class as leave it.
//!
//! Only blocks that were sampled with the present period are followed: with two periods the blocks
//! that enter and those that leave would be sampled with different probabilities. When the period of a
//! process changes, its blocks are followed anew.

use allotrope_sampling::Period;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::sites::{Block, Instance, block};
use crate::snapshot::{SiteKey, Snapshot};

/// Number of age classes: the oldest is 2^18 s, three days.
pub const CLASSES: usize = 20;
const SECOND: u64 = 1_000_000_000;
/// Most sites that are followed.
const MAX_SITES: usize = 1 << 16;

/// The age of a class in nanoseconds.
pub fn age_of(class: usize) -> u64 {
    match class {
        0 => 0,
        class => SECOND << (class - 1),
    }
}

/// Number of classes that a block of this age is in.
fn classes_at(age: u64) -> usize {
    let doublings = (age / SECOND).checked_ilog2();
    doublings.map_or(1, |it| (it as usize + 2).min(CLASSES))
}

/// One process at one look.
#[derive(Debug)]
pub struct ProcessLook<B> {
    /// Which process.
    pub instance: Instance,
    /// The moment by its clock, in nanoseconds.
    pub time: u64,
    /// The present period; `None`: sampling is off.
    pub period: Option<Period>,
    /// Whether it has been sampled with this period since its start.
    pub is_complete: bool,
    /// Samples that are missing so far.
    pub lost: u64,
    /// Its live samples of the present period, with their stacks.
    pub blocks: B,
    /// By stack: how many samples of the present period were freed so far.
    pub freed: FxHashMap<u32, u64>,
}

/// What a snapshot tells of its process.
pub(crate) fn look(
    snapshot: &Snapshot,
) -> ProcessLook<impl Iterator<Item = (Block, SiteKey, u32)>> {
    let state = &snapshot.state;
    let period = state.period;
    let mut freed: FxHashMap<u32, u64> = FxHashMap::default();
    for total in state.totals.iter().filter(|it| Some(it.period) == period) {
        let sum = freed.entry(total.stack).or_default();
        *sum = sum.saturating_add(total.freed);
    }
    let samples = state.samples.iter();
    let samples = samples.filter(move |it| Some(it.period) == period);
    ProcessLook {
        instance: snapshot.instance(),
        time: snapshot.time,
        period,
        is_complete: !state.periods.were_worse(),
        lost: state.counters.lost_samples,
        blocks: samples.map(|it| (block(it), snapshot.key(it), it.stack)),
        freed,
    }
}

/// What happened to the blocks of one class of a site.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Passed {
    /// Number of those that entered.
    pub entered: u64,
    /// Number of those that left.
    pub left: u64,
    /// For how long blocks were seen in the class, all together, in seconds.
    pub seconds: f64,
}

/// What became of the blocks of one site.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// By age class.
    pub classes: [Passed; CLASSES],
    /// When the blocks that are live were allocated, in nanoseconds before the latest look; the order is
    /// not defined.
    pub ages: Vec<u64>,
    /// How many blocks were freed since the first look, those that no look has seen included.
    pub freed: u64,
    /// For how long the site's processes have been followed, in nanoseconds: the shortest time.
    pub followed: u64,
    /// All blocks of the site since its processes' start have been sampled alike.
    pub is_complete: bool,
    /// Samples of a process that has the site were lost.
    pub is_lossy: bool,
}

/// A block that was live at the latest look.
#[derive(Debug, Clone, Copy)]
struct Followed {
    key: SiteKey,
    /// Number of classes that it is in.
    classes: usize,
}

#[derive(Debug)]
struct Process {
    period: Period,
    began: u64,
    time: u64,
    lost: u64,
    is_lossy: bool,
    is_complete: bool,
    blocks: FxHashMap<Block, Followed>,
    /// By stack: how many had been freed at the first look.
    freed_before: FxHashMap<u32, u64>,
}

/// The accounts of all sites.
#[derive(Debug, Default)]
pub struct Survival {
    processes: FxHashMap<Instance, Process>,
    accounts: FxHashMap<SiteKey, Account>,
}

impl Survival {
    /// Adds a look at all processes that are watched. Those that are not among them have ended.
    pub fn add<B>(&mut self, looks: Vec<ProcessLook<B>>)
    where
        B: Iterator<Item = (Block, SiteKey, u32)>,
    {
        for account in self.accounts.values_mut() {
            account.ages.clear();
            account.freed = account.classes[0].left;
            account.followed = u64::MAX;
            (account.is_complete, account.is_lossy) = (true, false);
        }
        let present: FxHashSet<Instance> = looks.iter().map(|it| it.instance).collect();
        let gone: Vec<Instance> = self.processes.keys().copied().collect();
        for instance in gone.into_iter().filter(|it| !present.contains(it)) {
            self.end(instance);
        }
        for look in looks {
            self.add_process(look);
        }
        self.forget();
    }

    /// What became of the blocks of a site.
    pub fn account(&self, key: SiteKey) -> Option<&Account> {
        self.accounts.get(&key)
    }

    /// The accounts of all sites.
    pub fn accounts(&self) -> impl Iterator<Item = (SiteKey, &Account)> {
        self.accounts.iter().map(|(key, account)| (*key, account))
    }

    fn end(&mut self, instance: Instance) {
        let ended = self.processes.remove(&instance);
        for followed in ended.into_iter().flat_map(|it| it.blocks.into_values()) {
            self.accounts
                .entry(followed.key)
                .or_default()
                .leave(followed);
        }
    }

    fn add_process<B>(&mut self, look: ProcessLook<B>)
    where
        B: Iterator<Item = (Block, SiteKey, u32)>,
    {
        let known = self.processes.remove(&look.instance);
        let (known, other) = match known {
            Some(it) if Some(it.period) == look.period => (Some(it), None),
            other => (None, other),
        };
        // Their ends will not be seen, so what entered of them must not count, either.
        for followed in other.into_iter().flat_map(|it| it.blocks.into_values()) {
            self.accounts.remove(&followed.key);
        }
        let Some(period) = look.period else {
            return;
        };
        let is_first = known.is_none();
        let mut process = known.unwrap_or_else(|| Process {
            period,
            began: look.time,
            time: look.time,
            lost: look.lost,
            is_lossy: false,
            is_complete: look.is_complete,
            blocks: FxHashMap::default(),
            freed_before: look.freed.clone(),
        });
        process.is_lossy |= look.lost > process.lost;
        let passed = look.time.saturating_sub(process.time);
        let mut live = FxHashMap::default();
        let mut stacks = FxHashMap::default();
        for (block, key, stack) in look.blocks {
            stacks.insert(stack, key);
            let age = look.time.saturating_sub(block.1);
            let classes = classes_at(age);
            let before = process.blocks.remove(&block);
            let seen = before.map_or(0, |it| it.classes);
            let account = self.accounts.entry(key).or_default();
            account.ages.push(age);
            for (class, it) in account.classes.iter_mut().enumerate().take(classes) {
                it.entered += u64::from(!is_first && class >= seen);
                let in_class = age.saturating_sub(age_of(class)).min(passed);
                it.seconds += in_class as f64 / SECOND as f64;
            }
            live.insert(block, Followed { key, classes });
        }
        for followed in process.blocks.into_values() {
            self.accounts
                .entry(followed.key)
                .or_default()
                .leave(followed);
        }
        let followed = look.time.saturating_sub(process.began);
        let mut freed: FxHashMap<SiteKey, u64> = FxHashMap::default();
        for (stack, key) in stacks {
            let of = |map: &FxHashMap<u32, u64>| map.get(&stack).copied().unwrap_or(0);
            let since = of(&look.freed).saturating_sub(of(&process.freed_before));
            let sum = freed.entry(key).or_default();
            *sum = sum.saturating_add(since);
        }
        for (key, freed) in freed {
            let account = self.accounts.entry(key).or_default();
            account.followed = account.followed.min(followed);
            account.is_complete &= process.is_complete;
            account.is_lossy |= process.is_lossy;
            account.freed = account.freed.max(freed);
        }
        process.blocks = live;
        (process.time, process.lost) = (look.time, look.lost);
        self.processes.insert(look.instance, process);
    }

    /// Keeps the sites with most blocks.
    fn forget(&mut self) {
        if self.accounts.len() <= MAX_SITES {
            return;
        }
        let order = self.accounts.iter().map(|(key, it)| (it.ages.len(), *key));
        let mut order: Vec<_> = order.collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        for (_, key) in order.drain(MAX_SITES..) {
            self.accounts.remove(&key);
        }
    }
}

impl Account {
    fn leave(&mut self, block: Followed) {
        for class in self.classes.iter_mut().take(block.classes) {
            class.left += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Option<Period> = Some(Period::DEFAULT);

    /// A look at a process at this second, with blocks that were allocated at these seconds.
    fn look(
        second: u64,
        allocated: &[u64],
        lost: u64,
        period: Option<Period>,
    ) -> ProcessLook<std::vec::IntoIter<(Block, SiteKey, u32)>> {
        let block = |it: &u64| ((*it, it * SECOND), 7, 0);
        ProcessLook {
            instance: (1, 1),
            time: second * SECOND,
            period,
            is_complete: true,
            lost,
            blocks: allocated.iter().map(block).collect::<Vec<_>>().into_iter(),
            freed: FxHashMap::default(),
        }
    }

    #[test]
    fn ages_have_classes() {
        let at = |seconds: f64| classes_at((seconds * SECOND as f64) as u64);
        assert_eq!([0.0, 0.9, 1.0, 1.9, 2.0, 4.0].map(at), [1, 1, 2, 2, 3, 4]);
        assert_eq!(classes_at(u64::MAX), CLASSES);
        for class in 0..CLASSES {
            assert_eq!(classes_at(age_of(class)), class + 1);
        }
    }

    /// One block is there at the first look, and only leaves. One is allocated at second 11, and
    /// is freed after it was seen 4 s old.
    #[test]
    fn blocks_enter_and_leave_the_classes_that_they_were_seen_in() {
        let mut survival = Survival::default();
        for (second, live) in [(10, &[3][..]), (12, &[3, 11]), (15, &[11]), (18, &[])] {
            survival.add(vec![look(second, live, 0, PERIOD)]);
        }
        let account = survival.account(7).expect("there were blocks");
        let passed = account.classes.map(|it| (it.entered, it.left));
        // The first one was seen 9 s old: it enters 8 s (class 4) only.
        assert_eq!(
            passed[..6],
            [(1, 2), (1, 2), (1, 2), (1, 2), (1, 1), (0, 0)]
        );
        // In the class of 1 s: the first one 2 s, the other one 0 and 3 s.
        assert_eq!(account.classes[1].seconds, 5.0);
        assert!(account.ages.is_empty());
    }

    #[test]
    fn lost_samples_other_periods_and_ends_are_noticed() {
        let mut survival = Survival::default();
        let is_lossy = |it: &Survival| it.account(7).is_some_and(|it| it.is_lossy);
        survival.add(vec![look(1, &[1], 5, PERIOD)]);
        assert!(!is_lossy(&survival));
        survival.add(vec![look(2, &[1], 6, PERIOD)]);
        assert!(is_lossy(&survival));
        // It is followed anew.
        survival.add(vec![look(3, &[1], 6, Period::new(4096))]);
        assert!(!is_lossy(&survival));
        let followed = survival.account(7).map(|it| it.followed);
        assert_eq!(followed, Some(0));
        survival.add(vec![look(4, &[1], 6, None)]);
        let nothing = Vec::<ProcessLook<std::iter::Empty<_>>>::new();
        survival.add(nothing);
        assert!(survival.processes.is_empty());
    }

    /// The blocks of the earlier period are followed no longer, so that they never leave.
    #[test]
    fn what_entered_with_another_period_does_not_count() {
        for period in [Period::new(4096), None] {
            let mut survival = Survival::default();
            let blocks: Vec<u64> = (11..41).collect();
            survival.add(vec![look(10, &[], 0, PERIOD)]);
            survival.add(vec![look(50, &blocks, 0, PERIOD)]);
            let entered = |it: &Survival| it.account(7).map_or(0, |it| it.classes[0].entered);
            assert_eq!(entered(&survival), 30);
            survival.add(vec![look(51, &[], 0, period)]);
            assert_eq!(entered(&survival), 0, "{period:?}");
        }
    }

    #[test]
    fn what_a_process_had_is_gone_with_it() {
        let mut survival = Survival::default();
        survival.add(vec![look(1, &[1, 1, 0], 0, PERIOD)]);
        survival.add(Vec::<ProcessLook<std::iter::Empty<_>>>::new());
        let left = survival.account(7).map(|it| it.classes[0].left);
        // Two of the three are one block.
        assert_eq!(left, Some(2));
    }
}
