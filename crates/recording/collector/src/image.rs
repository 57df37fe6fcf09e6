//! The collector's state of a process image (a program from its `exec` or fork to its
//! end or next `exec`): [`Image`] while it runs, [`Ancestor`] after its end, since a
//! forked child may attach after its parent's image has ended.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use allotrope_shm::arena::tick_now;
use allotrope_shm::layout::{ImageSlot, LOSS_REASONS};
use allotrope_symbols::PerfMap;
use allotrope_trace::model::{
    ForkPoint, ImageId, Loss, LossReason, LostBlock, Reachability, Record, StreamId, ThreadName,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::jit_symbols::{Begin, JitSymbolizer};
use crate::modules::ImageMappings;
use crate::process::FileIdentity;
use crate::process_exit::ExitDetection;
use crate::recorder_memory::RecorderMemory;
use crate::stacks::ImageStacks;
use crate::threads::Threads;
use crate::trace_file::TraceFile;
use crate::windows::Windows;

/// Largest number of stack nodes in one record.
const NODES_PER_RECORD: usize = 64 << 10;
/// Number of lost blocks in one record.
const LOST_PER_RECORD: usize = 64 << 10;
/// Largest number of addresses in JIT code whose names are requested.
const MAX_JIT_ADDRESSES: usize = 256 << 10;
/// Largest number of new threads whose names are still to be read.
const MAX_NEW_THREADS: usize = 4096;

/// A living image.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) id: ImageId,
    pub(crate) pid: u32,
    /// The pid in the process's own pid namespace.
    pub(crate) own_pid: u32,
    /// The process is in a pid namespace nested in that of `/proc`.
    pub(crate) is_inner: bool,
    pub(crate) exit_detection: ExitDetection,
    /// The process's executable when the image attached.
    pub(crate) executable: Option<FileIdentity>,
    /// When a scan first found another executable in the process.
    pub(crate) replaced_since: Option<Instant>,
    pub(crate) stacks: ImageStacks,
    pub(crate) mappings: ImageMappings,
    pub(crate) threads: Threads,
    /// When the image began.
    pub(crate) tick: u64,
    /// The image from which this one was forked, and that image's pid.
    pub(crate) parent: Option<(ImageId, u32)>,
    /// Addresses outside all modules whose names were requested, each with the `exact`
    /// flag of its stack node.
    pub(crate) jit_addresses: FxHashSet<(u64, bool)>,
    /// The perf map of a process that has mounts of its own, until JIT code needs it.
    pub(crate) perf_map: Option<PerfMap>,
    pub(crate) windows: Windows,
    /// The stream of each ring that the image has claimed.
    pub(crate) streams: FxHashMap<u32, StreamId>,
    /// Blocks that the scan at the exit has not found reachable, and that are not written yet.
    lost_blocks: Vec<LostBlock>,
    /// The status of an exit that the recorder announced.
    pub(crate) exit_note: Option<i32>,
    /// An `exec` that the recorder announced.
    pub(crate) exec_note: Option<ExecNote>,
    /// The process has ended.
    pub(crate) gone: bool,
    /// Part of the image's rings could not be decoded.
    pub(crate) corrupt: bool,
    /// When one of the image's rings last had new words.
    pub(crate) last_event: Instant,
    /// When the process is to be scanned next.
    pub(crate) next_scan: Instant,
    /// Tids of new threads whose names were not read yet.
    pub(crate) new_threads: Vec<u32>,
    /// Index of the thread whose name was read last, among the living ones.
    pub(crate) name_cursor: usize,
    /// The recorder's part of the process's resident memory.
    pub(crate) recorder_memory: RecorderMemory,
    /// The slot's loss counters as last written to the trace.
    written_losses: [u64; LOSS_REASONS],
}

/// An `exec` that an image announced.
#[derive(Debug)]
pub(crate) struct ExecNote {
    /// The stream with the announcement; an event after it shows that the `exec` failed.
    pub(crate) stream: StreamId,
    /// Path of the new executable, as the program gave it; may be empty.
    pub(crate) path: Vec<u8>,
}

impl Image {
    pub(crate) fn new(id: ImageId, pid: u32, exit_detection: ExitDetection, now: Instant) -> Self {
        Self {
            id,
            pid,
            own_pid: pid,
            is_inner: false,
            gone: matches!(exit_detection, ExitDetection::Gone),
            exit_detection,
            executable: None,
            replaced_since: None,
            stacks: ImageStacks::default(),
            mappings: ImageMappings::default(),
            threads: Threads::default(),
            tick: 0,
            parent: None,
            jit_addresses: FxHashSet::default(),
            perf_map: None,
            windows: Windows::default(),
            streams: FxHashMap::default(),
            lost_blocks: Vec::new(),
            exit_note: None,
            exec_note: None,
            corrupt: false,
            last_event: now,
            next_scan: now,
            new_threads: Vec::new(),
            name_cursor: 0,
            recorder_memory: RecorderMemory::default(),
            written_losses: [0; LOSS_REASONS],
        }
    }

    /// The process's pid in our namespace, if `/proc` shows the process.
    pub(crate) fn pid_if_seen(&self) -> Option<u32> {
        let seen = matches!(
            self.exit_detection,
            ExitDetection::Process(_) | ExitDetection::Polled
        );
        seen.then_some(self.pid)
    }

    /// Whether `other` has replaced this image in the same process.
    pub(crate) fn is_replaced_by(&self, other: &Self) -> bool {
        match (self.pid_if_seen(), other.pid_if_seen()) {
            (Some(pid), Some(other)) => pid == other,
            // One of the two processes was not found. Processes of other namespaces
            // may have the same pid, so the announced `exec` has to confirm it.
            _ => self.own_pid == other.own_pid && self.exec_note.is_some(),
        }
    }

    /// Adds a new thread, whose name the next scan reads.
    pub(crate) fn note_new_thread(&mut self, tid: u32) {
        if self.new_threads.len() < MAX_NEW_THREADS {
            self.new_threads.push(tid);
        }
    }

    /// Writes the name that the thread `tid` had at `tick`, if the trace lacks it.
    pub(crate) fn name_thread(&mut self, tid: u32, tick: u64, name: String, trace: &mut TraceFile) {
        if let Some(thread) = self.threads.name(tid, tick, &name) {
            trace.write(&Record::ThreadName(ThreadName { thread, name }));
        }
    }

    /// Requests a name for the code at an address that lies in no module.
    #[cold]
    pub(crate) fn request_jit_symbol(
        &mut self,
        address: u64,
        exact: bool,
        names: &mut JitSymbolizer,
    ) {
        if self.jit_addresses.is_empty() {
            names.begin(Begin {
                image: self.id,
                pid: self.pid,
                map: self.perf_map.take(),
                tick: self.tick,
                parent: self.parent,
            });
        }
        if self.jit_addresses.len() < MAX_JIT_ADDRESSES
            && self.jit_addresses.insert((address, exact))
        {
            names.request(self.id, address, exact);
        }
    }

    /// Writes the stack nodes that are not in the trace yet.
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

    /// Writes the growth of the slot's loss counters since the last call.
    pub(crate) fn write_losses(&mut self, slot: &ImageSlot, trace: &mut TraceFile) {
        for ((lost, before), reason) in slot
            .lost
            .iter()
            .zip(&mut self.written_losses)
            .zip(LossReason::ALL)
        {
            let lost = lost.load(Relaxed);
            // A counter that decreases is corrupt and adds nothing.
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

    /// Adds a block that the scan at the exit has not found reachable.
    pub(crate) fn add_lost_block(&mut self, block: LostBlock, trace: &mut TraceFile) {
        self.lost_blocks.push(block);
        if self.lost_blocks.len() >= LOST_PER_RECORD {
            self.write_lost_blocks(trace);
        }
    }

    /// Writes the end of the scan at the exit, and before it the blocks that are not written yet.
    pub(crate) fn end_scan(&mut self, scan: Reachability, trace: &mut TraceFile) {
        self.write_lost_blocks(trace);
        trace.write(&Record::Reachability(scan));
    }

    fn write_lost_blocks(&mut self, trace: &mut TraceFile) {
        let blocks = std::mem::take(&mut self.lost_blocks);
        if !blocks.is_empty() {
            let image = self.id;
            trace.write(&Record::LostBlocks { image, blocks });
        }
    }

    /// Marks the image as corrupt and writes a loss of one event; how many events the
    /// undecodable words held is unknown.
    pub(crate) fn write_corrupt(&mut self, trace: &mut TraceFile) {
        self.corrupt = true;
        trace.write(&Record::Loss(Loss {
            image: self.id,
            reason: LossReason::Corrupt,
            events: 1,
            tick: tick_now(),
        }));
    }

    /// What a forked child of this image needs of it.
    pub(crate) fn ancestor(&self) -> Ancestor {
        Ancestor {
            image: self.id,
            pid: self.own_pid,
            streams: self.streams.clone(),
        }
    }
}

/// The part of an image that outlives it: by it the fork points of a child are
/// converted from rings to streams.
#[derive(Debug, Clone)]
pub(crate) struct Ancestor {
    pub(crate) image: ImageId,
    /// Pid in the process's own namespace, which a child writes as its parent's.
    pid: u32,
    /// The stream of each ring.
    streams: FxHashMap<u32, StreamId>,
}

impl Ancestor {
    pub(crate) fn has_pid(&self, pid: u32) -> bool {
        self.pid == pid
    }

    /// Converts a child's fork points, pairs of ring and ordinal, to points in this
    /// image's streams. A ring without a stream had no event before the fork.
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

/// Images that have ended, each with its slot, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Ancestors {
    ended: VecDeque<(usize, Ancestor)>,
}

/// Largest number of ended images in the list; the oldest are dropped.
const MAX_ANCESTORS: usize = 4096;

impl Ancestors {
    pub(crate) fn remember(&mut self, slot: usize, ancestor: Ancestor) {
        if self.ended.len() >= MAX_ANCESTORS {
            self.ended.pop_front();
        }
        self.ended.push_back((slot, ancestor));
    }

    /// The image that had `slot`. Slots are reused, so the latest one with the pid `pid`
    /// is preferred. If there is none, the latest one: a child whose parent has ended
    /// reports the pid of the process that adopted it.
    pub(crate) fn find(&self, slot: usize, pid: u32) -> Option<&Ancestor> {
        let of_slot = || self.ended.iter().rev().filter(move |(of, _)| *of == slot);
        let found = of_slot().find(|(_, ancestor)| ancestor.pid == pid);
        found.or_else(|| of_slot().next()).map(|(_, it)| it)
    }
}

/// The collector's state of an image slot.
#[derive(Debug, Default)]
pub(crate) enum Slot {
    /// Free, or claimed by an image that is not ready.
    #[default]
    Empty,
    /// A running image.
    Image(Box<Image>),
    /// An image whose first event is malformed; its rings are skipped.
    Refused,
}

impl Slot {
    pub(crate) fn image(&self) -> Option<&Image> {
        match self {
            Self::Image(image) => Some(image),
            _ => None,
        }
    }

    pub(crate) fn image_mut(&mut self) -> Option<&mut Image> {
        match self {
            Self::Image(image) => Some(image),
            _ => None,
        }
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
        assert_eq!(found(7, 1), Some(1), "the parent had ended");
        assert_eq!(found(9, 100), None);
    }

    #[test]
    fn fork_points_are_converted_from_rings_to_streams() {
        let points = ancestor(0, 1).fork_points(&[4, 11, 9, 12, u64::MAX, 1, 3, 13, 4]);
        let point = |stream, ordinal| ForkPoint { stream, ordinal };
        assert_eq!(points, [point(40, 11), point(30, 13)]);
    }
}
