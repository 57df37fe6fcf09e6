//! Adds sites up by the function, module, or stack that heads them, whatever lines of the
//! function they come from.

use std::collections::BTreeMap;

use allotrope_attribution::{BlockTypes, Headlines};
use allotrope_profile::{Frame, Metric, Process, Profile, Site};
use rustc_hash::FxHashMap;

/// What sites are added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// The function of the frame that heads the stack.
    Function,
    /// The function of the user's own frame; that of the head if there is none.
    Own,
    /// The module of that frame.
    Module,
    /// The type of the blocks, as far as it is known.
    Type,
}

/// Sites that were added up.
pub(crate) struct Group<'a> {
    /// The frame that heads the group's first site; `None` without a stack.
    pub frame: Option<&'a Frame>,
    /// The type of the blocks, if sites are added up by it and it is known.
    pub type_name: Option<String>,
    /// No symbol names the functions: all of the module that the same function with a name called
    /// are together, in a list of modules all of it.
    pub is_unnamed: bool,
    /// The sites, with their processes.
    pub sites: Vec<(&'a Process, &'a Site)>,
    /// Allocated blocks.
    pub allocations: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// Bytes at the peak of each process, summed.
    pub peak_bytes: u64,
    /// Blocks at the peak of each process, summed.
    pub peak_blocks: u64,
    /// Bytes that were live at the end.
    pub leaked_bytes: u64,
    /// Blocks that were live at the end.
    pub leaked_blocks: u64,
    /// Temporary allocations.
    pub temporary: u64,
    /// Bytes at the peak and blocks, by the frame that heads the stacks, or that is the user's own
    /// if the line of the head is not known.
    places: FxHashMap<u32, [u64; 2]>,
    /// Bytes at the peak and blocks, by the function further out that tells sites of one head
    /// apart.
    outer: BTreeMap<&'a str, [u64; 2]>,
}

impl<'a> Group<'a> {
    fn new(frame: Option<&'a Frame>, is_unnamed: bool) -> Self {
        Self {
            frame,
            type_name: None,
            is_unnamed,
            sites: Vec::new(),
            allocations: 0,
            bytes: 0,
            peak_bytes: 0,
            peak_blocks: 0,
            leaked_bytes: 0,
            leaked_blocks: 0,
            temporary: 0,
            places: FxHashMap::default(),
            outer: BTreeMap::new(),
        }
    }

    fn add(&mut self, process: &'a Process, site: &'a Site) {
        let add = |sum: &mut u64, value: u64| *sum = sum.saturating_add(value);
        self.sites.push((process, site));
        add(&mut self.allocations, site.allocations);
        add(&mut self.bytes, site.allocated_bytes);
        add(&mut self.peak_bytes, site.bytes_at_peak);
        add(&mut self.peak_blocks, site.allocations_at_peak);
        add(&mut self.leaked_bytes, site.leaked_bytes);
        add(&mut self.leaked_blocks, site.leaked_allocations);
        add(&mut self.temporary, site.temporary_allocations);
    }

    /// Adds the source line of a site's head, or the user's own further out if it is not known.
    fn add_places(&mut self, profile: &'a Profile, site: &Site, headlines: &Headlines) {
        let Some(head) = headlines.head(site) else {
            return;
        };
        let own = headlines.own_or_head(site).unwrap_or(head);
        let frame = |index: u32| profile.frames.get(index as usize);
        let has_line = frame(head).is_some_and(|frame| frame.line > 0);
        let place = if has_line { head } else { own };
        add_weight(self.places.entry(place).or_default(), weight(site));
        let outer = headlines.told_apart_by(site);
        let outer = outer.filter(|&it| headlines.function(it) != headlines.function(head));
        if let Some(outer) = outer.and_then(frame) {
            add_weight(self.outer.entry(&outer.function).or_default(), weight(site));
        }
    }

    /// The function further out through which most of the group comes, and whether there are
    /// others: the user's own, or one with a name if the head has none.
    pub(crate) fn outer(&self) -> Option<(&'a str, bool)> {
        let (name, _) = self.outer.iter().max_by_key(|&(_, weight)| weight)?;
        Some((name, self.outer.len() > 1))
    }

    /// The value of a metric and the number of blocks that it counts.
    pub(crate) fn value(&self, metric: Metric) -> [u64; 2] {
        match metric {
            Metric::Bytes => [self.bytes, self.allocations],
            Metric::PeakBytes => [self.peak_bytes, self.peak_blocks],
            Metric::PeakAllocations => [self.peak_blocks, self.peak_blocks],
            Metric::LeakedBytes => [self.leaked_bytes, self.leaked_blocks],
            Metric::LeakedAllocations => [self.leaked_blocks, self.leaked_blocks],
            Metric::Temporary => [self.temporary, self.temporary],
            _ => [self.allocations, self.allocations],
        }
    }

    /// The source file with the most bytes at the peak and its lines, the one with the
    /// most first; `None` if no line is known.
    pub(crate) fn lines(&self, profile: &'a Profile) -> Option<(&'a str, Vec<u32>)> {
        let mut lines: BTreeMap<(&str, u32), [u64; 2]> = BTreeMap::new();
        for (&place, weight) in &self.places {
            let frame = profile.frames.get(place as usize);
            if let Some(frame) = frame.filter(|frame| frame.line > 0) {
                let line = lines.entry((&frame.file, frame.line)).or_default();
                add_weight(line, *weight);
            }
        }
        let (&(file, _), _) = lines.iter().max_by_key(|&(_, &weight)| weight)?;
        let of_file = lines.iter().filter(|((of, _), _)| *of == file);
        let mut lines: Vec<([u64; 2], u32)> = of_file.map(|(&(_, line), &it)| (it, line)).collect();
        lines.sort_by_key(|&(weight, line)| (std::cmp::Reverse(weight), line));
        Some((file, lines.into_iter().map(|(_, line)| line).collect()))
    }
}

/// What decides which lines and functions of a group are named: bytes at the peak, then blocks.
fn weight(site: &Site) -> [u64; 2] {
    [site.bytes_at_peak, site.allocations]
}

fn add_weight(sum: &mut [u64; 2], weight: [u64; 2]) {
    for (sum, value) in sum.iter_mut().zip(weight) {
        *sum = sum.saturating_add(value);
    }
}

/// The sites of some processes, added up.
pub(crate) fn groups<'a>(
    profile: &'a Profile,
    processes: impl Iterator<Item = &'a Process>,
    headlines: &Headlines,
    grouping: Grouping,
) -> Vec<Group<'a>> {
    groups_of(profile, processes, headlines, grouping, &|_| true)
}

/// The same for those sites that are wanted.
pub(crate) fn groups_of<'a>(
    profile: &'a Profile,
    processes: impl Iterator<Item = &'a Process>,
    headlines: &Headlines,
    grouping: Grouping,
    is_wanted: &dyn Fn(&Site) -> bool,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    // By whether it is a module, the number of the function or module, and that of the function
    // with a name that tells code of a module without names apart.
    let mut by_key: FxHashMap<(bool, u32, u32), usize> = FxHashMap::default();
    let types = (grouping == Grouping::Type).then(|| BlockTypes::new(profile));
    let mut type_numbers: FxHashMap<String, u32> = FxHashMap::default();
    for process in processes {
        for site in process.sites.iter().filter(|site| is_wanted(site)) {
            let index = match grouping {
                Grouping::Own => headlines.own_or_head(site),
                _ => headlines.head(site),
            };
            let frame = index.and_then(|index| profile.frames.get(index as usize));
            let type_name = types.as_ref().and_then(|types| types.of(site));
            let key = match (index, frame) {
                _ if types.is_some() => {
                    let next = type_numbers.len() as u32 + 1;
                    let number = |name: &str| *type_numbers.entry(name.to_owned()).or_insert(next);
                    (false, type_name.map_or(0, number), u32::MAX)
                }
                (Some(index), Some(frame)) => {
                    if grouping == Grouping::Module {
                        (true, frame.module, u32::MAX)
                    } else if headlines.origin(index).is_unnamed() {
                        let outer = headlines.told_apart_by(site);
                        let outer = outer.map_or(u32::MAX, |outer| headlines.function(outer));
                        (true, frame.module, outer)
                    } else {
                        (false, headlines.function(index), u32::MAX)
                    }
                }
                _ => (false, u32::MAX, u32::MAX),
            };
            let group = *by_key.entry(key).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Group {
                    type_name: type_name.map(str::to_owned),
                    ..Group::new(frame, key.0)
                });
            }
            groups[group].add(process, site);
            match (grouping, index) {
                (Grouping::Own, Some(own)) => {
                    let place = groups[group].places.entry(own).or_default();
                    add_weight(place, weight(site));
                }
                _ => groups[group].add_places(profile, site, headlines),
            }
        }
    }
    groups
}
