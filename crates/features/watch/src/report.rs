//! A report: what the outputs show, in numbers and names.

use allotrope_sampling::Period;
use allotrope_sampling::estimate::Figures;
use allotrope_shm::samples::reader::Counters;

use crate::history::Trend;
use crate::names::Frame;
use crate::resident::Resident;
use crate::since::Since;
use crate::sites::{Site, Sums};
use crate::snapshot::{SiteKey, Snapshot};
use crate::verdict::Evidence;

/// What is live at one moment.
#[derive(Debug)]
pub struct Report {
    /// The moment, by `CLOCK_REALTIME`, in nanoseconds since 1970.
    pub real_time: u64,
    /// The moment of the mark, by the same clock.
    pub mark_time: Option<u64>,
    /// From this age on a block is old, in nanoseconds.
    pub old_age: u64,
    /// Of all processes together; `None`: sampling was never on.
    pub total: Option<Sums>,
    /// Of each process.
    pub processes: Vec<ProcessRow>,
    /// The stacks with most live bytes, these first.
    pub sites: Vec<SiteRow>,
    /// Number of further stacks.
    pub more_sites: usize,
    /// What is suppressed.
    pub suppressed: Together,
    /// The sites of which too few samples are live to say anything of one of them. They are not in `sites`.
    pub few: Together,
    /// When most was live.
    pub high_water: Option<HighWater>,
}

/// A process.
#[derive(Debug)]
pub struct ProcessRow {
    /// Its id.
    pub process: u32,
    /// The name of its executable.
    pub name: String,
    /// The period at which it samples; `None`: off.
    pub period: Option<Period>,
    /// When it was sampled; `None`: that is not known.
    pub since: Option<Since>,
    /// Its figures; `None`: sampling was never on.
    pub sums: Option<Sums>,
    /// Its resident memory; `None`: it has ended, or this is not known.
    pub resident: Option<Resident>,
    /// What was lost.
    pub counters: Counters,
    /// Parts of its memory that could not be read.
    pub unreadable: u64,
}

impl ProcessRow {
    pub(crate) fn new(snapshot: &Snapshot, sums: Option<Sums>) -> Self {
        Self {
            process: snapshot.process,
            name: snapshot.name(),
            period: snapshot.state.period,
            since: Some(Since::new(&snapshot.state)),
            sums,
            resident: snapshot.resident,
            counters: snapshot.state.counters,
            unreadable: snapshot.state.unstable + snapshot.state.malformed,
        }
    }

    /// Samples and stacks that are missing, because a table was full or damaged.
    pub fn lost(&self) -> u64 {
        self.counters.lost_samples.saturating_add(self.unreadable)
    }
}

/// A stack.
#[derive(Debug, Clone)]
pub struct SiteRow {
    /// Its figures.
    pub sums: Sums,
    /// The age of its oldest sample, in nanoseconds.
    pub oldest: u64,
    /// How it develops.
    pub trend: Trend,
    /// What shows that it grows.
    pub evidence: Option<Evidence>,
    /// The stack, while the watcher runs.
    pub key: SiteKey,
    /// Its live bytes at the snapshots that are kept, the oldest first; empty if it has no history.
    pub history: Vec<f64>,
    /// The processes that have it, with what is live there.
    pub processes: Vec<(u32, Figures)>,
    /// The frames, innermost first.
    pub stack: Vec<Frame>,
    /// The place in `stack` of the frame that stands for it: the innermost one of the user's own
    /// code that is no wrapper.
    pub headline: usize,
}

impl SiteRow {
    /// The smallest size that its blocks can have: blocks of one stack are alike.
    pub fn smallest(&self) -> u64 {
        self.sums.live.smallest_sample()
    }

    /// The row of a site with the names of its frames. `processes`: the ids of all processes, by index.
    pub(crate) fn new(site: &Site, processes: &[u32], stack: Vec<Frame>) -> Self {
        let id = |index: usize| processes.get(index).copied().unwrap_or(0);
        let live = site.processes.iter();
        let mut live: Vec<_> = live.map(|(index, it)| (id(*index), *it)).collect();
        live.sort_by_key(|(process, _)| *process);
        Self {
            sums: site.sums.clone(),
            oldest: site.oldest,
            trend: Trend::Unknown,
            evidence: None,
            key: site.key,
            history: Vec::new(),
            processes: live,
            stack,
            headline: 0,
        }
    }
}

/// Sites of which only the sums are reported.
#[derive(Debug, Default)]
pub struct Together {
    /// Their number.
    pub sites: usize,
    /// What is live there.
    pub live: Option<Figures>,
}

impl Together {
    pub(crate) fn add(&mut self, live: &Figures) {
        self.sites += 1;
        match &mut self.live {
            Some(sum) => sum.merge(live),
            None => self.live = Some(*live),
        }
    }
}

/// The moment at which most bytes were live.
#[derive(Debug)]
pub struct HighWater {
    /// The moment, by `CLOCK_REALTIME`, in nanoseconds since 1970.
    pub real_time: u64,
    /// It is later than the last report.
    pub is_new: bool,
    /// What was live.
    pub total: Option<Sums>,
    /// The stacks with most live bytes then.
    pub sites: Vec<SiteRow>,
}

/// The sites that have enough samples, and the others together.
pub(crate) fn without_few<'s>(
    sites: impl IntoIterator<Item = &'s Site>,
) -> (Vec<&'s Site>, Together) {
    let mut few = Together::default();
    let mut kept = Vec::new();
    for site in sites {
        match site.has_few_samples() {
            true => few.add(&site.sums.live),
            false => kept.push(site),
        }
    }
    (kept, few)
}
