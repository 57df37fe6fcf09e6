//! The live view: the terminal, its keys and the snapshots. `live` of `allotrope-watch` has what is shown.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use allotrope_watch::live::{Action, AtEnd, View};
use allotrope_watch::snapshot::Snapshot;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::output::Format;
use super::session::Session;
use super::terminal::{self, Terminal};
use super::{Arguments, let_go, save};
use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus, stopped_by};
use crate::message;
use crate::replacing::replaceable_by_profile_only;

/// Most sites of the view.
const MAX_SITES: usize = 500;
/// The time between two snapshots.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a message is shown.
const SHOWN: Duration = Duration::from_secs(10);
/// How long a signal or a change of the terminal's size may go unnoticed.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Whether the live view is what the user wants.
pub fn is_wanted(arguments: &Arguments) -> bool {
    let prints = arguments.headless
        || arguments.is_one_report()
        || arguments.log.is_some()
        || arguments.track_high_water_mark.is_some();
    let is_dumb = std::env::var_os("TERM").is_none_or(|it| it.is_empty() || it == "dumb");
    !prints
        && !is_dumb
        && arguments.format == Format::Text
        && io::stdin().is_terminal()
        && io::stdout().is_terminal()
}

/// Watches until the user quits, a signal comes or the terminal goes away.
pub fn run(mut session: Session<'_>) -> Result<u8, Failure> {
    let mut at_end = session.arguments.at_end();
    if session.started.is_some() && matches!(at_end, AtEnd::Off | AtEnd::StandBy) {
        at_end = AtEnd::Stop;
    }
    for index in 0..session.attached.len() {
        session.switch_on(index);
    }
    let outcome = match Terminal::new() {
        Ok(mut terminal) => {
            message::hold();
            watch(&mut session, &mut terminal, &mut at_end)
        }
        Err(error) => Err(error)
            .context("cannot use the terminal; add --headless")
            .status(FAILED),
    };
    session.push_last();
    for process in session.attached.drain(..) {
        let_go(process, at_end);
    }
    message::release();
    let outcome = match outcome {
        Ok(_) if at_end == AtEnd::Stop => Ok(session.stop_program()),
        outcome => outcome,
    };
    session.finish_pushing();
    outcome
}

fn watch(
    session: &mut Session<'_>,
    terminal: &mut Terminal,
    at_end: &mut AtEnd,
) -> Result<u8, Failure> {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let mut view = View::new(*at_end, !no_colour);
    // Those that are sorted and searched; they are drawn as far as there is room.
    session.watch.options.top = session.watch.options.top.max(MAX_SITES);
    let mut next = Instant::now();
    let mut has_ended = false;
    let mut ended = None;
    let mut shown_until = None;
    loop {
        for (signal, was_sent) in session.pending_signals() {
            if matches!(signal, SIGINT | SIGTERM | SIGHUP) && session.ends_by(signal, was_sent) {
                return Ok(stopped_by(signal));
            }
        }
        if next <= Instant::now() && !has_ended {
            session.remove_taken_over()?;
            session.find_others()?;
            // Before the snapshot, so that the last one sees all.
            has_ended = remove_ended(session)?;
            let mut snapshots = session.snapshots()?;
            if snapshots.is_empty() && session.is_over() {
                return Ok(session.status_at_end());
            }
            if snapshots.is_empty() && !session.attached.is_empty() {
                // What was live last stays on the screen.
                view.set_status("the program that was watched has executed another one");
                shown_until = Instant::now().checked_add(SHOWN);
            } else {
                let processes = snapshots.iter().map(|it| (it.process, it.name()));
                if view.set_processes(processes.collect()) {
                    session.watch.start_anew();
                }
                snapshots.retain(|it| view.is_chosen(it.process));
                view.update(session.watch.report(&snapshots), resident(&snapshots));
            }
            if has_ended {
                let how = end_of(session);
                view.set_ended(&how);
                ended = Some(how);
            }
            next = Instant::now() + SNAPSHOT_INTERVAL;
        }
        session.serve()?;
        session.push()?;
        let messages = message::unseen();
        if !messages.is_empty() {
            view.set_status(&messages.join("; "));
            shown_until = Instant::now().checked_add(SHOWN);
        }
        if shown_until.is_some_and(|it| it <= Instant::now()) {
            view.set_status("");
            shown_until = None;
        }
        if let Some(how) = ended.take() {
            // The view shows it by itself, and no earlier message in its place.
            message::print(how);
            message::unseen();
            view.set_status("");
        }
        // It fails where the terminal has gone.
        if terminal.draw(&view).is_err() {
            return Ok(stopped_by(SIGHUP));
        }
        let keys = match wait() {
            Input::Gone => return Ok(stopped_by(SIGHUP)),
            Input::Nothing => Vec::new(),
            Input::Bytes => match terminal.keys() {
                Ok(keys) => keys,
                Err(_) => return Ok(stopped_by(SIGHUP)),
            },
        };
        for key in keys {
            match view.key(key) {
                None => {}
                Some(Action::Quit(answer)) => {
                    *at_end = answer;
                    return Ok(session.status());
                }
                Some(Action::Choose) => {
                    session.watch.start_anew();
                    next = Instant::now();
                }
                Some(Action::Mark) => {
                    let snapshots = chosen(session, &view)?;
                    session.watch.set_mark(&snapshots);
                    view.set_status("marked: growth counts from now on");
                    shown_until = Instant::now().checked_add(SHOWN);
                }
                Some(Action::Save(name)) => {
                    let snapshots = chosen(session, &view)?;
                    let path = std::path::Path::new(&name);
                    let locator = &session.locator;
                    let target = replaceable_by_profile_only(path).status(BAD_INPUT);
                    let saved =
                        target.and_then(|target| save::save(path, target, &snapshots, locator));
                    if let Err(error) = saved {
                        message::print(format_args!("{:#}", error.error));
                    }
                }
                Some(Action::Suspend) => suspend(terminal)?,
            }
        }
    }
}

/// Lets go of the processes that have ended, unless all have: what was live at the end of the
/// last ones stays on the screen. Returns whether nothing is left to watch.
fn remove_ended(session: &mut Session<'_>) -> Result<bool, Failure> {
    session.program_has_ended();
    let runs = session.attached.iter().filter(|it| !it.has_ended()).count();
    if session.attached.is_empty() {
        return Ok(false);
    }
    if runs == 0 {
        // A daemon that the program has left behind may be found soon.
        return Ok(!session.may_find_others());
    }
    session.push_ended();
    session.remove_ended()?;
    Ok(false)
}

/// A snapshot of each of the chosen processes.
fn chosen(session: &mut Session<'_>, view: &View) -> Result<Vec<Snapshot>, Failure> {
    let mut snapshots = session.snapshots()?;
    snapshots.retain(|it| view.is_chosen(it.process));
    Ok(snapshots)
}

enum Input {
    Bytes,
    Nothing,
    Gone,
}

/// Waits for input.
fn wait() -> Input {
    let input = stdin();
    let mut wanted = [PollFd::new(&input, PollFlags::IN)];
    match poll(&mut wanted, Some(&PAUSE)) {
        Ok(0) | Err(Errno::INTR) => return Input::Nothing,
        Ok(_) => {}
        Err(_) => return Input::Gone,
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    match wanted[0].revents() {
        events if events.intersects(gone) => Input::Gone,
        // Readable without bytes is the end of the input.
        _ => match rustix::io::ioctl_fionread(input) {
            Ok(0) | Err(_) => Input::Gone,
            Ok(_) => Input::Bytes,
        },
    }
}

/// Gives the terminal to the shell until it continues us.
fn suspend(terminal: &mut Terminal) -> Result<(), Failure> {
    terminal::restore();
    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTSTP);
    terminal
        .take()
        .context("cannot use the terminal")
        .status(FAILED)
}

/// The resident sets of the programs, in bytes; 0 of those that have ended.
fn resident(snapshots: &[Snapshot]) -> u64 {
    let resident = snapshots.iter().filter_map(|it| it.resident);
    resident.map(|it| it.of_program()).sum()
}

fn end_of(session: &mut Session<'_>) -> String {
    match &session.attached[..] {
        [it] if it.has_left() => {
            let process = it.process;
            format!("process {process} has executed a program that is not prepared")
        }
        [it] => {
            let process = it.process;
            let status = it.snapshot(&session.watch.keys).ok();
            let status = status.and_then(|it| it.state.process.exit_status);
            let how = session.how_ended(process, status);
            format!("process {process} has ended{how}")
        }
        _ => "all processes have ended".to_owned(),
    }
}
