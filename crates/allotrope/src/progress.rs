//! How far long work has come: a bar on a terminal, nothing elsewhere.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Work that is done sooner is not worth a bar.
const PATIENCE: Duration = Duration::from_millis(300);

/// A bar on stderr that shows itself only when the work takes long.
pub struct Progress {
    wanted: bool,
    started: Cell<Option<Instant>>,
    bar: RefCell<Option<ProgressBar>>,
}

impl Progress {
    /// A bar, unless it is not wanted or stderr is no terminal.
    pub fn new(quiet: bool) -> Self {
        Self {
            wanted: !quiet && std::io::stderr().is_terminal(),
            started: Cell::new(None),
            bar: RefCell::new(None),
        }
    }

    /// Says that `done` parts of `total` are done.
    pub fn show(&self, what: &'static str, done: u64, total: u64) {
        if !self.wanted {
            return;
        }
        let started = self.started.get().unwrap_or_else(Instant::now);
        self.started.set(Some(started));
        if started.elapsed() < PATIENCE {
            return;
        }
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(new_bar);
        bar.set_message(what);
        bar.set_length(total);
        bar.set_position(done);
    }

    /// Takes the bar away; the next work shows it anew.
    pub fn finish(&self) {
        self.started.set(None);
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {percent}%") {
        bar.set_style(style);
    }
    bar
}
