//! Runs a command with limits of the kernel.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What a command may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of address space.
    pub memory: u64,
    /// Seconds of processor time of all threads together.
    pub seconds: u64,
}

impl Limits {
    /// Besides the memory that it may take, a process has the address space of its threads' stacks
    /// and arenas. The time is twice the 30 s that an ordinary machine may need.
    pub const OF_TESTS: Self = Self {
        memory: 5 << 29,
        seconds: 60,
    };
}

/// Two recordings in a folder, and where a command writes.
pub struct Recording {
    folder: TempDir,
    file: PathBuf,
    other: PathBuf,
}

/// How a command ended.
pub struct Ended {
    /// Exit status; `None` after a signal.
    pub code: Option<i32>,
    /// The first megabyte of its output.
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Whether it ended by itself, with a status that is documented and a reason for it.
    pub fn ends(&self) -> Result<(), String> {
        let is_plain = !self.stderr.contains("panicked");
        match self.code {
            Some(0) if is_plain => Ok(()),
            Some(1 | 2) if is_plain && self.stderr.starts_with("allotrope: ") => Ok(()),
            Some(code) => Err(format!("status {code}: {}", self.stderr)),
            None => Err(format!("ended by a signal: {}", self.stderr)),
        }
    }
}

impl Recording {
    pub fn new(file: Vec<u8>, other: Vec<u8>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let paths = ["file", "other"].map(|it| folder.path().join(it));
        for (path, bytes) in paths.iter().zip([file, other]) {
            fs::write(path, bytes).expect("the folder is ours");
        }
        fs::create_dir(folder.path().join("written")).expect("the folder is ours");
        let [file, other] = paths;
        Self {
            folder,
            file,
            other,
        }
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    pub fn other(&self) -> &Path {
        &self.other
    }

    /// Where a command writes.
    pub fn out(&self) -> PathBuf {
        self.folder.path().join("written/out")
    }

    /// What the last command printed.
    pub fn stdout(&self) -> PathBuf {
        self.folder.path().join("stdout")
    }

    /// What is in the folder to which commands write, unfinished files included.
    pub fn written(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("written")).expect("it is ours");
        entries.flatten().map(|entry| entry.path()).collect()
    }

    /// The arguments of a line in which FILE, OTHER and OUT stand for files.
    pub fn arguments(&self, line: &str) -> Vec<OsString> {
        let words = line.split(' ').map(|word| match word {
            "FILE" => self.file.clone().into_os_string(),
            "OTHER" => self.other.clone().into_os_string(),
            "OUT" => self.out().into_os_string(),
            word => word.into(),
        });
        words.collect()
    }

    /// Runs a command to its end.
    pub fn run(&self, line: &str, limits: Limits) -> Ended {
        for written in self.written() {
            fs::remove_file(written).expect("the folder is ours");
        }
        let paths = ["stdout", "stderr"].map(|it| self.folder.path().join(it));
        let [stdout, stderr] = paths
            .each_ref()
            .map(|path| File::create(path).expect("the folder is ours"));
        let status = Command::new("sh")
            .args(["-c", "ulimit -c 0 -v $1 -t $2; shift 2; exec \"$@\"", "sh"])
            .arg((limits.memory >> 10).to_string())
            .arg(limits.seconds.to_string())
            .arg(env!("CARGO_BIN_EXE_allotrope"))
            .args(self.arguments(line))
            .env("DEBUGINFOD_URLS", "")
            // Indexes of debug files are written there.
            .env("XDG_CACHE_HOME", self.folder.path())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .status()
            .expect("a shell");
        let [stdout, stderr] = paths.map(|path| {
            let mut bytes = Vec::new();
            let file = File::open(path).expect("it was made");
            let mut start = std::io::Read::take(file, 1 << 20);
            std::io::Read::read_to_end(&mut start, &mut bytes).expect("it is a file");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ended {
            code: status.code(),
            stdout,
            stderr,
        }
    }
}
