//! Reads what the replayer measured. Nothing in the results file is trusted: an allocator that
//! goes wrong may have written anywhere.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use allotrope_replayer::operations::Call;
use allotrope_replayer::results;
use allotrope_text::shown;

use crate::replay::operations_file::Operations;

/// A copy of the results file.
#[derive(Debug, Clone)]
pub struct Results {
    words: Vec<u64>,
}

/// How a replay ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// All operations were replayed.
    Done(Box<Figures>),
    /// A signal ended the replayer, or it exited by itself in the middle.
    Crashed {
        /// The signal; `None` if it exited.
        signal: Option<i32>,
        /// The number of the operation that was called; `None` before the first.
        operation: Option<u64>,
        /// The last line that the allocator or the loader printed; may be empty.
        message: String,
    },
    /// Allocations failed.
    OutOfMemory {
        /// The number of the first operation that failed.
        operation: u64,
        /// Number of allocations that failed.
        failures: u64,
    },
    /// It ran longer than the limit, in seconds, and was killed.
    TooLong(u64),
    /// The replayer itself could not get memory or threads.
    NoResources,
    /// The process ended before the replayer's program began: the loader or the start of a library
    /// ended it.
    NotStarted {
        /// Exit status of the process.
        status: Option<i32>,
        /// The last line that it or the loader printed; may be empty.
        message: String,
    },
    /// The replayer could not use its files.
    BadFile {
        /// The last line that was printed; may be empty.
        message: String,
    },
}

/// What a whole replay measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// The library that `malloc` is in.
    pub library: PathBuf,
    /// Number of operations.
    pub operations: u64,
    /// Nanoseconds an operation in the allocator, without the null loop.
    pub ns_per_operation: f64,
    /// Nanoseconds an operation in the null loop.
    pub null_ns_per_operation: f64,
    /// Largest number of bytes of memory that the allocator had.
    pub peak_memory: u64,
    /// Bytes of memory that it had after the last operation.
    pub final_memory: u64,
    /// Memory of the allocator over the replay.
    pub points: Vec<Point>,
    /// How often another thread had its turn.
    pub switches: u64,
    /// Page faults during the replay that needed no file.
    pub page_faults: u64,
    /// Context switches that the kernel forced during the replay.
    pub preemptions: u64,
    /// Nanoseconds of one tick of the histograms.
    pub ns_per_tick: f64,
    /// Ticks by which two readings of that clock differ at least; 0 if that was not measured.
    pub clock_step: u64,
    /// Durations of the calls by number of [`Call`], in ticks, with what it takes to measure
    /// them. Empty unless each operation was measured.
    pub latencies: Vec<Histogram>,
    /// Durations of calls of functions that do nothing, by number of [`Call`].
    pub null_latencies: Vec<Histogram>,
}

/// What a benchmark measured; without the null loop, if there is one thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BenchFigures {
    /// Calls a second, of all threads.
    pub operations_per_second: f64,
    /// Processor cycles a call; `None` if there is no counter.
    pub cycles: Option<f64>,
    /// Instructions a call; `None` if there is no counter.
    pub instructions: Option<f64>,
}

/// A moment of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Number of operations done.
    pub operations: u64,
    /// Bytes of memory that the allocator had.
    pub memory: u64,
}

/// How often something took how many ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// The number of values.
    pub fn len(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, &n| u64::saturating_add(sum, n))
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest number of ticks such that this share (0 to 1) of the values is not larger,
    /// exact to a sixteenth; `None` if there are no values.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total = self.len();
        let wanted = ((total as f64 * share).ceil() as u64).clamp(1, total.max(1));
        let mut sum = 0_u64;
        let bucket = self.counts.iter().position(|&count| {
            sum = sum.saturating_add(count);
            sum >= wanted
        });
        bucket.map(results::bucket_start)
    }
}

impl Outcome {
    /// Why the replay was not measured, as the end of a sentence that begins with the
    /// allocator's name; `None` if it was.
    pub fn refusal(&self, operations: &Operations) -> Option<String> {
        let total = operations.len();
        let which = |number: u64| {
            let record = operations.record(number).ok();
            let call = record.and_then(|it| Some((Call::from_number(it.call)?, it.size)));
            match call {
                Some((Call::Free, _)) => format!("operation {number} of {total} (free)"),
                Some((call, size)) => {
                    format!(
                        "operation {number} of {total} ({} of {size} bytes)",
                        call.name()
                    )
                }
                None => format!("an operation of {total}"),
            }
        };
        Some(match self {
            Self::Done(_) => return None,
            Self::Crashed {
                signal,
                operation,
                message,
            } => {
                let at = match operation {
                    Some(number) => format!("in {}", which(*number)),
                    None => "before the first operation".to_owned(),
                };
                crash(*signal, Some(&at), message)
            }
            Self::OutOfMemory {
                operation,
                failures: 1,
            } => format!("ran out of memory: {} failed", which(*operation)),
            Self::OutOfMemory {
                operation,
                failures,
            } => format!(
                "ran out of memory: {} failed, and {} more did",
                which(*operation),
                failures - 1
            ),
            Self::TooLong(seconds) => too_long(*seconds),
            Self::NoResources => no_resources(),
            Self::NotStarted { status, message } => not_started(*status, message),
            Self::BadFile { message } => bad_file(message),
        })
    }
}

/// Says that a replay was killed at its limit, as the end of a sentence.
pub fn too_long(seconds: u64) -> String {
    format!("did not finish within {seconds} s (--timeout)")
}

/// Says that the replayer got nothing for itself, as the end of a sentence.
pub(crate) fn no_resources() -> String {
    "was not measured: the replayer got no memory or threads for itself".to_owned()
}

/// Says that the loader or a library's start ended the process, as the end of a sentence.
pub(crate) fn not_started(status: Option<i32>, message: &str) -> String {
    let status = status.map_or_else(String::new, |it| format!(" with status {it}"));
    format!(
        "was not measured: the process ended{status} while its libraries were loaded{}",
        said(message)
    )
}

/// Says that the replayer refused its files, as the end of a sentence.
pub(crate) fn bad_file(message: &str) -> String {
    format!(
        "was not measured: the replayer could not use the operations{}",
        said(message)
    )
}

/// Says that an allocator crashed, as the end of a sentence.
pub(crate) fn crash(signal: Option<i32>, at: Option<&str>, message: &str) -> String {
    let how = match signal {
        Some(signal) => format!("crashed with {}", signal_name(signal)),
        None => "ended the process".to_owned(),
    };
    let at = at.map_or_else(String::new, |at| format!(" {at}"));
    format!("{how}{at}{}", said(message))
}

/// What was printed last, as the end of a sentence.
fn said(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!("; its last words: {}", shown(message)),
    }
}

/// The usual name of a signal.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

impl Results {
    pub(crate) fn read(file: &File) -> io::Result<Self> {
        let mut bytes = vec![0; results::BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        let words = bytes.as_chunks().0.iter();
        Ok(Self {
            words: words.map(|word| u64::from_le_bytes(*word)).collect(),
        })
    }

    fn get(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// How far the replayer got: a `STATE_` constant of [`allotrope_replayer::results`].
    pub fn state(&self) -> u64 {
        self.get(results::STATE)
    }

    /// The number of the operation that is called now.
    pub fn current(&self) -> u64 {
        self.get(results::CURRENT)
    }

    /// The library that `malloc` is in.
    pub fn library(&self) -> PathBuf {
        let words = &self.words[results::PATH..results::PATH + results::PATH_WORDS];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        let path: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        OsString::from_vec(path).into()
    }

    /// Operations done, of those of the null loop and of the replay together.
    pub(crate) fn operations_done(&self, total: u64) -> u64 {
        let done = self.get(results::DONE).min(total);
        match self.state() {
            results::STATE_NULL_LOOP => done,
            results::STATE_REPLAYING => total + done,
            _ => 0,
        }
    }

    pub(crate) fn outcome(
        &self,
        status: ExitStatus,
        messages: &str,
        operations: Option<&Operations>,
    ) -> Outcome {
        let lines = messages.lines().map(str::trim);
        let message = lines.rev().find(|it| !it.is_empty()).unwrap_or_default();
        let message = || message.chars().take(200).collect();
        let state = self.state();
        if state == results::STATE_NO_RESOURCES {
            return Outcome::NoResources;
        }
        if state == results::STATE_BAD_FILE {
            return Outcome::BadFile { message: message() };
        }
        if state == results::STATE_STARTED && status.signal().is_none() {
            return Outcome::NotStarted {
                status: status.code(),
                message: message(),
            };
        }
        if state != results::STATE_DONE || !status.success() {
            let is_replaying = state >= results::STATE_REPLAYING;
            return Outcome::Crashed {
                signal: status.signal(),
                operation: is_replaying.then(|| self.current()),
                message: message(),
            };
        }
        let failures = self.get(results::FAILURES);
        if failures > 0 {
            return Outcome::OutOfMemory {
                operation: self.get(results::FIRST_FAILURE).saturating_sub(1),
                failures,
            };
        }
        Outcome::Done(Box::new(match operations {
            Some(operations) => self.figures(operations),
            None => Figures {
                library: self.library(),
                ..Figures::default()
            },
        }))
    }

    /// What a benchmark measured; `None` if it took no time, or less than nothing.
    pub(crate) fn bench_figures(&self) -> Option<BenchFigures> {
        let null = match self.get(results::BENCH_THREADS) {
            1 => self.get(results::NULL_TIME),
            // Threads that do not wait for each other end at times that say little.
            _ => 0,
        };
        let ns = self.get(results::TIME).checked_sub(null)?;
        let operations = self.get(results::DONE);
        if ns == 0 || operations == 0 {
            return None;
        }
        let each = |index: usize, null: usize| {
            let counted = self.get(index).checked_sub(1)?;
            let null = self.get(null).checked_sub(1)?;
            Some(counted.checked_sub(null)? as f64 / operations as f64)
        };
        Some(BenchFigures {
            operations_per_second: operations as f64 * 1e9 / ns as f64,
            cycles: each(results::CYCLES, results::NULL_CYCLES),
            instructions: each(results::INSTRUCTIONS, results::NULL_INSTRUCTIONS),
        })
    }

    fn figures(&self, operations: &Operations) -> Figures {
        let ns_per_tick = {
            let (ns, ticks) = (self.get(results::SPAN_NS), self.get(results::SPAN_TICKS));
            if ticks == 0 {
                0.0
            } else {
                ns as f64 / ticks as f64
            }
        };
        let unit = if operations.threads() == 1 {
            1.0
        } else {
            ns_per_tick
        };
        let each = |index| self.get(index) as f64 * unit / operations.len() as f64;
        let null = each(results::NULL_TIME);
        let taken = self.get(results::POINTS_TAKEN);
        let taken =
            usize::try_from(taken).map_or(results::MAX_POINTS, |it| it.min(results::MAX_POINTS));
        let points = (0..taken).map(|number| Point {
            operations: self.get(results::POINTS + 2 * number).min(operations.len()),
            memory: self.get(results::POINTS + 2 * number + 1),
        });
        let histograms = |first: usize| -> Vec<Histogram> {
            let calls = (0..Call::ALL.len()).map(|call| {
                let at = first + call * results::BUCKETS;
                Histogram {
                    counts: self.words[at..at + results::BUCKETS].to_vec(),
                }
            });
            calls.collect()
        };
        let is_latency = self.get(results::MODE) == results::MODE_LATENCY;
        let histograms = |first| {
            if is_latency {
                histograms(first)
            } else {
                Vec::new()
            }
        };
        Figures {
            library: self.library(),
            operations: operations.len(),
            ns_per_operation: each(results::TIME) - null,
            null_ns_per_operation: null,
            peak_memory: self.get(results::PEAK_MEMORY),
            final_memory: self.get(results::FINAL_MEMORY),
            points: points.collect(),
            switches: self.get(results::SWITCHES),
            page_faults: self.get(results::PAGE_FAULTS),
            preemptions: self.get(results::PREEMPTIONS),
            ns_per_tick,
            clock_step: self.get(results::CLOCK_STEP),
            latencies: histograms(results::HISTOGRAMS),
            null_latencies: histograms(results::NULL_HISTOGRAMS),
        }
    }
}
