//! `allotrope view` without a file: the recordings of the current folder. On a terminal one is
//! chosen; elsewhere a sentence names the newest.

use std::fs::Metadata;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use allotrope_text::numbers::{bytes, count, duration};
use allotrope_text::{Shown, quoted};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, Failure};
use crate::message;

/// The most recordings that are listed.
const MAX: usize = 9;

/// A recording of the folder.
struct Recording {
    path: PathBuf,
    modified: SystemTime,
    bytes: u64,
}

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

/// The recordings of a folder by their names, the newest first.
fn recordings(folder: &Path) -> Vec<Recording> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let recording = |entry: std::fs::DirEntry| {
        let name = PathBuf::from(entry.file_name());
        // Hidden ones are not finished.
        let is_hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
        let is_recording = name.extension().is_some_and(|it| it == "allotrope") && !is_hidden;
        let metadata = std::fs::metadata(entry.path()).ok();
        let metadata = metadata
            .filter(Metadata::is_file)
            .filter(|_| is_recording)?;
        Some(Recording {
            path: name,
            modified: metadata.modified().ok()?,
            bytes: metadata.len(),
        })
    };
    let mut all: Vec<Recording> = entries.filter_map(recording).collect();
    all.sort_by(|a, b| (b.modified, &a.path).cmp(&(a.modified, &b.path)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn recordings_are_listed_with_the_newest_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, age) in [
            ("old.allotrope", 60),
            ("new.allotrope", 5),
            (".part.allotrope", 1),
            ("x.txt", 2),
        ] {
            let path = folder.path().join(name);
            let file = std::fs::File::create(&path).expect("writable");
            let then = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(then).expect("its time can be set");
        }
        std::fs::create_dir(folder.path().join("folder.allotrope")).expect("writable");
        let found = recordings(folder.path());
        let names: Vec<_> = found
            .iter()
            .map(|it| it.path.to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["new.allotrope", "old.allotrope"]);
    }
}
