//! `allotrope postmortem`: reports the last state of a prepared process that has ended.

mod file;
pub mod running;

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use allotrope_attribution::Suppressions;
use allotrope_shm::samples::file::{Mapped, find, kept};
use allotrope_shm::samples::reader::State;
use allotrope_symbols::IndexCache;
use allotrope_text::numbers::moment;
use allotrope_watch::blocks::Which;
use allotrope_watch::since::bound;
use allotrope_watch::snapshot::Snapshot;
use allotrope_watch::watch::{Options, Watch};
use allotrope_watch::{json, text};
use anyhow::{anyhow, bail};
use running::Running;

use crate::debug_files::DebugFiles;
use crate::exit_status::{BAD_INPUT, FINE, Failure, WithStatus};
use crate::holder;
use crate::input_limit::InputLimit;
use crate::message;
use crate::replacing::replaceable_by_profile;
use crate::standard_output;
use crate::style;
use crate::suppressions::SuppressionArguments;
use crate::values;
use crate::watch::output::{Format, Output};
use crate::watch::save;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
`allotrope standby` starts a holder: a process that keeps the state of prepared processes that were
killed or have crashed, for a day. Without an argument the command lists what is kept. FILE is a
core file of a prepared process, or a copy of its memory.

Exit status: 0; 1 if allotrope failed; 2 if nothing is kept of the process, or bad usage.";

/// Arguments of `allotrope postmortem`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The process's id, or its core file
    #[arg(value_name = "PID|FILE")]
    target: Option<PathBuf>,
    /// Most stacks of the report
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = values::whole::<u16>(0..=1000))]
    top: u16,
    /// The format to print
    ///
    /// poireau: all live blocks in poireau's lines.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    suppressions: SuppressionArguments,
    /// Write a sampled profile in place of the report
    ///
    /// `allotrope report`, `show`, `diff` and `export` read it.
    #[arg(
        short,
        long,
        value_name = "FILE",
        requires = "target",
        conflicts_with_all = ["format", "suppressions"]
    )]
    output: Option<PathBuf>,
    /// With -o: replace FILE even if it is no earlier profile or recording
    #[arg(long, requires = "output", hide_short_help = true)]
    force: bool,
    #[command(flatten)]
    debug_files: DebugFiles,
    #[command(flatten)]
    input: InputLimit,
}

/// Reports the last state.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let Some(target) = &arguments.target else {
        return list(arguments.format);
    };
    if let Some(path) = &arguments.output {
        replaceable_by_profile(path, arguments.force).status(BAD_INPUT)?;
    }
    let process = target.to_str().and_then(|it| it.parse::<u32>().ok());
    let state = match process {
        Some(process) => state_of(process),
        None => file::state_in(target),
    };
    let state = state.status(BAD_INPUT)?;
    let locator = arguments
        .debug_files
        .locator(arguments.input.limits())
        .status(BAD_INPUT)?;
    let locator = locator.with_index_cache(IndexCache::of_user());
    let mut suppressions = Suppressions::none();
    arguments.suppressions.add_to(&mut suppressions)?;
    let options = Options {
        old_age: 300_000_000_000,
        top: arguments.top.into(),
        suppressions,
        high_water: None,
    };
    let mut watch = Watch::new(options, locator.clone());
    let id = u32::try_from(state.process.id).unwrap_or_default();
    let snapshots = [at_its_end(Snapshot::new(id, None, state, &watch.keys))];
    if let Some(path) = &arguments.output {
        let target = replaceable_by_profile(path, arguments.force).status(BAD_INPUT)?;
        save::save(path, target, &snapshots, &locator)?;
        return Ok(FINE);
    }
    let mut output = Output::open(arguments.format, None)?;
    match arguments.format {
        Format::Poireau => output.blocks(&mut watch, &snapshots, Which::Unsuppressed)?,
        Format::Text | Format::Json => output.report(&mut watch, &snapshots)?,
    }
    if snapshots[0].state.process.exit_status.is_none() {
        message::print(format_args!(
            "process {id} did not exit by itself; this is its state when it was ended"
        ));
    }
    Ok(FINE)
}

/// The snapshot as if it had been taken at the process's last event: ages are those that blocks had then.
fn at_its_end(mut snapshot: Snapshot) -> Snapshot {
    let allocated = snapshot.state.samples.iter().map(|it| it.allocated);
    let freed = snapshot.state.freed.iter().map(|it| it.deallocation.time);
    let began = snapshot.state.process.began;
    // Times that are later than now are wrong.
    let times = allocated.chain(freed).filter(|it| *it <= snapshot.time);
    let last = times.max().unwrap_or(began).max(began.min(snapshot.time));
    let since = last.saturating_sub(began);
    snapshot.real_time = snapshot.state.process.began_real.saturating_add(since);
    snapshot.time = last;
    snapshot
}

/// The states that are kept of processes that were ended, and the processes that still run: their ids in
/// their own namespaces, and here.
fn ended_and_running() -> (Vec<State>, Vec<(u64, u32)>) {
    let running = Running::now();
    let (mut ended, mut run_on) = (Vec::new(), Vec::new());
    for file in kept(&holder::name()) {
        let Ok(state) = read(&file) else { continue };
        if state.process.exit_status.is_some() {
            continue;
        }
        match running.process_of(&file, &state) {
            Some(process) => run_on.push((state.process.id, process)),
            None => ended.push(state),
        }
    }
    (ended, run_on)
}

/// The state of a process that has ended.
fn state_of(process: u32) -> anyhow::Result<State> {
    let (ended, run_on) = ended_and_running();
    // Several may have had this id.
    let ended = ended
        .into_iter()
        .filter(|it| it.process.id == u64::from(process));
    if let Some(state) = ended.max_by_key(|it| it.process.began) {
        return Ok(state);
    }
    let running = run_on.iter().find(|it| it.0 == u64::from(process));
    match running.map_or(process, |it| it.1) {
        it if find(it).is_ok() => {
            bail!("process {it} runs; look at it with `allotrope watch {it}`")
        }
        it if running.is_some() => {
            bail!("process {it} runs; its last state can be reported when it has ended")
        }
        _ => bail!(
            "nothing is kept of process {process}: it was not started by `allotrope standby`, has exited by itself, or ended more than a day ago; `allotrope postmortem` lists what is kept"
        ),
    }
}

fn read(file: &OwnedFd) -> anyhow::Result<State> {
    Ok(State::read(Mapped::new(file)?.memory())?)
}

/// Lists what is kept, the latest first.
fn list(format: Format) -> Result<u8, Failure> {
    let (mut ended, _) = ended_and_running();
    ended.sort_by_key(|it| std::cmp::Reverse(it.process.began));
    ended.dedup_by_key(|it| (it.process.id, it.process.began));
    if format == Format::Poireau {
        let sentence = "name a process for `--format poireau`; `allotrope postmortem` lists them";
        return Err(Failure::new(BAD_INPUT, anyhow!(sentence)));
    }
    let write = |out: &mut dyn Write| {
        for state in &ended {
            let process = &state.process;
            let words = process.command.split(|byte| *byte == 0);
            let words: Vec<_> = words.map(|it| String::from_utf8_lossy(it)).collect();
            let command = words.join(" ");
            let command = command.trim_end();
            match format {
                Format::Json => json::write_kept(state, command, out)?,
                _ => {
                    let line = format!(
                        "{:>8}  started {}  {}  {}",
                        process.id,
                        moment(process.began_real),
                        match state.live() {
                            Some(live) => bound(&live)
                                .unwrap_or_else(|| format!("{} live", text::in_bytes(&live))),
                            None => "not sampled".to_owned(),
                        },
                        allotrope_text::shown(command),
                    );
                    match style::columns() {
                        Some(columns) => writeln!(out, "{}", allotrope_text::cut(&line, columns))?,
                        None => writeln!(out, "{line}")?,
                    }
                }
            }
        }
        if ended.is_empty() && format == Format::Text {
            writeln!(out, "nothing is kept")?;
        }
        Ok(())
    };
    match format {
        Format::Json => standard_output::print(write)?,
        _ => standard_output::print_text(write)?,
    }
    Ok(FINE)
}
