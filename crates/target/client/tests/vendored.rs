//! A copy of the crate's folder is all that another project needs.

use std::fs;
use std::path::Path;
use std::process::Command;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is the test's");
    for entry in fs::read_dir(from).expect("it is there") {
        let path = entry.expect("it can be read").path();
        let to = to.join(path.file_name().expect("it has a name"));
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, to).expect("the folder is the test's")),
        }
    }
}

#[test]
fn a_copy_of_the_folder_builds_in_another_project() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    copy(
        Path::new(env!("CARGO_MANIFEST_DIR")),
        &folder.join("vendor/client"),
    );
    let manifest = "[package]\nname = \"user\"\nedition = \"2021\"\n[workspace]\n\
                    [dependencies]\n\
                    allotrope = { package = \"allotrope-client\", path = \"vendor/client\" }\n";
    fs::write(folder.join("Cargo.toml"), manifest).expect("the folder is the test's");
    fs::create_dir(folder.join("src")).expect("the folder is the test's");
    let code = "#[allotrope::test(iterations = 2)]\nfn it_builds() {}\n\
                pub fn measured() -> u8 { allotrope::measure(\"x\", 1, || 7) }\n";
    fs::write(folder.join("src/lib.rs"), code).expect("the folder is the test's");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--offline", "--quiet"])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output()
        .expect("cargo runs the tests");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
}
