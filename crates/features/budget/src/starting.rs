//! The configuration to start from (`allotrope test --init`): with the tests that a
//! project has already, as Cargo, CTest and Meson list them, or with a given command.
//!
//! Commands and folders are written relative to the project: a comparison of revisions
//! runs them in worktrees.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use allotrope_files::{read_stored, read_stored_text};
use serde::Deserialize;
use thiserror::Error;

use crate::configuration::{MAX_BYTES, STARTING_FILE};
use crate::shell::command_line;

/// A configuration to start from, and what it was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartingFile {
    /// Text of the configuration.
    pub text: String,
    /// A clause such as `3 tests of CTest`; `None` if nothing was found and the only test
    /// is an example.
    pub found: Option<String>,
}

/// Why there is nothing to start from.
#[derive(Debug, Error)]
pub enum StartingError {
    /// A build system that lists its tests only once they are built.
    #[error(
        "the project is built with {system}, whose tests are known once they are built: run \
         `{build}` first, or name a program: `allotrope test --init -- PROGRAM ARGUMENT...`"
    )]
    NotBuilt {
        /// The build system.
        system: &'static str,
        /// The command that builds them.
        build: &'static str,
    },
    /// Cargo cannot list the targets.
    #[error("`cargo metadata` failed: {0}")]
    Cargo(String),
}

/// A test to write.
#[derive(Debug, PartialEq, Eq)]
struct FoundTest {
    name: String,
    command: Vec<String>,
    /// Relative to the project; empty for the project's folder.
    folder: String,
    environment: Vec<(String, String)>,
}

/// The tests of a build system.
#[derive(Debug, Default)]
struct Found {
    what: String,
    build: Option<String>,
    /// A comment above the tests, a line each.
    comment: Vec<String>,
    tests: Vec<FoundTest>,
}

/// The configuration to start from in a project's folder; with a test that runs `command`
/// if it is not empty.
///
/// # Errors
/// The project's build system does not know its tests yet.
pub fn starting_file(folder: &Path, command: &[String]) -> Result<StartingFile, StartingError> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let found = if command.is_empty() {
        match cargo(&folder)? {
            Some(found) => Some(found),
            None => ctest(&folder)?.map_or_else(|| meson(&folder), |found| Ok(Some(found)))?,
        }
    } else {
        Some(given(&folder, command))
    };
    let Some(found) = found.filter(|found| !found.tests.is_empty()) else {
        return Ok(StartingFile {
            text: STARTING_FILE.to_owned(),
            found: None,
        });
    };
    Ok(StartingFile {
        text: text(&found),
        found: Some(found.what),
    })
}

/// The starting file with these tests in the place of its example.
fn text(found: &Found) -> String {
    const EXAMPLE: &str = "[tests.encode]\n";
    let (head, example) = STARTING_FILE
        .split_once(EXAMPLE)
        .unwrap_or((STARTING_FILE, ""));
    let build = found.build.as_ref().map_or_else(
        || "# build = \"make\"".to_owned(),
        |build| format!("build = {}", quoted(build)),
    );
    let mut text = head.replacen("# build = \"make\"", &build, 1);
    for line in &found.comment {
        let _ = writeln!(text, "# {line}");
    }
    for (index, test) in found.tests.iter().enumerate() {
        let _ = writeln!(text, "[tests.{}]", test.name);
        let words: Vec<String> = test.command.iter().map(|word| quoted(word)).collect();
        let _ = writeln!(text, "command = [{}]", words.join(", "));
        if !test.folder.is_empty() {
            let _ = writeln!(text, "folder = {}", quoted(&test.folder));
        }
        if !test.environment.is_empty() {
            let set = test.environment.iter();
            let set = set.map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)));
            let set: Vec<String> = set.collect();
            let _ = writeln!(text, "environment = {{ {} }}", set.join(", "));
        }
        if index == 0 {
            // The other keys of a test, explained.
            let keys = example.lines();
            let keys = keys
                .skip_while(|line| !line.starts_with("command = "))
                .skip(1);
            for line in keys.take_while(|line| !line.is_empty()) {
                text.push_str(if line.starts_with('#') { "" } else { "# " });
                text.push_str(line);
                text.push('\n');
            }
        }
        text.push('\n');
    }
    text
}

/// A TOML string. JSON's strings are such, but for a delete character.
fn quoted(text: &str) -> String {
    let text = serde_json::Value::from(text).to_string();
    text.replace('\u{7f}', "\\u007f")
}

/// A test's name: part of a table's and of a file's name.
fn test_name(name: &str, others: &[FoundTest]) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-_".contains(c) => c,
        _ => '-',
    };
    let name: String = name.chars().map(plain).take(80).collect();
    let name = if name.is_empty() {
        "test".to_owned()
    } else {
        name
    };
    let taken = |name: &str| others.iter().any(|test| test.name == name);
    if !taken(&name) {
        return name;
    }
    let mut numbered = (2..).map(|number| format!("{name}-{number}"));
    numbered.find(|name| !taken(name)).unwrap_or(name)
}

/// The command that the user gave.
fn given(folder: &Path, command: &[String]) -> Found {
    let program = Path::new(command.first().map_or("", String::as_str));
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let has_makefile = ["GNUmakefile", "makefile", "Makefile"]
        .iter()
        .any(|file| folder.join(file).is_file());
    Found {
        what: format!("the command {}", command_line(command)),
        build: has_makefile.then(|| "make".to_owned()),
        comment: Vec::new(),
        tests: vec![FoundTest {
            name: test_name(&name, &[]),
            command: command.to_vec(),
            folder: String::new(),
            environment: Vec::new(),
        }],
    }
}

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<CargoPackage>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct CargoPackage {
    name: String,
    targets: Vec<CargoTarget>,
    dependencies: Vec<CargoDependency>,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct CargoDependency {
    name: String,
}

/// The examples, or else the programs, of the packages in a folder; and the tests and
/// benchmarks of packages that use the library `allotrope`, which open windows.
fn cargo(folder: &Path) -> Result<Option<Found>, StartingError> {
    if !folder.join("Cargo.toml").is_file() {
        return Ok(None);
    }
    let metadata = output_of(
        Command::new("cargo")
            .args([
                "metadata",
                "--no-deps",
                "--format-version",
                "1",
                "--offline",
            ])
            .current_dir(folder),
    )
    .map_err(StartingError::Cargo)?;
    let metadata: CargoMetadata = serde_json::from_slice(&metadata)
        .map_err(|error| StartingError::Cargo(error.to_string()))?;
    let built = relative(&metadata.target_directory, folder);
    let mut found = Found::default();
    let mut flags: Vec<&str> = Vec::new();
    for kind in ["example", "bin"] {
        if !found.tests.is_empty() {
            break;
        }
        for target in metadata
            .packages
            .iter()
            .flat_map(|package| &package.targets)
        {
            if target.kind.iter().any(|it| it == kind) {
                let inside = if kind == "example" { "examples/" } else { "" };
                let program = format!("{built}/release/{inside}{}", target.name);
                add(&mut found.tests, &target.name, vec![program]);
            }
        }
        if !found.tests.is_empty() {
            flags = vec![if kind == "example" {
                "--examples"
            } else {
                "--bins"
            }];
            let comment = "Each is measured from its first to its last instruction. Add arguments, \
                           and remove those that are no tests.";
            found.comment.push(comment.to_owned());
        }
    }
    let mut builds = match flags.first() {
        Some(flag) => vec![format!(
            "CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo build --quiet --release {flag}"
        )],
        None => Vec::new(),
    };
    let plain = found.tests.len();
    let mut words = Vec::new();
    for package in &metadata.packages {
        let measures = |dependency: &CargoDependency| dependency.name.starts_with("allotrope");
        if !package.dependencies.iter().any(measures) {
            continue;
        }
        for (kind, word, end) in [
            ("test", "test", &["--", "--test-threads=1"][..]),
            ("bench", "bench", &[]),
        ] {
            let targets = package.targets.iter();
            for target in targets.filter(|target| target.kind.iter().any(|it| it == kind)) {
                let option = format!("--{kind}");
                let command = [
                    "cargo",
                    word,
                    "--quiet",
                    "--package",
                    &package.name,
                    &option,
                ]
                .into_iter()
                .chain([target.name.as_str()])
                .chain(end.iter().copied());
                let command = command.map(str::to_owned).collect();
                add(&mut found.tests, &target.name, command);
                if !words.contains(&word) {
                    words.push(word);
                }
            }
        }
    }
    builds.extend(
        words
            .iter()
            .map(|word| format!("cargo {word} --quiet --no-run")),
    );
    found.build = (!builds.is_empty()).then(|| builds.join(" && "));
    let measured = found.tests.len() - plain;
    let noun = if flags == ["--bins"] {
        "program"
    } else {
        "example"
    };
    let parts = [(plain, noun), (measured, "test target")];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, noun)| counted(number, noun)).collect();
    found.what = format!("{} of Cargo", parts.join(" and "));
    Ok(Some(found))
}

/// `1 test`, `2 tests`.
fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn add(tests: &mut Vec<FoundTest>, name: &str, command: Vec<String>) {
    tests.push(FoundTest {
        name: test_name(name, tests),
        command,
        folder: String::new(),
        environment: Vec::new(),
    });
}

#[derive(Deserialize)]
struct CtestTests {
    tests: Vec<CtestTest>,
}

#[derive(Deserialize)]
struct CtestTest {
    name: String,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    properties: Vec<CtestProperty>,
}

#[derive(Deserialize)]
struct CtestProperty {
    name: String,
    value: serde_json::Value,
}

/// The tests that CMake registered in the build folder.
fn ctest(folder: &Path) -> Result<Option<Found>, StartingError> {
    if !folder.join("CMakeLists.txt").is_file() {
        return Ok(None);
    }
    let not_built = || StartingError::NotBuilt {
        system: "CMake",
        build: "cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo && cmake --build build",
    };
    let build = build_folder(folder, "CTestTestfile.cmake").ok_or_else(not_built)?;
    let listed = output_of(
        Command::new("ctest")
            .arg("--show-only=json-v1")
            .current_dir(&build),
    );
    let listed = listed
        .ok()
        .and_then(|json| serde_json::from_slice::<CtestTests>(&json).ok());
    let listed = listed.map(|listed| listed.tests).unwrap_or_default();
    // A program that is not built has no command.
    if !listed.is_empty() && listed.iter().all(|test| test.command.is_empty()) {
        return Err(not_built());
    }
    let mut tests = Vec::new();
    for test in listed {
        let property = |name: &str| test.properties.iter().find(|it| it.name == name);
        let working = property("WORKING_DIRECTORY").and_then(|it| it.value.as_str());
        let environment = property("ENVIRONMENT").and_then(|it| it.value.as_array());
        let environment = environment.into_iter().flatten();
        let environment = environment.filter_map(|set| set.as_str()?.split_once('='));
        let working = working.map_or(build.as_path(), Path::new);
        if !test.command.is_empty() {
            tests.push(FoundTest {
                name: test_name(&test.name, &tests),
                command: from_folder(&test.command, working, folder),
                folder: relative(working, folder),
                environment: environment
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
            });
        }
    }
    let cache = read_stored_text(&build.join("CMakeCache.txt"), MAX_BYTES).unwrap_or_default();
    let mut lines = cache.lines();
    let kind = lines.find_map(|line| line.strip_prefix("CMAKE_BUILD_TYPE:STRING="));
    let kind = kind.filter(|kind| !kind.is_empty());
    let kind = kind.map_or_else(String::new, |kind| format!(" -DCMAKE_BUILD_TYPE={kind}"));
    let build = relative(&build, folder);
    Ok(Some(Found {
        what: format!("{} of CTest", counted(tests.len(), "test")),
        build: Some(format!(
            "cmake -S . -B {build}{kind} && cmake --build {build}"
        )),
        comment: Vec::new(),
        tests,
    }))
}

#[derive(Deserialize)]
struct MesonTest {
    name: String,
    cmd: Vec<String>,
    #[serde(default)]
    workdir: Option<String>,
    #[serde(default)]
    env: serde_json::Map<String, serde_json::Value>,
}

/// The tests that Meson wrote down in the build folder.
fn meson(folder: &Path) -> Result<Option<Found>, StartingError> {
    if !folder.join("meson.build").is_file() {
        return Ok(None);
    }
    const LIST: &str = "meson-info/intro-tests.json";
    let Some(build) = build_folder(folder, LIST) else {
        return Err(StartingError::NotBuilt {
            system: "Meson",
            build: "meson setup build && meson compile -C build",
        });
    };
    let listed = read_stored(&build.join(LIST), MAX_BYTES).ok();
    let listed = listed.and_then(|json| serde_json::from_slice::<Vec<MesonTest>>(&json).ok());
    let mut tests = Vec::new();
    for test in listed.unwrap_or_default() {
        // Meson runs a test in the build folder unless it names another one.
        let working = test.workdir.as_ref().map_or(build.as_path(), Path::new);
        let set = test.env.iter();
        let environment =
            set.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        if !test.cmd.is_empty() {
            tests.push(FoundTest {
                name: test_name(&test.name, &tests),
                command: from_folder(&test.cmd, working, folder),
                folder: relative(working, folder),
                environment: environment.collect(),
            });
        }
    }
    let build = relative(&build, folder);
    Ok(Some(Found {
        what: format!("{} of Meson", counted(tests.len(), "test")),
        build: Some(format!(
            "{{ [ -d {build} ] || meson setup {build}; }} && meson compile -C {build}"
        )),
        comment: Vec::new(),
        tests,
    }))
}

/// The build folder of a project: the first folder in it that has this file.
fn build_folder(folder: &Path, file: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut built: Vec<PathBuf> = folders.filter(|path| path.join(file).is_file()).collect();
    built.sort();
    // `build` before `build-debug`.
    built.into_iter().next()
}

/// A command's words, with paths below the project relative to the working directory.
fn from_folder(command: &[String], working: &Path, folder: &Path) -> Vec<String> {
    let below = working.strip_prefix(folder);
    let depth = below.map_or(0, |below| below.components().count());
    let words = command.iter().map(|word| {
        let path = Path::new(word);
        if let Ok(inside) = path.strip_prefix(working) {
            return format!("./{}", inside.display());
        }
        match path.strip_prefix(folder) {
            Ok(inside) if depth > 0 => format!("{}{}", "../".repeat(depth), inside.display()),
            Ok(inside) => format!("./{}", inside.display()),
            Err(_) => word.clone(),
        }
    });
    words.collect()
}

/// A path relative to the project if it is below it.
fn relative(path: &Path, folder: &Path) -> String {
    let inside = path.strip_prefix(folder).unwrap_or(path);
    inside.display().to_string()
}

/// What a command prints, or why it failed.
fn output_of(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;

    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (file, text) in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it is ours");
            let root = folder.path().canonicalize().expect("it is there");
            let text = text.replace("ROOT", &root.display().to_string());
            fs::write(path, text).expect("it is ours");
        }
        folder
    }

    fn parsed(starting: &StartingFile) -> Configuration {
        let file = Path::new("dir/allotrope.toml");
        Configuration::parse(&starting.text, file)
            .unwrap_or_else(|error| panic!("{error}\n{}", starting.text))
    }

    #[test]
    fn a_command_is_a_test_that_make_builds() {
        let folder = project(&[("Makefile", "")]);
        let command = ["./my \"bench\".out", "-n", "3"].map(str::to_owned);
        let starting = starting_file(folder.path(), &command).expect("it is a file");
        let configuration = parsed(&starting);
        assert_eq!(configuration.tests[0].name, "my--bench-");
        assert_eq!(configuration.tests[0].command, command);
        assert_eq!(
            configuration
                .build
                .as_ref()
                .and_then(|words| words.last())
                .map(String::as_str),
            Some("make")
        );
    }

    #[test]
    fn nothing_found_gives_the_example() {
        let folder = project(&[]);
        let starting = starting_file(folder.path(), &[]).expect("it is a file");
        assert_eq!(
            (starting.text.as_str(), starting.found),
            (STARTING_FILE, None)
        );
    }

    #[test]
    fn mesons_tests_are_relative_to_the_project() {
        let list = r#"[{"name": "pars er", "cmd": ["ROOT/build/parser", "ROOT/data/in.txt"],
                        "env": {"A": "b \"c\""}, "workdir": null},
                       {"name": "pars er", "cmd": ["/usr/bin/python3", "x.py"], "workdir": "ROOT/t"}]"#;
        let files = [
            ("meson.build", ""),
            ("build/meson-info/intro-tests.json", list),
        ];
        let folder = project(&files);
        let starting = starting_file(folder.path(), &[]).expect("it is a file");
        assert_eq!(starting.found.as_deref(), Some("2 tests of Meson"));
        let tests = parsed(&starting).tests;
        assert_eq!(tests[0].name, "pars-er");
        assert_eq!(tests[0].command, ["./parser", "../data/in.txt"]);
        assert_eq!(tests[0].folder, Path::new("dir/build"));
        assert_eq!(tests[0].environment["A"], "b \"c\"");
        assert_eq!(tests[1].name, "pars-er-2");
        assert_eq!(tests[1].command, ["/usr/bin/python3", "x.py"]);
        assert_eq!(tests[1].folder, Path::new("dir/t"));
    }

    #[test]
    fn a_build_system_whose_tests_are_not_built_is_named() {
        for (file, name) in [("meson.build", "Meson"), ("CMakeLists.txt", "CMake")] {
            let folder = project(&[(file, "")]);
            let error = starting_file(folder.path(), &[]).expect_err("nothing is known");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
