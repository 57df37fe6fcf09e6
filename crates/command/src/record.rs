//! `allotrope record`: runs a program with the recorder preloaded; the result is a
//! trace file. This process is the *launcher*: the program's parent, in its process
//! group; it forwards signals to the program and returns its exit status. The
//! collector, a process of its own, writes the trace, so that a killed launcher
//! does not end the recording.

pub mod arguments;
mod collector_process;
mod ending;
mod launcher;
mod named_allocators;
mod orphans;
pub mod output_file;
pub mod program;
pub mod program_state;
pub mod signals;
mod summary;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use allotrope_collector::protocol::{OnFull, Start, WhenLeftBehind};
use allotrope_shm::layout::{ALLOCATORS_VARIABLE, ENVIRONMENT_VARIABLE};
use anyhow::{Context as _, anyhow};

use crate::exit_status::{Failure, RECORD_FAILED, WithStatus};
use crate::message;
use crate::recorder_library;
use crate::signal_state;
use collector_process::CollectorProcess;
use launcher::{Launcher, LauncherOptions, RecordEvent};
use output_file::OutputFile;
use program::Program;

pub use arguments::{Arguments, LeftBehind, WhenFull};
pub use collector_process::NAME as COLLECTOR_NAME;
pub use ending::own_status;
pub use launcher::Stat;
pub use program::search;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The program runs as it does without allotrope: its input, output, signals and exit
status are its own. Its children are recorded, too. The recording ends when the last
recorded process has ended. The trace starts under a hidden name in its folder and is
renamed as soon as the program has started; until it is complete only its owner can
read it. Even if all processes are killed, it can be read up to where it ends.

Exit status: the program's own; 128+N if signal N ended it; 125 if the recording
failed or the program cannot be recorded; 126 if it cannot be executed; 127 if it
was not found.";

/// Records the program and returns its exit status.
pub fn run(arguments: Arguments) -> Result<u8, Failure> {
    run_with(arguments, None)
}

/// Records the program, for `allotrope stat` or by itself.
pub fn run_with(arguments: Arguments, stat: Option<Stat>) -> Result<u8, Failure> {
    if arguments.counts_only && arguments.free_stacks {
        return Err(Failure::new(
            RECORD_FAILED,
            anyhow!(
                "`--counts-only` records no stacks, so it cannot be combined with `--free-stacks`: \
                 leave out one of the two"
            ),
        ));
    }
    if arguments.reachability && arguments.counts_only {
        return Err(Failure::new(
            RECORD_FAILED,
            anyhow!(
                "`--counts-only` does not know which blocks are live, so it cannot be combined with \
                 `--reachability`: leave out one of the two"
            ),
        ));
    }
    if arguments.reachability && !arguments.allocators.is_empty() {
        return Err(Failure::new(
            RECORD_FAILED,
            anyhow!(
                "the blocks that an allocator takes within a call of a function that `--allocator` \
                 names are not recorded, and what they hold is unknown, so it cannot be combined \
                 with `--reachability`: leave out one of the two"
            ),
        ));
    }
    if arguments.counts_only && !arguments.allocators.is_empty() {
        return Err(Failure::new(
            RECORD_FAILED,
            anyhow!(
                "`--counts-only` does not know which blocks are parts of others, so it cannot be \
                 combined with `--allocator`: leave out one of the two"
            ),
        ));
    }
    let program = Program::find(arguments.command)?;
    let named = named_allocators::value(&program, &arguments.allocators)?;
    let (named, doubt) = named.unzip();
    for warning in program.caveat().into_iter().chain(doubt.flatten()) {
        if !arguments.quiet {
            message::print(format_args!("warning: {warning}"));
        }
    }
    let recorder =
        recorder_library::provide(arguments.recorder.as_deref()).status(RECORD_FAILED)?;
    let servers = arguments.debug_files.servers().status(RECORD_FAILED)?;
    let (debug_folders, sysroot) = arguments.debug_files.absolute().status(RECORD_FAILED)?;
    let output = match (&stat, &arguments.output) {
        (Some(_), None) => OutputFile::temporary(),
        (_, given) => OutputFile::create(given.as_deref(), arguments.force),
    };
    let output = output.status(RECORD_FAILED)?;
    let start = Start {
        on_full: match arguments.on_full {
            WhenFull::Block => OnFull::Block,
            WhenFull::Drop => OnFull::Drop,
        },
        follow: !arguments.no_follow,
        depth_limit: arguments.depth,
        frame_pointers: arguments.frame_pointers,
        debug_folders,
        sysroot,
        debuginfod_servers: servers,
        counts_only: arguments.counts_only,
        free_stacks: arguments.free_stacks,
        reachability: arguments.reachability,
        environment_names: arguments.environment_names,
        recorder: recorder.clone(),
        figures_ms: stat.as_ref().map_or(0, |stat| stat.interval_ms),
        symbolise: !output.is_temporary(),
        left_behind: match arguments.left_behind {
            LeftBehind::Wait => WhenLeftBehind::Wait,
            LeftBehind::End => WhenLeftBehind::End,
            LeftBehind::Leave => WhenLeftBehind::Leave,
        },
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        made: output.made().status(RECORD_FAILED)?,
        ..Start::new(output.partial(), program.command())
    };
    let (collector, messages) = CollectorProcess::start(start)
        .context("the recording could not be started")
        .status(RECORD_FAILED)?;
    let (sender, events) = channel();
    let unprotected = Arc::new(AtomicBool::new(false));
    let signals = sender.clone();
    let job = signals::catch(
        signal_state::ignored(),
        unprotected.clone(),
        move |signal| {
            let _ = signals.send(RecordEvent::Signal(signal));
        },
    )
    .context("cannot handle signals")
    .status(RECORD_FAILED)?;
    let users = std::env::var_os("LD_PRELOAD");
    let cxx_hooks = if program.allocator_defines_operators(users.as_deref()) {
        Some(recorder_library::provide_cxx_hooks().status(RECORD_FAILED)?)
    } else {
        None
    };
    let preload = recorder_library::preload_list(&recorder, cxx_hooks.as_deref(), users.as_deref());
    let mut additions = vec![
        ("LD_PRELOAD", preload),
        (ENVIRONMENT_VARIABLE, collector.arena().into()),
    ];
    additions.extend(named.map(|value| (ALLOCATORS_VARIABLE, value)));
    let child = program.start(&additions)?;
    let options = LauncherOptions {
        quiet: arguments.quiet,
        first_screen: arguments.first_screen,
        waits: matches!(arguments.left_behind, LeftBehind::Wait),
        left_behind_list: arguments.left_behind_list,
        stat,
    };
    let mut launcher = Launcher::new(child, collector, output, job, options);
    launcher.publish(program.name());
    let (handled, changes_handled) = channel();
    launcher
        .start_threads(sender, messages, changes_handled)
        .status(RECORD_FAILED)?;
    launcher
        .handle_events(&events, &handled)
        .status(RECORD_FAILED)?;
    // From here on this process only reads the trace: a signal may end it.
    unprotected.store(true, Ordering::Release);
    launcher.finish()
}
