//! `allotrope compare` of a repository with a submodule.

use std::path::Path;
use std::process::Command;

use crate::project::Project;
use crate::support::run;

#[track_caller]
fn git(folder: &Path, words: &[&str]) {
    // A server that is a folder.
    let options = ["-c", "protocol.file.allow=always"];
    let mut command = Command::new("git");
    command.args(options).args(words).current_dir(folder);
    let output = run(&mut command, b"");
    let printed = output.errors();
    assert!(output.status.success(), "git {words:?}: {printed}");
}

fn commit(folder: &Path) {
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "change"]);
}

fn start_repository(folder: &Path) {
    git(folder, &["init", "--quiet", "--initial-branch=main"]);
    identify(folder);
    commit(folder);
}

fn identify(folder: &Path) {
    git(folder, &["config", "user.name", "somebody"]);
    git(folder, &["config", "user.email", "somebody@localhost"]);
}

/// A project whose program calls a function of the submodule `codec` 1,000 times, and the folder
/// with the submodule's server.
fn project() -> (Project, tempfile::TempDir) {
    let server = tempfile::tempdir().expect("a temporary folder");
    let codec = "int twice(int a) { return 2 * a; }\n";
    std::fs::write(server.path().join("codec.c"), codec).expect("the folder is ours");
    start_repository(server.path());
    let project = Project::new("");
    project.write(
        "main.c",
        "int twice(int);\n\
         int main(void) { int s = 0; for (int i = 0; i < 1000; i++) s += twice(i); return s != 999000; }\n",
    );
    project.write(
        "allotrope.toml",
        "build = \"cc -O1 -g -fno-builtin -w main.c codec/codec.c -o program\"\n\
         [tests.encode]\ncommand = [\"./program\"]\nruns = 2\n",
    );
    project.write(".gitignore", "program\nbench\n.cache\n");
    start_repository(project.folder());
    let url = server.path().to_str().expect("it is UTF-8");
    let words = ["submodule", "--quiet", "add", url, "codec"];
    git(project.folder(), &words);
    identify(&project.folder().join("codec"));
    commit(project.folder());
    (project, server)
}

/// Makes the function of the submodule allocate a block.
fn worsen(project: &Project) {
    let text = "#include <stdlib.h>\nint twice(int a) { free(malloc(10)); return 2 * a; }\n";
    project.write("codec/codec.c", text);
}

#[test]
fn a_submodule_is_measured_as_it_is_without_its_server() {
    let (project, server) = project();
    drop(server);
    worsen(&project);
    let more = "(+1,000)";
    let printed = project.command("compare", &["HEAD", "."]).code(3);
    printed.has(more);
    commit(&project.folder().join("codec"));
    let printed = project.command("compare", &["HEAD", "."]).code(3);
    printed.has(more);
    commit(project.folder());
    let printed = project.command("compare", &["HEAD~1", "HEAD"]).code(3);
    printed.has(more);
}

#[test]
fn a_missing_submodule_is_fetched_or_named() {
    let (project, server) = project();
    let folder = project.folder();
    git(
        folder,
        &["submodule", "--quiet", "deinit", "--force", "codec"],
    );
    std::fs::remove_dir_all(folder.join(".git/modules")).expect("the folder is ours");
    let compare = |arguments: &[&str]| {
        project.command_with("compare", arguments, |command| {
            command
                .env("GIT_CONFIG_COUNT", "1")
                .env("GIT_CONFIG_KEY_0", "protocol.file.allow")
                .env("GIT_CONFIG_VALUE_0", "always")
        })
    };
    let configuration = std::fs::read(folder.join(".git/config")).expect("it is there");
    compare(&["HEAD", "HEAD"]).ok();
    compare(&["--forget"]).ok();
    assert_eq!(
        std::fs::read(folder.join(".git/config")).expect("it is there"),
        configuration
    );
    drop(server);
    compare(&["HEAD", "HEAD"])
        .code(2)
        .says("the submodule codec needs its commit ")
        .says("`git submodule update --init codec`");
    // A revision that has copies of its files.
    git(
        folder,
        &["rm", "--quiet", "--cached", "codec", ".gitmodules"],
    );
    project.write("codec/codec.c", "int twice(int a) { return 2 * a; }\n");
    std::fs::remove_file(folder.join(".gitmodules")).expect("the folder is ours");
    commit(folder);
    compare(&["--bisect", "HEAD", "HEAD~1"]).code(125);
    compare(&["--bisect", "HEAD~1", "HEAD"]).code(128);
}
