//! How `allotrope test` judges numbers against their budgets: accepted, exceeded,
//! improved, missing, fluctuating; and which changes it suspects before the code.

use crate::project::Project;
use crate::support::Text;

#[test]
fn from_no_budget_to_green_to_red_with_the_stack() {
    let project = Project::with_cases(&["encode", "decode"]);
    let printed = project.test(&[]).code(3);
    printed
        .has("No numbers were accepted yet.")
        .has("To accept these first numbers: allotrope test --accept encode decode");
    project
        .test(&["--accept"])
        .ok()
        .has("encode: allocations none → 1,000")
        .has("decode: allocations none → 500");
    project.test(&[]).ok().has("2 tests: 2 passed");
    project.compile(&["-DWORSE"]);
    // 50 more, in the function and line that bench.c marks.
    let line = project.line_of("worse");
    project
        .test(&[])
        .code(3)
        .has("ok    decode")
        .has("FAIL  encode")
        .has("  allocations       1,000  1,050         +50    exact  exceeded")
        .has("  remaining             0     50         +50    exact  exceeded")
        .has("1. new +50  encode\n")
        .has(format!("bench.c:{line}"))
        .has("Run again: allotrope test encode")
        .has("2 tests: 1 failed, 1 passed");
}

#[test]
fn an_improvement_has_a_status_of_its_own_and_is_accepted_by_name() {
    let project = Project::with_cases(&["encode", "decode"]);
    project.accept();
    project.compile(&["-DBETTER"]);
    let command = "allotrope test --accept decode";
    project
        .test(&[])
        .code(4)
        .has("less  decode")
        .has("improved")
        .has("changed -100")
        .has(format!("To accept what has improved: {command}"));
    project
        .test(&["--accept", "decode"])
        .ok()
        .has("decode: allocations 500 → 400");
    project.test(&[]).ok();
    let budget = project.read("allotrope-budgets/decode.toml");
    budget.has("\nallocations = 400\n");
    // One number that is worse decides the status, even if others are better.
    project.compile(&["-DWORSE"]);
    project.test(&[]).code(3);
}

#[test]
fn numbers_within_their_tolerance_pass() {
    let project = Project::new(
        "[tests.encode]\ncommand = [\"./bench\", \"encode\"]\n\
         tolerance = { allocations = \"+5%\", remaining = \"±50\" }\n",
    );
    project.accept();
    project.compile(&["-DWORSE"]);
    // 50 of 1000 are 5 %.
    project.test(&[]).ok();
    project.replace("allotrope.toml", "+5%", "+49");
    project.test(&[]).code(3).has("+49 -0");
}

#[test]
fn tests_are_chosen_by_name() {
    let project = Project::with_cases(&["encode", "decode", "crash"]);
    let printed = project.test(&["*code", "--list"]).ok();
    assert_eq!(printed.text().lines().count(), 3);
    let printed = project.test(&["*code", "--accept"]).ok();
    printed.text().lacks("crash");
    let printed = project.test(&["encod"]).code(2);
    printed.says("there is no test `encod`; did you mean `encode`?");
}

#[test]
fn a_platform_can_have_numbers_of_its_own() {
    let project = Project::with_cases(&["decode"]);
    project.accept();
    project.compile(&["-DBETTER"]);
    let here = ["--accept", "--this-platform", "--platform", "here"];
    project.test(&here).ok().has("decode.here.stacks");
    project.test(&["--platform", "here"]).ok();
    project.test(&["--platform", "there"]).code(4);
    // Once a platform has numbers of its own, `--accept` changes only those.
    project.compile(&[]);
    project.test(&["--accept", "--platform", "here"]).ok();
    let budget = project.read("allotrope-budgets/decode.toml");
    budget.has("[platforms.here.cases.decode]");
}

#[test]
fn measuring_nothing_fails() {
    let project = Project::with_cases(&["encode"]);
    project.accept();
    // The same test, which now does nothing at all.
    project.replace("allotrope.toml", "\"encode\"]", "\"nothing\"]");
    project
        .test(&[])
        .code(5)
        .has("none were measured, accepted 1,000");
    // A budget for a window that is no longer opened.
    let budget = project.read("allotrope-budgets/encode.toml");
    let budget = budget.replace("cases.encode]", "cases.\"encode/small\"]");
    project.write("allotrope-budgets/encode.toml", &budget);
    project
        .test(&[])
        .code(3)
        .has("encode/small has a budget, but the program opened no window");
}

#[test]
fn a_gate_on_a_number_that_is_not_measured_fails_and_is_not_accepted() {
    let project = Project::new(
        "[tests.encode]\ncommand = [\"./bench\", \"encode\"]\ngate = [\"leaked_fds\"]\n",
    );
    let why = "only a window that compares file descriptors gives this number";
    project.test(&[]).code(5).has(why);
    project
        .test(&["--accept"])
        .code(5)
        .has("not accepted: `gate` names leaked_fds, which encode does not give");
}

#[test]
fn fluctuating_stacks_and_leaks_of_one_run_are_shown() {
    let project = Project::with_cases(&["fluctuate"]);
    // Starts: 1 is warm-up, 2 and 3 count: 20 and 30 in the thread, and one
    // allocation that the third start leaves.
    let printed = project.test(&["--samples"]).code(3);
    let line = project.line_of("fluctuating");
    let printed = printed
        .has("20 to 30  fluctuating_thread")
        .has(format!("bench.c:{line}"))
        .has("run 2 left ");
    // Differences only: libc itself allocates for a thread and keeps part of it.
    for (metric, difference) in [("allocations", 30 + 1 - 20), ("remaining", 1)] {
        let head = format!("every run's {metric}:");
        let text = printed.text();
        let samples = text.lines().find(|line| line.contains(&head));
        let numbers: Vec<u64> = samples
            .expect("it was asked for")
            .split_whitespace()
            .filter_map(|word| word.replace(',', "").parse().ok())
            .collect();
        assert_eq!(numbers.len(), 2);
        assert_eq!(numbers[1] - numbers[0], difference, "{metric}");
    }
    // The range of the runs is accepted. What only one run leaves behind is shown
    // although the test passes.
    std::fs::remove_file(project.folder().join("count")).expect("the program made it");
    project
        .test(&["--accept"])
        .ok()
        .has("fluctuate: note: remaining fluctuate; ");
    std::fs::remove_file(project.folder().join("count")).expect("the program made it");
    let leaked = project.line_of("leaked");
    project
        .test(&["--samples"])
        .ok()
        .has("run 2 left ")
        .has(format!("bench.c:{leaked}"));
    // Without the option in a sentence a number.
    std::fs::remove_file(project.folder().join("count")).expect("the program made it");
    let printed = project.test(&[]).ok();
    let printed = printed.has("remaining: accepted 1 to 2; fluctuate 0 to 1");
    assert_eq!(printed.text().lines().count(), 5, "{}", printed.text());
}

#[test]
fn a_change_of_compiler_library_or_dependency_is_suspected_first() {
    let project = Project::with_cases(&["encode"]);
    let package = "[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nsource = \"registry\"\n";
    project.write("Cargo.lock", package);
    project.accept();
    project.write("Cargo.lock", &package.replace("1.0.0", "1.0.1"));
    let folder = project.folder().join("allotrope-budgets/made-with");
    let mut files = std::fs::read_dir(folder).expect("it was written");
    let file = files
        .next()
        .expect("one")
        .expect("it can be read")
        .file_name();
    let file = format!("allotrope-budgets/made-with/{}", file.display());
    let made_with = project.read(&file);
    let compiler = made_with
        .lines()
        .find(|line| line.starts_with("    \""))
        .expect("one");
    project.replace(&file, compiler, "    \"OtherCC: 1\",");
    project.compile(&["-DWORSE"]);
    let printed = project.test(&[]).code(3);
    let at = |text: &str| {
        let found = printed.text().find(text);
        found.unwrap_or_else(|| panic!("{text:?} in {}", printed.text()))
    };
    assert!(at("Changed since the numbers were accepted") < at("Stacks of allocations"));
    assert!(at("was OtherCC: 1") < at("Stacks of allocations"));
    assert!(at("serde (Cargo.lock): 1.0.1, was 1.0.0") < at("Stacks of allocations"));
}

#[test]
fn counts_only_finds_the_number_and_prints_the_command_for_the_stack() {
    let project = Project::new(
        "counts-only = true\n[tests.encode]\ncommand = [\"./bench\", \"encode\"]\n\
         gate = [\"allocations\", \"bytes\", \"net\"]\n",
    );
    project.accept();
    let budget = project.read("allotrope-budgets/encode.toml");
    for line in ["allocations = 1000", "bytes = 16000", "net = 0"] {
        assert!(
            budget.contains(&format!("\n{line}\n")),
            "{line} in {budget}"
        );
    }
    project.test(&[]).ok();
    project.compile(&["-DWORSE"]);
    project
        .test(&[])
        .code(3)
        .has("  allocations       1,000   1,050         +50    exact  exceeded")
        .has("  net                   0      50         +50    exact  exceeded")
        .has("Run again: allotrope test --stacks encode");
    project
        .test(&["--stacks", "encode"])
        .code(3)
        .has("encode\n");
    project.replace("allotrope.toml", "\"net\"", "\"peak\"");
    project
        .test(&[])
        .code(2)
        .says("`counts-only` does not record peak");
}

#[test]
fn budgets_of_tests_that_are_gone_are_listed() {
    let project = Project::with_cases(&["encode", "decode"]);
    project.accept();
    project.replace("allotrope.toml", "[tests.decode]", "[tests.renamed]");
    project
        .test(&["encode"])
        .ok()
        .has("Budgets of tests that no longer exist")
        .has("allotrope-budgets/decode.toml")
        .has("allotrope-budgets/decode.stacks");
    project
        .test(&["--prune"])
        .ok()
        .has("removed ./allotrope-budgets/decode.stacks")
        .has("removed ./allotrope-budgets/decode.toml");
    project
        .test(&["--prune"])
        .ok()
        .has("every budget has a test");
    project.test(&["encode"]).ok();
}
