//! Reports from events that perf has recorded, or records now: which sampled blocks are live, and which
//! were freed lately.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;

use allotrope_sampling::Period;
use allotrope_shm::samples::reader::Counters;
use rustc_hash::FxHashMap;

use crate::blocks::{BlockRow, FreedRow, Which};
use crate::names::Frame;
use crate::perf_events::{Block, Change, Event};
use crate::report::{ProcessRow, Report, SiteRow, Together, without_few};
use crate::sites::{LiveBlock, SitesBuilder, Sums};
use crate::{json, poireau};

/// Most deallocations that are kept: as many as a watched process keeps.
const MAX_FREED: usize = 4096;
/// Smallest number of processes from which on those without live blocks are forgotten.
const MANY_PROCESSES: usize = 4096;
/// Rough bytes of a block, of a process with its sums, and of a frame besides its texts.
const OF_BLOCK: u64 = 128;
const OF_PROCESS: u64 = 2048;
const OF_FRAME: u64 = 256;

/// The blocks that are live after some events.
#[derive(Debug)]
pub struct PerfBlocks {
    period: Period,
    /// By process and id: ids are numbers of one process.
    live: FxHashMap<(u32, u64), Live>,
    /// Of events that name only the thread: the thread that allocated the block, by its id and address.
    threads: FxHashMap<(u64, u64), u32>,
    freed: VecDeque<Freed>,
    stacks: Stacks,
    processes: BTreeMap<u32, (Arc<str>, Counters)>,
    /// Number of processes from which on those without live blocks are forgotten.
    forgotten_from: usize,
    last: u64,
    mark: Option<Mark>,
}

/// A moment by the clock of the events, and in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// By the clock of the events, in nanoseconds.
    pub time: u64,
    /// In nanoseconds since 1970.
    pub real_time: u64,
}

/// What tells a frame from another one.
type Key = (Arc<str>, Arc<str>, u64);

/// Stacks, each once.
#[derive(Debug, Default)]
struct Stacks {
    ids: FxHashMap<Arc<[Key]>, usize>,
    named: Vec<Vec<Frame>>,
    memory: u64,
}

#[derive(Debug)]
struct Live {
    address: u64,
    size: u64,
    time: u64,
    stack: usize,
    /// Time and stack of its first allocation, if it was reallocated.
    first: Option<(u64, usize)>,
    /// Not reported as old any more.
    is_hidden: bool,
}

#[derive(Debug)]
struct Freed {
    process: u32,
    block: Block,
    /// Time and stack of its allocation; `None` if that was before the first event.
    allocated: Option<(u64, usize)>,
    time: u64,
    stack: usize,
}

/// What was live at the first report: sizes and stacks.
#[derive(Debug)]
struct Mark {
    real_time: u64,
    blocks: FxHashMap<(u32, u64), (u64, u64, usize)>,
}

impl PerfBlocks {
    /// Without blocks. The period is that of the library; libpoireau's is fixed.
    pub fn new(period: Period) -> Self {
        Self {
            period,
            live: FxHashMap::default(),
            threads: FxHashMap::default(),
            freed: VecDeque::new(),
            stacks: Stacks::default(),
            processes: BTreeMap::new(),
            forgotten_from: MANY_PROCESSES,
            last: 0,
            mark: None,
        }
    }

    /// Takes the next event.
    pub fn add(&mut self, event: Event) {
        self.last = self.last.max(event.time);
        if self.processes.len() >= self.forgotten_from
            && !self.processes.contains_key(&event.process)
        {
            self.forget_processes();
        }
        let process = self.processes.entry(event.process);
        let counters = &mut process
            .or_insert_with(|| (event.name, Counters::default()))
            .1;
        counters.sampled += u64::from(!matches!(event.change, Change::Freed(_)));
        counters.freed += u64::from(!matches!(event.change, Change::Allocated(_)));
        let (old, new) = match event.change {
            Change::Allocated(block) => (None, Some(block)),
            Change::Freed(block) => (Some(block), None),
            Change::Replaced(old, new) => (Some(old), Some(new)),
        };
        let (time, stack) = (event.time, self.stacks.add(event.stack));
        let old = old.and_then(|block| {
            let live = self.remove(event.process, &block, event.is_thread);
            self.freed.truncate(MAX_FREED - 1);
            self.freed.push_front(Freed {
                process: event.process,
                block,
                allocated: live.as_ref().map(|it| (it.time, it.stack)),
                time,
                stack,
            });
            live
        });
        if let Some(Block { id, address, size }) = new {
            if event.is_thread {
                self.threads.insert((id, address), event.process);
            }
            let live = Live {
                address,
                size,
                time,
                stack,
                first: old.map(|it| it.first.unwrap_or((it.time, it.stack))),
                is_hidden: false,
            };
            self.live.insert((event.process, id), live);
        }
    }

    fn remove(&mut self, process: u32, block: &Block, is_thread: bool) -> Option<Live> {
        if is_thread {
            let by_thread = self.threads.remove(&(block.id, block.address));
            if let Some(live) = by_thread.and_then(|it| self.live.remove(&(it, block.id))) {
                return Some(live);
            }
        }
        self.live.remove(&(process, block.id))
    }

    fn forget_processes(&mut self) {
        let with_blocks = self.live.keys().map(|it| it.0);
        let with_blocks: rustc_hash::FxHashSet<u32> = with_blocks.collect();
        self.processes.retain(|it, _| with_blocks.contains(it));
        // Where most have blocks, each search for others is paid for by as many new processes.
        self.forgotten_from = MANY_PROCESSES.max(2 * self.processes.len());
    }

    /// The bytes that the blocks and their stacks take, roughly.
    pub fn memory(&self) -> u64 {
        let blocks = self.live.len() + self.threads.len() + self.freed.len();
        blocks as u64 * OF_BLOCK + self.processes.len() as u64 * OF_PROCESS + self.stacks.memory
    }

    /// Forgets the stacks that no block has.
    pub fn compact(&mut self) {
        let mut old = std::mem::take(&mut self.stacks);
        let mut ids = vec![None; old.named.len()];
        let mut again = |stack: &mut usize| {
            let id = *ids[*stack].get_or_insert_with(|| {
                let named = std::mem::take(&mut old.named[*stack]);
                self.stacks.add(named)
            });
            *stack = id;
        };
        for live in self.live.values_mut() {
            again(&mut live.stack);
            live.first.iter_mut().for_each(|it| again(&mut it.1));
        }
        for freed in &mut self.freed {
            again(&mut freed.stack);
            freed.allocated.iter_mut().for_each(|it| again(&mut it.1));
        }
        for block in self.mark.iter_mut().flat_map(|it| it.blocks.values_mut()) {
            again(&mut block.2);
        }
        self.forget_processes();
    }

    /// Whether there was no event.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.last == 0
    }

    /// The time of the last event, by the clock of the events.
    pub fn last_time(&self) -> u64 {
        self.last
    }

    /// The report at a moment. The first one is the mark of later ones.
    pub fn report(&mut self, moment: Moment, old_age: u64, top: usize) -> Report {
        let mut live: Vec<_> = self.live.iter().collect();
        live.sort_by_key(|((process, id), _)| (*process, *id));
        let mut gone: Vec<_> = self.mark.iter().flat_map(|it| &it.blocks).collect();
        gone.retain(|(key, (time, ..))| self.live.get(key).is_none_or(|it| it.time != *time));
        gone.sort_by_key(|(key, _)| **key);
        let (mut live, mut gone) = (live.into_iter().peekable(), gone.into_iter().peekable());
        let mut builder = SitesBuilder::default();
        for process in self.processes.keys() {
            builder.begin_process(Some(Sums::new(self.period)));
            while let Some((key, block)) = live.next_if(|((of, _), _)| of == process) {
                let age = moment.time.saturating_sub(block.time);
                let is_marked = |it: &Mark| {
                    let marked = it.blocks.get(key);
                    marked.is_some_and(|(time, ..)| *time == block.time)
                };
                builder.add(&LiveBlock {
                    key: block.stack as u64,
                    stack: 0,
                    size: block.size,
                    period: self.period,
                    age,
                    is_old: age >= old_age && !block.is_hidden,
                    is_new: self.mark.as_ref().is_some_and(|it| !is_marked(it)),
                });
            }
            while let Some(((of, _), (_, size, stack))) = gone.next_if(|it| it.0.0 <= *process) {
                if of == process {
                    builder.add_gone(*stack as u64, *size, self.period);
                }
            }
        }
        let grouped = builder.finish();
        let ids: Vec<u32> = self.processes.keys().copied().collect();
        let (sites, few) = without_few(&grouped.sites);
        let rows = sites.iter().take(top);
        let named = |key: u64| self.stacks.named[key as usize].clone();
        let rows = rows.map(|it| SiteRow::new(it, &ids, named(it.key)));
        let processes = self.processes.iter().zip(&grouped.processes);
        let processes = processes.map(|((id, (name, counters)), sums)| ProcessRow {
            process: *id,
            name: if name.is_empty() {
                "name not printed".to_owned()
            } else {
                name.to_string()
            },
            period: Some(self.period),
            since: None,
            resident: None,
            sums: sums.clone(),
            counters: *counters,
            unreadable: 0,
        });
        let report = Report {
            real_time: moment.real_time,
            mark_time: self.mark.as_ref().map(|it| it.real_time),
            old_age,
            total: grouped.total(),
            processes: processes.collect(),
            sites: rows.collect(),
            more_sites: sites.len().saturating_sub(top),
            suppressed: Together::default(),
            few,
            high_water: None,
        };
        if self.mark.is_none() {
            let marked = self.live.iter();
            let marked = marked.map(|(key, it)| (*key, (it.time, it.size, it.stack)));
            self.mark = Some(Mark {
                real_time: moment.real_time,
                blocks: marked.collect(),
            });
        }
        report
    }

    /// From now on the blocks of this age are not reported as old.
    pub fn hide_old(&mut self, moment: Moment, old_age: u64) {
        for live in self.live.values_mut() {
            live.is_hidden |= moment.time.saturating_sub(live.time) >= old_age;
        }
    }

    /// Writes blocks in poireau's lines, a list for each process.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_poireau(
        &self,
        moment: Moment,
        old_age: u64,
        which: Which,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut chosen: BTreeMap<u32, Vec<Chosen<'_>>> = BTreeMap::new();
        for (process, block) in self.chosen(moment, old_age, which) {
            chosen.entry(process).or_default().push(block);
        }
        // No list names its process where there is but one.
        let is_one = self.processes.len() <= 1;
        if is_one {
            poireau::write_head(moment.real_time, which.words(), None, out)?;
        }
        for (process, (name, _)) in &self.processes {
            if !is_one {
                let of = Some((*process, &**name));
                poireau::write_head(moment.real_time, which.words(), of, out)?;
            }
            for block in chosen.get(process).into_iter().flatten() {
                poireau::line(&self.row(*process, block, moment), out)?;
            }
        }
        Ok(())
    }

    /// Writes blocks as JSON, an object a line.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(
        &self,
        moment: Moment,
        old_age: u64,
        which: Which,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut chosen = self.chosen(moment, old_age, which).into_iter();
        chosen.try_for_each(|(process, block)| {
            json::write_block(which, &self.row(process, &block, moment), out)
        })
    }

    /// Blocks with their processes: the oldest first, and those that were freed in the order in which
    /// they were.
    fn chosen(&self, moment: Moment, old_age: u64, which: Which) -> Vec<(u32, Chosen<'_>)> {
        if which == Which::Freed {
            let freed = self.freed.iter().rev();
            return freed.map(|it| (it.process, Chosen::Freed(it))).collect();
        }
        let is_chosen = |it: &Live| {
            let is_old = moment.time.saturating_sub(it.time) >= old_age;
            which != Which::Old || is_old && !it.is_hidden
        };
        let mut live: Vec<_> = self.live.iter().filter(|it| is_chosen(it.1)).collect();
        live.sort_by_key(|((process, id), it)| (it.time, *process, *id));
        let live = live.into_iter();
        live.map(|(key, it)| (key.0, Chosen::Live(it))).collect()
    }

    fn row(&self, process: u32, block: &Chosen<'_>, moment: Moment) -> BlockRow {
        let since = |time: u64| moment.time.saturating_sub(time);
        let stack = |id: usize| self.stacks.named[id].clone();
        match block {
            Chosen::Live(live) => BlockRow {
                process,
                address: live.address,
                size: live.size,
                period: self.period,
                allocated: live.time,
                age: since(live.time),
                stack: stack(live.stack),
                first: live.first.map(|(time, id)| (since(time), stack(id))),
                freed: None,
            },
            Chosen::Freed(freed) => {
                let allocated = freed.allocated.map_or(freed.time, |it| it.0);
                BlockRow {
                    process,
                    address: freed.block.address,
                    size: freed.block.size,
                    period: self.period,
                    allocated,
                    age: freed.time.saturating_sub(allocated),
                    stack: freed.allocated.map(|it| stack(it.1)).unwrap_or_default(),
                    first: None,
                    freed: Some(FreedRow {
                        time: freed.time,
                        real_time: moment.real_time.saturating_sub(since(freed.time)),
                        stack: stack(freed.stack),
                    }),
                }
            }
        }
    }
}

/// A block of a list.
enum Chosen<'a> {
    Live(&'a Live),
    Freed(&'a Freed),
}

impl Stacks {
    fn add(&mut self, frames: Vec<Frame>) -> usize {
        let key = |it: &Frame| {
            let place = &it.module;
            let address = if it.function.is_empty() {
                place.address
            } else {
                0
            };
            (it.function.clone(), place.module.clone(), address)
        };
        let key: Arc<[Key]> = frames.iter().map(key).collect();
        let next = self.named.len();
        *self.ids.entry(key).or_insert_with(|| {
            let texts = frames
                .iter()
                .map(|it| it.function.len() + it.module.module.len());
            self.memory += texts.map(|it| OF_FRAME + it as u64).sum::<u64>();
            self.memory += OF_PROCESS;
            self.named.push(frames);
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Place, name_of};

    fn event(process: u32, change: Change, function: &str) -> Event {
        Event {
            name: "server".into(),
            process,
            is_thread: false,
            time: 1_000_000_000,
            change,
            stack: vec![Frame {
                function: function.into(),
                signature: function.into(),
                module: Place {
                    module: "server".into(),
                    address: 1,
                    missing: None,
                },
                ..Frame::default()
            }],
        }
    }

    /// The same ids in two processes are different blocks.
    #[test]
    fn processes_are_told_apart() {
        let mut blocks = PerfBlocks::new(Period::new(1).expect("a period"));
        let block = |id, size| Block {
            id,
            address: 16,
            size,
        };
        assert!(blocks.is_empty());
        for process in [5, 6] {
            blocks.add(event(process, Change::Allocated(block(1, 1000)), "leak"));
            blocks.add(event(process, Change::Allocated(block(2, 500)), "cache"));
        }
        blocks.add(event(5, Change::Freed(block(2, 500)), "cache"));
        blocks.add(event(
            6,
            Change::Replaced(block(1, 1000), block(3, 3000)),
            "leak",
        ));
        let moment = Moment {
            time: 1_000_000_000,
            real_time: 7,
        };
        let report = blocks.report(moment, 0, 1);
        let total = report.total.expect("sums").live;
        assert_eq!((total.samples(), total.bytes().value), (3, 4500.0));
        assert_eq!(report.more_sites, 1);
        let site = &report.sites[0];
        assert_eq!(name_of(&site.stack[0]), "leak");
        assert_eq!(site.sums.live.bytes().value, 4000.0);
        let by_process: Vec<_> = site
            .processes
            .iter()
            .map(|(id, it)| (*id, it.bytes().value))
            .collect();
        assert_eq!(by_process, [(5, 1000.0), (6, 3000.0)]);
        let counters = report.processes[1].counters;
        assert_eq!((counters.sampled, counters.freed), (3, 1));
    }

    const NOW: Moment = Moment {
        time: 3_000_000_000,
        real_time: 1_700_000_003_000_000_000,
    };

    fn blocks() -> PerfBlocks {
        PerfBlocks::new(Period::new(1).expect("a period"))
    }

    const fn block(id: u64, size: u64) -> Block {
        let address = id * 4096;
        Block { id, address, size }
    }

    /// `perf trace` names threads: block 1 is that of thread 5, although thread 6 frees it; block 2 of the
    /// same address in a process that is another one stays.
    #[test]
    fn one_thread_frees_what_another_one_has_allocated() {
        let mut blocks = blocks();
        let mut add = |process, change| {
            let mut event = event(process, change, "f");
            event.is_thread = true;
            blocks.add(event);
        };
        add(5, Change::Allocated(block(1, 1000)));
        add(5, Change::Allocated(block(2, 500)));
        add(6, Change::Freed(block(1, 1000)));
        add(
            6,
            Change::Freed(Block {
                address: 7,
                ..block(2, 500)
            }),
        );
        let live = blocks.report(NOW, 0, 1).total.expect("sums").live;
        assert_eq!((live.samples(), live.bytes().value), (1, 500.0));
    }

    #[test]
    fn later_reports_have_what_has_grown_and_been_freed_since_the_first() {
        let mut blocks = blocks();
        blocks.add(event(5, Change::Allocated(block(1, 1000)), "leak"));
        blocks.add(event(5, Change::Allocated(block(2, 500)), "cache"));
        assert_eq!(blocks.report(NOW, 0, 9).mark_time, None);
        blocks.add(event(5, Change::Freed(block(2, 500)), "cache"));
        blocks.add(event(5, Change::Allocated(block(3, 1700)), "leak"));
        let report = blocks.report(NOW, 0, 9);
        assert_eq!(report.mark_time, Some(NOW.real_time));
        let grown = report.total.expect("sums").grown_bytes();
        assert_eq!(grown.value, 1200.0);
    }

    #[test]
    fn poireaus_lines_have_ages_reallocations_and_recent_frees() {
        let mut blocks = blocks();
        blocks.add(event(5, Change::Allocated(block(1, 1000)), "leak"));
        blocks.add(event(5, Change::Allocated(block(2, 500)), "cache"));
        let mut later = event(5, Change::Replaced(block(1, 1000), block(3, 3000)), "grow");
        later.time = 2_500_000_000;
        blocks.add(later);
        // Allocated before the first event.
        blocks.add(event(5, Change::Freed(block(9, 90)), "drop"));
        let text = |blocks: &PerfBlocks, old_age, which| {
            let mut text = Vec::new();
            blocks
                .write_poireau(NOW, old_age, which, &mut text)
                .expect("memory");
            String::from_utf8(text).expect("UTF-8")
        };
        assert_eq!(
            text(&blocks, 0, Which::Live),
            "2023-11-14 22:13:23 UTC live allocations\n\
             \tsize=500 c_age=2.000000 alloc=cache\n\
             \tsize=3000 c_age=2.000000 alloc=leak m_age=0.500000 realloc=grow\n"
        );
        let old = "2023-11-14 22:13:23 UTC old allocations\n";
        let cache = "\tsize=500 c_age=2.000000 alloc=cache\n";
        let second = 1_000_000_000;
        assert_eq!(text(&blocks, second, Which::Old), format!("{old}{cache}"));
        blocks.hide_old(NOW, second);
        assert_eq!(text(&blocks, second, Which::Old), old);
        assert_eq!(
            text(&blocks, 0, Which::Freed),
            "2023-11-14 22:13:23 UTC recently freed regions\n\
             \tptr=1000 size=1000 f_time=2.500000 free=grow alloc=leak ctime=1.000000\n\
             \tptr=9000 size=90 f_time=1.000000 free=drop alloc= ctime=1.000000\n"
        );
        blocks.compact();
        assert!(text(&blocks, 0, Which::Live).contains("alloc=leak m_age=0.500000 realloc=grow"));
    }

    /// A stream may run for months.
    #[test]
    fn memory_does_not_grow_with_what_was_freed() {
        let mut blocks = blocks();
        for number in 1..20_000 {
            let name = format!("f{number}");
            blocks.add(event(
                number as u32,
                Change::Allocated(block(number, 10)),
                &name,
            ));
            blocks.add(event(
                number as u32,
                Change::Freed(block(number, 10)),
                &name,
            ));
            if blocks.memory() > 16 << 20 {
                blocks.compact();
            }
            assert!(blocks.memory() < 20 << 20, "{}", blocks.memory());
        }
    }
}
