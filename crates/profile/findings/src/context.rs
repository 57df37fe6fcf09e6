//! What the rules look at: a process, its groups of sites and their sums.

use std::cell::OnceCell;

use allotrope_attribution::{Attributed, Headlines, Matcher, Origin};
use allotrope_profile::{
    Evidence, GrowthEvidence, LIVE_AT_END, Process, Profile, Site, SiteEvidence, TimeCell,
    TimeTable,
};
use rustc_hash::FxHashMap;

use crate::FindingOptions;
use crate::curve::{Curve, Hump};
use crate::heads;

/// Frames of a path.
const PATH_FRAMES: usize = 4;

/// Sites of one process, and their sums.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    /// The number of the function of their headline frame.
    pub function: u32,
    /// Indexes into [`Process::sites`].
    pub sites: Vec<u32>,
    pub allocations: u64,
    pub bytes: u64,
    /// Temporary allocations, without the blocks that were reallocated.
    pub temporary: u64,
    pub leaked: u64,
    pub leaked_bytes: u64,
    pub peak_blocks: u64,
    pub peak_bytes: u64,
    pub freed: u64,
    pub growth: GrowthEvidence,
    /// How often one of its sites had no live block any more.
    pub emptied: u64,
    pub smallest: u64,
    pub largest: u64,
}

impl Group {
    fn add(&mut self, index: u32, site: &Site, evidence: &SiteEvidence) {
        if self.sites.is_empty() {
            self.smallest = u64::MAX;
        }
        self.sites.push(index);
        self.allocations += site.allocations;
        self.bytes = self.bytes.saturating_add(site.allocated_bytes);
        let replaced = evidence.reallocated_temporary;
        self.temporary += site.temporary_allocations.saturating_sub(replaced);
        self.leaked += site.leaked_allocations;
        self.leaked_bytes = self.leaked_bytes.saturating_add(site.leaked_bytes);
        self.peak_blocks += site.allocations_at_peak;
        self.peak_bytes = self.peak_bytes.saturating_add(site.bytes_at_peak);
        self.freed += evidence.freed;
        self.growth.merge(&evidence.growth);
        self.emptied += site.emptied;
        self.smallest = self.smallest.min(evidence.smallest);
        self.largest = self.largest.max(evidence.largest);
    }
}

/// The start of the first bucket with an allocation, and the end of the last one in which
/// anything was allocated or freed.
fn active(table: &TimeTable) -> [u64; 2] {
    let first = table.cells.iter().map(|cell| cell.allocated).min();
    let freed = table.cells.iter().map(|cell| match cell.freed {
        LIVE_AT_END => cell.allocated,
        freed => freed,
    });
    let last = freed.max().unwrap_or(0);
    let start = table.starts_ns.get(usize::from(first.unwrap_or(0)));
    let end = table.starts_ns.get(usize::from(last) + 1);
    [
        start.copied().unwrap_or(table.end_ns),
        end.copied().unwrap_or(table.end_ns),
    ]
}

/// What several rules ask for, and what takes a pass over the whole time table.
#[derive(Default)]
pub(crate) struct Cached {
    pub busy: OnceCell<f64>,
    pub hump: OnceCell<Option<Hump>>,
    /// What is live at the end of each bucket, and the largest number of bytes within it.
    pub live: OnceCell<Vec<(u64, u64)>>,
}

/// A process, as the rules look at it.
pub(crate) struct Context<'a> {
    attributed: &'a Attributed<'a>,
    pub profile: &'a Profile,
    pub process: &'a Process,
    pub table: &'a TimeTable,
    pub evidence: &'a Evidence,
    pub frames: &'a Headlines,
    pub options: &'a FindingOptions,
    /// By index in [`Process::sites`]: the index in its stack of the frame that findings name.
    heads: Vec<u32>,
    /// One for each function.
    pub groups: Vec<Group>,
    /// The same, with those that are parts of one object put together: see
    /// [`families`](crate::families), which sets them.
    pub families: Vec<Group>,
    pub(crate) cached: Cached,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Times of the first allocation and of the last event, in nanoseconds: without the time in
    /// which the program is loaded, which is half of a run of a few milliseconds.
    pub active_ns: [u64; 2],
}

impl<'a> Context<'a> {
    /// `None` if the profile has no evidence about the process, or it allocated nothing.
    pub(crate) fn new(
        attributed: &'a Attributed<'a>,
        process: &'a Process,
        options: &'a FindingOptions,
    ) -> Option<Self> {
        let table = process.times.as_ref()?;
        let evidence = process.evidence.as_ref()?;
        let start_ns = table.starts_ns.first().copied()?;
        let mut context = Self {
            attributed,
            profile: attributed.profile,
            process,
            table,
            evidence,
            frames: &attributed.headlines,
            options,
            heads: heads::of(attributed.profile, &process.sites, &attributed.headlines),
            groups: Vec::new(),
            families: Vec::new(),
            cached: Cached::default(),
            start_ns,
            end_ns: table.end_ns,
            active_ns: active(table),
        };
        let mut by_function: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for index in 0..process.sites.len() as u32 {
            let head = context.head(index);
            let function = head.map_or(u32::MAX, |head| context.frames.function(head));
            by_function.entry(function).or_default().push(index);
        }
        let groups = by_function.into_iter().map(|(function, sites)| Group {
            function,
            ..context.group(sites)
        });
        let mut groups: Vec<Group> = groups.collect();
        groups.sort_by_key(|group| group.sites.first().copied());
        context.groups = groups;
        Some(context)
    }

    /// Sites as a group.
    pub(crate) fn group(&self, sites: impl IntoIterator<Item = u32>) -> Group {
        let mut group = Group::default();
        for index in sites {
            if let Some(site) = self.process.sites.get(index as usize) {
                group.add(index, site, &self.evidence_of(index));
            }
        }
        if let Some(&first) = group.sites.first() {
            let head = self.head(first);
            group.function = head.map_or(u32::MAX, |head| self.frames.function(head));
        }
        group
    }

    pub(crate) fn site(&self, index: u32) -> &'a Site {
        &self.process.sites[index as usize]
    }

    pub(crate) fn evidence_of(&self, index: u32) -> SiteEvidence {
        let evidence = self.evidence.sites.get(index as usize);
        evidence.copied().unwrap_or_default()
    }

    /// The index in a site's stack of the frame that findings name.
    pub(crate) fn head_index(&self, site: u32) -> usize {
        self.heads[site as usize] as usize
    }

    /// The frame of a site that findings name.
    pub(crate) fn head(&self, site: u32) -> Option<u32> {
        let head = self.head_index(site);
        self.site(site).stack.get(head).copied()
    }

    /// The frames of the user's code from the one that findings name on, innermost first.
    pub(crate) fn own_frames(&self, site: u32) -> impl Iterator<Item = u32> + '_ {
        let stack = self.site(site).stack.iter();
        let own = stack.skip(self.head_index(site)).copied();
        own.filter(|&frame| self.frames.origin(frame) > Origin::UnnamedLibrary)
    }

    /// The first four of them.
    pub(crate) fn path(&self, site: u32) -> Vec<u32> {
        self.own_frames(site).take(PATH_FRAMES).collect()
    }

    /// How long the process ran, in nanoseconds.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns).max(1)
    }

    /// The live bytes at the peak of the process.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.process.totals.peak_bytes
    }

    /// When the peak was, in nanoseconds since the start of the recording.
    pub(crate) fn peak_ns(&self) -> u64 {
        self.start_ns
            .saturating_add(self.process.totals.peak_time_us.saturating_mul(1000))
    }

    pub(crate) fn allocations(&self) -> u64 {
        self.process.totals.allocations
    }

    /// The cells of these sites.
    pub(crate) fn cells(&self, sites: &[u32]) -> impl Iterator<Item = &'a TimeCell> + Clone {
        let table = self.table;
        sites.iter().flat_map(move |&site| table.cells_of(site))
    }

    pub(crate) fn curve(&self, sites: &[u32]) -> Curve {
        Curve::new(self.table, self.cells(sites))
    }

    /// The end of a bucket, in nanoseconds since the start of the recording.
    pub(crate) fn bucket_end_ns(&self, bucket: u16) -> u64 {
        let next = self.table.starts_ns.get(usize::from(bucket) + 1);
        next.copied().unwrap_or(self.end_ns)
    }

    /// The suppression by which the leaks of a site are expected.
    pub(crate) fn suppression(&self, site: u32) -> Option<&'a allotrope_attribution::Rule> {
        let text = |frame| self.attributed.text(frame);
        let mut matcher = Matcher::new(&self.options.suppressions, text);
        matcher.rule(&self.site(site).stack)
    }

    /// A thread, by its name or its number.
    pub(crate) fn thread_name(&self, thread: u32) -> String {
        match self.process.threads.get(thread as usize) {
            Some(thread) if thread.tid == self.process.pid => "the main thread".to_owned(),
            Some(thread) if !thread.name.is_empty() => {
                format!("thread {}", allotrope_text::shown(&thread.name))
            }
            Some(thread) => format!("thread {}", thread.tid),
            None => "a thread".to_owned(),
        }
    }
}
