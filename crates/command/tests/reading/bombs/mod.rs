//! Small files that are made to cost much: one or more for each format of other tools, and each
//! command that reads them. A command on such a file ends within a bound of CPU time and of
//! memory: because it takes no more, or because it refuses the file with one sentence that
//! names `--input-limit`.
//!
//! Each file has at most 10 MB. It is made by a generator, always the same one. With
//! `ALLOTROPE_SLOW=1` every command reads every file; else each file is read by some of them.

mod bomb;
mod command;
mod names;
mod packed;
mod protobuf;

use std::process::{Command, Stdio};

use crate::support::Text;
use bomb::BOMBS;
use command::{Ended, Folder};

/// The largest file.
const MAX: usize = 10_000_000;

/// What each file is read with; BOMB is the file, SMALL an ordinary one.
const COMMANDS: &[&str] = &[
    "diff SMALL BOMB",
    "export --format folded BOMB",
    "diff BOMB SMALL --format json",
    "diff --html OUTPUT.html SMALL BOMB",
    "diff --flamegraph OUTPUT.svg SMALL BOMB",
    "export --format pprof -o OUTPUT BOMB",
    "export --format dhat BOMB",
    "export --format stacks BOMB",
    "export --format json BOMB",
];
/// Number of commands that suffice to see that a file is refused, which its reader does.
const ENOUGH: usize = 2;

/// Runs the commands on each bomb of a format.
fn end_everything(format: &str) {
    let folder = Folder::new();
    let of_format = |name: &str| name.split(':').next() == Some(format);
    let bombs = BOMBS.iter().enumerate();
    let mut bombs = bombs.filter(|(_, it)| of_format(it.name)).peekable();
    assert!(bombs.peek().is_some(), "there is none of {format}");
    let all = std::env::var_os("ALLOTROPE_SLOW").is_some();
    let mut findings = Vec::new();
    for (number, bomb) in bombs {
        let (name, is_refused) = (bomb.name, bomb.is_refused);
        let bytes = bomb.make();
        let length = bytes.len();
        assert!(length <= MAX, "{name}: {length} bytes");
        folder.write("bomb", &bytes);
        // Each command has its turn with another bomb.
        let (from, count) = match (is_refused, all) {
            (true, _) => (0, ENOUGH),
            (false, true) => (0, COMMANDS.len()),
            (false, false) => (number, ENOUGH),
        };
        for line in COMMANDS.iter().cycle().skip(from).take(count) {
            let Ended { status, message } = folder.run(line, Stdio::null());
            let is_right = match is_refused {
                true => status == Some(2) && refuses(&message),
                // An output that would be too large is refused, too.
                false => match status {
                    Some(0 | 2) => true,
                    Some(1) => message.contains("the output would have more than"),
                    _ => false,
                },
            };
            if !is_right || message.contains("panicked") {
                let start: String = message.chars().take(1_000).collect();
                findings.push(format!("{name}: `allotrope {line}`: {status:?}\n{start}"));
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Whether it is one sentence that names the file and the option.
fn refuses(message: &str) -> bool {
    let lines: Vec<&str> = message.lines().collect();
    matches!(lines[..], [line] if line.contains("/bomb") && line.contains("--input-limit SIZE"))
}

#[test]
fn compressed_files_unpack_to_a_bounded_length() {
    end_everything("zstd");
    end_everything("gzip");
}

#[test]
fn text_of_tools_costs_a_bounded_time_and_memory() {
    end_everything("dtrace");
    end_everything("bpftrace");
    end_everything("heaptrack_print");
}

#[test]
fn folded_stacks_cost_a_bounded_time_and_memory() {
    end_everything("folded");
}

#[test]
fn pprof_profiles_cost_a_bounded_time_and_memory() {
    end_everything("pprof");
}

#[test]
fn heaptrack_files_cost_a_bounded_time_and_memory() {
    end_everything("heaptrack");
}

#[test]
fn json_costs_a_bounded_time_and_memory() {
    end_everything("DHAT");
    end_everything("JSON");
}

#[test]
fn text_heap_profiles_cost_a_bounded_time_and_memory() {
    end_everything("heap profile");
}

/// A pipe that never ends, with a line that never ends.
#[test]
fn an_endless_line_of_perf_is_refused() {
    let folder = Folder::new();
    let mut endless = Command::new("tr")
        .args(["\\000", "x"])
        .stdin(std::fs::File::open("/dev/zero").expect("there is one"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("tr(1)");
    let output = endless.stdout.take().expect("it has a pipe");
    let line = "watch --perf-script - --input-limit 64MiB";
    let Ended { status, message } = folder.run(line, output.into());
    let _ = endless.kill();
    let _ = endless.wait();
    assert_eq!(status, Some(2), "{message}");
    message.has_all(["more than 64.0 MiB", "--input-limit SIZE"]);
}

/// Each event is of another process and has another stack.
#[test]
fn events_of_perf_cost_a_bounded_memory() {
    use std::fmt::Write as _;
    let folder = Folder::new();
    let mut text = String::new();
    for number in 0..100_000 {
        let _ = write!(
            text,
            "x {number} [0] 5.0: sdt_libpoireau:malloc: (1) arg1={number} arg2=2 arg3=3\n {number:x} f{number} (m)\n"
        );
    }
    assert!(text.len() < MAX);
    folder.write("bomb", text.as_bytes());
    for format in ["text", "json"] {
        let line = format!("watch --perf-script BOMB --format {format}");
        let Ended { status, message } = folder.run(&line, Stdio::null());
        assert!(
            status == Some(0) || status == Some(2) && refuses(&message),
            "{status:?}: {message}"
        );
    }
}

/// The limits of a small file, and of a large one that is wanted.
#[test]
fn the_option_lowers_and_raises_all_limits() {
    let folder = Folder::new();
    folder.write("bomb", &b"main;f 1\n".repeat(1_000));
    let Ended { status, message } = folder.run("diff --input-limit 8KiB SMALL BOMB", Stdio::null());
    assert_eq!(status, Some(2), "{message}");
    assert!(refuses(&message), "{message}");
    message.has("more than 8.0 KiB");
    let Ended { status, message } = folder.run("diff --input-limit 1MiB SMALL BOMB", Stdio::null());
    assert_eq!(status, Some(0), "{message}");
}
