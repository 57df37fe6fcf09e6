//! `allotrope compare`: two revisions of a repository, the working tree, and
//! `git bisect run`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::project::Project;
use crate::support::{Text, record, run};

/// A git repository whose `allotrope.toml` has a command that builds the program.
fn repository() -> Project {
    let project = Project::with_cases(&["encode", "decode"]);
    let text = project.read("allotrope.toml");
    let build = "build = \"cc -g -O1 -fno-builtin -fno-inline -pthread -w -o bench bench.c\"\n";
    project.write("allotrope.toml", &format!("{build}{text}"));
    project.write(".gitignore", "bench\n.cache\ncount\n");
    start_repository(project.folder());
    project
}

/// Makes a folder a repository and commits its files.
fn start_repository(folder: &Path) {
    git_in(folder, &["init", "--quiet", "--initial-branch=main"]);
    git_in(folder, &["config", "user.name", "somebody"]);
    git_in(folder, &["config", "user.email", "somebody@localhost"]);
    git_in(folder, &["add", "."]);
    git_in(folder, &["commit", "--quiet", "-m", "first"]);
}

#[track_caller]
fn git(project: &Project, words: &[&str]) -> String {
    git_in(project.folder(), words)
}

#[track_caller]
fn git_in(folder: &Path, words: &[&str]) -> String {
    let output = run(Command::new("git").args(words).current_dir(folder), b"");
    let printed = output.errors();
    assert!(output.status.success(), "git {words:?}: {printed}");
    output.text()
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
    let printed = project.command("compare", &["main", "."]).code(3);
    printed
        .has("more  encode                    allocations 1,000 → 1,050 (+50)")
        .has("same  decode                    allocations 500  remaining 0")
        .has("1. new +50  encode\n")
        .has(format!("bench.c:{line}"));
    assert_eq!(git(&project, &["status", "--porcelain"]), before);
    commit(&project, "worse");
    project
        .command("compare", &["main", "."])
        .ok()
        .has("same  encode");
    project
        .command("compare", &["HEAD", "HEAD~1"])
        .ok()
        .has("less  encode");
    let printed = project.command("compare", &["HEAD~1", "HEAD", "encode", "--format", "json"]);
    let json: Value = printed.code(3).json();
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
    project.command("compare", &["--forget"]).ok();
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
        .code(3)
        .has("more  encode");
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let project = repository();
    let nonsense = project.command("compare", &["nonsense", "HEAD"]).code(2);
    nonsense.says("there is no revision `nonsense`");
    project
        .command("compare", &["main", ".", "nonsense"])
        .code(2)
        .says("there is no test that both revisions have");
    let alone = Project::with_cases(&["encode"]);
    alone
        .command("compare", &["main", "."])
        .code(2)
        .says("is not in a git repository");
}

#[test]
fn a_revision_that_does_not_build_is_shown_in_text_and_json() {
    let project = repository();
    project.replace("bench.c", "int main", "#error no main\nint nothing");
    let printed = project.command("compare", &["main", "."]).code(5);
    printed
        .has("FAIL  . could not be built: it ended with status 1")
        .has("#error no main")
        .says(".: the build failed: it ended with status 1");
    let printed = project.command("compare", &["main", ".", "--format", "json"]);
    let json: Value = printed.code(5).json();
    assert_eq!(json["before"]["build_failure"], Value::Null);
    let failure = &json["after"]["build_failure"];
    assert_eq!(failure["problem"], "it ended with status 1");
    let output = failure["output"].as_str().unwrap_or_default();
    output.has("#error no main");
}

#[test]
fn what_a_build_needs_beside_the_repository_is_named() {
    let project = Project::with_cases(&["encode"]);
    let inside = project.folder().join("inside");
    std::fs::create_dir(&inside).expect("the folder is the test's");
    project.write("beside.txt", "x");
    let needing = "build = 'ls $(dirname $PWD)/beside.txt'\n[tests.a]\ncommand = ['true']\n";
    project.write("inside/allotrope.toml", needing);
    start_repository(&inside);
    project
        .command_with("compare", &["main", "main"], |it| it.current_dir(&inside))
        .code(5)
        .has("beside.txt, which is not in the repository");
}

#[test]
fn one_program_for_both_revisions_is_noted() {
    let project = repository();
    let path = project.folder().join("bench").display().to_string();
    project.replace("allotrope.toml", "\"./bench\"", &format!("{path:?}"));
    commit(&project, "an absolute path");
    let built = Command::new("cc")
        .args(["-g", "-pthread", "-w", "-o", "bench", "bench.c"])
        .current_dir(project.folder())
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    project
        .command("compare", &["main", "main", "encode"])
        .ok()
        .has("note: both revisions ran the same file");
}

#[test]
fn a_refusal_of_git_is_passed_on() {
    let project = repository();
    let git = "#!/bin/sh\necho \"fatal: detected dubious ownership in repository at '/x'\" >&2\nexit 128\n";
    let folder = project.folder().join("fake");
    std::fs::create_dir(&folder).expect("the folder is the test's");
    project.write("fake/git", git);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.join("git"), executable).expect("it is there");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", folder.display());
    project
        .command_with("compare", &["main", "."], |it| it.env("PATH", &path))
        .code(2)
        .says("detected dubious ownership in repository at '/x'");
}

#[test]
fn a_stopped_comparison_leaves_no_worktree_and_ends_like_the_signal() {
    let project = repository();
    project.replace(
        "allotrope.toml",
        "build = \"",
        "build = \"kill -TERM $PARENT; sleep 60; ",
    );
    commit(&project, "slow");
    let allotrope = record::command();
    let allotrope = allotrope.get_program().to_string_lossy().into_owned();
    let script = format!("export PARENT=$$; exec {allotrope} compare main HEAD");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .current_dir(project.folder())
        .env("XDG_CACHE_HOME", project.folder().join(".cache"));
    run(&mut shell, b"").code(128 + 15);
    let list = git(&project, &["worktree", "list"]);
    assert_eq!(list.lines().count(), 1, "{list}");
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
    let printed = run(&mut bisect, b"").text();
    let worse = git(&project, &["rev-parse", "main~2"]);
    let found = format!("{} is the first bad commit", worse.trim());
    printed.has(&found);
}

#[test]
fn markdown_and_annotations_for_a_pull_request() {
    let project = repository();
    worsen(&project);
    let line = project.line_of("worse");
    let printed = project.command("compare", &["main", ".", "--format", "markdown"]);
    let printed = printed.code(3).text();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines[0],
        "### Allocations, `main` → `.`: 1 more, 1 the same"
    );
    assert_eq!(
        lines[4],
        "| ❌ more | encode | allocations | 1,000 | 1,050 | +50 |  |"
    );
    // What has not changed is below, collapsed.
    let (above, below) = printed
        .split_once("<details><summary>1 case without a difference</summary>")
        .expect("it is there");
    above.has(format!("bench.c:{line}"));
    below.has("|  | decode | allocations | 500 | 500 |  |  |");
    assert_eq!(above.matches("<details>").count(), 1, "{above}");
    project
        .command("compare", &["main", ".", "--format", "github"])
        .code(3)
        .has("more  encode")
        .has(format!(
            "::error file=bench.c,line={line},title=allocations of encode and 1 more::\
             +50 allocations since main%0A+50 in encode%0A\
             +50 remaining since main%0A+50 in encode\n"
        ));
    project.replace("bench.c", "int main", "#error <no> main\nint nothing");
    project
        .command("compare", &["main", ".", "--format", "markdown"])
        .code(5)
        .has("**. could not be built**: it ended with status 1")
        .has("#error <no> main");
}

/// A folder of the repository may be that of its hooks, as with tools that share hooks through
/// the repository.
#[test]
fn no_hook_and_no_helper_of_the_repository_runs() {
    let project = repository();
    let inner = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(inner.path().join("file"), "").expect("the folder is ours");
    start_repository(inner.path());
    let ran = project.recordings().join("ran");
    let script = format!("#!/bin/sh\necho \"$0\" >> {}\ncat\n", ran.display());
    std::fs::create_dir(project.folder().join("hooks")).expect("the folder is ours");
    for hook in [
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "pre-commit",
        "fsmonitor",
    ] {
        let file = format!("hooks/{hook}");
        project.write(&file, &script);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(project.folder().join(&file), mode).expect("it is ours");
    }
    let url = inner.path().to_str().expect("it is UTF-8");
    let submodule = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        url,
        "inner",
    ];
    git(&project, &submodule);
    commit(&project, "hooks and a submodule");
    git(&project, &["config", "protocol.file.allow", "always"]);
    git(&project, &["config", "core.hooksPath", "hooks"]);
    git(&project, &["config", "core.fsmonitor", "hooks/fsmonitor"]);
    let absolute = project.folder().join("hooks");
    let absolute = absolute.to_str().expect("it is UTF-8");
    let compare = |arguments: &[&str]| {
        project.command_with("compare", arguments, |command| {
            command
                .env("GIT_CONFIG_COUNT", "2")
                .env("GIT_CONFIG_KEY_0", "core.hooksPath")
                .env("GIT_CONFIG_VALUE_0", absolute)
                .env("GIT_CONFIG_KEY_1", "protocol.file.allow")
                .env("GIT_CONFIG_VALUE_1", "always")
        })
    };
    // A new worktree, one that changes its revision, the working tree, the removal.
    for arguments in [&["HEAD", "HEAD"][..], &["HEAD~1", "."], &["HEAD", "HEAD~1"]] {
        compare(arguments).ok();
        let ran = std::fs::read_to_string(&ran).unwrap_or_default();
        assert_eq!(ran, "", "{arguments:?}");
    }
    let worktrees = project.folder().join(".cache/allotrope/compare");
    let mut folders = std::fs::read_dir(worktrees).expect("they are there");
    let folder = folders.next().expect("one").expect("it is readable").path();
    assert!(
        folder.join("at-HEAD/inner/.git").exists(),
        "the submodule is there"
    );
    compare(&["--forget"]).ok();
    assert!(!ran.exists());
}
