//! Export while running: `watch --otlp` sends what is live to an OpenTelemetry collector.
//!
//! The session takes the snapshots, and hands them over a channel with one place to a thread, which
//! finds the names of functions, encodes and sends (`sender.rs`). While that place is taken
//! nothing further is handed over, so that a slow collector costs neither time nor memory. A push
//! that is left out or fails is made up for by the next one, since each has the whole state; only
//! the last states of processes that have ended wait for a free place.

mod client;
mod endpoint;
mod sender;

use std::collections::BTreeSet;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use allotrope_symbols::Locator;
use allotrope_watch::snapshot::Snapshot;
use anyhow::Context;

use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::message;
use crate::values;
use endpoint::Endpoint;
use sender::{Counts, Sender};

/// Largest number of last states that wait for a free place.
const MAX_ENDED: usize = 16;
/// How long the last push may take when the watcher ends.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time after which a message says what is waited for.
const SILENCE: Duration = Duration::from_secs(1);
/// How long the end of the last push, or a signal, may go unnoticed.
const PAUSE: Duration = Duration::from_millis(20);

/// Options of `watch`.
#[derive(Debug, clap::Args)]
pub struct PushArguments {
    /// Send profiles to the OpenTelemetry collector at URL
    ///
    /// While watching, and once more at the end (OTLP profiles over HTTP). Without a path in URL,
    /// /v1development/profiles is added. Headers and attributes come from
    /// OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
    // Not parsed here: the error message would show the URL, which may have a password.
    #[arg(long, value_name = "URL", conflicts_with_all = ["once", "save", "perf_script"])]
    otlp: Option<String>,
    /// Time between two profiles that are sent
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "otlp", hide_short_help = true,
          value_parser = values::interval)]
    otlp_every: Duration,
}

/// The session's end.
pub struct Pushing {
    places: SyncSender<Vec<Snapshot>>,
    sender: JoinHandle<Counts>,
    every: Duration,
    /// `None`: never.
    next: Option<Instant>,
    /// Last states, which were not handed over yet.
    ended: Vec<Snapshot>,
    /// Processes whose last state was handed over, as long as the session still sees them.
    done: BTreeSet<(u32, u64)>,
    /// What is handed over when the watcher ends.
    last: Vec<Snapshot>,
    /// Pushes for which there was no place.
    skipped: u64,
    /// Last states for which there was no place.
    lost: u64,
}

impl Pushing {
    /// Starts the thread. `None`: nothing is to be sent.
    pub fn start(arguments: &PushArguments, locator: &Locator) -> Result<Option<Self>, Failure> {
        let Some(url) = &arguments.otlp else {
            return Ok(None);
        };
        let endpoint = Endpoint::new(url, |name| std::env::var(name).ok()).status(BAD_INPUT)?;
        message::print(format_args!(
            "sending OTLP profiles to {} every {:?}",
            endpoint.shown, arguments.otlp_every
        ));
        let sender = Sender::new(endpoint, locator.clone());
        let (places, states) = sync_channel(1);
        let sender = thread::Builder::new()
            .name("allotrope-otlp".to_owned())
            .spawn(move || sender.run(&states))
            .context("cannot start a thread")
            .status(FAILED)?;
        Ok(Some(Self {
            places,
            sender,
            every: arguments.otlp_every,
            next: Some(Instant::now()),
            ended: Vec::new(),
            done: BTreeSet::new(),
            last: Vec::new(),
            skipped: 0,
            lost: 0,
        }))
    }

    /// Whether it is time for a snapshot. Hands over what has waited for a free place.
    pub fn is_due(&mut self) -> bool {
        self.hand_over_ended();
        let now = Instant::now();
        let is_due = self.next.is_some_and(|next| next <= now);
        if is_due {
            self.next = now.checked_add(self.every);
        }
        is_due
    }

    /// Hands snapshots over; without a free place they are left out.
    pub fn offer(&mut self, snapshots: Vec<Snapshot>) {
        let all = self.with_ended(snapshots);
        let rejected = self.hand_over(all);
        if !rejected.is_empty() {
            self.skipped += 1;
            if self.skipped == 1 {
                message::print(
                    "a profile is left out, because the one before is still being sent; --otlp-every may be too short",
                );
            }
        }
        for snapshot in rejected.into_iter().filter(Snapshot::has_ended) {
            self.keep(snapshot);
        }
    }

    /// Keeps the last state of a process until there is a free place.
    pub fn keep(&mut self, snapshot: Snapshot) {
        if self.done.contains(&snapshot.instance()) {
            return;
        }
        if self.ended.len() == MAX_ENDED {
            self.hand_over_ended();
        }
        match self.ended.len() < MAX_ENDED {
            true => self.ended.push(snapshot),
            false => self.lost += 1,
        }
    }

    fn hand_over_ended(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        self.ended = self.hand_over(ended);
    }

    /// Takes the last snapshots, which [`finish`](Self::finish) hands over.
    pub fn offer_last(&mut self, snapshots: Vec<Snapshot>) {
        self.last = self.with_ended(snapshots);
    }

    /// Waits until everything was sent, but not for ever, nor after `is_stopped`.
    pub fn finish(mut self, mut is_stopped: impl FnMut() -> bool) {
        let start = Instant::now();
        let mut has_told = false;
        let mut last = std::mem::take(&mut self.last);
        // Where there was no last snapshot.
        last.append(&mut self.ended);
        let mut wait = || {
            if !has_told && start.elapsed() > SILENCE {
                message::print("sending the last profile; Ctrl-C ends the wait");
                has_told = true;
            }
            sleep(PAUSE);
            start.elapsed() < PATIENCE && !is_stopped()
        };
        let mut goes_on = true;
        while goes_on {
            last = self.hand_over(last);
            if last.is_empty() {
                break;
            }
            goes_on = wait();
        }
        // The thread ends with the channel.
        drop(self.places);
        while goes_on && !self.sender.is_finished() {
            goes_on = wait();
        }
        match goes_on.then(|| self.sender.join()) {
            None => message::print("the last profile was not sent"),
            Some(Err(_)) => message::print("sending profiles has failed by an error of allotrope"),
            Some(Ok(counts)) => counts.tell(self.skipped, self.lost),
        }
    }

    /// The last states that wait and these snapshots, without the processes that are done.
    fn with_ended(&mut self, snapshots: Vec<Snapshot>) -> Vec<Snapshot> {
        let present: BTreeSet<_> = snapshots.iter().map(Snapshot::instance).collect();
        self.done.retain(|it| present.contains(it));
        let waiting = self.ended.iter().map(Snapshot::instance);
        let left_out: BTreeSet<_> = waiting.chain(self.done.iter().copied()).collect();
        let mut all = std::mem::take(&mut self.ended);
        let others = snapshots.into_iter();
        all.extend(others.filter(|it| !left_out.contains(&it.instance())));
        all
    }

    /// Returns the states if there is no free place.
    fn hand_over(&mut self, states: Vec<Snapshot>) -> Vec<Snapshot> {
        if states.is_empty() {
            return states;
        }
        let ended = states.iter().filter(|it| it.has_ended());
        let ended: Vec<_> = ended.map(Snapshot::instance).collect();
        match self.places.try_send(states) {
            Ok(()) => {
                self.done.extend(ended);
                Vec::new()
            }
            Err(TrySendError::Full(states)) => states,
            // The thread has ended by a fault of ours, which is said at the end.
            Err(TrySendError::Disconnected(_)) => Vec::new(),
        }
    }
}
