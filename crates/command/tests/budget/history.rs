//! Numbers over the commits of a repository, and tests that get another name.

use crate::support::Text;
use serde_json::Value;

use crate::merging::{commit, git, repository};
use crate::project::Project;

#[test]
fn the_history_of_a_number_has_commits_authors_and_reasons() {
    let project = repository(&["encode", "decode"]);
    // A loop in `encode` allocates 1000 times.
    let more = "free(take(16));\n    }\n    for (int i = 0; i < 7; i++) { free(take(8));";
    project.replace("bench.c", "free(take(16));", more);
    project.compile(&[]);
    project.test(&["--accept", "--because", "seven more"]).ok();
    git(
        &project,
        &["config", "user.name", "Somebody \u{1b}[31mElse"],
    );
    commit(&project, "encode: keep a table");
    project.replace("bench.c", "i < 7;", "i < 9;");
    project.compile(&[]);
    project.accept();
    let printed = project.test(&["--history", "encode"]).ok().text();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "not committed", "{printed}");
    assert_eq!(lines[1], "  encode  allocations 1,007 → 1,009 (+2)");
    assert!(lines[3].ends_with(": encode: keep a table"), "{}", lines[3]);
    assert!(!printed.contains('\u{1b}'), "a name controls the terminal");
    assert_eq!(
        lines[4],
        "  encode  allocations 1,000 → 1,007 (+7)  because: seven more"
    );
    assert!(lines[6].ends_with("somebody: first"), "{}", lines[6]);
    assert_eq!(lines[7], "  encode  allocations none → 1,000");
    // JSON has the same; the file is followed through its renaming.
    commit(&project, "two more");
    project.replace("allotrope.toml", "[tests.encode]", "[tests.encoder]");
    project.test(&["--rename", "encode", "encoder"]).ok();
    commit(&project, "encode is called encoder");
    let json: Value = project
        .test(&["--history", "encoder", "--format", "json"])
        .ok()
        .json();
    assert_eq!(json["format"], "allotrope-history/1");
    let versions = json["versions"].as_array().expect("a list");
    let allocations = |version: &Value| {
        let changes = version["changes"].as_array().expect("a list");
        let numbers = changes.iter().filter(|it| it["metric"] == "allocations");
        numbers
            .map(|it| (it["case"].clone(), it["is"]["typical"].as_i64()))
            .collect::<Vec<_>>()
    };
    let renamed = [("encode".into(), None), ("encoder".into(), Some(1009))];
    assert_eq!(allocations(&versions[0]), renamed, "{json}");
    assert_eq!(allocations(&versions[2]), [("encode".into(), Some(1007))]);
    assert_eq!(versions[2]["changes"][0]["because"], "seven more");
    assert_eq!(versions.len(), 4, "{json}");
}

#[test]
fn a_history_that_cannot_be_told_is_one_sentence() {
    let project = repository(&["encode"]);
    project
        .test(&["--history", "decode"])
        .code(2)
        .says("no numbers of `decode` were ever accepted");
    // A version that nobody can read is part of the history.
    let file = "allotrope-budgets/encode.toml";
    let text = project.read(file);
    project.write(file, &format!("<<<<<<< HEAD\n{text}"));
    commit(&project, "broken");
    project.write(file, &text);
    project
        .test(&["--history", "encode"])
        .ok()
        .has("cannot be read: line 1: a merge conflict");
    let alone = Project::with_cases(&["encode"]);
    alone.accept();
    alone
        .test(&["--history", "encode"])
        .code(2)
        .says("is not in a git repository");
}

#[test]
fn a_test_under_a_new_name_is_recognised_and_renamed() {
    let project = Project::with_cases(&["encode", "decode"]);
    project.accept();
    let before = project.read("allotrope-budgets/encode.toml");
    project.write(
        "allotrope-budgets/encode.toml",
        &before.replace("allocations =", "# Somebody's comment\nallocations ="),
    );
    project.replace("allotrope.toml", "[tests.encode]", "[tests.fast-encode]");
    let printed = project.test(&[]).code(3);
    printed
        .has("fast-encode has the stacks of encode, which is gone")
        .has("If so: allotrope test --rename encode fast-encode");
    project.test(&["--rename", "encode", "fast-encode"]).ok();
    project.test(&[]).ok().has("2 tests: 2 passed");
    let after = project.read("allotrope-budgets/fast-encode.toml");
    after.has("# Somebody's comment");
    after.has("`allotrope test --accept fast-encode`");
    assert!(
        !project
            .folder()
            .join("allotrope-budgets/encode.toml")
            .exists()
    );
    assert!(
        !project
            .folder()
            .join("allotrope-budgets/encode.stacks")
            .exists()
    );
    // Accepting what is there changes nothing.
    project.accept();
    assert_eq!(project.read("allotrope-budgets/fast-encode.toml"), after);
}

#[test]
fn a_rename_that_would_lose_numbers_is_refused() {
    let project = Project::with_cases(&["encode", "decode"]);
    project.accept();
    let refused = |old, new, why| {
        project.test(&["--rename", old, new]).code(2).says(why);
    };
    refused("encode", "decode", "decode has accepted numbers already");
    refused("encode", "gone", "has no test `gone`");
    refused("gone", "decode", "gone has no accepted numbers");
    refused("encode", "decode/x", "must both be tests");
    project.test(&[]).ok();
}
