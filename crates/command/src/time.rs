//! Ranges of time and moments of a recording: `--from`, `--to` and `--at`.

use allotrope_profile::{Profile, RunTimes};
use allotrope_reading::{Moment, Recording, Selection};
use allotrope_text::numbers::duration;
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, Failure};

/// The options that select a range of time.
#[derive(Debug, Clone, clap::Args)]
pub struct TimeArguments {
    /// Show only what was allocated from TIME on
    ///
    /// TIME is a time after the start, such as `2s` or `500ms`, or the name of a mark.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse,
          conflicts_with_all = ["window", "events"])]
    from: Option<Moment>,
    /// Show only what was allocated before TIME
    ///
    /// What was live then remains.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse,
          conflicts_with_all = ["window", "events"])]
    to: Option<Moment>,
    /// Show what was live at TIME
    ///
    /// `FILE@TIME` in place of FILE does the same.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse,
          conflicts_with_all = ["from", "to", "window", "events"])]
    at: Option<Moment>,
}

impl TimeArguments {
    /// These with the moment of `FILE@MOMENT`; `others` are further options that such a file
    /// excludes, and whether they are given.
    pub fn with_moment(
        &self,
        moment: Option<Moment>,
        others: &[(bool, &str)],
    ) -> Result<Self, Failure> {
        let Some(moment) = moment else {
            return Ok(self.clone());
        };
        let given = others.iter().find(|(given, _)| *given);
        match self.option().or(given.map(|(_, option)| *option)) {
            None => Ok(Self {
                at: Some(moment),
                ..self.clone()
            }),
            Some(option) => Err(Failure::new(
                BAD_INPUT,
                anyhow!("{option} and FILE@MOMENT exclude each other; leave one of them out"),
            )),
        }
    }

    /// The option that is given, if one is.
    pub fn option(&self) -> Option<&'static str> {
        let options = [
            (&self.from, "--from"),
            (&self.to, "--to"),
            (&self.at, "--at"),
        ];
        let given = options.iter().find(|(moment, _)| moment.is_some());
        given.map(|(_, name)| *name)
    }

    /// Whether only what was live at a moment is wanted.
    pub fn is_moment(&self) -> bool {
        self.at.is_some()
    }

    /// Aggregates the range, if one is given. Its times count from the start of the first
    /// process of `profile`, which is that of the whole trace.
    pub fn select(
        &self,
        recording: &Recording,
        profile: &Profile,
    ) -> Result<Option<Selection>, Failure> {
        if self.option().is_none() {
            return Ok(None);
        }
        let run = RunTimes::of(profile);
        let ns = |moment: &Option<Moment>, option| {
            let ns = moment.as_ref();
            ns.map(|moment| recording.ns(moment, &run, option))
                .transpose()
        };
        let (from, to) = (ns(&self.from, "--from")?, ns(&self.to, "--to")?);
        let us = |ns: u64| ns.min(run.ended_ns).saturating_sub(run.started_ns) as f64 / 1e3;
        check_order(recording, &run, from, to)?;
        if let (Some(at), Some(moment)) = (ns(&self.at, "--at")?, &self.at) {
            let mut live = recording.live_at(at)?;
            live.is_growing = profile.is_growing;
            return Ok(Some(Selection {
                profile: live,
                line: format!("live {}", moment.words(us(at))),
            }));
        }
        let mut in_range = recording.between([from.unwrap_or(0), to.unwrap_or(u64::MAX)])?;
        in_range.is_growing = profile.is_growing;
        let words = |moment: &Option<Moment>, ns: Option<u64>| match (moment, ns) {
            (Some(Moment::Time(_)), Some(ns)) => duration(us(ns)),
            (Some(Moment::Mark(name)), Some(ns)) => {
                format!("{} ({})", allotrope_text::shown(name), duration(us(ns)))
            }
            (Some(_), Some(_)) => "the end".to_owned(),
            _ => String::new(),
        };
        let (from, to) = (words(&self.from, from), words(&self.to, to));
        let line = match (&self.from, &self.to) {
            (Some(_), Some(_)) => format!(
                "allocated from {from} to {to} after the start; remaining: live at the end of that"
            ),
            (Some(_), None) => format!("allocated from {from} after the start on"),
            _ => format!("allocated in the first {to}; remaining: live at the end of that"),
        };
        Ok(Some(Selection {
            profile: in_range,
            line,
        }))
    }
}

/// The times, in nanoseconds since the start of the recording, from which on and before which
/// blocks are wanted: 0 and `u64::MAX` for a moment that is not given. `profile` is that of the
/// whole recording.
pub fn range_ns(
    recording: &Recording,
    profile: &Profile,
    from: Option<&Moment>,
    to: Option<&Moment>,
) -> Result<[u64; 2], Failure> {
    let run = RunTimes::of(profile);
    let ns = |moment: Option<&Moment>, option| {
        let ns = moment.map(|moment| recording.ns(moment, &run, option));
        ns.transpose()
    };
    let (from, to) = (ns(from, "--from")?, ns(to, "--to")?);
    check_order(recording, &run, from, to)?;
    Ok([from.unwrap_or(0), to.unwrap_or(u64::MAX)])
}

/// Refuses a range that ends before it begins.
fn check_order(
    recording: &Recording,
    run: &RunTimes,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<(), Failure> {
    let (Some(from), Some(to)) = (from, to) else {
        return Ok(());
    };
    if from < to {
        return Ok(());
    }
    let us = |ns: u64| ns.min(run.ended_ns).saturating_sub(run.started_ns) as f64 / 1e3;
    let [from, to, lasted] = [from, to, run.ended_ns].map(|ns| duration(us(ns)));
    let sentence = anyhow!(
        "--from {from} is not before --to {to}; the run in {} lasted {lasted}",
        allotrope_text::shown_path(recording.path())
    );
    Err(Failure::new(BAD_INPUT, sentence))
}
