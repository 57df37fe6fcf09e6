//! A command that has ended. Each check fails with the command line, the status and both output
//! streams, so a test that runs a command and checks what it did is a line:
//!
//! ```ignore
//! let report = allotrope(["report", "--format", "json", file]).ok().json();
//! allotrope(["report", "no-such-file"]).fails(2, "no-such-file");
//! ```

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;

use serde_json::Value;

/// A longer stream is cut in a failure's message.
const MAX_SHOWN_BYTES: usize = 20_000;

/// A command that has ended, and everything that it wrote.
#[derive(Clone)]
pub struct Ended {
    /// The command line, for messages.
    pub command: String,
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Ended {
    /// Fails unless the exit status is 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Fails unless the command exited with this status.
    #[track_caller]
    pub fn code(self, status: i32) -> Self {
        assert_eq!(self.status.code(), Some(status), "{self}");
        self
    }

    /// Fails unless the command exited with this status and has this text in its stderr.
    #[track_caller]
    pub fn fails(self, status: i32, sentence: impl AsRef<str>) -> Self {
        self.code(status).says(sentence)
    }

    /// Fails unless stdout has this text.
    #[track_caller]
    pub fn has(self, part: impl AsRef<str>) -> Self {
        let part = part.as_ref();
        assert!(self.text().contains(part), "no {part:?} in stdout: {self}");
        self
    }

    /// Fails if stdout has this text.
    #[track_caller]
    pub fn lacks(self, part: impl AsRef<str>) -> Self {
        let part = part.as_ref();
        assert!(!self.text().contains(part), "{part:?} in stdout: {self}");
        self
    }

    /// Fails unless stderr has this text.
    #[track_caller]
    pub fn says(self, part: impl AsRef<str>) -> Self {
        let part = part.as_ref();
        assert!(
            self.errors().contains(part),
            "no {part:?} in stderr: {self}"
        );
        self
    }

    /// Fails unless stderr has this number of lines.
    #[track_caller]
    pub fn error_lines(self, number: usize) -> Self {
        assert_eq!(self.errors().lines().count(), number, "{self}");
        self
    }

    /// Stdout, which must be UTF-8.
    #[track_caller]
    pub fn text(&self) -> String {
        let text = String::from_utf8(self.stdout.clone());
        text.unwrap_or_else(|error| panic!("{error} in stdout: {self}"))
    }

    /// What follows this word in the line of stdout that has it: a command that a log proposes.
    #[track_caller]
    pub fn after(&self, word: &str) -> String {
        let text = self.text();
        let found = text.lines().find_map(|line| line.split_once(word));
        let (_, rest) = found.unwrap_or_else(|| panic!("no {word:?} in stdout: {self}"));
        rest.trim().to_owned()
    }

    /// Stderr, for messages: bytes that are not UTF-8 are replaced.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Stdout, which must be JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value = serde_json::from_slice(&self.stdout);
        value.unwrap_or_else(|error| panic!("{error} in stdout: {self}"))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |bytes: &[u8]| {
            let bytes = &bytes[..bytes.len().min(MAX_SHOWN_BYTES)];
            String::from_utf8_lossy(bytes).into_owned()
        };
        let (stdout, stderr) = (shown(&self.stdout), shown(&self.stderr));
        let Self {
            command, status, ..
        } = self;
        write!(f, "{command}\n{status}\nstdout: {stdout}\nstderr: {stderr}")
    }
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Checks each case, and fails with all cases for which the check has failed: the first one hides
/// no other.
#[track_caller]
pub fn check_each<T: Copy + fmt::Debug>(cases: impl IntoIterator<Item = T>, check: impl Fn(T)) {
    let fails = |case: T| {
        let check = AssertUnwindSafe(|| check(case));
        let payload = catch_unwind(check).err()?;
        let message = payload.downcast_ref::<String>().cloned();
        Some(format!("{case:?}: {}", message.unwrap_or_default()))
    };
    let failed: Vec<String> = cases.into_iter().filter_map(fails).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Checks of a text that fail with the whole text.
pub trait Text {
    /// Fails unless this part is in the text.
    fn has(&self, part: impl AsRef<str>) -> &Self;

    /// Fails if this part is in the text.
    fn lacks(&self, part: impl AsRef<str>) -> &Self;

    /// Fails unless each line has at most this number of characters.
    fn fits(&self, columns: usize) -> &Self;

    /// Fails unless each of these parts is in the text.
    #[track_caller]
    fn has_all<P: AsRef<str>>(&self, parts: impl IntoIterator<Item = P>) -> &Self {
        for part in parts {
            self.has(part);
        }
        self
    }

    /// Fails if one of these parts is in the text.
    #[track_caller]
    fn lacks_all<P: AsRef<str>>(&self, parts: impl IntoIterator<Item = P>) -> &Self {
        for part in parts {
            self.lacks(part);
        }
        self
    }
}

impl Text for str {
    #[track_caller]
    fn has(&self, part: impl AsRef<str>) -> &Self {
        let part = part.as_ref();
        assert!(self.contains(part), "no {part:?} in:\n{self}");
        self
    }

    #[track_caller]
    fn lacks(&self, part: impl AsRef<str>) -> &Self {
        let part = part.as_ref();
        assert!(!self.contains(part), "{part:?} in:\n{self}");
        self
    }

    #[track_caller]
    fn fits(&self, columns: usize) -> &Self {
        let mut lines = self.lines();
        let fit = lines.all(|line| line.chars().count() <= columns);
        assert!(fit, "a line has more than {columns} columns:\n{self}");
        self
    }
}
