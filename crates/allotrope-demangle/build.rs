//! How Swift's demangler, the one part of a build that is C++, is linked: from
//! the archive of the C++ library, so that a command needs no library of the
//! machine it is copied to; and not at all where there is no C++ compiler
//! (`scripts/cxx` then stands in for it), with a warning.

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
    if !is_there(&compiler) {
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

fn is_there(compiler: &OsStr) -> bool {
    let version = Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

fn static_library(compiler: &OsStr) -> Option<String> {
    let asked = Command::new(compiler)
        .arg("-print-file-name=libstdc++.a")
        .output()
        .ok()?;
    let archive = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    // A compiler that has none gives the bare name back.
    Path::new(&archive).is_absolute().then_some(archive)
}

/// What asks for the shared library finds, in a folder that is searched first,
/// this linker script.
fn stand_in_for_libstdcxx(script: &str) {
    let output: OsString = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let folder = PathBuf::from(output).join("libstdcxx");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("libstdc++.so"), script))
        .expect("cargo's output folder is writable");
    println!("cargo::rustc-link-search=native={}", folder.display());
}
