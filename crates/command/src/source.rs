//! Reads a file of stacks that the command line names: a recording, or any format of
//! another tool that `allotrope-formats` reads. The format is recognised by the file's
//! contents. `diff` and `export` read their input here.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use allotrope_text::Shown;

use allotrope_formats::{Events, Limits, read_bytes_within};
use allotrope_profile::sampled::{SampledFigures, SampledProfile};
use allotrope_profile::{
    AggregateError, Block, BlockEvent, Filter, ImageId, Metric, Options, Profile, StackId,
    StackSet, WindowKey, block_events, run_times,
};
use allotrope_report::missing;
use allotrope_report::sampled::{interval, note, value, words};
use allotrope_sampling::Period;
use allotrope_trace::TraceReader;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, Failure, WithStatus};
use crate::memory;
use crate::message;
use crate::moment::{self, Moment};
use crate::progress::Progress;
use crate::sampled;
use crate::trace;
use crate::window;

/// The first bytes of a recording (`docs/trace-format.md`).
const TRACE: &[u8] = b"ALLOTROP";

/// What was read from a file.
pub struct Source {
    /// The stacks.
    pub set: StackSet,
    /// Figures of the stacks, in their order, if it is a sampled profile. `set` has the
    /// estimates.
    pub sampled: Option<Box<SampledSource>>,
    /// What a recording that was read with [`read_recorded`] has besides sums.
    pub recorded: Option<Box<RecordedSource>>,
    /// Notes on how far the figures can be trusted, a sentence each.
    notes: Vec<String>,
}

/// A recording: its profile, whose sites are the stacks of the source, and its events.
pub struct RecordedSource {
    /// The profile.
    pub profile: Profile,
    trace: TraceReader,
}

impl Events for RecordedSource {
    fn block_events(
        &self,
        sites: &[(ImageId, StackId)],
        callback: &mut dyn FnMut(BlockEvent, &Block),
    ) -> Result<(), AggregateError> {
        block_events(&self.trace, &Options::default(), sites, callback)
    }
}

/// What a sampled profile has besides its stacks.
pub struct SampledSource {
    /// Figures by index of the stack.
    pub stacks: Vec<SampledFigures>,
    /// All stacks together; as in `stacks` after a filter.
    pub total: SampledFigures,
    /// A stack of which no block was sampled.
    pub none: SampledFigures,
}

impl Source {
    /// Keeps only the stacks with a frame that matches.
    pub fn filter(&mut self, filter: &Filter) {
        if let Some(sampled) = &mut self.sampled {
            let matching = self.set.frames.iter().map(|frame| frame.matches(filter));
            let matching: Vec<bool> = matching.collect();
            let is_wanted = |&frame: &u32| matching.get(frame as usize) == Some(&true);
            let mut stacks = self.set.stacks.iter();
            sampled.stacks.retain(|_| {
                let stack = stacks.next();
                stack.is_some_and(|stack| stack.frames.iter().any(is_wanted))
            });
            sampled.total = sampled.none;
            for figures in &sampled.stacks {
                sampled.total.merge(figures);
            }
        }
        if let Some(recorded) = &mut self.recorded {
            recorded.profile.filter(filter);
        }
        self.set.filter(filter);
    }

    /// Keeps only the process image with this id.
    pub fn keep_process(&mut self, path: &Path, id: ImageId) -> Result<(), Failure> {
        let Some(recorded) = &mut self.recorded else {
            let sentence = anyhow!(
                "{} has no process images to choose from; leave --process out",
                path.shown()
            );
            return Err(Failure::new(BAD_INPUT, sentence));
        };
        let profile = &mut recorded.profile;
        profile.processes.retain(|process| process.id == id);
        if profile.processes.is_empty() {
            let sentence = anyhow!(
                "there is no process {id} in {}; `allotrope report --by process` lists them",
                path.shown()
            );
            return Err(Failure::new(BAD_INPUT, sentence));
        }
        self.set = StackSet::from(&*profile);
        Ok(())
    }

    /// Adds the intervals of its sums to a sampled profile, and returns them as sentences.
    pub fn describe_sampling(&mut self) -> Vec<String> {
        let (Some(sampled), Some(sampling)) = (&self.sampled, &mut self.set.run.sampling) else {
            return Vec::new();
        };
        let metrics = [
            Metric::LeakedBytes,
            Metric::LeakedAllocations,
            Metric::Bytes,
            Metric::Allocations,
        ];
        let sums = metrics.into_iter().filter_map(|metric| {
            let estimate = sampled.total.metric(metric)?;
            Some(format!(
                "all {} ({metric}): {}, 95 % interval {}",
                words(metric),
                value(&estimate, metric),
                interval(&estimate, metric)
            ))
        });
        let sums: Vec<String> = sums.collect();
        sampling.notes.extend(sums.iter().cloned());
        sums
    }

    /// The notes.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Prints the notes on stderr. [`read`] does not print them, so that an error which
    /// is found later is the only message.
    pub fn print_notes(&self) {
        for note in &self.notes {
            message::print(note);
        }
    }
}

/// The runs of a window in a recording: stacks of each, and their iterations.
pub struct WindowRuns {
    /// The runs, with a title each.
    pub sets: Vec<StackSet>,
    /// The iterations that each run declares; 0 if it declares none.
    pub iterations: Vec<u64>,
    /// Notes as those of a [`Source`].
    notes: Vec<String>,
}

impl WindowRuns {
    /// The notes.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Prints the notes on stderr.
    pub fn print_notes(&self) {
        for note in &self.notes {
            message::print(note);
        }
    }
}

/// Reads the runs of the window `name`. Fails for a file that is no recording: only
/// recordings have windows.
pub fn read_window(
    path: &Path,
    name: &str,
    limits: Limits,
    progress: &Progress,
) -> Result<WindowRuns, Failure> {
    if !is_recording(path)? {
        let sentence = anyhow!(
            "{} is no recording, and only recordings have windows; leave --window out",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let mut trace = trace::open(path, limits)?;
    let profile = trace::profile(path, &mut trace, progress)?;
    check_stacks(path, &profile)?;
    let (runs, more) = window::comparable(path, &profile, name)?;
    let keys: Vec<WindowKey> = runs.iter().map(|run| run.key).collect();
    let stacks = window::stacks(path, &trace, &keys)?;
    let (of, path, name) = (path, path.shown(), name.shown());
    let title = match runs.len() {
        1 => format!("{path}, window {name}"),
        many => format!("{path}, {many} runs of window {name}"),
    };
    let sets = (0..runs.len()).map(|at| StackSet {
        title: title.clone(),
        ..StackSet::of_process(&stacks, at)
    });
    let sets = sets.collect();
    let mut notes = notes(of, &trace, &profile);
    notes.extend(more);
    Ok(WindowRuns {
        sets,
        iterations: runs.iter().map(|run| run.iterations).collect(),
        notes,
    })
}

/// What limits the meaning of a recording's figures, for people.
fn notes(path: &Path, trace: &TraceReader, profile: &Profile) -> Vec<String> {
    let mut notes = trace::notes(path, trace);
    let of = path.shown();
    let missing = missing(profile);
    notes.extend(missing.iter().map(|it| format!("warning: {of}: {it}")));
    notes
}

fn is_recording(path: &Path) -> Result<bool, Failure> {
    let cannot = || format!("cannot read {}", path.shown());
    let file = File::open(path).with_context(cannot).status(BAD_INPUT)?;
    let mut first = Vec::new();
    let read = file.take(TRACE.len() as u64).read_to_end(&mut first);
    read.with_context(cannot).status(BAD_INPUT)?;
    Ok(first == TRACE)
}

/// Reads a file in any of the formats, or what was live at a moment of a recording
/// (`FILE@MOMENT`), within the limits.
pub fn read(path: &Path, limits: Limits, progress: &Progress) -> Result<Source, Failure> {
    read_with(path, None, limits, progress)
}

/// Same as [`read()`], but keeps of a recording its profile, with what is wanted.
pub fn read_recorded(
    path: &Path,
    wanted: trace::Wanted<'_>,
    limits: Limits,
    progress: &Progress,
) -> Result<Source, Failure> {
    read_with(path, Some(wanted), limits, progress)
}

fn read_with(
    path: &Path,
    wanted: Option<trace::Wanted<'_>>,
    limits: Limits,
    progress: &Progress,
) -> Result<Source, Failure> {
    if let (file, Some(moment)) = moment::split(path) {
        return live_at(file, &moment, limits, progress);
    }
    let name = path.shown().into_owned();
    let cannot = || format!("cannot read {name}");
    let mut file = File::open(path).with_context(cannot).status(BAD_INPUT)?;
    let metadata = file.metadata().with_context(cannot).status(BAD_INPUT)?;
    if metadata.is_dir() {
        let sentence = anyhow!("cannot read {name}: it is a folder; name a file");
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let mut first = Vec::new();
    let read = file
        .by_ref()
        .take(TRACE.len() as u64)
        .read_to_end(&mut first);
    read.with_context(cannot).status(BAD_INPUT)?;
    if first == TRACE {
        if let Some(profile) = sampled::open(path)? {
            return of_samples(path, &profile);
        }
        return recording(path, wanted, limits, progress);
    }
    memory::add_file(metadata.len());
    let input = WithProgress {
        done: 0,
        total: metadata.len(),
        file: io::Cursor::new(first).chain(file),
        progress,
    };
    let input = BufReader::with_capacity(256 << 10, input);
    let read = read_bytes_within(&name, input, limits);
    progress.finish();
    let read = read.status(BAD_INPUT)?;
    let notes = read.notes.iter();
    Ok(Source {
        notes: notes.map(|note| format!("note: {name}: {note}")).collect(),
        sampled: None,
        recorded: None,
        set: read.set,
    })
}

/// Refuses a recording without call stacks.
fn check_stacks(path: &Path, profile: &Profile) -> Result<(), Failure> {
    if !profile.is_counts_only() {
        return Ok(());
    }
    let sentence = anyhow!(
        "{} was recorded with --counts-only and has no call stacks; record the program without it",
        path.shown()
    );
    Err(Failure::new(BAD_INPUT, sentence))
}

/// Reads what was live at a moment of a recording.
fn live_at(
    path: &Path,
    at: &Moment,
    limits: Limits,
    progress: &Progress,
) -> Result<Source, Failure> {
    if !is_recording(path)? {
        let sentence = anyhow!(
            "{} is no recording, and only recordings have moments; leave the part from @ on out",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let trace = trace::open(path, limits)?;
    let run = run_times(&trace).map_err(|error| trace::not_aggregated(path, error))?;
    let ns = moment::ns(at, &run, "the moment", path)?;
    let profile = moment::live_at(path, &trace, ns, progress)?;
    check_stacks(path, &profile)?;
    Ok(Source {
        set: StackSet::of_live(&profile),
        sampled: None,
        recorded: None,
        notes: trace::notes(path, &trace),
    })
}

/// The stacks of a sampled profile. It must have been sampled: else nothing is known.
pub fn of_samples(path: &Path, profile: &SampledProfile) -> Result<Source, Failure> {
    let period = Period::new(profile.longest_period());
    let (Some(total), Some(period)) = (profile.totals(), period) else {
        let sentence = anyhow!(
            "{}: sampling was never on in any of its processes, so it has no figures",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    };
    let (mut set, stacks) = profile.stack_set();
    let of = path.shown();
    let mut notes = vec![format!("note: {of}: {}", note(profile))];
    let mut warnings = profile.warnings();
    warnings.extend(allotrope_report::sampled_warnings(profile));
    notes.extend(warnings.iter().map(|it| format!("warning: {of}: {it}")));
    if let Some(sampling) = &mut set.run.sampling {
        sampling.notes.push(note(profile));
        sampling.notes.extend(warnings);
    }
    Ok(Source {
        set,
        sampled: Some(Box::new(SampledSource {
            stacks,
            total,
            none: SampledFigures::of_site(period),
        })),
        recorded: None,
        notes,
    })
}

fn recording(
    path: &Path,
    wanted: Option<trace::Wanted<'_>>,
    limits: Limits,
    progress: &Progress,
) -> Result<Source, Failure> {
    let mut trace = trace::open(path, limits)?;
    let profile = trace::profile_with(path, &mut trace, wanted.unwrap_or_default(), progress)?;
    check_stacks(path, &profile)?;
    Ok(Source {
        set: StackSet::from(&profile),
        sampled: None,
        notes: notes(path, &trace, &profile),
        recorded: wanted.map(|_| Box::new(RecordedSource { profile, trace })),
    })
}

/// A reader that shows on a progress bar how much has been read.
struct WithProgress<'a, R> {
    /// Bytes read so far.
    done: u64,
    /// Bytes of the file.
    total: u64,
    file: R,
    progress: &'a Progress,
}

impl<R: Read> Read for WithProgress<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.done += read as u64;
        if self.done <= self.total {
            self.progress
                .show("reading the stacks", self.done, self.total);
        }
        Ok(read)
    }
}
