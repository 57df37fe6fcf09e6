//! Links Swift's demangler, the only C++ code of a build, with the static archive of the
//! C++ library, so that the command runs on machines without that library. Without a
//! C++ compiler it prints a warning and links nothing; `scripts/cxx` then replaces the
//! compiler.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CXX");
    println!("cargo::rustc-check-cfg=cfg(without_cxx)");
    if env::var_os("CARGO_FEATURE_SWIFT").is_none() {
        return;
    }
    let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    if !is_installed(&compiler) {
        println!(
            "cargo::warning=there is no C++ compiler: Swift's names will stay as they are in the \
             symbol table. To have them readable, install one (Debian: g++), then \
             `cargo clean --release -p symbolic-demangle -p allotrope-demangle` and build again"
        );
        println!("cargo::rustc-cfg=without_cxx");
        stand_in_for_libstdcxx("/* there is no C++ in this build */\n");
    } else if let Some(archive) = static_library(&compiler) {
        stand_in_for_libstdcxx(&format!("INPUT({archive})\n"));
    }
}

fn is_installed(compiler: &OsStr) -> bool {
    let version = Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// The path of the static C++ library; `None` if the compiler has none.
fn static_library(compiler: &OsStr) -> Option<String> {
    let output = Command::new(compiler)
        .arg("-print-file-name=libstdc++.a")
        .output()
        .ok()?;
    let archive = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // A compiler without the archive prints the bare name.
    Path::new(&archive).is_absolute().then_some(archive)
}

/// Writes this linker script as `libstdc++.so` into a folder that the linker searches
/// first, so that it is used in place of the shared library.
fn stand_in_for_libstdcxx(script: &str) {
    let output: OsString = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let folder = PathBuf::from(output).join("libstdcxx");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("libstdc++.so"), script))
        .expect("cargo's output folder is writable");
    println!("cargo::rustc-link-search=native={}", folder.display());
}
