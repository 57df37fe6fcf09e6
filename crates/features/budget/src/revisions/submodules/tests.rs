//! A project with the submodule `codec`, which has the submodule `inner`. Their servers are
//! folders, which tests remove.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::revisions::{Repository, WORKING_TREE};

struct Project {
    all: TempDir,
    repository: Repository,
}

fn set_up(repository: &Path) {
    let run = |words: &[&str]| git(repository, words).unwrap();
    run(&["init", "--quiet", "--initial-branch=main"]);
    run(&["config", "user.name", "somebody"]);
    run(&["config", "user.email", "somebody@localhost"]);
    run(&["config", "protocol.file.allow", "always"]);
}

fn commit_all(repository: &Path) -> String {
    git(repository, ["add", "."]).unwrap();
    git(repository, ["commit", "--quiet", "-m", "change"]).unwrap();
    git(repository, ["rev-parse", "HEAD"]).unwrap()
}

fn add_submodule(repository: &Path, url: &Path, path: &str) {
    let url = url.to_str().unwrap();
    let words = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
    let words = words.into_iter().chain(["add", "--force", url, path]);
    git(repository, words).unwrap();
}

impl Project {
    fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        let path = |name: &str| all.path().join(name);
        for name in ["inner", "codec", "app"] {
            let folder = path(if name == "app" { "app" } else { "servers" });
            let folder = if name == "app" {
                folder
            } else {
                folder.join(name)
            };
            fs::create_dir_all(&folder).unwrap();
            set_up(&folder);
            fs::write(folder.join("file"), name).unwrap();
            fs::write(folder.join(".gitignore"), "ignored\n").unwrap();
            match name {
                "codec" => add_submodule(&folder, &path("servers/inner"), "inner"),
                "app" => add_submodule(&folder, &path("servers/codec"), "codec"),
                _ => {}
            }
            commit_all(&folder);
        }
        let words = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
        let words = words.into_iter().chain(["update", "--init", "--recursive"]);
        git(&path("app"), words).unwrap();
        for folder in ["app/codec", "app/codec/inner"] {
            set_up(&path(folder));
        }
        let mut repository = Repository::containing(&path("app")).unwrap();
        repository.cache = path("cache");
        Self { all, repository }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.all.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    fn commit(&self, repository: &str) -> String {
        commit_all(&self.path(repository))
    }

    fn servers_are_gone(&self) {
        fs::rename(self.path("servers"), self.path("gone")).unwrap();
    }

    /// Checks out a revision; the folder's files at these paths, `None` where there is none.
    #[track_caller]
    fn files<const N: usize>(&self, name: &str, paths: [&str; N]) -> [Option<String>; N] {
        let worktree = self.repository.worktree(name);
        let worktree = worktree.unwrap_or_else(|error| panic!("{name}: {error}"));
        paths.map(|path| fs::read_to_string(worktree.folder.join(path)).ok())
    }

    /// Everything of the user's repositories but the objects.
    fn state(&self) -> String {
        let mut state = String::new();
        for folder in ["app", "app/codec", "app/codec/inner"] {
            let folder = self.path(folder);
            if !folder.join(".git").exists() {
                continue;
            }
            for words in [
                &["worktree", "list", "--porcelain"][..],
                &["for-each-ref"],
                &["config", "--list", "--local"],
                &["ls-files", "--stage"],
                &[
                    "status",
                    "--porcelain=v2",
                    "--branch",
                    "--untracked-files=all",
                ],
                &["reflog"],
            ] {
                state += &git(&folder, words).unwrap();
                state += "\n\n";
            }
        }
        state
    }
}

const CODEC: [&str; 2] = ["codec/file", "codec/inner/file"];

fn some<const N: usize>(texts: [&str; N]) -> [Option<String>; N] {
    texts.map(|text| Some(text.to_owned()))
}

#[test]
fn submodules_need_no_server_and_nothing_of_the_user_is_changed() {
    let project = Project::new();
    project.servers_are_gone();
    project.write("app/codec/inner/file", "inner, not pushed");
    project.commit("app/codec/inner");
    project.write("app/codec/file", "codec, not pushed");
    project.commit("app/codec");
    project.commit("app");
    project.write("app/codec/file", "codec, not committed");
    let state = project.state();
    assert_eq!(project.files("HEAD~1", CODEC), some(["codec", "inner"]));
    let changed = some(["codec, not pushed", "inner, not pushed"]);
    assert_eq!(project.files("HEAD", CODEC), changed);
    project.repository.remove_worktrees().unwrap();
    assert_eq!(project.state(), state);
    assert!(!project.path("cache").exists());
}

#[test]
fn submodules_keep_their_build_results() {
    let project = Project::new();
    let worktree = project.repository.worktree("HEAD").unwrap().folder;
    for folder in ["codec", "codec/inner"] {
        fs::write(worktree.join(folder).join("ignored"), "built").unwrap();
    }
    project.write("app/codec/file", "changed");
    project.commit("app/codec");
    project.commit("app");
    let paths = ["codec/file", "codec/ignored", "codec/inner/ignored"];
    let expected = some(["changed", "built", "built"]);
    assert_eq!(project.files("HEAD", paths), expected);
}

#[test]
fn the_working_tree_has_uncommitted_files_of_submodules() {
    let project = Project::new();
    let state = project.state();
    let clean = project.files(WORKING_TREE, CODEC);
    assert_eq!(clean, some(["codec", "inner"]));
    project.repository.remove_worktrees().unwrap();
    assert_eq!(project.state(), state);
    project.write("app/codec/new", "new");
    project.write("app/codec/ignored", "ignored");
    project.write("app/codec/inner/file", "changed");
    let state = project.state();
    let paths = [
        "codec/file",
        "codec/new",
        "codec/inner/file",
        "codec/ignored",
    ];
    let [file, new, inner, ignored] = project.files(WORKING_TREE, paths);
    assert_eq!([file, new, inner], some(["codec", "new", "changed"]));
    assert_eq!(ignored, None);
    assert_eq!(project.files("HEAD", CODEC), some(["codec", "inner"]));
    project.repository.remove_created().unwrap();
    assert_eq!(project.state(), state);
}

#[test]
fn revisions_differ_in_their_submodules() {
    let project = Project::new();
    let app = project.path("app");
    let first = git(&app, ["rev-parse", "HEAD"]).unwrap();
    git(&app, ["mv", "codec", "moved"]).unwrap();
    let moved = project.commit("app");
    git(&app, ["rm", "--quiet", "--cached", "moved"]).unwrap();
    fs::remove_dir_all(app.join("moved")).unwrap();
    fs::remove_file(app.join(".gitmodules")).unwrap();
    fs::create_dir_all(app.join("codec/inner")).unwrap();
    project.write("app/codec/file", "copied");
    let copied = project.commit("app");
    project.servers_are_gone();
    let paths = [
        "codec/file",
        "codec/inner/file",
        "moved/file",
        "moved/inner/file",
    ];
    let text = |text: &str| Some(text.to_owned());
    let of_first = [text("codec"), text("inner"), None, None];
    let of_moved = [None, None, text("codec"), text("inner")];
    let of_copied = [text("copied"), None, None, None];
    // Each in a worktree of its own.
    assert_eq!(project.files(&first, paths), of_first);
    assert_eq!(project.files(&moved, paths), of_moved);
    assert_eq!(project.files(&copied, paths), of_copied);
    project.repository.remove_worktrees().unwrap();
    // One worktree that changes its revision.
    let expected = [
        (&first, &of_first),
        (&copied, &of_copied),
        (&moved, &of_moved),
        (&first, &of_first),
    ];
    for (revision, files) in expected {
        git(
            &app,
            ["checkout", "--quiet", "--force", "--detach", revision],
        )
        .unwrap();
        assert_eq!(&project.files("HEAD", paths), files, "{revision}");
    }
    project.repository.remove_worktrees().unwrap();
    let git_dir = app.join(".git/modules/codec");
    let list = git_in(&git_dir, ["worktree", "list"].map(OsStr::new)).unwrap();
    assert_eq!(list.split(|byte| *byte == b'\n').count(), 2);
}

#[test]
fn the_checkout_of_a_submodule_may_be_absent() {
    let project = Project::new();
    project.servers_are_gone();
    git(
        &project.path("app"),
        ["submodule", "--quiet", "deinit", "--force", "codec"],
    )
    .unwrap();
    let state = project.state();
    assert_eq!(project.files("HEAD", CODEC), some(["codec", "inner"]));
    assert_eq!(project.files(WORKING_TREE, CODEC), some(["codec", "inner"]));
    project.repository.remove_worktrees().unwrap();
    assert_eq!(project.state(), state);
}

#[test]
fn what_cannot_be_fetched_is_named() {
    let project = Project::new();
    let app = project.path("app");
    let commit = git(&app.join("codec"), ["rev-parse", "HEAD"]).unwrap();
    git(&app, ["submodule", "--quiet", "deinit", "--force", "codec"]).unwrap();
    fs::remove_dir_all(app.join(".git/modules")).unwrap();
    let state = project.state();
    let error = project.repository.worktree("HEAD").unwrap_err().to_string();
    for part in [
        "the submodule codec needs its commit ",
        &commit,
        "cannot be fetched (transport 'file' not allowed)",
        "`git submodule update --init codec`",
        "`git config submodule.codec.update none`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(error.lines().count(), 1, "{error}");
    project.repository.remove_worktrees().unwrap();
    assert_eq!(project.state(), state);
    git(&app, ["config", "submodule.codec.update", "none"]).unwrap();
    assert_eq!(project.files("HEAD", ["file", "codec/file"])[1], None);
}

#[test]
fn a_removal_after_an_interruption_is_complete() {
    let project = Project::new();
    let state = project.state();
    let worktree = project.repository.worktree("HEAD").unwrap();
    // As when git was killed while it added the worktree.
    let git_dir = project.path("app/.git/modules/codec");
    let entries = fs::read_dir(git_dir.join("worktrees")).unwrap();
    for entry in entries {
        fs::write(entry.unwrap().path().join("locked"), "initializing").unwrap();
    }
    fs::remove_file(worktree.folder.join("codec/.git")).unwrap();
    drop(worktree);
    assert_eq!(project.files("HEAD", CODEC), some(["codec", "inner"]));
    // As when a removal was interrupted.
    fs::remove_dir_all(project.path("cache/at-HEAD/codec")).unwrap();
    project.repository.remove_worktrees().unwrap();
    assert_eq!(project.state(), state);
}

/// The user's other worktrees, also one that is not there at the moment.
#[test]
fn other_worktrees_stay_in_the_lists() {
    let project = Project::new();
    for repository in ["app", "app/codec"] {
        let other = project.path(&repository.replace('/', "-of-"));
        let other = other.with_extension("other");
        let words = ["worktree", "add", "--quiet", "--detach"].map(OsStr::new);
        let words = words.into_iter().chain([other.as_os_str()]);
        git(&project.path(repository), words).unwrap();
        fs::rename(&other, other.with_extension("away")).unwrap();
    }
    let state = project.state();
    project.files("HEAD", CODEC);
    project.repository.remove_worktrees().unwrap();
    assert_eq!(project.state(), state);
}

#[test]
fn paths_names_and_urls_are_hostile() {
    let project = Project::new();
    let app = project.path("app");
    let commit = git(&app.join("codec"), ["rev-parse", "HEAD"]).unwrap();
    let ran = project.path("ran");
    let url = format!("ext::sh -c \"touch {}\"", ran.display());
    // The commit is nowhere, so that git would run the command.
    let nowhere = "1".repeat(40);
    git(
        &app,
        [
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{nowhere},evil"),
        ],
    )
    .unwrap();
    let section = format!("[submodule \"evil\"]\n path = evil\n url = {url:?}\n");
    project.write("app/.gitmodules", &section);
    let words = ["commit", "--quiet", "-m", "evil", ".gitmodules"];
    git(&app, ["add", ".gitmodules"]).unwrap();
    git(&app, &words[..4]).unwrap();
    let error = project.repository.worktree("HEAD").unwrap_err().to_string();
    assert!(error.contains("'ext' not allowed"), "{error}");
    assert!(!ran.exists());
    // A name that leads out of the folder of git directories.
    let outside = project.path("servers/codec/.git");
    let relative = "../../../servers/codec/.git";
    let section = format!("[submodule \"{relative}\"]\n path = evil\n url = /nowhere\n");
    project.write("app/.gitmodules", &section);
    let entry = format!("160000,{commit},evil");
    git(&app, ["update-index", "--add", "--cacheinfo", &entry]).unwrap();
    git(&app, ["add", ".gitmodules"]).unwrap();
    git(&app, ["commit", "--quiet", "-m", "name"]).unwrap();
    assert!(app.join(".git/modules").join(relative).exists());
    // Git passes over such a name, or says that there is no such server.
    if let Ok(worktree) = project.repository.worktree("HEAD") {
        assert!(!worktree.folder.join("evil/.git").exists());
    }
    assert!(!outside.join("worktrees").exists());
    // A link of the working tree at the path of the submodule.
    let section = "[submodule \"evil\"]\n path = link/codec\n url = /nowhere\n";
    project.write("app/.gitmodules", section);
    git(&app, ["update-index", "--force-remove", "evil"]).unwrap();
    let entry = format!("160000,{commit},link/codec");
    git(&app, ["update-index", "--add", "--cacheinfo", &entry]).unwrap();
    git(&app, ["add", ".gitmodules"]).unwrap();
    git(&app, ["commit", "--quiet", "-m", "link"]).unwrap();
    symlink(project.path("servers"), app.join("link")).unwrap();
    let outcome = project.repository.worktree("HEAD");
    assert!(outcome.is_err(), "{outcome:?}");
    assert!(!outside.join("worktrees").exists());
    project.repository.remove_worktrees().unwrap();
}

#[test]
fn gitlinks_are_found_in_indexes_and_trees() {
    let hash = "a".repeat(40);
    let link = |path: &str| Gitlink {
        path: path.into(),
        commit: hash.clone(),
    };
    let index = format!("100644 {hash} 0\tfile\x00160000 {hash} 0\ta b/c\td\0");
    assert_eq!(gitlinks(index.as_bytes()), [link("a b/c\td")]);
    let tree = format!("160000 commit {hash}\tcodec\x00040000 tree {hash}\tx\0");
    assert_eq!(gitlinks(tree.as_bytes()), [link("codec")]);
}
