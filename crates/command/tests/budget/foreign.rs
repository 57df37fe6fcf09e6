//! A repository from elsewhere: its links, its configuration and the names in it do no harm
//! outside of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::Text;
use tempfile::TempDir;

use crate::project::Project;

const TEST: &str = "warmup = 0\n[tests.encode]\ncommand = [\"./bench\", \"encode\"]\n";

/// A project, and a folder outside of it in which nothing may change.
struct Foreign {
    project: Project,
    outside: TempDir,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl Foreign {
    fn new(configuration: &str) -> Self {
        let outside = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in [
            (".profile", "keep\n"),
            ("letter", "keep, too\n"),
            ("t.toml", "[a]\nkey = \"secret\"\n"),
            ("x.stacks", "not stacks of ours\n"),
            ("failed-1/x.allotrope", "no recording\n"),
            ("running-x/letter", "keep\n"),
        ] {
            let path = outside.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is ours");
            fs::write(path, text).expect("the folder is ours");
        }
        let before = files(outside.path());
        Self {
            project: Project::new(configuration),
            outside,
            before,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.project.folder().join(name)
    }

    fn link(&self, name: &str, to: &str) {
        symlink(self.outside.path().join(to), self.path(name)).expect("the folder is ours");
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is ours");
        fs::write(path, text).expect("the folder is ours");
    }

    #[track_caller]
    fn assert_nothing_changed(&self, what: &str) {
        assert_eq!(files(self.outside.path()), self.before, "{what}");
    }
}

/// The files below a folder with their contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder is ours") {
        let path = entry.expect("the folder is ours").path();
        if path.is_symlink() {
            let to = fs::read_link(&path).expect("the folder is ours");
            all.insert(path, to.into_os_string().into_encoded_bytes());
        } else if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), fs::read(path).expect("the folder is ours"));
        }
    }
    all
}

/// The text with one blank between its words.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn accepting_follows_no_link() {
    let foreign = Foreign::new(TEST);
    for (link, to) in [
        ("allotrope-budgets/made-with", ""),
        ("allotrope-budgets/encode.toml", "new.toml"),
        ("allotrope-budgets/encode.toml", "t.toml"),
        ("allotrope-budgets/encode.stacks", "new"),
        ("allotrope-budgets/encode.stacks", "letter"),
        ("allotrope-budgets", ""),
    ] {
        let budgets = foreign.path("allotrope-budgets");
        let _ = fs::remove_file(&budgets);
        let _ = fs::remove_dir_all(&budgets);
        if link.contains('/') {
            fs::create_dir(&budgets).expect("the folder is ours");
        }
        foreign.link(link, to);
        for arguments in [&["--accept"][..], &["--accept", "encode"], &[]] {
            let finished = foreign.project.test(arguments);
            foreign.assert_nothing_changed(link);
            if arguments.is_empty() && link.ends_with("made-with") {
                // Nothing is written, and nothing was accepted.
                finished.code(3);
                continue;
            }
            // Accepted stacks only explain numbers, of which there are none.
            let is_note = arguments.is_empty() && link.ends_with(".stacks");
            let finished = finished.code(if is_note { 3 } else { 2 });
            let printed = [finished.text(), finished.errors()].concat();
            printed.has(link);
            unwrapped(&printed).has("symbolic link");
            printed.lacks("secret");
        }
        if link.contains('/') {
            let left: Vec<_> = files(&budgets).into_keys().collect();
            assert!(left.iter().all(|path| path.is_symlink()), "{left:?}");
        }
    }
}

#[test]
fn attributes_that_are_there_are_left() {
    let foreign = Foreign::new(TEST);
    foreign.write("allotrope-budgets/.gitignore", "");
    foreign.link("allotrope-budgets/.gitattributes", ".profile");
    foreign.project.accept();
    foreign.assert_nothing_changed("a link");
    fs::remove_file(foreign.path("allotrope-budgets/.gitattributes")).expect("it is there");
    foreign.link("allotrope-budgets/.gitattributes", "new");
    foreign.project.accept();
    foreign.assert_nothing_changed("a link to nothing");
}

#[test]
fn only_budgets_are_removed() {
    let foreign = Foreign::new(TEST);
    let budget = |name: &str| {
        format!(
            "# What the test {name} may allocate. `allotrope test --accept {name}` writes this file.\n\
             format = \"allotrope-budgets/1\"\n\n[shared]\nmade-with = \"0123456789ab\"\n"
        )
    };
    let conflict = budget("merged").replace(
        "[shared]",
        "<<<<<<< ours\n[shared]\n=======\n[other]\n>>>>>>> theirs",
    );
    let conflict_above = format!(
        "<<<<<<< ours\n# one\n=======\n# two\n>>>>>>> theirs\n{}",
        budget("above").split_once('\n').expect("a comment").1
    );
    let stacks = "# Call stacks of the accepted numbers, callers above. They show what changed a number.\n\
                  <<<<<<< ours\n";
    let ours = [
        ("gone.toml", budget("gone")),
        ("merged.toml", conflict),
        ("above.toml", conflict_above),
        ("gone.stacks", stacks.to_owned()),
    ];
    let theirs = [
        ("Cargo.toml", "[package]\nname = \"x\"\n"),
        (
            "pyproject.toml",
            "# format = \"allotrope-budgets/1\"\n[x]\n",
        ),
        ("letter.stacks", "dear reader\n"),
        ("empty.stacks", ""),
        ("made-with/Cargo.toml", "[package]\nname = \"x\"\n"),
        ("made-with/letter", "dear reader\n"),
    ];
    for (name, text) in &ours {
        foreign.write(&format!("allotrope-budgets/{name}"), text);
    }
    for (name, text) in theirs {
        foreign.write(&format!("allotrope-budgets/{name}"), text);
    }
    let mut finished = foreign.project.test(&["--prune"]).ok();
    for (name, _) in &ours {
        finished = finished.has(format!("removed ./allotrope-budgets/{name}\n"));
    }
    for name in [
        "Cargo.toml",
        "pyproject.toml",
        "letter.stacks",
        "empty.stacks",
    ] {
        let line = format!("left ./allotrope-budgets/{name}: it is no budget");
        finished = finished.has(&line);
    }
    let left = files(&foreign.path("allotrope-budgets")).into_keys();
    let left: Vec<_> = left
        .map(|path| {
            path.strip_prefix(foreign.path("allotrope-budgets"))
                .unwrap()
                .to_owned()
        })
        .collect();
    let mut expected: Vec<PathBuf> = theirs.iter().map(|(name, _)| name.into()).collect();
    expected.sort();
    assert_eq!(left, expected);
    // Accepting removes what no budget refers to, and no more.
    foreign.project.accept();
    for (name, text) in theirs {
        assert_eq!(
            foreign.project.read(&format!("allotrope-budgets/{name}")),
            text
        );
    }
}

#[test]
fn pruning_follows_no_link() {
    let foreign = Foreign::new(TEST);
    foreign.link("allotrope-budgets", "");
    foreign
        .project
        .test(&["--prune"])
        .code(2)
        .says("allotrope-budgets: it is a symbolic link");
    foreign.assert_nothing_changed("the folder is a link");
    fs::remove_file(foreign.path("allotrope-budgets")).expect("it is there");
    fs::create_dir(foreign.path("allotrope-budgets")).expect("the folder is ours");
    foreign.link("allotrope-budgets/t.toml", "t.toml");
    foreign.link("allotrope-budgets/x.stacks", "x.stacks");
    foreign.link("allotrope-budgets/made-with", "");
    foreign.project.test(&["--prune"]);
    foreign.assert_nothing_changed("links in the folder");
}

#[test]
fn names_in_budgets_are_no_paths() {
    let foreign = Foreign::new(TEST);
    let outside = foreign.outside.path().to_str().expect("it is UTF-8");
    // Relative to the folder of budgets.
    let up = format!("../../..{outside}");
    foreign.write(
        "allotrope-budgets/old.toml",
        &format!(
            "format = \"allotrope-budgets/1\"\n[platforms.\"/{up}/x\"]\nmade-with = \"0\"\n\
             [platforms.\"x/{up}/x\"]\nmade-with = \"0\"\n"
        ),
    );
    // A folder for the first component.
    fs::create_dir(foreign.path("allotrope-budgets/old.x")).expect("the folder is ours");
    foreign.project.test(&["--rename", "old", "encode"]);
    foreign.assert_nothing_changed("the name of a platform");
    foreign.write(
        "allotrope-budgets/made-with.toml",
        &format!("[toolchains.\"../{up}/new\"]\nplatform = \"x\"\ncompilers = []\n"),
    );
    foreign.project.test(&["--prune"]);
    foreign.project.test(&["--accept"]);
    foreign.assert_nothing_changed("the fingerprint of a toolchain");
}

#[test]
fn budgets_are_in_the_repository_of_their_configuration() {
    let foreign = Foreign::new(TEST);
    fs::create_dir(foreign.path(".git")).expect("the folder is ours");
    let outside = foreign.outside.path().to_str().expect("it is UTF-8");
    let text = foreign.project.read("allotrope.toml");
    for budgets in [
        outside.to_owned(),
        format!("../..{outside}"),
        "..".to_owned(),
    ] {
        let line = format!("budgets = {budgets:?}\n");
        foreign
            .project
            .write("allotrope.toml", &format!("{line}{text}"));
        for arguments in [&["--accept"][..], &["--prune"]] {
            foreign
                .project
                .test(arguments)
                .code(2)
                .says("outside of the repository");
        }
        foreign.assert_nothing_changed(&budgets);
    }
    // A build system names the folder from its build folder.
    fs::create_dir(foreign.path("build")).expect("the folder is ours");
    let root = foreign.project.folder().to_str().expect("it is UTF-8");
    for budgets in ["../accepted".to_owned(), format!("{root}/accepted")] {
        let text = text.replace("./bench", "../bench");
        let line = format!("budgets = {budgets:?}\n");
        foreign
            .project
            .write("build/allotrope.toml", &format!("{line}{text}"));
        let arguments = ["--config", "build/allotrope.toml", "--accept"];
        foreign.project.test(&arguments).ok();
        assert!(foreign.path("accepted/encode.toml").is_file());
        fs::remove_dir_all(foreign.path("accepted")).expect("the folder is ours");
    }
}

#[test]
fn recordings_of_failed_tests_stay_in_the_target_folder() {
    let foreign = Foreign::new(TEST);
    foreign.write("Cargo.toml", "");
    foreign.write("target/CACHEDIR.TAG", "");
    foreign.link("target/allotrope", "");
    // Without accepted numbers, the test fails.
    let finished = foreign.project.test(&[]).code(3);
    foreign.assert_nothing_changed("target/allotrope is a link");
    finished.text().lacks("target/allotrope");
    finished.has("failed-1/encode.2.allotrope");
    // The folder of older recordings: what is no recording of ours stays.
    fs::remove_file(foreign.path("target/allotrope")).expect("it is there");
    foreign.write("target/allotrope/failed-1/letter", "keep\n");
    foreign.write("target/allotrope/failed-1/x.allotrope", "no recording\n");
    foreign.write("target/allotrope/failed-8/letter", "keep\n");
    for name in ["failed-2", "failed-9"] {
        symlink(
            foreign.outside.path(),
            foreign.path("target/allotrope").join(name),
        )
        .unwrap();
    }
    foreign
        .project
        .test(&[])
        .code(3)
        .has("target/allotrope/failed-10/encode.2.allotrope");
    foreign.assert_nothing_changed("failed-2 is a link");
    assert_eq!(
        foreign.project.read("target/allotrope/failed-1/letter"),
        "keep\n"
    );
    assert_eq!(
        foreign
            .project
            .read("target/allotrope/failed-1/x.allotrope"),
        "no recording\n"
    );
    assert_eq!(
        foreign.project.read("target/allotrope/failed-8/letter"),
        "keep\n"
    );
}

#[test]
fn a_scratch_folder_in_the_repository_is_no_link() {
    let foreign = Foreign::new(TEST);
    foreign.link("recordings", "");
    foreign
        .project
        .test(&["--scratch", "recordings"])
        .code(2)
        .says("recordings: it is a symbolic link");
    foreign.assert_nothing_changed("the folder is a link");
    fs::create_dir(foreign.path("there")).expect("the folder is ours");
    foreign.link("there/encode.1.allotrope", "new.allotrope");
    let finished = foreign.project.test(&["--scratch", "there"]).code(5);
    let printed = unwrapped(&finished.text());
    printed.has("encode.1.allotrope: it is a symbolic link");
    foreign.assert_nothing_changed("the recording is a link");
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let folder = elsewhere.path().join("real");
    fs::create_dir(&folder).expect("the folder is ours");
    let link = elsewhere.path().join("link");
    symlink(&folder, &link).expect("the folder is ours");
    // The user's own link.
    let link = link.to_str().expect("it is UTF-8");
    foreign.project.test(&["--scratch", link]).code(3);
    assert!(folder.join("encode.2.allotrope").is_file());
}

#[test]
fn files_of_results_are_no_links_of_the_repository() {
    let foreign = Foreign::new(TEST);
    foreign.link("junit.xml", ".profile");
    foreign.link("out", "");
    for file in ["junit.xml", "out/new.xml", "./out/letter"] {
        let write = format!("junit={file}");
        foreign
            .project
            .test(&["--write", &write])
            .code(2)
            .says("symbolic link");
        foreign.assert_nothing_changed(file);
    }
    foreign
        .project
        .test(&["--write", "junit=results.xml"])
        .code(3);
    assert!(foreign.project.read("results.xml").starts_with("<?xml"));
    foreign
        .project
        .test(&["--write", "markdown=/dev/stdout"])
        .code(3)
        .has("### Allocations");
}

#[test]
fn a_new_configuration_is_written_through_no_link() {
    let foreign = Foreign::new(TEST);
    foreign.link("sub", "");
    foreign
        .project
        .test(&["--init", "--config", "sub/allotrope.toml", "--", "./bench"])
        .code(2)
        .says("symbolic link");
    foreign.assert_nothing_changed("the folder is a link");
}

#[test]
fn a_configuration_names_stored_files() {
    let foreign = Foreign::new(TEST);
    let pipe = foreign.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("it is new");
    fs::File::create(foreign.path("huge"))
        .expect("it is new")
        .set_len(1 << 40)
        .expect("sparse");
    foreign.link("zero", "../../../../../../../../dev/zero");
    let text = foreign.project.read("allotrope.toml");
    let files = ["/dev/zero", "pipe", "zero", "/proc/self/environ", "huge"];
    for (key, words) in [("suppressions", "the list "), ("dependencies", "")] {
        for file in files {
            foreign
                .project
                .write("allotrope.toml", &format!("{key} = [{file:?}]\n{text}"));
            for arguments in [&[][..], &["--accept"], &["--prune"]] {
                foreign.project.test(arguments).code(2).says(format!(
                    "allotrope.toml:1: {key}: cannot read {words}{file}: it "
                ));
            }
        }
    }
    for file in &files[..4] {
        foreign
            .project
            .write("allotrope.toml", &format!("{text}stdin = {file:?}\n"));
        foreign
            .project
            .test(&[])
            .code(2)
            .says("cannot read its `stdin`");
    }
    // The configuration itself, and others beside it.
    foreign.project.write("allotrope.toml", &text);
    for file in files {
        foreign
            .project
            .test(&["--config", file])
            .code(2)
            .says("cannot read");
    }
    fs::rename(foreign.path("huge"), foreign.path("huge.toml")).expect("the folder is ours");
    foreign
        .project
        .test(&["--prune"])
        .code(2)
        .says("huge.toml: it has more than");
}

#[test]
fn a_bad_line_of_a_file_outside_is_not_quoted() {
    let foreign = Foreign::new(TEST);
    let secret = foreign.outside.path().join("letter");
    let secret = secret.to_str().expect("it is UTF-8");
    fs::create_dir(foreign.path(".git")).expect("the folder is ours");
    foreign.write(".git/token", "keep, too\n");
    foreign.write("own.supp", "keep, too\n");
    foreign.link("link.supp", "letter");
    let text = foreign.project.read("allotrope.toml");
    for file in [secret, "link.supp", ".git/token", "own.supp"] {
        foreign.project.write(
            "allotrope.toml",
            &format!("suppressions = [{file:?}]\n{text}"),
        );
        let finished = foreign.project.test(&[]).code(2);
        let place = format!("{file}:1: ");
        let quotes = finished.errors().contains("keep, too");
        assert_eq!(quotes, file == "own.supp", "{}", finished.errors());
        finished.says(&place);
    }
}
