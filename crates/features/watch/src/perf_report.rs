//! A report from events that perf has recorded: which sampled blocks are live at their end.

use std::collections::BTreeMap;
use std::sync::Arc;

use allotrope_sampling::Period;
use allotrope_shm::samples::reader::Counters;
use rustc_hash::FxHashMap;

use crate::names::NamedFrame;
use crate::perf_events::{Block, Change, Event};
use crate::report::{ProcessRow, Report, SiteRow, Suppressed};
use crate::sites::{LiveBlock, SitesBuilder};

/// The blocks that are live after some events.
#[derive(Debug)]
pub struct PerfBlocks {
    period: Period,
    /// By process and id: ids are numbers of one process.
    live: FxHashMap<(u32, u64), Live>,
    stacks: FxHashMap<Arc<[Key]>, usize>,
    named: Vec<Vec<NamedFrame>>,
    processes: BTreeMap<u32, (Arc<str>, Counters)>,
    last: u64,
    /// Bytes of all this, roughly.
    memory: u64,
}

/// Rough bytes of a block, of a process with its sums, and of a frame besides its texts.
const OF_BLOCK: usize = 64;
const OF_PROCESS: usize = 2048;
const OF_FRAME: usize = 256;

/// What tells a frame from another one.
type Key = (Arc<str>, Arc<str>, u64);

#[derive(Debug)]
struct Live {
    size: u64,
    time: u64,
    stack: usize,
}

impl PerfBlocks {
    /// Without blocks. The period is that of the library; libpoireau's is fixed.
    pub fn new(period: Period) -> Self {
        Self {
            period,
            live: FxHashMap::default(),
            stacks: FxHashMap::default(),
            named: Vec::new(),
            processes: BTreeMap::new(),
            last: 0,
            memory: 0,
        }
    }

    /// Takes the next event.
    pub fn add(&mut self, event: Event) {
        self.last = self.last.max(event.time);
        if !self.processes.contains_key(&event.process) {
            self.memory += (OF_PROCESS + 2 * event.name.len()) as u64;
        }
        let process = self.processes.entry(event.process);
        let counters = &mut process
            .or_insert_with(|| (event.name, Counters::default()))
            .1;
        counters.sampled += u64::from(!matches!(event.change, Change::Freed(_)));
        counters.freed += u64::from(!matches!(event.change, Change::Allocated(_)));
        let block = match event.change {
            Change::Allocated(block) => block,
            Change::Freed(id) => {
                self.live.remove(&(event.process, id));
                return;
            }
            Change::Replaced(id, block) => {
                self.live.remove(&(event.process, id));
                block
            }
        };
        let stack = self.stack(event.stack);
        let Block { id, size, .. } = block;
        let time = event.time;
        self.memory += OF_BLOCK as u64;
        self.live
            .insert((event.process, id), Live { size, time, stack });
    }

    fn stack(&mut self, frames: Vec<NamedFrame>) -> usize {
        let key = |it: &NamedFrame| match it.function.is_empty() {
            true => (it.function.clone(), it.module.clone(), it.address),
            false => (it.function.clone(), it.module.clone(), 0),
        };
        let key: Arc<[Key]> = frames.iter().map(key).collect();
        let next = self.named.len();
        *self.stacks.entry(key).or_insert_with(|| {
            let texts = frames.iter().map(|it| it.function.len() + it.module.len());
            self.memory += texts.map(|it| (OF_FRAME + it) as u64).sum::<u64>();
            self.memory += OF_PROCESS as u64;
            self.named.push(frames);
            next
        })
    }

    /// The bytes that the blocks and their stacks take, roughly.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether there was no event.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The report at the last event. `real_time`: when that was, in nanoseconds since 1970.
    pub fn report(&self, real_time: u64, old_age: u64, top: usize) -> Report {
        let mut live: Vec<_> = self.live.iter().collect();
        live.sort_by_key(|((process, id), _)| (*process, *id));
        let mut live = live.into_iter().peekable();
        let mut builder = SitesBuilder::default();
        for process in self.processes.keys() {
            builder.begin_process(Some(self.period));
            while let Some((_, block)) = live.next_if(|((of, _), _)| of == process) {
                let age = self.last.saturating_sub(block.time);
                builder.add(&LiveBlock {
                    key: block.stack as u64,
                    stack: 0,
                    size: block.size,
                    period: self.period,
                    age,
                    is_old: age >= old_age,
                    // There is no mark.
                    is_new: false,
                });
            }
        }
        let grouped = builder.finish();
        let ids: Vec<u32> = self.processes.keys().copied().collect();
        let rows = grouped.sites.iter().take(top);
        let rows = rows.map(|it| SiteRow::new(it, &ids, self.named[it.key as usize].clone()));
        let processes = self.processes.iter().zip(&grouped.processes);
        let processes = processes.map(|((id, (name, counters)), sums)| ProcessRow {
            process: *id,
            name: name.to_string(),
            period: Some(self.period),
            sums: sums.clone(),
            counters: *counters,
            unreadable: 0,
        });
        Report {
            real_time,
            mark_time: None,
            old_age,
            total: grouped.total(),
            processes: processes.collect(),
            sites: rows.collect(),
            more_sites: grouped.sites.len().saturating_sub(top),
            suppressed: Suppressed::default(),
            high_water: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(process: u32, change: Change, function: &str) -> Event {
        Event {
            name: "server".into(),
            process,
            time: 1_000_000_000,
            change,
            stack: vec![NamedFrame {
                function: function.into(),
                signature: function.into(),
                file: "".into(),
                line: 0,
                module: "server".into(),
                address: 1,
                missing: None,
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
        blocks.add(event(5, Change::Freed(2), "cache"));
        blocks.add(event(6, Change::Replaced(1, block(3, 3000)), "leak"));
        let report = blocks.report(7, 0, 1);
        let total = report.total.expect("sums").live;
        assert_eq!((total.samples(), total.bytes().value), (3, 4500.0));
        assert_eq!(report.more_sites, 1);
        let site = &report.sites[0];
        assert_eq!(site.stack[0].name(), "leak");
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
}
