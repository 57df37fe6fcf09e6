//! Since when a process has been sampled, and at which periods: what an output says of that, in
//! words and as numbers.

use allotrope_sampling::Period;
use allotrope_sampling::estimate::Figures;
use allotrope_shm::samples::reader::State;
use allotrope_text::numbers::{bytes, duration, moment};

/// Periods that a sentence names.
const NAMED: usize = 4;

/// When a process was sampled. Moments are by `CLOCK_REALTIME`, in nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// When the process, or its memory, began.
    pub began: u64,
    /// Since when sampling has been on without a break, or was until [`Self::until`]. `None`: it was
    /// never on.
    pub since: Option<u64>,
    /// Since when it has been off again.
    pub until: Option<u64>,
    /// It was never off, so that every block could be sampled.
    pub is_complete: bool,
    /// The latest periods and since when they were in force, the oldest first; `None`: off.
    pub periods: Vec<(u64, Option<Period>)>,
}

impl Since {
    /// Of a process in this state.
    pub fn new(state: &State) -> Self {
        let (process, periods) = (&state.process, &state.periods);
        let real = |time: u64| {
            let after = time.saturating_sub(process.began);
            process.began_real.saturating_add(after)
        };
        let changes = periods.changes.iter();
        Self {
            began: process.began_real,
            since: periods.on_since.map(real),
            until: periods.off_since.map(real),
            is_complete: periods.is_complete(),
            periods: changes.map(|it| (real(it.time), it.period)).collect(),
        }
    }

    /// The period, if it was always the same one.
    pub fn from_start(&self) -> Option<Period> {
        match self.periods[..] {
            [(_, period)] if self.is_complete => period,
            _ => None,
        }
    }

    /// What the figures do not know, as a sentence without its end; `None`: nothing, or sampling
    /// was never on.
    pub fn gap(&self) -> Option<String> {
        let since = self.since.filter(|_| !self.is_complete)?;
        let late = duration(since.saturating_sub(self.began) as f64 / 1e3);
        let began = match since > self.began {
            true => format!("sampled since {}, {late} after its start", moment(since)),
            false => "sampled from its start".to_owned(),
        };
        let end = self
            .until
            .map_or_else(String::new, |it| format!(", until {}", moment(it)));
        Some(format!(
            "{began}{end}: nothing is known of blocks from other times"
        ))
    }

    /// The periods that were in force, if there were several: `sampled: one of 32.0 MiB, one of
    /// 512.0 KiB from 22:14:20`.
    pub fn history(&self) -> Option<String> {
        let last = self.periods.len().saturating_sub(NAMED);
        let named = &self.periods[last..];
        let [(_, first), _, ..] = named else {
            return None;
        };
        let clock = |time: u64| moment(time).get(11..19).unwrap_or_default().to_owned();
        let size = |period: Option<Period>| match period {
            Some(period) => format!("one of {}", bytes(period.bytes())),
            None => "off".to_owned(),
        };
        let later = named[1..].iter();
        let later = later.map(|(time, period)| format!("{} from {}", size(*period), clock(*time)));
        let later: Vec<String> = later.collect();
        let before = if last > 0 { "…, " } else { "" };
        let first = size(*first);
        Some(format!("sampled: {before}{first}, {}", later.join(", ")))
    }
}

/// What it means that there is no sample, without the end of the sentence: an upper bound that
/// holds with 95 %. `None`: there are samples, or blocks that could not be sampled.
pub fn bound(live: &Figures) -> Option<String> {
    let most = live.bytes_below()?;
    Some(format!(
        "nothing was sampled: under {} were live, with 95 %",
        bytes(most as u64)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn since(periods: &[(u64, u64)], since: u64, until: Option<u64>, is_complete: bool) -> Since {
        let at = |seconds: u64| START + seconds * SECOND;
        let periods = periods.iter();
        Since {
            began: START,
            since: Some(at(since)),
            until: until.map(at),
            is_complete,
            periods: periods.map(|it| (at(it.0), Period::new(it.1))).collect(),
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        let whole = since(&[(0, 512 << 10)], 0, None, true);
        assert_eq!((whole.gap(), whole.history()), (None, None));
        assert_eq!(whole.from_start(), Some(Period::DEFAULT));
        let dense = since(&[(0, 32 << 20), (60, 512 << 10)], 0, None, true);
        assert_eq!((dense.gap(), dense.from_start()), (None, None));
        assert_eq!(
            dense.history().as_deref(),
            Some("sampled: one of 32.0 MiB, one of 512.0 KiB from 22:14:20")
        );
        let late = since(&[(0, 0), (90, 512 << 10)], 90, None, false);
        assert_eq!(
            late.gap().as_deref(),
            Some(
                "sampled since 2023-11-14 22:14:50 UTC, 90.00 s after its start: nothing is known of blocks from other times"
            )
        );
        assert_eq!(
            late.history().as_deref(),
            Some("sampled: off, one of 512.0 KiB from 22:14:50")
        );
        let ended = since(&[(0, 4096), (30, 0)], 0, Some(30), false);
        assert_eq!(
            ended.gap().as_deref(),
            Some(
                "sampled from its start, until 2023-11-14 22:13:50 UTC: nothing is known of blocks from other times"
            )
        );
    }

    #[test]
    fn a_sentence_names_the_latest_periods() {
        let changes: Vec<(u64, u64)> = (0..9).map(|it| (it, 4096 << it)).collect();
        let many = since(&changes, 0, None, true).history().expect("periods");
        assert!(many.starts_with("sampled: …, one of 128.0 KiB, "), "{many}");
        assert_eq!(many.matches("one of").count(), NAMED);
    }

    #[test]
    fn no_sample_is_an_answer() {
        let mut live = Figures::new(Period::SPARSE);
        // 32 MiB times ln 20.
        assert_eq!(
            bound(&live).as_deref(),
            Some("nothing was sampled: under 95.9 MiB were live, with 95 %")
        );
        live.open_upwards();
        assert_eq!(bound(&live), None);
        let mut live = Figures::new(Period::SPARSE);
        live.add(16, Period::SPARSE);
        assert_eq!(bound(&live), None);
    }
}
