//! Moments of a recording as people name them: a time after the start (`3s`), a mark (`warm`),
//! or `now`; files with a moment (`FILE@warm`), which stand for what was live then; and what was
//! allocated between two moments.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use allotrope_profile::{Mark, Profile, RunTimes, aggregate_range};
use allotrope_text::numbers::duration;
use allotrope_text::{Shown, shown};
use allotrope_trace::model::Exit;

use crate::error::ReadingError;
use crate::recording::Recording;

/// The units and their microseconds.
const UNITS: [(&str, f64); 6] = [
    ("ns", 1e-3),
    ("us", 1.0),
    ("µs", 1.0),
    ("ms", 1e3),
    ("s", 1e6),
    ("min", 60e6),
];
/// The name of the last moment that is recorded.
const NOW: &str = "now";
/// Largest number of marks that an error lists.
const MAX_LISTED: usize = 8;

/// A moment of a recording.
#[derive(Debug, Clone, PartialEq)]
pub enum Moment {
    /// Microseconds after the start of the run.
    Time(f64),
    /// The last moment that is recorded.
    Now,
    /// The last mark with this name.
    Mark(String),
}

/// Parses a time after the start of the run, in microseconds: `2s`, `1.5 min`; without a
/// unit in seconds.
pub fn time(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = match unit.trim() {
        "" => 1e6,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    let time = number.parse::<f64>().ok()? * unit;
    time.is_finite().then_some(time)
}

impl Moment {
    /// The moment that a word names. What is no time is the name of a mark.
    pub fn of(text: &str) -> Self {
        match time(text) {
            Some(time) => Self::Time(time),
            None if text == NOW => Self::Now,
            None => Self::Mark(text.to_owned()),
        }
    }

    /// The moment that a word names.
    ///
    /// # Errors
    /// If the word is empty.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("write a time after the start, such as `2s`, or the name of a mark".into()),
            text => Ok(Self::of(text)),
        }
    }

    /// The moment in words, with its time in microseconds.
    pub fn words(&self, us: f64) -> String {
        match self {
            Self::Time(_) => format!("{} after the start", duration(us)),
            Self::Now => "at the end of what is recorded".to_owned(),
            Self::Mark(name) => {
                format!("at {}, {} after the start", shown(name), duration(us))
            }
        }
    }
}

/// Splits `FILE@MOMENT`. A file that has the whole name wins; otherwise the longest name
/// of a file that is followed by an `@` does.
pub fn split(path: &Path) -> (&Path, Option<Moment>) {
    let whole = (path, None);
    if path.symlink_metadata().is_ok() {
        return whole;
    }
    let bytes = path.as_os_str().as_bytes();
    let ats = (1..bytes.len()).rev().filter(|&at| bytes[at] == b'@');
    for at in ats {
        let file = Path::new(OsStr::from_bytes(&bytes[..at]));
        if let Ok(text) = std::str::from_utf8(&bytes[at + 1..])
            && !text.is_empty()
            && file.symlink_metadata().is_ok()
        {
            return (file, Some(Moment::of(text)));
        }
    }
    whole
}

impl Recording {
    /// The time of a moment, in nanoseconds since the start of the recording; `u64::MAX` for the
    /// last one. `run` is that of this recording, and `what` names the moment in an error.
    ///
    /// # Errors
    /// If the moment is after the end, or its mark is not there.
    pub fn ns(&self, moment: &Moment, run: &RunTimes, what: &str) -> Result<u64, ReadingError> {
        let lasted = duration(run.lasted_ns() as f64 / 1e3);
        let refuse = |why: String| {
            let path = self.path().shown();
            let marks = listed(run, "; its marks are ");
            ReadingError::Unusable(format!("{why}; the run in {path} lasted {lasted}{marks}"))
        };
        match moment {
            Moment::Now => Ok(u64::MAX),
            Moment::Time(us) if *us > (run.lasted_ns() as f64) / 1e3 + 1.0 => {
                let time = duration(*us);
                Err(refuse(format!("{what} {time} is after the end")))
            }
            // Beyond 2^53 ns, 104 days, the microseconds are not exact either.
            Moment::Time(us) => Ok(run.started_ns.saturating_add((us * 1e3).round() as u64)),
            Moment::Mark(name) => {
                let named = run.marks.iter().rev().find(|mark| mark.name == *name);
                named.map(|mark| mark.time_ns).ok_or_else(|| {
                    let none = match run.marks.is_empty() {
                        true => ", nor any other",
                        false => "",
                    };
                    refuse(format!(
                        "{what} {}: there is no such mark{none}; for a time, write a time after the start, such as `2s` or `500ms`",
                        shown(name)
                    ))
                })
            }
        }
    }

    /// What was live at a moment, `ns` since the start of the recording or `u64::MAX` for the
    /// last one: a profile whose *leaked* blocks are those. Processes that had ended are left
    /// out. At the last moment of a recording that has ended, it has what was live at the end of
    /// each process.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn live_at(&self, ns: u64) -> Result<Profile, ReadingError> {
        let mut profile = self.detailed("reading the recording", |options| {
            aggregate_range(self.trace(), options, [0, ns])
        })?;
        let is_running = |exit| exit == Exit::Running;
        if ns == u64::MAX {
            let some_run = profile.processes.iter().any(|it| is_running(it.exit));
            profile.processes.retain(|it| match it.exit {
                Exit::Running => true,
                // The program's blocks went with its image.
                Exit::Exec => false,
                _ => !some_run,
            });
        } else {
            let end_us = |started: u64, lasted: u64| started.saturating_add(lasted);
            profile.processes.retain(|it| {
                // The range ends at the moment, so it cuts the time of those that still ran.
                is_running(it.exit)
                    || end_us(it.started_us, it.duration_us) >= (ns / 1000).saturating_sub(1)
            });
        }
        Ok(profile)
    }

    /// What was allocated between two times, in nanoseconds since the start of the recording;
    /// *leaked* blocks are those that were live at the end of that.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn between(&self, range: [u64; 2]) -> Result<Profile, ReadingError> {
        self.detailed("reading the time range", |options| {
            aggregate_range(self.trace(), options, range)
        })
    }
}

/// The marks with their times, after `before`; nothing if there are none.
fn listed(run: &RunTimes, before: &str) -> String {
    if run.marks.is_empty() {
        return String::new();
    }
    let one = |mark: &Mark| {
        let ns = mark.time_ns.saturating_sub(run.started_ns);
        format!("{} ({})", shown(&mark.name), duration(ns as f64 / 1e3))
    };
    let some: Vec<String> = run.marks.iter().take(MAX_LISTED).map(one).collect();
    let more = match run.marks.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{before}{}{more}", some.join(", "))
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
            assert_eq!(time(text), Some(us), "{text}");
        }
        for wrong in ["", "s", "-1s", "2 hours", "1.2.3s", "2sx", "inf"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_time_is_a_mark() {
        assert_eq!(Moment::of("now"), Moment::Now);
        assert_eq!(Moment::of("3s"), Moment::Time(3e6));
        assert_eq!(Moment::of("warm"), Moment::Mark("warm".into()));
        assert!(Moment::parse("").is_err());
    }

    #[test]
    fn a_file_whose_name_contains_an_at_sign_wins() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a", "a@warm", "b@c"] {
            std::fs::write(at(name), "").unwrap();
        }
        let mark = |name: &str| Some(Moment::Mark(name.into()));
        assert_eq!(split(&at("a@warm")), (&*at("a@warm"), None));
        assert_eq!(split(&at("a@warm@cold")), (&*at("a@warm"), mark("cold")));
        assert_eq!(split(&at("a@cold")), (&*at("a"), mark("cold")));
        assert_eq!(split(&at("a@x@y")), (&*at("a"), mark("x@y")));
        assert_eq!(split(&at("b@c@2s")), (&*at("b@c"), Some(Moment::Time(2e6))));
        // No file: the error names what the user wrote.
        assert_eq!(split(&at("none@warm")), (&*at("none@warm"), None));
        assert_eq!(split(&at("a@")), (&*at("a@"), None));
    }
}
