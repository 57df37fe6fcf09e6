//! "How to debug allocation regressions" of SwiftNIO, the current version: comparing aggregated
//! stacks, and heaptrack's flow on Linux. What both versions show first is in `swift_nio_older`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::support::record::command;
use crate::support::{Ended, Recording, Text, line_of, record, run};

use super::swift_nio_older::{RECORDED, SOURCE, program};

/// The branch, as often as the base in `RECORDED`.
static BRANCH: LazyLock<Recording> = LazyLock::new(|| record(program(true)).arg("11").run());

/// Two outputs of `malloc-aggregation.d`, with the stacks that the document shows.
fn aggregated(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    tests.join("reading/diff_stacks").join(name)
}

fn diff(before: &Path, after: &Path, options: &[&str]) -> Ended {
    let mut diff = command();
    run(diff.arg("diff").arg(before).arg(after).args(options), b"")
}

/// The comparison of the text files, for people and in stackdiff's sections.
static COMPARED: LazyLock<[String; 3]> = LazyLock::new(|| {
    let compare = |options: &[&str]| {
        let (before, after) = (aggregated("before.txt"), aggregated("after.txt"));
        diff(&before, &after, options).ok().text()
    };
    [
        compare(&[]),
        compare(&["--format", "sections"]),
        compare(&["--all-frames", "--expand"]),
    ]
});

/// `record` of one run, with a variable of the document.
static ENDED: LazyLock<Recording> = LazyLock::new(|| {
    let disabled = record(program(false)).env("SWIFTNIO_URING_DISABLED", "1");
    disabled.arg("11").run()
});

fn temporary(recording: &Recording, options: &[&str]) -> String {
    let mut report = command();
    report
        .args(["report", "--metric", "temporary"])
        .args(options);
    run(report.arg(&recording.trace), b"").ok().text()
}

#[test]
fn line_28_two_text_files_are_compared() {
    COMPARED[0].has("total").has("257,000  289,022");
}

#[test]
fn line_29_only_in_after() {
    let [_, sections, _] = &*COMPARED;
    sections.has("### only in AFTER\n22022\nlibsystem_malloc.dylib`malloc\n");
}

#[test]
fn line_30_only_in_before() {
    COMPARED[1].has("### only in BEFORE\n");
}

#[test]
fn line_31_different_numbers_with_full_stacks_of_both() {
    COMPARED[1]
        .has("### different numbers\nbefore: 10000, after: 20000\n")
        .has("  AFTER\n    10000\n")
        .has("  BEFORE\n    10000\n");
}

#[test]
fn line_32_similar_stacks_have_a_head_and_are_indented_below_it() {
    COMPARED[1].has("\n    22022\n        libsystem_malloc.dylib`malloc\n");
}

#[test]
fn line_33_whole_stacks_with_their_offsets() {
    COMPARED[2]
        .has("+0x66")
        .has("+0x1c4")
        .has("swift_slowAlloc");
}

#[test]
fn line_34_small_differences_are_left_out_by_a_number_of_ones_own() {
    let (before, after) = (aggregated("before.txt"), aggregated("after.txt"));
    let printed = diff(&before, &after, &["--min", "20000"]).ok();
    printed
        .has("curry thunk")
        .has("1 more entry below 20,000 with +10,000");
}

#[test]
fn line_35_a_clone_with_another_number_is_dismissed() {
    COMPARED[0].has("$s3NIO7Channel_TRTA.33 → $s3NIO7Channel_TRTA.18");
    COMPARED[1].lacks("TRTA.33");
}

#[test]
fn line_36_an_inserted_or_specialized_frame_is_the_same_stack() {
    let moved = COMPARED[0]
        .split("Moved or renamed")
        .nth(1)
        .expect("a list");
    moved.has("specialized BaseStreamSocketChannel.readFromSocket()");
}

#[test]
fn line_37_the_difference_is_in_do_requests_at_two_places() {
    COMPARED[0]
        .has("doRequests(group:number:)")
        .has("at +0x66")
        .has("at +0x1c4");
}

/// A build without optimisation beside one with it, and another compiler.
#[test]
fn line_38_the_compiler_may_be_the_cause() {
    use std::process::Command;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let build = |compiler: &str, level: &str| {
        let path = folder.path().join(format!("{compiler}{level}"));
        let mut build = Command::new(compiler);
        build.args(["-g", "-w", "-pthread", "-fno-builtin", level, "-o"]);
        build.arg(&path).arg(crate::support::source_path(SOURCE));
        let built = build.status().is_ok_and(|it| it.success());
        built.then(|| record(path).arg("1").run())
    };
    let (Some(gcc), Some(clang), Some(plain)) = (
        build("gcc", "-O2"),
        build("clang", "-O2"),
        build("clang", "-O0"),
    ) else {
        return crate::support::skip("clang or gcc is not installed");
    };
    let other = diff(&gcc.trace, &clang.trace, &[]).ok();
    other.says("compilers: ").says("clang version");
    let report = |recording: &Recording| {
        let mut report = command();
        run(report.arg("report").arg(&recording.trace), b"")
            .ok()
            .text()
    };
    report(&plain).has("was built without optimisation");
    report(&clang).lacks("was built without optimisation");
}

#[test]
fn line_39_swift_names_are_demangled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stacks = |count: u32| {
        let path = folder.path().join(format!("{count}.folded"));
        let text = format!("main;$s3NIO10ByteBufferV8capacitySivg {count}\n");
        std::fs::write(&path, text).expect("the folder is ours");
        path
    };
    let printed = diff(&stacks(1), &stacks(3), &[]).ok();
    printed.has("ByteBuffer").lacks("$s3NIO");
}

#[test]
fn line_40_one_file_is_enough() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let alone = folder.path().join("allotrope");
    std::fs::copy(env!("CARGO_BIN_EXE_allotrope"), &alone).expect("the folder is ours");
    let mut record = std::process::Command::new(&alone);
    record
        .args(["record", "-o"])
        .arg(folder.path().join("x.allotrope"));
    record.arg("--").arg(program(false)).env_remove("PATH");
    run(&mut record, b"").ok().says("allocations  75,001");
}

#[test]
fn line_41_a_variable_reaches_the_program() {
    ENDED
        .stderr
        .has("SWIFTNIO_URING_DISABLED set, disabling liburing.");
}

#[test]
fn line_42_where_the_recording_is_written() {
    ENDED.stderr.has("trace ").has(".allotrope");
}

#[test]
fn line_43_what_the_program_prints_is_passed_on() {
    let lines: Vec<&str> = ENDED.stderr.lines().collect();
    let own = lines.iter().position(|line| line.starts_with("SWIFTNIO"));
    assert!(own.is_some_and(|own| own < lines.len() - 1), "{lines:?}");
}

#[test]
fn line_44_the_data_of_an_aborted_program_is_whole() {
    let aborted = record(program(false)).arg("abort").run();
    assert_eq!(aborted.ended.status.code(), Some(134));
    assert_eq!(aborted.report().only().total("allocations"), 75_001);
}

#[test]
fn line_45_allocations_leaked_and_temporary_at_the_end() {
    // 11 times 75,001.
    ENDED
        .stderr
        .has("allocations  825,011")
        .has("leaked       0")
        .has("temporary    825,011");
}

#[test]
fn line_46_the_next_command_is_said() {
    ENDED.stderr.has("next         allotrope report ");
}

#[test]
fn line_47_the_difference_of_temporary_allocations() {
    let printed = diff(&RECORDED.trace, &BRANCH.trace, &["--metric", "temporary"]).ok();
    printed.has("new +11,000  debug_print").has("1 entry");
    let printed = diff(&RECORDED.trace, &BRANCH.trace, &["--metric", "leaked"]).ok();
    printed.has("Nothing is different.");
}

#[test]
fn line_48_so_many_temporary_of_so_many() {
    temporary(&RECORDED, &[]).has("of 231,000").has("of 33,000");
}

#[test]
fn line_49_function_and_line_and_how_many_more_places() {
    let printed = temporary(&RECORDED, &["--top", "1"]);
    printed
        .has(format!("{SOURCE}:"))
        .has("run_callbacks")
        .has("3 more");
}

#[test]
fn line_50_no_share_is_above_100_percent() {
    let printed = temporary(&BRANCH, &[]);
    let words: Vec<&str> = printed.split_whitespace().collect();
    let shares = words.windows(2).filter(|pair| pair[1] == "%");
    let shares: Vec<f64> = shares.filter_map(|pair| pair[0].parse().ok()).collect();
    assert!(shares.len() >= 5, "{printed}");
    assert!(shares.iter().all(|share| *share <= 100.0), "{printed}");
}

#[test]
fn line_51_the_culprit_and_its_line() {
    let printed = diff(&RECORDED.trace, &BRANCH.trace, &["--metric", "temporary"]).ok();
    let line = format!("{SOURCE}:{}", line_of(SOURCE, "debug_print"));
    printed.has(line).has("← debug_print ← do_requests");
}

#[test]
fn line_52_a_third_run_confirms_that_it_vanished() {
    let third = record(program(false)).arg("11").run();
    let printed = diff(&RECORDED.trace, &third.trace, &["--metric", "temporary"]).ok();
    printed.has("Nothing is different.");
}
