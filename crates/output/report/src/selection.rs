//! Selects the sites that a text shows, and merges sites that would look the same into
//! one row.

use std::hash::Hasher;

use allotrope_attribution::{Attributed, Headlines, Rule};
use allotrope_profile::{Filter, Frame, Lifetimes, Metric, MetricValues, Process, Profile, Site};
use allotrope_trace::model::{ImageId, StackId};
use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHasher};

use crate::suppressed::RuleFinder;
use crate::text::options::{Blocks, TextOptions};

/// The metrics that a report has a list for, in the order in which it shows
/// them.
pub const LISTED: [Metric; 5] = [
    Metric::Allocations,
    Metric::Bytes,
    Metric::PeakBytes,
    Metric::LeakedBytes,
    Metric::Temporary,
];

/// The metrics of some sites together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    metrics: MetricValues,
    pub lifetimes: Lifetimes,
}

impl Figures {
    /// The metrics of those blocks of a site that are selected. A recording does not
    /// contain which of the blocks at the peak were freed later, so all blocks at the
    /// peak are included.
    fn of(site: &Site, blocks: Blocks) -> Self {
        let mut metrics = site.metrics();
        let leaked = [site.leaked_allocations, site.leaked_bytes];
        let mut set = |metric: Metric, value: u64| metrics[metric as usize] = value;
        match blocks {
            Blocks::All => {}
            Blocks::Leaked => {
                set(Metric::Allocations, leaked[0]);
                set(Metric::Bytes, leaked[1]);
                set(Metric::Temporary, 0);
            }
            Blocks::Freed => {
                set(
                    Metric::Allocations,
                    site.allocations.saturating_sub(leaked[0]),
                );
                set(
                    Metric::Bytes,
                    site.allocated_bytes.saturating_sub(leaked[1]),
                );
                set(Metric::LeakedAllocations, 0);
                set(Metric::LeakedBytes, 0);
            }
        }
        Self {
            metrics,
            lifetimes: site.lifetimes,
        }
    }

    /// These without the leaked blocks: what is left of a site that is suppressed.
    fn without_leaked(mut self, blocks: Blocks) -> Self {
        let mut clear = |metric: Metric| self.metrics[metric as usize] = 0;
        clear(Metric::LeakedAllocations);
        clear(Metric::LeakedBytes);
        if blocks == Blocks::Leaked {
            clear(Metric::Allocations);
            clear(Metric::Bytes);
        }
        self
    }

    fn add(&mut self, other: &Self) {
        for (sum, value) in self.metrics.iter_mut().zip(other.metrics) {
            *sum = sum.saturating_add(value);
        }
        self.lifetimes.merge(&other.lifetimes);
    }

    /// The metric of these sites.
    pub(crate) fn value(&self, metric: Metric) -> u64 {
        self.metrics.get(metric as usize).copied().unwrap_or(0)
    }

    /// The number of blocks that the metric counts. It breaks ties, and distinguishes
    /// blocks of 0 bytes from no block.
    pub(crate) fn blocks(&self, metric: Metric) -> u64 {
        self.value(metric.counted_blocks())
    }

    /// Whether there is anything that the metric counts: blocks, or, where their number is not
    /// known, bytes.
    pub(crate) fn has(&self, metric: Metric) -> bool {
        self.blocks(metric) > 0 || self.value(metric) > 0
    }
}

/// A row of a list: sites of one process that look the same in it.
pub(crate) struct Row<'a> {
    pub process: &'a Process,
    /// Sites in the order of their numbers; the row shows the first number.
    pub sites: Vec<&'a Site>,
    /// The frames that are shown.
    pub stack: &'a [u32],
    /// The index in them of the frame that heads the row; above 0 if the user's own
    /// allocation wrappers are further in.
    pub headline: usize,
    pub figures: Figures,
    /// The figures by which it is ranked: without suppressed leaks.
    pub ranked: Figures,
    /// The sites whose leaks are suppressed, and by which rules.
    pub suppressed: Vec<(&'a Site, &'a Rule)>,
}

impl Row<'_> {
    pub(crate) fn number(&self) -> u32 {
        self.sites.first().map_or(0, |site| site.number)
    }
}

/// Properties of every frame, computed once: which of them head stacks, and numbers by
/// which stacks are compared.
struct FrameTable<'a> {
    profile: &'a Profile,
    headlines: &'a Headlines,
    /// By frame: frames with equal numbers look the same as the frame that heads a row.
    headline: Vec<u32>,
    /// Number of each frame: frames with equal numbers look the same as a caller.
    caller: Vec<u32>,
}

impl<'a> FrameTable<'a> {
    fn new(attributed: &'a Attributed<'a>) -> Self {
        let profile = attributed.profile;
        let mut headlines = FxHashMap::default();
        let mut callers = FxHashMap::default();
        let mut table = Self {
            profile,
            headlines: &attributed.headlines,
            headline: Vec::new(),
            caller: Vec::new(),
        };
        for frame in &profile.frames {
            let next = headlines.len() as u32;
            let line = (&frame.function, &frame.file, frame.line, frame.module);
            table.headline.push(*headlines.entry(line).or_insert(next));
            let next = callers.len() as u32;
            table
                .caller
                .push(*callers.entry(&frame.function).or_insert(next));
        }
        table
    }

    /// The stack from its innermost own frame on; from the best it has, if it has none.
    /// And the index in it of the frame that heads it.
    fn shown(&self, site: &'a Site, all_frames: bool) -> (&'a [u32], usize) {
        let (stack, first) = (&*site.stack, self.headlines.first_shown(site));
        match all_frames {
            true => (stack, 0),
            false => (&stack[first..], self.headlines.headline(site) - first),
        }
    }

    /// The key of a shown stack: stacks with equal keys look the same. It is as long as the
    /// stack, so it is not stored.
    fn key(
        &self,
        (shown, headline): (&'a [u32], usize),
    ) -> impl Iterator<Item = u32> + use<'a, '_> {
        let number = |of: &[u32], frame: u32| of.get(frame as usize).copied().unwrap_or(u32::MAX);
        let (head, callers) = shown.split_at(shown.len().min(headline + 1));
        let head = head.iter().map(move |&f| number(&self.headline, f));
        let callers = callers.iter().map(move |&f| number(&self.caller, f));
        head.chain(callers)
    }

    fn hash(&self, shown: (&'a [u32], usize)) -> u64 {
        let mut hasher = FxHasher::default();
        self.key(shown).for_each(|number| hasher.write_u32(number));
        hasher.finish()
    }

    fn matches(&self, stack: &[u32], filter: &Filter) -> bool {
        let frames = stack
            .iter()
            .filter_map(|&f| self.profile.frames.get(f as usize));
        frames.into_iter().any(|frame: &Frame| {
            filter.matches(
                &frame.function,
                &frame.file,
                &self.profile.module_name(frame),
            )
        })
    }
}

/// The rows that the options select, in the order of their numbers.
pub(crate) fn rows<'a>(attributed: &'a Attributed<'a>, options: &'a TextOptions) -> Vec<Row<'a>> {
    let mut rules = RuleFinder::new(attributed, &options.suppressions);
    let table = FrameTable::new(attributed);
    let mut rows: Vec<Row<'a>> = Vec::new();
    for process in processes(attributed.profile, options) {
        // By key: its hash and the index of its row.
        let mut by_key: HashTable<(u64, usize)> = HashTable::new();
        for site in &process.sites {
            let filter = options.filter.as_ref();
            if filter.is_some_and(|filter| !table.matches(&site.stack, filter)) {
                continue;
            }
            let figures = Figures::of(site, options.blocks);
            if options.known.has(Metric::Allocations) && figures.value(Metric::Allocations) == 0 {
                continue;
            }
            let rule = rules.rule(site);
            let ranked = match rule {
                Some(_) => figures.clone().without_leaked(options.blocks),
                None => figures.clone(),
            };
            let suppressed = rule.map(|rule| (site, rule));
            let shown = table.shown(site, options.all_frames);
            let hash = table.hash(shown);
            let is_same = |&(of_row, row): &(u64, usize)| {
                let same = &rows[row];
                of_row == hash && table.key((same.stack, same.headline)).eq(table.key(shown))
            };
            let (_, row) = *by_key
                .entry(hash, is_same, |&(of_row, _)| of_row)
                .or_insert((hash, rows.len()))
                .get();
            match rows.get_mut(row) {
                Some(row) => {
                    row.figures.add(&figures);
                    row.ranked.add(&ranked);
                    row.suppressed.extend(suppressed);
                    row.sites.push(site);
                }
                None => rows.push(Row {
                    process,
                    sites: vec![site],
                    stack: shown.0,
                    headline: shown.1,
                    figures,
                    ranked,
                    suppressed: suppressed.into_iter().collect(),
                }),
            }
        }
    }
    rows
}

/// The processes that the options select.
pub(crate) fn processes<'a>(
    profile: &'a Profile,
    options: &TextOptions,
) -> impl Iterator<Item = &'a Process> + use<'a> {
    let wanted = options.process;
    let all = profile.processes.iter();
    all.filter(move |process| wanted.is_none_or(|id| process.id == id))
}

/// Sum over rows.
pub(crate) fn sum(rows: &[Row<'_>]) -> Figures {
    let mut sum = Figures::default();
    for row in rows {
        sum.add(&row.figures);
    }
    sum
}

/// The options by which the rows that a site belongs to are found: those of the lists
/// without what selects rows, so that the number of every site can be asked for.
pub(crate) fn options_of_site(
    profile: &Profile,
    number: u32,
    options: &TextOptions,
) -> Option<TextOptions> {
    let (process, _) = profile.site(number)?;
    Some(TextOptions {
        process: Some(process.id),
        all_frames: options.all_frames,
        suppressions: options.suppressions.clone(),
        ..TextOptions::default()
    })
}

/// The sites (image, stack id) of the row that has this number; empty if no site
/// has it.
pub fn sites_of_row(
    attributed: &Attributed<'_>,
    number: u32,
    options: &TextOptions,
) -> Vec<(ImageId, StackId)> {
    let Some(options) = options_of_site(attributed.profile, number, options) else {
        return Vec::new();
    };
    let Some(row) = row_of(attributed, number, &options) else {
        return Vec::new();
    };
    let of_site = |site: &&Site| (row.process.id, site.stack_id);
    row.sites.iter().map(of_site).collect()
}

/// The row that the site of this number is in, among the rows of [`options_of_site`].
pub(crate) fn row_of<'a>(
    attributed: &'a Attributed<'a>,
    number: u32,
    options: &'a TextOptions,
) -> Option<Row<'a>> {
    let mut rows = rows(attributed, options).into_iter();
    rows.find(|row| row.sites.iter().any(|site| site.number == number))
}
