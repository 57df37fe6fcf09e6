//! debuginfod-find, the client of elfutils, as the client of debuginfod. It writes the file that it
//! fetches into the cache.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::progress::{Progress, Work};

const PROGRAM: &str = "debuginfod-find";
/// Default of `DEBUGINFOD_MAXTIME`: seconds for one file.
const MAX_SECONDS: &str = "300";
/// The largest debug file that is fetched, in bytes.
const MAX_BYTES: &str = "17179869184";
/// Characters of its message that are shown.
const MAX_MESSAGE: usize = 200;

/// Whether the program is installed.
pub(super) fn is_there() -> bool {
    program().is_some()
}

fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let is_program = |path: &PathBuf| {
        let metadata = path.metadata();
        metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let mut candidates = std::env::split_paths(&folders).map(|folder| folder.join(PROGRAM));
    candidates.find(is_program)
}

/// All servers, separated by blanks, are asked together: that one does not have a file is noted in
/// the cache, where the program would find it when asked for another one.
pub(super) fn groups(servers: &[String]) -> Vec<String> {
    vec![servers.join(" ")]
}

/// Fetches the debug file with a build id to `path`, which is `CACHE/ID/debuginfo`. Returns `false`
/// if the servers do not have it, or answer with an error: the program does not tell these apart.
pub(super) fn fetch(
    servers: &str,
    build_id: &str,
    path: &Path,
    progress: &Progress,
) -> Result<bool, String> {
    let cache = path.parent().and_then(Path::parent);
    let cache = cache.ok_or("it has no cache")?;
    let program = program().ok_or_else(|| format!("{PROGRAM} is not installed"))?;
    progress.report(Work::Fetching, 0, 0);
    let output = Command::new(program)
        .args(["debuginfo", build_id])
        .env("DEBUGINFOD_URLS", servers)
        .env("DEBUGINFOD_CACHE_PATH", cache)
        .env("DEBUGINFOD_MAXTIME", own("DEBUGINFOD_MAXTIME", MAX_SECONDS))
        .env("DEBUGINFOD_MAXSIZE", own("DEBUGINFOD_MAXSIZE", MAX_BYTES))
        // Its messages are compared.
        .env("LC_ALL", "C")
        .env_remove("DEBUGINFOD_VERBOSE")
        .env_remove("DEBUGINFOD_PROGRESS")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {PROGRAM}: {error}"))?;
    if output.status.success() {
        return Ok(true);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.trim().trim_start_matches("Server query failed: ");
    // The text of ENOENT.
    if message == "No such file or directory" {
        return Ok(false);
    }
    let short = message.chars().take(MAX_MESSAGE).collect::<String>();
    Err(format!("{PROGRAM}: {short}"))
}

/// The user's own value, or else this one.
fn own(variable: &str, default: &str) -> std::ffi::OsString {
    let value = std::env::var_os(variable).filter(|it| !it.is_empty());
    value.unwrap_or_else(|| OsStr::new(default).to_owned())
}
