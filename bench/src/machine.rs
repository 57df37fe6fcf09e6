//! What was measured on, in a line or two.

use std::process::{Command, Stdio};

/// Processor, memory, kernel, compilers, peers, and how busy it was.
pub fn describe() -> String {
    let processor = line_of("/proc/cpuinfo", "model name");
    let memory = line_of("/proc/meminfo", "MemTotal");
    let gib = memory
        .split_whitespace()
        .next()
        .and_then(|kib| kib.parse::<f64>().ok())
        .map_or(0.0, |kib| kib / (1 << 20) as f64);
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let parts = [
        format!("{processor}, {processors} CPUs, {gib:.0} GiB"),
        format!("Linux {}", first_line("uname", &["-r"])),
        first_line("ldd", &["--version"]),
        first_line("g++", &["--version"]),
        first_line("rustc", &["--version"]),
        first_line("heaptrack", &["--version"]),
    ];
    parts
        .iter()
        .filter(|part| !part.is_empty())
        .cloned()
        .collect::<Vec<_>>()
        .join("; ")
}

/// Processes that wanted to run in the last minute.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or_default()
}

/// Today, in UTC, and the commit that is checked out.
pub fn when_and_what() -> String {
    let repository = crate::workshop::repository().display().to_string();
    let commit = first_line("git", &["-C", &repository, "rev-parse", "--short", "HEAD"]);
    let date = first_line("date", &["-u", "+%Y-%m-%d"]);
    if commit.is_empty() {
        date
    } else {
        format!("{date}, commit {commit}")
    }
}

fn line_of(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}
