//! Reads what the launcher wrote about a process: its times and its memory.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The resource usage of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Took {
    /// Start and end on the monotonic clock.
    start: Duration,
    end: Duration,
    /// User and system time, including that of waited-for children.
    pub processor: Duration,
    /// Peak resident set in KiB, the largest of the process and its waited-for children.
    pub peak_kib: u64,
    /// The status as wait(2) returns it.
    pub status: i32,
}

impl Took {
    /// Reads the launcher's line.
    pub fn read(path: &Path) -> Result<Self> {
        let line = std::fs::read_to_string(path).context("the program was not started")?;
        Self::parse(&line)
    }

    fn parse(line: &str) -> Result<Self> {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("the launcher wrote {line:?}"))?;
        let [start, end, user, system, peak_kib, status] = numbers[..] else {
            bail!("the launcher wrote {line:?}");
        };
        Ok(Self {
            start: Duration::from_nanos(start),
            end: Duration::from_nanos(end),
            processor: Duration::from_micros(user + system),
            peak_kib,
            status: i32::try_from(status)?,
        })
    }

    /// Time from start to exit, seconds.
    pub fn wall(&self) -> f64 {
        (self.end.saturating_sub(self.start)).as_secs_f64()
    }

    /// The time from the end of `other` to the end of this process, seconds.
    pub fn ended_after(&self, other: &Self) -> f64 {
        self.end.saturating_sub(other.end).as_secs_f64()
    }

    /// A description of the failure, if the process failed.
    pub fn failure(&self) -> Option<String> {
        match (self.status & 0x7f, self.status >> 8) {
            (0, 0) => None,
            (0, status) => Some(format!("status {status}")),
            (13, _) => Some("ended by SIGPIPE".to_owned()),
            (signal, _) => Some(format!("ended by signal {signal}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_process() {
        let took = Took::parse("1000000000 3500000000 1500000 250000 2048 0\n").unwrap();
        assert_eq!(took.wall(), 2.5);
        assert_eq!(took.processor, Duration::from_millis(1750));
        assert_eq!(took.peak_kib, 2048);
        assert_eq!(took.failure(), None);
        assert!(Took::parse("1 2 3").is_err());
    }

    #[test]
    fn a_failure_is_described() {
        let ended = |status| {
            Took::parse(&format!("0 1 0 0 0 {status}"))
                .unwrap()
                .failure()
        };
        assert_eq!(ended(3 << 8).unwrap(), "status 3");
        assert_eq!(ended(13).unwrap(), "ended by SIGPIPE");
        assert_eq!(ended(9).unwrap(), "ended by signal 9");
    }
}
