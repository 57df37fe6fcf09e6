//! Steps through the sampled operations of a replayer, by the protocol that the documentation
//! of `allotrope-replayer` has.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::code::Code;
use crate::operation::Operation;
use crate::samples::Samples;

/// Most steps of an operation: one that maps and clears much memory takes that many.
const MOST_STEPS: usize = 1 << 20;
/// Most steps of all operations together that are kept, 4 bytes each.
const MOST_IN_ALL: usize = 1 << 28;

/// How a traced replay ended.
pub(crate) struct Traced {
    pub(crate) operations: Vec<Operation>,
    /// The executed code; `None` if no operation began.
    pub(crate) code: Option<Code>,
    pub(crate) status: ExitStatus,
    /// It was killed at the limit.
    pub(crate) is_too_long: bool,
}

/// Starts the replayer and steps through its sampled operations. `progress` gets the number
/// of those done; if it returns `false`, the replayer is killed, as it is if it takes longer than
/// the limit from one stepped operation to the next.
///
/// # Errors
/// If the replayer cannot be started, or the kernel does not let this process trace it.
pub(crate) fn trace(
    command: &mut Command,
    samples: &Samples,
    limit: Duration,
    progress: &dyn Fn(u64) -> bool,
) -> io::Result<Traced> {
    // SAFETY: between fork and exec, the closure makes one system call and nothing else: it
    // neither allocates nor takes locks.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    // Only this thread traces it, as ptrace(2) demands.
    let child = command.spawn()?;
    let main = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let mut tracer = Tracer {
        main,
        samples,
        next: 0,
        kept: 0,
        operations: Vec::new(),
        code: None,
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
    samples: &'a Samples,
    /// The sample that is expected next.
    next: usize,
    kept: usize,
    operations: Vec<Operation>,
    code: Option<Code>,
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
                    if signal == Signal::SIGTRAP && self.is_begin(process)? {
                        self.step_through(process)?;
                        if !progress(self.operations.len() as u64) {
                            let _ = nix::sys::signal::kill(self.main, Signal::SIGKILL);
                        }
                    }
                    let is_ours = matches!(signal, Signal::SIGTRAP | Signal::SIGSTOP);
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

    fn step_through(&mut self, thread: Pid) -> io::Result<()> {
        if self.code.is_none() {
            self.code = Some(Code::new(self.main.as_raw().unsigned_abs())?);
        }
        let Some(code) = &mut self.code else {
            return Ok(());
        };
        let begin = ptrace::getregs(thread)?;
        let end = begin.rip + 2;
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
        loop {
            ptrace::step(thread, None)?;
            match waitpid(thread, Some(WaitPidFlag::__WALL))? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                WaitStatus::Stopped(_, signal) => {
                    // The allocator crashed: the kernel delivers the signal now.
                    resume(thread, Some(signal))?;
                    return Ok(());
                }
                // It has ended; the next wait of the process says how.
                _ => return Ok(()),
            }
            let address = ptrace::getregs(thread)?.rip;
            if address == end {
                break;
            }
            let number = code.number(address);
            let repeats = address == last && code.instruction(number).repeats;
            last = address;
            if !repeats {
                operation.steps.push(number);
            }
            steps += 1;
            if steps >= MOST_STEPS || self.kept + operation.steps.len() >= MOST_IN_ALL {
                operation.cut = true;
                break;
            }
        }
        self.kept += operation.steps.len();
        self.operations.push(operation);
        Ok(())
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
