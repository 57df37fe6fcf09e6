//! What a watcher remembers between looks: the mark, the trends, the blocks that are known, the
//! high-water mark, which stacks are suppressed.

use std::rc::Rc;

use allotrope_attribution::{Code, FrameText, Glue, Heads, Matcher, Origin, Suppressions};
use allotrope_symbols::Locator;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::history::{History, Point};
use crate::look::{Keys, Look, SiteKey};
use crate::names::{NamedFrame, Names};
use crate::report::{HighWater, ProcessRow, Report, SiteRow, Suppressed};
use crate::sites::{Block, Grouping, Instance, Mark, Site, Sites, block};

/// Stacks that are matched with the suppressions at once: their frames are in memory.
const AT_ONCE: usize = 64;
/// Most sites whose headline is remembered.
const REMEMBERED: usize = 1 << 16;

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

/// The looks at the high-water mark.
#[derive(Debug)]
struct Kept {
    bytes: f64,
    looks: Rc<Vec<Look>>,
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

    /// The report of these looks, which are one for each process. The first is the mark.
    pub fn report(&mut self, looks: &[Look]) -> Report {
        if self.mark_time.is_none() {
            self.mark.set(looks);
            self.mark_time = looks.iter().map(|it| it.real_time).max();
        }
        self.forget_others(looks);
        self.names.open(looks);
        let grouped = self.group(looks);
        let points = grouped.sites.iter().map(|site| {
            let point = Point {
                bytes: site.sums.live.bytes().value,
                samples: site.sums.live.samples(),
            };
            (site.key, point)
        });
        self.history.add(&points.collect());
        let (sites, suppressed) = self.unsuppressed(looks, &grouped.sites);
        let rows = self.rows(looks, &sites);
        let processes = looks.iter().zip(&grouped.processes);
        Report {
            real_time: looks
                .iter()
                .map(|it| it.real_time)
                .max()
                .unwrap_or_default(),
            mark_time: self.mark_time,
            old_age: self.options.old_age,
            total: grouped.total(),
            processes: processes
                .map(|(look, sums)| ProcessRow::new(look, sums.clone()))
                .collect(),
            more_sites: sites.len() - rows.len(),
            sites: rows,
            suppressed,
            high_water: self.high_water_report(),
        }
    }

    /// From now on these looks are the mark.
    pub fn set_mark(&mut self, looks: &[Look]) {
        self.mark.set(looks);
        self.mark_time = looks.iter().map(|it| it.real_time).max();
    }

    /// Forgets the mark and the trends, because other processes are watched from now on.
    pub fn start_anew(&mut self) {
        self.mark = Mark::default();
        self.mark_time = None;
        self.history = History::default();
    }

    fn group(&self, looks: &[Look]) -> Sites {
        let grouping = Grouping {
            old_age: self.options.old_age,
            mark: &self.mark,
            known: &self.known,
        };
        Sites::new(looks, &grouping)
    }

    /// The first sites, named.
    fn rows(&mut self, looks: &[Look], sites: &[&Site]) -> Vec<SiteRow> {
        let top = &sites[..sites.len().min(self.options.top)];
        let mut stacks: Vec<Vec<NamedFrame>> = vec![Vec::new(); top.len()];
        for (place, look) in looks.iter().enumerate() {
            let here: Vec<usize> = (0..top.len())
                .filter(|it| top[*it].example.0 == place)
                .collect();
            let ids: Vec<u32> = here.iter().map(|it| top[*it].example.1).collect();
            for (index, stack) in here.into_iter().zip(self.names.stacks(look, &ids)) {
                stacks[index] = stack;
            }
        }
        if self.headlines.len() > REMEMBERED {
            self.headlines.clear();
        }
        for (site, stack) in top.iter().zip(&stacks) {
            let headline = || headline(&self.glue, stack);
            self.headlines.entry(site.key).or_insert_with(headline);
        }
        let process = |place: usize| looks.get(place).map_or(0, |it| it.process);
        let row = |(site, stack): (&&Site, _)| {
            let site = *site;
            let processes = site
                .processes
                .iter()
                .map(|(place, it)| (process(*place), *it));
            let mut processes: Vec<_> = processes.collect();
            processes.sort_by_key(|(process, _)| *process);
            SiteRow {
                sums: site.sums.clone(),
                smallest: site.smallest(),
                oldest: site.oldest,
                trend: self.history.trend(site.key),
                key: site.key,
                history: self.history.bytes(site.key),
                processes,
                stack,
                headline: self.headlines.get(&site.key).copied().unwrap_or(0),
            }
        };
        top.iter().zip(stacks).map(row).collect()
    }

    /// The sites that no rule suppresses, and the sums of the others.
    fn unsuppressed<'s>(
        &mut self,
        looks: &[Look],
        sites: &'s [Site],
    ) -> (Vec<&'s Site>, Suppressed) {
        let mut suppressed = Suppressed::default();
        if self.options.suppressions.is_empty() {
            return (sites.iter().collect(), suppressed);
        }
        self.find_rules(looks, sites);
        let (mut kept, rules) = (Vec::new(), &self.rules);
        for site in sites {
            match rules.get(&site.key) {
                Some(true) => suppressed.add(&site.sums.live),
                _ => kept.push(site),
            }
        }
        (kept, suppressed)
    }

    /// Matches the sites that are new with the rules.
    fn find_rules(&mut self, looks: &[Look], sites: &[Site]) {
        let present: FxHashSet<SiteKey> = sites.iter().map(|it| it.key).collect();
        self.rules.retain(|key, _| present.contains(key));
        for (place, look) in looks.iter().enumerate() {
            let is_new = |it: &&Site| it.example.0 == place && !self.rules.contains_key(&it.key);
            let new: Vec<&Site> = sites.iter().filter(is_new).collect();
            for sites in new.chunks(AT_ONCE) {
                let ids: Vec<u32> = sites.iter().map(|it| it.example.1).collect();
                let stacks = self.names.stacks(look, &ids);
                for (site, stack) in sites.iter().zip(&stacks) {
                    let is_suppressed = is_suppressed(&self.options.suppressions, stack);
                    self.rules.insert(site.key, is_suppressed);
                }
            }
        }
    }

    /// Those of these stacks of a process that a rule suppresses.
    pub fn suppressed_stacks(&mut self, look: &Look, stacks: &FxHashSet<u32>) -> FxHashSet<u32> {
        if self.options.suppressions.is_empty() {
            return FxHashSet::default();
        }
        let (known, new): (Vec<u32>, Vec<u32>) = stacks
            .iter()
            .partition(|it| self.rules.contains_key(&look.key_of_stack(**it)));
        let rule = |it: &u32| self.rules.get(&look.key_of_stack(*it)) == Some(&true);
        let mut suppressed: FxHashSet<u32> = known.into_iter().filter(rule).collect();
        for ids in new.chunks(AT_ONCE) {
            for (id, stack) in ids.iter().zip(self.names.stacks(look, ids)) {
                if is_suppressed(&self.options.suppressions, &stack) {
                    suppressed.insert(*id);
                }
            }
        }
        suppressed
    }

    /// Hides the old blocks of these looks from later reports.
    pub fn hide_old(&mut self, looks: &[Look]) {
        for look in looks {
            let old = look.state.samples.iter();
            let old = old.filter(|it| look.age(it) >= self.options.old_age);
            let known = self.known.entry(look.instance()).or_default();
            known.extend(old.map(block));
        }
    }

    /// Whether a block was hidden.
    pub fn is_hidden(&self, look: &Look, block: Block) -> bool {
        let known = self.known.get(&look.instance());
        known.is_some_and(|it| it.contains(&block))
    }

    /// Forgets what belongs to processes and blocks that are gone.
    fn forget_others(&mut self, looks: &[Look]) {
        let mut live = FxHashMap::default();
        for look in looks {
            let blocks: FxHashSet<Block> = look.state.samples.iter().map(block).collect();
            live.insert(look.instance(), blocks);
        }
        self.mark.keep(|it| live.contains_key(it));
        self.known.retain(|it, blocks| {
            let live = live.get(it);
            blocks.retain(|block| live.is_some_and(|it| it.contains(block)));
            live.is_some()
        });
    }

    /// Keeps these looks if more is live than ever before. Call it with every look, before
    /// [`Watch::report`]: no report has more live bytes than its high-water mark.
    pub fn keep_high_water(&mut self, looks: &Rc<Vec<Look>>) {
        let Some(least) = self.options.high_water else {
            return;
        };
        let live = looks.iter().filter_map(|it| it.state.live());
        let bytes: f64 = live.map(|it| it.bytes().value).sum();
        let most = self.high_water.as_ref().map_or(0.0, |it| it.bytes);
        if bytes > most && bytes >= least as f64 {
            self.high_water = Some(Kept {
                bytes,
                looks: Rc::clone(looks),
                is_new: true,
            });
        }
    }

    /// The looks at the high-water mark.
    pub fn high_water(&self) -> Option<Rc<Vec<Look>>> {
        self.high_water.as_ref().map(|it| Rc::clone(&it.looks))
    }

    fn high_water_report(&mut self) -> Option<HighWater> {
        let kept = self.high_water.as_mut()?;
        let (is_new, looks) = (std::mem::take(&mut kept.is_new), Rc::clone(&kept.looks));
        let grouped = self.group(&looks);
        let (sites, _) = self.unsuppressed(&looks, &grouped.sites);
        Some(HighWater {
            real_time: looks
                .iter()
                .map(|it| it.real_time)
                .max()
                .unwrap_or_default(),
            is_new,
            total: grouped.total(),
            sites: self.rows(&looks, &sites),
        })
    }
}

/// The place in a stack of the frame that stands for it.
fn headline(glue: &Glue, stack: &[NamedFrame]) -> usize {
    let code = |frame: &NamedFrame| -> Code {
        let module = frame.module.rsplit('/').next().unwrap_or_default();
        let named = allotrope_symbols::NamedFrame::<()> {
            function: frame.function.clone(),
            signature: frame.signature.clone(),
            file: frame.file.clone(),
            ..Default::default()
        };
        glue.code(&named, module)
    };
    let codes: Vec<Code> = stack.iter().map(code).collect();
    Heads::of(codes.into_iter()).headline as usize
}

fn is_suppressed(suppressions: &Suppressions, stack: &[NamedFrame]) -> bool {
    let frame = |index: u32| {
        let frame = stack.get(index as usize)?;
        Some(FrameText {
            function: &frame.function,
            signature: &frame.signature,
            file: &frame.file,
            module: (&*frame.module).into(),
            // Only built-in rules ask for it, and none of these is used.
            origin: Origin::Library,
        })
    };
    let indexes: Vec<u32> = (0..stack.len() as u32).collect();
    Matcher::new(suppressions, frame).rule(&indexes).is_some()
}
