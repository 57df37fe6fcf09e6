//! Progress of long work: a bar on a terminal, nothing elsewhere.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use allotrope_formats::Limits;
use allotrope_reading::{Observer, Reader};

use crate::bar::{Bar, Spinner};
use crate::{memory, message};

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

/// A reader whose work shows a bar, and whose files count for `--input-limit`.
pub fn reader(limits: Limits) -> Reader {
    Reader::new(limits, Arc::new(Progress::new(false)))
}

impl Observer for Progress {
    fn progress(&self, work: &'static str, done: u64, total: u64) {
        self.show(work, done, total);
    }

    fn finished(&self) {
        self.finish();
    }

    fn opens(&self, bytes: u64) {
        memory::add_file(bytes);
    }

    fn warning(&self, sentence: &str) {
        message::print(format_args!("warning: {sentence}"));
    }
}
