//! Reads a file of stacks: a recording, a sampled profile, or any format of another tool that
//! `allotrope-formats` reads. The format is recognised by the file's contents.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use allotrope_formats::{Recognised, read_bytes_within, recognise};
use allotrope_profile::warnings::missing;
use allotrope_profile::{Profile, StackSet, WindowKey};
use allotrope_text::Shown;
use allotrope_trace::MAGIC;

use crate::error::ReadingError;
use crate::moment::{self, Moment};
use crate::observer::Observer;
use crate::reader::Reader;
use crate::recording::{Recording, Wanted};
use crate::source::{RecordedSource, Source, WindowRuns};
use crate::window::comparable;

impl Reader {
    /// Reads a file in any of the formats, or what was live at a moment of a recording
    /// (`FILE@MOMENT`).
    ///
    /// # Errors
    /// If the file cannot be read, is damaged beyond use, or has no call stacks.
    pub fn stacks(&self, path: &Path) -> Result<Source, ReadingError> {
        self.stacks_with(path, None)
    }

    /// Reads a file that another tool wrote. `None`: it is a recording, or of no known format,
    /// which its other reader will say.
    ///
    /// # Errors
    /// If the file is damaged, or of a format that cannot be read.
    pub fn foreign(&self, path: &Path) -> Result<Option<Source>, ReadingError> {
        const INSPECTED: u64 = 64 << 10;
        let mut start = Vec::new();
        let is_file = fs::metadata(path).is_ok_and(|it| it.is_file());
        let read = |start: &mut Vec<u8>| File::open(path)?.take(INSPECTED).read_to_end(start);
        if !is_file || read(&mut start).is_err() {
            return Ok(None);
        }
        match recognise(&start) {
            Recognised::Format(_) | Recognised::Foreign(_) => {}
            Recognised::Gzip | Recognised::Zstd => {}
            // Output of the program may precede its stacks.
            Recognised::UnknownText if start.len() as u64 == INSPECTED => {}
            _ => return Ok(None),
        }
        self.stacks(path).map(Some)
    }

    /// As [`stacks`](Self::stacks), and keeps of a recording its profile, with what is wanted.
    ///
    /// # Errors
    /// As [`stacks`](Self::stacks).
    pub fn recorded_stacks(&self, path: &Path, wanted: Wanted<'_>) -> Result<Source, ReadingError> {
        self.stacks_with(path, Some(wanted))
    }

    /// Reads the runs of the window `name`. Only recordings have windows.
    ///
    /// # Errors
    /// If the file is no recording, cannot be read or has no such window.
    pub fn window_runs(&self, path: &Path, name: &str) -> Result<WindowRuns, ReadingError> {
        let shown = path.shown();
        if !is_recording(path)? {
            return Err(ReadingError::Unusable(format!(
                "{shown} is no recording, and only recordings have windows; leave --window out"
            )));
        }
        let mut recording = self.open(path)?;
        let profile = recording.profile()?;
        check_stacks(path, &profile)?;
        let (runs, more) = comparable(path, &profile, name)?;
        let keys: Vec<WindowKey> = runs.iter().map(|run| run.key).collect();
        let stacks = recording.windows(&keys)?;
        let name = name.shown();
        let title = match runs.len() {
            1 => format!("{shown}, window {name}"),
            many => format!("{shown}, {many} runs of window {name}"),
        };
        let sets = (0..runs.len()).map(|at| StackSet {
            title: title.clone(),
            ..StackSet::of_process(&stacks, at)
        });
        let mut notes = notes(&recording, &profile);
        notes.extend(more);
        Ok(WindowRuns {
            sets: sets.collect(),
            iterations: runs.iter().map(|run| run.iterations).collect(),
            notes,
        })
    }

    fn stacks_with(&self, path: &Path, wanted: Option<Wanted<'_>>) -> Result<Source, ReadingError> {
        if let (file, Some(moment)) = moment::split(path) {
            return self.live_stacks(file, &moment);
        }
        let name = path.shown().into_owned();
        let unreadable = |error| ReadingError::io(path, error);
        let mut file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.is_dir() {
            return Err(ReadingError::Unusable(format!(
                "cannot read {name}: it is a folder; name a file"
            )));
        }
        let first = first_bytes(&mut file).map_err(unreadable)?;
        if first == MAGIC {
            return match self.sampled(path)? {
                Some(profile) => Source::of_samples(path, &profile),
                None => self.stacks_of_recording(path, wanted),
            };
        }
        self.observer.opens(metadata.len());
        let input = WithProgress {
            done: 0,
            total: metadata.len(),
            file: io::Cursor::new(first).chain(file),
            observer: &*self.observer,
        };
        let input = BufReader::with_capacity(256 << 10, input);
        let read = read_bytes_within(&name, input, self.limits);
        self.observer.finished();
        let read = read?;
        let notes = read.notes.iter();
        Ok(Source {
            notes: notes.map(|note| format!("note: {name}: {note}")).collect(),
            sampled: None,
            recorded: None,
            format: Some(read.format),
            set: read.set,
        })
    }

    /// Reads what was live at a moment of a recording.
    fn live_stacks(&self, path: &Path, at: &Moment) -> Result<Source, ReadingError> {
        if !is_recording(path)? {
            return Err(ReadingError::Unusable(format!(
                "{} is no recording, and only recordings have moments; leave the part from @ on out",
                path.shown()
            )));
        }
        let recording = self.open(path)?;
        let run = recording.run_times()?;
        let ns = recording.ns(at, &run, "the moment")?;
        let profile = recording.live_at(ns)?;
        check_stacks(path, &profile)?;
        Ok(Source {
            set: StackSet::of_live(&profile),
            sampled: None,
            recorded: None,
            format: None,
            notes: recording.notes(),
        })
    }

    fn stacks_of_recording(
        &self,
        path: &Path,
        wanted: Option<Wanted<'_>>,
    ) -> Result<Source, ReadingError> {
        let mut recording = self.open(path)?;
        let profile = recording.profile_with(wanted.unwrap_or_default())?;
        check_stacks(path, &profile)?;
        Ok(Source {
            set: StackSet::from(&profile),
            sampled: None,
            format: None,
            notes: notes(&recording, &profile),
            recorded: wanted.map(|_| Box::new(RecordedSource { profile, recording })),
        })
    }
}

/// What limits the meaning of a recording's figures, for people.
fn notes(recording: &Recording, profile: &Profile) -> Vec<String> {
    let mut notes = recording.notes();
    let of = recording.path().shown();
    let missing = missing(profile);
    notes.extend(missing.iter().map(|it| format!("warning: {of}: {it}")));
    notes
}

fn first_bytes(file: &mut File) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut first)?;
    Ok(first)
}

fn is_recording(path: &Path) -> Result<bool, ReadingError> {
    let first = File::open(path).and_then(|mut file| first_bytes(&mut file));
    let first = first.map_err(|error| ReadingError::io(path, error))?;
    Ok(first == MAGIC)
}

/// Refuses a recording without call stacks.
fn check_stacks(path: &Path, profile: &Profile) -> Result<(), ReadingError> {
    if !profile.is_counts_only() {
        return Ok(());
    }
    Err(ReadingError::Unusable(format!(
        "{} was recorded with --counts-only and has no call stacks; record the program without it",
        path.shown()
    )))
}

/// A reader that reports how much has been read.
struct WithProgress<'a, R> {
    /// Bytes read so far.
    done: u64,
    /// Bytes of the file.
    total: u64,
    file: R,
    observer: &'a dyn Observer,
}

impl<R: Read> Read for WithProgress<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.done += read as u64;
        if self.done <= self.total {
            self.observer
                .progress("reading the stacks", self.done, self.total);
        }
        Ok(read)
    }
}
