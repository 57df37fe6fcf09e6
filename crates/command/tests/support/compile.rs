//! Compiles the programs in `tests/programs`, once for every text, compiler
//! and set of flags; the results stay in cargo's folder for tests.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

/// Flags that keep the compiler from removing a call of `malloc` or its frame,
/// and nothing else.
const C_FLAGS: &[&str] = &[
    "-std=gnu17",
    "-g",
    "-O1",
    "-fno-builtin",
    "-fno-optimize-sibling-calls",
    "-pthread",
    "-w",
];
const CXX_FLAGS: &[&str] = &[
    "-std=gnu++17",
    "-g",
    "-O1",
    "-fno-builtin",
    "-fno-optimize-sibling-calls",
    "-pthread",
    "-w",
];
const RUST_FLAGS: &[&str] = &["--edition=2021", "-g", "-O"];

/// A program of `tests/programs`, compiled with the usual flags.
pub fn compiled(source: &str) -> PathBuf {
    compiled_with(source, &[])
}

/// A program of `tests/programs`, compiled with more flags than the usual.
pub fn compiled_with(source: &str, flags: &[&str]) -> PathBuf {
    type Slot = Arc<OnceLock<PathBuf>>;
    static SLOTS: LazyLock<Mutex<HashMap<PathBuf, Slot>>> = LazyLock::new(Mutex::default);

    let (compiler, usual) = toolchain(source);
    let flags: Vec<&str> = usual.iter().chain(flags).copied().collect();
    let program = destination(source, &compiler, &flags);
    let slot = Slot::clone(
        SLOTS
            .lock()
            .expect("no test panics while it holds this")
            .entry(program.clone())
            .or_default(),
    );
    slot.get_or_init(|| {
        if !program.exists() {
            compile(&compiler, &source_path(source), &flags, &program);
        }
        program
    })
    .clone()
}

/// `programs/linked_bench.c` with the allocator of `programs/linked_pools.c` linked into it,
/// optimised, so that `malloc` and `free` jump to other functions and have no frames.
pub fn linked_bench(flags: &[&str]) -> PathBuf {
    let pools = source_path("linked_pools.c");
    let pools = pools.to_str().expect("UTF-8");
    // The text, so that a change of it is compiled.
    let version = source_text("linked_pools.c");
    let version = format!("-DVERSION={}", version.len());
    let optimised = ["-O2", "-foptimize-sibling-calls", &version, pools];
    compiled_with("linked_bench.c", &[&optimised[..], flags].concat())
}

/// Where a program's source is.
pub fn source_path(source: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source)
}

/// The number of the line marked `MARK name` in a source.
pub fn line_of(source: &str, mark: &str) -> u64 {
    marked_line(source, mark).0
}

/// The column of `word` in the line marked `MARK name`.
pub fn column_of(source: &str, mark: &str, word: &str) -> u64 {
    let (_, line) = marked_line(source, mark);
    let column = line
        .find(word)
        .unwrap_or_else(|| panic!("{source}: no {word} in the line marked {mark}"));
    column as u64 + 1
}

/// The text of a program's source.
pub fn source_text(source: &str) -> String {
    let path = source_path(source);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn marked_line(source: &str, mark: &str) -> (u64, String) {
    let text = source_text(source);
    let found: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| {
            line.split_once("MARK ")
                .is_some_and(|(_, rest)| rest.split_whitespace().next() == Some(mark))
        })
        .collect();
    assert_eq!(found.len(), 1, "{source}: lines marked {mark}");
    (found[0].0 as u64 + 1, found[0].1.to_owned())
}

fn toolchain(source: &str) -> (String, &'static [&'static str]) {
    let variable =
        |name: &str, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    match Path::new(source).extension().and_then(|e| e.to_str()) {
        Some("c") => (variable("CC", "cc"), C_FLAGS),
        Some("cc") => (variable("CXX", "c++"), CXX_FLAGS),
        Some("rs") => (variable("RUSTC", "rustc"), RUST_FLAGS),
        _ => panic!("{source}: neither C nor C++ nor Rust"),
    }
}

/// The path of a program: in a folder named by a hash of everything that determines
/// the result, under its short name, by which reports name the module.
fn destination(source: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (source_path(source), source_text(source), compiler, flags).hash(&mut hasher);
    let stem = Path::new(source).file_stem().expect("sources have names");
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{}-{:016x}", stem.display(), hasher.finish()))
        .join(stem)
}

/// Compiles in a temporary folder and renames: another test process may compile the
/// same program at the same time.
fn compile(compiler: &str, source: &Path, flags: &[&str], program: &Path) {
    let folder = program.parent().expect("it was joined above");
    std::fs::create_dir_all(folder).expect("cargo's folder for tests is writable");
    let aside = tempfile::tempdir_in(folder).expect("cargo's folder for tests is writable");
    let name = program.file_name().expect("it was joined above");
    let output = Command::new(compiler)
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(aside.path().join(name))
        .current_dir(aside.path())
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(
        output.status.success(),
        "{compiler} {}:\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::rename(aside.path().join(name), program).expect("both are in one folder");
}
