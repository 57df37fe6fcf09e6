//! `allotrope stat`: what a program has allocated and freed over time, a line an interval.
//!
//! The program is recorded. While it runs, the collector sends live figures. At its end the
//! trace is aggregated: the last lines, the CSV file, the plot and the log have its numbers,
//! which are exact. The trace is a temporary file, unless `-o` names one to keep, and has
//! next to no stacks then. `allotrope stat FILE` reads a recording.

mod live;
mod log;
mod plot;
mod rows;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use allotrope_files::Output;
use allotrope_formats::Limits;
use allotrope_profile::{Options, heap_curves};
use allotrope_reading::Recording;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};
use clap::{Args, FromArgMatches};

use crate::debug_files::DebugFiles;
use crate::exit_status::{BAD_INPUT, FINE, Failure, RECORD_FAILED, WithStatus};
use crate::message;
use crate::progress::{Progress, reader};
use crate::record::{self, LeftBehind, Stat, WhenFull};
use crate::recordings::is_recording;
use crate::replacing::{self, ForceArguments, Kind};
use crate::standard_output;
use crate::to_write::ToWrite;
use live::LiveLines;
use rows::{LastLines, Row, Rows, head};

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The lines of a program that runs go to the standard error output: bytes allocated
and freed so far, live bytes, resident memory, allocations a second. They come while
the program runs; the last line of each process and the files have exact numbers,
those of `allotrope record`. Freed bytes are those of blocks that the process has
allocated itself, and live bytes are the difference. A process that calls exec
begins anew. In place of a program, a recording can be given, or a log as below, also one
that a program has written itself: --plot draws it.

The CSV file has a row for each process and interval:
  seconds,pid,allocated_bytes,deallocated_bytes,live_bytes,resident_bytes,allocations,deallocations
Both are written while the program runs, and made exact at its end. The log has a line an
interval, for all processes together:
  Time: 1717171717, Allocated: 12345, Deallocated: 2345

Exit status: that of `allotrope record`, which is the program's own; for a recording
0 if it could be read, 1 if allotrope failed, 2 if it cannot be used.";

/// The shortest interval.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Largest number of intervals that are in memory.
const MAX_INTERVALS: u64 = 1 << 20;
/// Largest number of processes whose last lines are printed.
const MAX_LAST: usize = 20;

/// Arguments of `allotrope stat`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "allotrope stat [OPTIONS] [--] PROGRAM [ARGS]...\n       allotrope stat [OPTIONS] FILE"
)]
pub struct Arguments {
    /// Time between two lines
    #[arg(long, alias = "interval", value_name = "TIME", default_value = "1s",
          value_parser = interval)]
    every: Duration,
    /// Write the numbers of each process to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw live and resident bytes over time
    ///
    /// Of all processes together.
    #[arg(long, value_name = "OUT.svg")]
    plot: Option<PathBuf>,
    /// Write allocated and freed bytes of all processes together to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Keep the recording in this file, with all call stacks
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub force: ForceArguments,
    /// Record neither child processes nor what the program execs
    #[arg(long)]
    pub no_follow: bool,
    /// What the program does when the trace is written too slowly
    ///
    /// Wait, or go on and lose events (they are counted).
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHAT",
        hide_short_help = true
    )]
    pub on_full: WhenFull,
    /// Print no lines, only errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Preload the recorder at PATH in place of the built-in one
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub recorder: Option<PathBuf>,
    /// The program to run, and its arguments; or a recording
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, num_args = 1..)]
    pub command: Vec<OsString>,
}

/// Parses the interval.
fn interval(text: &str) -> Result<Duration, String> {
    let time = allotrope_reading::time(text).map(|us| Duration::from_secs_f64((us / 1e6).min(1e9)));
    match time {
        Some(time) if time >= MIN_INTERVAL => Ok(time),
        Some(_) => Err("the shortest interval is 10ms".to_owned()),
        None => Err("write a time such as `1s` or `500ms`".to_owned()),
    }
}

/// Runs the program, or reads the recording.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if let [file, _, ..] = &arguments.command[..]
        && (is_recording(Path::new(file)) || log::is_such(Path::new(file)))
    {
        return run(&with_file_last(arguments.command.len())?);
    }
    if let [only] = &arguments.command[..]
        && is_recording(Path::new(only))
    {
        return of_file(arguments, Path::new(only));
    }
    if let [only] = &arguments.command[..]
        && log::is_such(Path::new(only))
    {
        return of_log(arguments, Path::new(only));
    }
    let files = arguments.outputs();
    for file in files.files() {
        // Before the program runs for hours.
        let check = || -> anyhow::Result<()> {
            let kind = file.kind;
            let target = replacing::target(file.path, kind, file.force.force, replacing::REMEDY)?;
            let created = Output::at(target).map(drop);
            created.with_context(|| format!("cannot write {}", file.path.shown()))
        };
        check().status(RECORD_FAILED)?;
    }
    let (csv, log) = (arguments.csv.as_deref(), arguments.log.as_deref());
    let quiet = arguments.quiet;
    let mut live = LiveLines::new(quiet, csv, log);
    let stat = Stat {
        interval_ms: u64::try_from(arguments.every.as_millis()).unwrap_or(u64::MAX),
        show: Box::new(move |ns, images| live.take(ns, images)),
        finish: Box::new(move |recording| {
            let rows = files.read(recording)?;
            files.write(&rows, None)?;
            if !quiet {
                print_last(&rows);
            }
            Ok(())
        }),
    };
    record::run_with(arguments.recording(), Some(stat)).map_err(|failure| {
        // A status below 125 is the program's own.
        Failure {
            status: failure.status.max(RECORD_FAILED),
            ..failure
        }
    })
}

/// The arguments if the words behind a file are options, and not a program's. `behind`: the number of words
/// from the file on.
fn with_file_last(behind: usize) -> Result<Arguments, Failure> {
    // Without the names of the command and of the subcommand.
    let mut words: Vec<OsString> = std::env::args_os().skip(2).collect();
    let at = words.len().saturating_sub(behind);
    let file = words.remove(at);
    if at > 0 && words.get(at - 1).is_some_and(|it| it == "--") {
        words.remove(at - 1);
    }
    words.push(file);
    let command = Arguments::augment_args(clap::Command::new("allotrope stat"));
    let parsed = command.no_binary_name(true).try_get_matches_from(words);
    parsed
        .and_then(|it| Arguments::from_arg_matches(&it))
        .map_err(|error| Failure::new(BAD_INPUT, anyhow!("{}", error.to_string().trim_end())))
}

fn of_file(arguments: &Arguments, path: &Path) -> Result<u8, Failure> {
    if arguments.output.is_some() {
        let sentence =
            anyhow!("--output keeps the recording of a program, and FILE is one already");
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let recording = reader(Limits::default()).open_without_names(path)?;
    let files = arguments.outputs();
    let input = path.to_owned();
    for file in files.files() {
        file.check([&input])?;
    }
    let rows = files.read(&recording)?;
    recording.notes().iter().for_each(message::print);
    files.write(&rows, Some(&input))?;
    if !arguments.quiet {
        standard_output::print_log(|out| print_all(&rows, out))?;
    }
    Ok(FINE)
}

/// A log has totals alone.
fn of_log(arguments: &Arguments, path: &Path) -> Result<u8, Failure> {
    let is_given = [
        (arguments.output.is_some(), "--output"),
        (arguments.csv.is_some(), "--csv"),
        (arguments.log.is_some(), "--log"),
    ];
    if let Some((_, option)) = is_given.iter().find(|it| it.0) {
        let sentence = anyhow!(
            "{option} is for a program or a recording; {} is a log, which --plot draws",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let rows = log::read(path)
        .with_context(|| format!("cannot use {}", path.shown()))
        .status(BAD_INPUT)?;
    arguments.outputs().write(&rows, Some(&path.to_owned()))?;
    if !arguments.quiet {
        standard_output::print_log(|out| rows.write_totals(out))?;
    }
    Ok(FINE)
}

impl Arguments {
    /// The recording that this command makes. Without an output, it has only as much of the
    /// stacks as cannot be left out.
    fn recording(&self) -> record::Arguments {
        record::Arguments {
            output: self.output.clone(),
            force: self.force.force,
            no_follow: self.no_follow,
            on_full: self.on_full,
            counts_only: false,
            free_stacks: false,
            reachability: false,
            allocators: Vec::new(),
            environment_names: false,
            left_behind: LeftBehind::default(),
            left_behind_list: None,
            pid: None,
            quiet: self.quiet,
            depth: if self.output.is_some() { 4096 } else { 1 },
            frame_pointers: false,
            debug_files: DebugFiles::default(),
            recorder: self.recorder.clone(),
            command: self.command.clone(),
            first_screen: false,
        }
    }

    fn outputs(&self) -> Outputs {
        Outputs {
            interval: self.every,
            csv: self.csv.clone(),
            plot: self.plot.clone(),
            log: self.log.clone(),
            force: self.force,
            quiet: self.quiet,
        }
    }
}

/// What is made of a complete recording.
struct Outputs {
    interval: Duration,
    csv: Option<PathBuf>,
    plot: Option<PathBuf>,
    log: Option<PathBuf>,
    force: ForceArguments,
    quiet: bool,
}

impl Outputs {
    fn file<'a>(&self, path: Option<&'a PathBuf>, kind: Kind<'a>) -> Option<ToWrite<'a>> {
        let force = self.force;
        path.map(|path| ToWrite { path, kind, force })
    }

    fn csv(&self) -> Option<ToWrite<'_>> {
        let is_own = &rows::is_csv;
        let what = "earlier table of `allotrope stat`";
        self.file(self.csv.as_ref(), Kind { what, is_own })
    }

    fn log(&self) -> Option<ToWrite<'_>> {
        let is_own = &rows::is_log;
        let what = "earlier log of `allotrope stat`";
        self.file(self.log.as_ref(), Kind { what, is_own })
    }

    fn plot(&self) -> Option<ToWrite<'_>> {
        let is_own = &plot::is_plot;
        let what = "earlier plot of `allotrope stat`";
        self.file(self.plot.as_ref(), Kind { what, is_own })
    }

    /// Returns the files that are wanted.
    fn files(&self) -> impl Iterator<Item = ToWrite<'_>> {
        [self.csv(), self.log(), self.plot()].into_iter().flatten()
    }

    /// Aggregates the recording.
    fn read(&self, recording: &Recording) -> Result<Rows, Failure> {
        let about = recording.about();
        if about.counts_only {
            let sentence = anyhow!(
                "{} was recorded with --counts-only, which leaves out what is freed; record the program without it",
                recording.path().shown()
            );
            return Err(Failure::new(BAD_INPUT, sentence));
        }
        let run = recording.run_times()?;
        let mut each = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        while run.lasted_ns() / each > MAX_INTERVALS {
            each = each.saturating_mul(2);
        }
        if u128::from(each) != self.interval.as_nanos() {
            let interval = Duration::from_nanos(each);
            message::print(format_args!(
                "note: for a run this long, the interval is {interval:?}"
            ));
        }
        let progress = Progress::new(self.quiet);
        let show = |done, total| progress.show("reading the recording", done, total);
        let options = Options {
            progress: Some(&show),
            ..Options::default()
        };
        let samples = heap_curves(recording.trace(), &options, run.started_ns, each);
        progress.finish();
        Ok(Rows::new(
            samples.map_err(|error| recording.error(error))?,
            &run,
            about.started_unix_ns,
        ))
    }

    /// Writes the files that are wanted; none may be `input`.
    fn write(&self, rows: &Rows, input: Option<&PathBuf>) -> Result<(), Failure> {
        if let Some(file) = self.csv() {
            file.create(input, |out| rows.write_csv(out))?;
        }
        if let Some(file) = self.log() {
            file.create(input, |out| rows.write_log(out))?;
        }
        if let Some(file) = self.plot() {
            file.create(input, |out| plot::write(rows, out))?;
        }
        Ok(())
    }
}

/// Prints the last row of each process, those that allocated most first.
fn print_last(rows: &Rows) {
    let mut text = format!("at the end:\n{}", head());
    let mut last: Vec<&Row> = rows.processes().filter_map(<[Row]>::last).collect();
    last.sort_by_key(|row| std::cmp::Reverse(row.allocated_bytes));
    for row in last.iter().take(MAX_LAST) {
        // The rate is that of the whole run.
        text.push_str(&row.line(None));
    }
    if last.len() > MAX_LAST {
        text.push_str(&format!("{} more processes\n", last.len() - MAX_LAST));
    }
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints all rows, in order of time.
fn print_all(rows: &Rows, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(head().as_bytes())?;
    let mut last = LastLines::default();
    for row in rows.in_order() {
        out.write_all(last.next(row).as_bytes())?;
    }
    Ok(())
}
