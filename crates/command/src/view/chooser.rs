//! `allotrope view` without a file: the recordings of the current folder. On a terminal one is
//! chosen; elsewhere a sentence names the newest.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use allotrope_text::numbers::{bytes, count, duration};
use allotrope_text::{Shown, quoted};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, Failure};
use crate::message;
use crate::recordings::recordings;

/// The most recordings that are listed.
const MAX: usize = 9;

/// The recording to view.
///
/// # Errors
/// If there is none, nobody can be asked, or no number of the list is answered.
pub fn choose() -> Result<PathBuf, Failure> {
    let recordings = recordings(Path::new("."));
    let refuse = |sentence: anyhow::Error| Err(Failure::new(BAD_INPUT, sentence));
    let Some(newest) = recordings.first() else {
        return refuse(anyhow!(
            "no recording is named, and this folder has none; `allotrope record -- PROGRAM` makes one, `allotrope view FILE` shows it"
        ));
    };
    let is_asked = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !is_asked {
        let which = match recordings.len() {
            1 => "the only one in this folder".to_owned(),
            many => format!("the newest of {} in this folder", count(many as u64)),
        };
        return refuse(anyhow!(
            "no recording is named; {which} is {}: allotrope view {}",
            newest.path.shown(),
            quoted(newest.path.as_os_str())
        ));
    }
    message::print("recordings in this folder, the newest first:");
    let now = SystemTime::now();
    for (number, recording) in (1..).zip(recordings.iter().take(MAX)) {
        let ago = now.duration_since(recording.modified).unwrap_or_default();
        message::print(format_args!(
            "  {number}  {}, {}, {} ago",
            recording.path.shown(),
            bytes(recording.bytes),
            duration(ago.as_secs_f64() * 1e6)
        ));
    }
    if recordings.len() > MAX {
        let more = count((recordings.len() - MAX) as u64);
        message::print(format_args!("  … {more} older ones"));
    }
    message::print("which one? (a number; Enter: 1)");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    let chosen = match (read, answer.trim()) {
        (Ok(1..), "") => Some(newest),
        (Ok(1..), number) => {
            let number = number.parse::<usize>().ok();
            let index = number.and_then(|number| number.checked_sub(1));
            index.and_then(|index| recordings.get(index))
        }
        _ => None,
    };
    match chosen {
        Some(recording) => Ok(recording.path.clone()),
        None => refuse(anyhow!(
            "no recording was chosen; name one: allotrope view {}",
            quoted(newest.path.as_os_str())
        )),
    }
}
