//! Turns a profile into the columns of the page, within limits. The order and meaning of
//! the columns is in `docs/page-data.md`; whoever changes it raises the version there.

use allotrope_attribution::{BlockTypes, Origin};
use allotrope_profile::{FreePlace, PARTS_OF_SUM, Process, Profile, RunTimes, Stack, TimeTable};
use rustc_hash::FxHashMap;

use crate::Page;
use crate::columns::{Columns, cell_columns, class};
use crate::meta::{LeftOut, meta};
use crate::names::Names;
use crate::processes;
use crate::sampled;
use crate::sites::{PageSite, Together, put_together, tables_with_at_most};
use crate::source;
use crate::stacks::Trie;

/// Processes whose sites the page has, those with most allocations, and how many of them it has
/// even where it is too large.
const MAX_CARRIED: usize = 1024;
const MIN_CARRIED: usize = 64;
/// Buckets of equal width in which the time of several processes is divided: those of their curve.
const BUCKETS: u64 = PARTS_OF_SUM;

/// What is compressed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Sentences, processes, threads, curves.
    Run,
    /// Names and frames.
    Names,
    /// The trie of stacks.
    Stacks,
    /// Figures of sites.
    Sites,
    /// Sizes, entry points, who allocates and who frees, by site.
    Details,
    /// When the blocks of sites and threads were allocated and freed.
    Cells,
    /// The code around the lines of frames.
    Source,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Names => "names",
            Self::Stacks => "stacks",
            Self::Sites => "sites",
            Self::Details => "details",
            Self::Cells => "cells",
            Self::Source => "source",
        }
    }
}

/// How much of a profile is encoded.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Cells of all sites.
    cells: usize,
    /// Sites that have a stack of their own.
    sites: usize,
    /// Sites that have details, the first of each process.
    details: usize,
    /// Characters of a name.
    characters: usize,
    /// Processes in full, of the others only totals.
    carried: usize,
    /// All processes; the others are left out altogether.
    processes: usize,
    /// Bytes of source code.
    source: usize,
}

/// Number of characters below which names are not cut while there are sites to put together.
const SHORT_NAME: usize = 200;
/// Names are not cut below this.
const MIN_NAME: usize = 40;
/// Sites that keep their stack in any case.
const MIN_SITES: usize = 100;

impl Limits {
    /// All that a profile has, as far as a browser can be expected to read it.
    pub fn of(profile: &Profile) -> Self {
        const MAX_CELLS: usize = 2_000_000;
        let sites = profile.processes.iter().map(|it| it.sites.len()).sum();
        Self {
            cells: MAX_CELLS,
            sites,
            details: sites,
            characters: 10_000,
            carried: profile.processes.len().min(MAX_CARRIED),
            processes: profile.processes.len(),
            source: source::MAX_BYTES,
        }
    }

    /// Halves what there may be of a part; false: there cannot be less.
    pub fn halve(&mut self, part: Part) -> bool {
        // Names take room because they are long, or because there are many of them.
        let (limit, least) = match part {
            Part::Run if self.carried > MIN_CARRIED => (&mut self.carried, MIN_CARRIED),
            Part::Run => (&mut self.processes, MIN_CARRIED),
            Part::Names if self.characters > SHORT_NAME => (&mut self.characters, SHORT_NAME),
            Part::Names if self.sites <= MIN_SITES => (&mut self.characters, MIN_NAME),
            Part::Names | Part::Stacks | Part::Sites => (&mut self.sites, MIN_SITES),
            Part::Details => (&mut self.details, 0),
            Part::Cells => (&mut self.cells, 100),
            Part::Source => (&mut self.source, 0),
        };
        let can = *limit > least;
        *limit = (*limit / 2).max(least);
        can
    }
}

/// Times at which the tables of all processes should be exact, so that a range of time
/// means the same in each: equal parts of the recording. One process has such parts anyway.
pub fn boundaries(run: &RunTimes) -> Vec<u64> {
    if run.processes < 2 {
        return Vec::new();
    }
    let width = run.lasted_ns().div_ceil(BUCKETS).max(1);
    let ends = (1..BUCKETS).map(|number| run.started_ns + number * width);
    ends.take_while(|&ns| ns < run.ended_ns).collect()
}

/// Encodes what the limits allow.
pub fn encode(page: &Page<'_>, limits: &Limits) -> Vec<(Part, Columns)> {
    let profile = page.profile;
    let mut names = Names::with_at_most(limits.characters);
    let chosen = chosen(page, limits);
    let all: Vec<&Process> = chosen
        .iter()
        .map(|&(index, _)| &profile.processes[index])
        .collect();
    let carried: Vec<&Process> = all.iter().copied().take(limits.carried).collect();
    let tables = tables_with_at_most(carried.iter().map(|it| it.times.as_ref()), limits.cells);
    let mut sites = sites(page, &chosen, &carried, &tables);
    let together = put_together(&mut sites, &carried, limits.sites);
    let mut frames = Frames::default();
    let stacks = stacks(&sites, limits.details);
    let trie = Trie::new(&stacks);
    let nodes = trie.frames.iter().map(|&frame| frames.number(frame));
    let mut trie_columns = Columns::default();
    trie_columns.numbers("node.frame", nodes.collect::<Vec<_>>());
    trie_columns.numbers("node.up", trie.up.iter().copied());
    let heads: Vec<u64> = sites
        .iter()
        .map(|site| site.head.map_or(0, |head| frames.number(head) + 1))
        .collect();
    let mut run = Columns::default();
    let (source, source_left_out) =
        source::encode(page, &sites, &carried, &mut names, limits.source);
    let left_out = LeftOut {
        source: source_left_out,
        ..left_out(page, limits, &chosen, &sites, together, &tables)
    };
    processes::encode(&mut run, page, &all, &carried, &tables, &mut names);
    let mut site_columns = site_columns(&sites, &heads, &trie.nodes);
    let mut type_number = |site: &PageSite| match &site.type_name {
        Some(name) => names.number(name) + 1,
        None => 0,
    };
    let types: Vec<u64> = sites.iter().map(&mut type_number).collect();
    site_columns.numbers("site.type", types);
    if page.sampled.is_some() {
        sampled::encode(&mut site_columns, &sites);
    }
    let details = details(&sites, limits.details, &trie.nodes[sites.len()..]);
    let mut cells = Columns::default();
    cell_columns(&mut cells, "cell", sites.iter().map(|it| &*it.cells));
    cells.numbers("cell.widened", sites.iter().map(|it| it.widened.into()));
    processes::thread_cells(&mut cells, &carried);
    processes::total_cells(&mut cells, &carried, &tables);
    let mut columns = Columns::default();
    let found: Vec<Option<u64>> = page
        .findings
        .iter()
        .map(|finding| Some(frames.number(finding.frame?)))
        .collect();
    frame_columns(&mut columns, page, &frames, &mut names);
    let text = meta(page, &all, left_out, names.cut(), &found, carried.len());
    run.bytes("meta", text.into_bytes());
    columns.bytes("names", names.into_bytes());
    vec![
        (Part::Run, run),
        (Part::Names, columns),
        (Part::Stacks, trie_columns),
        (Part::Sites, site_columns),
        (Part::Details, details),
        (Part::Cells, cells),
        (Part::Source, source),
    ]
}

/// Indexes of the processes in the page: those with most allocations first, of equal ones
/// those that started first.
fn chosen(page: &Page<'_>, limits: &Limits) -> Vec<(usize, u64)> {
    let processes = page.profile.processes.iter().enumerate();
    let mut chosen: Vec<(usize, u64)> = processes
        .map(|(index, process)| (index, process.totals.allocations))
        .collect();
    chosen.sort_by_key(|&(index, allocations)| (std::cmp::Reverse(allocations), index));
    chosen.truncate(limits.processes);
    chosen
}

fn sites(
    page: &Page<'_>,
    chosen: &[(usize, u64)],
    carried: &[&Process],
    tables: &[TimeTable],
) -> Vec<PageSite> {
    let mut sites = Vec::new();
    let types = BlockTypes::new(page.profile);
    for (index, (process, table)) in (0..).zip(carried.iter().zip(tables)) {
        let (of_profile, _) = chosen[index as usize];
        let sampled = page.sampled.and_then(|it| it.processes.get(of_profile));
        for (at, site) in (0..).zip(&process.sites) {
            let samples = sampled.and_then(|it| it.sites.get(at as usize));
            let mut site = PageSite::new(index, site, page.headlines);
            site.cells = table.cells_of(at).to_vec();
            site.widened = table.widened.get(at as usize).copied().unwrap_or(0);
            site.samples = samples.copied();
            let of_profile = &process.sites[at as usize];
            site.type_name = types.of(of_profile).map(str::to_owned);
            sites.push(site);
        }
    }
    sites
}

/// The stacks of all sites, then those that free the blocks of the sites with details.
fn stacks(sites: &[PageSite], detailed: usize) -> Vec<&Stack> {
    let free = sites
        .iter()
        .take(detailed)
        .filter_map(|it| it.details.as_ref());
    let free = free.flat_map(|it| &it.free_stacks);
    let free = free.filter_map(|it| match &it.place {
        FreePlace::Stack { stack, .. } => Some(stack),
        FreePlace::Others | FreePlace::Unknown => None,
    });
    sites.iter().map(|it| &it.stack).chain(free).collect()
}

fn left_out(
    page: &Page<'_>,
    limits: &Limits,
    chosen: &[(usize, u64)],
    sites: &[PageSite],
    together: Together,
    tables: &[TimeTable],
) -> LeftOut {
    let widened = tables.iter().flat_map(|it| &it.widened);
    LeftOut {
        processes: (page.profile.processes.len() - chosen.len()) as u64,
        totals_only: chosen.len().saturating_sub(limits.carried) as u64,
        stacks: together.sites,
        stack_allocations: together.allocations,
        widened: widened.clone().filter(|&&width| width > 0).count() as u64,
        widest: widened.copied().max().unwrap_or(0),
        details: sites.len().saturating_sub(limits.details) as u64,
        source: 0,
    }
}

/// The frames of the page, by number in order of first use.
#[derive(Default)]
struct Frames {
    numbers: FxHashMap<u32, u32>,
    order: Vec<u32>,
}

impl Frames {
    fn number(&mut self, frame: u32) -> u64 {
        let next = self.order.len() as u32;
        let number = *self.numbers.entry(frame).or_insert(next);
        if number == next {
            self.order.push(frame);
        }
        number.into()
    }
}

fn frame_columns(columns: &mut Columns, page: &Page<'_>, frames: &Frames, names: &mut Names) {
    let none = allotrope_profile::Frame::default();
    let all = || {
        let frames = frames.order.iter();
        frames.map(|&at| page.profile.frames.get(at as usize).unwrap_or(&none))
    };
    let functions: Vec<u64> = all().map(|it| names.number(&it.function)).collect();
    let files: Vec<u64> = all().map(|it| names.number(&it.file)).collect();
    columns.numbers("frame.function", functions);
    columns.numbers("frame.file", files);
    columns.numbers("frame.line", all().map(|it| it.line.into()));
    let known = page.profile.modules.len() as u64;
    let module = |module: u32| Some(u64::from(module) + 1).filter(|&it| it <= known);
    columns.numbers(
        "frame.module",
        all().map(|it| module(it.module).unwrap_or(0)),
    );
    let origin = |&at: &u32| origin_number(page.headlines.origin(at));
    columns.numbers("frame.origin", frames.order.iter().map(origin));
    let flags = all().map(|it| u64::from(it.inlined) | u64::from(it.interrupted) << 1);
    columns.numbers("frame.flags", flags);
    // Groups as in `report --by function`.
    let mut groups: FxHashMap<(bool, u32), u64> = FxHashMap::default();
    let mut group_names = Vec::new();
    let mut of_frames = Vec::new();
    for (&at, frame) in frames.order.iter().zip(all()) {
        let is_unnamed = page.headlines.origin(at).is_unnamed();
        let key = match is_unnamed {
            true => (true, frame.module),
            false => (false, page.headlines.function(at)),
        };
        let next = groups.len() as u64;
        let group = *groups.entry(key).or_insert(next);
        if group == next {
            group_names.push(match is_unnamed {
                true => {
                    let module = page.profile.module_name(frame);
                    names.number(&format!("{module} (no names)"))
                }
                false => names.number(&frame.function),
            });
        }
        of_frames.push(group);
    }
    columns.numbers("frame.group", of_frames);
    columns.numbers("group.name", group_names);
    let modules = &page.profile.modules;
    let paths: Vec<u64> = modules
        .iter()
        .map(|it| names.number(&allotrope_text::text_of_path(&it.path)))
        .collect();
    columns.numbers("module.path", paths);
}

/// The number of an origin on the page.
pub fn origin_number(origin: Origin) -> u64 {
    match origin {
        Origin::Glue => 0,
        Origin::UnnamedLibrary => 1,
        Origin::Unnamed => 2,
        Origin::Library => 3,
        Origin::Program => 4,
        Origin::Own => 5,
        Origin::Repository => 6,
    }
}

fn site_columns(sites: &[PageSite], heads: &[u64], nodes: &[u32]) -> Columns {
    let mut columns = Columns::default();
    let mut column = |name: &str, of: &dyn Fn(&PageSite) -> u64| {
        columns.numbers(name, sites.iter().map(of));
    };
    column("site.allocations", &|it| it.allocations);
    column("site.bytes", &|it| it.bytes);
    column("site.reallocations", &|it| it.reallocations);
    column("site.temporary", &|it| it.temporary);
    column("site.leaked", &|it| it.leaked[0]);
    column("site.leaked_bytes", &|it| it.leaked[1]);
    column("site.at_peak", &|it| it.at_peak[0]);
    column("site.at_peak_bytes", &|it| it.at_peak[1]);
    column("site.headline", &|it| it.shown[0].into());
    column("site.first_shown", &|it| it.shown[1].into());
    column("site.together", &|it| it.together);
    let mean = |it: &PageSite| match it.lifetimes.blocks {
        0 => 0,
        blocks => u64::try_from(it.lifetimes.total_ns() / u128::from(blocks)).unwrap_or(u64::MAX),
    };
    column("site.mean_ns", &mean);
    column("site.blocks", &|it| it.lifetimes.blocks);
    column("site.longest_ns", &|it| it.lifetimes.max_ns);
    columns.differences("site.process", sites.iter().map(|it| it.process.into()));
    columns.differences("site.number", sites.iter().map(|it| it.number.into()));
    columns.numbers("site.head", heads.iter().copied());
    let nodes = nodes[..sites.len()].iter().map(|&node| node.into());
    columns.differences("site.node", nodes);
    columns
}

fn details(sites: &[PageSite], most: usize, free_nodes: &[u32]) -> Columns {
    let mut columns = Columns::default();
    let empty = allotrope_profile::SiteDetails::default();
    let all = || {
        let sites = sites.iter().take(most);
        sites.map(|it| it.details.as_ref().unwrap_or(&empty))
    };
    columns.numbers("detail.smallest", all().map(|it| it.smallest_bytes));
    columns.numbers("detail.largest", all().map(|it| it.largest_bytes));
    columns.numbers("detail.entries", all().map(|it| it.entries.len() as u64));
    let entries = || all().flat_map(|it| &it.entries);
    columns.numbers("entry.number", entries().map(|it| it.entry as u64));
    columns.numbers("entry.alignment", entries().map(|it| it.alignment));
    columns.numbers("entry.allocations", entries().map(|it| it.allocations));
    columns.numbers("entry.bytes", entries().map(|it| it.allocated_bytes));
    columns.numbers("detail.sizes", all().map(|it| it.sizes.len() as u64));
    let sizes = || all().flat_map(|it| &it.sizes);
    columns.numbers("size.class", sizes().map(|it| class(it.up_to_bytes)));
    columns.numbers("size.allocations", sizes().map(|it| it.allocations));
    columns.numbers("size.bytes", sizes().map(|it| it.allocated_bytes));
    columns.numbers("detail.threads", all().map(|it| it.threads.len() as u64));
    let threads = || all().flat_map(|it| &it.threads);
    let thread = |it: Option<u32>| it.map_or(0, |it| u64::from(it) + 1);
    columns.numbers("site_thread.thread", threads().map(|it| thread(it.thread)));
    columns.numbers(
        "site_thread.allocations",
        threads().map(|it| it.allocations),
    );
    columns.numbers("site_thread.bytes", threads().map(|it| it.allocated_bytes));
    columns.numbers("detail.frees", all().map(|it| it.frees.len() as u64));
    let frees = || all().flat_map(|it| &it.frees);
    columns.numbers(
        "free.allocated_by",
        frees().map(|it| thread(it.allocated_by)),
    );
    columns.numbers("free.freed_by", frees().map(|it| thread(it.freed_by)));
    columns.numbers("free.blocks", frees().map(|it| it.lifetimes.blocks));
    columns.numbers("free.bytes", frees().map(|it| it.bytes));
    columns.numbers(
        "detail.free_stacks",
        all().map(|it| it.free_stacks.len() as u64),
    );
    let stacks = || all().flat_map(|it| &it.free_stacks);
    let mut nodes = free_nodes.iter();
    // 0 unknown, 1 others, else the node of a stack, which may be the root, and 2.
    let node = |it: &FreePlace| match it {
        FreePlace::Unknown => 0,
        FreePlace::Others => 1,
        FreePlace::Stack { .. } => nodes.next().map_or(0, |&node| u64::from(node) + 2),
    };
    let places: Vec<u64> = stacks().map(|it| &it.place).map(node).collect();
    columns.numbers("free_stack.node", places);
    columns.numbers("free_stack.blocks", stacks().map(|it| it.lifetimes.blocks));
    columns.numbers("free_stack.bytes", stacks().map(|it| it.bytes));
    columns
}
