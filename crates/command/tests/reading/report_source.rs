//! `report --source`: the lines of code of a stack, from where the program was
//! built or from where its source is now.

use std::path::Path;
use std::process::Command;

use crate::support::{Ended, Recording, Text, allotrope, compiled, line_of, record, source_text};
use serde_json::Value;

const C: &str = "attribution.c";

fn report(trace: &Path, options: &[&str]) -> Ended {
    let trace = trace.to_str().expect("plain names");
    allotrope(["report", trace].iter().chain(options)).ok()
}

/// The line of the program marked `MARK name`, as it is shown.
fn line(mark: &str) -> String {
    let source = source_text(C);
    let line = source.lines().nth(line_of(C, mark) as usize - 1);
    line.expect("it was just found").trim().to_owned()
}

#[test]
fn each_frame_with_source_shows_its_line() {
    let recording = record(compiled(C)).arg("chain").run().ok();
    let shown = report(&recording.trace, &["--source", "--metric", "allocations"]).text();
    // The output is 100 columns wide; a longer line is cut.
    let begin = |mark| line(mark).chars().take(20).collect::<String>();
    for mark in ["leaf", "middle", "outer-middle", "main-outer"] {
        assert!(shown.contains(&begin(mark)), "{mark}: {shown}");
    }
    shown.fits(100);
    let without = report(&recording.trace, &["--metric", "allocations"]).text();
    assert!(!without.contains(&begin("leaf")), "{without}");

    report(&recording.trace, &["--source", "--site", "1"]).has("│");

    let json: Value = report(&recording.trace, &["--source", "--format", "json"]).json();
    crate::support::schema::check(&json);
    let frames = json["frames"].as_array().expect("checked");
    let leaf = frames
        .iter()
        .find(|frame| frame["line"] == line_of(C, "leaf"));
    assert_eq!(leaf.expect("it allocates")["source"], line("leaf"));
}

/// A program whose source is moved away after it was built.
fn moved() -> (Recording, std::path::PathBuf, std::path::PathBuf) {
    let run = record("./program").arg("chain");
    let (built, now) = (run.folder().join("built"), run.folder().join("now"));
    std::fs::create_dir(&built).expect("the folder is ours");
    std::fs::write(built.join(C), source_text(C)).expect("the folder is ours");
    let done = Command::new("cc")
        .args([
            "-g",
            "-O1",
            "-fno-builtin",
            "-fno-optimize-sibling-calls",
            "-pthread",
            "-w",
        ])
        .arg(built.join(C))
        .arg("-o")
        .arg(run.folder().join("program"))
        .status();
    assert!(done.expect("a C compiler is there").success());
    std::fs::rename(&built, &now).expect("the folder is ours");
    (run.run().ok(), built, now)
}

#[test]
fn moved_source_is_reported_once_and_found_by_source_path() {
    let (recording, built, now) = moved();
    let shown = report(&recording.trace, &["--source"]).text();
    assert!(!shown.contains(&line("leaf")), "{shown}");
    assert_eq!(
        shown.matches("--source-path PREFIX=DIR").count(),
        1,
        "{shown}"
    );
    let pair = format!("{}={}", built.display(), now.display());
    let options = ["--source", "--source-path", &pair, "--all-frames"];
    let shown = report(&recording.trace, &options).text();
    let begin: String = line("leaf").chars().take(20).collect();
    shown.has(&begin);

    let trace = recording.trace.to_str().expect("plain names");
    allotrope(["report", trace, "--source", "--source-path", "x"]).code(2);
}

/// A program that was built from a source in the folder in which it will be recorded.
struct Built {
    run: crate::support::Record,
    source: std::path::PathBuf,
    program: std::path::PathBuf,
}

fn built(compiler: &str, flags: &[&str]) -> Option<Built> {
    let run = record("./program").arg("chain");
    let (source, program) = (run.folder().join(C), run.folder().join("program"));
    std::fs::write(&source, source_text(C)).expect("the folder is ours");
    let done = Command::new(compiler)
        .args(["-O1", "-fno-builtin", "-pthread", "-w"])
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    if done.is_err() {
        crate::support::skip(&format!("{compiler} is not installed"));
        return None;
    }
    assert!(done.expect("it runs").success());
    Some(Built {
        run,
        source,
        program,
    })
}

const NEWER: &str = "Written after the program was built";
const OTHER: &str = "Not the source that was compiled";

fn notes(recording: &Recording) -> (bool, bool) {
    let shown = report(&recording.trace, &["--source", "--lists"]).text();
    // Sentences are broken into lines.
    let shown: Vec<&str> = shown.split_whitespace().collect();
    let shown = shown.join(" ");
    (shown.contains(NEWER), shown.contains(OTHER))
}

/// clang writes the MD5 sum of each source into DWARF 5: times do not matter.
#[test]
fn a_source_with_a_sum_is_compared_with_what_was_compiled() {
    let Some(Built { run, source, .. }) = built("clang", &["-gdwarf-5"]) else {
        return;
    };
    // It is edited before the recording, with a time from before the build.
    let original = std::fs::read(&source).expect("ours");
    let edited = [b"// A line more.\n", &original[..]].concat();
    std::fs::write(&source, edited).expect("ours");
    set_time(&source, -3600);
    let recording = run.run().ok();
    assert_eq!(notes(&recording), (false, true));
    // It is as it was, and new.
    std::fs::write(&source, original).expect("ours");
    set_time(&source, 3600);
    assert_eq!(notes(&recording), (false, false));
}

/// Without sums, a source that was written after the program was built may differ.
#[test]
fn a_source_without_a_sum_is_compared_by_time_with_the_program() {
    for flags in [&["-gdwarf-4"][..], &["-gdwarf-4", "-Wl,--build-id=none"]] {
        let Some(it) = built("cc", flags) else { return };
        set_time(&it.source, -7200);
        set_time(&it.program, -3600);
        let recording = it.run.run().ok();
        assert_eq!(notes(&recording), (false, false), "{flags:?}");
        // After the build, but before the recording.
        set_time(&it.source, -1800);
        assert_eq!(notes(&recording), (true, false), "{flags:?}");
    }
}

/// Sets a file's time of modification to so many seconds from now.
fn set_time(path: &Path, seconds: i64) {
    let difference = std::time::Duration::from_secs(seconds.unsigned_abs());
    let now = std::time::SystemTime::now();
    let time = match seconds < 0 {
        true => now - difference,
        false => now + difference,
    };
    let file = std::fs::File::options().append(true).open(path);
    file.and_then(|file| file.set_modified(time)).expect("ours");
}
