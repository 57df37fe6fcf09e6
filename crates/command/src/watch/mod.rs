//! `allotrope watch`: switches sampling on in running processes, and reports what is live there.
//! `allotrope-watch` looks at the processes; `session.rs` has the loop.

mod allocators;
mod live;
pub mod output;
mod perf_script;
mod push;
pub mod save;
mod serve;
mod session;
mod started;
mod terminal;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use allotrope_attribution::Suppressions;
use allotrope_sampling::Period;
use allotrope_symbols::IndexCache;
use allotrope_text::Shown;
use allotrope_watch::attach::{Access, Attached};
use allotrope_watch::discover::discover;
use allotrope_watch::live::AtEnd;
use allotrope_watch::watch::{Options, Watch};
use anyhow::anyhow;

use crate::debug_files::DebugFiles;
use crate::exit_status::{BAD_INPUT, Failure, WithStatus};
use crate::input_limit::InputLimit;
use crate::limits;
use crate::standby::Prepared;
use crate::suppressions::SuppressionArguments;
use crate::values;
use output::{Format, Output};
use push::{PushArguments, Pushing};
use serve::{ServeArguments, Serving};
use session::Session;
use started::Started;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
A process can be watched if it was started by `allotrope standby -- PROGRAM`. It is sampled more
densely, and when the watcher ends as sparsely as it was before. Figures are
estimates with 95 % intervals; docs/watch.md explains them.

  allotrope watch -- PROGRAM   starts a program and watches it from its first allocation

On a terminal it shows a live view (keys: ?), unless --headless, --once, --output, --log, another
--format or TERM=dumb is given.

Signals to the watcher (in the live view HUP quits, USR1 and USR2 do nothing):
  HUP      print all live sampled blocks (and those at the high-water mark)
  USR1     print the old ones and leave them out from then on
  USR2     print the blocks that were freed lately
  INT, TERM  restore the processes and quit

Exit status: 0 if the processes have ended, were taken over, or one report was wanted;
1 if allotrope failed; 2 if a process cannot be watched, or bad usage; 128+N after signal N.
With PROGRAM that of the program, or 125, 126 and 127 as `allotrope record`; signals to end
are passed to it.";

/// Arguments of `allotrope watch`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Processes to watch
    #[arg(value_name = "PID", conflicts_with = "all", value_parser = values::whole::<u32>(1..))]
    processes: Vec<u32>,
    /// Watch every prepared process, later ones, too
    ///
    /// Those of this user; root watches those of all users.
    #[arg(long)]
    all: bool,
    /// With --all: only processes whose name (/proc/PID/comm) matches this regular expression
    ///
    /// With --perf-script: only threads whose name does.
    #[arg(long, value_name = "PATTERN", conflicts_with = "processes", value_parser = values::pattern,
          hide_short_help = true)]
    comm: Option<regex_lite::Regex>,
    /// Print reports as they come, also on a terminal
    ///
    /// That is the default where the standard input and output are no terminals; on terminals the
    /// live view comes up.
    #[arg(long)]
    headless: bool,
    /// Time between two reports [default: 10s]
    ///
    /// With --format poireau 10m, the first after 330s.
    #[arg(long, value_name = "TIME", value_parser = values::interval)]
    every: Option<Duration>,
    /// Print one report and quit
    ///
    /// Now if the processes are sampled already, otherwise after the time of --every.
    #[arg(long)]
    once: bool,
    /// Blocks of this age are old
    ///
    /// A reallocation makes a block new.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = values::age)]
    old: Duration,
    /// Sample one of SIZE bytes on average
    ///
    /// [default: what is set; 512KiB if sampling is off, or as sparse as in standby]
    #[arg(long, value_name = "SIZE", value_parser = values::period)]
    period: Option<Period>,
    /// Append the reports to FILE in place of printing them
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Most stacks of a report
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = values::whole::<u16>(0..=1000))]
    top: u16,
    /// Report which blocks are live by the output of perf(1)
    ///
    /// FILE (or the standard input: -) is the output of `perf script` or `perf trace` for
    /// libpoireau's or our own probes, sampled with --period [default: 32MiB, which is
    /// libpoireau's]. A pipe is read as it comes: with reports --every TIME, at signals, and at
    /// its end. --comm chooses threads.
    #[arg(long, value_name = "FILE", hide_short_help = true,
          conflicts_with_all = ["processes", "all", "save", "track_high_water_mark",
                                "suppressions", "leave", "off", "take_over"])]
    perf_script: Option<PathBuf>,
    /// Write a sampled profile in place of a report, and quit
    ///
    /// Now if the processes are sampled already, otherwise after the time of --every. `allotrope
    /// report`, `show`, `diff` and `export` read it.
    #[arg(short = 'o', long = "output", alias = "save", value_name = "FILE", conflicts_with_all = ["once", "log", "format", "suppressions"])]
    save: Option<PathBuf>,
    /// With --output: replace FILE even if it is no earlier profile or recording
    #[arg(long, requires = "save", hide_short_help = true)]
    force: bool,
    /// The form of the reports
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    suppressions: SuppressionArguments,
    /// Remember what was live when most was, if that is at least SIZE, and report it, too
    #[arg(long, hide_short_help = true, value_name = "SIZE", num_args = 0..=1, require_equals = true,
          default_missing_value = "0", value_parser = values::size)]
    track_high_water_mark: Option<u64>,
    /// Leave sampling as it is set when the watcher ends
    #[arg(long)]
    leave: bool,
    /// Switch sampling off when the watcher ends
    ///
    /// Even if it was on before: a watcher that was killed leaves it on.
    #[arg(long, hide_short_help = true, conflicts_with = "leave")]
    off: bool,
    /// Take a process over from another watcher, which then lets it go
    #[arg(long)]
    take_over: bool,
    /// Use this recorder library in place of the one that is built in
    #[arg(long, value_name = "FILE", hide = true)]
    recorder: Option<PathBuf>,
    #[command(flatten)]
    serve: ServeArguments,
    #[command(flatten)]
    push: PushArguments,
    #[command(flatten)]
    debug_files: DebugFiles,
    /// Start this program and watch it, and all processes that it starts
    #[arg(
        last = true,
        value_name = "PROGRAM",
        conflicts_with_all = ["processes", "all", "perf_script", "once", "save", "take_over"]
    )]
    command: Vec<OsString>,
    #[command(flatten)]
    input: InputLimit,
}

/// Watches the processes.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if !arguments.has_subject() {
        let sentence = "name what to watch: a process id, --all for all prepared processes, or -- PROGRAM to start one";
        return Err(Failure::new(BAD_INPUT, anyhow!(sentence)));
    }
    if let Some(path) = &arguments.save {
        save::check(path, arguments.force)?;
    }
    if let Some(path) = &arguments.perf_script {
        let output = Output::open(arguments.format, arguments.log.as_deref())?;
        return perf_script::run(arguments, path, output);
    }
    // Before anything is opened: a program that is not there is the likeliest mistake.
    let prepared = match &arguments.command[..] {
        [] => None,
        command => {
            let recorder = arguments.recorder.as_deref();
            Some(Prepared::new(command.to_vec(), recorder)?)
        }
    };
    let locator = arguments
        .debug_files
        .locator(arguments.input.limits())
        .status(BAD_INPUT)?;
    let mut suppressions = Suppressions::none();
    arguments.suppressions.add_to(&mut suppressions)?;
    let options = Options {
        old_age: u64::try_from(arguments.old.as_nanos()).unwrap_or(u64::MAX),
        top: arguments.top.into(),
        suppressions,
        high_water: arguments.track_high_water_mark,
    };
    let locator = locator.with_index_cache(IndexCache::of_user());
    let pushing = Pushing::start(&arguments.push, &locator)?;
    let serving = Serving::start(&arguments.serve, &locator, options.old_age)?;
    let watch = Watch::new(options, locator.clone());
    let output = Output::open(arguments.format, arguments.log.as_deref())?;
    let mut session = Session::new(watch, output, arguments, locator)?;
    session.serving = serving;
    session.pushing = pushing;
    let is_live = live::is_wanted(arguments);
    match &prepared {
        None => {
            limits::raise_descriptors();
            session.attach_first(&attached(arguments)?)?;
        }
        Some(prepared) => {
            let period = arguments.period.unwrap_or(Period::DEFAULT);
            let started = Started::new(prepared, period, is_live)?;
            // Not before: the program has the user's limit.
            limits::raise_descriptors();
            session.attach_started(started)?;
        }
    }
    match is_live {
        true => live::run(session),
        false => session.run(),
    }
}

/// The processes to begin with.
fn attached(arguments: &Arguments) -> Result<BTreeSet<u32>, Failure> {
    if !arguments.all {
        return Ok(arguments.processes.iter().copied().collect());
    }
    let found = discover(&BTreeSet::new(), |name| arguments.is_wanted(name));
    if found.processes.is_empty() {
        let unopened = match found.unopened {
            0 => String::new(),
            number => format!(" ({number} could not be opened)"),
        };
        let sentence = match &arguments.comm {
            None => anyhow!(
                "no process is prepared to be watched{unopened}; start the program by `allotrope standby -- PROGRAM`"
            ),
            Some(pattern) => anyhow!(
                "no prepared process has a name (/proc/PID/comm) that matches `{}`{unopened}",
                values::typed(pattern).shown()
            ),
        };
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    Ok(found.processes)
}

impl Arguments {
    /// Whether a process of this name is to be watched, with `--all`.
    fn is_wanted(&self, name: &str) -> bool {
        self.comm.as_ref().is_none_or(|it| it.is_match(name))
    }

    fn has_subject(&self) -> bool {
        let others = self.perf_script.is_some() || !self.command.is_empty();
        self.all || others || !self.processes.is_empty()
    }

    /// Whether it ends with the first report.
    fn is_one_report(&self) -> bool {
        self.once || self.save.is_some()
    }

    fn access(&self) -> Access {
        match self.take_over {
            true => Access::TakeOver,
            false if self.period.is_some() || self.leave || self.off => Access::Control,
            false => Access::Look,
        }
    }

    fn at_end(&self) -> AtEnd {
        match (self.leave, self.off) {
            (true, _) => AtEnd::Leave,
            (_, true) => AtEnd::Off,
            // A program that the watcher has started was never without it.
            _ if !self.command.is_empty() => AtEnd::StandBy,
            _ => AtEnd::Restore,
        }
    }
}

/// Lets go of a process.
fn let_go(mut process: Attached, at_end: AtEnd) {
    match at_end {
        AtEnd::Restore => process.restore(),
        AtEnd::Leave => process.leave(),
        AtEnd::StandBy | AtEnd::Stop => process.stand_by(),
        AtEnd::Off => {
            process.set(None);
            process.leave();
        }
    }
}
