//! Modes, links, pipes and devices: what writing a file may change and what it must
//! not, in temporary folders. Tests that need a second user are skipped unless root
//! runs them.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;

use super::*;
use crate::{FileId, Kept};

const OTHER_USER: u32 = 12345;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// The mode of a file that this process creates with 0666.
fn usual_mode(folder: &Path) -> u32 {
    let path = folder.join("usual");
    fs::File::create_new(&path).unwrap();
    let usual = mode(&path);
    fs::remove_file(path).unwrap();
    usual
}

/// A folder like `/tmp`; `None` if this user cannot create files of another user.
fn shared_folder() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    if rustix::process::geteuid().is_root() {
        return Some(folder);
    }
    eprintln!("skipped: only root can make files that belong to another user");
    None
}

#[test]
fn only_the_owner_can_read_a_file_until_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"half").unwrap();
    let hidden = names(folder.path());
    assert_eq!(hidden.len(), 1, "{hidden:?}");
    assert!(hidden[0].starts_with(".allotrope-"), "{hidden:?}");
    assert_eq!(mode(&folder.path().join(&hidden[0])), 0o600);
    output.finish().unwrap();
    assert_eq!(names(folder.path()), ["file"]);
    assert_eq!(mode(&path), usual_mode(folder.path()));
}

#[test]
fn an_unfinished_output_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "before").unwrap();
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"half").unwrap();
    drop(output);
    assert_eq!(names(folder.path()), ["file"]);
    assert_eq!(fs::read(&path).unwrap(), b"before");
}

#[test]
fn a_replaced_file_of_the_same_user_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "before").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4640)).unwrap();
    write(&path, "after").unwrap();
    assert_eq!(mode(&path), 0o640);
    assert_eq!(fs::read(&path).unwrap(), b"after");
}

#[test]
fn a_link_of_the_same_user_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (link, path) = (folder.path().join("link"), folder.path().join("file"));
    fs::write(&path, "before").unwrap();
    symlink("second", &link).unwrap();
    symlink("file", folder.path().join("second")).unwrap();
    write(&link, "after").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&path).unwrap(), b"after");
}

#[test]
fn a_link_or_pipe_of_another_user_in_a_shared_folder_is_refused() {
    let Some(shared) = shared_folder() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let precious = home.path().join("precious");
    fs::write(&precious, "before").unwrap();
    let link = shared.path().join("link");
    symlink(&precious, &link).unwrap();
    lchown(&link, Some(OTHER_USER), None).unwrap();
    let error = write(&link, "after").unwrap_err();
    assert!(error.to_string().contains("another user"), "{error}");
    assert_eq!(fs::read(&precious).unwrap(), b"before");

    let pipe = shared.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        0o666.into(),
        0,
    )
    .unwrap();
    lchown(&pipe, Some(OTHER_USER), None).unwrap();
    assert!(write(&pipe, "after").is_err());
}

/// The rule is about who can write to the folder, whatever its other bits are.
#[test]
fn a_link_of_another_user_is_refused_in_every_folder_that_others_can_write_to() {
    let Some(shared) = shared_folder() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let link = shared.path().join("link");
    symlink(home.path().join("new"), &link).unwrap();
    lchown(&link, Some(OTHER_USER), None).unwrap();
    let way = shared.path().join("way");
    symlink(home.path(), &way).unwrap();
    lchown(&way, Some(OTHER_USER), None).unwrap();
    let second = home.path().join("second");
    symlink(&way, &second).unwrap();
    for (mode, owner) in [(0o1777, 0), (0o777, 0), (0o770, 0), (0o755, OTHER_USER)] {
        fs::set_permissions(shared.path(), fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(shared.path(), Some(owner), None).unwrap();
        for path in [&link, &way.join("new"), &second.join("new")] {
            let error = write(path, "after").unwrap_err();
            assert!(
                error.to_string().contains("another user"),
                "{mode:o} {error}"
            );
        }
        assert!(!home.path().join("new").exists(), "{mode:o}");
    }
    // Root has put it into a folder of its own, or another user into root's long ago.
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    lchown(&way, Some(0), None).unwrap();
    write(&second.join("new"), "after").unwrap();
    assert_eq!(fs::read(home.path().join("new")).unwrap(), b"after");
}

#[test]
fn only_what_allotrope_wrote_may_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let kept = |path: &Path| {
        let target = Target::of(path).unwrap();
        target.kept(|head| head.starts_with(b"ours")).unwrap()
    };
    assert_eq!(kept(&path), None);
    for (text, expected) in [
        ("", None),
        ("ours, an earlier one", None),
        ("a letter", Some(Kept::Foreign)),
        ("our", Some(Kept::Foreign)),
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(kept(&path), expected, "{text}");
    }
    assert_eq!(kept(Path::new("/dev/null")), None);
    if shared_folder().is_some() {
        for text in ["", "ours"] {
            fs::write(&path, text).unwrap();
            std::os::unix::fs::chown(&path, Some(OTHER_USER), None).unwrap();
            assert_eq!(kept(&path), Some(Kept::Strangers), "{text}");
        }
    }
}

#[test]
fn streams_are_written_through() {
    write(Path::new("/dev/null"), "gone").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&writer);
    let path = format!("/proc/self/fd/{descriptor}");
    write(Path::new(&path), "through").unwrap();
    drop(writer);
    let mut read = String::new();
    let mut reader = reader;
    reader.read_to_string(&mut read).unwrap();
    assert_eq!(read, "through");
}

#[test]
fn a_file_named_by_its_descriptor_is_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(b"before ").unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    write(Path::new(&format!("/proc/self/fd/{descriptor}")), "after").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before after");
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
}

#[test]
fn folders_and_sockets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(write(folder.path(), "").is_err());
    assert!(write(&folder.path().join(".."), "").is_err());
    assert!(write(&socket, "").is_err());
    let looped = folder.path().join("looped");
    symlink("looped", &looped).unwrap();
    assert!(write(&looped, "").is_err());
}

#[test]
fn another_file_of_the_same_name_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let new = NewFile::in_folder(folder.path()).unwrap();
    let id = new.id().unwrap();
    assert!(id.open(new.path()).is_ok());
    let precious = folder.path().join("precious");
    fs::write(&precious, "before").unwrap();
    fs::remove_file(new.path()).unwrap();
    symlink(&precious, new.path()).unwrap();
    assert!(id.open(new.path()).is_err(), "a link is not followed");
    fs::remove_file(new.path()).unwrap();
    fs::hard_link(&precious, new.path()).unwrap();
    let error = FileId::open(id, new.path()).unwrap_err();
    assert!(error.to_string().contains("another file"), "{error}");
    assert_eq!(fs::read(&precious).unwrap(), b"before");
}
