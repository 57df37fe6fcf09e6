//! The files of this repository and of a test, and the `PATH` of an installed Allotrope.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::record;

/// The root of this repository.
pub fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("it is there")
}

/// `PATH` as it is where Allotrope is installed.
pub fn path_with_allotrope() -> OsString {
    let command = record::command();
    let program = Path::new(command.get_program());
    let mut path = OsString::from(program.parent().expect("it is in a folder"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

/// Writes files into a folder.
pub fn write(folder: &Path, files: &[(&str, &str)]) {
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it is ours");
        fs::write(path, text).expect("the folder is the test's");
    }
}

/// Reads a file.
#[track_caller]
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
