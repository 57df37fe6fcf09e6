//! Runs the command with limits of memory and of CPU time, which does not depend on what else
//! the machine does.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Writable memory.
const MEMORY: u64 = 1 << 30;
/// CPU time in seconds. The aim is 30 of a released command; tests may run less optimised ones.
const CPU_SECONDS: u64 = 90;
/// One that uses no CPU time and waits for ever ends here.
const DEADLINE: Duration = Duration::from_secs(1200);

/// A folder with the files of one test.
pub struct Folder(tempfile::TempDir);

/// How a command ended.
pub struct Ended {
    /// Exit status of the command; none if a limit or a signal ended it.
    pub status: Option<i32>,
    /// What it printed on stderr.
    pub message: String,
}

impl Folder {
    /// Makes a folder with an ordinary file `small`.
    pub fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary folder"));
        folder.write("small", b"main;f 1\nmain;g 2\n");
        folder
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("the folder is ours");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `allotrope` with these words, of which some stand for files, and this input.
    pub fn run(&self, line: &str, input: Stdio) -> Ended {
        let arguments = line.split(' ').map(|word| match word {
            "BOMB" => self.path("bomb").into_os_string(),
            "SMALL" => self.path("small").into_os_string(),
            word if word.starts_with("OUTPUT") => self.path(word).into_os_string(),
            word => word.into(),
        });
        let stderr = fs::File::create(self.path("stderr")).expect("the folder is ours");
        let mut child = Command::new("sh")
            .args([
                "-c",
                "ulimit -d \"$1\"; ulimit -t \"$2\"; shift 2; exec \"$@\"",
                "sh",
            ])
            .args([(MEMORY >> 10).to_string(), CPU_SECONDS.to_string()])
            .arg(env!("CARGO_BIN_EXE_allotrope"))
            .args(arguments)
            .env("DEBUGINFOD_URLS", "")
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("a shell");
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it is our child") {
                break status.code();
            }
            if begun.elapsed() > DEADLINE {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            thread::sleep(Duration::from_millis(5));
        };
        let message = fs::read(self.path("stderr")).unwrap_or_default();
        let message = String::from_utf8_lossy(&message).into_owned();
        Ended { status, message }
    }
}
