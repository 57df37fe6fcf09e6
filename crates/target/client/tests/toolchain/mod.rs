//! Compiles programs that use the header, and runs them with or without the stand-in for
//! the recorder.
#![allow(dead_code)] // each test program uses its own part

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

use tempfile::TempDir;

/// A program in a temporary folder, which is deleted when this is dropped.
#[derive(Debug)]
pub struct Program {
    pub path: PathBuf,
    /// The compiler's flags, for the message of a failed assertion.
    flags: Vec<String>,
    _folder: TempDir,
}

/// The output of a run.
#[derive(Debug)]
pub struct Seen {
    /// The standard output.
    pub text: String,
    /// The calls that the stand-in logged, one a line.
    pub log: String,
}

pub fn include_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// Returns why this compiler cannot link an empty program with these flags on this
/// machine; `None` if it can.
pub fn unavailable(compiler: &str, flags: &[&str]) -> Option<String> {
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let (language, flags) = match compiler.ends_with("++") {
        true => ("c++", flags),
        false => ("c", flags),
    };
    let source = folder.path().join("empty");
    fs::write(&source, "int main(void) { return 0; }\n").expect("the folder is writable");
    let output = Command::new(compiler)
        .args(["-x", language])
        .arg(&source)
        .args(["-x", "none"])
        .args(flags)
        .arg("-o")
        .arg(folder.path().join("program"))
        .output();
    match output {
        Err(error) => Some(format!("{compiler}: {error}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Some(text.lines().next().unwrap_or("it fails").to_owned())
        }
    }
}

/// Compiles files of `tests/programs`. Fails if the compiler prints anything.
#[track_caller]
pub fn compile(compiler: &str, names: &[&str], flags: &[&str]) -> Program {
    let paths: Vec<PathBuf> = names.iter().map(|name| sources().join(name)).collect();
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    link(compiler, &paths, flags, folder)
}

/// Compiles a source text. Fails if the compiler prints anything.
#[track_caller]
pub fn compile_text(compiler: &str, name: &str, text: &str, flags: &[&str]) -> Program {
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("the folder is writable");
    link(compiler, &[path], flags, folder)
}

#[track_caller]
fn link(compiler: &str, sources: &[PathBuf], flags: &[&str], folder: TempDir) -> Program {
    let path = folder.path().join("program");
    let mut command = Command::new(compiler);
    command
        .args(sources)
        .args(flags)
        .arg("-I")
        .arg(include_folder())
        .arg("-o")
        .arg(&path);
    // Otherwise clang would write its module cache to the user's home.
    command.env("CLANG_MODULE_CACHE_PATH", folder.path());
    let output = command.output().expect("the compiler can be started");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{text}");
    let linker_warns = text.contains("in statically linked applications");
    assert!(text.is_empty() || linker_warns, "{command:?}:\n{text}");
    Program {
        path,
        flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        _folder: folder,
    }
}

/// The stand-in for the recorder, a library to preload.
pub fn stub() -> &'static Path {
    static STUB: LazyLock<Program> =
        LazyLock::new(|| compile("cc", &["stub.c"], &["-shared", "-fPIC", "-O1"]));
    &STUB.path
}

#[track_caller]
pub fn run(program: &Program, preload: Option<&Path>) -> Seen {
    run_with(program, preload, &[])
}

/// Runs a program with additional environment variables. The variables of a measurement
/// are not inherited.
#[track_caller]
pub fn run_with(program: &Program, preload: Option<&Path>, variables: &[(&str, &str)]) -> Seen {
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let log = folder.path().join("log");
    let mut command = Command::new(&program.path);
    for name in [
        "ALLOTROPE_WARMUP",
        "ALLOTROPE_RUNS",
        "ALLOTROPE_WINDOW_FLAGS",
    ] {
        command.env_remove(name);
    }
    command
        .env("STUB_LOG", &log)
        .envs(variables.iter().copied());
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
    let output = command.output().expect("the program can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {errors}");
    Seen {
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
        log: fs::read_to_string(&log).unwrap_or_default(),
    }
}

/// Writes a script whose first line names its interpreter.
pub fn script(name: &str, text: &str) -> Program {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("the folder is writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the script is writable");
    Program {
        path,
        flags: Vec::new(),
        _folder: folder,
    }
}
