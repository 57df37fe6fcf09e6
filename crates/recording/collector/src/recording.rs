//! A recording from its start to its end: the loop of the draining thread. Each step of
//! the loop has its own file: `attach` (new images), `drain` (rings), `exit` (ended
//! images), `scan` (polling `/proc`) and `process_tree` (processes without an image).

use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use allotrope_preflight::privileges;
use allotrope_shm::arena::{Arena, Settings};
use allotrope_shm::layout::{self, IMAGES, RINGS};
use allotrope_shm::location::Location;
use allotrope_symbols::{IndexCache, Locator};
use allotrope_trace::model::{self, Exit, Record};

use crate::arena_server::{ArenaServer, Descriptors};
use crate::clock;
use crate::environment::EnvironmentOptions;
use crate::error::CollectorError;
use crate::figures::Figures;
use crate::file_limit::with_file_size;
use crate::image::{Ancestors, Image, Slot};
use crate::launcher::{Launcher, Poll};
use crate::left_behind::state::LeftBehindState;
use crate::marks::state::Marks;
use crate::poll_backoff::PollBackoff;
use crate::process;
use crate::process_exit::{ExitWatcher, Search};
use crate::process_tree::{Process, ProcessTree};
use crate::protocol::{Done, FromLauncher, ImageFigures, OnFull, Start, ToLauncher};
use crate::random;
use crate::ring_state::RingState;
use crate::root_process::RootProcess;
use crate::stopped;
use crate::symbolise;
use crate::trace_context::TraceContext;
use crate::trace_file::TraceFile;

/// Interval of the coarse clock, at which busy threads write timestamps.
const TICK: Duration = Duration::from_millis(1);
/// Interval at which the age of pending events is checked.
const AGE_CHECK: Duration = Duration::from_millis(50);
/// Interval at which both clocks are read together.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Largest number of images whose live figures are sent.
const MAX_FIGURES: usize = 256;
/// When both clocks are read together for the second time: without two readings, a reader
/// of the growing file could not convert ticks to seconds.
const FIRST_CLOCK: Duration = Duration::from_millis(50);
/// Interval at which records reach the file. Events reach it at the same age (`drain`).
const FLUSH_INTERVAL: Duration = Duration::from_millis(250);
/// Time for recorders to notice that the recording has stopped.
const STOP_GRACE: Duration = Duration::from_millis(5);

/// The state of a recording; all of it belongs to the draining thread.
pub(crate) struct Recording {
    pub(crate) arena: Arena,
    pub(crate) search: Search,
    pub(crate) launcher: Launcher,
    pub(crate) context: TraceContext,
    pub(crate) watcher: ExitWatcher,
    /// State of each image slot, by the slot's index.
    pub(crate) slots: Vec<Slot>,
    /// State of each ring, by the ring's index.
    pub(crate) rings: Vec<RingState>,
    /// Buffer for words copied from a ring.
    pub(crate) words: Vec<u64>,
    pub(crate) ancestors: Ancestors,
    pub(crate) process_tree: ProcessTree,
    pub(crate) environments: EnvironmentOptions,
    pub(crate) first: RootProcess,
    pub(crate) marks: Marks,
    pub(crate) stopping: bool,
    pub(crate) left_behind: LeftBehindState,
    /// Calls are only counted.
    pub(crate) counts_only: bool,
    /// The image slot at which the next scan of `/proc` continues.
    pub(crate) scan_cursor: usize,
    diagnostics_read: u32,
    /// The moment since which the only slots with an attaching image may belong to processes that
    /// the collector cannot see.
    pub(crate) maybe_attaching_since: Option<Instant>,
    pub(crate) now: Instant,
    next_tick: Instant,
    next_age_check: Instant,
    next_clock: Instant,
    next_flush: Instant,
    /// When live figures are sent next; `None`: never.
    next_figures: Option<Instant>,
    figures_interval: Duration,
    backoff: PollBackoff,
}

/// Records until the last recorded process has ended, then symbolises the trace and
/// closes it. The calling thread is the draining thread; if it panics or the process
/// dies, waiting programs continue.
pub(crate) fn record(start: &Start, launcher: Launcher) -> Result<Done, CollectorError> {
    let trace = TraceFile::create(&start.output, start.made)?;
    let (name, secret) = random_name_and_secret()?;
    let settings = settings(start, (secret >> 64) as u64);
    let needed = layout::ARENA_BYTES as u64;
    let arena = with_file_size(needed, || Arena::create(settings))
        .map_err(|limit| CollectorError::FileLimit { limit, needed })?
        .map_err(CollectorError::Arena)?;
    let (location, server) = publish(&arena, name, secret)?;
    let mut recording = Recording::new(arena, launcher, trace, start, &location)?;
    recording.begin(start);
    recording
        .launcher
        .send_waiting(ToLauncher::Ready { arena: location });
    let recorded = recording.run();
    // Also after an error, so that the recorded programs do not wait for the collector.
    recording.arena.stop();
    drop(server);
    recorded?;
    recording.end()?;
    let images = recording.context.next_image;
    let unrecorded = recording.process_tree.take_unrecorded();
    let left_behind = recording.left_behind.take();
    let Recording {
        arena,
        launcher,
        context,
        marks,
        ..
    } = recording;
    drop((arena, marks));
    let done = finish(start, &launcher, context, images, unrecorded)?;
    Ok(Done {
        left_behind,
        ..done
    })
}

/// Writes the unrecorded images and all names, and closes the trace.
fn finish(
    start: &Start,
    launcher: &Launcher,
    mut context: TraceContext,
    images: u32,
    unrecorded: Vec<model::Unrecorded>,
) -> Result<Done, CollectorError> {
    for image in &unrecorded {
        context.trace.write(&Record::Unrecorded(image.clone()));
    }
    context.jit_symbols.finish(&mut context.trace);
    context.trace.flush();
    let locator = locator(start);
    let modules = context.modules.into_known();
    if start.symbolise {
        symbolise::symbolise(modules, &locator, &mut context.trace, launcher);
    }
    let (events, lost_events) = (context.trace.events, context.trace.lost_events);
    let bytes = context.trace.finish()?;
    Ok(Done {
        complaints: locator.take_complaints(),
        left_behind: Vec::new(),
        bytes,
        images,
        events,
        lost_events,
        unrecorded: unrecorded
            .into_iter()
            .map(|image| crate::protocol::Unrecorded {
                pid: image.pid,
                executable: image.executable,
                reason: image.reason,
                partly: image.partly,
            })
            .collect(),
    })
}

/// The sources of symbols, as the launcher's start specifies them.
fn locator(start: &Start) -> Locator {
    let locator = Locator::new().with_index_cache(IndexCache::of_user());
    let folders = start.debug_folders.iter().rev();
    let mut locator = folders.fold(locator, |locator, folder| locator.with_debug_folder(folder));
    if let Some(folder) = &start.sysroot {
        locator = locator.with_sysroot(folder);
    }
    locator.with_debuginfod_servers(start.debuginfod_servers.iter().cloned())
}

fn settings(start: &Start, key: u64) -> Settings {
    Settings {
        on_full: match start.on_full {
            OnFull::Block => layout::OnFull::Block,
            OnFull::Drop => layout::OnFull::Drop,
        },
        depth_limit: start.depth_limit,
        no_follow: !start.follow,
        frame_pointers: start.frame_pointers,
        counts_only: start.counts_only,
        free_stacks: start.free_stacks,
        reachability: start.reachability,
        filters: own_filters().map_or(0, |filters| filters.saturating_add(1)),
        key,
    }
}

/// How many system call filters this process has.
fn own_filters() -> Option<u32> {
    let status = std::fs::read("/proc/self/status").ok()?;
    privileges::system_call_filters(&status)
}

/// A random name for the recording's socket, which every user can see, and the random
/// secret that only the recording's processes know. Neither can be derived from the
/// other.
fn random_name_and_secret() -> Result<(u64, u128), CollectorError> {
    let read = |source| CollectorError::Set {
        what: "read /dev/urandom",
        source,
    };
    let name = random::bytes().map_err(read)?;
    let secret = random::bytes().map_err(read)?;
    Ok((u64::from_ne_bytes(name), u128::from_ne_bytes(secret)))
}

/// Makes the arena reachable for recorders: returns the value for the recorded programs'
/// environment variable and the file-descriptor server.
fn publish(
    arena: &Arena,
    name: u64,
    secret: u128,
) -> Result<(String, Option<ArenaServer>), CollectorError> {
    let location = Location {
        process: std::process::id(),
        arena: arena.memory().as_raw_fd() as u32,
        control: arena.control_memory().as_raw_fd() as u32,
        name,
        secret,
    };
    let copy = |file: BorrowedFd<'_>| file.try_clone_to_owned().map_err(CollectorError::Arena);
    let descriptors = Descriptors {
        memory: copy(arena.memory())?,
        control: copy(arena.control_memory())?,
    };
    // The server may fail, for example in a sandbox without sockets. Then only those
    // images are unrecorded that may not open /proc/PID/fd.
    let server = ArenaServer::start(&location.socket_name(), secret, descriptors).ok();
    Ok((location.to_string(), server))
}

impl Recording {
    fn new(
        arena: Arena,
        launcher: Launcher,
        trace: TraceFile,
        start: &Start,
        location: &str,
    ) -> Result<Self, CollectorError> {
        let set = |what| move |source| CollectorError::Set { what, source };
        let memory = arena.memory().try_clone_to_owned();
        let memory = std::fs::File::from(memory.map_err(CollectorError::Arena)?);
        let arena_inode = memory.metadata().map_err(CollectorError::Arena)?.ino();
        let now = Instant::now();
        let figures_interval = Duration::from_millis(start.figures_ms);
        let mut context = TraceContext::new(trace);
        context.figures = (start.figures_ms > 0).then(Figures::default);
        Ok(Self {
            arena,
            search: Search::new(arena_inode),
            launcher,
            context,
            watcher: ExitWatcher::new().map_err(set("watch processes"))?,
            slots: (0..IMAGES).map(|_| Slot::Empty).collect(),
            rings: (0..RINGS).map(|_| RingState::default()).collect(),
            words: Vec::new(),
            ancestors: Ancestors::default(),
            process_tree: ProcessTree::new(
                format!("{}={location}", layout::ENVIRONMENT_VARIABLE),
                start.follow,
            ),
            environments: EnvironmentOptions {
                names: start.environment_names,
                recorder: start.recorder.clone(),
            },
            first: RootProcess::default(),
            marks: Marks::new(start.made),
            stopping: false,
            left_behind: LeftBehindState::new(start.left_behind),
            counts_only: start.counts_only,
            scan_cursor: 0,
            diagnostics_read: 0,
            maybe_attaching_since: None,
            now,
            next_tick: now,
            next_age_check: now,
            next_clock: now + FIRST_CLOCK,
            next_flush: now + FIRST_CLOCK,
            next_figures: (start.figures_ms > 0).then_some(now + figures_interval),
            figures_interval,
            backoff: PollBackoff::default(),
        })
    }

    fn begin(&mut self, start: &Start) {
        let clock = clock::reading();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let kernel = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
            text.unwrap_or_default().trim().to_owned()
        };
        let trace = &mut self.context.trace;
        trace.write(&Record::Recording(model::Recording {
            tool_version: start.tool_version.clone(),
            command: start.command.clone(),
            started_unix_ns: since_1970.map_or(0, |time| time.as_nanos() as u64),
            started_tick: clock.tick,
            system: format!("{} {}", kernel("ostype"), kernel("osrelease")),
            architecture: std::env::consts::ARCH.into(),
            depth_limit: start.depth_limit.clamp(1, 4096),
            counts_only: start.counts_only,
            free_stacks: start.free_stacks,
        }));
        trace.write(&Record::Clock(clock));
        trace.flush();
    }

    fn run(&mut self) -> Result<(), CollectorError> {
        loop {
            let seen = self.arena.shared().doorbell.count();
            let found = self.round();
            self.context.trace.check()?;
            if self.stopping || self.is_over() {
                return Ok(());
            }
            let coarse_clock_used = self.context.coarse_clock.is_used();
            if let Some(sleep) = self.backoff.after(found, coarse_clock_used) {
                self.arena.sleep(seen, sleep);
            }
        }
    }

    /// One round of polling; returns the number of words read.
    ///
    /// Messages of the launcher are read before new images are attached, so that
    /// an image of a process that the launcher has seen end is not missed. Ended
    /// images are marked before rings are drained, so that their last events are
    /// read before they are closed.
    fn round(&mut self) -> u64 {
        self.now = Instant::now();
        self.read_launcher_messages();
        self.mark_ended_images();
        let arrived = self.attach_images();
        self.read_diagnostics();
        let drained = self.drain();
        self.answer_requests();
        self.close_ended_images();
        if self.now >= self.next_tick {
            self.next_tick = self.now + TICK;
            let clock = self.arena.tick();
            self.context.coarse_clock.moved_to(clock);
            self.scan_processes();
            self.handle_left_behind();
        }
        if self.now >= self.next_age_check {
            self.next_age_check = self.now + AGE_CHECK;
            self.write_old_events();
            stopped::continue_launcher(&self.first);
        }
        if self.now >= self.next_clock {
            self.next_clock = self.now + CLOCK_INTERVAL;
            self.context.trace.write(&Record::Clock(clock::reading()));
            if self.counts_only {
                self.read_all_counters();
            }
        }
        if self.now >= self.next_flush {
            self.next_flush = self.now + FLUSH_INTERVAL;
            // Records without events would stay in the writer's buffer otherwise, unseen by
            // a reader of the growing file.
            self.context.trace.flush();
        }
        if let Some(next) = self.next_figures.filter(|&next| self.now >= next) {
            // The next one is at a multiple of the interval, however late this one is.
            let late = (self.now - next).as_nanos() / self.figures_interval.as_nanos().max(1);
            let passed = u32::try_from(late + 1).unwrap_or(u32::MAX);
            self.next_figures = Some(next + self.figures_interval * passed);
            self.send_figures();
        }
        self.context.jit_symbols.round(&mut self.context.trace);
        self.send_waited_for();
        drained.max(u64::from(arrived))
    }

    /// Sends the launcher what the running images have allocated so far.
    fn send_figures(&mut self) {
        self.write_all_events();
        let now = clock::reading();
        let Some(figures) = &mut self.context.figures else {
            return;
        };
        let first = self.context.first_image_tick.unwrap_or(now.tick);
        let ns = self.marks.between(first, now);
        let running = self.slots.iter().filter_map(Slot::image);
        let mut images: Vec<_> = running
            .map(|image| {
                let sums = figures.of(image.id);
                let resident = image.pid_if_seen().and_then(process::resident_bytes);
                let of_recorder = image.recorder_memory.bytes().unwrap_or(0);
                let figures = ImageFigures {
                    id: image.id,
                    pid: image.pid,
                    started_ns: ns.saturating_sub(self.marks.between(image.tick, now)),
                    allocated_bytes: sums.allocated_bytes,
                    deallocated_bytes: sums.deallocated_bytes,
                    resident_bytes: resident.unwrap_or(0).saturating_sub(of_recorder),
                    allocations: sums.allocations,
                    deallocations: sums.deallocations,
                };
                (image.id, figures)
            })
            .collect();
        images.sort_unstable_by_key(|(id, _)| *id);
        images.truncate(MAX_FIGURES);
        figures.next_generation();
        // Lost if the launcher does not read.
        self.launcher.send(ToLauncher::Figures {
            ns,
            images: images.into_iter().map(|(_, figures)| figures).collect(),
        });
    }

    /// Reads the diagnostics that recorders have posted: a program that is about to run,
    /// or part of the process itself, cannot be recorded.
    pub(crate) fn read_diagnostics(&mut self) {
        let mut posted = Vec::new();
        self.arena
            .read_diagnostics(&mut self.diagnostics_read, |pid, what, path| {
                posted.push((pid, what, path));
            });
        for (pid, what, path) in posted {
            let found = self.search.find_mentioned(pid, &self.known());
            let found = found.or_else(|| self.find_replaced(pid));
            self.process_tree
                .note_diagnostic(Process::new(found, pid), what, &path);
        }
    }

    /// Our pid of a process with this innermost pid whose image has announced an `exec`
    /// and which is not noted as unrecorded.
    fn find_replaced(&mut self, own_pid: u32) -> Option<u32> {
        self.drain_images_of(own_pid);
        let images = self.slots.iter().filter_map(Slot::image);
        images
            .filter(|image| image.own_pid == own_pid && image.exec_note.is_some())
            .filter_map(Image::pid_if_seen)
            .find(|pid| !self.process_tree.is_unrecorded(*pid))
    }

    fn read_launcher_messages(&mut self) {
        loop {
            match self.launcher.poll() {
                Poll::Nothing => return,
                Poll::Gone => {
                    self.first.launcher_gone = true;
                    return;
                }
                Poll::Message(FromLauncher::FirstStarted { pid }) => {
                    self.first.announced = Some(pid)
                }
                Poll::Message(FromLauncher::FirstEnded(exit)) => self.first.exit = Some(exit),
                Poll::Message(FromLauncher::FirstStopped { launcher }) => {
                    self.first.stopped_launcher = Some(launcher);
                }
                Poll::Message(FromLauncher::LauncherContinued) => {
                    self.first.stopped_launcher = None
                }
                Poll::Message(FromLauncher::Stop) => self.stopping = true,
                // A second start is ignored.
                Poll::Message(FromLauncher::Start(_)) => {}
            }
        }
    }

    /// Slots with a running image.
    pub(crate) fn living(&self) -> impl Iterator<Item = usize> + '_ {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, state)| state.image().map(|_| slot))
    }

    /// Whether the recording is over: no image is left, and no other one can attach.
    fn is_over(&mut self) -> bool {
        if !self.first.is_over() || self.living().next().is_some() || self.is_image_attaching() {
            return false;
        }
        !self.process_tree.has_pending(&self.search, self.now)
    }

    /// Sends the launcher the processes that still run after the end of the first one,
    /// if they have changed.
    fn send_waited_for(&mut self) {
        if self.first.exit.is_none() {
            return;
        }
        let living = self.slots.iter().filter_map(Slot::image);
        let mut pids: Vec<u32> = living
            .filter(|image| !image.gone)
            .map(|image| image.pid)
            .chain(self.process_tree.pending())
            .collect();
        pids.sort_unstable();
        pids.dedup();
        if pids.is_empty() || pids == self.process_tree.sent {
            return;
        }
        let message = ToLauncher::Waiting { pids: pids.clone() };
        if self.launcher.send(message) {
            self.process_tree.sent = pids;
        }
    }

    /// Ends a recording that was stopped: reads the events that recorders wrote before
    /// they noticed the stop, and closes every image.
    fn end(&mut self) -> Result<(), CollectorError> {
        self.stopping = true;
        std::thread::sleep(STOP_GRACE);
        self.now = Instant::now();
        self.read_launcher_messages();
        self.mark_ended_images();
        self.attach_images();
        self.read_diagnostics();
        self.drain();
        self.close_ended_images();
        let running: Vec<usize> = self.living().collect();
        for slot in running {
            self.finish_image(slot, Exit::Running);
        }
        self.note_refused_images();
        self.context.trace.write(&Record::Clock(clock::reading()));
        self.context.trace.flush();
        self.context.trace.check()
    }
}
