//! "How to debug allocation regressions" of SwiftNIO, in both versions: running the allocation
//! counter tests, looking at single allocations, aggregating them by stack.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::support::record::command;
use crate::support::{Ended, Recording, Text, compiled_with, line_of, record, run};

/// The program of the document's shape; its head has the counts.
pub const SOURCE: &str = "nio_counters.c";
/// As a release build without inlining, so that each function has a frame.
const RELEASE: [&str; 5] = [
    "-O1",
    "-fno-builtin",
    "-fno-optimize-sibling-calls",
    "-fno-inline",
    "-pthread",
];
pub const TEST: &str = "test_future_lots_of_callbacks";

/// The program, or that of the branch.
pub fn program(worse: bool) -> std::path::PathBuf {
    let flags = RELEASE.into_iter().chain(worse.then_some("-DWORSE"));
    compiled_with(SOURCE, &flags.collect::<Vec<_>>())
}

/// The folder with the tests, whose numbers were accepted on the base.
struct Suite {
    folder: TempDir,
}

impl Suite {
    fn new() -> Self {
        let suite = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        let configuration = format!(
            "[defaults]\niterations = 1000\n\
             [tests.{TEST}]\ncommand = [\"./{TEST}\"]\n\
             [tests.test_threads]\ncommand = [\"./{TEST}\", \"threads\"]\nruns = 3\n\
             [tests.test_fluctuating]\ncommand = [\"./{TEST}\", \"fluctuate\"]\nruns = 3\n"
        );
        std::fs::write(suite.path().join("allotrope.toml"), configuration).expect("ours");
        suite.build(&program(false));
        suite
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts this program into the folder.
    fn build(&self, program: &Path) {
        let to = self.path().join(TEST);
        let _ = std::fs::remove_file(&to);
        std::fs::copy(program, &to).expect("the folder is ours");
    }

    fn test(&self, arguments: &[&str]) -> Ended {
        let mut command = command();
        command
            .arg("test")
            .args(arguments)
            .current_dir(self.path())
            .env("XDG_CACHE_HOME", self.path().join(".cache"));
        run(&mut command, b"")
    }
}

/// The log of the test as the harness prints it.
static LOG: LazyLock<String> = LazyLock::new(|| {
    let suite = Suite::new();
    suite
        .test(&["--format", "nio", &format!("{TEST}.swift")])
        .code(3)
        .text()
});

/// What `test` says on the base, on the branch, and of the branch against the base's log.
static RED: LazyLock<[String; 3]> = LazyLock::new(|| {
    let suite = Suite::new();
    suite.test(&["--accept", TEST]).ok();
    let green = suite.test(&[TEST]).ok().text();
    std::fs::write(suite.path().join("base.log"), &*LOG).expect("the folder is ours");
    suite.build(&program(true));
    let red = suite.test(&[TEST]).code(3).text();
    let by_log = suite.test(&["--from-log", "base.log", TEST]).code(3).text();
    [green, red, by_log]
});

/// 11 runs in one process: a warm-up and ten.
pub static RECORDED: LazyLock<Recording> = LazyLock::new(|| record(program(false)).arg("11").run());

/// A block that is freed and one that is kept, each 20 ms after what was before.
static KEPT: LazyLock<Recording> = LazyLock::new(|| record(program(false)).arg("keep").run());

fn of_kept(arguments: &[&str]) -> Ended {
    let mut command = command();
    run(command.args(arguments).arg(&KEPT.trace), b"").ok()
}

#[test]
fn line_01_the_whole_suite_with_one_command() {
    let suite = Suite::new();
    let printed = suite.test(&["--accept"]).ok();
    for test in [TEST, "test_threads", "test_fluctuating"] {
        printed.text().has(format!("{test}: allocations none"));
    }
    suite.test(&[]).ok().has("3 tests: 3 passed");
}

#[test]
fn line_02_one_test_by_its_file() {
    LOG.has(format!("{TEST}.total_allocations: "))
        .lacks("test_threads");
}

#[test]
fn line_03_the_header_names_the_test() {
    let first = LOG.lines().next().expect("a line");
    assert!(first.starts_with("- /") && first.ends_with(TEST), "{first}");
}

#[test]
fn line_04_remaining_allocations() {
    LOG.has(format!("{TEST}.remaining_allocations: 0\n"));
}

#[test]
fn line_05_total_allocations_75001() {
    LOG.has(format!("{TEST}.total_allocations: 75001\n"));
}

#[test]
fn line_06_total_allocated_bytes_4138056() {
    LOG.has(format!("{TEST}.total_allocated_bytes: 4138056\n"));
}

#[test]
fn line_07_debug_lists_all_ten_runs() {
    let list = LOG.lines().find(|line| line.starts_with("DEBUG: [["));
    let list = list.expect("a list of runs");
    for part in [
        "remaining_allocations",
        "total_allocations",
        "total_allocated_bytes",
    ] {
        assert_eq!(list.matches(&format!("\"{part}\": ")).count(), 10, "{list}");
    }
}

#[test]
fn line_08_a_warm_up_is_discarded_then_ten_are_measured() {
    let suite = Suite::new();
    suite
        .test(&["--accept", "--runs", "10", "test_fluctuating"])
        .ok();
    let starts = std::fs::read(suite.path().join("starts")).expect("the program wrote it");
    assert_eq!(starts.len(), 11);
}

#[test]
fn line_09_the_number_of_an_iteration_and_the_remainder() {
    RED[0].has("75,001: 75.00 each, 1 over");
}

#[test]
fn line_10_fluctuation_is_flagged() {
    let suite = Suite::new();
    let printed = suite.test(&["--accept", "test_fluctuating"]).ok();
    printed.has("allocations fluctuate");
}

#[test]
fn line_11_counts_of_another_build_are_not_comparable() {
    let suite = Suite::new();
    suite.test(&["--accept", TEST]).ok();
    // Built otherwise, and with another number.
    let flags = RELEASE.map(|flag| flag.replace("-O1", "-O2"));
    let flags = flags.iter().map(String::as_str).chain(["-DWORSE"]);
    suite.build(&compiled_with(SOURCE, &flags.collect::<Vec<_>>()));
    let red = suite.test(&[TEST]).code(3);
    red.has("suspect these before the code")
        .has("compiler options");
}

#[test]
fn line_12_the_base_then_the_branch() {
    // The number is the base's, accepted or in its log; the line is the branch's.
    let line = format!("{SOURCE}:{}", line_of(SOURCE, "debug_print"));
    for red in &RED[1..] {
        red.has("75,001  76,001      +1,000  +1.00");
        red.has("Look at: debug_print, ").has(&line);
        red.lacks("+76,001").lacks("+51,000");
    }
}

#[test]
fn line_13_the_recordings_of_a_red_test_are_kept_and_it_runs_again_at_once() {
    RED[1].has(format!("Run again: allotrope test {TEST}"));
    RED[1].has("Look into: allotrope report /");
}

#[test]
fn line_14_a_build_that_is_no_release_is_said() {
    for compiler in ["gcc", "clang"] {
        let suite = Suite::new();
        let source = crate::support::source_path(SOURCE);
        let mut build = Command::new(compiler);
        build
            .args(["-g", "-w", "-pthread", "-fno-builtin"])
            .arg(source);
        let built = build.arg("-o").arg(suite.path().join(TEST)).status();
        if !built.is_ok_and(|it| it.success()) {
            crate::support::skip(&format!("{compiler} is not installed"));
            continue;
        }
        let accepted = suite.test(&["--accept", TEST]).ok();
        accepted.has("built without optimisation");
        let mut doctor = command();
        doctor.arg("doctor").arg(suite.path().join(TEST));
        run(&mut doctor, b"").has("it was built without optimisation");
        let recorded = record(suite.path().join(TEST)).arg("1").run();
        let mut report = command();
        let report = run(report.arg("report").arg(&recorded.trace), b"").ok();
        report.has("was built without optimisation");
    }
}

#[test]
fn line_15_without_hooks_all_are_zero() {
    let suite = Suite::new();
    let zeros = suite.test(&["--no-record", "--format", "nio", TEST]).ok();
    zeros
        .has(format!("{TEST}.total_allocations: 0\n"))
        .has(format!("{TEST}.remaining_allocations: 0\n"))
        .has(format!("{TEST}.total_allocated_bytes: 0\n"));
}

#[test]
fn line_16_other_tools_run_the_program_by_hand() {
    let suite = Suite::new();
    suite.test(&["--accept", TEST]).ok();
    let printed = suite.test(&["--no-record", TEST]);
    printed.has("by hand: cd ").has(TEST);
}

#[test]
fn line_17_threads_do_not_move_the_number() {
    let suite = Suite::new();
    suite.test(&["--accept", "test_threads"]).ok();
    // Four threads of 75,000, and what starting them takes.
    suite.test(&["test_threads"]).ok().has("300.00 each");
}

#[test]
fn line_18_a_program_is_chosen_by_its_name() {
    assert!(KEPT.ended.status.success());
    let mut nothing = command();
    run(nothing.arg("record"), b"").code(125).says("PROGRAM");
}

#[test]
fn line_19_created_and_persisted_created_and_destroyed() {
    of_kept(&["report", "--leaked-only"])
        .has("400 B")
        .lacks("300 B");
    of_kept(&["report", "--freed-only"])
        .has("300 B")
        .has("1 at 1 site");
}

#[test]
fn line_20_the_count_of_each() {
    let mut report = command();
    let report = run(report.args(["report", "--lists"]).arg(&RECORDED.trace), b"").ok();
    // 11 runs of 1,000 iterations.
    report.has("561,000").has("231,000").has("33,000");
}

#[test]
fn line_21_each_allocation_with_its_stack_and_its_time_since_the_start() {
    // One line each: what asks for them is `keep`, the wrapper below it heads nothing.
    let events = ["1", "2"].map(|site| of_kept(&["report", "--site", site, "--events"]).text());
    let events = events.join("\n");
    events
        .has("slow_alloc  ")
        .has(format!(":{}", line_of(SOURCE, "kept")));
    // The program sleeps 20 ms first. Its start is not the recording's.
    let time = |bytes: &str| -> f64 {
        let mut lines = events.lines().map(|line| line.split_whitespace());
        let found = lines.find_map(|mut words| {
            let time = words.next()?.parse().ok()?;
            (words.next()? == "s" && words.next()? == bytes).then_some(time)
        });
        found.unwrap_or_else(|| panic!("{bytes} in\n{events}"))
    };
    let report = KEPT.report();
    let ran = report.only().number("duration_us") as f64 / 1e6;
    for bytes in ["400", "300"] {
        assert!(
            (0.02..ran).contains(&time(bytes)),
            "{} of {ran}\n{events}",
            time(bytes)
        );
    }
    events.has("alive");
}

/// All stacks, innermost frame first, as `malloc-aggregation.d` prints them.
static AGGREGATED: LazyLock<String> = LazyLock::new(|| {
    let mut export = command();
    export
        .args(["export", "--format", "stacks"])
        .arg(&RECORDED.trace);
    run(&mut export, b"").ok().text()
});

#[track_caller]
fn block_of(function: &str) -> (&'static str, u64) {
    let name = format!("`{function}+0x");
    let mut blocks = AGGREGATED.split("\n\n");
    let block = blocks.find(|block| block.contains(&name)).expect(function);
    let count = block.trim_end().lines().last().expect("a count");
    (block, count.trim().parse().expect("a number"))
}

#[test]
fn line_22_run_and_aggregate() {
    assert_eq!(
        AGGREGATED.trim().split("\n\n").count(),
        4,
        "{}",
        &*AGGREGATED
    );
}

#[test]
fn line_23_a_block_is_module_symbol_offset_then_the_count() {
    let (block, _) = block_of("flat_map");
    let lines: Vec<&str> = block
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    let (count, frames) = lines.split_last().expect("lines");
    assert_eq!(*count, "33000");
    assert!(frames.iter().all(|frame| frame.contains('`')), "{block}");
    frames[0].has("`slow_alloc+0x");
}

#[test]
fn line_24_all_entry_points_are_hooked() {
    let mut report = command();
    report.args(["report", "--site", "1"]).arg(&RECORDED.trace);
    run(&mut report, b"").ok().has("through      malloc");
}

#[test]
fn line_25_231000_of_11_runs_of_1000_are_21() {
    assert_eq!(block_of("buffer").1, 231_000);
    assert_eq!(block_of("buffer").1 / 11 / 1000, 21);
}

#[test]
fn line_26_30000_of_10_runs_are_3_of_the_75() {
    let ten = record(program(false)).arg("10").run();
    let report = ten.report();
    assert_eq!(report.only().under("flat_map").allocations, 30_000);
    assert_eq!(report.only().total("allocations") / 10 / 1000, 75);
    let mut divided = command();
    divided
        .args(["report", "--lists", "--per", "10000"])
        .arg(&ten.trace);
    run(&mut divided, b"").ok().has("3 each");
}

#[test]
fn line_27_the_set_up_is_apart() {
    // One for each run, of which one is the warm-up.
    let mut blocks = AGGREGATED.split("\n\n");
    let set_up = blocks.find(|block| !block.contains("`do_requests+0x"));
    let set_up = set_up.expect("what `measure` itself allocates");
    set_up.has("`measure+0x");
    assert_eq!(set_up.trim_end().lines().last().map(str::trim), Some("11"));
}
