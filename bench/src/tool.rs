//! The ways to run a program: plain, recorded or watched by Allotrope, recorded by
//! heaptrack, with another allocator that samples.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::workshop::{Linked, installed};

/// Address space limit for heaptrack: its interpreter may grow without bound, and must
/// not exhaust the machine's memory.
const PEER_MEMORY: u64 = 8 << 30;

const COUNTS_ONLY: &str = "--counts-only";
const FREE_STACKS: &str = "--free-stacks";

/// A way to run a program.
#[derive(Debug, Clone)]
pub enum Tool {
    /// The program runs without a tool.
    Plain,
    /// `allotrope record`, with this binary.
    Allotrope(PathBuf),
    /// `allotrope record --counts-only`, with this binary.
    Counts(PathBuf),
    /// `allotrope record --free-stacks`, with this binary.
    FreeStacks(PathBuf),
    /// `allotrope standby`, with this binary: sampled with this period, if there is one.
    Watched {
        /// The command.
        path: PathBuf,
        /// The name in tables.
        name: &'static str,
        /// The period.
        period: Option<&'static str>,
    },
    /// The program runs without a tool, with an allocator that is preloaded.
    Preloaded {
        /// The name in tables.
        name: &'static str,
        /// The allocator.
        library: PathBuf,
        /// A variable with a setting of it.
        setting: &'static str,
    },
    /// heaptrack, and its reader.
    Heaptrack {
        /// The command that records.
        heaptrack: PathBuf,
        /// The command that reads a trace.
        print: PathBuf,
    },
}

impl Tool {
    /// The command `allotrope` at this path.
    pub fn allotrope(path: &Path) -> Result<Self> {
        let path = path.canonicalize().with_context(|| {
            format!(
                "{} is not there; `cargo build --release` makes it",
                path.display()
            )
        })?;
        Ok(Self::Allotrope(path))
    }

    /// Returns the same command with `--counts-only`, if it has that option.
    pub fn counting(&self) -> Option<Self> {
        self.with_option(COUNTS_ONLY).map(Self::Counts)
    }

    /// Returns the same command with `--free-stacks`, if it has that option.
    pub fn free_stacks(&self) -> Option<Self> {
        self.with_option(FREE_STACKS).map(Self::FreeStacks)
    }

    /// The path of the command `allotrope`, if its `record` has the option.
    fn with_option(&self, option: &str) -> Option<PathBuf> {
        let Self::Allotrope(path) = self else {
            return None;
        };
        let mut help = Command::new(path);
        let output = help
            .args(["record", "--help"])
            .stdin(Stdio::null())
            .output();
        let text = output.ok()?.stdout;
        String::from_utf8_lossy(&text)
            .contains(option)
            .then(|| path.clone())
    }

    /// heaptrack, if it is installed.
    pub fn heaptrack() -> Result<Self> {
        Ok(Self::Heaptrack {
            heaptrack: installed("heaptrack")?,
            print: installed("heaptrack_print")?,
        })
    }

    /// Returns the tool's name in tables and files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Allotrope(_) => "allotrope",
            Self::Counts(_) => "counts",
            Self::FreeStacks(_) => "free-stacks",
            Self::Watched { name, .. } | Self::Preloaded { name, .. } => name,
            Self::Heaptrack { .. } => "heaptrack",
        }
    }

    /// The command line before the program, which writes the trace to `trace`.
    pub fn prefix(&self, trace: &Path) -> Vec<OsString> {
        match self {
            Self::Plain => Vec::new(),
            Self::Allotrope(path) => record(path, &[], trace),
            Self::Counts(path) => record(path, &[COUNTS_ONLY], trace),
            Self::FreeStacks(path) => record(path, &[FREE_STACKS], trace),
            Self::Watched { path, period, .. } => {
                let mut command: Vec<OsString> =
                    vec![path.into(), "standby".into(), "--no-holder".into()];
                command.extend(period.iter().flat_map(|it| ["--period".into(), it.into()]));
                command.push("--".into());
                command
            }
            Self::Preloaded {
                library, setting, ..
            } => {
                let mut preload = OsString::from("LD_PRELOAD=");
                preload.push(library);
                vec!["/usr/bin/env".into(), preload, setting.into()]
            }
            Self::Heaptrack { heaptrack, .. } => {
                vec![heaptrack.into(), "-o".into(), trace.into()]
            }
        }
    }

    /// The launcher for the program. heaptrack's library removes itself from the
    /// environment of a process that loads it, so its launcher must not load it.
    pub fn launcher(&self) -> Linked {
        match self {
            Self::Allotrope(_) | Self::Counts(_) | Self::FreeStacks(_) | Self::Watched { .. } => {
                Linked::Dynamically
            }
            _ => Linked::Statically,
        }
    }

    /// Whether it leaves a trace.
    pub fn records(&self) -> bool {
        !matches!(
            self,
            Self::Plain | Self::Watched { .. } | Self::Preloaded { .. }
        )
    }

    /// Limit of its processes' address space in bytes.
    pub fn memory_limit(&self) -> Option<u64> {
        matches!(self, Self::Heaptrack { .. }).then_some(PEER_MEMORY)
    }

    /// The file that the tool wrote for `trace`: some append a suffix.
    pub fn trace(&self, trace: &Path) -> Result<PathBuf> {
        let suffixes = ["", ".zst", ".gz"];
        let names = suffixes.map(|suffix| {
            let mut name = trace.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        });
        let found = names.into_iter().find(|name| name.is_file());
        let found = found.context("no trace was left")?;
        ensure!(found.metadata()?.len() > 0, "the trace is empty");
        Ok(found)
    }

    /// The command that reads a trace; `None` if reading is not measured.
    pub fn report(&self, trace: &Path) -> Option<Vec<OsString>> {
        match self {
            Self::Plain | Self::Counts(_) | Self::Watched { .. } | Self::Preloaded { .. } => None,
            Self::Allotrope(path) | Self::FreeStacks(path) => Some(vec![
                path.into(),
                "report".into(),
                "--format".into(),
                "json".into(),
                trace.into(),
            ]),
            Self::Heaptrack { print, .. } => Some(vec![print.into(), "-f".into(), trace.into()]),
        }
    }
}

fn record(allotrope: &Path, options: &[&str], trace: &Path) -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![allotrope.into(), "record".into(), "-q".into()];
    command.extend(options.iter().map(Into::into));
    command.extend(["-o".into(), trace.into(), "--".into()]);
    command
}
