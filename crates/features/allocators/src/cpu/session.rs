//! From the kernel's records to stacks with counts.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cpu::counted::Counted;
use crate::cpu::events::{Events, OpenError, Options, Record, SampleRecord, Source, Target};
use crate::cpu::quantity::Quantity;
use crate::cpu::space::{Frame, Modules, Space};

/// Largest number of processes whose address spaces are known at once.
const PROCESSES: usize = 1 << 12;
/// Largest number of distinct stacks; further ones keep only their innermost frames.
const STACKS: usize = 1 << 18;
/// Number of frames that the further stacks keep.
const SHORT: usize = 6;

/// What the samples of a stack count.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Samples of the clock.
    pub(crate) samples: u64,
    /// Samples that were in the kernel.
    pub(crate) kernel_samples: u64,
    /// Amount, by quantity, for which its samples stand.
    pub(crate) amounts: [u64; Quantity::COUNT],
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.kernel_samples += other.kernel_samples;
        for (sum, amount) in self.amounts.iter_mut().zip(other.amounts) {
            *sum = sum.saturating_add(amount);
        }
    }
}

/// Samples programs until it is finished.
pub struct Session {
    events: Events,
    spaces: FxHashMap<u32, Space>,
    pub(crate) modules: Modules,
    pub(crate) stacks: FxHashMap<Box<[Frame]>, Counts>,
    pub(crate) lost: u64,
    /// Samples of events beside the clock.
    pub(crate) counter_samples: u64,
    /// What samples of the time before the program's start stand for; they are left out.
    before: [u64; Quantity::COUNT],
    /// What was counted, by quantity, if that is known beside the samples.
    pub(crate) counted: [Option<Counted>; Quantity::COUNT],
    /// The inode of this program, which a child executes before the program that is sampled;
    /// `None` once it has.
    own: Option<u64>,
    /// The process that still executes it.
    starting: FxHashSet<u32>,
    /// Thread whose event is taken, by sampled thread, processor and quantity, if several events
    /// sample it, one opened and one inherited.
    taken: FxHashMap<(u32, usize, Quantity), i32>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Starts to sample. With [`Target::Children`] the calling thread must start them.
    ///
    /// # Errors
    /// If nothing can be sampled.
    pub fn new(options: &Options) -> Result<Self, OpenError> {
        use std::os::unix::fs::MetadataExt;
        let own = std::fs::metadata("/proc/self/exe").map(|it| it.ino());
        let mut session = Self {
            events: Events::open(options)?,
            spaces: FxHashMap::default(),
            modules: Modules::default(),
            stacks: FxHashMap::default(),
            lost: 0,
            counter_samples: 0,
            before: [0; Quantity::COUNT],
            counted: [None; Quantity::COUNT],
            own: own
                .ok()
                .filter(|_| matches!(options.target, Target::Children)),
            starting: FxHashSet::default(),
            taken: FxHashMap::default(),
        };
        if let Target::Process(process) = options.target {
            let space = Space::of_process(process, &mut session.modules);
            session.spaces.insert(process, space);
        }
        Ok(session)
    }

    /// The clock of the samples.
    pub fn source(&self) -> Source {
        self.events.source
    }

    /// Whether no CPU time was sampled.
    pub fn is_empty(&self) -> bool {
        self.stacks.values().all(|counts| counts.samples == 0)
    }

    /// The counters that this machine does not have, or not for this user, with the reason.
    pub fn unavailable(&self) -> &[(Quantity, String)] {
        &self.events.unavailable
    }

    /// Takes the records so far; to be called many times a second, or rings overflow. The
    /// last time is at the `end`.
    pub fn read(&mut self, end: bool) {
        let mut records = Vec::new();
        self.events.read(end, |record| records.push(record));
        for record in records {
            self.take(record);
        }
        if end {
            for quantity in Quantity::COUNTERS {
                let at = quantity as usize;
                let counted = self.events.counted(quantity);
                self.counted[at] = counted.map(|it| Counted {
                    amount: it.amount.saturating_sub(self.before[at]),
                    ..it
                });
            }
        }
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Lost(count) => self.lost = self.lost.saturating_add(count),
            Record::Exec { process } => {
                self.spaces.insert(process, Space::default());
                self.starting.remove(&process);
            }
            Record::Fork { process, parent } => {
                let copy = self.spaces.get(&parent).map(|it| it.copy(&self.modules));
                self.forget_if_many();
                self.spaces.insert(process, copy.unwrap_or_default());
            }
            Record::End { thread } => {
                if self.events.is_doubled {
                    self.taken.retain(|(known, ..), _| *known != thread);
                }
            }
            Record::Map {
                process,
                start,
                length,
                offset,
                path,
                inode,
            } => {
                if self.own == Some(inode) {
                    self.own = None;
                    self.starting.insert(process);
                }
                self.forget_if_many();
                let space = self.spaces.entry(process).or_default();
                let modules = &mut self.modules;
                space.map(process, start, length, offset, &path, inode, modules);
            }
            Record::Sample(sample) => self.sample(&sample),
        }
    }

    fn sample(&mut self, sample: &SampleRecord) {
        if self.starting.contains(&sample.process) {
            self.before[sample.quantity as usize] += sample.period;
            return;
        }
        if self.is_second(sample) {
            return;
        }
        let frames = match (sample.registers, self.spaces.get_mut(&sample.process)) {
            (Some(registers), Some(space)) => space.frames(registers, &sample.stack),
            _ => Vec::new(),
        };
        let is_clock = sample.quantity == Quantity::Clock;
        self.counter_samples += u64::from(!is_clock);
        let mut counts = Counts {
            samples: u64::from(is_clock),
            kernel_samples: u64::from(is_clock && sample.in_kernel),
            ..Counts::default()
        };
        counts.amounts[sample.quantity as usize] = sample.period;
        let mut frames = &frames[..];
        if self.stacks.len() >= STACKS && !self.stacks.contains_key(frames) {
            frames = &frames[..frames.len().min(SHORT)];
        }
        self.stacks.entry(frames.into()).or_default().add(&counts);
    }

    /// Whether another event has sampled this already. Of each thread and processor, the event
    /// that comes first is taken: both sample all of it, from the same moment on.
    fn is_second(&mut self, sample: &SampleRecord) -> bool {
        if !self.events.is_doubled {
            return false;
        }
        let event = sample.event;
        let key = (sample.thread, event.cpu, sample.quantity);
        *self.taken.entry(key).or_insert(event.task) != event.task
    }

    /// Short-lived processes end without a record of ours; their spaces are in the way.
    fn forget_if_many(&mut self) {
        if self.spaces.len() > PROCESSES {
            self.spaces.retain(|process, _| is_alive(*process));
        }
    }
}

fn is_alive(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}
