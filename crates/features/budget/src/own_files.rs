//! The source files that are the project's own: those of the repository under test.
//!
//! A source file is one of them if all of this holds:
//!
//! - its path in the debug information, relative to the repository's root, is that of a
//!   file that exists now. Debug information may have paths of another machine;
//! - it is not in a repository within the repository, such as a submodule;
//! - it is not in a build folder: one that has a `CACHEDIR.TAG` (Cargo) or a
//!   `CMakeCache.txt`;
//! - git does not ignore it.
//!
//! Whether such a file is vendored code, git does not know: `glue` has patterns for that.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::git::command;

/// What a folder has that is the root of another repository or of a build.
const MARKS: [&str; 3] = [".git", "CACHEDIR.TAG", "CMakeCache.txt"];

/// The project's own files among those of measured and of accepted stacks, as normalised
/// by [`Project::file`](crate::paths::Project::file). An accepted file that no measured
/// stack has need not exist any more.
pub fn own_files<'f>(
    root: &Path,
    measured: impl Iterator<Item = &'f str>,
    accepted: impl Iterator<Item = &'f str>,
) -> FxHashSet<String> {
    let measured: FxHashSet<&str> = measured.collect();
    let accepted = accepted.filter(|file| !measured.contains(file));
    let accepted: FxHashSet<&str> = accepted.collect();
    let mut folders = FxHashMap::default();
    let mut is_ours = |file: &str| is_inside(file) && !is_apart(root, file, &mut folders);
    let mut own: FxHashSet<String> = FxHashSet::default();
    for file in measured {
        if is_ours(file) && root.join(file).is_file() {
            own.insert(file.to_owned());
        }
    }
    for file in accepted {
        if is_ours(file) {
            own.insert(file.to_owned());
        }
    }
    for ignored in ignored(root, &own) {
        own.remove(&ignored);
    }
    own
}

/// Whether a normalised path is relative to the root and does not leave it.
fn is_inside(file: &str) -> bool {
    let leaves = file.split('/').any(|part| part == ".." || part == ".git");
    let foreign = file.starts_with("cargo:") || file.starts_with("rustc:");
    !file.is_empty() && !file.starts_with('/') && !leaves && !foreign
}

/// Whether a folder between the root and the file has one of the marks. The root itself
/// may have them: it is a repository, and some build in it.
fn is_apart(root: &Path, file: &str, folders: &mut FxHashMap<String, bool>) -> bool {
    let slashes = file.match_indices('/');
    let mut above = slashes.map(|(at, _)| &file[..at]);
    above.any(|folder| match folders.get(folder) {
        Some(&marked) => marked,
        None => {
            let path = root.join(folder);
            let marked = MARKS.iter().any(|mark| path.join(mark).exists());
            folders.insert(folder.to_owned(), marked);
            marked
        }
    })
}

/// The files that git ignores; none if it cannot be asked.
fn ignored(root: &Path, files: &FxHashSet<String>) -> Vec<String> {
    if files.is_empty() || !root.join(".git").exists() {
        return Vec::new();
    }
    let mut command = command(root, ["check-ignore", "--stdin", "-z"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut git) = command.stderr(Stdio::null()).spawn() else {
        return Vec::new();
    };
    let input: String = files.iter().flat_map(|file| [file, "\0"]).collect();
    // In a thread of its own, because git answers while it reads.
    let stdin = git.stdin.take();
    let writer = std::thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // An error means that git has ended, and its status says why.
            let _ = stdin.write_all(input.as_bytes());
        }
    });
    let output = git.wait_with_output();
    let _ = writer.join();
    let Ok(output) = output else {
        return Vec::new();
    };
    // Status 1: none is ignored; others: an error.
    if output.status.code() != Some(0) {
        return Vec::new();
    }
    let paths = output.stdout.split(|&byte| byte == 0);
    paths
        .filter_map(|path| String::from_utf8(path.to_vec()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_files_of_this_working_tree_are_own() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        let write = |file: &str| {
            let path = root.join(file);
            let above = path.parent().expect("it is in the folder");
            std::fs::create_dir_all(above).expect("the folder is the test's");
            std::fs::write(path, "").expect("the folder is the test's");
        };
        let there = [
            "src/main.c",
            "third_party/json.hpp",
            "sub/.git",
            "sub/sub.c",
            "out/CACHEDIR.TAG",
            "out/generated.c",
            "build/CMakeCache.txt",
            "build/deep/moc.cc",
            "CMakeCache.txt",
            "generated/parser.c",
        ];
        there.into_iter().for_each(write);
        let elsewhere = [
            "lib/other.c",
            "/usr/include/stdio.h",
            "../a.c",
            "cargo:a-1/a.rs",
            "",
        ];
        let measured = || there.into_iter().chain(elsewhere);
        let accepted = [
            "src/gone.c",
            "lib/other.c",
            "rustc:library/core/src/a.rs",
            "sub/gone.c",
        ];
        let own = |root: &Path| {
            let own = own_files(root, measured(), accepted.into_iter());
            let mut own: Vec<String> = own.into_iter().collect();
            own.sort();
            own
        };
        let without_git = [
            "CMakeCache.txt",
            "generated/parser.c",
            "src/gone.c",
            "src/main.c",
            "third_party/json.hpp",
        ];
        assert_eq!(own(root), without_git);
        write(".gitignore");
        std::fs::write(root.join(".gitignore"), "/generated/\nCMakeCache.txt\n")
            .expect("the folder is the test's");
        let git = Command::new("git").arg("init").arg("-q").arg(root).status();
        assert!(git.expect("git is installed").success());
        assert_eq!(
            own(root),
            ["src/gone.c", "src/main.c", "third_party/json.hpp"]
        );
    }
}
