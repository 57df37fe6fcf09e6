//! Progress of long work: a bar on a terminal, nothing elsewhere.

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use allotrope_symbols::Work;

use crate::bar::{Bar, Spinner};

/// Work that takes less time shows no bar.
const SHOWN_AFTER: Duration = Duration::from_millis(300);

/// A bar on stderr that appears only when the work takes long.
pub struct Progress {
    wanted: bool,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    started: Option<Instant>,
    bar: Option<Bar>,
    /// Shown until the next step of the work.
    spinner: Option<Spinner>,
}

impl Progress {
    /// A bar, unless it is not wanted or stderr is no terminal.
    pub fn new(quiet: bool) -> Self {
        Self {
            wanted: !quiet && std::io::stderr().is_terminal(),
            shown: Mutex::default(),
        }
    }

    /// Shows that `done` of `total` parts are done.
    pub fn show(&self, what: &'static str, done: u64, total: u64) {
        if !self.wanted {
            return;
        }
        let mut shown = self.shown();
        shown.spinner = None;
        if shown.started.get_or_insert_with(Instant::now).elapsed() < SHOWN_AFTER {
            return;
        }
        shown.bar.get_or_insert_default().show(what, done, total);
    }

    /// Shows a spinner during work whose progress cannot be measured.
    pub fn during<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        self.spin(what.to_owned());
        let result = work();
        self.shown().spinner = None;
        result
    }

    /// Shows a spinner until the next progress is shown or the work is finished.
    pub fn spin(&self, what: String) {
        if !self.wanted {
            return;
        }
        let mut shown = self.shown();
        // One at a time: the earlier one clears the line.
        shown.spinner = None;
        shown.spinner = Some(Spinner::new(what));
    }

    /// Removes the bar; the next work shows a new one.
    pub fn finish(&self) {
        *self.shown() = Shown::default();
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        // A panic while the lock was held left a bar that can still be drawn.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Position and length of the bar while functions are named: `done` of `total`
/// modules, and `part` (done, total) of the next one. Modules and their parts
/// share one scale, so that the bar moves within a large module, too.
pub fn naming(done: u64, total: u64, part: (u64, u64)) -> (u64, u64) {
    const STEPS: u64 = 1000;
    let within = match part {
        (_, 0) => 0,
        (done, total) => done.min(total).saturating_mul(STEPS) / total,
    };
    let reached = done.saturating_mul(STEPS).saturating_add(within);
    (reached, total.saturating_mul(STEPS))
}

/// Label of the bar while a debug file is fetched from a server.
pub const FETCHING: &str = "fetching debug files";
/// Label of the bar while debug information is read.
pub const NAMING: &str = "naming functions";

/// Shows how far the naming of `total` modules is.
pub fn show_naming(progress: &Progress, done: u64, total: u64, work: Option<(Work, u64, u64)>) {
    let (what, part) = match work {
        Some((Work::Fetching, done, all)) => (FETCHING, (done, all)),
        Some((Work::Reading, done, all)) => (NAMING, (done, all)),
        None => (NAMING, (0, 0)),
    };
    let (reached, end) = naming(done, total, part);
    progress.show(what, reached, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_moves_within_a_module() {
        assert_eq!(naming(0, 2, (0, 0)), (0, 2000));
        assert_eq!(naming(1, 2, (1, 4)), (1250, 2000));
        assert_eq!(naming(1, 2, (9, 4)), (2000, 2000), "more than announced");
        assert_eq!(naming(2, 2, (0, 0)), (2000, 2000));
    }
}
