//! What a watcher remembers between snapshots: the mark, the trends, the blocks that are known, the
//! high-water mark, which stacks are suppressed.

use std::rc::Rc;

use allotrope_attribution::{FrameText, Glue, Matcher, Origin, Suppressions};
use allotrope_symbols::Locator;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::history::{History, Point};
use crate::names::{Frame, Names};
use crate::report::{HighWater, ProcessRow, Report, SiteRow, Together, without_few};
use crate::sites::{Block, Grouping, Instance, Mark, Site, Sites, block};
use crate::snapshot::{Keys, SiteKey, Snapshot};
use crate::survival;

/// Stacks that are matched with the suppressions at once: their frames are in memory.
const AT_ONCE: usize = 64;
/// Most sites whose headline is remembered.
const MAX_HEADLINES: usize = 1 << 16;

/// How a watcher reports.
#[derive(Debug)]
pub struct Options {
    /// From this age on a block is old, in nanoseconds.
    pub old_age: u64,
    /// Most sites of a report.
    pub top: usize,
    /// Sites that are not reported.
    pub suppressions: Suppressions,
    /// The least live bytes of a high-water mark; `None`: none is kept.
    pub high_water: Option<u64>,
}

/// A watcher of some processes.
#[derive(Debug)]
pub struct Watch {
    /// How it reports.
    pub options: Options,
    /// The keys of its stacks.
    pub keys: Keys,
    /// The names of its frames.
    pub names: Names,
    mark: Mark,
    mark_time: Option<u64>,
    history: History,
    known: FxHashMap<Instance, FxHashSet<Block>>,
    rules: FxHashMap<SiteKey, bool>,
    glue: Glue,
    /// By site: the frame that stands for it.
    headlines: FxHashMap<SiteKey, usize>,
    high_water: Option<Kept>,
}

/// The snapshots at the high-water mark.
#[derive(Debug)]
struct Kept {
    bytes: f64,
    snapshots: Rc<Vec<Snapshot>>,
    is_new: bool,
}

impl Watch {
    /// A watcher that has not seen anything yet.
    pub fn new(options: Options, locator: Locator) -> Self {
        Self {
            options,
            keys: Keys::default(),
            names: Names::new(locator),
            mark: Mark::default(),
            mark_time: None,
            history: History::default(),
            known: FxHashMap::default(),
            rules: FxHashMap::default(),
            glue: Glue::default(),
            headlines: FxHashMap::default(),
            high_water: None,
        }
    }

    /// The report of these snapshots, which are one for each process. The first is the mark.
    pub fn report(&mut self, snapshots: &[Snapshot]) -> Report {
        if self.mark_time.is_none() {
            self.mark.set(snapshots);
            self.mark_time = snapshots.iter().map(|it| it.real_time).max();
        }
        self.forget_others(snapshots);
        self.names.open(snapshots);
        let grouped = self.group(snapshots);
        let points = grouped.sites.iter().map(|site| {
            let point = Point {
                bytes: site.sums.live.bytes().value,
                samples: site.sums.live.samples(),
            };
            (site.key, point)
        });
        let looks = snapshots.iter().map(survival::look).collect();
        // Without that of a process that runs the sum says nothing.
        let running = snapshots.iter().filter(|it| !it.has_ended());
        let resident: Option<u64> = running.map(|it| Some(it.resident?.of_program())).sum();
        self.history
            .add(&points.collect(), looks, resident.unwrap_or(0));
        let (sites, suppressed) = self.unsuppressed(snapshots, &grouped.sites);
        let (sites, few) = without_few(sites);
        let rows = self.rows(snapshots, &sites);
        let processes = snapshots.iter().zip(&grouped.processes);
        Report {
            real_time: snapshots
                .iter()
                .map(|it| it.real_time)
                .max()
                .unwrap_or_default(),
            mark_time: self.mark_time,
            old_age: self.options.old_age,
            total: grouped.total(),
            processes: processes
                .map(|(snapshot, sums)| ProcessRow::new(snapshot, sums.clone()))
                .collect(),
            more_sites: sites.len() - rows.len(),
            sites: rows,
            suppressed,
            few,
            high_water: self.high_water_report(),
        }
    }

    /// From now on these snapshots are the mark.
    pub fn set_mark(&mut self, snapshots: &[Snapshot]) {
        self.mark.set(snapshots);
        self.mark_time = snapshots.iter().map(|it| it.real_time).max();
    }

    /// Forgets the mark and the trends, because other processes are watched from now on.
    pub fn start_anew(&mut self) {
        self.mark = Mark::default();
        self.mark_time = None;
        self.history = History::default();
    }

    fn group(&self, snapshots: &[Snapshot]) -> Sites {
        let grouping = Grouping {
            old_age: self.options.old_age,
            mark: &self.mark,
            known: &self.known,
        };
        Sites::new(snapshots, &grouping)
    }

    /// The first sites, named.
    fn rows(&mut self, snapshots: &[Snapshot], sites: &[&Site]) -> Vec<SiteRow> {
        let top = &sites[..sites.len().min(self.options.top)];
        let mut stacks: Vec<Vec<Frame>> = vec![Vec::new(); top.len()];
        for (place, snapshot) in snapshots.iter().enumerate() {
            let here: Vec<usize> = (0..top.len())
                .filter(|it| top[*it].example.0 == place)
                .collect();
            let ids: Vec<u32> = here.iter().map(|it| top[*it].example.1).collect();
            for (index, stack) in here.into_iter().zip(self.names.stacks(snapshot, &ids)) {
                stacks[index] = stack;
            }
        }
        if self.headlines.len() > MAX_HEADLINES {
            self.headlines.clear();
        }
        for (site, stack) in top.iter().zip(&stacks) {
            let headline = || headline(&self.glue, stack);
            self.headlines.entry(site.key).or_insert_with(headline);
        }
        let processes: Vec<u32> = snapshots.iter().map(|it| it.process).collect();
        let row = |(site, stack): (&&Site, _)| {
            let (trend, evidence) = self.history.trend(site.key, has_gained(site));
            SiteRow {
                trend,
                evidence,
                history: self.history.bytes(site.key),
                headline: self.headlines.get(&site.key).copied().unwrap_or(0),
                ..SiteRow::new(site, &processes, stack)
            }
        };
        top.iter().zip(stacks).map(row).collect()
    }

    /// The sites that no rule suppresses, and the sums of the others.
    fn unsuppressed<'s>(
        &mut self,
        snapshots: &[Snapshot],
        sites: &'s [Site],
    ) -> (Vec<&'s Site>, Together) {
        let mut suppressed = Together::default();
        if self.options.suppressions.is_empty() {
            return (sites.iter().collect(), suppressed);
        }
        let present: FxHashSet<SiteKey> = sites.iter().map(|it| it.key).collect();
        self.rules.retain(|key, _| present.contains(key));
        for (place, snapshot) in snapshots.iter().enumerate() {
            let here = sites.iter().filter(|it| it.example.0 == place);
            self.match_rules(snapshot, here.map(|it| it.example.1));
        }
        let mut kept = Vec::new();
        for site in sites {
            match self.rules.get(&site.key) {
                Some(true) => suppressed.add(&site.sums.live),
                _ => kept.push(site),
            }
        }
        (kept, suppressed)
    }

    /// Those of these stacks of a process that a rule suppresses.
    pub fn suppressed_stacks(
        &mut self,
        snapshot: &Snapshot,
        mut stacks: FxHashSet<u32>,
    ) -> FxHashSet<u32> {
        if self.options.suppressions.is_empty() {
            return FxHashSet::default();
        }
        self.match_rules(snapshot, stacks.iter().copied());
        stacks.retain(|it| self.rules.get(&snapshot.key_of_stack(*it)) == Some(&true));
        stacks
    }

    /// Matches those of these stacks of a process that are new with the rules.
    fn match_rules(&mut self, snapshot: &Snapshot, stacks: impl Iterator<Item = u32>) {
        let is_new = |it: &u32| !self.rules.contains_key(&snapshot.key_of_stack(*it));
        let new: Vec<u32> = stacks.filter(is_new).collect();
        for ids in new.chunks(AT_ONCE) {
            for (id, stack) in ids.iter().zip(self.names.stacks(snapshot, ids)) {
                let is_suppressed = is_suppressed(&self.options.suppressions, &stack);
                self.rules.insert(snapshot.key_of_stack(*id), is_suppressed);
            }
        }
    }

    /// Hides the old blocks of these snapshots from later reports.
    pub fn hide_old(&mut self, snapshots: &[Snapshot]) {
        for snapshot in snapshots {
            let old = snapshot.state.samples.iter();
            let old = old.filter(|it| snapshot.age(it) >= self.options.old_age);
            let known = self.known.entry(snapshot.instance()).or_default();
            known.extend(old.map(block));
        }
    }

    /// Whether a block was hidden.
    pub fn is_hidden(&self, snapshot: &Snapshot, block: Block) -> bool {
        let known = self.known.get(&snapshot.instance());
        known.is_some_and(|it| it.contains(&block))
    }

    /// Forgets what belongs to processes and blocks that are gone.
    fn forget_others(&mut self, snapshots: &[Snapshot]) {
        let mut live = FxHashMap::default();
        for snapshot in snapshots {
            let blocks: FxHashSet<Block> = snapshot.state.samples.iter().map(block).collect();
            live.insert(snapshot.instance(), blocks);
        }
        self.mark.keep(|it| live.contains_key(it));
        self.known.retain(|it, blocks| {
            let live = live.get(it);
            blocks.retain(|block| live.is_some_and(|it| it.contains(block)));
            live.is_some()
        });
    }

    /// Keeps these snapshots if more is live than ever before. Call it with every snapshot, before
    /// [`Watch::report`]: no report has more live bytes than its high-water mark.
    pub fn keep_high_water(&mut self, snapshots: &Rc<Vec<Snapshot>>) {
        let Some(least) = self.options.high_water else {
            return;
        };
        let live = snapshots.iter().filter_map(|it| it.state.live());
        let bytes: f64 = live.map(|it| it.bytes().value).sum();
        let most = self.high_water.as_ref().map_or(0.0, |it| it.bytes);
        if bytes > most && bytes >= least as f64 {
            self.high_water = Some(Kept {
                bytes,
                snapshots: Rc::clone(snapshots),
                is_new: true,
            });
        }
    }

    /// The snapshots at the high-water mark.
    pub fn high_water(&self) -> Option<Rc<Vec<Snapshot>>> {
        self.high_water.as_ref().map(|it| Rc::clone(&it.snapshots))
    }

    fn high_water_report(&mut self) -> Option<HighWater> {
        let kept = self.high_water.as_mut()?;
        let (is_new, snapshots) = (std::mem::take(&mut kept.is_new), Rc::clone(&kept.snapshots));
        let grouped = self.group(&snapshots);
        let (sites, _) = self.unsuppressed(&snapshots, &grouped.sites);
        let (sites, _) = without_few(sites);
        Some(HighWater {
            real_time: snapshots
                .iter()
                .map(|it| it.real_time)
                .max()
                .unwrap_or_default(),
            is_new,
            total: grouped.total(),
            sites: self.rows(&snapshots, &sites),
        })
    }
}

/// Whether a site has gained bytes since the mark whatever is not known of older blocks.
fn has_gained(site: &Site) -> bool {
    site.sums.grown_bytes().low > 0.0
}

/// The place in a stack of the frame that stands for it.
fn headline(glue: &Glue, stack: &[Frame]) -> usize {
    let frames = stack.iter().map(|frame| {
        let module = &*frame.module.module;
        (frame, module.rsplit('/').next().unwrap_or_default())
    });
    allotrope_attribution::headline(glue, frames)
}

fn is_suppressed(suppressions: &Suppressions, stack: &[Frame]) -> bool {
    let frame = |index: u32| {
        let frame = stack.get(index as usize)?;
        let module = (&*frame.module.module).into();
        // Only built-in rules ask for the origin, and none of these is used.
        Some(FrameText::new(frame, module, Origin::Library))
    };
    let indexes: Vec<u32> = (0..stack.len() as u32).collect();
    Matcher::new(suppressions, frame).rule(&indexes).is_some()
}
