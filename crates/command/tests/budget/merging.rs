//! Budget files in git: what conflicts when branches are merged, and what does not.

use std::process::Command;

use crate::project::Project;
use crate::support::{Text, run};

/// A repository with accepted numbers, which `.gitignore` limits to sources and budgets.
pub fn repository(cases: &[&str]) -> Project {
    let project = Project::with_cases(cases);
    project.accept();
    project.write(".gitignore", ".cache\nbench\ncount\n");
    git(&project, &["init", "--quiet", "--initial-branch=main"]);
    git(&project, &["config", "user.name", "somebody"]);
    git(&project, &["config", "user.email", "somebody@localhost"]);
    commit(&project, "first");
    project
}

#[track_caller]
pub fn git(project: &Project, words: &[&str]) -> String {
    let (status, printed) = try_git(project, words);
    assert!(status, "git {words:?}: {printed}");
    printed
}

fn try_git(project: &Project, words: &[&str]) -> (bool, String) {
    let mut command = Command::new("git");
    let output = run(command.args(words).current_dir(project.folder()), b"");
    (output.status.success(), output.text() + &output.errors())
}

pub fn commit(project: &Project, message: &str) {
    git(project, &["add", "."]);
    git(project, &["commit", "--quiet", "-m", message]);
}

/// Makes a branch of main, on which it replaces text in the program and accepts the numbers.
fn branch(project: &Project, name: &str, changes: &[(&str, &str)]) {
    git(project, &["checkout", "--quiet", "-b", name, "main"]);
    for (from, to) in changes {
        project.replace("bench.c", from, to);
    }
    project.compile(&[]);
    project.accept();
    commit(project, name);
}

#[test]
fn branches_that_change_different_tests_merge() {
    let project = repository(&["encode", "decode"]);
    branch(&project, "one", &[("i < 1000", "i < 1001")]);
    branch(&project, "two", &[("times = 500", "times = 501")]);
    git(&project, &["merge", "--quiet", "--no-edit", "one"]);
    project.compile(&[]);
    let printed = project.test(&[]).ok();
    printed
        .has("encode                    allocations 1,001")
        .has("decode                    allocations 501");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    // And accepting them again changes nothing.
    project.accept();
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
}

#[test]
fn branches_that_change_one_number_conflict_in_its_line_only() {
    let project = repository(&["encode"]);
    let [one, two] = [7, 9].map(|more| {
        format!("free(take(16));\n    }}\n    for (int i = 0; i < {more}; i++) {{ free(take(8));")
    });
    branch(&project, "one", &[("free(take(16));", &one)]);
    branch(&project, "two", &[("free(take(16));", &two)]);
    let (merged, printed) = try_git(&project, &["merge", "--no-edit", "one"]);
    assert!(!merged, "{printed}");
    let conflicts = git(&project, &["diff", "--name-only", "--diff-filter=U"]);
    assert_eq!(conflicts, "allotrope-budgets/encode.toml\nbench.c\n");
    let text = project.read("allotrope-budgets/encode.toml");
    let conflict = "<<<<<<< HEAD\nallocations = 1009\n=======\nallocations = 1007\n>>>>>>> one\n";
    text.has(conflict);
    // Whatever the code is after the merge, its numbers can be accepted.
    git(&project, &["checkout", "--quiet", "--theirs", "bench.c"]);
    project.compile(&[]);
    project
        .test(&[])
        .code(2)
        .has("merge conflict in ./allotrope-budgets/encode.toml");
    project.test(&["--accept", "encode"]).ok();
    commit(&project, "merged");
    project.test(&[]).ok().has("allocations 1,007");
}

#[test]
fn a_change_of_lines_changes_no_stacks() {
    let project = repository(&["encode"]);
    let before = project.read("allotrope-budgets/encode.stacks");
    before.lacks("bench.c:");
    // Two lines more above everything, and one allocation more.
    branch(
        &project,
        "one",
        &[("#include <pthread.h>", "\n\n#include <pthread.h>")],
    );
    assert_eq!(project.read("allotrope-budgets/encode.stacks"), before);
    branch(
        &project,
        "two",
        &[
            ("#include <pthread.h>", "\n\n#include <pthread.h>"),
            ("1000; i++", "1001; i++"),
        ],
    );
    let after = project.read("allotrope-budgets/encode.stacks");
    let changed = before
        .lines()
        .zip(after.lines())
        .filter(|(was, is)| was != is);
    // The figure of the stack, and the bytes of the case.
    assert_eq!(changed.count(), 2, "{before}{after}");
}
