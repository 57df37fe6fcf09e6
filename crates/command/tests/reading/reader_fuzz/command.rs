//! The command itself on mutants: fewer, because each is a process.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::numbers::Numbers;
use super::supervise::{CPU_SECONDS, DEADLINE, MEMORY, how, keep, wanted};
use super::{Mutant, Seeds};

/// Arguments of commands that read traces; MUTANT, WHOLE and OUTPUT stand for files.
const OF_TRACES: &[&str] = &[
    "report MUTANT",
    "report --format json MUTANT",
    "report --tree MUTANT",
    "report --tree top-down --all-frames MUTANT",
    "report --site 1 MUTANT",
    "report --site 2 --events MUTANT",
    "report --window w MUTANT",
    "report --window w --format json MUTANT",
    "diff --window w WHOLE MUTANT",
    "symbolize -o OUTPUT MUTANT",
    "symbolize --unverified -o OUTPUT MUTANT",
];
const OF_ALL: &[&str] = &[
    "diff WHOLE MUTANT",
    "diff MUTANT WHOLE --format json",
    "diff WHOLE MUTANT --format sections",
    "diff WHOLE MUTANT --fail-on allocations>+0",
    "export --format folded MUTANT",
    "export --format json MUTANT",
    "export --format dhat MUTANT",
    "export --format pprof -o OUTPUT MUTANT",
    "export --format stacks MUTANT",
];

/// Runs a command on each wanted mutant, but on at most `otherwise` or a hundredth of
/// them, whichever is more.
pub fn run(otherwise: u64) {
    let (seed, from, until) = wanted(otherwise);
    let until = until.min(from + (until - from).min(otherwise.max((until - from) / 100)));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let seeds = Seeds::new();
    let whole = folder.path().join("whole");
    fs::write(&whole, &seeds.traces[3].1[1]).expect("the folder is ours");
    let mut findings = Vec::new();
    for number in from..until {
        let (mutant, mut numbers) = seeds.mutant(seed, number);
        let file = folder.path().join("mutant");
        fs::write(&file, mutant.bytes()).expect("the folder is ours");
        let line = command_of(&mutant, &mut numbers);
        let arguments: Vec<_> = line
            .split(' ')
            .map(|word| match word {
                "MUTANT" => file.clone().into_os_string(),
                "WHOLE" => whole.clone().into_os_string(),
                "OUTPUT" => folder.path().join("output").into_os_string(),
                word => word.into(),
            })
            .collect();
        if let Err(how) = ends(&arguments, folder.path()) {
            keep(&format!("{seed}-{number}-command"), mutant.bytes());
            findings.push(format!("mutant {number}, `allotrope {line}`: {how}"));
        }
    }
    assert!(findings.is_empty(), "seed {seed}:\n{}", findings.join("\n"));
}

fn command_of(mutant: &Mutant, numbers: &mut Numbers) -> &'static str {
    let commands = match mutant {
        Mutant::Trace(_) if numbers.once_in(2) => OF_TRACES,
        _ => OF_ALL,
    };
    commands[numbers.below(commands.len())]
}

/// Runs the command with limited memory and CPU time; it must end by itself, with a documented
/// status.
fn ends(arguments: &[std::ffi::OsString], folder: &Path) -> Result<(), String> {
    let output = fs::File::create(folder.join("stderr")).expect("the folder is ours");
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
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .expect("a shell");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
        if begun.elapsed() > DEADLINE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("hangs: it had {} s", DEADLINE.as_secs()));
        }
        thread::sleep(Duration::from_millis(2));
    };
    let printed = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
    match status.code() {
        Some(0..=3) if !printed.contains("panicked") => Ok(()),
        _ => Err(format!("{}: {printed}", how(status))),
    }
}
