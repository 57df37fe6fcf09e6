//! The terminal of the live view: raw mode, the alternate screen, and the keys that are typed
//! (ECMA-48; xterm, "Control Sequences").

use std::io::{self, Write};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use allotrope_watch::live::View;
use allotrope_watch::live::key::{First, Key};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Columns and lines of a terminal that does not say them.
const USUAL_SIZE: (usize, usize) = (80, 24);
/// The rest of a cursor key's bytes comes within this time; otherwise it was the escape key.
const PATIENCE: Duration = Duration::from_millis(25);
/// The most bytes that are typed in a moment.
const MAX_TYPED: usize = 1 << 10;

/// The terminal's settings before the view.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal while the view has it.
pub struct Terminal {
    /// The lines on the screen, as they were sent.
    screen: Vec<String>,
    size: (usize, usize),
}

impl Terminal {
    /// Takes the terminal. A panic gives it back.
    pub fn new() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                hook(panic);
            }));
        });
        let mut terminal = Self {
            screen: Vec::new(),
            size: (0, 0),
        };
        terminal.take()?;
        Ok(terminal)
    }

    /// Takes the terminal again after [`restore`].
    pub fn take(&mut self) -> io::Result<()> {
        self.size = (0, 0);
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        send(ENTER)
    }

    /// Draws what has changed since the last time, in the terminal's present size.
    pub fn draw(&mut self, view: &View) -> io::Result<()> {
        let size = tcgetwinsize(stdout())?;
        let size = match (usize::from(size.ws_col), usize::from(size.ws_row)) {
            (0, _) | (_, 0) => USUAL_SIZE,
            size => size,
        };
        let mut text = String::new();
        if size != self.size {
            self.size = size;
            self.screen.clear();
            text.push_str("\x1b[2J");
        }
        let (columns, lines) = size;
        let lines = view.lines(columns, lines);
        let lines: Vec<String> = lines.iter().map(|it| it.encoded(columns)).collect();
        for (place, line) in lines.iter().enumerate() {
            if self.screen.get(place) != Some(line) {
                text.push_str(&format!("\x1b[{};1H\x1b[2K{line}", place + 1));
            }
        }
        self.screen = lines;
        send(&text)
    }

    /// The keys that have been typed. There must be bytes to read.
    pub fn keys(&self) -> io::Result<Vec<Key>> {
        let mut keys = Vec::new();
        let mut bytes = Vec::new();
        let mut place = 0;
        loop {
            let mut more = [0; 256];
            let count = rustix::io::read(stdin(), &mut more)?;
            bytes.extend_from_slice(&more[..count]);
            while place < bytes.len() {
                let (key, length) = match Key::first(&bytes[place..]) {
                    First::Key(key, length) => (key, length),
                    First::Incomplete if has_more() && bytes.len() < MAX_TYPED => break,
                    First::Incomplete => {
                        let is_escape = bytes[place] == 0x1b;
                        (is_escape.then_some(Key::Esc), bytes.len() - place)
                    }
                };
                keys.extend(key);
                place += length;
            }
            if place >= bytes.len() || count == 0 {
                return Ok(keys);
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back, if the view has it. It may have gone.
pub fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = send(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

fn send(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Whether more bytes come within [`PATIENCE`].
fn has_more() -> bool {
    let input = stdin();
    let mut wanted = [PollFd::new(&input, PollFlags::IN)];
    let patience = Timespec::try_from(PATIENCE).ok();
    poll(&mut wanted, patience.as_ref()).is_ok_and(|it| it > 0)
}
