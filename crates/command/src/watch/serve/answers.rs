//! The pages and their contents.

use std::borrow::Cow;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use allotrope_formats::write_pprof;
use allotrope_profile::Metric;
use allotrope_symbols::Locator;
use allotrope_watch::prometheus;
use allotrope_watch::snapshot::Snapshot;
use anyhow::Context;

use super::Served;
use crate::http::Answer;
use crate::watch::save;

/// How long a snapshot may take to come. The session answers within 0.1 s unless it is writing a
/// report to a slow reader.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Index(Served),
    /// The profile, with this metric shown first.
    Profile(Metric),
    Metrics,
}

impl Page {
    /// The page of a request's target.
    pub fn of(target: &str, served: Served) -> Result<Self, Answer> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let page = match path {
            "/" | "/debug/pprof" | "/debug/pprof/" => Self::Index(served),
            "/debug/pprof/heap" if served.pprof => Self::Profile(Metric::LeakedBytes),
            "/debug/pprof/allocs" if served.pprof => Self::Profile(Metric::Bytes),
            "/metrics" if served.prometheus => Self::Metrics,
            _ => return Err(Answer::text(404, "there is no such page; / lists them")),
        };
        if matches!(page, Self::Profile(_)) {
            check_query(query)?;
        }
        Ok(page)
    }
}

/// Refuses parameters of Go's pages that would give something else than what is served.
fn check_query(query: &str) -> Result<(), Answer> {
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match (name, value) {
            ("seconds", value) if value != "0" => {
                return Err(Answer::text(
                    400,
                    "profiles of a period of time are not served; leave seconds out, take two profiles and compare them with `go tool pprof -base FIRST SECOND`",
                ));
            }
            ("debug", value) if value != "0" => {
                return Err(Answer::text(
                    400,
                    "profiles are served in pprof's format only; leave debug out",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes answers, one at a time.
pub struct Answers {
    session: SyncSender<SyncSender<Vec<Snapshot>>>,
    locator: Locator,
    /// Age in nanoseconds from which on a block is old.
    old_age: u64,
}

impl Answers {
    pub fn new(
        session: SyncSender<SyncSender<Vec<Snapshot>>>,
        locator: Locator,
        old_age: u64,
    ) -> Self {
        Self {
            session,
            locator,
            old_age,
        }
    }

    /// The contents of a page.
    pub fn answer(&mut self, page: Page) -> Answer {
        if let Page::Index(served) = page {
            return index(served);
        }
        let Some(snapshots) = self.snapshots() else {
            return Answer::text(503, "the watcher is busy or ends; try again");
        };
        let made = match page {
            Page::Profile(metric) => self.profile(&snapshots, metric),
            _ => self.metrics(&snapshots),
        };
        made.unwrap_or_else(|error| Answer::text(503, format_args!("{error:#}")))
    }

    /// Asks the session for a snapshot of each process. `None`: none comes.
    fn snapshots(&self) -> Option<Vec<Snapshot>> {
        let (sender, snapshots) = sync_channel(1);
        self.session.try_send(sender).ok()?;
        snapshots.recv_timeout(PATIENCE).ok()
    }

    fn metrics(&self, snapshots: &[Snapshot]) -> anyhow::Result<Answer> {
        let mut body = Vec::new();
        prometheus::write(snapshots, self.old_age, &mut body)?;
        Ok(Answer {
            status: 200,
            kind: "text/plain; version=0.0.4; charset=utf-8",
            more: Cow::Borrowed(""),
            body: body.into(),
        })
    }

    fn profile(&self, snapshots: &[Snapshot], metric: Metric) -> anyhow::Result<Answer> {
        let source = save::source(snapshots, &self.locator)?;
        let mut body = Vec::new();
        write_pprof(&source.set, Some(metric), &mut body).context("the profile cannot be made")?;
        Ok(Answer {
            status: 200,
            kind: "application/octet-stream",
            more: Cow::Borrowed("Content-Disposition: attachment; filename=\"heap.pb.gz\"\r\n"),
            body: body.into(),
        })
    }
}

fn index(served: Served) -> Answer {
    let mut text = "allotrope watch serves:".to_owned();
    if served.pprof {
        text.push_str("\n/debug/pprof/heap    what is live, for `go tool pprof`");
        text.push_str("\n/debug/pprof/allocs  the same, all allocations shown first");
    }
    if served.prometheus {
        text.push_str("\n/metrics             metrics for Prometheus");
    }
    Answer::text(200, text)
}
