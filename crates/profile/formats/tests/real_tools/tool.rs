//! Finds and runs the tools; prints a reason if that fails.

use std::env;
use std::process::Command;

/// Prints why a test is skipped. Returns `None`, which the caller returns.
pub fn skip<T>(reason: &str) -> Option<T> {
    eprintln!("skipped: {reason}");
    None
}

/// A command that runs a tool of this name, if it is installed.
pub fn tool(name: &str) -> Option<Command> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.exists());
    match found {
        Some(path) => Some(Command::new(path)),
        None => skip(&format!("{name} is not installed")),
    }
}

/// The standard output of a command. If it fails, the test is skipped: a tool that does
/// not work on this machine is no fault of ours.
pub fn output(command: &mut Command) -> Option<String> {
    let run = command.output().ok()?;
    if run.status.success() {
        return Some(String::from_utf8_lossy(&run.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&run.stderr);
    skip(&format!(
        "{:?} ended with {}: {errors}",
        command.get_program(),
        run.status
    ))
}

/// Whether this process may trace the system.
pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        let mut lines = status.lines();
        lines.any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
    })
}
