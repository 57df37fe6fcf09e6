//! The kernel's events: which are opened, and their records in order of time. What the
//! records mean is `session`'s.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use perf_event::data::parse::Parser;
use perf_event::data::{Comm, Exit, Lost, Mmap2, RecordMetadata, Sample, Visitor};
use perf_event::{Builder, Clock, Counter, SampleFlag, SampleSkid, Sampler};
use perf_event_open_sys::bindings;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cpu::counted::{Counted, Reading};
use crate::cpu::quantity::Quantity;

/// Bytes of the stack that a sample has: the frames of an allocator and its callers fit.
const STACK: u32 = 8 << 10;
/// Registers of a sample, by their numbers in `asm/perf_regs.h`: bp, sp, ip.
const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
/// Sizes of a processor's ring, the first one that is allowed. The last fits into the
/// default of `kernel.perf_event_mlock_kb` for users other than root.
const RING: [usize; 3] = [8 << 20, 2 << 20, 512 << 10];

/// How often the threads of a process are listed while they are opened.
const MAX_LISTS: usize = 128;
/// Listing stops after this many lists without a new thread: a thread can be missing in a list,
/// because another one has ended while the kernel made it.
const STABLE_LISTS: usize = 8;
/// How often opening begins anew if all listed threads have ended meanwhile.
const MAX_ATTEMPTS: usize = 100;

/// Where the number of its event is in the body of a sample: behind the instruction pointer,
/// process and thread, and time (perf_event_open(2), `PERF_RECORD_SAMPLE`).
const SAMPLE_ID: std::ops::Range<usize> = 24..32;

/// What is sampled.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// The processes that the calling thread starts from now on, from their exec on.
    Children,
    /// A running process, and what it starts from now on.
    Process(u32),
}

/// How it is sampled.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What.
    pub target: Target,
    /// Samples of each running thread per second of CPU time.
    pub frequency: u64,
}

/// Why sampling is impossible.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel refuses it, with the reason and what to do.
    #[error("the kernel does not let this user sample with perf_event_open: {0}")]
    Forbidden(String),
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// It exists, but each of its threads had ended before an event was opened for it.
    #[error(
        "the threads of process {0} end before they can be sampled; sample it from its start: `allotrope cpu PROGRAM`"
    )]
    ThreadsEnd(u32),
    /// The kernel was built without it, or another failure.
    #[error("perf_event_open fails here: {0}")]
    Failed(io::Error),
}

/// The clock of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// `cycles`, or `cpu-clock` if there is no PMU.
    pub name: &'static str,
    /// `precise_ip` of perf_event_open(2), 0 to 3.
    pub precise: u8,
    /// Whether time in the kernel is sampled, too.
    pub kernel: bool,
}

/// A record of the kernel. Times are of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(crate) enum Record {
    /// A process has a new thread, or is new.
    Fork { process: u32, parent: u32 },
    /// A process executes another program.
    Exec { process: u32 },
    /// A thread has ended; its number can be given to another one.
    End { thread: u32 },
    /// A process has mapped code.
    Map {
        process: u32,
        start: u64,
        length: u64,
        offset: u64,
        path: Vec<u8>,
        inode: u64,
    },
    /// A sample.
    Sample(Box<SampleRecord>),
    /// Number of records that were lost, because the ring was full.
    Lost(u64),
}

/// A sample of user space registers and stack.
#[derive(Debug)]
pub(crate) struct SampleRecord {
    /// The process.
    pub(crate) process: u32,
    /// The thread.
    pub(crate) thread: u32,
    /// The event that took it, or from which the thread inherited the one that took it.
    pub(crate) event: Opened,
    /// What it counts.
    pub(crate) quantity: Quantity,
    /// How much of it the sample stands for.
    pub(crate) period: u64,
    /// The thread was in the kernel.
    pub(crate) in_kernel: bool,
    /// Base pointer, stack pointer and instruction pointer of user space; `None` for a
    /// thread that has none, and for 32-bit code.
    pub(crate) registers: Option<[u64; 3]>,
    /// The stack from the stack pointer on.
    pub(crate) stack: Vec<u8>,
}

/// Task and processor for which an event was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Opened {
    /// The thread; 0 for the children of this process.
    pub(crate) task: i32,
    /// The processor.
    pub(crate) cpu: usize,
}

/// Open events.
pub(crate) struct Events {
    /// One for each processor.
    rings: Vec<Sampler>,
    /// Further events of the clock, whose output goes to the rings of their processors.
    others: Vec<Counter>,
    /// The events beside the clock; so does their output.
    counters: Vec<(Quantity, Counter)>,
    /// Quantity of each event, by the kernel's number of the event, which inherited ones have, too.
    quantities: FxHashMap<u64, (Quantity, Opened)>,
    /// Threads were opened after others: what they inherited may be opened twice.
    pub(crate) is_doubled: bool,
    /// The clock.
    pub(crate) source: Source,
    /// The counters that this machine lacks or forbids, with the reason.
    pub(crate) unavailable: Vec<(Quantity, String)>,
    /// Records that are newer than the end of the last read.
    later: Vec<(u64, Record)>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("rings", &self.rings.len())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl Events {
    /// Opens the events. Those of [`Target::Children`] count once a child calls exec.
    ///
    /// # Errors
    /// If not even the clock can be sampled.
    pub(crate) fn open(options: &Options) -> Result<Self, OpenError> {
        let Target::Process(process) = options.target else {
            return Self::open_tasks(options, vec![0]);
        };
        raise_descriptor_limit();
        for _ in 0..MAX_ATTEMPTS {
            match Self::open_tasks(options, tasks(process)?) {
                // All threads of the list have ended; others may have begun.
                Err(OpenError::NoProcess(_)) => {}
                other => return other,
            }
        }
        Err(match is_running(process) {
            true => OpenError::ThreadsEnd(process),
            false => OpenError::NoProcess(process),
        })
    }

    fn open_tasks(options: &Options, tasks: Vec<i32>) -> Result<Self, OpenError> {
        let cpus = processors();
        let source = source_of(options, cpus[0])?;
        let mut events = Self {
            rings: Vec::new(),
            others: Vec::new(),
            counters: Vec::new(),
            quantities: FxHashMap::default(),
            is_doubled: false,
            source,
            unavailable: Vec::new(),
            later: Vec::new(),
        };
        events.open_clock(options, &cpus, &tasks)?;
        for quantity in Quantity::COUNTERS {
            if quantity == Quantity::Cycles && source.name == "cycles" {
                continue;
            }
            if let Err(error) = events.open_counter(quantity, options, &cpus, &tasks) {
                events.unavailable.push((quantity, why(&error)));
            }
        }
        if let Target::Process(process) = options.target {
            events.open_new_threads(options, process, &cpus, tasks)?;
            let all = events.rings.iter_mut().map(Sampler::as_counter_mut);
            let counters = events.counters.iter_mut().map(|(_, counter)| counter);
            for counter in all.chain(&mut events.others).chain(counters) {
                match counter.enable() {
                    // The thread has ended.
                    Err(error) if is_gone(&error) => {}
                    enabled => enabled.map_err(|error| failure(&error, process))?,
                }
            }
        }
        Ok(events)
    }

    fn open_clock(
        &mut self,
        options: &Options,
        cpus: &[usize],
        tasks: &[i32],
    ) -> Result<(), OpenError> {
        let process = process_of(options);
        for (number, cpu) in cpus.iter().enumerate() {
            for task in tasks {
                let mut builder = clock(self.source, options.frequency);
                // One event of each processor tells about mappings and new processes: the
                // first task's, and those of the other threads for the time that they run.
                builder
                    .mmap(true)
                    .mmap2(true)
                    .comm(true)
                    .comm_exec(true)
                    .task(true);
                let counter = match build(&mut builder, Quantity::Clock, options, *cpu, *task) {
                    Ok(counter) => counter,
                    // The thread has ended.
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(failure(&error, process)),
                };
                let opened = Opened {
                    task: *task,
                    cpu: *cpu,
                };
                self.quantities
                    .insert(counter.id(), (Quantity::Clock, opened));
                if let Some(ring) = self.rings.get(number) {
                    match redirect(&counter, ring) {
                        Err(error) if is_gone(&error) => continue,
                        done => done.map_err(|error| failure(&error, process))?,
                    }
                    self.others.push(counter);
                } else {
                    let ring = open_ring(counter, &mut builder, options, *cpu, *task);
                    let (ring, id) = match ring {
                        Err(error) if is_gone(&error) => continue,
                        ring => ring.map_err(|error| failure(&error, process))?,
                    };
                    self.quantities.insert(id, (Quantity::Clock, opened));
                    self.rings.push(ring);
                }
            }
            if self.rings.len() <= number {
                return Err(OpenError::NoProcess(process));
            }
        }
        Ok(())
    }

    /// Opens the events of threads that were created while those of others were opened: one
    /// that was not covered yet may have created them. (What a covered thread creates inherits
    /// its events, and is opened all the same, since that cannot be known; `session` drops what
    /// is sampled twice.) Ends when no thread is new in [`STABLE_LISTS`] lists.
    fn open_new_threads(
        &mut self,
        options: &Options,
        process: u32,
        cpus: &[usize],
        known: Vec<i32>,
    ) -> Result<(), OpenError> {
        let mut known: FxHashSet<i32> = known.into_iter().collect();
        let mut without = 0;
        // A program that always creates threads always has new ones; by then, covered ones
        // have created them.
        for _ in 0..MAX_LISTS {
            let Ok(all) = tasks(process) else {
                break;
            };
            let new: Vec<i32> = all.into_iter().filter(|it| known.insert(*it)).collect();
            if new.is_empty() {
                without += 1;
                if without == STABLE_LISTS {
                    break;
                }
                continue;
            }
            without = 0;
            self.is_doubled = true;
            self.open_clock(options, cpus, &new)?;
            for quantity in Quantity::COUNTERS {
                let is_clock = quantity == Quantity::Cycles && self.source.name == "cycles";
                let is_missing = self.unavailable.iter().any(|(it, _)| *it == quantity);
                if !is_clock && !is_missing {
                    // What of it is not counted, `counted` does not tell for such a process.
                    let _ = self.open_counter(quantity, options, cpus, &new);
                }
            }
        }
        Ok(())
    }

    /// Opens an event beside the clock; fails if this machine does not have it, or not for this
    /// user.
    fn open_counter(
        &mut self,
        quantity: Quantity,
        options: &Options,
        cpus: &[usize],
        tasks: &[i32],
    ) -> io::Result<()> {
        let mut opened = Vec::new();
        for (cpu, ring) in cpus.iter().zip(&self.rings) {
            for task in tasks {
                let mut builder = quantity.builder();
                builder.sample_period(quantity.period());
                builder.exclude_kernel(!self.source.kernel);
                let counter = match build(&mut builder, quantity, options, *cpu, *task) {
                    Ok(counter) => counter,
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(error),
                };
                match redirect(&counter, ring) {
                    Ok(()) => {}
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(error),
                }
                let of = Opened {
                    task: *task,
                    cpu: *cpu,
                };
                opened.push((counter, of));
            }
        }
        for (counter, of) in opened {
            self.quantities.insert(counter.id(), (quantity, of));
            self.counters.push((quantity, counter));
        }
        Ok(())
    }

    /// What the events of a quantity have counted, of inherited ones, too, whatever was lost of
    /// their samples. `None` if some threads are counted twice, or if none was opened; and if none
    /// was ever counted, which makes the quantity unavailable.
    pub(crate) fn counted(&mut self, quantity: Quantity) -> Option<Counted> {
        if self.is_doubled {
            return None;
        }
        let counters = self.counters.iter_mut();
        let counters = counters.filter(|(of, _)| *of == quantity);
        let quantities = &self.quantities;
        let readings = counters.map(|(_, counter)| {
            let (_, opened) = quantities.get(&counter.id())?;
            let it = counter.read_count_and_time().ok()?;
            Some(Reading {
                task: opened.task,
                count: it.count,
                enabled: it.time_enabled,
                running: it.time_running,
            })
        });
        let readings = readings.collect::<Option<Vec<_>>>()?;
        let counted = Counted::of(&readings);
        if counted.is_none() && !readings.is_empty() {
            self.unavailable.push((quantity, NEVER.to_owned()));
        }
        counted
    }

    /// Calls `each` with the records so far, in order of time. Those of the time of this
    /// call stay for the next one: a record of one processor that is read later may be older
    /// than one of another. At the `end`, nothing stays.
    pub(crate) fn read(&mut self, end: bool, mut each: impl FnMut(Record)) {
        let now = match end {
            true => u64::MAX,
            false => monotonic_ns(),
        };
        let mut records = std::mem::take(&mut self.later);
        // Samples of counters have no period.
        let counted = self.counters.first().map(|(_, it)| it.config().clone());
        for ring in &mut self.rings {
            let config = ring.as_counter().config().clone();
            // As many as it can hold: a program may write as fast as they are read.
            for _ in 0..1 << 16 {
                let Some(record) = ring.next_record() else {
                    break;
                };
                let body = record.to_contiguous();
                let header = bindings::perf_event_header {
                    type_: record.ty(),
                    misc: record.misc(),
                    size: u16::try_from(body.len() + 8).unwrap_or(u16::MAX),
                };
                let visitor = Reader {
                    quantities: &self.quantities,
                };
                let is_sample = header.type_ == bindings::PERF_RECORD_SAMPLE;
                let of = event_id(&body).filter(|_| is_sample);
                let of = of.and_then(|id| self.quantities.get(&id));
                let config = match (of, &counted) {
                    (Some((quantity, _)), Some(counted)) if *quantity != Quantity::Clock => counted,
                    _ => &config,
                };
                let mut parser = Parser::new(&body[..], config.clone());
                let parsed = parser.parse_record_with_header(visitor, header);
                records.extend(parsed.ok().flatten());
            }
        }
        // Stable: records of one time stay in the order of their ring.
        records.sort_by_key(|(time, _)| *time);
        let ready = records.partition_point(|(time, _)| *time < now);
        self.later = records.split_off(ready);
        records.into_iter().for_each(|(_, record)| each(record));
    }
}

/// Why a quantity that was opened is unavailable.
const NEVER: &str = "the processor had no register for it while the program ran (multiplexed)";
/// Why a counter cannot be opened, for people (perf_event_open(2), "ERRORS").
fn why(error: &io::Error) -> String {
    use nix::errno::Errno;
    let number = Errno::from_raw(error.raw_os_error().unwrap_or(0));
    match number {
        Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP => {
            "no such counter on this machine (no PMU)".to_owned()
        }
        Errno::EACCES | Errno::EPERM => {
            "this user may not count it (kernel.perf_event_paranoid)".to_owned()
        }
        Errno::EBUSY => "another program has the processor's counters for itself".to_owned(),
        Errno::EMFILE => "this process has no file descriptors left (ulimit -n)".to_owned(),
        _ => format!("the kernel refuses it: {error}"),
    }
}

/// The number of the event of a sample.
fn event_id(body: &[u8]) -> Option<u64> {
    let bytes = body.get(SAMPLE_ID)?.try_into().ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Turns the kernel's records into ours, with their times.
struct Reader<'a> {
    quantities: &'a FxHashMap<u64, (Quantity, Opened)>,
}

/// `PERF_RECORD_MISC_CPUMODE_MASK`, `…_KERNEL` and `…_COMM_EXEC` of `linux/perf_event.h`.
const CPU_MODE: u16 = 7;
const KERNEL_MODE: u16 = 1;
const COMM_EXEC: u16 = 1 << 13;

impl<'p> Visitor<'p> for Reader<'_> {
    type Output = Option<(u64, Record)>;

    fn visit_unimplemented(self, _: RecordMetadata) -> Self::Output {
        None
    }

    fn visit_lost(self, record: Lost, metadata: RecordMetadata) -> Self::Output {
        Some((time(&metadata), Record::Lost(record.lost)))
    }

    fn visit_comm(self, record: Comm<'p>, metadata: RecordMetadata) -> Self::Output {
        let process = record.pid;
        (metadata.misc() & COMM_EXEC != 0).then(|| (time(&metadata), Record::Exec { process }))
    }

    fn visit_fork(self, record: Exit, metadata: RecordMetadata) -> Self::Output {
        let (process, parent) = (record.pid, record.ppid);
        (process != parent).then(|| (time(&metadata), Record::Fork { process, parent }))
    }

    fn visit_exit(self, record: Exit, metadata: RecordMetadata) -> Self::Output {
        Some((time(&metadata), Record::End { thread: record.tid }))
    }

    fn visit_mmap2(self, record: Mmap2<'p>, metadata: RecordMetadata) -> Self::Output {
        let map = Record::Map {
            process: record.pid,
            start: record.addr,
            length: record.len,
            offset: record.pgoff,
            path: record.filename.to_vec(),
            inode: record.ino().unwrap_or(0),
        };
        Some((time(&metadata), map))
    }

    fn visit_sample(self, sample: Sample<'p>, metadata: RecordMetadata) -> Self::Output {
        let id = sample.id()?;
        let (quantity, event) = self.quantities.get(&id)?;
        let registers = sample
            .regs_user()
            .filter(|registers| registers.abi == perf_event::data::SampleRegsAbi::ABI_64);
        let registers = registers.and_then(|it| <[u64; 3]>::try_from(&*it.regs).ok());
        let record = SampleRecord {
            process: sample.pid()?,
            thread: sample.tid()?,
            event: *event,
            quantity: *quantity,
            period: sample.period().unwrap_or_else(|| quantity.period()),
            in_kernel: metadata.misc() & CPU_MODE == KERNEL_MODE,
            registers,
            stack: sample.stack_user().unwrap_or_default().to_vec(),
        };
        Some((sample.time()?, Record::Sample(Box::new(record))))
    }
}

fn time(metadata: &RecordMetadata) -> u64 {
    metadata.sample_id().time().unwrap_or(0)
}

fn monotonic_ns() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
    })
}

/// The best clock of this machine that this user may sample: cycles with the least skid,
/// or the timer of the kernel; with time in the kernel if that is allowed. It is tried with
/// this thread, because those of the process may end meanwhile.
fn source_of(options: &Options, cpu: usize) -> Result<Source, OpenError> {
    let mut last = None;
    for (name, precisions) in [("cycles", &[2, 1, 0][..]), ("cpu-clock", &[0])] {
        for kernel in [true, false] {
            for precise in precisions {
                let source = Source {
                    name,
                    precise: *precise,
                    kernel,
                };
                let mut builder = clock(source, options.frequency);
                match build(&mut builder, Quantity::Clock, options, cpu, 0) {
                    Ok(_) => return Ok(source),
                    Err(error) => last = Some(error),
                }
            }
        }
    }
    let error = last.unwrap_or_else(|| io::ErrorKind::Unsupported.into());
    Err(failure(&error, process_of(options)))
}

fn clock(source: Source, frequency: u64) -> Builder<'static> {
    let mut builder = match source.name {
        "cycles" => Quantity::Cycles.builder(),
        _ => Quantity::Clock.builder(),
    };
    builder.sample_frequency(frequency);
    builder.exclude_kernel(!source.kernel);
    builder.precise_ip(match source.precise {
        0 => SampleSkid::Arbitrary,
        1 => SampleSkid::Constant,
        _ => SampleSkid::RequestZero,
    });
    builder
}

/// Opens an event of one task on one processor; a ring cannot have inherited events of all.
fn build(
    builder: &mut Builder<'static>,
    quantity: Quantity,
    options: &Options,
    cpu: usize,
    task: i32,
) -> io::Result<Counter> {
    let sample = SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME | SampleFlag::ID;
    let stack = SampleFlag::REGS_USER | SampleFlag::STACK_USER;
    // A software event with a fixed period that is to write it writes a sample for every event
    // (`perf_swevent_event` of `kernel/events/core.c`), as if the period were 1.
    let period = match quantity == Quantity::Clock {
        true => SampleFlag::PERIOD,
        false => SampleFlag::empty(),
    };
    builder
        .one_cpu(cpu)
        .inherit(true)
        .sample(sample | period | stack)
        .sample_regs_user(REGISTERS)
        .sample_stack_user(STACK)
        .sample_id_all(true)
        .clockid(Clock::MONOTONIC)
        .enable_on_exec(matches!(options.target, Target::Children));
    match task {
        0 => builder.observe_self(),
        task => builder.observe_pid(task),
    };
    builder.build()
}

/// Maps the ring of an event. An event whose ring is too large is opened again.
fn open_ring(
    counter: Counter,
    builder: &mut Builder<'static>,
    options: &Options,
    cpu: usize,
    task: i32,
) -> io::Result<(Sampler, u64)> {
    let mut counter = Some(counter);
    let mut last = io::Error::from(io::ErrorKind::PermissionDenied);
    for bytes in RING {
        let counter = match counter.take() {
            Some(counter) => counter,
            None => build(builder, Quantity::Clock, options, cpu, task)?,
        };
        let id = counter.id();
        match counter.sampled(bytes) {
            Ok(ring) => return Ok((ring, id)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Makes an event write into the ring of another one, of the same processor.
fn redirect(counter: &Counter, ring: &Sampler) -> io::Result<()> {
    let (from, to) = (counter.as_raw_fd(), ring.as_counter().as_raw_fd());
    // SAFETY: both descriptors are open events, for as long as the borrows last; the request
    // takes a descriptor as an integer, and neither reads nor writes memory of ours.
    match unsafe { perf_event_open_sys::ioctls::SET_OUTPUT(from, to) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn process_of(options: &Options) -> u32 {
    match options.target {
        Target::Children => 0,
        Target::Process(process) => process,
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

fn failure(error: &io::Error, process: u32) -> OpenError {
    if is_gone(error) {
        return OpenError::NoProcess(process);
    }
    if error.kind() == io::ErrorKind::PermissionDenied {
        return OpenError::Forbidden(Facts::read(process).why());
    }
    OpenError::Failed(io::Error::new(error.kind(), error.to_string()))
}

/// What explains why the kernel refuses perf_event_open.
struct Facts {
    /// `kernel.perf_event_paranoid`.
    paranoid: Option<i32>,
    /// This process has CAP_PERFMON or CAP_SYS_ADMIN.
    is_privileged: bool,
    /// The process to sample, if this one may not trace it, and its user, if that is another one.
    untraceable: Option<(u32, Option<u32>)>,
}

impl Facts {
    /// Reads the facts about the process to sample; `process` is 0 for children.
    fn read(process: u32) -> Self {
        const SYS_ADMIN: u64 = 1 << 21;
        const PERFMON: u64 = 1 << 38;
        let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        let capabilities = field("/proc/self/status", "CapEff:");
        let capabilities = capabilities.and_then(|it| u64::from_str_radix(&it, 16).ok());
        // The kernel asks the same of who opens this file (ptrace(2), "access mode checking").
        let maps = fs::File::open(format!("/proc/{process}/maps"));
        let is_forbidden = |it: &io::Error| it.kind() == io::ErrorKind::PermissionDenied;
        let is_traceable = process == 0 || !maps.as_ref().is_err_and(is_forbidden);
        let untraceable = (!is_traceable).then(|| {
            let user = |path: &str| field(path, "Uid:")?.parse::<u32>().ok();
            let theirs = user(&format!("/proc/{process}/status"));
            (
                process,
                theirs.filter(|it| Some(*it) != user("/proc/self/status")),
            )
        });
        Self {
            paranoid: paranoid.ok().and_then(|it| it.trim().parse().ok()),
            is_privileged: capabilities.is_some_and(|it| it & (SYS_ADMIN | PERFMON) != 0),
            untraceable,
        }
    }

    /// Why, and what to do.
    fn why(&self) -> String {
        let paranoid = self.paranoid;
        let setting = paranoid.map_or_else(|| "unknown".to_owned(), |it| it.to_string());
        if !self.is_privileged && paranoid.is_none_or(|it| it > 2) {
            return format!(
                "kernel.perf_event_paranoid is {setting}; as root, run `sysctl kernel.perf_event_paranoid=2`, or give this command CAP_PERFMON; in a container, its seccomp profile must allow perf_event_open"
            );
        }
        match self.untraceable {
            Some((process, Some(user))) => format!(
                "process {process} belongs to another user, with the id {user}; sample it as that user or as root"
            ),
            Some((process, None)) => format!(
                "process {process} has more privileges than this command or protects itself from tracing; sample it as root"
            ),
            None => format!(
                "kernel.perf_event_paranoid is {setting}, which allows it{}, so a filter forbids it; in a container, its seccomp profile must allow perf_event_open",
                match self.is_privileged {
                    true => " to a privileged user",
                    false => "",
                }
            ),
        }
    }
}

/// The first word that follows a name at the start of a line of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// Whether a process exists and is no zombie: one whose main thread has ended has others.
fn is_running(process: u32) -> bool {
    let state = field(&format!("/proc/{process}/status"), "State:");
    match state.as_deref() {
        None | Some("X") => false,
        Some("Z") => tasks(process).is_ok_and(|it| it.len() > 1),
        Some(_) => true,
    }
}

/// The threads of a process.
fn tasks(process: u32) -> Result<Vec<i32>, OpenError> {
    let folder = fs::read_dir(format!("/proc/{process}/task"));
    let folder = folder.map_err(|_| OpenError::NoProcess(process))?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut tasks: Vec<i32> = names.collect();
    tasks.sort_unstable();
    match tasks.is_empty() {
        true => Err(OpenError::NoProcess(process)),
        false => Ok(tasks),
    }
}

/// Each thread needs a descriptor for each event and processor. If the limit cannot be raised,
/// opening fails with a sentence.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// The processors that are online, as `/sys/devices/system/cpu/online` lists them: `0-3,5`.
fn processors() -> Vec<usize> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let found = parse_processors(&list);
    match found.is_empty() {
        true => vec![0],
        false => found,
    }
}

fn parse_processors(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse::<usize>().ok()?.min(1 << 13))
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_processors("0\n"), [0]);
        assert_eq!(parse_processors("0-3,5\n"), [0, 1, 2, 3, 5]);
        assert_eq!(parse_processors("x,,-,1-,7"), [7]);
        assert_eq!(parse_processors(""), [0; 0]);
    }

    #[test]
    fn what_is_refused_has_the_reason_that_applies() {
        let why = |paranoid, is_privileged, untraceable| {
            let facts = Facts {
                paranoid: Some(paranoid),
                is_privileged,
                untraceable,
            };
            facts.why()
        };
        let setting = why(3, false, None);
        assert!(setting.contains("is 3; as root, run"), "{setting}");
        // The setting already allows it: no advice to set it.
        let filtered = why(2, false, None);
        assert!(filtered.contains("is 2, which allows it, so a filter"));
        assert!(why(4, true, None).contains("to a privileged user, so a filter"));
        let other = why(2, false, Some((7, Some(1000))));
        assert!(other.contains("process 7 belongs to another user, with the id 1000"));
        assert!(why(2, false, Some((7, None))).contains("protects itself"));
        for text in [filtered, other] {
            assert!(!text.contains("sysctl"), "{text}");
        }
    }

    #[test]
    fn a_counter_that_cannot_be_opened_has_its_reason() {
        let of = |number: nix::errno::Errno| why(&io::Error::from_raw_os_error(number as i32));
        assert!(of(nix::errno::Errno::ENOENT).contains("no PMU"));
        assert!(of(nix::errno::Errno::EACCES).contains("perf_event_paranoid"));
        assert!(of(nix::errno::Errno::EMFILE).contains("ulimit -n"));
        assert!(of(nix::errno::Errno::EINVAL).contains("refuses it: Invalid argument"));
    }

    #[test]
    fn a_process_that_does_not_exist() {
        let options = Options {
            target: Target::Process(u32::MAX >> 2),
            frequency: 99,
        };
        let error = Events::open(&options).unwrap_err();
        assert_eq!(error.to_string(), "there is no process 1073741823");
    }
}
