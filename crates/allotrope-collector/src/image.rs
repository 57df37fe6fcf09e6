//! One recorded process image while it lives, and what is remembered of it
//! afterwards: a child may be heard of after its parent's end.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use allotrope_shm::arena::tick_now;
use allotrope_shm::layout::{ImageSlot, LOSS_REASONS};
use allotrope_trace::model::{ForkPoint, ImageId, Loss, LossReason, Record, StreamId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::jit_symbols::{Begin, JitSymbolizer};
use crate::modules::ImageMappings;
use crate::process::FileIdentity;
use crate::stacks::ImageStacks;
use crate::threads::Threads;
use crate::trace_file::TraceFile;
use crate::watch::Watch;
use crate::windows::Windows;

/// Nodes of one record.
const NODES_PER_RECORD: usize = 64 << 10;
/// Addresses of code made at run time that are to be named.
const MOST_RUNTIME_ADDRESSES: usize = 256 << 10;
/// New threads that wait for their name to be read.
const MOST_FRESH_THREADS: usize = 4096;

/// A living image.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) id: ImageId,
    pub(crate) pid: u32,
    /// The pid in the process's own pid namespace.
    pub(crate) own_pid: u32,
    /// That namespace is not this one.
    pub(crate) is_inner: bool,
    pub(crate) watch: Watch,
    /// The executable when the image was met.
    pub(crate) executable: Option<FileIdentity>,
    /// Since when the process runs another executable.
    pub(crate) replaced_since: Option<Instant>,
    pub(crate) stacks: ImageStacks,
    pub(crate) mappings: ImageMappings,
    pub(crate) threads: Threads,
    /// When it began.
    pub(crate) tick: u64,
    /// The image it was forked from, and its pid.
    pub(crate) parent: Option<(ImageId, u32)>,
    /// Addresses in no module that were asked for, each with whether it is exact.
    pub(crate) runtime_addresses: FxHashSet<(u64, bool)>,
    pub(crate) windows: Windows,
    /// The stream of each ring it claimed.
    pub(crate) streams: FxHashMap<u32, StreamId>,
    /// Status with which it said to be about to exit.
    pub(crate) exit_note: Option<i32>,
    /// It was about to be replaced by another image.
    pub(crate) exec_note: Option<ExecNote>,
    /// Its process has ended.
    pub(crate) gone: bool,
    /// Something that it wrote could not be read.
    pub(crate) corrupt: bool,
    /// When something was last read of it.
    pub(crate) last_event: Instant,
    /// When it is to be looked at next.
    pub(crate) next_scan: Instant,
    /// Tids whose names were not read yet.
    pub(crate) new_threads: Vec<u32>,
    /// Where reading names goes on.
    pub(crate) name_cursor: usize,
    lost_before: [u64; LOSS_REASONS],
}

/// An exec that an image announced.
#[derive(Debug)]
pub(crate) struct ExecNote {
    /// The stream that said so; if more comes from it, the exec failed.
    pub(crate) stream: StreamId,
    /// Path of the new executable, as the program gave it; may be empty.
    pub(crate) path: Vec<u8>,
}

impl Image {
    pub(crate) fn new(id: ImageId, pid: u32, watch: Watch, now: Instant) -> Self {
        Self {
            id,
            pid,
            own_pid: pid,
            is_inner: false,
            gone: matches!(watch, Watch::Gone),
            watch,
            executable: None,
            replaced_since: None,
            stacks: ImageStacks::default(),
            mappings: ImageMappings::default(),
            threads: Threads::default(),
            tick: 0,
            parent: None,
            runtime_addresses: FxHashSet::default(),
            windows: Windows::default(),
            streams: FxHashMap::default(),
            exit_note: None,
            exec_note: None,
            corrupt: false,
            last_event: now,
            next_scan: now,
            new_threads: Vec::new(),
            name_cursor: 0,
            lost_before: [0; LOSS_REASONS],
        }
    }

    /// The process id under which it is found in `/proc`, if it can be seen.
    pub(crate) fn pid_if_seen(&self) -> Option<u32> {
        let seen = matches!(self.watch, Watch::Process(_) | Watch::Polled);
        seen.then_some(self.pid)
    }

    /// Whether the process of this image runs `other` now.
    pub(crate) fn is_replaced_by(&self, other: &Self) -> bool {
        match (self.pid_if_seen(), other.pid_if_seen()) {
            (Some(pid), Some(other)) => pid == other,
            // One was not found, and in another namespace the same pid is
            // another process.
            _ => self.own_pid == other.own_pid && self.exec_note.is_some(),
        }
    }

    /// Notes that the thread's name is to be read soon.
    pub(crate) fn note_new_thread(&mut self, tid: u32) {
        if self.new_threads.len() < MOST_FRESH_THREADS {
            self.new_threads.push(tid);
        }
    }

    /// Has the code at an address named that lies in no module.
    #[cold]
    pub(crate) fn want_jit(&mut self, address: u64, exact: bool, names: &mut JitSymbolizer) {
        if self.runtime_addresses.is_empty() {
            names.begin(Begin {
                image: self.id,
                pid: self.pid,
                tick: self.tick,
                parent: self.parent,
            });
        }
        if self.runtime_addresses.len() < MOST_RUNTIME_ADDRESSES
            && self.runtime_addresses.insert((address, exact))
        {
            names.ask(self.id, address, exact);
        }
    }

    /// Writes the nodes that are not in the trace yet.
    pub(crate) fn write_new_stacks(&mut self, trace: &mut TraceFile) {
        let Some((mut first, nodes)) = self.stacks.take_new_nodes() else {
            return;
        };
        for nodes in nodes.chunks(NODES_PER_RECORD) {
            trace.write(&Record::Stacks {
                image: self.id,
                first,
                nodes: nodes.to_vec(),
            });
            first += nodes.len() as u32;
        }
    }

    /// Writes by how much the slot's loss counters have grown.
    pub(crate) fn write_losses(&mut self, slot: &ImageSlot, trace: &mut TraceFile) {
        for ((lost, before), reason) in slot
            .lost
            .iter()
            .zip(&mut self.lost_before)
            .zip(LossReason::ALL)
        {
            let lost = lost.load(Relaxed);
            // A counter that goes back is a hostile one.
            let events = lost.saturating_sub(*before);
            if events > 0 {
                *before = lost;
                trace.write(&Record::Loss(Loss {
                    image: self.id,
                    reason,
                    events,
                    tick: tick_now(),
                }));
            }
        }
    }

    /// Counts what could not be read as one lost event, for how many they
    /// were nobody knows.
    pub(crate) fn write_corrupt(&mut self, trace: &mut TraceFile) {
        self.corrupt = true;
        trace.write(&Record::Loss(Loss {
            image: self.id,
            reason: LossReason::Corrupt,
            events: 1,
            tick: tick_now(),
        }));
    }

    /// What to remember of it.
    pub(crate) fn ancestor(&self) -> Ancestor {
        Ancestor {
            image: self.id,
            pid: self.own_pid,
            streams: self.streams.clone(),
        }
    }
}

/// What a child's fork points to.
#[derive(Debug, Clone)]
pub(crate) struct Ancestor {
    pub(crate) image: ImageId,
    /// In its own pid namespace, as a child knows it.
    pid: u32,
    streams: FxHashMap<u32, StreamId>,
}

impl Ancestor {
    pub(crate) fn has_pid(&self, pid: u32) -> bool {
        self.pid == pid
    }

    /// The points in this image's streams that a child named as pairs of ring
    /// and ordinal. A ring without a stream had no event yet.
    pub(crate) fn fork_points(&self, pairs: &[u64]) -> Vec<ForkPoint> {
        let point = |pair: &[u64]| {
            let ring = u32::try_from(pair[0]).ok()?;
            Some(ForkPoint {
                stream: *self.streams.get(&ring)?,
                ordinal: pair[1],
            })
        };
        pairs.chunks_exact(2).filter_map(point).collect()
    }
}

/// Images that have ended, by the slot they had, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Ancestors {
    ended: VecDeque<(usize, Ancestor)>,
}

/// Ended images that are remembered.
const MOST_ANCESTORS: usize = 4096;

impl Ancestors {
    pub(crate) fn remember(&mut self, slot: usize, ancestor: Ancestor) {
        if self.ended.len() >= MOST_ANCESTORS {
            self.ended.pop_front();
        }
        self.ended.push_back((slot, ancestor));
    }

    /// The image that had `slot`: the latest with the pid `pid`, for slots are
    /// used again, or else the latest (a child whose parent is gone has
    /// another parent's pid).
    pub(crate) fn find(&self, slot: usize, pid: u32) -> Option<&Ancestor> {
        let of_slot = || self.ended.iter().rev().filter(move |(of, _)| *of == slot);
        let found = of_slot().find(|(_, ancestor)| ancestor.pid == pid);
        found.or_else(|| of_slot().next()).map(|(_, it)| it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ancestor(image: ImageId, pid: u32) -> Ancestor {
        let streams = [(3, 30), (4, 40)].into_iter().collect();
        Ancestor {
            image,
            pid,
            streams,
        }
    }

    #[test]
    fn a_childs_parent_is_found_by_slot_and_pid() {
        let mut ancestors = Ancestors::default();
        ancestors.remember(7, ancestor(0, 100));
        ancestors.remember(7, ancestor(1, 200));
        ancestors.remember(8, ancestor(2, 100));
        let found = |slot, pid| ancestors.find(slot, pid).map(|it| it.image);
        assert_eq!(found(7, 100), Some(0));
        assert_eq!(found(7, 1), Some(1), "the parent was gone");
        assert_eq!(found(9, 100), None);
    }

    #[test]
    fn fork_points_name_streams() {
        let points = ancestor(0, 1).fork_points(&[4, 11, 9, 12, u64::MAX, 1, 3, 13, 4]);
        let point = |stream, ordinal| ForkPoint { stream, ordinal };
        assert_eq!(points, [point(40, 11), point(30, 13)]);
    }
}
