//! Which files were unpacked, by this version and by others.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::{CXX_HOOKS, Candidate, RECORDER, REPLAYER, candidates, check_owner};

/// The files of this user that this or another version has unpacked.
pub fn unpacked() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for Candidate { folder, .. } in candidates() {
        // Links are not followed: another user may have put one into a shared folder.
        let metadata = fs::symlink_metadata(&folder);
        if !metadata.is_ok_and(|it| it.is_dir() && check_owner(&it).is_ok()) {
            continue;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let is_file = entry
                .metadata()
                .is_ok_and(|it| it.is_file() && it.uid() == rustix::process::geteuid().as_raw());
            if is_file && is_unpacked_name(entry.file_name().as_bytes()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    // Two variables may name one folder.
    found.dedup();
    found
}

/// Whether a file has the name of one that `unpack` writes: prefix, hash, suffix.
fn is_unpacked_name(name: &[u8]) -> bool {
    [&RECORDER, &CXX_HOOKS, &REPLAYER].iter().any(|library| {
        let rest = name.strip_prefix(library.prefix.as_bytes());
        let rest = rest.and_then(|it| it.strip_prefix(b"-"));
        let hash = rest.and_then(|it| it.strip_suffix(library.suffix.as_bytes()));
        hash.is_some_and(|it| {
            it.len() == library.hash.len() && it.iter().all(u8::is_ascii_hexdigit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_unpacked_has_such_a_name() {
        for library in [&RECORDER, &CXX_HOOKS, &REPLAYER] {
            let name = format!("{}-{}{}", library.prefix, library.hash, library.suffix);
            assert!(is_unpacked_name(name.as_bytes()), "{name}");
        }
        for name in [
            "liballotrope_recorder.so",
            "liballotrope_recorder-0123.so",
            "liballotrope_recorder-0123456789abcdeg.so",
            "liballotrope_recorder-0123456789abcdef.so.bak",
            "index",
        ] {
            assert!(!is_unpacked_name(name.as_bytes()), "{name}");
        }
    }
}
