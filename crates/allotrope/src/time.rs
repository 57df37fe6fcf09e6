//! Times and ranges of time in a recording: `--from`, `--to` and `--at`.

use std::path::Path;

use allotrope_profile::{Options, Process, Profile, replay_range};
use allotrope_report::numbers::duration;
use allotrope_text::Shown as _;
use allotrope_trace::TraceReader;
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, Failure};
use crate::progress::Progress;
use crate::trace;

/// The units and their microseconds.
const UNITS: [(&str, f64); 6] = [
    ("ns", 1e-3),
    ("us", 1.0),
    ("µs", 1.0),
    ("ms", 1e3),
    ("s", 1e6),
    ("min", 60e6),
];

/// The options that select a range of time.
#[derive(Debug, clap::Args)]
pub struct TimeArguments {
    /// Show only what was allocated from TIME on, such as `2s` or `500ms` after the start
    #[arg(long, value_name = "TIME", value_parser = parse,
          conflicts_with_all = ["window", "events"])]
    from: Option<f64>,
    /// Show only what was allocated before TIME; what was live then remains
    #[arg(long, value_name = "TIME", value_parser = parse,
          conflicts_with_all = ["window", "events"])]
    to: Option<f64>,
    /// Show what was live at TIME
    #[arg(long, value_name = "TIME", value_parser = parse,
          conflicts_with_all = ["from", "to", "window", "events"])]
    at: Option<f64>,
}

/// Parses a time after the start of the run, in microseconds: `2s`, `1.5 min`; without a
/// unit in seconds.
fn parse(text: &str) -> Result<f64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = match unit.trim() {
        "" => Some(1e6),
        unit => UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, it)| *it),
    };
    let number: Option<f64> = number.parse().ok();
    let wrong = || "write a time after the start, such as `2s`, `500ms` or `1.5min`".to_owned();
    let time = number.zip(unit).map(|(number, unit)| number * unit);
    time.filter(|time| time.is_finite()).ok_or_else(wrong)
}

/// A profile of a range of time, and the line that describes it.
pub struct Shown {
    pub profile: Profile,
    pub line: String,
}

impl TimeArguments {
    /// The option that is given, if one is.
    pub fn option(&self) -> Option<&'static str> {
        let options = [(self.from, "--from"), (self.to, "--to"), (self.at, "--at")];
        options.iter().find_map(|(time, name)| time.map(|_| *name))
    }

    /// Only what was live at a moment is wanted.
    pub fn is_moment(&self) -> bool {
        self.at.is_some()
    }

    /// Replays the range, if one is given. Its times count from the start of the first
    /// process of `profile`, which is that of the whole trace.
    pub fn select(
        &self,
        path: &Path,
        trace: &TraceReader,
        profile: &Profile,
    ) -> Result<Option<Shown>, Failure> {
        if self.option().is_none() {
            return Ok(None);
        }
        let processes = || profile.processes.iter();
        let start = processes().map(|process| process.started_us).min();
        let start = start.unwrap_or(0);
        let end = |process: &Process| process.started_us.saturating_add(process.duration_us);
        let lasted = processes().map(end).max().unwrap_or(start) - start;
        let refuse = |why: String| {
            let (path, lasted) = (path.shown(), duration(lasted as f64));
            Failure::new(
                BAD_INPUT,
                anyhow!("{why}; the run in {path} lasted {lasted}"),
            )
        };
        for (time, option) in [(self.from, "--from"), (self.to, "--to"), (self.at, "--at")] {
            if let Some(time) = time.filter(|&time| time > (lasted + 1) as f64) {
                let time = duration(time);
                return Err(refuse(format!("{option} {time} is after the end")));
            }
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            let [from, to] = [from, to].map(duration);
            return Err(refuse(format!("--from {from} is not before --to {to}")));
        }
        // Beyond 2^53 ns, 104 days, the microseconds are not exact either.
        let ns = |time: f64| {
            start
                .saturating_mul(1000)
                .saturating_add((time * 1e3) as u64)
        };
        let from = self.from.map_or(0, ns);
        let to = self.to.or(self.at).map_or(u64::MAX, ns);
        let progress = Progress::new(false);
        let show = |done, total| progress.show("reading the time range", done, total);
        let options = Options {
            progress: Some(&show),
            site_details: true,
            ..Options::default()
        };
        let profile = replay_range(trace, &options, [from, to]);
        progress.finish();
        let profile = profile.map_err(|error| trace::unreplayable(path, error))?;
        Ok(Some(Shown {
            profile,
            line: self.line(),
        }))
    }

    fn line(&self) -> String {
        match (self.from, self.to, self.at) {
            (_, _, Some(at)) => format!("live {} after the start", duration(at)),
            (Some(from), Some(to), _) => format!(
                "allocated from {} to {} after the start; remaining: live at the end of that",
                duration(from),
                duration(to)
            ),
            (Some(from), None, _) => {
                format!("allocated from {} after the start on", duration(from))
            }
            (None, Some(to), _) => format!(
                "allocated in the first {}; remaining: live at the end of that",
                duration(to)
            ),
            (None, None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, us) in [
            ("2s", 2e6),
            ("2", 2e6),
            ("0.5 s", 5e5),
            ("500ms", 5e5),
            ("1.5min", 90e6),
            ("7us", 7.0),
            ("7µs", 7.0),
            ("1000ns", 1.0),
            ("0", 0.0),
        ] {
            assert_eq!(parse(text), Ok(us), "{text}");
        }
        for wrong in ["", "s", "-1s", "2 hours", "1.2.3s", "2sx", "inf"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
