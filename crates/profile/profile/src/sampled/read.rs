//! Reads the records of a sampled profile.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use allotrope_sampling::Period;
use allotrope_trace::model::{Exit, ImageId, Record, SampleTotal, Sampling, StackId};
use allotrope_trace::{Source, TraceReader};
use rustc_hash::FxHashMap;

use super::{
    MAX_SAMPLES, SampledError, SampledFigures, SampledProcess, SampledProfile, SampledTime,
};
use crate::frames::{Code, FrameTable};
use crate::index::{Image, index};
use crate::metric::Metric;
use crate::model::{Process, Profile, Site, Totals};
use crate::source::{MemoryTrace, SourceEntry, TraceSource};
use crate::stack::{Stack, Stacks};

/// Largest number of frames of all stacks together, 128 MiB. Stacks after that have none.
const MAX_FRAMES: usize = 1 << 25;

/// What was read of an image's samples.
struct Sampled {
    sampling: Sampling,
    /// The longest period of its samples, which may exceed the one that the process states:
    /// a hostile file.
    longest: Option<Period>,
    /// Sampling was off at some time.
    has_gap: bool,
    totals: Option<SampledFigures>,
    sites: FxHashMap<StackId, SampledFigures>,
}

impl Sampled {
    /// Of an image that began at this tick.
    fn new(sampling: Sampling, began: u64) -> Self {
        let longest = Period::new(sampling.longest_period);
        let mut sampled = Self {
            sampling,
            longest,
            has_gap: sampling.times.is_some_and(|it| !it.are_complete(began)),
            totals: None,
            sites: FxHashMap::default(),
        };
        sampled.totals = longest.map(|it| sampled.opened(SampledFigures::total(it)));
        sampled
    }

    fn opened(&self, mut figures: SampledFigures) -> SampledFigures {
        if self.has_gap {
            figures.open_upwards();
        }
        figures
    }

    /// Adds to the figures of the image and to those of a stack.
    fn add(&mut self, stack: StackId, period: u64, add: impl Fn(&mut SampledFigures, Period)) {
        // The reader of the record has checked it.
        let Some(period) = Period::new(period) else {
            return;
        };
        let longest = *self.longest.get_or_insert(period);
        let none = self.opened(SampledFigures::total(longest));
        let of_site = self.opened(SampledFigures::of_site(longest));
        add(self.totals.get_or_insert(none), period);
        add(self.sites.entry(stack).or_insert(of_site), period);
    }

    fn add_total(&mut self, it: &SampleTotal) {
        let sizes = (it.smallest, it.largest);
        self.add(it.stack, it.period, |figures, period| {
            let SampledFigures {
                allocated, freed, ..
            } = figures;
            allocated.add_sum(it.allocated, it.allocated_bytes, sizes, period);
            freed.add_sum(it.freed, it.freed_bytes, sizes, period);
        });
    }
}

impl SampledProfile {
    /// Reads a sampled profile.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is not whole.
    pub fn read<S: Source>(trace: &TraceReader<S>) -> Result<Self, SampledError> {
        match trace.cut_at() {
            Some(cut) => Err(SampledError::NotWhole(cut)),
            None => Self::of(trace),
        }
    }

    /// Takes the records of a sampled profile that is in no file.
    ///
    /// # Errors
    /// If there are more samples than processes can have.
    pub fn of_records(records: Vec<Record>) -> Result<Self, SampledError> {
        Self::of(&MemoryTrace { records, cut: None })
    }

    fn of<S: TraceSource>(source: &S) -> Result<Self, SampledError> {
        let mut sampled = samples(source)?;
        let (index, _) = index(source)?;
        let mut table = FrameTable::new(&index.modules, index.symbols);
        let mut profile = Profile::default();
        let (mut processes, mut frames, mut numbers) = (Vec::new(), 0, 1..);
        for (id, image) in &index.images {
            let Some(of_image) = sampled.remove(id) else {
                continue;
            };
            let stacks = stacks(image, &of_image, &mut table, &mut frames);
            let mut sites: Vec<_> = stacks.into_iter().map(site).collect();
            sites.sort_by_cached_key(|(site, _)| {
                let order = Reverse((site.leaked_bytes, site.allocated_bytes));
                (order, site.stack.clone())
            });
            for ((site, _), number) in sites.iter_mut().zip(&mut numbers) {
                site.number = number;
            }
            let (sites, figures) = sites.into_iter().unzip();
            let us = |tick| index.timeline.ns(tick) / 1000;
            let started_us = us(image.start.tick);
            let read_us = image.end.map_or(started_us, |end| us(end.tick));
            profile.processes.push(Process {
                id: *id,
                pid: image.start.pid,
                parent_pid: image.start.parent_pid,
                executable: image.start.executable.clone(),
                command: image.start.command.clone(),
                started_us,
                duration_us: read_us.saturating_sub(started_us),
                exit: image.end.map_or(Exit::Unknown, |end| end.exit),
                complete: true,
                totals: of_image.totals.as_ref().map(totals).unwrap_or_default(),
                sites,
                ..Process::default()
            });
            let known = |tick: u64| (tick != 0).then(|| us(tick));
            processes.push(SampledProcess {
                sampling: of_image.sampling,
                on: of_image.sampling.times.map(|it| SampledTime {
                    since_us: known(it.on_since),
                    until_us: known(it.off_since),
                    is_complete: !of_image.has_gap,
                }),
                totals: of_image.totals,
                sites: figures,
            });
        }
        (profile.modules, profile.frames) = table.finish();
        profile.recording = index.recording;
        Ok(Self { profile, processes })
    }
}

/// A site, whose figures are rounded, with its samples.
fn site((stack, figures): (Stack, SampledFigures)) -> (Site, SampledFigures) {
    let site = Site {
        stack,
        allocations: figures.rounded(Metric::Allocations),
        allocated_bytes: figures.rounded(Metric::Bytes),
        leaked_allocations: figures.rounded(Metric::LeakedAllocations),
        leaked_bytes: figures.rounded(Metric::LeakedBytes),
        ..Site::default()
    };
    (site, figures)
}

fn totals(figures: &SampledFigures) -> Totals {
    Totals {
        allocations: figures.rounded(Metric::Allocations),
        allocated_bytes: figures.rounded(Metric::Bytes),
        leaked_allocations: figures.rounded(Metric::LeakedAllocations),
        leaked_bytes: figures.rounded(Metric::LeakedBytes),
        ..Totals::default()
    }
}

/// The stacks of an image with their figures.
fn stacks<H>(
    image: &Image<H>,
    of_image: &Sampled,
    table: &mut FrameTable,
    frames: &mut usize,
) -> Vec<(Stack, SampledFigures)> {
    let jit = image.jit_code.borrow();
    let code = Code::of(image, &jit);
    let mut ids: Vec<StackId> = of_image.sites.keys().copied().collect();
    ids.sort_unstable();
    let mut stacks = Stacks::default();
    for (at, &id) in ids.iter().enumerate() {
        if *frames < MAX_FRAMES {
            table.stack(&code, id, &mut stacks);
            *frames += stacks.get(at).len();
        } else {
            stacks.add(&[]);
        }
    }
    let order: Vec<u32> = (0..).take(ids.len()).collect();
    let figures = ids.iter().map(|id| of_image.sites[id]);
    stacks.into_stacks(&order).zip(figures).collect()
}

/// Adds up the samples of each image.
fn samples<S: TraceSource>(source: &S) -> Result<BTreeMap<ImageId, Sampled>, SampledError> {
    let mut images: BTreeMap<ImageId, Sampled> = BTreeMap::new();
    let mut began: FxHashMap<ImageId, u64> = FxHashMap::default();
    let mut number = 0_u64;
    source.visit(&mut |entry| {
        let SourceEntry::Record(record) = entry else {
            return Ok(());
        };
        number = number.saturating_add(match &record {
            Record::Samples { samples, .. } => samples.len() as u64,
            Record::SampleTotals { totals, .. } => totals.len() as u64,
            _ => 0,
        });
        if number > MAX_SAMPLES {
            return Ok(());
        }
        match record {
            Record::ImageStart(start) => {
                began.entry(start.image).or_insert(start.tick);
            }
            Record::Sampling(sampling) => {
                let image = images.entry(sampling.image);
                let began = began.get(&sampling.image).copied().unwrap_or(0);
                image.or_insert_with(|| Sampled::new(sampling, began));
            }
            Record::Samples { image, samples } => {
                let Some(image) = images.get_mut(&image) else {
                    return Ok(());
                };
                for it in samples {
                    image.add(it.stack, it.period, |figures, period| {
                        figures.live.add(it.size, period);
                    });
                }
            }
            Record::SampleTotals { image, totals } => {
                let Some(image) = images.get_mut(&image) else {
                    return Ok(());
                };
                totals.iter().for_each(|total| image.add_total(total));
            }
            _ => {}
        }
        Ok(())
    })?;
    match number > MAX_SAMPLES {
        true => Err(SampledError::TooMany),
        false => Ok(images),
    }
}
