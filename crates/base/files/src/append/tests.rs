//! What is appended to, and what is refused.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

fn reason(path: &Path) -> String {
    append(path, Whose::Own)
        .expect_err("it is refused")
        .to_string()
}

#[test]
fn a_file_is_created_and_then_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for part in ["one ", "two"] {
        append(&path, Whose::Own)
            .unwrap()
            .write_all(part.as_bytes())
            .unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), "one two");
}

#[test]
fn only_regular_files_are_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    assert!(reason(&pipe).contains("no regular file"));
    assert!(reason(Path::new("/dev/null")).contains("no regular file"));
    assert!(reason(folder.path()).contains("a folder"));
    let link = folder.path().join("link");
    symlink("new", &link).unwrap();
    assert!(reason(&link).contains("is a link"));
    assert!(!folder.path().join("new").exists());
}

#[test]
fn a_file_of_another_user_is_no_log() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can make files that belong to another user");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, "").unwrap();
    chown(&path, Some(12345), None).unwrap();
    assert!(reason(&path).contains("another user"));
    assert!(append(&path, Whose::Anybodys).is_ok());
}

/// Without `protected_hardlinks`, others may give a file of this user another name.
#[test]
fn a_file_with_two_names_is_no_log_in_a_shared_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("log"), folder.path().join("other"));
    fs::write(&path, "").unwrap();
    fs::hard_link(&path, other).unwrap();
    assert!(append(&path, Whose::Own).is_ok());
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    assert!(reason(&path).contains("further names"));
}
