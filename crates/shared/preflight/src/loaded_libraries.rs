//! The libraries that the loader would load for a program, as the loader lists them
//! (ld.so(8), `--list`). The program itself is not run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Paths of the libraries, preloaded ones included, that `loader` finds for the
/// program at `path` with this value of `LD_PRELOAD`; empty if the loader cannot
/// be run or fails.
pub fn of(loader: &Path, path: &Path, preload: Option<&OsStr>) -> Vec<PathBuf> {
    let mut command = Command::new(loader);
    command.arg("--list").arg(path);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    match preload {
        Some(list) => command.env("LD_PRELOAD", list),
        None => command.env_remove("LD_PRELOAD"),
    };
    match command.output() {
        Ok(output) if output.status.success() => parse(&output.stdout),
        _ => Vec::new(),
    }
}

/// Parses lines of the form `name => /path (0xaddress)` or `/path (0xaddress)`; skips
/// others.
fn parse(list: &[u8]) -> Vec<PathBuf> {
    let path = |line: &[u8]| {
        let line = line.trim_ascii();
        let end = line.windows(4).rposition(|part| part == b" (0x")?;
        let found = &line[..end];
        let arrow = found.windows(4).position(|part| part == b" => ");
        let path = arrow.map_or(found, |at| &found[at + 4..]);
        path.starts_with(b"/")
            .then(|| PathBuf::from(OsString::from(OsStr::from_bytes(path))))
    };
    list.split(|byte| *byte == b'\n').filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_line_are_parsed() {
        let list = b"\tlinux-vdso.so.1 (0x00007ffd)\n\
            \t/opt/a b/liba.so (0x00007f01)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f02)\n\
            \tlibmissing.so => not found\n";
        let expected = ["/opt/a b/liba.so", "/lib/x86_64-linux-gnu/libc.so.6"];
        assert_eq!(parse(list), expected.map(PathBuf::from));
    }

    #[test]
    fn a_loader_that_cannot_be_run_lists_nothing() {
        assert!(
            of(
                Path::new("/nonexistent/ld.so"),
                Path::new("/bin/true"),
                None
            )
            .is_empty()
        );
    }
}
