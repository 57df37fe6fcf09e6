//! The process of a recording whose calls are replayed: which one, its calls, its allocator.

use std::path::Path;

use allotrope_allocators::replay::allocators::{self, Allocator, SYSTEM};
use allotrope_allocators::replay::{
    OperationsError, RecordedOperations, RecordingError, operations_of,
};
use allotrope_formats::Limits;
use allotrope_profile::operations::{
    OperationOptions, RecordedProcess, RecordedProcesses, recorded_processes,
};
use allotrope_profile::{AggregateError, ImageId};
use allotrope_reading::Recording;
use allotrope_text::{Shown, shown};
use allotrope_trace::{ReadError, TraceReader};
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::message;
use crate::progress::{Progress, reader};
use crate::values;

/// Which process of a recording is replayed; without an option, the one with the most calls.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct ProcessArguments {
    /// The process image with this id [default: that with the most calls]
    ///
    /// `allotrope report --by process` shows ids.
    #[arg(long, value_name = "ID", value_parser = values::whole::<ImageId>(..))]
    process: Option<ImageId>,
    /// The process by the id that it had while it ran; an older spelling
    #[arg(long, value_name = "PID", hide = true, conflicts_with = "process",
          value_parser = values::whole::<u32>(..))]
    pid: Option<u32>,
}

impl ProcessArguments {
    fn is_given(self) -> bool {
        self.process.is_some() || self.pid.is_some()
    }

    fn matches(self, process: &RecordedProcess) -> bool {
        self.process.is_none_or(|id| process.id == id)
            && self.pid.is_none_or(|pid| process.pid == pid)
    }
}

/// Reads the operations of a process.
pub fn read(
    path: &Path,
    wanted: ProcessArguments,
    progress: &Progress,
) -> Result<(RecordedProcess, RecordedOperations), Failure> {
    let refuse = |sentence| Failure::new(BAD_INPUT, sentence);
    let reader = reader(Limits::default());
    if reader.sampled(path)?.is_some() {
        return Err(refuse(anyhow!(
            "{} is a sampled profile and has no single calls to replay: `allotrope report` shows it, and `allotrope bench` compares allocators without a recording; to replay the program, record it with `allotrope record`",
            path.shown()
        )));
    }
    let mut recording = reader.open_without_names(path)?;
    let mut all = processes(&recording)?;
    let mut process = choose(path, &all, wanted, recording.cut())?;
    let mut recorded = operations(recording.trace(), &process, progress);
    if let Err(RecordingError::Recording(AggregateError::Read(ReadError::Damaged { .. }))) =
        &recorded
    {
        recording
            .trace_mut()
            .cut_at_damage()
            .with_context(|| path.shown().into_owned())
            .status(BAD_INPUT)?;
        all = processes(&recording)?;
        let same = ProcessArguments {
            process: Some(process.id),
            pid: None,
        };
        process = choose(path, &all, same, recording.cut())?;
        recorded = operations(recording.trace(), &process, progress);
    }
    progress.finish();
    let recorded = recorded.map_err(|error| match error {
        RecordingError::Recording(error) => recording.error(error).into(),
        // The folder for temporary files is missing, full or cannot be written.
        RecordingError::Operations(error @ OperationsError::Io(_)) => Failure::new(
            FAILED,
            anyhow!("{error} ({})", std::env::temp_dir().shown()),
        ),
        RecordingError::Operations(error) => {
            Failure::new(BAD_INPUT, anyhow!("{}: {error}", path.shown()))
        }
    })?;
    recording.notes().iter().for_each(message::print);
    if process.lost_events > 0 {
        message::print(format_args!(
            "warning: {} lost {} calls of process {}; the others are replayed: time and instructions an operation are theirs, but memory is not the program's",
            path.shown(),
            process.lost_events,
            process.pid
        ));
    }
    Ok((process, recorded))
}

fn processes(recording: &Recording) -> Result<RecordedProcesses, Failure> {
    recorded_processes(recording.trace()).map_err(|error| recording.error(error).into())
}

fn operations(
    trace: &TraceReader,
    process: &RecordedProcess,
    progress: &Progress,
) -> Result<RecordedOperations, RecordingError> {
    let show = |done, total| progress.show("reading the recording", done, total);
    let options = OperationOptions {
        progress: Some(&show),
        ..OperationOptions::default()
    };
    operations_of(trace, process, &options)
}

/// The process that is wanted.
fn choose(
    path: &Path,
    all: &RecordedProcesses,
    wanted: ProcessArguments,
    cut: Option<String>,
) -> Result<RecordedProcess, Failure> {
    let refuse = |sentence| Failure::new(BAD_INPUT, sentence);
    if all.counts_only {
        return Err(refuse(anyhow!(
            "{} was recorded with --counts-only and has no single calls to replay: `allotrope report` shows its counts, and `allotrope bench` compares allocators without a recording; to replay the program, record it without --counts-only",
            path.shown()
        )));
    }
    let processes = all.processes.iter();
    let matching = processes.filter(|it| wanted.matches(it));
    let Some(process) = matching.max_by_key(|it| it.events) else {
        return Err(refuse(match wanted.process.or(wanted.pid) {
            Some(id) => anyhow!("{} has no process {id}", path.shown()),
            None => match cut {
                Some(cut) => anyhow!(
                    "{} is not whole, and no process is left: {cut}",
                    path.shown()
                ),
                None => anyhow!("{} has no process", path.shown()),
            },
        }));
    };
    let others = all.processes.iter().filter(|it| it.events > 0).count();
    if !wanted.is_given() && others > 1 {
        message::print(format_args!(
            "note: {} has {others} processes with calls; this is process {} (pid {}), which has the most (--process names another)",
            path.shown(),
            process.id,
            process.pid
        ));
    }
    Ok(process.clone())
}

/// The allocator that `--recorded-with` names, if it is given.
pub fn named_allocator(word: Option<&String>) -> Result<Option<Allocator>, Failure> {
    let Some(word) = word else { return Ok(None) };
    let found = allocators::allocators(std::slice::from_ref(word));
    match found.into_iter().next() {
        Some((allocator, None)) => Ok(Some(allocator)),
        Some((allocator, Some(error))) => {
            let sentence = anyhow!("--recorded-with {}: {error}", shown(&allocator.name));
            Err(Failure::new(BAD_INPUT, sentence))
        }
        None => Err(Failure::new(
            BAD_INPUT,
            anyhow!("--recorded-with names nothing"),
        )),
    }
}

/// The allocator that the program used, as the user (`named`) or the recording names it, and
/// whether that is known.
pub fn recorded_allocator(
    named: Option<Allocator>,
    process: &RecordedProcess,
) -> (Allocator, bool) {
    if let Some(allocator) = named {
        return (allocator, true);
    }
    let modules = process.modules.iter();
    let mut known = modules.filter_map(|path| Some((allocators::known_name(path)?, path)));
    match known.next() {
        Some((name, library)) => {
            let allocator = Allocator {
                name: name.to_owned(),
                library: Some(library.clone()),
            };
            (allocator, true)
        }
        None => {
            let name = SYSTEM.to_owned();
            (
                Allocator {
                    name,
                    library: None,
                },
                false,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        process: ProcessArguments,
    }

    fn process(id: ImageId, pid: u32, events: u64) -> RecordedProcess {
        RecordedProcess {
            id,
            pid,
            events,
            executable: "/bin/app".into(),
            command: Vec::new(),
            lost_events: 0,
            started_ns: 0,
            duration_ns: 1,
            waited_ns: 0,
            resident: Vec::new(),
            thread_ends: Vec::new(),
            modules: Vec::new(),
            environment: None,
        }
    }

    #[test]
    fn a_process_is_named_by_its_id_and_by_the_older_pid() {
        let all = RecordedProcesses {
            // The first program called exec.
            processes: vec![process(1, 77, 5), process(2, 78, 9), process(3, 77, 7)],
            counts_only: false,
            cut: None,
            is_growing: false,
        };
        let chosen = |line: &[&str]| {
            let words = Words::parse_from([&["app"], line].concat());
            let chosen = choose(Path::new("x"), &all, words.process, None);
            chosen.map(|it| it.id).map_err(|it| it.error.to_string())
        };
        assert_eq!(chosen(&[]), Ok(2), "the one with the most calls");
        assert_eq!(chosen(&["--process", "1"]), Ok(1));
        assert_eq!(chosen(&["--pid", "78"]), Ok(2));
        assert_eq!(chosen(&["--pid", "77"]), Ok(3), "of two, the one with more");
        for wrong in [["--process", "9"], ["--pid", "9"]] {
            assert_eq!(chosen(&wrong), Err("x has no process 9".to_owned()));
        }
    }
}
