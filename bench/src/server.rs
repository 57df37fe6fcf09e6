//! The clients of a server under measurement: redis-benchmark and wrk.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::job::{Client, ClientKind};

/// The kinds of requests: strings, lists and hashes, written and read.
const KINDS: &str = "set,get,lpush,hset";
/// Time limit until the server listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A port that is currently free.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// What a client counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requests {
    /// Requests that were answered.
    pub number: f64,
    /// Requests per second, over all kinds.
    pub rate: f64,
}

/// Sends all requests and stops the server, whose files are in `folder`.
pub fn run_client(client: &Client, folder: &Path) -> Result<Requests> {
    wait_until_it_listens(client.port)?;
    match client.kind {
        ClientKind::Redis => run_redis_benchmark(client),
        ClientKind::Wrk => run_wrk(client, folder),
    }
}

fn run_wrk(client: &Client, folder: &Path) -> Result<Requests> {
    let output = Command::new("wrk")
        .args(["-t", "1", "-c", "16", "-H", "Accept-Encoding: gzip", "-d"])
        .arg(format!("{}s", client.amount))
        .arg(format!("http://127.0.0.1:{}/index.html", client.port))
        .stdin(Stdio::null())
        .output()
        .context("cannot start wrk")?;
    let process = std::fs::read_to_string(folder.join("server.pid"))?;
    let process = process.trim().parse().ok().and_then(Pid::from_raw);
    let process = process.context("the server left no process id")?;
    kill_process(process, Signal::TERM)?;
    ensure!(output.status.success(), "wrk failed");
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        !text.contains("Non-2xx"),
        "the server answered with errors: {text}"
    );
    requests(&text).with_context(|| format!("wrk gave no figure: {text}"))
}

/// Reads the lines `NUMBER requests in TIME, …` and `Requests/sec: RATE` of wrk.
fn requests(wrk: &str) -> Option<Requests> {
    let line = |form: fn(&str) -> Option<&str>| wrk.lines().map(str::trim).find_map(form);
    let number = line(|it| Some(it.split_once(" requests in ")?.0))?;
    let rate = line(|it| it.strip_prefix("Requests/sec:"))?;
    Some(Requests {
        number: number.parse().ok()?,
        rate: rate.trim().parse().ok()?,
    })
}

fn run_redis_benchmark(client: &Client) -> Result<Requests> {
    let port = client.port.to_string();
    let output = Command::new("redis-benchmark")
        .args([
            "-p", &port, "-t", KINDS, "--csv", "-r", "100000", "-d", "64", "-n",
        ])
        .arg(client.amount.to_string())
        .stdin(Stdio::null())
        .output()
        .context("cannot start redis-benchmark")?;
    let ended = Command::new("redis-cli")
        .args(["-p", &port, "shutdown", "nosave"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ended.context("cannot start redis-cli")?;
    ensure!(output.status.success(), "redis-benchmark failed");
    Ok(Requests {
        number: (client.amount * KINDS.split(',').count() as u64) as f64,
        rate: rate(&String::from_utf8_lossy(&output.stdout))?,
    })
}

fn wait_until_it_listens(port: u16) -> Result<()> {
    let start = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if start.elapsed() > START_TIMEOUT {
            bail!("the server does not listen");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Requests per second over all kinds, from lines `"KIND","REQUESTS A SECOND",…`: the
/// harmonic mean of the rates, because there are equally many requests of each kind.
fn rate(csv: &str) -> Result<f64> {
    let rates: Vec<f64> = csv
        .lines()
        .filter_map(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok())
        .collect();
    ensure!(!rates.is_empty(), "redis-benchmark gave no figures: {csv}");
    Ok(rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_all_requests() {
        // 100 at 50/s take 2 s, 100 at 100/s take 1 s: 200 in 3 s.
        let csv = "\"test\",\"rps\"\n\"SET\",\"50.0\",\"1\"\n\"GET\",\"100.0\",\"1\"\n";
        assert!((rate(csv).unwrap() - 200.0 / 3.0).abs() < 1e-9);
        assert!(rate("nothing").is_err());
    }

    #[test]
    fn wrk_counts_requests() {
        let text = "Running 2s test\n  1200 requests in 2.00s, 1.00MB read\nRequests/sec:  600.5\n";
        let (number, rate) = (1200.0, 600.5);
        assert_eq!(requests(text), Some(Requests { number, rate }));
        assert_eq!(requests("Requests/sec:  600.5\n"), None);
    }
}
