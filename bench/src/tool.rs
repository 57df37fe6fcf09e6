//! The ways to run a program: plain, recorded by Allotrope, recorded by
//! heaptrack.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::workshop::{Linked, installed};

/// heaptrack's interpreter may grow without bound; it must not take the
/// machine along.
const PEER_MEMORY: u64 = 8 << 30;

/// A way to run a program.
#[derive(Debug, Clone)]
pub enum Tool {
    /// As it is.
    Plain,
    /// `allotrope record`, this binary.
    Allotrope(PathBuf),
    /// heaptrack, and its reader.
    Heaptrack {
        /// Records.
        heaptrack: PathBuf,
        /// Reads.
        print: PathBuf,
    },
}

impl Tool {
    /// The command that was built in the repository, or another.
    pub fn allotrope(path: &Path) -> Result<Self> {
        let path = path.canonicalize().with_context(|| {
            format!(
                "{} is not there; `cargo build --release` makes it",
                path.display()
            )
        })?;
        Ok(Self::Allotrope(path))
    }

    /// heaptrack, where it is installed.
    pub fn heaptrack() -> Result<Self> {
        Ok(Self::Heaptrack {
            heaptrack: installed("heaptrack")?,
            print: installed("heaptrack_print")?,
        })
    }

    /// Its name in tables and files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Allotrope(_) => "allotrope",
            Self::Heaptrack { .. } => "heaptrack",
        }
    }

    /// What stands before the program, so that the trace lies at `trace`.
    pub fn prefix(&self, trace: &Path) -> Vec<OsString> {
        match self {
            Self::Plain => Vec::new(),
            Self::Allotrope(path) => vec![
                path.into(),
                "record".into(),
                "-q".into(),
                "-o".into(),
                trace.into(),
                "--".into(),
            ],
            Self::Heaptrack { heaptrack, .. } => {
                vec![heaptrack.into(), "-o".into(), trace.into()]
            }
        }
    }

    /// Which launcher a program is started through. heaptrack's library takes
    /// itself out of the environment of a process that it is loaded into.
    pub fn launcher(&self) -> Linked {
        match self {
            Self::Allotrope(_) => Linked::Dynamically,
            _ => Linked::Statically,
        }
    }

    /// Bytes of address space that its processes may have.
    pub fn memory_limit(&self) -> Option<u64> {
        matches!(self, Self::Heaptrack { .. }).then_some(PEER_MEMORY)
    }

    /// The file that was written for `trace`.
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

    /// The command that reads a trace; `None` for plain.
    pub fn report(&self, trace: &Path) -> Option<Vec<OsString>> {
        match self {
            Self::Plain => None,
            Self::Allotrope(path) => Some(vec![
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
