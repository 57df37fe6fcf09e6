//! The thread that makes profiles of snapshots and sends them, and says when that fails.

use std::sync::mpsc::Receiver;

use allotrope_formats::otlp::messages::Value;
use allotrope_formats::otlp::{PROFILES, Process, RequestBuilder, zipped};
use allotrope_symbols::Locator;
use allotrope_text::text_of;
use allotrope_watch::since::Since;
use allotrope_watch::snapshot::Snapshot;
use anyhow::Context;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::system::uname;

use super::client::Client;
use super::endpoint::Endpoint;
use crate::message;
use crate::watch::save;

/// From this number on, further processes go to the next request.
const MAX_SAMPLES: usize = 20_000;
/// Most characters of a process's name.
const MAX_NAME: usize = 200;
const SERVICE: &str = "service.name";

/// Makes and sends profiles.
pub struct Sender {
    client: Client,
    locator: Locator,
    host: String,
    /// A failure was said, and since then nothing has succeeded.
    is_failing: bool,
    has_told_words: bool,
    counts: Counts,
}

/// What became of the requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    sent: u64,
    failed: u64,
    rejected_profiles: u64,
}

impl Counts {
    /// Prints what was not sent, if anything was not.
    pub fn tell(self, skipped: u64, lost: u64) {
        let Self {
            sent,
            failed,
            rejected_profiles,
        } = self;
        let parts = [
            (failed, format!("{failed} of {} failed", sent + failed)),
            (
                rejected_profiles,
                format!("the collector has rejected {rejected_profiles} profiles"),
            ),
            (skipped, format!("{skipped} were left out")),
            (
                lost,
                format!("the last states of {lost} processes were left out"),
            ),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(_, part)| part).collect();
        if !parts.is_empty() {
            message::print(format_args!("requests with profiles: {}", parts.join(", ")));
        }
    }
}

impl Sender {
    pub fn new(endpoint: Endpoint, locator: Locator) -> Self {
        Self {
            client: Client::new(endpoint),
            locator,
            host: uname().nodename().to_string_lossy().into_owned(),
            is_failing: false,
            has_told_words: false,
            counts: Counts::default(),
        }
    }

    /// Sends what comes, until the session lets go.
    pub fn run(mut self, states: &Receiver<Vec<Snapshot>>) -> Counts {
        for states in states {
            self.push(states);
        }
        self.counts
    }

    /// Sends the states of some processes, in as few requests as their sizes allow. After a failure
    /// the rest is left out: it would take as long to fail.
    fn push(&mut self, states: Vec<Snapshot>) {
        let new = || RequestBuilder::new(env!("CARGO_PKG_VERSION"));
        let mut request = new();
        for snapshot in states {
            // Without a figure there is nothing to send.
            if snapshot.state.periods.longest.is_none() {
                continue;
            }
            if let Err(error) = self.add(&mut request, &snapshot) {
                self.failed(&format!("gets no profile: {error:#}"));
                continue;
            }
            if request.samples() > MAX_SAMPLES && !self.send(std::mem::replace(&mut request, new()))
            {
                return;
            }
        }
        if !request.is_empty() {
            self.send(request);
        }
    }

    /// Adds a process to the request.
    fn add(&self, request: &mut RequestBuilder, snapshot: &Snapshot) -> anyhow::Result<()> {
        let source = save::source(std::slice::from_ref(snapshot), &self.locator)?;
        let total = source.sampled.as_ref().map(|it| &it.total);
        let sampling = source.set.run.sampling.as_ref();
        request.add(Process {
            set: &source.set,
            total: total.context("it has no figures")?,
            time_unix_ns: snapshot.real_time,
            resource: self.resource(snapshot),
            comments: sampling.map_or_else(Vec::new, |it| it.notes.clone()),
            ids: ids()?,
        });
        Ok(())
    }

    /// What the process is. The command line is left out: it may contain secrets.
    fn resource(&self, snapshot: &Snapshot) -> Vec<(String, Value)> {
        let process = &snapshot.state.process;
        let executable = text_of(&process.executable).into_owned();
        let file = executable.rsplit('/').next().unwrap_or_default();
        let began = i64::try_from(process.began_real).unwrap_or(i64::MAX);
        let since = Since::new(&snapshot.state);
        let moment = |it: u64| Value::Int(i64::try_from(it).unwrap_or(i64::MAX));
        let sampled = [
            ("allotrope.sampled_since_unix_nano", since.since.map(moment)),
            ("allotrope.sampled_until_unix_nano", since.until.map(moment)),
            (
                "allotrope.sampling_is_complete",
                Some(Value::Bool(since.is_complete)),
            ),
        ];
        let sampled = sampled.into_iter();
        let sampled = sampled.filter_map(|(key, value)| Some((key, value?)));
        let own = [
            ("process.pid", Value::Int(snapshot.process.into())),
            ("process.executable.name", cut(file)),
            ("allotrope.start_time_unix_nano", Value::Int(began)),
        ];
        let own: Vec<(&str, Value)> = own.into_iter().chain(sampled).collect();
        let usual = [
            (SERVICE, cut(&snapshot.name())),
            ("host.name", cut(&self.host)),
            ("os.type", "linux".into()),
        ];
        let chosen = &self.client.endpoint().attributes;
        let is_chosen = |key: &str| chosen.iter().any(|(it, _)| it == key);
        let usual = usual.into_iter().filter(|(key, _)| !is_chosen(key));
        let own_keys: Vec<&str> = own.iter().map(|(key, _)| *key).collect();
        let others = chosen.iter().filter(|(key, _)| !own_keys.contains(&&**key));
        let others: Vec<_> = others
            .map(|(key, value)| (key.clone(), Value::Text(value.clone())))
            .collect();
        let ours = own.into_iter().chain(usual);
        let ours = ours.map(|(key, value)| (key.to_owned(), value));
        ours.chain(others).collect()
    }

    /// Whether it was accepted.
    fn send(&mut self, request: RequestBuilder) -> bool {
        let sent = zipped(&request.finish())
            .map_err(|error| format!("gets no profile: {error}"))
            .and_then(|body| self.client.send(body));
        match sent {
            Err(reason) => {
                self.failed(&reason);
                return false;
            }
            Ok(accepted) if accepted.rejected > 0 => {
                self.counts.sent += 1;
                self.counts.rejected_profiles += accepted.rejected;
                let number = accepted.rejected;
                let colon = if accepted.words.is_empty() { "" } else { ": " };
                self.tell_failure(&format!(
                    "has rejected {number} profiles{colon}{}",
                    accepted.words
                ));
            }
            Ok(accepted) => {
                self.counts.sent += 1;
                self.succeeded();
                if !accepted.words.is_empty() && !self.has_told_words {
                    self.has_told_words = true;
                    self.say(&format!("takes profiles, and says: {}", accepted.words));
                }
            }
        }
        true
    }

    fn failed(&mut self, reason: &str) {
        self.counts.failed += 1;
        self.tell_failure(reason);
    }

    /// Says the first of several failures.
    fn tell_failure(&mut self, reason: &str) {
        if !self.is_failing {
            self.is_failing = true;
            self.say(&format!("{reason}; it is tried again each time"));
        }
    }

    fn succeeded(&mut self) {
        if self.is_failing {
            self.is_failing = false;
            self.say("takes profiles again");
        }
    }

    fn say(&self, words: &str) {
        let shown = &self.client.endpoint().shown;
        message::print(format_args!("the collector {shown} {words}"));
    }
}

fn cut(text: &str) -> Value {
    Value::Text(text.chars().take(MAX_NAME).collect())
}

/// Random ids.
fn ids() -> anyhow::Result<[[u8; 16]; PROFILES]> {
    let mut ids = [[0; 16]; PROFILES];
    for id in &mut ids {
        let length = getrandom(&mut id[..], GetRandomFlags::empty())
            .context("the kernel gives no random numbers")?;
        anyhow::ensure!(length == id.len(), "the kernel gives no random numbers");
    }
    Ok(ids)
}
