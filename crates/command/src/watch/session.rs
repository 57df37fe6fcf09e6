//! The loop of `watch`: snapshots and reports at their times, signals, processes that come and go.

use std::collections::BTreeSet;
use std::error::Error;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use allotrope_symbols::Locator;
use allotrope_watch::attach::{Access, AttachError, Attached};
use allotrope_watch::blocks::Which;
use allotrope_watch::discover::discover;
use allotrope_watch::snapshot::Snapshot;
use allotrope_watch::watch::Watch;
use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;

use super::output::{Event, Format, Output};
use super::push::Pushing;
use super::serve::Serving;
use super::started::{START, Started};
use super::{Arguments, allocators, let_go, save};
use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus, stopped_by};
use crate::message;
use crate::replacing::replaceable_by_profile;
use crate::signal_state;

/// How long a signal or the end of a process may go unnoticed.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a high-water mark is searched for.
const HIGH_WATER_INTERVAL: Duration = Duration::from_secs(1);
/// How often it looks whether processes have executed another program.
const EXEC_INTERVAL: Duration = Duration::from_millis(250);
/// How often it looks for processes that the program has started, and with `--all` for all.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// How often it looks for allocators whose blocks are not sampled.
const ALLOCATOR_INTERVAL: Duration = Duration::from_secs(10);
/// How long a program may take to end without a message.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between reports, and until the first one with poireau's lines.
const EVERY: Duration = Duration::from_secs(10);
pub(super) const POIREAU_EVERY: Duration = Duration::from_secs(600);
pub(super) const POIREAU_FIRST: Duration = Duration::from_secs(330);

/// A watcher at work.
pub struct Session<'a> {
    pub(super) watch: Watch,
    output: Output,
    pub(super) arguments: &'a Arguments,
    pub(super) locator: Locator,
    signals: SignalsInfo<WithOrigin>,
    pub(super) attached: Vec<Attached>,
    /// The program, if the watcher has started it.
    pub(super) started: Option<Started>,
    /// A signal has asked the program to end.
    is_ending: bool,
    /// Who asks for snapshots over HTTP.
    pub serving: Option<Serving>,
    /// Where profiles are sent.
    pub pushing: Option<Pushing>,
    /// Processes, with `--all`, that could not be watched, by their own fault or ours.
    refused: BTreeSet<u32>,
    unopened: usize,
    /// Number of the refused processes for which there were no descriptors; not printed yet.
    without_descriptors: usize,
    /// Sentences about allocators, each printed once, and when to look for others.
    about_allocators: BTreeSet<String>,
    next_allocator_check: Instant,
}

impl<'a> Session<'a> {
    /// Returns a session without processes. Signals are handled from now on.
    pub fn new(
        watch: Watch,
        output: Output,
        arguments: &'a Arguments,
        locator: Locator,
    ) -> Result<Self, Failure> {
        let signals = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
        let ignored = signal_state::ignored();
        let signals = signals.into_iter().filter(|it| !ignored.contains(*it));
        let signals = SignalsInfo::<WithOrigin>::new(signals)
            .context("cannot handle signals")
            .status(FAILED)?;
        Ok(Self {
            watch,
            output,
            arguments,
            locator,
            signals,
            attached: Vec::new(),
            started: None,
            is_ending: false,
            serving: None,
            pushing: None,
            refused: BTreeSet::new(),
            unopened: 0,
            without_descriptors: 0,
            about_allocators: BTreeSet::new(),
            next_allocator_check: Instant::now(),
        })
    }

    /// Opens the processes to begin with. Nothing has changed in them if that fails.
    pub fn attach_first(&mut self, processes: &BTreeSet<u32>) -> Result<(), Failure> {
        let mut refused = Vec::new();
        for process in processes {
            match Attached::new(*process, self.arguments.access()) {
                Ok(attached) => self.attached.push(attached),
                // One that cannot be watched is no reason to look at none.
                Err(error) if self.arguments.all || processes.len() > 1 => {
                    refused.push((*process, error))
                }
                Err(error) => return Err(failure(error)),
            }
        }
        if self.attached.is_empty() && !refused.is_empty() {
            let (_, error) = refused.swap_remove(0);
            return Err(failure(error));
        }
        for (process, error) in refused {
            self.refuse(process, &error);
        }
        self.print_without_descriptors();
        Ok(())
    }

    /// Waits until a program that was started has its memory, and opens it.
    pub fn attach_started(&mut self, started: Started) -> Result<(), Failure> {
        let process = started.process;
        self.started = Some(started);
        let end = Instant::now() + START;
        while Instant::now() < end {
            match Attached::new(process, Access::Look) {
                Ok(attached) => {
                    self.attached.push(attached);
                    return Ok(());
                }
                Err(error) if error.may_come() => {}
                Err(error) => {
                    self.refuse(process, &error);
                    return Ok(());
                }
            }
            if self.program_has_ended() {
                if !self.may_find_others() {
                    message::print(format_args!(
                        "process {process} has ended without a memory for samples: it has not loaded the recorder, could not get the memory, or had ended before it was looked at; `allotrope doctor` with the program's name says whether it can be watched"
                    ));
                }
                return Ok(());
            }
            sleep(Duration::from_millis(1));
        }
        message::print(format_args!(
            "process {process} has not loaded the recorder; `allotrope doctor` with the program's name says why"
        ));
        Ok(())
    }

    pub(super) fn program_has_ended(&mut self) -> bool {
        self.started.as_mut().is_some_and(|it| {
            it.reap();
            it.status().is_some()
        })
    }

    /// Whether the program has left processes behind, such as a daemon, that may be found soon.
    pub(super) fn may_find_others(&self) -> bool {
        let started = self.started.as_ref();
        started.is_some_and(Started::may_have_left_others)
    }

    /// Whether nothing is left to watch.
    pub(super) fn is_over(&mut self) -> bool {
        let has_ended = self.program_has_ended();
        let is_alone = self.started.is_none() || has_ended && !self.may_find_others();
        self.attached.is_empty() && is_alone
    }

    /// The exit status when nothing is left to watch.
    pub(super) fn status_at_end(&mut self) -> u8 {
        if self.started.is_none() {
            message::print("no process is left to watch");
        }
        self.status()
    }

    /// The exit status of the program, if it has ended.
    pub(super) fn status(&self) -> u8 {
        let started = self.started.as_ref();
        started.and_then(Started::status).unwrap_or(FINE)
    }

    /// Signals that have come, and whether a process has sent them (not the terminal).
    pub(super) fn pending_signals(&mut self) -> Vec<(i32, bool)> {
        let pending = self.signals.pending();
        let pending = pending.map(|it| (it.signal, it.process.is_some()));
        pending.collect()
    }

    /// A signal to end has come: whether the watcher ends. The program that it has started ends
    /// first; the terminal's signals have reached it, too. A second signal ends the watcher.
    pub(super) fn ends_by(&mut self, signal: i32, was_sent: bool) -> bool {
        match &self.started {
            Some(started) if started.status().is_none() && !self.is_ending => {
                if was_sent {
                    started.send(signal);
                }
                self.is_ending = true;
                false
            }
            _ => true,
        }
    }

    /// Asks the program to end, and waits for it. Returns the exit status.
    pub(super) fn stop_program(&mut self) -> u8 {
        if let Some(started) = self.started.as_ref().filter(|_| !self.is_ending) {
            started.send(SIGTERM);
        }
        let start = Instant::now();
        let mut has_told = false;
        while !self.program_has_ended() {
            let signals = self.pending_signals();
            if let Some((signal, _)) = signals.iter().find(|it| [SIGINT, SIGTERM].contains(&it.0)) {
                return stopped_by(*signal);
            }
            if !has_told && start.elapsed() > PATIENCE {
                message::print("waiting for the program to end; Ctrl-C ends the wait");
                has_told = true;
            }
            sleep(Duration::from_millis(10));
        }
        self.status_at_end()
    }

    fn refuse(&mut self, process: u32, error: &AttachError) {
        self.refused.insert(process);
        if matches!(error, AttachError::TooManyFiles(_)) {
            self.without_descriptors += 1;
            return;
        }
        let causes = std::iter::successors(Some(error as &dyn Error), |it| (*it).source());
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        message::print(causes.join(": "));
    }

    /// One sentence for all of them: there may be thousands.
    fn print_without_descriptors(&mut self) {
        let further = match std::mem::take(&mut self.without_descriptors) {
            0 => return,
            1 => "1 further process is".to_owned(),
            number => format!("{number} further processes are"),
        };
        message::print(format_args!(
            "{further} not watched: too many open files; raise the limit of descriptors (ulimit -n)"
        ));
    }

    /// Watches until the processes have ended or a signal comes.
    pub fn run(mut self) -> Result<u8, Failure> {
        let was_on = self.attached.iter().all(|it| {
            let wanted = self.arguments.period.unwrap_or(it.usual_period());
            it.period() == Some(wanted)
        });
        for index in 0..self.attached.len() {
            self.switch_on(index);
        }
        let outcome = self.watch(was_on);
        self.push_last();
        for process in self.attached.drain(..) {
            let_go(process, self.arguments.at_end());
        }
        self.finish_pushing();
        outcome
    }

    pub(super) fn switch_on(&mut self, index: usize) {
        let wanted = self.arguments.period;
        if let Some(process) = self.attached.get_mut(index) {
            let period = wanted.unwrap_or(process.usual_period());
            process.set(Some(period));
        }
    }

    fn watch(&mut self, was_on: bool) -> Result<u8, Failure> {
        let (first, every) = self.times(was_on);
        let start = Instant::now();
        let mut next = start.checked_add(first);
        let mut next_high_water = start;
        let mut next_search = start + SEARCH_INTERVAL;
        let mut next_exec_check = start;
        loop {
            if let Some(status) = self.handle_signals()? {
                return Ok(status);
            }
            self.remove_taken_over()?;
            self.serve()?;
            self.push()?;
            let now = Instant::now();
            // Whatever the time between reports is: a new program is not sampled until then.
            if next_exec_check <= now {
                self.follow_execs()?;
                next_exec_check = now + EXEC_INTERVAL;
            }
            let is_due = next.is_some_and(|next| next <= now);
            // One report of several processes is about all of them at one time.
            let is_one = self.arguments.is_one_report();
            let has_ended = match is_one {
                true => self.attached.iter().all(Attached::has_ended),
                false => self.attached.iter().any(Attached::has_ended),
            };
            if is_due || has_ended {
                self.find_others()?;
                let snapshots = Rc::new(self.snapshots()?);
                if !snapshots.is_empty() {
                    self.watch.keep_high_water(&snapshots);
                    self.write(&snapshots)?;
                }
                self.push_ended();
                self.remove_ended()?;
                if self.output.is_closed || is_one && !snapshots.is_empty() {
                    return Ok(FINE);
                }
            } else if self.watch.options.high_water.is_some() && next_high_water <= now {
                let snapshots = Rc::new(self.snapshots()?);
                self.watch.keep_high_water(&snapshots);
                next_high_water = now + HIGH_WATER_INTERVAL;
            }
            if self.is_over() {
                return Ok(self.status_at_end());
            }
            let has_others = self.started.is_some() || self.arguments.all;
            if has_others && next_search <= now {
                self.find_others()?;
                next_search = now + SEARCH_INTERVAL;
            }
            if is_due {
                // The one report comes as soon as there is something to report.
                let pause = if is_one { PAUSE } else { every };
                next = Instant::now().checked_add(pause);
            }
            let until = next.map_or(PAUSE, |next| next.saturating_duration_since(now));
            sleep(until.min(PAUSE));
        }
    }

    /// Writes the report, or the profile.
    fn write(&mut self, snapshots: &[Snapshot]) -> Result<(), Failure> {
        match &self.arguments.save {
            Some(path) => {
                let target = replaceable_by_profile(path, self.arguments.force);
                let target = target.status(BAD_INPUT)?;
                save::save(path, target, snapshots, &self.locator)
            }
            None => self.output.report(&mut self.watch, snapshots),
        }
    }

    /// The time until the first report and between two.
    fn times(&self, was_on: bool) -> (Duration, Duration) {
        let (first, every) = match (self.arguments.every, self.output.format()) {
            (Some(every), _) => (every, every),
            (None, Format::Poireau) => (POIREAU_FIRST, POIREAU_EVERY),
            (None, _) => (EVERY, EVERY),
        };
        match self.arguments.is_one_report() {
            true if was_on => (Duration::ZERO, every),
            true => {
                message::print(format_args!(
                    "sampling is switched on; the report comes in {first:?}"
                ));
                (first, every)
            }
            false => (first, every),
        }
    }

    /// Returns the exit status if a signal asks to quit.
    fn handle_signals(&mut self) -> Result<Option<u8>, Failure> {
        for (signal, was_sent) in self.pending_signals() {
            let which = match signal {
                SIGHUP => Which::Live,
                SIGUSR1 => Which::Old,
                SIGUSR2 => Which::Freed,
                signal if self.ends_by(signal, was_sent) => return Ok(Some(stopped_by(signal))),
                _ => continue,
            };
            let snapshots = Rc::new(self.snapshots()?);
            self.watch.keep_high_water(&snapshots);
            self.output.blocks(&mut self.watch, &snapshots, which)?;
            if which == Which::Old {
                self.watch.hide_old(&snapshots);
            }
        }
        Ok(None)
    }

    /// Gives a snapshot to who waits for one; at most one each time, so that requests hold up nothing.
    pub(super) fn serve(&mut self) -> Result<(), Failure> {
        let waiting = self.serving.as_ref().and_then(Serving::waiting);
        if let Some(waiting) = waiting {
            let snapshots = self.snapshots()?;
            // Who has waited too long is gone.
            let _ = waiting.try_send(snapshots);
        }
        Ok(())
    }

    /// Hands a snapshot over to be sent, if it is time.
    pub(super) fn push(&mut self) -> Result<(), Failure> {
        if self.pushing.as_mut().is_some_and(Pushing::is_due) {
            let snapshots = self.snapshots()?;
            if let Some(pushing) = &mut self.pushing {
                pushing.offer(snapshots);
            }
        }
        Ok(())
    }

    /// Hands over the last states of processes that have ended, before they are let go.
    pub(super) fn push_ended(&mut self) {
        let Some(pushing) = &mut self.pushing else {
            return;
        };
        let ended = |it: &&Attached| it.has_ended() && !it.has_executed();
        for process in self.attached.iter().filter(ended) {
            // Who cannot be read has been given up with a sentence.
            if let Ok(snapshot) = process.snapshot(&self.watch.keys) {
                pushing.keep(snapshot);
            }
        }
    }

    /// Hands the last snapshot over to be sent.
    pub(super) fn push_last(&mut self) {
        if self.pushing.is_none() {
            return;
        }
        let snapshots = self.snapshots();
        if let (Some(pushing), Ok(snapshots)) = (&mut self.pushing, snapshots) {
            pushing.offer_last(snapshots);
        }
    }

    /// Waits until everything was sent, for a bounded time; SIGINT and SIGTERM end the wait.
    pub(super) fn finish_pushing(&mut self) {
        if let Some(pushing) = self.pushing.take() {
            pushing.finish(|| {
                let signals = self.pending_signals();
                signals.iter().any(|it| [SIGINT, SIGTERM].contains(&it.0))
            });
        }
    }

    /// Goes on with the new memories of processes that have called exec.
    fn follow_execs(&mut self) -> Result<(), Failure> {
        for index in 0..self.attached.len() {
            if self.attached[index].follow_exec() {
                self.switch_on(index);
                let process = self.attached[index].process;
                self.output.event(Event::Executed, process, "")?;
            } else if self.attached[index].take_control() {
                // The watcher that has ended may have switched sampling off.
                self.switch_on(index);
            }
        }
        Ok(())
    }

    /// A snapshot of each process that has its memory. One whose memory is damaged is given up.
    pub(super) fn snapshots(&mut self) -> Result<Vec<Snapshot>, Failure> {
        self.follow_execs()?;
        let mut snapshots = Vec::new();
        let mut index = 0;
        while let Some(process) = self.attached.get_mut(index) {
            // The program whose blocks its memory has is not there any more.
            if process.has_executed() {
                index += 1;
                continue;
            }
            match process.snapshot(&self.watch.keys) {
                Ok(snapshot) => {
                    snapshots.push(snapshot);
                    index += 1;
                }
                Err(error) => {
                    let process = self.attached.remove(index);
                    self.refuse(process.process, &error);
                    process.release();
                }
            }
        }
        self.print_about_allocators(&snapshots);
        Ok(snapshots)
    }

    /// Says which allocators of the processes are not sampled. A library may be opened later.
    fn print_about_allocators(&mut self, snapshots: &[Snapshot]) {
        if self.next_allocator_check > Instant::now() {
            return;
        }
        self.next_allocator_check = Instant::now() + ALLOCATOR_INTERVAL;
        for snapshot in snapshots {
            for sentence in allocators::unsampled(snapshot.process, &snapshot.state.process) {
                if self.about_allocators.insert(sentence.clone()) {
                    message::print(format_args!("note: {sentence}"));
                }
            }
        }
    }

    /// Begins with processes that have come since: with `--all`, and those of the program that
    /// was started.
    pub(super) fn find_others(&mut self) -> Result<(), Failure> {
        if !self.arguments.all && self.started.is_none() {
            return Ok(());
        }
        let own = self.attached.iter().map(|it| it.process);
        let known: BTreeSet<u32> = own.chain(self.refused.iter().copied()).collect();
        let found = discover(&known, |name| self.arguments.is_wanted(name));
        for process in found.processes {
            if self
                .started
                .as_ref()
                .is_some_and(|it| !it.includes(process))
            {
                continue;
            }
            match Attached::new(process, self.arguments.access()) {
                Ok(attached) => {
                    self.attached.push(attached);
                    self.switch_on(self.attached.len() - 1);
                    self.output.event(Event::Found, process, "")?;
                }
                // It has ended meanwhile.
                Err(error) if error.may_come() => {}
                Err(error) => self.refuse(process, &error),
            }
        }
        self.print_without_descriptors();
        // A later process may have the same id.
        self.refused
            .retain(|it| std::fs::exists(format!("/proc/{it}")).unwrap_or(false));
        if self.arguments.all && found.unopened != self.unopened {
            self.unopened = found.unopened;
            message::print(format_args!(
                "{} further processes cannot be opened, and are not watched",
                found.unopened
            ));
        }
        Ok(())
    }

    /// Lets go of the processes that have ended, and says how they have.
    pub(super) fn remove_ended(&mut self) -> Result<(), Failure> {
        let ended = self.attached.extract_if(.., |it| it.has_ended());
        let ended: Vec<Attached> = ended.collect();
        ended.iter().try_for_each(|it| match it.has_left() {
            true => self.output.event(Event::Left, it.process, ""),
            false => {
                let status = it.snapshot(&self.watch.keys).ok();
                let status = status.and_then(|it| it.state.process.exit_status);
                let how = self.how_ended(it.process, status);
                self.output.event(Event::Ended, it.process, &how)
            }
        })
    }

    /// How a process has ended, as the end of a sentence; empty if that is not known. A process
    /// writes its status into its memory when it exits; the signal of the program is known to
    /// its parent.
    pub(super) fn how_ended(&mut self, process: u32, status: Option<i32>) -> String {
        self.program_has_ended();
        let started = self.started.as_ref().filter(|it| it.process == process);
        match (started.and_then(Started::signal), status) {
            (Some(signal), _) => format!(" by signal {signal}"),
            (None, Some(status)) => format!(" with status {status}"),
            (None, None) => String::new(),
        }
    }

    pub(super) fn remove_taken_over(&mut self) -> Result<(), Failure> {
        let taken = self.attached.extract_if(.., |it| it.is_asked_to_let_go());
        let taken = taken.map(|it| {
            let process = it.process;
            it.release();
            process
        });
        let taken: Vec<u32> = taken.collect();
        taken
            .iter()
            .try_for_each(|it| self.output.event(Event::TakenOver, *it, ""))
    }
}

fn failure(error: AttachError) -> Failure {
    let status = match error {
        AttachError::Failed { .. } | AttachError::TooManyFiles(_) => FAILED,
        _ => BAD_INPUT,
    };
    Failure::new(status, error)
}
