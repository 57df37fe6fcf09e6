//! Runs mutants in a child process. A mutant that takes too much memory or overflows the
//! stack ends only the child; one that hangs is noticed because the child makes no
//! progress. A new child then continues with the next mutant.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::Seeds;

/// Limit of the child's writable memory. A mutant has some 50 KiB, and its chunks may
/// claim to hold 32 MiB each.
pub const MEMORY: u64 = 1 << 30;
/// CPU time of a mutant in seconds, all threads together. A mutant takes a millisecond.
pub const CPU_SECONDS: u64 = 20;
/// One that uses no CPU time waits for ever: after so long, even under load, it hangs.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// Number of findings after which the run ends.
const MAX_FINDINGS: usize = 20;

const SEED: &str = "ALLOTROPE_FUZZ_SEED";
const FROM: &str = "ALLOTROPE_FUZZ_FROM";
const UNTIL: &str = "ALLOTROPE_FUZZ_UNTIL";
const PROGRESS: &str = "ALLOTROPE_FUZZ_PROGRESS";

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}")),
    )
}

/// The seed, the first mutant and the one after the last; `otherwise` is the number of
/// mutants if none is given.
pub fn wanted(otherwise: u64) -> (u64, u64, u64) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = number(SEED).unwrap_or_else(|| now.map_or(1, |now| now.as_micros() as u64));
    let from = number(FROM).unwrap_or(0);
    let mutants = number("ALLOTROPE_FUZZ_MUTANTS").unwrap_or(otherwise);
    // Not through the macro, whose output is shown only where a test fails.
    let _ = writeln!(
        io::stderr(),
        "seed {seed}, mutants {from} to {}",
        from + mutants
    );
    (seed, from, from + mutants)
}

/// Saves a mutant that a reader did not survive, if there is a folder for it.
pub fn keep(name: &str, bytes: &[u8]) {
    let Some(folder) = env::var_os("ALLOTROPE_FUZZ_KEEP") else {
        return;
    };
    let kept =
        fs::create_dir_all(&folder).and_then(|()| fs::write(Path::new(&folder).join(name), bytes));
    if let Err(error) = kept {
        eprintln!("cannot keep {name}: {error}");
    }
}

/// How a child ended.
enum Ended {
    Well,
    /// The child ended badly at this mutant.
    Badly(u64, String),
}

/// Reads the wanted mutants, `otherwise` many if no number is given; fails if a reader
/// did not survive one of them.
pub fn run(otherwise: u64) {
    let (seed, from, until) = wanted(otherwise);
    let mut findings = Vec::new();
    let mut next = from;
    while next < until && findings.len() < MAX_FINDINGS {
        match batch(seed, next, until) {
            Ended::Well => break,
            Ended::Badly(at, how) => {
                keep(
                    &format!("{seed}-{at}"),
                    Seeds::new().mutant(seed, at).0.bytes(),
                );
                findings.push(format!("mutant {at} {how}"));
                next = at + 1;
            }
        }
    }
    assert!(
        findings.is_empty(),
        "{}\nto see one again: {SEED}={seed} {FROM}=NUMBER ALLOTROPE_FUZZ_MUTANTS=1 \
         cargo test --release -p allotrope --test reading mutants_are",
        findings.join("\n")
    );
}

fn batch(seed: u64, from: u64, until: u64) -> Ended {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let progress = folder.path().join("progress");
    fs::write(&progress, from.to_le_bytes()).expect("the folder is ours");
    let program = env::current_exe().expect("a test knows itself");
    let mut child = Command::new(program)
        .args(["--exact", "reader_fuzz::batch", "--ignored", "--nocapture"])
        .env(SEED, seed.to_string())
        .env(FROM, from.to_string())
        .env(UNTIL, until.to_string())
        .env(PROGRESS, &progress)
        .spawn()
        .expect("a test can start itself");
    let at = || {
        let mut bytes = [0; 8];
        let read = File::open(&progress).and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.expect("the folder is ours");
        u64::from_le_bytes(bytes)
    };
    match wait(&mut child, at) {
        None => Ended::Badly(at(), format!("hangs: it had {} s", DEADLINE.as_secs())),
        Some(status) if status.success() => Ended::Well,
        Some(status) => Ended::Badly(at(), how(status)),
    }
}

/// How a reader or a command ended that did not end well.
pub fn how(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) if signal == Signal::XCPU.as_raw() => {
            format!("takes more than {CPU_SECONDS} s of CPU time")
        }
        _ => format!("ends the reader: {status}"),
    }
}

/// Waits while the child makes progress. Returns how it ended; `None` if it made none and was
/// killed.
fn wait(child: &mut Child, at: impl Fn() -> u64) -> Option<ExitStatus> {
    let (mut last, mut since) = (at(), Instant::now());
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return Some(status);
        }
        let now = at();
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > DEADLINE {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// What the child does: stops at the first mutant that makes a reader panic.
pub fn child() {
    let (Some(seed), Some(from), Some(until)) = (number(SEED), number(FROM), number(UNTIL)) else {
        return;
    };
    let progress = env::var_os(PROGRESS).expect("the parent names it");
    let progress = File::options().write(true).open(progress);
    let progress = progress.expect("the parent made it");
    let limit = Rlimit {
        current: Some(MEMORY),
        maximum: Some(MEMORY),
    };
    setrlimit(Resource::Data, limit).expect("a limit may always be lowered");
    let seeds = Seeds::new();
    for number in from..until {
        let written = progress.write_all_at(&number.to_le_bytes(), 0);
        written.expect("the parent made it");
        limit_cpu_time();
        assert!(seeds.survives(seed, number), "mutant {number}");
        if (number + 1) % 100_000 == 0 {
            eprintln!("{} mutants", number + 1);
        }
    }
}

/// Lets the kernel end this process with SIGXCPU if it takes [`CPU_SECONDS`] from now on.
fn limit_cpu_time() {
    let taken = clock_gettime(ClockId::ProcessCPUTime)
        .tv_sec
        .cast_unsigned();
    let limit = Rlimit {
        // The seconds so far are rounded down.
        current: Some(taken + 1 + CPU_SECONDS),
        ..getrlimit(Resource::Cpu)
    };
    setrlimit(Resource::Cpu, limit).expect("there is no higher limit to keep to");
}
