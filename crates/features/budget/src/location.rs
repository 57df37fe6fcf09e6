//! Finds out which part of a path is in a repository. The way to the repository is the user's;
//! below it, links are not followed where something is written or removed.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use allotrope_files::Folder;

/// The path relative to the repository at `root`, which is a path without links; `None` if it
/// leads elsewhere. Of the path, only what is above the repository is resolved: `..` removes the
/// component before it, even if that is a link.
pub fn relative(root: &Path, path: &Path) -> Option<PathBuf> {
    let path = plain(&std::path::absolute(path).ok()?);
    if let Ok(inside) = path.strip_prefix(root) {
        return Some(inside.to_owned());
    }
    let is_root = |above: &&Path| above.canonicalize().is_ok_and(|real| real == root);
    let above = path.ancestors().find(is_root)?;
    path.strip_prefix(above).map(Path::to_owned).ok()
}

/// Refuses a path that leads through a link of the repository at `root`. What is outside of the
/// repository is the user's.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if there is such a link.
pub fn refuse_links(root: &Path, path: &Path) -> io::Result<()> {
    match relative(root, path) {
        Some(inside) => Folder::open(root)?.refuse_links(&inside),
        None => Ok(()),
    }
}

/// Whether a file is one of the contents of the repository at `root`, wherever links on the way
/// to it lead. What is git's own (`.git/config` may contain a password) is none.
pub fn is_contents(root: &Path, file: &Path) -> bool {
    let real = file.canonicalize();
    let real = real.as_ref().map(|real| real.strip_prefix(root));
    let git = Component::Normal(OsStr::new(".git"));
    matches!(real, Ok(Ok(inside)) if !inside.components().any(|part| part == git))
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_above_the_repository_are_resolved_and_those_in_it_are_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let all = folder.path().canonicalize().expect("it is there");
        for name in ["repository/sub", "other"] {
            fs::create_dir_all(all.join(name)).expect("the folder is ours");
        }
        fs::write(all.join("repository/sub/file"), "").expect("the folder is ours");
        symlink("repository", all.join("link")).expect("the folder is ours");
        symlink("../other", all.join("repository/out")).expect("the folder is ours");
        symlink("sub/file", all.join("repository/in")).expect("the folder is ours");
        let root = all.join("repository");
        for (path, expected) in [
            ("repository/sub/file", Some("sub/file")),
            ("link/sub/new", Some("sub/new")),
            ("repository/out/x", Some("out/x")),
            ("other/../repository/x", Some("x")),
            ("repository", Some("")),
            ("repository/../other", None),
            ("other/x", None),
        ] {
            let inside = relative(&root, &all.join(path));
            assert_eq!(inside.as_deref(), expected.map(Path::new), "{path}");
        }
        for (path, is_fine) in [
            ("link/sub/file", true),
            ("link/new/new", true),
            ("other/x", true),
            ("link/out/x", false),
            ("repository/out", false),
            ("repository/in", false),
        ] {
            let refused = refuse_links(&root, &all.join(path));
            assert_eq!(refused.is_ok(), is_fine, "{path}: {refused:?}");
        }
        fs::create_dir(root.join(".git")).expect("the folder is ours");
        fs::write(root.join(".git/config"), "").expect("the folder is ours");
        fs::write(all.join("other/x"), "").expect("the folder is ours");
        for (path, expected) in [
            ("repository/in", true),
            ("link/sub/file", true),
            ("repository/out/x", false),
            ("repository/.git/config", false),
            ("repository/none", false),
        ] {
            assert_eq!(is_contents(&root, &all.join(path)), expected, "{path}");
        }
    }
}
