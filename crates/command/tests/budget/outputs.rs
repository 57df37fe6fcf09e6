//! The machine-readable output of `allotrope test` (JSON, JUnit, Markdown, GitHub,
//! SwiftNIO's logs), SwiftNIO's logs and thresholds as budgets, and `--no-record`.

use std::process::Command;

use serde_json::Value;

use crate::project::Project;
use crate::support::run;

/// A project with three tests: one fails, one has improved, one crashes.
fn with_three_outcomes() -> Project {
    let project = Project::with_cases(&["encode", "decode", "crash"]);
    project.test(&["--accept"]).code(5);
    project.compile(&["-DWORSE", "-DBETTER"]);
    project
}

#[test]
fn json_has_everything() {
    let project = with_three_outcomes();
    let json: Value = project.test(&["--format", "json"]).code(3).json();
    assert_eq!(json["format"], "allotrope-test/1");
    assert_eq!(json["outcome"], "failed");
    let outcomes: Vec<&Value> = (0..3).map(|test| &json["tests"][test]["outcome"]).collect();
    assert_eq!(outcomes, ["failed", "improved", "failed"]);
    let case = &json["tests"][0]["cases"][0];
    assert_eq!(case["name"], "encode");
    assert_eq!(case["samples"].as_array().map(Vec::len), Some(2));
    let number = &case["numbers"][0];
    assert_eq!(number["metric"], "allocations");
    assert_eq!(
        (&number["accepted"], &number["least"]),
        (&1000.into(), &1050.into())
    );
    assert_eq!(number["verdict"], "exceeded");
    let entry = &case["responsible"][0]["entries"][0];
    assert_eq!(entry["difference"], 50);
    assert_eq!(entry["blame"]["function"], "encode");
    assert_eq!(entry["blame"]["file"], "bench.c");
    assert_eq!(entry["blame"]["line"], project.line_of("worse"));
    assert!(
        json["tests"][2]["problem"]
            .as_str()
            .is_some_and(|it| it.contains("SIGSEGV"))
    );
}

#[test]
fn junit_markdown_and_github_have_the_same_numbers() {
    let project = with_three_outcomes();
    let files = [
        "--write",
        "junit=report.xml",
        "--write",
        "markdown=report.md",
    ];
    let line = project.line_of("worse");
    project
        .test(&[&files[..], &["--format", "github"]].concat())
        .code(3)
        .has(format!(
            "::error file=bench.c,line={line},title=allocations of encode and 1 more::allocations: \
             1,050, accepted 1,000 (+50)%0A+50 in encode%0Aremaining: 50, accepted 0 (+50)%0A\
             +50 in encode"
        ))
        .has("::notice file=bench.c,line=")
        .has("::error file=allotrope.toml,line=7,title=crash::it was ended by SIGSEGV");
    let markdown = project.read("report.md");
    assert!(markdown.contains("| ❌ | encode | allocations | 1,000 | 1,050 | +50 |  |"));
    assert!(markdown.contains("| 🔽 | decode | allocations | 500 | 400 | -100 |  |"));
    // Python's XML parser reads the file, too.
    let script = "import sys, xml.etree.ElementTree as e\n\
                  for s in e.parse('report.xml').getroot():\n\
                  \x20 print(s.get('name'), s.get('tests'), s.get('failures'), s.get('errors'), s.get('skipped'))\n\
                  \x20 for c in s.findall('testcase'): print(' ', c.get('name'), [(k.tag, k.get('message')) for k in c])\n";
    let mut python = Command::new("python3");
    let output = run(
        python.args(["-c", script]).current_dir(project.folder()),
        b"",
    );
    assert!(output.status.success(), "{}", output.errors());
    let read = output.text();
    let expected = "encode 1 1 0 0\n  encode [('failure', 'allocations: 1,050, accepted 1,000 (+50); \
                    remaining: 50, accepted 0 (+50)')]\n\
                    decode 1 0 0 1\n  decode [('skipped', 'allocations: 400, accepted 500 (-100)')]\n\
                    crash 1 0 1 0\n  crash [('error', 'it was ended by SIGSEGV')]\n";
    assert_eq!(read, expected);
}

/// Other commands of a step may have written to the summary; a file that cannot be written
/// does not hide the verdict.
#[test]
fn a_summary_is_appended_to_and_an_unwritable_file_changes_no_status() {
    let project = Project::with_cases(&["encode"]);
    project.accept();
    project.write("summary.md", "# Before\n");
    let summary = project.folder().join("summary.md");
    let write = format!("markdown={}", summary.display());
    for _ in 0..2 {
        let arguments = ["--write", &write];
        project
            .command_with("test", &arguments, |it| {
                it.env("GITHUB_STEP_SUMMARY", &summary)
            })
            .ok();
    }
    let text = project.read("summary.md");
    assert!(
        text.starts_with("# Before\n### Allocations: 1 test: 1 passed"),
        "{text}"
    );
    assert_eq!(text.matches("### Allocations").count(), 2, "{text}");
    project.compile(&["-DWORSE"]);
    let folder = ["--write", "junit=no/such/folder/report.xml"];
    let printed = project.test(&folder).code(3);
    printed
        .has("FAIL  encode")
        .says("cannot write no/such/folder/report.xml");
    project.compile(&[]);
    project.test(&folder).ok();
}

/// A file that is to be written is looked at before the tests run.
#[test]
fn only_earlier_reports_are_replaced() {
    let project = Project::with_cases(&["encode"]);
    project.accept();
    for format in [
        "text",
        "json",
        "junit",
        "markdown",
        "github",
        "nio",
        "nio-newer",
    ] {
        let write = format!("{format}=letter");
        project.write("letter", "Dear reader,\n");
        let refused = project.test(&["--write", &write]).code(2);
        refused.says("letter is no earlier report of `allotrope test` in this format");
        assert_eq!(project.read("letter"), "Dear reader,\n", "{format}");
        project.test(&["--write", &write, "--force"]).ok();
        project.test(&["--write", &write]).ok();
        assert_ne!(project.read("letter"), "Dear reader,\n", "{format}");
    }
}

/// The tests of a project that are green leave the first screen to those that are not, and
/// every command can be pasted as it is.
#[test]
fn a_red_log_is_short_and_its_commands_can_be_pasted() {
    let project = Project::with_cases(&["encode", "decode"]);
    project.accept();
    let green = project.test(&[]).ok();
    assert_eq!(green.text().lines().count(), 4, "{}", green.text());
    project.compile(&["-DWORSE"]);
    let line = project.line_of("worse");
    let culprit = format!("Look at: encode, bench.c:{line} (+50 allocations)");
    let red = project.test(&[]).code(3).has(&culprit).text();
    let lines: Vec<&str> = red.lines().collect();
    assert!(lines[0].starts_with("FAIL  encode"), "{red}");
    assert!(lines.len() <= 20, "{red}");
    let accept = lines
        .iter()
        .find_map(|line| line.trim().strip_prefix("If intended: allotrope "))
        .expect("it says how to accept the rise");
    assert_eq!(accept, "test --accept encode --because \"…\"");
    let paste = |accept: &str| {
        let shell = format!("{} {accept}", env!("CARGO_BIN_EXE_allotrope"));
        let mut command = Command::new("sh");
        command.args(["-c", &shell]).current_dir(project.folder());
        run(&mut command, b"").status.code()
    };
    assert_eq!(paste(accept), Some(2), "a reason is to be written");
    assert_eq!(paste(&accept.replace('…', "a table")), Some(0));
    project.test(&[]).ok();
}

/// The older log as the document has it, but for the number of runs.
#[test]
fn the_log_of_the_swiftnio_harness() {
    let project = Project::with_cases(&["encode"]);
    project.accept();
    let bench = project
        .folder()
        .join("bench")
        .canonicalize()
        .expect("it was compiled");
    let bench = bench.display();
    let run = "[\"remaining_allocations\": 0, \"total_allocations\": 1000, \
               \"total_allocated_bytes\": 16000]";
    let older = format!(
        "- {bench}\n\
         encode.remaining_allocations: 0\n\
         encode.total_allocations: 1000\n\
         encode.total_allocated_bytes: 16000\n\
         DEBUG: [{run}, {run}]\n"
    );
    let printed = project.test(&["--format", "nio"]).ok();
    assert_eq!(printed.text(), older);
    let run = "Test_encode.Measurement(totalAllocations: 1000, totalAllocatedBytes: 16000, \
               remainingAllocations: 0, leakedFDs: [])";
    let newer = format!(
        "- {bench}\n\
         encode.total_allocations: 1000\n\
         encode.remaining_allocations: 0\n\
         encode.total_allocated_bytes: 16000\n\
         encode.leaked_fds: 0\n\
         DEBUG: [{run}, {run}]\n"
    );
    let printed = project.test(&["--format", "nio-newer"]).ok();
    assert_eq!(printed.text(), newer);
}

#[test]
fn logs_and_thresholds_are_budgets() {
    let project = Project::with_cases(&["encode", "decode"]);
    let log = project.test(&["--format", "nio"]).code(3).text();
    project.write("before.log", &log);
    project.test(&["--from-log", "before.log"]).ok();
    project.compile(&["-DWORSE"]);
    let printed = project.test(&["--from-log", "before.log"]).code(3);
    printed
        .has("allocations       1,000  1,050")
        .has("net                   0     50");
    // The scripts want a total greater than the limit minus 1000; both have an exact number.
    project.compile(&[]);
    project.write("limits.json", "{\"encode\": 1999, \"test_decode\": 1500}");
    project
        .test(&["--from-log", "limits.json"])
        .code(4)
        .has("ok    encode")
        .has("less  decode");
    project.write("limits.json", "{\"encode\": 1999}");
    project
        .test(&["--from-log", "limits.json"])
        .code(3)
        .has("FAIL  decode");
    project.write("limits.json", "nothing");
    project
        .test(&["--from-log", "limits.json"])
        .code(2)
        .says("neither a log");
}

/// Reported: `test test_x.swift`, as SwiftNIO's script wants it, was no test.
#[test]
fn the_source_file_of_a_test_means_the_test() {
    let project = Project::with_cases(&["encode", "decode"]);
    for name in ["encode.swift", "sources/encode.cc", "./encode.c"] {
        let nio = project.test(&["--format", "nio", name]).code(3);
        nio.has("encode.total_allocations: 1000").lacks("decode");
    }
    project
        .test(&["encodes.swift"])
        .code(2)
        .says("did you mean `encode`?");
}

/// Reported: a red log listed all 74,000 allocations of the run as the lines of 1,000 more.
#[test]
fn a_red_log_names_the_line_if_accepted_stacks_have_its_number() {
    let project = Project::with_cases(&["encode"]);
    let log = project.test(&["--format", "nio"]).code(3).text();
    project.write("before.log", &log);
    let from_log = ["--from-log", "before.log"];
    project.compile(&["-DWORSE"]);
    // What remains was accepted as 0, so its stacks are all there is to know.
    let worse = format!("bench.c:{}", project.line_of("worse"));
    project
        .test(&from_log)
        .code(3)
        .has("the log has no stacks, and no accepted ones sum to 1,000")
        .has("`allotrope test --accept encode`")
        .lacks("+1,0")
        .has(&worse);

    project.compile(&[]);
    project.accept();
    project.compile(&["-DWORSE"]);
    let look_at = format!("Look at: encode, {worse} (+50 allocations)");
    project
        .test(&from_log)
        .code(3)
        .has(&look_at)
        .lacks("+1,0")
        .lacks("the log has no stacks");

    // The accepted stacks are those of another number.
    project.write("before.log", &log.replace("1000", "40"));
    project
        .test(&from_log)
        .code(3)
        .has("no accepted ones sum to 40")
        .lacks("(+1,010 allocations)");
}

#[test]
fn swiftnios_rule_for_remaining_allocations_is_exact() {
    let project = Project::with_cases(&["encode"]);
    project.write("limits.json", "{\"encode\": 1005}");
    let log = ["--from-log", "limits.json"];
    // Less than 5 may remain.
    for (kept, status) in [(4, 0), (5, 3)] {
        let source = include_str!("programs/bench.c");
        let source = source.replace("i < 50;", &format!("i < {kept};"));
        project.write("bench.c", &source);
        project.compile(&["-DWORSE"]);
        project.test(&log).code(status);
    }
}

#[test]
fn zeros_are_no_measurement_for_a_log() {
    let project = Project::new("[tests.encode]\ncommand = [\"./bench\", \"nothing\"]\n");
    // Not below the limit by 1000, but nothing was measured.
    project.write("limits.json", "{\"encode\": 500}");
    project
        .test(&["--from-log", "limits.json"])
        .code(5)
        .has("none were measured, accepted 500");
    let unhooked = "encode.remaining_allocations: 0\nencode.total_allocations: 0\n";
    project.write("unhooked.log", unhooked);
    project
        .test(&["--from-log", "unhooked.log"])
        .code(2)
        .says("all of its totals are 0");
}

#[test]
fn no_record_gives_zeros_and_a_command_to_run_by_hand() {
    let project = Project::with_cases(&["encode", "crash"]);
    let printed = project.test(&["--no-record"]).code(5);
    let printed = printed
        .has("ok    encode                    allocations 0  remaining 0")
        .has("FAIL  crash")
        .has("because of --no-record")
        .has("scratch folder: ");
    // It prints a command with which to run the program by hand.
    let by_hand = printed.after("by hand: ");
    // Only its beginning is checked: the line may be continued.
    assert!(by_hand.starts_with("cd "), "{by_hand}");
    let zeros = project
        .test(&["encode", "--no-record", "--format", "nio"])
        .ok();
    zeros.has("encode.total_allocations: 0");
    std::fs::remove_dir_all(printed.after("scratch folder: ")).expect("it is there");
}

#[test]
fn scratch_keeps_the_recordings() {
    let project = Project::with_cases(&["encode"]);
    project.accept();
    project.test(&["--scratch", "kept"]).ok();
    let kept = std::fs::read_dir(project.folder().join("kept")).expect("it was made");
    // The recording of the last of warm-up + 2 runs.
    let names: Vec<_> = kept
        .map(|entry| entry.expect("it can be read").file_name())
        .collect();
    assert_eq!(names, ["encode.3.allotrope"]);
}
