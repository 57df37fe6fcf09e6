//! A line on stderr that shows how far long work is, and disappears afterwards. `progress.rs`
//! decides when there is one.

use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Characters of a full bar.
const WIDTH: u64 = 30;
/// The time between two pictures of a spinner.
const TICK: Duration = Duration::from_millis(150);
const PICTURES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// A bar for work whose progress is known.
#[derive(Debug, Default)]
pub struct Bar {
    shown: String,
}

impl Bar {
    /// Shows that `done` of `total` parts are done.
    pub fn show(&mut self, what: &str, done: u64, total: u64) {
        let done = done.min(total);
        let part =
            |whole: u64| (u128::from(done) * u128::from(whole) / u128::from(total.max(1))) as u64;
        let full = part(WIDTH);
        let bar: String = (0..WIDTH)
            .map(|it| if it < full { '█' } else { '░' })
            .collect();
        let line = format!("{what} {bar} {}%", part(100));
        if line != self.shown {
            draw(&line);
            self.shown = line;
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        draw("");
    }
}

/// A turning picture for work whose progress is not known, drawn by a thread of its own.
#[derive(Debug)]
pub struct Spinner {
    /// Its end ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Shows it until it is dropped.
    pub fn new(what: String) -> Self {
        let (stop, stopped) = channel();
        let start = Instant::now();
        let turn = move || {
            for picture in PICTURES.iter().cycle() {
                draw(&format!(
                    "{picture} {what}, {} s",
                    start.elapsed().as_secs()
                ));
                if stopped.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            draw("");
        };
        Self {
            stop: Some(stop),
            // Without a thread there is no spinner.
            thread: std::thread::Builder::new().spawn(turn).ok(),
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stop = None;
        // Its line must be gone before anything else is printed.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Replaces the line. A terminal that has gone is no reason to fail.
fn draw(line: &str) {
    let columns = terminal_size::terminal_size_of(io::stderr());
    let columns = columns.map_or(80, |(columns, _)| usize::from(columns.0));
    let line: String = line.chars().take(columns.saturating_sub(1)).collect();
    let _ = write!(io::stderr(), "\r\x1b[2K{line}");
}
