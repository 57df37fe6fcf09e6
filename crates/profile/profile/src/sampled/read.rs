//! Reads the records of a sampled profile.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use allotrope_sampling::Period;
use allotrope_sampling::estimate::Figures;
use allotrope_trace::model::{ImageId, Record, SampleTotal, Sampling, StackId};
use allotrope_trace::{Entry, Source, TraceReader};
use rustc_hash::FxHashMap;

use super::{
    MAX_SAMPLES, SampledError, SampledFigures, SampledProcess, SampledProfile, SampledSite,
};
use crate::frames::{Code, FrameTable};
use crate::index::{Image, index};
use crate::stack::Stacks;

/// Largest number of frames of all stacks together, 128 MiB. Stacks after that have none.
const MAX_FRAMES: usize = 1 << 25;

/// What was read of an image's samples.
struct Sampled {
    sampling: Sampling,
    /// The longest period of its samples, which may exceed the one that the process states:
    /// a hostile file.
    longest: Option<Period>,
    totals: Option<SampledFigures>,
    sites: FxHashMap<StackId, SampledFigures>,
}

impl Sampled {
    fn new(sampling: Sampling) -> Self {
        let longest = Period::new(sampling.longest_period);
        Self {
            sampling,
            longest,
            totals: longest.map(SampledFigures::total),
            sites: FxHashMap::default(),
        }
    }

    /// Adds to the figures of the image and to those of a stack.
    fn add(&mut self, stack: StackId, period: u64, add: impl Fn(&mut SampledFigures, Period)) {
        // The reader of the record has checked it.
        let Some(period) = Period::new(period) else {
            return;
        };
        let longest = *self.longest.get_or_insert(period);
        let totals = self.totals.get_or_insert(SampledFigures::total(longest));
        add(totals, period);
        let site = self.sites.entry(stack);
        add(site.or_insert(SampledFigures::of_site(longest)), period);
    }

    fn add_total(&mut self, total: &SampleTotal) {
        let sets = [
            (total.allocated, total.allocated_bytes),
            (total.freed, total.freed_bytes),
        ];
        self.add(total.stack, total.period, |figures, period| {
            let [allocated, freed] = sets;
            add_alike(&mut figures.allocated, total, allocated, period);
            add_alike(&mut figures.freed, total, freed, period);
        });
    }
}

/// Adds samples by their mean size. The count and the sum may belong to different moments:
/// the mean stays within the sizes.
fn add_alike(figures: &mut Figures, total: &SampleTotal, sums: (u64, u64), period: Period) {
    let (count, bytes) = sums;
    if count > 0 {
        let mean = bytes as f64 / count as f64;
        let mean = mean.clamp(total.smallest as f64, total.largest as f64);
        figures.add_alike(count, mean, period);
    }
}

impl SampledProfile {
    /// Reads a sampled profile.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is not whole.
    pub fn read<S: Source>(trace: &TraceReader<S>) -> Result<Self, SampledError> {
        if let Some(cut) = trace.cut_at() {
            return Err(SampledError::NotWhole(cut));
        }
        let mut sampled = samples(trace)?;
        let (index, _) = index(trace)?;
        let mut table = FrameTable::new(&index.modules, index.symbols);
        let (mut processes, mut frames, mut numbers) = (Vec::new(), 0, 1..);
        for (id, image) in &index.images {
            let Some(of_image) = sampled.remove(id) else {
                continue;
            };
            let stacks = stacks(image, &of_image, &mut table, &mut frames);
            let mut sites: Vec<_> = stacks
                .into_iter()
                .map(|(stack, figures)| SampledSite {
                    number: 0,
                    stack,
                    figures,
                })
                .collect();
            sites.sort_by_cached_key(|site| {
                let rounded = |value: f64| Reverse(value.round() as u64);
                let live = rounded(site.figures.live.bytes().value);
                let allocated = rounded(site.figures.allocated.bytes().value);
                (live, allocated, site.stack.clone())
            });
            for (site, number) in sites.iter_mut().zip(&mut numbers) {
                site.number = number;
            }
            let ns = |tick| index.timeline.ns(tick);
            let began_ns = ns(image.start.tick);
            processes.push(SampledProcess {
                id: *id,
                pid: image.start.pid,
                parent_pid: image.start.parent_pid,
                executable: image.start.executable.clone(),
                command: image.start.command.clone(),
                began_ns,
                read_ns: image.end.map_or(began_ns, |end| ns(end.tick)),
                exit: image.end.map(|end| end.exit),
                sampling: of_image.sampling,
                totals: of_image.totals,
                sites,
            });
        }
        let (modules, frames) = table.finish();
        Ok(Self {
            recording: index.recording,
            modules,
            frames,
            processes,
        })
    }
}

/// The stacks of an image with their figures.
fn stacks<H>(
    image: &Image<H>,
    of_image: &Sampled,
    table: &mut FrameTable,
    frames: &mut usize,
) -> Vec<(crate::stack::Stack, SampledFigures)> {
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
fn samples<S: Source>(trace: &TraceReader<S>) -> Result<BTreeMap<ImageId, Sampled>, SampledError> {
    let mut images: BTreeMap<ImageId, Sampled> = BTreeMap::new();
    let mut number = 0_u64;
    for entry in trace.entries() {
        let Entry::Record(record) = entry? else {
            continue;
        };
        number = number.saturating_add(match &record {
            Record::Samples { samples, .. } => samples.len() as u64,
            Record::SampleTotals { totals, .. } => totals.len() as u64,
            _ => 0,
        });
        if number > MAX_SAMPLES {
            return Err(SampledError::TooMany);
        }
        match record {
            Record::Sampling(sampling) => {
                let image = images.entry(sampling.image);
                image.or_insert_with(|| Sampled::new(sampling));
            }
            Record::Samples { image, samples } => {
                let Some(image) = images.get_mut(&image) else {
                    continue;
                };
                for it in samples {
                    image.add(it.stack, it.period, |figures, period| {
                        figures.live.add(it.size, period);
                    });
                }
            }
            Record::SampleTotals { image, totals } => {
                let Some(image) = images.get_mut(&image) else {
                    continue;
                };
                totals.iter().for_each(|total| image.add_total(total));
            }
            _ => {}
        }
    }
    Ok(images)
}
