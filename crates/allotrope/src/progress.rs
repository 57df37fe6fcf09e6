//! How far long work has come: a bar on a terminal, nothing elsewhere.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that is done sooner is not worth a bar.
const PATIENCE: Duration = Duration::from_millis(300);

/// A bar on stderr that shows itself only when the work takes long.
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Cell<Option<Instant>>,
}

impl Progress {
    /// A bar, unless it is not wanted or stderr is no terminal.
    pub fn new(quiet: bool) -> Self {
        let wanted = !quiet && std::io::stderr().is_terminal();
        Self {
            bar: wanted.then(hidden_bar),
            started: Cell::new(None),
        }
    }

    /// Says that `done` parts of `total` are done.
    pub fn show(&self, what: &'static str, done: u64, total: u64) {
        let Some(bar) = &self.bar else {
            return;
        };
        let started = self.started.get().unwrap_or_else(Instant::now);
        self.started.set(Some(started));
        if started.elapsed() < PATIENCE {
            return;
        }
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_message(what);
        bar.set_length(total);
        bar.set_position(done);
    }

    /// Takes the bar away; the next work shows it anew.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            bar.set_draw_target(ProgressDrawTarget::hidden());
            bar.reset();
        }
        self.started.set(None);
    }
}

fn hidden_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {percent}%") {
        bar.set_style(style);
    }
    bar
}
