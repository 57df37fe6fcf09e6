//! Builds the libraries that are preloaded into recorded programs, and the program that
//! replays recordings, with compiler flags and a target folder of their own, and passes
//! their paths and hashes to the command, which embeds them. Their sources are the
//! crates `allotrope-recorder`, `allotrope-cxx-hooks` and `allotrope-replayer`;
//! `src/recorder_library.rs` unpacks them at run time.
//!
//! A nested cargo builds them, since no cargo setting gives one crate of a
//! workspace other code generation flags than the rest.
//!
//! It also sets how the command itself is linked: without symbols and line tables, which go to
//! a file beside it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What is embedded: package, file name, prefix of the variables with which
/// `src/recorder_library.rs` embeds it, and flags that only it has.
///
/// The recorder's constructor is the first of all: those of other libraries may allocate.
const EMBEDDED: [(&str, &str, &str, &[&str]); 3] = [
    (
        "allotrope-recorder",
        "liballotrope_recorder.so",
        "ALLOTROPE_RECORDER",
        &[
            "-Clink-arg=-Wl,-z,initfirst",
            "-Clink-arg=-Wl,-soname,liballotrope_recorder.so",
        ],
    ),
    (
        "allotrope-cxx-hooks",
        "liballotrope_cxx_hooks.so",
        "ALLOTROPE_CXX_HOOKS",
        &["-Clink-arg=-Wl,-soname,liballotrope_cxx_hooks.so"],
    ),
    (
        "allotrope-replayer",
        "allotrope-replayer",
        "ALLOTROPE_REPLAYER",
        // A tracer finds the call that it steps through by its symbol.
        &["-Clink-arg=-Wl,--export-dynamic-symbol=allotrope_stepped_*"],
    ),
];

/// Compiler flags of these alone. They replace every `RUSTFLAGS`,
/// because those are meant for the command: a coverage run must not instrument a
/// library that is loaded into other programs.
const FLAGS: [&str; 7] = [
    // With lld's layout perf(1) finds static probes and then counts no hits.
    "-Clinker-features=-lld",
    "-Clink-arg=-Wl,-z,separate-loadable-segments",
    // Others unwind through the library's frames, although it never unwinds itself.
    "-Cforce-unwind-tables=yes",
    "-Crelocation-model=pic",
    "-Clink-arg=-Wl,-z,relro",
    // Hooks run in signal handlers, where no symbol may be bound lazily.
    "-Clink-arg=-Wl,-z,now",
    // The library is embedded: debug sections would only make the command larger.
    "-Cstrip=debuginfo",
];

/// Cargo's variables (or prefixes of their names) that the nested cargo inherits:
/// its home, the access to a registry, the job server, the linker, and settings of the
/// recorder's own profile (`scripts/debug-assertions`).
const INHERITED: [&str; 8] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_PROFILE_RECORDER_",
    "CARGO_REGISTR",
    "CARGO_SOURCE_",
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
];

/// Variables that the nested cargo must not inherit: they would change its build
/// or, like the wrappers that clippy and coverage tools set, prevent it.
const REMOVED: [&str; 10] = [
    "DEBUG",
    "HOST",
    "OPT_LEVEL",
    "OUT_DIR",
    "PROFILE",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "TARGET",
    "CLIPPY_ARGS",
];

fn main() {
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    assert!(
        system == "linux" && architecture == "x86_64",
        "allotrope records programs on x86-64 Linux; {architecture}-{system} is not supported yet"
    );
    let workspace = workspace();
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (package, file, name, own_flags) in EMBEDDED {
        let library = build(
            &workspace,
            &output.join("recorder"),
            package,
            file,
            own_flags,
        );
        let bytes = fs::read(&library).unwrap_or_else(|error| {
            panic!(
                "cannot read what was built at {}: {error}",
                library.display()
            )
        });
        // Names a version; what is unpacked is compared byte by byte.
        let mut hash = DefaultHasher::new();
        hash.write(&bytes);
        println!("cargo::rustc-env={name}={}", library.display());
        println!("cargo::rustc-env={name}_HASH={:016x}", hash.finish());
    }
    rerun_if_changed();
    if env::var("PROFILE").is_ok_and(|it| it == "release") {
        separate_line_tables(&workspace);
    }
}

/// Links the programs of this package without symbols and line tables; those of the command
/// go to `allotrope.debug` beside it. Tests keep theirs.
///
/// GCC starts its linker through the program that `-wrapper` names, so that it can edit the
/// result. Other compiler drivers have no such option: they leave no file.
fn separate_line_tables(workspace: &Path) {
    let script = workspace.join("scripts/separate-line-tables");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rustc-link-arg-bin=cargo-allotrope=-Wl,--strip-all");
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let has_wrapper = Command::new(linker)
        .arg("-wrapper")
        .arg(&script)
        .args(["-E", "-x", "c", "/dev/null"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success());
    if has_wrapper {
        println!("cargo::rustc-link-arg-bin=allotrope=-wrapper");
        println!("cargo::rustc-link-arg-bin=allotrope={}", script.display());
    } else {
        println!("cargo::rustc-link-arg-bin=allotrope=-Wl,--strip-all");
    }
}

fn workspace() -> PathBuf {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let crates = package.parent().expect("the package is in crates/");
    crates
        .parent()
        .expect("crates/ is in the workspace")
        .to_owned()
}

/// Builds one library or program and returns its path.
fn build(
    workspace: &Path,
    target_folder: &Path,
    package: &str,
    file: &str,
    own_flags: &[&str],
) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        // Its flags for one crate leave those of the dependencies as they are, so that these
        // are built once.
        .args(["rustc", "--profile", "recorder"])
        .arg(if file.ends_with(".so") {
            "--lib"
        } else {
            "--bin=allotrope-replayer"
        })
        .args(["-p", package, "--target", TARGET])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_folder);
    if workspace.join("Cargo.lock").exists() {
        command.arg("--locked");
    }
    command.arg("--").args(own_flags);
    for (name, _) in env::vars_os() {
        if is_removed(&name) {
            command.env_remove(name);
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("cannot start cargo to build {package}: {error}"));
    assert!(
        status.success(),
        "{package} did not build; cargo's messages are above"
    );
    target_folder.join(TARGET).join("recorder").join(file)
}

fn is_removed(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    if INHERITED.iter().any(|prefix| name.starts_with(prefix)) {
        return false;
    }
    name.starts_with("CARGO_") || name.starts_with("DEP_") || REMOVED.contains(&name.as_ref())
}

/// Makes cargo run this script again when the sources of what is embedded, or of the
/// crates that it depends on, change.
///
/// The paths are relative to the package: cargo compares the right files if its target folder
/// was copied from another checkout.
fn rerun_if_changed() {
    println!("cargo::rerun-if-changed=build.rs");
    for path in [
        "../../Cargo.lock",
        "../../Cargo.toml",
        "../features/replayer",
        "../shared/detour",
        "../shared/preflight",
        "../shared/sampling",
        "../shared/shm",
        "../target/cxx-hooks",
        "../target/recorder",
        "../target/unwind",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
}
