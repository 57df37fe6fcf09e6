//! `allotrope compare`: two revisions of a repository, the working tree, and
//! `git bisect run`.

use std::process::Command;

use serde_json::Value;

use crate::project::Project;
use crate::support::{record, run};

/// A git repository whose `allotrope.toml` has a command that builds the program.
fn repository() -> Project {
    let project = Project::with_cases(&["encode", "decode"]);
    let text = project.read("allotrope.toml");
    let build = "build = \"cc -g -O1 -fno-builtin -fno-inline -pthread -w -o bench bench.c\"\n";
    project.write("allotrope.toml", &format!("{build}{text}"));
    project.write(".gitignore", "bench\n.cache\ncount\n");
    git(&project, &["init", "--quiet", "--initial-branch=main"]);
    git(&project, &["config", "user.name", "somebody"]);
    git(&project, &["config", "user.email", "somebody@localhost"]);
    commit(&project, "first");
    project
}

#[track_caller]
fn git(project: &Project, words: &[&str]) -> String {
    let output = run(
        Command::new("git")
            .args(words)
            .current_dir(project.folder()),
        b"",
    );
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {words:?}: {printed}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn commit(project: &Project, message: &str) {
    git(project, &["add", "."]);
    git(project, &["commit", "--quiet", "-m", message]);
}

/// Makes `encode` allocate 50 blocks more.
fn worsen(project: &Project) {
    project.replace("bench.c", "#ifdef WORSE", "#if 1");
}

#[test]
fn two_revisions_and_uncommitted_changes() {
    let project = repository();
    worsen(&project);
    project.write("new.h", "/* not yet known to git */\n");
    let line = project.line_of("worse");
    let before = git(&project, &["status", "--porcelain"]);
    let printed = project.command("compare", &["main", "."]).expect(3);
    printed
        .has("more  encode                    allocations 1,000 → 1,050 (+50)")
        .has("same  decode                    allocations 500  remaining 0")
        .has("1. new +50  encode\n")
        .has(&format!("bench.c:{line}"));
    assert_eq!(git(&project, &["status", "--porcelain"]), before);
    commit(&project, "worse");
    project
        .command("compare", &["main", "."])
        .expect(0)
        .has("same  encode");
    project
        .command("compare", &["HEAD", "HEAD~1"])
        .expect(0)
        .has("less  encode");
    let printed = project.command("compare", &["HEAD~1", "HEAD", "encode", "--format", "json"]);
    let json: Value = serde_json::from_str(&printed.expect(3).stdout).expect("it is JSON");
    assert_eq!(json["format"], "allotrope-compare/1");
    let number = &json["tests"][0]["cases"][0]["numbers"][0];
    assert_eq!(
        (&number["before"], &number["after"]),
        (&1000.into(), &1050.into())
    );
    assert_eq!(number["entries"][0]["function"], "encode");
    // Worktrees are kept for the next comparison, until `--forget` removes them.
    let kept = project.folder().join(".cache/allotrope/compare");
    assert!(kept.exists());
    project.command("compare", &["--forget"]).expect(0);
    let list = git(&project, &["worktree", "list"]);
    assert_eq!(list.lines().count(), 1, "{list}");
}

#[test]
fn a_revision_without_a_configuration_uses_that_of_the_working_tree() {
    let project = repository();
    git(&project, &["rm", "--quiet", "--cached", "allotrope.toml"]);
    git(&project, &["commit", "--quiet", "--amend", "-m", "first"]);
    worsen(&project);
    project
        .command("compare", &["main", ".", "enc*"])
        .expect(3)
        .has("more  encode");
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let project = repository();
    let nonsense = project.command("compare", &["nonsense", "HEAD"]).expect(2);
    nonsense.stderr_has("there is no revision `nonsense`");
    project
        .command("compare", &["main", ".", "nonsense"])
        .expect(2)
        .stderr_has("there is no test that both revisions have");
    project.replace("bench.c", "int main", "int nothing");
    project
        .command("compare", &["main", "."])
        .expect(3)
        .stderr_has(".: the build failed: it ended with status 1");
    let alone = Project::with_cases(&["encode"]);
    alone
        .command("compare", &["main", "."])
        .expect(2)
        .stderr_has("is not in a git repository");
}

#[test]
fn git_bisect_finds_the_commit() {
    let project = repository();
    git(&project, &["tag", "good"]);
    for number in 1..=6 {
        match number {
            // A commit that does not build is skipped.
            2 => project.replace("bench.c", "int main", "int broken"),
            3 => project.replace("bench.c", "int broken", "int main"),
            4 => worsen(&project),
            number => project.write("other", &number.to_string()),
        }
        commit(&project, &format!("commit {number}"));
    }
    git(&project, &["bisect", "start", "main", "good"]);
    let allotrope = record::command();
    let allotrope = allotrope.get_program().to_string_lossy().into_owned();
    let mut bisect = Command::new("git");
    bisect
        .args([
            "bisect", "run", &allotrope, "compare", "--bisect", "good", "HEAD", "encode",
        ])
        .current_dir(project.folder())
        .env("XDG_CACHE_HOME", project.folder().join(".cache"));
    let output = run(&mut bisect, b"");
    let printed = String::from_utf8_lossy(&output.stdout);
    let worse = git(&project, &["rev-parse", "main~2"]);
    let found = format!("{} is the first bad commit", worse.trim());
    assert!(printed.contains(&found), "{printed}");
}
