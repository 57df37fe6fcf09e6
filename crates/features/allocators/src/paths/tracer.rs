//! Steps through the sampled operations of a replayer, by the protocol that the documentation
//! of `allotrope-replayer` has.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::replay::Descendants;
use nix::errno::Errno;
use nix::libc::{SI_KERNEL, SI_QUEUE, SI_TKILL, SI_USER, siginfo_t};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::paths::chosen_operations::ChosenOperations;
use crate::paths::code::Code;
use crate::paths::operation::Operation;

/// Largest number of steps of an operation: one that maps and clears much memory takes that many.
const MAX_STEPS: usize = 1 << 20;
/// Largest number of steps of all operations together that are kept, 4 bytes each.
const MAX_IN_ALL: usize = 1 << 28;

/// How a traced replay ended.
pub(crate) struct Traced {
    pub(crate) operations: Vec<Operation>,
    /// The executed code; `None` if no operation began.
    pub(crate) code: Option<Code>,
    pub(crate) status: ExitStatus,
    /// It was killed at the limit.
    pub(crate) is_too_long: bool,
}

/// Why a replay was not traced.
#[derive(Debug)]
pub(crate) enum TraceError {
    /// There is no process.
    Start(io::Error),
    /// The kernel does not let this process trace it.
    Trace(io::Error),
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::Trace(error)
    }
}

/// Added to the number of an error of `ptrace` in the started process: the standard library passes
/// a number only, which could be that of fork(2) or execve(2). Errors are below it.
const OF_PTRACE: i32 = 1 << 16;

/// Starts the replayer and steps through its sampled operations. `progress` gets the number
/// of those done; if it returns `false`, the replayer is killed, as it is if it takes longer than
/// the limit from one stepped operation to the next.
///
/// # Errors
/// If the replayer cannot be started, or the kernel does not let this process trace it.
pub(crate) fn trace(
    command: &mut Command,
    samples: &ChosenOperations,
    limit: Duration,
    progress: &dyn Fn(u64) -> bool,
) -> Result<Traced, TraceError> {
    let traceme = || {
        ptrace::traceme().map_err(|error| io::Error::from_raw_os_error(OF_PTRACE + error as i32))
    };
    // SAFETY: between fork and exec, the closure makes one system call and nothing else: it
    // neither allocates nor takes locks.
    unsafe { command.pre_exec(traceme) };
    // Only this thread traces it, as ptrace(2) demands. What it forks is not traced.
    let _descendants = Descendants::adopt();
    let child = command
        .spawn()
        .map_err(|error| match error.raw_os_error() {
            Some(number) if number >= OF_PTRACE => {
                TraceError::Trace(io::Error::from_raw_os_error(number - OF_PTRACE))
            }
            _ => TraceError::Start(error),
        })?;
    let main = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let mut tracer = Tracer {
        main,
        samples,
        next: 0,
        kept: 0,
        operations: Vec::new(),
        code: None,
        begin: None,
    };
    let watchdog = Watchdog::new(main, limit);
    let progress = |done| {
        watchdog.goes_on();
        progress(done)
    };
    let status = tracer.run(&progress);
    let is_too_long = watchdog.end();
    if status.is_err() {
        let _ = nix::sys::signal::kill(main, Signal::SIGKILL);
        let _ = waitpid(main, Some(WaitPidFlag::__WALL));
    }
    Ok(Traced {
        status: status?,
        operations: tracer.operations,
        code: tracer.code,
        is_too_long,
    })
}

/// Kills the replayer if it does not go on within the limit: a step of a system call that waits
/// for ever does not return.
struct Watchdog {
    end: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    fn new(process: Pid, limit: Duration) -> Self {
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            loop {
                match ended.recv_timeout(limit) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Disconnected) => return false,
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
            let _ = nix::sys::signal::kill(process, Signal::SIGKILL);
            true
        });
        Self { end, thread }
    }

    /// A stepped operation is done, and the limit begins anew: many of them take long.
    fn goes_on(&self) {
        let _ = self.end.send(());
    }

    /// Whether it has killed the replayer, which has ended.
    fn end(self) -> bool {
        drop(self.end);
        self.thread.join().unwrap_or(false)
    }
}

struct Tracer<'a> {
    main: Pid,
    samples: &'a ChosenOperations,
    /// The sample that is expected next.
    next: usize,
    kept: usize,
    operations: Vec<Operation>,
    code: Option<Code>,
    /// The address after the first `int3`, once an operation has been stepped.
    begin: Option<u64>,
}

/// Bytes from the address after the first `int3` to that of the second: the length of `call rax`.
const CALL_BYTES: u64 = 2;

/// What to do with a signal that is reported while an operation is stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handling {
    /// It is the trap of a step.
    Step,
    /// It belongs to the operation, which raised it or failed: its handler is part of the
    /// operation, too.
    DeliverNow,
    /// It came from outside. Its handler would be counted, so it waits for the operation's end.
    DeliverLater,
    /// It stops a process, which a traced one must not be.
    Drop,
}

impl Tracer<'_> {
    /// Handles stops until the replayer has ended.
    fn run(&mut self, progress: &dyn Fn(u64) -> bool) -> io::Result<ExitStatus> {
        let mut is_first = true;
        loop {
            // Threads of the replayer, too, but no other children of this process.
            match self.wait_for_any()? {
                WaitStatus::Exited(process, code) if process == self.main => {
                    return Ok(ExitStatus::from_raw((code & 0xff) << 8));
                }
                WaitStatus::Signaled(process, signal, _) if process == self.main => {
                    return Ok(ExitStatus::from_raw(signal as i32));
                }
                WaitStatus::Stopped(process, signal) => {
                    if is_first {
                        is_first = false;
                        let threads = Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACEEXEC;
                        ptrace::setoptions(process, threads | Options::PTRACE_O_EXITKILL)?;
                        resume(process, None)?;
                        continue;
                    }
                    let is_ours = match signal {
                        Signal::SIGTRAP => {
                            if self.is_begin(process)? {
                                if let Some(status) = self.step_through(process)? {
                                    return Ok(status);
                                }
                                if !progress(self.operations.len() as u64) {
                                    let _ = nix::sys::signal::kill(self.main, Signal::SIGKILL);
                                }
                            }
                            self.is_breakpoint(process)
                        }
                        // Also how each thread begins.
                        signal => stops(signal),
                    };
                    resume(process, (!is_ours).then_some(signal))?;
                }
                WaitStatus::PtraceEvent(process, ..) => resume(process, None)?,
                _ => {}
            }
        }
    }

    /// Waits for the replayer or a thread of it. A command may have other children, which
    /// others wait for: so not for any process.
    fn wait_for_any(&self) -> io::Result<WaitStatus> {
        loop {
            let threads = threads(self.main);
            for thread in threads {
                let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
                match waitpid(thread, Some(flags)) {
                    Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD | Errno::EINTR) => {}
                    Ok(status) => return Ok(status),
                    Err(error) => return Err(error.into()),
                }
            }
            // All but one thread wait for their turn; the stop of the one that runs is near.
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }

    /// Whether the thread is at the first `int3` of the next sampled operation.
    fn is_begin(&self, thread: Pid) -> io::Result<bool> {
        let registers = ptrace::getregs(thread)?;
        let wanted = self.samples.numbers.get(self.next);
        Ok(wanted == Some(&registers.rbx) && registers.rax > 0 && self.is_call(registers.rip))
    }

    /// Whether `call rax` (ff d0) is there: at the second `int3`, there is not.
    fn is_call(&self, address: u64) -> bool {
        let code = match &self.code {
            Some(code) => code.word(address),
            None => Code::new(self.main.as_raw().unsigned_abs())
                .ok()
                .and_then(|code| code.word(address)),
        };
        code.is_some_and(|word| word & 0xffff == 0xd0ff)
    }

    /// Whether the thread is at one of the replayer's own two `int3`. One that has been killed
    /// meanwhile has no registers, and needs no signal.
    fn is_breakpoint(&self, thread: Pid) -> bool {
        let Ok(registers) = ptrace::getregs(thread) else {
            return true;
        };
        // After the second `int3`, which is one byte.
        let ours = |begin| [begin, begin + CALL_BYTES, begin + CALL_BYTES + 1];
        self.begin
            .is_some_and(|begin| ours(begin).contains(&registers.rip))
    }

    /// Steps through the next sampled operation. Returns the status of the replayer if it ended
    /// meanwhile.
    fn step_through(&mut self, thread: Pid) -> io::Result<Option<ExitStatus>> {
        if self.code.is_none() {
            self.code = Some(Code::new(self.main.as_raw().unsigned_abs())?);
        }
        let Some(code) = &mut self.code else {
            return Ok(None);
        };
        let begin = ptrace::getregs(thread)?.rip;
        self.begin = Some(begin);
        let end = begin + CALL_BYTES;
        let (call, size) = self.samples.calls[self.next];
        self.next += 1;
        let mut operation = Operation {
            entry_point: call.name(),
            size,
            steps: Vec::new(),
            cut: false,
        };
        let mut last = 0;
        let mut steps = 0;
        let mut held: Vec<Signal> = Vec::new();
        let mut deliver = None;
        let mut is_interrupted = false;
        loop {
            match ptrace::step(thread, deliver.take()) {
                // It has been killed; the wait says so.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(error.into()),
            }
            match waitpid(thread, Some(WaitPidFlag::__WALL))? {
                WaitStatus::Stopped(_, signal) => {
                    let handling = handling(signal, ptrace::getsiginfo(thread).ok(), self.main);
                    match handling {
                        Handling::Step => {}
                        Handling::DeliverNow => deliver = Some(signal),
                        Handling::DeliverLater if held.contains(&signal) => {}
                        Handling::DeliverLater => held.push(signal),
                        Handling::Drop => {}
                    }
                    if handling != Handling::Step {
                        is_interrupted = true;
                        continue;
                    }
                }
                WaitStatus::Exited(process, code) if process == self.main => {
                    return Ok(Some(ExitStatus::from_raw((code & 0xff) << 8)));
                }
                WaitStatus::Signaled(process, signal, _) if process == self.main => {
                    return Ok(Some(ExitStatus::from_raw(signal as i32)));
                }
                // The thread has ended; the next wait for the process says how.
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Ok(None),
                // It has started a thread, which waits until this operation has ended.
                _ => continue,
            }
            let address = match ptrace::getregs(thread) {
                Ok(registers) => registers.rip,
                Err(Errno::ESRCH) => continue,
                Err(error) => return Err(error.into()),
            };
            if address == end {
                break;
            }
            // A system call that a signal interrupted is executed again by the kernel, and ends
            // at the same address.
            if std::mem::take(&mut is_interrupted) && address == last {
                continue;
            }
            let number = code.number(address);
            let repeats = address == last && code.instruction(number).repeats;
            last = address;
            if !repeats {
                operation.steps.push(number);
            }
            steps += 1;
            if steps >= MAX_STEPS || self.kept + operation.steps.len() >= MAX_IN_ALL {
                operation.cut = true;
                break;
            }
        }
        self.kept += operation.steps.len();
        self.operations.push(operation);
        for signal in held {
            let _ = nix::sys::signal::kill(self.main, signal);
        }
        Ok(None)
    }
}

/// Whether this signal stops a process, unless it has a handler.
fn stops(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::SIGSTOP | Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU
    )
}

/// What to do with a signal of the replayer `main`. There is no `info` of a stop that is no
/// signal: of the whole process (ptrace(2), group-stop).
fn handling(signal: Signal, info: Option<siginfo_t>, main: Pid) -> Handling {
    if stops(signal) {
        return Handling::Drop;
    }
    let Some(info) = info else {
        return match signal {
            Signal::SIGTRAP => Handling::Step,
            _ => Handling::Drop,
        };
    };
    let is_sent = matches!(info.si_code, SI_USER | SI_TKILL | SI_QUEUE);
    // SAFETY: a signal that was sent has the sender's process.
    let is_own = is_sent && unsafe { info.si_pid() } == main.as_raw();
    // The kernel says with a positive code what the thread's instruction did, and with others
    // who sent the signal (sigaction(2)).
    let is_fault = info.si_code > 0;
    match signal {
        // `int3` in the allocator's own code.
        Signal::SIGTRAP if info.si_code == SI_KERNEL => Handling::DeliverNow,
        Signal::SIGTRAP if is_fault => Handling::Step,
        Signal::SIGSEGV | Signal::SIGBUS | Signal::SIGILL | Signal::SIGFPE | Signal::SIGSYS
            if is_fault =>
        {
            Handling::DeliverNow
        }
        _ if is_own => Handling::DeliverNow,
        _ => Handling::DeliverLater,
    }
}

/// Continues a thread. One that has been killed meanwhile is no error.
fn resume(thread: Pid, signal: Option<Signal>) -> io::Result<()> {
    match ptrace::cont(thread, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The threads of a process; itself, if it has no others.
fn threads(process: Pid) -> Vec<Pid> {
    let folder = std::fs::read_dir(format!("/proc/{process}/task"));
    let names = folder.into_iter().flatten().flatten();
    let mut threads: Vec<Pid> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .collect();
    if threads.is_empty() {
        threads.push(process);
    }
    threads
}
