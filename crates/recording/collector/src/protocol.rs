//! The messages between the launcher process and the collector: one JSON object per
//! line, from the launcher on the collector's standard input, from the collector on its
//! standard output. `launcher` reads and writes the lines.

mod any_bytes;

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A message from the launcher. The "first process" is the one that the launcher starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FromLauncher {
    /// Begins the recording; the first message. The collector answers with
    /// [`ToLauncher::Ready`] or [`ToLauncher::Failed`].
    Start(Box<Start>),
    /// The first process was started (its `exec` may be still to come). Only after
    /// this message does [`ToLauncher::Done`] contain the reason if the program turns
    /// out not to be recordable.
    FirstStarted {
        /// Process id of the first process.
        pid: u32,
    },
    /// The first process has stopped (job control), and the launcher is about to stop
    /// itself. If the process continues or ends while the launcher is still stopped,
    /// the collector continues the launcher.
    FirstStopped {
        /// The launcher's process id.
        launcher: u32,
    },
    /// The launcher runs again after [`Self::FirstStopped`].
    LauncherContinued,
    /// The launcher has waited for the first process. This message, not the end of its
    /// image, is the end of the first process; a recording does not end before it
    /// unless the launcher has ended.
    FirstEnded(FirstExit),
    /// End the recording now. Images that still run continue unrecorded.
    Stop,
}

/// What to record and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The trace file; replaced if it exists.
    #[serde(with = "any_bytes")]
    pub output: PathBuf,
    /// The file that the launcher created at `output`. Recording fails if the path
    /// leads to another file by now.
    #[serde(default)]
    pub made: Option<MadeFile>,
    /// The command as the user gave it.
    #[serde(with = "any_bytes::many")]
    pub command: Vec<OsString>,
    /// What recorded programs do when a ring is full.
    #[serde(default)]
    pub on_full: OnFull,
    /// Also record child processes and programs started by `exec`.
    #[serde(default = "yes")]
    pub follow: bool,
    /// Largest number of frames of a stack; 1 to 4096.
    #[serde(default = "deepest")]
    pub depth_limit: u32,
    /// Unwind by frame pointers where code has no unwind information.
    #[serde(default)]
    pub frame_pointers: bool,
    /// Only count calls: record no stacks and no events.
    #[serde(default)]
    pub counts_only: bool,
    /// Record the stacks of deallocations, too.
    #[serde(default)]
    pub free_stacks: bool,
    /// Look at the exit for blocks to which nothing leads.
    #[serde(default)]
    pub reachability: bool,
    /// Keep the names of environment variables, too.
    #[serde(default)]
    pub environment_names: bool,
    /// The preloaded recorder, which is no part of the program's own environment.
    #[serde(default, with = "any_bytes")]
    pub recorder: PathBuf,
    /// Interval at which [`ToLauncher::Figures`] is sent, in milliseconds; 0: never.
    #[serde(default)]
    pub figures_ms: u64,
    /// Write the names of functions at the end.
    #[serde(default = "yes")]
    pub symbolise: bool,
    /// What becomes of recorded processes that run on after the first one's end.
    #[serde(default)]
    pub left_behind: WhenLeftBehind,
    /// Version of the tool, for the trace.
    #[serde(default)]
    pub tool_version: String,
    /// Folders with the layout of `/usr/lib/debug`, searched before it.
    #[serde(default, with = "any_bytes::many")]
    pub debug_folders: Vec<PathBuf>,
    /// Copy of a file system in which modules and debug files are searched.
    #[serde(default, with = "any_bytes::optional")]
    pub sysroot: Option<PathBuf>,
    /// URLs of the debuginfod servers from which debug files are fetched.
    #[serde(default)]
    pub debuginfod_servers: Vec<String>,
}

impl Start {
    /// A start with the default of every other field.
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
            free_stacks: false,
            reachability: false,
            environment_names: false,
            recorder: PathBuf::new(),
            figures_ms: 0,
            symbolise: true,
            left_behind: WhenLeftBehind::default(),
            tool_version: String::new(),
            debug_folders: Vec::new(),
            sysroot: None,
            debuginfod_servers: Vec::new(),
        }
    }
}

/// An empty trace file, created by the launcher, that only its owner can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFile {
    /// Device number of the file.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
    /// The permission bits that the file gets when the trace is complete.
    pub mode: u32,
}

const fn yes() -> bool {
    true
}

const fn deepest() -> u32 {
    4096
}

/// What a recorded program does when its ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// Waits for the collector.
    #[default]
    Block,
    /// Drops the event and counts the loss.
    Drop,
}

/// What becomes of recorded processes that run on after the first one's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenLeftBehind {
    /// The recording waits for them.
    #[default]
    Wait,
    /// They are ended, and so is the recording.
    End,
    /// They run on; the recording ends without them.
    Leave,
}

/// How the first process ended, from its wait status (wait(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstExit {
    /// Normal exit with this status.
    Status(i32),
    /// Death by this signal.
    Signal(i32),
}

/// A message from the collector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToLauncher {
    /// The program may be started.
    Ready {
        /// Value for the environment variable
        /// `allotrope_shm::layout::ENVIRONMENT_VARIABLE`.
        arena: String,
    },
    /// The first process has ended, but these recorded processes have not. Sent again
    /// whenever the set changes; never empty.
    Waiting {
        /// Process ids, ascending.
        pids: Vec<u32>,
    },
    /// What the running images have allocated so far, if [`Start::figures_ms`] asks for
    /// it. Such messages are left out while the launcher does not read them.
    Figures {
        /// Nanoseconds since the start of the first image.
        ns: u64,
        /// The images in order of start; at most 256.
        images: Vec<ImageFigures>,
    },
    /// Recording is over; the collector symbolises the trace.
    Symbolising {
        /// Modules done.
        done: u32,
        /// Number of modules.
        total: u32,
        /// Progress within the current module, if it takes long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Part>,
    },
    /// The trace is complete. Last message.
    Done(Done),
    /// The recording could not start, or the trace could not be written to its end.
    /// Last message.
    Failed {
        /// The error as a sentence for the user.
        message: String,
    },
}

/// What an image has allocated so far. Freed bytes can differ a little from those that the
/// trace has, which depend on the order of the threads' events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImageFigures {
    /// Number of the image in the recording.
    pub id: u32,
    /// Process id.
    pub pid: u32,
    /// When it began, in nanoseconds since the start of the first image.
    pub started_ns: u64,
    /// Bytes allocated.
    pub allocated_bytes: u64,
    /// Bytes freed, of blocks that the image allocated itself.
    pub deallocated_bytes: u64,
    /// Resident memory without the recorder's; 0 if unknown.
    pub resident_bytes: u64,
    /// Allocations.
    pub allocations: u64,
    /// Deallocations.
    pub deallocations: u64,
}

/// Progress within one module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// A debug file is being fetched (counted in bytes); otherwise debug information is
    /// being read (counted in units).
    pub fetching: bool,
    /// Bytes or units done.
    pub done: u64,
    /// Number of bytes or units; 0 if unknown.
    pub total: u64,
}

/// The result of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Done {
    /// Length of the trace file in bytes.
    pub bytes: u64,
    /// Process images recorded. If 0, the file contains no event and the launcher may
    /// remove it.
    pub images: u32,
    /// Counted events recorded (those with an ordinal: no timestamps and the like).
    pub events: u64,
    /// Events known to be missing.
    pub lost_events: u64,
    /// Images that could not be recorded, or only in part.
    pub unrecorded: Vec<Unrecorded>,
    /// Problems of symbolisation, each a sentence.
    #[serde(default)]
    pub complaints: Vec<String>,
    /// The processes that [`WhenLeftBehind`] concerned.
    #[serde(default)]
    pub left_behind: Vec<LeftBehind>,
}

/// A recorded process that ran on after the first one's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBehind {
    /// Process id.
    pub pid: u32,
    /// Executable of the process.
    #[serde(with = "any_bytes")]
    pub executable: PathBuf,
    /// The signal that ended it; 0: it runs on.
    pub signal: i32,
}

/// An image that could not be recorded, or only in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unrecorded {
    /// Process id.
    pub pid: u32,
    /// The executable.
    #[serde(with = "any_bytes")]
    pub executable: PathBuf,
    /// Why not, and what the user can do.
    pub reason: String,
    /// The image was recorded, but not all of its allocations.
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
            FromLauncher::Start(Box::new(expected))
        );
    }

    #[test]
    fn paths_and_arguments_may_contain_any_bytes() {
        use std::os::unix::ffi::OsStringExt;
        let raw = || OsString::from_vec(b"\xff\n\"/\xe9".to_vec());
        let start = Start {
            debug_folders: vec![raw().into(), "/plain".into()],
            sysroot: Some(raw().into()),
            ..Start::new(raw(), vec!["plain".into(), raw()])
        };
        let message = FromLauncher::Start(Box::new(start));
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
    fn messages_are_read_as_they_were_written() {
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
