//! `allotrope test --init` in projects of several build systems: what it writes can be
//! accepted and passes.

use std::path::Path;
use std::process::Command;

use crate::support::{Ended, record, run};

const PROGRAM: &str = "#include <stdlib.h>
int main(int argc, char **argv) {
    for (int i = 0; i < argc * 10; i++)
        free(malloc(64));
    return 0;
}
";

fn allotrope(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = record::command();
    run(command.args(arguments).current_dir(folder), b"")
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (file, text) in files {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it is ours");
        std::fs::write(path, text).expect("the folder is the test's");
    }
}

#[track_caller]
fn accepted_and_passed(folder: &Path) {
    allotrope(folder, &["test", "--accept", "--runs", "2"]).ok();
    allotrope(folder, &["test", "--runs", "2"]).ok();
}

#[test]
fn the_tests_of_ctest() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let cmake = "cmake_minimum_required(VERSION 3.16)\nproject(p C)\nenable_testing()\n\
                 add_executable(prog prog.c)\nadd_test(NAME one COMMAND prog)\n\
                 add_test(NAME two COMMAND prog a b)\n";
    write(folder, &[("CMakeLists.txt", cmake), ("prog.c", PROGRAM)]);
    allotrope(folder, &["test", "--init"])
        .code(2)
        .says("whose tests are known once they are built: run `cmake -S . -B build");
    assert!(!folder.join("allotrope.toml").exists());
    let configured = run(
        Command::new("cmake")
            .args(["-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Debug"])
            .current_dir(folder),
        b"",
    );
    assert!(configured.status.success());
    allotrope(folder, &["test", "--init"]).code(2);
    let built = run(
        Command::new("cmake")
            .args(["--build", "build"])
            .current_dir(folder),
        b"",
    );
    assert!(built.status.success());
    allotrope(folder, &["test", "--init"])
        .ok()
        .says("with 2 tests of CTest");
    accepted_and_passed(folder);
    let text = std::fs::read_to_string(folder.join("allotrope.toml")).expect("it was written");
    let root = folder.canonicalize().expect("it is there");
    assert!(!text.contains(&root.display().to_string()), "{text}");
    let numbers = |test: &str| {
        let file = folder.join(format!("allotrope-budgets/{test}.toml"));
        std::fs::read_to_string(file).expect("it was accepted")
    };
    // 10 for each word of the command.
    assert!(
        numbers("one").contains("allocations = 10\n"),
        "{}",
        numbers("one")
    );
    assert!(
        numbers("two").contains("allocations = 30\n"),
        "{}",
        numbers("two")
    );
}

#[test]
fn the_examples_of_cargo() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let manifest = "[package]\nname = \"p\"\nedition = \"2021\"\n[workspace]\n";
    let example = "fn main() { for i in 0..100 { std::hint::black_box(vec![i; 9]); } }\n";
    let files = [
        ("Cargo.toml", manifest),
        ("src/lib.rs", ""),
        ("examples/vectors.rs", example),
    ];
    write(folder, &files);
    allotrope(folder, &["test", "--init"])
        .ok()
        .says("with 1 example of Cargo");
    accepted_and_passed(folder);
}

#[test]
fn a_given_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    write(
        folder,
        &[("Makefile", "prog: prog.c\n"), ("prog.c", PROGRAM)],
    );
    allotrope(folder, &["test", "--init", "--", "./prog", "-x"])
        .ok()
        .says("with the command ./prog -x");
    accepted_and_passed(folder);
}
