//! What the launcher process and the collector say to each other: one JSON object
//! a line, the launcher's on the collector's standard input, the collector's on
//! its standard output. How the lines travel is the business of `launcher`.

mod any_bytes;

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What the launcher says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FromLauncher {
    /// RootProcess of all: begin. Answered by [`ToLauncher::Ready`] or [`ToLauncher::Failed`].
    Start(Start),
    /// The recorded program was started (before its `exec` or after it). A
    /// launcher that says this gets an [`ToLauncher::Done`] with a reason when the
    /// program turns out not to be recordable.
    FirstStarted {
        /// Its process id.
        pid: u32,
    },
    /// The recorded program has stopped, and the launcher is about to stop itself,
    /// as one job. Should the program go on or end while the launcher stays
    /// stopped, the collector continues the launcher.
    FirstStopped {
        /// The launcher's process id.
        launcher: u32,
    },
    /// The launcher goes on after [`Self::FirstStopped`].
    LauncherContinued,
    /// The recorded program has been waited for. This, not the end of its
    /// image, is the end of the first process; no recording ends before it
    /// unless the launcher is gone.
    FirstEnded(FirstExit),
    /// End the recording now, although images still run. They run on.
    Stop,
}

/// What is to be recorded and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The trace file; replaced if it exists.
    #[serde(with = "any_bytes")]
    pub output: PathBuf,
    /// The file that the launcher made there. It is not written if its name has
    /// come to lead elsewhere.
    #[serde(default)]
    pub made: Option<MadeFile>,
    /// The command as the user gave it.
    #[serde(with = "any_bytes::many")]
    pub command: Vec<OsString>,
    /// What the program does when the collector falls behind.
    #[serde(default)]
    pub on_full: OnFull,
    /// Record children and what the program `exec`s, too.
    #[serde(default = "yes")]
    pub follow: bool,
    /// Stacks are cut at this many frames; 1 to 4096.
    #[serde(default = "deepest")]
    pub depth_limit: u32,
    /// Follow frame pointers where code has no unwind information.
    #[serde(default)]
    pub frame_pointers: bool,
    /// Count calls only: no stacks, no events.
    #[serde(default)]
    pub counts_only: bool,
    /// Version of the tool, for the trace.
    #[serde(default)]
    pub tool_version: String,
    /// Folders laid out like `/usr/lib/debug`, to be searched before it.
    #[serde(default, with = "any_bytes::many")]
    pub debug_folders: Vec<PathBuf>,
    /// A copy of a file system, below which modules and debug files are sought.
    #[serde(default, with = "any_bytes::optional")]
    pub sysroot: Option<PathBuf>,
    /// Servers that debug files are fetched from.
    #[serde(default)]
    pub debuginfod_servers: Vec<String>,
}

impl Start {
    /// Records `command` into `output`, everything else as by default.
    pub fn new(output: impl Into<PathBuf>, command: Vec<OsString>) -> Self {
        Self {
            output: output.into(),
            made: None,
            command,
            on_full: OnFull::default(),
            follow: true,
            depth_limit: deepest(),
            frame_pointers: false,
            counts_only: false,
            tool_version: String::new(),
            debug_folders: Vec::new(),
            sysroot: None,
            debuginfod_servers: Vec::new(),
        }
    }
}

/// An empty trace file that only its owner can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFile {
    /// Its device number.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// The mode that it gets when the trace is complete.
    pub mode: u32,
}

const fn yes() -> bool {
    true
}

const fn deepest() -> u32 {
    4096
}

/// What a program does whose ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// It waits.
    #[default]
    Block,
    /// It drops the event; the loss is counted.
    Drop,
}

/// How the first process ended, as `waitpid` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstExit {
    /// Normal exit with this status.
    Status(i32),
    /// Death by this signal.
    Signal(i32),
}

/// What the collector says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToLauncher {
    /// The program may be started.
    Ready {
        /// Value for the environment variable
        /// `allotrope_shm::layout::ENVIRONMENT_VARIABLE`.
        arena: String,
    },
    /// The first process has ended and these have not; said again whenever
    /// the set has changed, never empty.
    Waiting {
        /// Process ids, ascending.
        pids: Vec<u32>,
    },
    /// Recording is over; addresses get their names.
    Symbolising {
        /// Modules done.
        done: u32,
        /// Modules in all.
        total: u32,
        /// How far the module at hand is, if that takes long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Part>,
    },
    /// The trace is complete. Last message.
    Done(Done),
    /// The trace could not be written, or no further. Last message.
    Failed {
        /// A sentence for the user.
        message: String,
    },
}

/// How far the work on one module has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// A debug file is being fetched (counted in bytes); otherwise debug
    /// information is read (counted in units).
    pub fetching: bool,
    /// Done so far.
    pub done: u64,
    /// In all; 0 if unknown.
    pub total: u64,
}

/// What became of the recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Done {
    /// Length of the trace file.
    pub bytes: u64,
    /// Process images recorded. With 0 the file holds no event and the launcher
    /// may remove it.
    pub images: u32,
    /// Counted events recorded.
    pub events: u64,
    /// Events known to be missing.
    pub lost_events: u64,
    /// Images that could not be recorded.
    pub unrecorded: Vec<Unrecorded>,
    /// What went wrong with names, a sentence each.
    #[serde(default)]
    pub complaints: Vec<String>,
}

/// An image that could not be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unrecorded {
    /// Its process id.
    pub pid: u32,
    /// The executable.
    #[serde(with = "any_bytes")]
    pub executable: PathBuf,
    /// Why, and what to do.
    pub reason: String,
    /// It was recorded, but not all of what it allocated.
    pub partly: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_needs_only_an_output_and_a_command() {
        let line = r#"{"kind":"start","output":"/tmp/x","command":["a","b"]}"#;
        let expected = Start::new("/tmp/x", vec!["a".into(), "b".into()]);
        assert_eq!(
            serde_json::from_str::<FromLauncher>(line).unwrap(),
            FromLauncher::Start(expected)
        );
    }

    #[test]
    fn paths_and_arguments_may_hold_any_bytes() {
        use std::os::unix::ffi::OsStringExt;
        let raw = || OsString::from_vec(b"\xff\n\"/\xe9".to_vec());
        let start = Start {
            debug_folders: vec![raw().into(), "/plain".into()],
            sysroot: Some(raw().into()),
            ..Start::new(raw(), vec!["plain".into(), raw()])
        };
        let message = FromLauncher::Start(start);
        let line = serde_json::to_string(&message).unwrap();
        assert!(line.contains("\"plain\""), "{line}");
        assert_eq!(
            serde_json::from_str::<FromLauncher>(&line).unwrap(),
            message
        );
        let done = ToLauncher::Done(Done {
            unrecorded: vec![Unrecorded {
                pid: 1,
                executable: raw().into(),
                reason: String::new(),
                partly: false,
            }],
            ..Done::default()
        });
        let line = serde_json::to_string(&done).unwrap();
        assert_eq!(serde_json::from_str::<ToLauncher>(&line).unwrap(), done);
    }

    #[test]
    fn messages_come_back_as_they_were_sent() {
        for message in [
            FromLauncher::FirstStarted { pid: 5 },
            FromLauncher::FirstEnded(FirstExit::Status(7)),
            FromLauncher::FirstEnded(FirstExit::Signal(9)),
            FromLauncher::FirstStopped { launcher: 6 },
            FromLauncher::LauncherContinued,
            FromLauncher::Stop,
        ] {
            let line = serde_json::to_string(&message).unwrap();
            assert_eq!(
                serde_json::from_str::<FromLauncher>(&line).unwrap(),
                message
            );
        }
    }

    #[test]
    fn an_end_is_one_flat_object() {
        let line = serde_json::to_string(&FromLauncher::FirstEnded(FirstExit::Signal(9))).unwrap();
        assert_eq!(line, r#"{"kind":"first_ended","signal":9}"#);
    }
}
