//! `allotrope client-header`, which writes the client's C header and module map.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Text, allotrope, run};

fn client_header(folder: &Path) -> (Option<i32>, String) {
    let output = allotrope(["client-header".as_ref(), folder.as_os_str()]);
    let printed = output.errors();
    assert!(output.stdout.is_empty());
    (output.status.code(), printed)
}

#[test]
fn the_files_that_are_written_are_the_clients() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let target = folder.path().join("new/include");
    assert_eq!(client_header(&target), (Some(0), String::new()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/client/include");
    for name in ["allotrope.h", "module.modulemap"] {
        let written = fs::read(target.join(name)).expect("it was written");
        assert_eq!(written, fs::read(source.join(name)).expect("it is there"));
    }
    let printed = allotrope(["client-header", "--print"]).stdout;
    let header = fs::read(target.join("allotrope.h")).expect("it was written");
    assert_eq!(printed, header);
    // Files of an earlier run are overwritten, those of an older version too.
    fs::write(target.join("allotrope.h"), "/* allotrope.h, old */").expect("it is ours");
    assert_eq!(client_header(&target), (Some(0), String::new()));
    assert_eq!(fs::read(target.join("allotrope.h")).ok(), Some(header));
}

#[test]
fn another_librarys_module_map_is_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let map = folder.path().join("module.modulemap");
    fs::write(&map, "module Other {}").expect("it is ours");
    let (status, printed) = client_header(folder.path());
    assert_eq!(status, Some(2), "{printed}");
    printed.has("is no earlier version of it that allotrope wrote");
    assert!(!folder.path().join("allotrope.h").exists());
    assert_eq!(fs::read(map).ok(), Some(b"module Other {}".to_vec()));
}

#[test]
fn bad_usage() {
    assert_eq!(allotrope(["client-header"]).status.code(), Some(2));
    allotrope(["client-header", "--print", "folder"]).code(2);
    let (status, printed) = client_header(Path::new("/proc/no/such/folder"));
    assert_eq!(status, Some(1), "{printed}");
    printed.has("/proc/no/such/folder");
}

/// A project builds with the lines for CMake as the help prints them.
#[test]
fn with_cmake() {
    if !crate::support::is_installed("cmake") {
        return println!("skipped: install Debian's cmake");
    }
    let help = allotrope(["client-header", "--help"]).stdout;
    let help = String::from_utf8(help).expect("help is text");
    let lines: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.contains("find_program"))
        .take_while(|line| !line.is_empty())
        .collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("the folder is ours");
    };
    write(
        "bench.c",
        "#include <allotrope.h>\nint main(void) { return (int)allotrope_open(\"x\", 1, 0); }\n",
    );
    write(
        "CMakeLists.txt",
        &format!(
            "cmake_minimum_required(VERSION 3.19)\nproject(bench C)\n\
             add_executable(bench bench.c)\n{}\n",
            lines.join("\n")
        ),
    );
    let ours = Path::new(env!("CARGO_BIN_EXE_allotrope")).parent();
    let ours = ours.expect("it lies in a folder").display().to_string();
    let run = |arguments: &[&str]| {
        let output = run(
            Command::new("cmake")
                .args(arguments)
                .current_dir(folder.path()),
            b"",
        );
        let printed = output.errors();
        assert!(output.status.success(), "cmake {arguments:?}: {printed}");
    };
    run(&["-B", "build", &format!("-DCMAKE_PROGRAM_PATH={ours}")]);
    run(&["--build", "build"]);
    assert!(folder.path().join("build/allotrope/allotrope.h").exists());
    let status = Command::new(folder.path().join("build/bench")).status();
    assert!(status.expect("it was built").success());
}
