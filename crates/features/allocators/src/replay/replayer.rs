//! Starts the replayer with an allocator, and waits for it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use allotrope_replayer::{ENVIRONMENT_OPTION, results};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use crate::replay::descendants::Descendants;
use crate::replay::environment::Environment;
use crate::replay::operations_file::Operations;
use crate::replay::results::{Outcome, Results};

/// The replayer's program.
#[derive(Debug, Clone)]
pub struct Replayer {
    program: PathBuf,
    limit: Duration,
}

/// How long a replay may take, unless the user says otherwise.
const LIMIT: Duration = Duration::from_secs(600);
/// The longest pause before it is looked whether a replay has ended.
const PAUSE: Duration = Duration::from_millis(50);

/// Number of bytes of the messages that are read, the last ones.
const LAST_WORDS: u64 = 64 << 10;
/// Length of the messages in bytes from which on those that will not be read are given back.
const MAX_MESSAGES: u64 = 16 << 20;

/// What a replay measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The time of all operations together.
    Timed,
    /// The time of each operation.
    Latency,
    /// Nothing: sampled operations are called so that a tracer can step through them.
    Stepped,
}

/// How much of each block the replay writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Touch {
    /// Nothing.
    None,
    /// The first byte.
    First,
    /// The first byte, and a byte in each further page of this share of the block, in
    /// 1/65,536; [`Touch::ALL`] is all of it.
    Pages(u32),
}

impl Touch {
    /// Every page of every block.
    pub const ALL: Self = Self::Pages(results::WHOLE as u32);
}

/// How a replay is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What it measures.
    pub mode: Mode,
    /// How much of each block it writes.
    pub touch: Touch,
    /// The processor on which operations of a single thread run; `None` for any.
    pub processor: Option<u32>,
    /// How many points of memory it takes, at most 512.
    pub points: u32,
    /// Its environment, besides the `LD_PRELOAD` of the allocator. It inherits nothing.
    pub environment: Environment,
}

impl Replayer {
    /// The replayer is this file.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            limit: LIMIT,
        }
    }

    /// A replay that takes longer is killed. An allocator may wait for ever.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Prepares a replay with this allocator, a shared library, or that of the C library.
    /// `samples` are the ascending numbers of the operations to step through, for
    /// [`Mode::Stepped`].
    ///
    /// # Errors
    ///
    /// If a file in memory cannot be made.
    pub fn prepare<'a>(
        &self,
        operations: &'a Operations,
        allocator: Option<&Path>,
        settings: &Settings,
        samples: Option<&[u64]>,
    ) -> io::Result<Prepared<'a>> {
        let files = Files::new()?;
        write_settings(&files.results, settings)?;
        let mut command = self.command(&files, allocator, &settings.environment)?;
        command
            .arg(path_of(operations.file()))
            .arg(path_of(&files.results));
        let samples = samples.map(write_samples).transpose()?;
        if let Some(file) = &samples {
            command.arg(path_of(file));
        }
        Ok(Prepared {
            command,
            operations,
            files,
            limit: self.limit,
            _samples: samples,
        })
    }

    /// The replayer's command, without its files. It starts without an environment and executes
    /// itself with this one: `Command` would sort it.
    fn command(
        &self,
        files: &Files,
        allocator: Option<&Path>,
        environment: &Environment,
    ) -> io::Result<Command> {
        let entries = environment.to_bytes(allocator);
        files.environment.write_all_at(&entries, 0)?;
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .arg(ENVIRONMENT_OPTION)
            .arg(path_of(&files.environment))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(files.messages.try_clone()?);
        Ok(command)
    }
}

impl Replayer {
    /// Prepares a benchmark with this allocator. The settings are (index, value) of the
    /// results file.
    pub(crate) fn prepare_bench(
        &self,
        allocator: Option<&Path>,
        settings: &[(usize, u64)],
        environment: &Environment,
    ) -> io::Result<PreparedBench> {
        let files = Files::new()?;
        for &(index, value) in settings {
            set_word(&files.results, index, value)?;
        }
        let mut command = self.command(&files, allocator, environment)?;
        command.arg("-").arg(path_of(&files.results));
        let limit = self.limit;
        Ok(PreparedBench {
            command,
            files,
            limit,
        })
    }
}

/// A benchmark that is ready to be started.
pub(crate) struct PreparedBench {
    command: Command,
    files: Files,
    limit: Duration,
}

impl PreparedBench {
    /// Runs it to its end.
    pub(crate) fn run(mut self) -> io::Result<(Outcome, Results)> {
        let mut child = ReplayerProcess::spawn(&mut self.command)?;
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        let status = loop {
            if let Some(status) = child.process.try_wait()? {
                break Some(status);
            }
            if begin.elapsed() > self.limit {
                break None;
            }
            self.files.forget_messages();
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE);
        };
        let results = Results::read(&self.files.results)?;
        let Some(status) = status else {
            return Ok((Outcome::TooLong(self.limit.as_secs()), results));
        };
        let messages = self.files.read_messages()?;
        Ok((results.outcome(status, &messages, None), results))
    }
}

/// The files in memory that the replayer reads and writes.
struct Files {
    results: File,
    messages: File,
    environment: File,
}

impl Files {
    fn new() -> io::Result<Self> {
        let results = in_memory("allotrope-results")?;
        results.set_len(results::BYTES as u64)?;
        set_word(&results, results::MAGIC_WORD, results::MAGIC)?;
        let messages = in_memory("allotrope-messages")?;
        let environment = in_memory("allotrope-environment")?;
        Ok(Self {
            results,
            messages,
            environment,
        })
    }

    /// The last lines that the allocator and the loader printed.
    fn read_messages(&self) -> io::Result<String> {
        let length = self.messages.metadata()?.len();
        let start = length.saturating_sub(LAST_WORDS);
        // Not by the position, which the process that prints has, too.
        let mut messages = vec![0; usize::try_from(length - start).unwrap_or_default()];
        self.messages.read_exact_at(&mut messages, start)?;
        let text = String::from_utf8_lossy(&messages).into_owned();
        // The first line may have lost its beginning.
        Ok(match text.split_once('\n') {
            Some((_, whole)) if start > 0 && !whole.trim().is_empty() => whole.to_owned(),
            _ => text,
        })
    }

    /// Gives back the memory of messages that nobody will read: an allocator may print without
    /// end.
    fn forget_messages(&self) {
        let Ok(metadata) = self.messages.metadata() else {
            return;
        };
        if metadata.len() > MAX_MESSAGES {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&self.messages, flags, 0, metadata.len() - LAST_WORDS);
        }
    }
}

/// A replay that is ready to be started. Its files live as long as it does.
pub struct Prepared<'a> {
    command: Command,
    operations: &'a Operations,
    files: Files,
    limit: Duration,
    _samples: Option<File>,
}

impl<'a> Prepared<'a> {
    /// The command, for a tracer that starts it by itself. It opens files of this process by
    /// their paths below `/proc`, so this process must live until the replayer has done so.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Returns how long the replay may take; a tracer must kill it then.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// What the replayer has written so far.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn results(&self) -> io::Result<Results> {
        Results::read(&self.files.results)
    }

    /// How a replayer that the caller started and waited for ended.
    ///
    /// # Errors
    ///
    /// If the files cannot be read.
    pub fn outcome(&self, status: ExitStatus) -> io::Result<Outcome> {
        let messages = self.files.read_messages()?;
        Ok(self
            .results()?
            .outcome(status, &messages, Some(self.operations)))
    }

    /// Starts the replayer.
    ///
    /// # Errors
    ///
    /// If the program cannot be executed.
    pub fn start(mut self) -> io::Result<Running<'a>> {
        Ok(Running {
            child: ReplayerProcess::spawn(&mut self.command)?,
            begin: Instant::now(),
            prepared: self,
        })
    }
}

/// A replayer that runs. It is killed if this is dropped before it has ended.
pub struct Running<'a> {
    child: ReplayerProcess,
    begin: Instant,
    prepared: Prepared<'a>,
}

impl Running<'_> {
    /// Waits for the end. Calls `progress` now and then with the number of operations done, of
    /// those of the null loop and of the replay, and of all; if it returns `false`, kills the
    /// replayer.
    ///
    /// # Errors
    ///
    /// If the kernel does not let this process wait, or the results cannot be read.
    pub fn wait(&mut self, progress: &dyn Fn(u64, u64) -> bool) -> io::Result<Outcome> {
        let mut pause = Duration::from_millis(1);
        let total = self.prepared.operations.len();
        loop {
            if let Some(status) = self.child.process.try_wait()? {
                return self.prepared.outcome(status);
            }
            let done = self.prepared.results()?.operations_done(total);
            if !progress(done, total.saturating_mul(2)) {
                self.child.process.kill()?;
            }
            if self.begin.elapsed() > self.prepared.limit {
                self.child.end();
                return Ok(Outcome::TooLong(self.prepared.limit.as_secs()));
            }
            self.prepared.files.forget_messages();
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE);
        }
    }
}

/// A child that is killed if it is dropped before it has ended, and then its descendants.
struct ReplayerProcess {
    process: Child,
    /// Dropped when the child has ended.
    _descendants: Descendants,
}

impl ReplayerProcess {
    fn spawn(command: &mut Command) -> io::Result<Self> {
        let descendants = Descendants::adopt();
        Ok(Self {
            process: command.spawn()?,
            _descendants: descendants,
        })
    }

    fn end(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

impl Drop for ReplayerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

fn in_memory(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

/// The path by which another process of this user opens a file of this process.
fn path_of(file: &File) -> OsString {
    let (process, descriptor) = (std::process::id(), file.as_raw_fd());
    OsStr::new(&format!("/proc/{process}/fd/{descriptor}")).to_owned()
}

fn set_word(to: &File, index: usize, value: u64) -> io::Result<()> {
    to.write_all_at(&value.to_le_bytes(), index as u64 * 8)
}

fn write_settings(to: &File, settings: &Settings) -> io::Result<()> {
    let set = |index, value| set_word(to, index, value);
    let mode = match settings.mode {
        Mode::Timed => results::MODE_TIMED,
        Mode::Latency => results::MODE_LATENCY,
        Mode::Stepped => results::MODE_STEPPED,
    };
    set(results::MODE, mode)?;
    let (touch, share) = match settings.touch {
        Touch::None => (results::TOUCH_NONE, 0),
        Touch::First => (results::TOUCH_FIRST, 0),
        Touch::Pages(share) => (results::TOUCH_PAGES, share.into()),
    };
    set(results::TOUCH, touch)?;
    set(results::TOUCH_SHARE, share)?;
    set(
        results::PROCESSOR,
        settings.processor.map_or(0, |it| u64::from(it) + 1),
    )?;
    set(results::POINTS_WANTED, settings.points.into())
}

fn write_samples(samples: &[u64]) -> io::Result<File> {
    let file = in_memory("allotrope-samples")?;
    let mut to = io::BufWriter::new(&file);
    for sample in samples {
        to.write_all(&sample.to_le_bytes())?;
    }
    to.flush()?;
    drop(to);
    Ok(file)
}
