//! Windows as cases of a test: how often the program is started, which allocations
//! a window counts, what it leaves behind.

use crate::project::Project;
use crate::support::{Text, run};

/// A project with the program `windows.c` and the client's header.
fn project(tests: &str) -> Project {
    let project = Project::new(tests);
    project.write("windows.c", include_str!("programs/windows.c"));
    project.command("client-header", &["."]).ok();
    let mut command = std::process::Command::new("cc");
    command
        .args([
            "-g",
            "-O1",
            "-fno-builtin",
            "-pthread",
            "-w",
            "-o",
            "windows",
            "windows.c",
        ])
        .current_dir(project.folder());
    let output = run(&mut command, b"");
    assert!(output.status.success(), "{}", output.errors());
    project
}

fn test(name: &str, more: &str) -> String {
    format!("[tests.{name}]\ncommand = [\"./windows\", \"{name}\"]\n{more}\n")
}

#[test]
fn a_program_that_does_the_protocol_is_started_once() {
    let project = project(&test("runs", "runs = 4"));
    project.accept();
    assert_eq!(project.read("starts"), "x");
    let budget = project.read("allotrope-budgets/runs.toml");
    // One of the four runs keeps a block.
    let numbers = "{ least = 7, typical = 7, most = 8, runs = 4 }";
    budget.has(format!("\nallocations = {numbers}\n"));
    let printed = project.test(&["--samples"]).ok();
    printed
        .has("every run's allocations: 7 8 7 7")
        .has("run 2 left 1 allocation behind")
        .has("remaining fluctuate between runs, 0 to 1:");
}

#[test]
fn counts_only_measures_windows() {
    let project = project(&test(
        "runs",
        "runs = 4\ncounts-only = true\ngate = [\"allocations\", \"net\"]",
    ));
    project.accept();
    assert_eq!(project.read("starts"), "x");
    // As with stacks: 7, and 8 in the run that keeps a block.
    let numbers = "{ least = 7, typical = 7, most = 8, runs = 4 }";
    let budget = project.read("allotrope-budgets/runs.toml");
    budget.has(format!("\nallocations = {numbers}\n"));
    budget.lacks("remaining");
    let printed = project.test(&["--samples"]).ok();
    printed.has("every run's allocations: 7 8 7 7");
    project.replace(
        "allotrope-budgets/runs.toml",
        &format!("allocations = {numbers}"),
        "allocations = 6",
    );
    project
        .test(&[])
        .code(3)
        .has("Run again: allotrope test --stacks runs");
    project.test(&["--stacks"]).code(3).has("allocations");
}

#[test]
fn any_other_program_is_started_for_each_run() {
    let project = project(&test("guards", "runs = 3\nwarmup = 2"));
    project.accept();
    assert_eq!(project.read("starts"), "x".repeat(2 + 3));
    // Control characters of a name are escaped, and its budget is found again.
    project
        .test(&[])
        .ok()
        .has("ok    guards/outer              allocations 3  remaining 3")
        .has("ok    guards/in\\nner            allocations 2  remaining 2");
}

#[test]
fn descriptors_that_stay_open_are_named() {
    let project = project(&test("leak", "gate = [\"allocations\", \"leaked_fds\"]"));
    project.accept();
    project.test(&[]).ok();
    project.replace(
        "allotrope-budgets/leak.toml",
        "leaked_fds = 1",
        "leaked_fds = 0",
    );
    let printed = project.test(&[]).code(3);
    printed
        .has("run 1 left 1 file descriptor open: ")
        .has("/leaked");
}

#[test]
fn each_window_has_its_gate_tolerance_and_limit() {
    let config = "[tests.slash]\ncommand = [\"./windows\", \"slash\"]\n\
        gate = [\"allocations\"]\n\
        [tests.slash.windows.\"parse/small\"]\n\
        gate = [\"allocations\", \"remaining\"]\n\
        tolerance = { allocations = \"+1\" }\n\
        [tests.slash.windows.\"parse/large\"]\n\
        limit = { peak = \"1 kB\", leaked = 0 }\n";
    let project = project(config);
    project.accept();
    let budget = project.read("allotrope-budgets/slash.toml");
    for lines in [
        "[shared.cases.\"parse/small\"]\nallocations = 20\nremaining = 2\n",
        "[shared.cases.\"parse/large\"]\nallocations = 30\n",
    ] {
        let lines = lines.replace("parse", "slash/parse");
        budget.has(&lines);
    }
    project.test(&[]).ok();
    // One below the accepted number is within the tolerance of one window only.
    let one_less = budget
        .replace("= 20\n", "= 19\n")
        .replace("= 30\n", "= 29\n");
    project.write("allotrope-budgets/slash.toml", &one_less);
    project
        .test(&[])
        .code(3)
        .has("ok    slash/parse/small")
        .has("FAIL  slash/parse/large");
    // 1000 bytes of 1000 are allowed, and none of 999.
    project.write("allotrope-budgets/slash.toml", &budget);
    project.replace("allotrope.toml", "\"1 kB\"", "999");
    project
        .test(&[])
        .code(3)
        .has("peak: 1,000, above its limit of 999 B");
    project.replace("allotrope.toml", "parse/large", "parse/larg");
    project
        .test(&[])
        .ok()
        .has("a section for the window `parse/larg`, which was not opened");
}

#[test]
fn a_case_is_chosen_by_the_name_that_the_log_prints() {
    let project = project(&(test("slash", "") + &test("guards", "")));
    project.accept();
    let printed = project.test(&["slash/parse/small"]).ok();
    let printed = printed.has("ok    slash/parse/small");
    printed.text().lacks("large");
    project
        .test(&["guards/in\\nner"])
        .ok()
        .has("1 test: 1 passed");
    project
        .test(&["slash/parse/smal"])
        .code(2)
        .says("the test slash has no case `slash/parse/smal`; did you mean `slash/parse/small`?");
    // The verdict is on this case alone, and accepting it leaves the others as they are.
    let file = "allotrope-budgets/slash.toml";
    let right = project.read(file);
    let large = right.replace("= 30\n", "= 29\n");
    project.write(file, &large);
    project.test(&["slash/parse/small"]).ok();
    project.test(&["slash/parse/l*"]).code(3);
    project.test(&["slash"]).code(3);
    project.write(file, &large.replace("= 20\n", "= 19\n"));
    project
        .test(&["--accept", "slash/parse/small"])
        .ok()
        .has("slash/parse/small: allocations 19 → 20");
    assert_eq!(project.read(file), large);
}

#[test]
fn a_window_that_is_never_closed_has_no_numbers() {
    let project = project(&test("open", ""));
    project
        .test(&[])
        .code(5)
        .has("its window never-closed was never closed");
}
