//! Numbers in the status of a process.

/// The number behind a name in the status of a process (`proc_pid_status(5)`).
pub(crate) fn status_field(process: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
