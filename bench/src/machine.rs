//! Describes the machine of a measurement in one line.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// CPU, memory, kernel, C library, compilers and heaptrack's version.
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
        format!(
            "{processor}, {processors} CPUs, {gib:.0} GiB; two CPUs at once did {:.2} times the work of one",
            work_of_two()
        ),
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

/// Throughput of two busy threads relative to one: 2 on two cores, little more than 1
/// if two CPUs are threads of one core, or belong to a host with other guests. In the
/// latter case the collector's work slows the program down, and a ratio of wall times
/// contains the CPU time of both.
fn work_of_two() -> f64 {
    let mut alone = 0;
    let mut both = 0;
    for _ in 0..3 {
        alone += work();
        let other = std::thread::spawn(work);
        both += work() + other.join().unwrap_or_default();
    }
    both as f64 / alone as f64
}

/// The number of rounds of independent arithmetic in a fifth of a second.
fn work() -> u64 {
    let end = Instant::now() + Duration::from_millis(200);
    let mut sums = [1u64; 8];
    let mut rounds = 0;
    while Instant::now() < end {
        for _ in 0..10_000 {
            for sum in &mut sums {
                *sum = black_box(sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ *sum >> 7);
            }
        }
        rounds += 1;
    }
    rounds
}

/// The load average of the last minute.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or_default()
}

/// The current date in UTC and the commit that is checked out.
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
