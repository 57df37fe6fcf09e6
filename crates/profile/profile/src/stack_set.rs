//! Call stacks with their metrics, independent of their source. Importers of other
//! tools' formats produce a [`StackSet`], a diff compares two, and exporters write one.
//!
//! A [`StackSet`] adds up processes and has no single blocks; [`RunInfo`] has the few facts
//! of the run that other tools' formats contain. A [`Profile`], which has everything, can be
//! converted to one, and [one made of it](StackSet::to_profile), so that what shows a recording
//! can show stacks of any source.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::filter::Filter;
use crate::lifetime::Lifetimes;
use crate::metric::{Metric, MetricSet, MetricValues};
use crate::model::{Module, Process, Profile, Site, Totals, UNKNOWN_MODULE, command_text};
use crate::named_frame::{Frame, StackFrame};
use crate::run_info::RunInfo;
use crate::stack::Stack;

/// A stack and its metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CountedStack {
    /// Indexes into [`StackSet::frames`], innermost first.
    pub frames: Box<[u32]>,
    /// Value of each metric for the stack; 0 where it is not known.
    pub figures: MetricValues,
    /// What was live at the stack's own maximum. `None` if it is unknown: in other tools'
    /// formats, and where stacks are added up, because each has its maximum at a time of
    /// its own.
    pub maximum: Option<Maximum>,
}

/// What was live in a stack when it had most live bytes; on a tie at the latest such
/// moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maximum {
    /// Live bytes.
    pub bytes: u64,
    /// Live allocations.
    pub allocations: u64,
}

/// Stacks with their metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackSet {
    /// Where they come from, for people: a command, a file's title. May be empty.
    pub title: String,
    /// Every distinct frame.
    pub frames: Vec<StackFrame>,
    /// The stacks. Two may have the same frames.
    pub stacks: Vec<CountedStack>,
    /// The metrics that the stacks have.
    pub known: MetricSet,
    /// The run that they come from, as far as known.
    pub run: RunInfo,
}

impl StackSet {
    /// Keeps only the stacks with a frame that the filter selects.
    pub fn filter(&mut self, filter: &Filter) {
        let matching = self.frames.iter().map(|frame| filter.selects(frame));
        let matching: Vec<bool> = matching.collect();
        let is_wanted = |&frame: &u32| matching.get(frame as usize) == Some(&true);
        self.stacks
            .retain(|stack| stack.frames.iter().any(is_wanted));
    }

    /// Divides all figures by a number above 0, such as that of iterations, and rounds
    /// each to the nearest whole number. The title names the number.
    pub fn divide(&mut self, by: f64) {
        // The cast saturates.
        let divided = |figure: u64| (figure as f64 / by).round() as u64;
        for stack in &mut self.stacks {
            for figure in &mut stack.figures {
                *figure = divided(*figure);
            }
            stack.maximum = stack.maximum.map(|maximum| Maximum {
                bytes: divided(maximum.bytes),
                allocations: divided(maximum.allocations),
            });
        }
        self.title.push_str(&format!(" (divided by {by})"));
    }

    /// The sum of a metric over all stacks.
    pub fn total(&self, metric: Metric) -> u64 {
        self.stacks
            .iter()
            .filter_map(|stack| stack.figures.get(metric as usize))
            .sum()
    }
}

impl From<&Profile> for StackSet {
    /// All processes of a profile together. Each image has its peak at a time of its own,
    /// so with several images the sum of the peak metrics is not what was live at one
    /// moment.
    fn from(profile: &Profile) -> Self {
        Self::of_processes(profile, &profile.processes)
    }
}

impl StackSet {
    /// One process of a profile, by its index in [`Profile::processes`]; no stacks if the
    /// index is too large. Where the process is a window, the leaked blocks are those
    /// that were live when it closed.
    pub fn of_process(profile: &Profile, index: usize) -> Self {
        let one = profile.processes.get(index).map(std::slice::from_ref);
        Self::of_processes(profile, one.unwrap_or_default())
    }

    /// Returns only the blocks that were live at the end of the profile: each stack counts those as
    /// its allocations, and stacks without any are left out.
    pub fn of_live(profile: &Profile) -> Self {
        let mut set = Self::from(profile);
        let kept = Metric::LeakedAllocations as usize;
        set.stacks.retain(|stack| stack.figures[kept] > 0);
        for CountedStack { figures, .. } in &mut set.stacks {
            let mut live = MetricValues::default();
            for (metric, of) in [
                (Metric::Allocations, Metric::LeakedAllocations),
                (Metric::Bytes, Metric::LeakedBytes),
                (Metric::LeakedAllocations, Metric::LeakedAllocations),
                (Metric::LeakedBytes, Metric::LeakedBytes),
            ] {
                live[metric as usize] = figures[of as usize];
            }
            *figures = live;
        }
        set.known = MetricSet::of_live();
        set
    }

    fn of_processes(profile: &Profile, processes: &[Process]) -> Self {
        let sites = processes.iter().flat_map(|process| &process.sites);
        Self {
            title: command_text(&profile.recording.command),
            frames: stack_frames(&profile.frames, &profile.modules),
            stacks: sites.map(counted).collect(),
            known: MetricSet::OF_STACKS,
            run: RunInfo::of_processes(profile, processes),
        }
    }
}

impl StackSet {
    /// Returns the stacks as the sites of a profile with one process, numbered by the figures of
    /// the first metric that is known, the largest first. Figures that are not
    /// [known](Self::known) are 0, and nothing has times.
    pub fn to_profile(&self) -> Profile {
        let mut modules: Vec<Module> = Vec::new();
        let mut by_name: FxHashMap<Arc<str>, u32> = FxHashMap::default();
        let mut module = |name: &Arc<str>| {
            if name.is_empty() {
                return UNKNOWN_MODULE;
            }
            *by_name.entry(Arc::clone(name)).or_insert_with(|| {
                modules.push(Module {
                    path: PathBuf::from(&**name),
                    ..Module::default()
                });
                modules.len() as u32 - 1
            })
        };
        let frames = self.frames.iter();
        let frames = frames.map(|frame| frame.with_module(module(&frame.module)));
        let frames = frames.collect();
        let mut stacks: Vec<&CountedStack> = self.stacks.iter().collect();
        let known = Metric::OF_STACKS.into_iter().find(|it| self.known.has(*it));
        stacks.sort_by_key(|stack| Reverse(known.map(|metric| stack.figures[metric as usize])));
        let sites = stacks.into_iter().zip(1..);
        let sites: Vec<Site> = sites.map(|(stack, number)| site(stack, number)).collect();
        let mut totals = Totals::default();
        for site in &sites {
            for (sum, value) in [
                (&mut totals.allocations, site.allocations),
                (&mut totals.allocated_bytes, site.allocated_bytes),
                (
                    &mut totals.temporary_allocations,
                    site.temporary_allocations,
                ),
                (&mut totals.reallocations, site.reallocations),
                (&mut totals.leaked_allocations, site.leaked_allocations),
                (&mut totals.leaked_bytes, site.leaked_bytes),
                (&mut totals.peak_allocations, site.allocations_at_peak),
                (&mut totals.peak_bytes, site.bytes_at_peak),
            ] {
                *sum = sum.saturating_add(value);
            }
        }
        Profile {
            modules,
            frames,
            processes: vec![Process {
                pid: self.run.pid.unwrap_or(0),
                executable: PathBuf::from(&self.run.executable),
                duration_us: self.run.duration_us.unwrap_or(0),
                complete: true,
                totals,
                sites,
                ..Process::default()
            }],
            ..Profile::default()
        }
    }
}

/// A stack as the site with this number.
fn site(stack: &CountedStack, number: u32) -> Site {
    let figure = |metric: Metric| stack.figures[metric as usize];
    let maximum = stack.maximum.unwrap_or_default();
    Site {
        number,
        stack: Stack::from(stack.frames.to_vec()),
        allocations: figure(Metric::Allocations),
        allocated_bytes: figure(Metric::Bytes),
        reallocations: figure(Metric::Reallocations),
        temporary_allocations: figure(Metric::Temporary),
        leaked_allocations: figure(Metric::LeakedAllocations),
        leaked_bytes: figure(Metric::LeakedBytes),
        bytes_at_peak: figure(Metric::PeakBytes),
        allocations_at_peak: figure(Metric::PeakAllocations),
        max_bytes: maximum.bytes,
        max_allocations: maximum.allocations,
        lifetimes: Lifetimes::of_sum(figure(Metric::Allocations), figure(Metric::Lifetime)),
        ..Site::default()
    }
}

/// The frames of a profile as those of a set of stacks.
fn stack_frames(frames: &[Frame], modules: &[Module]) -> Vec<StackFrame> {
    let modules: Vec<Arc<str>> = modules.iter().map(|it| it.name().into()).collect();
    let module = |frame: &Frame| modules.get(frame.module as usize).cloned();
    let frames = frames.iter().map(|frame| StackFrame {
        // No offset is that of an address without a name: it is in the name.
        offset: frame.offset.or(Some(0)),
        interrupted: false,
        ..frame.with_module(module(frame).unwrap_or_default())
    });
    frames.collect()
}

fn counted(site: &Site) -> CountedStack {
    CountedStack {
        frames: (*site.stack).into(),
        figures: site.metrics(),
        maximum: Some(Maximum {
            bytes: site.max_bytes,
            allocations: site.max_allocations,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_of_a_set_have_all_of_its_figures() {
        let set = StackSet {
            stacks: vec![CountedStack {
                frames: [].into(),
                figures: [1, 2, 3, 4, 5, 6, 7, 8, 9],
                maximum: None,
            }],
            known: MetricSet::OF_STACKS,
            ..StackSet::default()
        };
        let profile = set.to_profile();
        let (_, site) = profile.site(1).expect("the set has a stack");
        assert_eq!(site.metrics(), set.stacks[0].figures);
    }

    #[test]
    fn divided_figures_are_rounded() {
        let mut set = StackSet {
            title: "app".to_owned(),
            stacks: vec![CountedStack {
                frames: [].into(),
                figures: [231_000, 11_000, 16_499, 16_500, 5_499, 0, u64::MAX, 1, 2],
                maximum: Some(Maximum {
                    bytes: 16_500,
                    allocations: 11_000,
                }),
            }],
            ..StackSet::default()
        };
        set.divide(11_000.0);
        let stack = &set.stacks[0];
        assert_eq!(stack.figures[..6], [21, 1, 1, 2, 0, 0]);
        let maximum = stack.maximum.expect("it is known");
        assert_eq!((maximum.bytes, maximum.allocations), (2, 1));
        assert_eq!(set.title, "app (divided by 11000)");
    }
}
