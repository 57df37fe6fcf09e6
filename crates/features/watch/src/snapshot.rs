//! A snapshot of one process: its state at one moment, with a key for each stack that is the same
//! in all processes and at all times. Every output of a watcher is made of snapshots.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use allotrope_sampling::estimate::Figures;
use allotrope_shm::samples::reader::{Module, State};
use allotrope_shm::samples::writer::Sample;
use allotrope_shm::wire::NO_MAPPING;
use allotrope_trace::model::Exit;
use rustc_hash::FxHashMap;

use crate::process_status::status_field;
use crate::resident::Resident;

/// A stack: a hash of its frames, each by its module's path and what was mapped of it and the address in the
/// module's file. The hash has a random key, so that no process can make its stacks be taken
/// for another one's.
pub type SiteKey = u64;

/// The hash function of one watcher.
#[derive(Debug, Clone, Default)]
pub struct Keys(RandomState);

/// The state of a process at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// Its id, as the watcher sees it.
    pub process: u32,
    /// The moment, by the process's `CLOCK_MONOTONIC`, in nanoseconds.
    pub time: u64,
    /// The same moment by `CLOCK_REALTIME`, in nanoseconds since 1970.
    pub real_time: u64,
    /// What was in its memory.
    pub state: State,
    /// Its parent's id; 0 if unknown.
    pub parent: u32,
    /// How it had ended before its memory was read; [`Exit::Running`] if it had not.
    pub exit: Exit,
    /// Its resident memory at that moment; `None` if it had ended, or is not known.
    pub resident: Option<Resident>,
    /// The folder below which the process's files are, if it is another one than ours.
    pub root: Option<String>,
    keys: FxHashMap<u32, SiteKey>,
}

impl Snapshot {
    /// Of the state of a process that has ended. Makes keys for the stacks of all live samples.
    pub fn new(process: u32, root: Option<String>, state: State, keys: &Keys) -> Self {
        let mut modules = FxHashMap::default();
        for (number, module) in &state.modules {
            modules.insert(
                *number,
                (
                    module,
                    keys.0
                        .hash_one((&module.path, &module.build_id, module.file)),
                ),
            );
        }
        let mut of_stacks = FxHashMap::default();
        for Sample { stack, .. } in &state.samples {
            of_stacks
                .entry(*stack)
                .or_insert_with(|| keys.of_stack(process, *stack, &state, &modules));
        }
        Self {
            process,
            time: monotonic_now(),
            real_time: real_now(),
            parent: 0,
            exit: state
                .process
                .exit_status
                .map_or(Exit::Unknown, Exit::Status),
            state,
            resident: None,
            root,
            keys: of_stacks,
        }
    }

    /// The key of a sample's stack.
    pub fn key(&self, sample: &Sample) -> SiteKey {
        self.key_of_stack(sample.stack)
    }

    /// The key of the stack of a live sample.
    pub fn key_of_stack(&self, stack: u32) -> SiteKey {
        self.keys.get(&stack).copied().unwrap_or_default()
    }

    /// The age of a sample, in nanoseconds: since it was allocated or reallocated.
    pub fn age(&self, sample: &Sample) -> u64 {
        self.time.saturating_sub(sample.allocated)
    }

    /// Whether the process had ended: this is its last state.
    pub fn has_ended(&self) -> bool {
        self.exit != Exit::Running
    }

    /// The figures of none of its blocks. `None`: sampling was never on.
    pub fn none(&self) -> Option<Figures> {
        let of_samples = self.state.samples.iter().map(|it| it.period).max();
        self.state.none().or(of_samples.map(Figures::new))
    }

    /// Which process this is: another one may have the same id later.
    pub fn instance(&self) -> (u32, u64) {
        (self.process, self.state.process.began)
    }

    /// Its name: that under which it was started, since several programs may be one file
    /// (redis-server and redis-check-rdb are).
    pub fn name(&self) -> String {
        let process = &self.state.process;
        let started = process.command.split(|byte| *byte == 0).next();
        let started = started.filter(|it| !it.is_empty());
        let path = started.unwrap_or(&process.executable);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        allotrope_text::text_of(name).into_owned()
    }
}

impl Keys {
    fn of_stack(
        &self,
        process: u32,
        stack: u32,
        state: &State,
        modules: &FxHashMap<u16, (&Module, u64)>,
    ) -> SiteKey {
        let stack = state.stack(stack);
        let mut hasher = self.0.build_hasher();
        stack.end.hash(&mut hasher);
        for frame in &stack.frames {
            frame.exact.hash(&mut hasher);
            let known = modules.get(&frame.mapping);
            match known.filter(|_| frame.mapping != NO_MAPPING) {
                Some((module, hash)) => {
                    (hash, frame.address.wrapping_sub(module.bias)).hash(&mut hasher);
                }
                // Code that is in no file is that of one process.
                None => (process, frame.address).hash(&mut hasher),
            }
        }
        hasher.finish()
    }
}

/// The id of a process's parent.
pub fn parent_of(process: u32) -> Option<u32> {
    status_field(process, "PPid:")?.try_into().ok()
}

/// Now, by `CLOCK_MONOTONIC`, in nanoseconds.
pub fn monotonic_now() -> u64 {
    nanoseconds(rustix::time::ClockId::Monotonic)
}

/// Now, by `CLOCK_REALTIME`, in nanoseconds since 1970.
pub fn real_now() -> u64 {
    nanoseconds(rustix::time::ClockId::Realtime)
}

fn nanoseconds(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let rest = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
