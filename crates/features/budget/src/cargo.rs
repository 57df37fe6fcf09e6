//! The tests of `cargo allotrope test`: builds the test programs of a Cargo workspace and
//! lists those that can open windows. Measuring them is the session's task.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memchr::memmem;
use serde::Deserialize;
use thiserror::Error;

use crate::cargo_tests::CargoTests;
use crate::configuration::{Configuration, ConfigurationError, FILE_NAME, Protocol, Test};

/// The function that opens windows. Clients look it up by this name.
const WINDOW_FUNCTION: &[u8] = b"allotrope_window_open";

/// Cargo's exit status for arguments that it does not know.
const BAD_ARGUMENTS: i32 = 1;

/// Why there are no tests.
#[derive(Debug, Error)]
pub enum CargoError {
    /// Cargo cannot be started, or its output cannot be read.
    #[error("cannot run `cargo`: {0}")]
    NotStarted(#[source] std::io::Error),
    /// Cargo refused its arguments or the manifest. It has printed why.
    #[error("cargo ended with status {0}; its messages are above")]
    Refused(i32),
    /// The build failed. Cargo has printed why.
    #[error("cargo could not build the tests; its messages are above")]
    Build,
    /// Cargo printed something unknown.
    #[error("cannot read what `cargo {command}` printed: {source}")]
    Output {
        /// The subcommand.
        command: &'static str,
        /// The problem.
        source: serde_json::Error,
    },
    /// No program can open a window.
    #[error(
        "no test program of Cargo opens a window: mark a test with `#[allotrope::test]`, or call \
         `allotrope::measure`"
    )]
    NoWindows,
    /// Two programs would have the same budgets.
    #[error("two test programs have the name `{0}`; rename one of the targets")]
    SameName(String),
    /// The configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// A line of `cargo test --message-format=json`. Cargo's reference documents the fields
/// (External tools, JSON messages).
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<ArtifactProfile>,
    executable: Option<PathBuf>,
    #[serde(default)]
    linked_paths: Vec<String>,
}

#[derive(Deserialize)]
struct ArtifactProfile {
    test: bool,
}

/// Builds the tests with `cargo test --no-run` and these options of cargo's, in the release
/// profile if they name none. Cargo's messages go to standard error.
///
/// `config` is a configuration whose `[defaults]` and `[cargo-tests]` apply; without one,
/// the file `allotrope.toml` in the workspace's folder, if it exists.
///
/// # Errors
/// A build that fails; a configuration that cannot be used; no program that opens a window.
pub fn configuration(
    arguments: &[String],
    config: Option<&Path>,
) -> Result<Configuration, CargoError> {
    let metadata = metadata(arguments)?;
    let root = &metadata.workspace_root;
    let usual = root.join(FILE_NAME);
    let mut configuration = match config {
        Some(file) => Configuration::parse_for_cargo(&Configuration::text_of(file)?, file)?,
        None if usual.exists() => {
            Configuration::parse_for_cargo(&Configuration::text_of(&usual)?, &usual)?
        }
        None => Configuration::parse_for_cargo("", &root.join("Cargo.toml"))?,
    };
    configuration.folder.clone_from(root);
    let messages = built(arguments)?;
    let libraries = library_folders(&messages, &metadata.target_directory);
    let mut tests: Vec<Test> = Vec::new();
    for message in &messages {
        let Some((name, program, package)) = program(message, &metadata, arguments) else {
            continue;
        };
        if !can_open_windows(program) {
            continue;
        }
        if tests.iter().any(|test| test.name == name) {
            return Err(CargoError::SameName(name));
        }
        let environment = environment(package, program, &libraries);
        tests.push(test(&configuration, name, program, package, environment));
    }
    if tests.is_empty() {
        return Err(CargoError::NoWindows);
    }
    // Cargo's order is that in which the programs were built.
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    configuration.tests = tests;
    configuration.cargo = Some(CargoTests {
        arguments: arguments.to_vec(),
        config: config.map(Path::to_owned),
        names: all_names(&metadata.packages),
    });
    Ok(configuration)
}

/// The workspace that contains the current folder, or that the arguments name.
fn metadata(arguments: &[String]) -> Result<Metadata, CargoError> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    if let Some(manifest) = value_of(arguments, "--manifest-path") {
        command.args(["--manifest-path", manifest]);
    }
    let printed = output(&mut command)?;
    if printed.status != 0 {
        return Err(CargoError::Refused(printed.status));
    }
    serde_json::from_slice(&printed.stdout).map_err(|source| CargoError::Output {
        command: "metadata",
        source,
    })
}

/// Builds the tests; returns cargo's messages.
fn built(arguments: &[String]) -> Result<Vec<Message>, CargoError> {
    let mut command = cargo();
    command
        .args(["test", "--no-run"])
        .arg("--message-format=json-render-diagnostics");
    if !names_profile(arguments) {
        command.arg("--release");
        // Stacks need names and lines, which the release profile lacks by default. The
        // variables take precedence over the manifest.
        for (name, value) in [
            ("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only"),
            ("CARGO_PROFILE_RELEASE_STRIP", "none"),
        ] {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
    }
    let printed = output(command.args(arguments))?;
    match printed.status {
        0 => {}
        BAD_ARGUMENTS => return Err(CargoError::Refused(BAD_ARGUMENTS)),
        _ => return Err(CargoError::Build),
    }
    let lines = printed.stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter(|line| line.first() == Some(&b'{'));
    let messages = messages.map(serde_json::from_slice);
    messages
        .collect::<Result<_, _>>()
        .map_err(|source| CargoError::Output {
            command: "test",
            source,
        })
}

struct Printed {
    status: i32,
    stdout: Vec<u8>,
}

/// Cargo, as it called its subcommand.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

fn output(command: &mut Command) -> Result<Printed, CargoError> {
    let command = command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(CargoError::NotStarted)?;
    Ok(Printed {
        status: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
    })
}

/// The value of an option: `--option value` or `--option=value`.
fn value_of<'a>(arguments: &'a [String], option: &str) -> Option<&'a str> {
    arguments.iter().enumerate().find_map(|(index, argument)| {
        if argument == option {
            return arguments.get(index + 1).map(String::as_str);
        }
        argument.strip_prefix(option)?.strip_prefix('=')
    })
}

/// Whether the options choose a profile.
fn names_profile(arguments: &[String]) -> bool {
    let mut arguments = arguments.iter();
    arguments.any(|argument| {
        argument == "--release"
            || argument == "-r"
            || argument == "--profile"
            || argument.starts_with("--profile=")
    })
}

/// The test program that a message is about, with its name. `cargo test` runs programs that
/// were built as tests; examples only count if the options name them.
fn program<'a>(
    message: &'a Message,
    metadata: &'a Metadata,
    arguments: &[String],
) -> Option<(String, &'a Path, &'a Package)> {
    let (target, profile) = (message.target.as_ref()?, message.profile.as_ref()?);
    let program = message.executable.as_deref()?;
    let examples = || {
        let mut options = arguments.iter();
        options.any(|option| option.starts_with("--example") || option == "--all-targets")
    };
    let is_example = target.kind.iter().any(|kind| kind == "example");
    let runs = profile.test || is_example && examples();
    if !runs {
        return None;
    }
    let mut packages = metadata.packages.iter();
    let package = packages.find(|package| package.manifest_path == message.manifest_path)?;
    Some((name(package, target), program, package))
}

/// The name of a test program. The scheme is that of cargo-nextest's binary ids, with a dot
/// as the separator: `PACKAGE` for the library, `PACKAGE.NAME` for an integration test,
/// `PACKAGE.KIND.NAME` for the others.
fn name(package: &Package, target: &Target) -> String {
    let kind = target.kind.first().map_or("", String::as_str);
    match kind {
        "test" => format!("{}.{}", package.name, target.name),
        "bin" | "bench" | "example" => format!("{}.{kind}.{}", package.name, target.name),
        _ => package.name.clone(),
    }
}

fn all_names(packages: &[Package]) -> Vec<String> {
    let targets = packages
        .iter()
        .flat_map(|package| package.targets.iter().map(move |target| (package, target)));
    targets
        .map(|(package, target)| name(package, target))
        .collect()
}

/// Whether a program contains the name of the function that opens windows. The clients look
/// it up with `dlsym`; the linker removes it from programs that use no client.
fn can_open_windows(program: &Path) -> bool {
    // A program that cannot be read is measured, and then has a problem.
    std::fs::read(program).map_or(true, |bytes| {
        memmem::find(&bytes, WINDOW_FUNCTION).is_some()
    })
}

/// The folders in which build scripts let the linker search, if they are in the target
/// folder: cargo adds them to the library path of tests, too.
fn library_folders(messages: &[Message], target: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for path in messages.iter().flat_map(|message| &message.linked_paths) {
        // `native=/path`, or without the kind.
        let folder = path.split_once('=').map_or(path.as_str(), |(_, path)| path);
        let folder = Path::new(folder);
        if folder.starts_with(target) && !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_owned());
        }
    }
    folders
}

/// The variables that cargo sets for a test, as far as programs read them when they run.
fn environment(
    package: &Package,
    program: &Path,
    libraries: &[PathBuf],
) -> BTreeMap<String, String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let folder = package.manifest_path.parent().unwrap_or(Path::new("."));
    let mut environment = BTreeMap::from([
        ("CARGO_MANIFEST_DIR".to_owned(), text(folder)),
        ("CARGO_PKG_NAME".to_owned(), package.name.clone()),
        ("CARGO_PKG_VERSION".to_owned(), package.version.clone()),
        // Windows count all threads.
        ("RUST_TEST_THREADS".to_owned(), "1".to_owned()),
    ]);
    if !libraries.is_empty() {
        let own = program.parent().map(Path::to_owned);
        let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let before = std::env::split_paths(&before).filter(|path| path != Path::new(""));
        let folders = libraries.iter().cloned().chain(own).chain(before);
        if let Ok(joined) = std::env::join_paths(folders) {
            let joined = joined.to_string_lossy().into_owned();
            environment.insert("LD_LIBRARY_PATH".to_owned(), joined);
        }
    }
    environment
}

/// A test that runs a program as cargo would, in its package's folder.
fn test(
    configuration: &Configuration,
    name: String,
    program: &Path,
    package: &Package,
    mut environment: BTreeMap<String, String>,
) -> Test {
    let own = configuration.cargo_tests.get(&name);
    let protocol: &Protocol = own.map_or(&configuration.defaults, |own| &own.protocol);
    environment.extend(own.map(|own| own.environment.clone()).unwrap_or_default());
    let folder = package.manifest_path.parent().unwrap_or(Path::new("."));
    Test {
        name,
        command: vec![program.to_string_lossy().into_owned()],
        environment,
        stdin: own.and_then(|own| own.stdin.clone()),
        folder: folder.to_owned(),
        protocol: protocol.clone(),
        platforms: own.map(|own| own.platforms.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn options_of_cargo_are_recognised() {
        for line in ["-r", "-p a --release", "--profile dev", "--profile=bench"] {
            assert!(names_profile(&words(line)), "{line}");
        }
        assert!(!names_profile(&words("-p release --profiles")));
        let manifest = |line| value_of(&words(line), "--manifest-path").map(str::to_owned);
        assert_eq!(manifest("-p a --manifest-path b").as_deref(), Some("b"));
        assert_eq!(manifest("--manifest-path=b=c").as_deref(), Some("b=c"));
        assert_eq!(manifest("--manifest-path-2=b"), None);
    }

    #[test]
    fn programs_have_the_names_of_their_targets() {
        let metadata = r#"{"workspace_root": "/w", "target_directory": "/w/target", "packages": [
            {"name": "p-q", "version": "1.0.0", "manifest_path": "/w/Cargo.toml", "targets": [
                {"name": "p_q", "kind": ["lib", "cdylib"]}, {"name": "p-q", "kind": ["bin"]},
                {"name": "p", "kind": ["test"]}, {"name": "p", "kind": ["bench"]},
                {"name": "p", "kind": ["example"]}]}]}"#;
        let metadata: Metadata = serde_json::from_str(metadata).expect("it is JSON");
        let names = [
            "p-q",
            "p-q.bin.p-q",
            "p-q.p",
            "p-q.bench.p",
            "p-q.example.p",
        ];
        assert_eq!(all_names(&metadata.packages), names);
        let message = r#"{"reason": "compiler-artifact", "manifest_path": "/w/Cargo.toml",
            "target": {"name": "p", "kind": ["example"]}, "profile": {"test": false},
            "executable": "/w/target/p"}"#;
        let message: Message = serde_json::from_str(message).expect("it is JSON");
        let name = |arguments: &str| {
            program(&message, &metadata, &words(arguments)).map(|(name, ..)| name)
        };
        assert_eq!(name("--lib"), None);
        assert_eq!(name("--example p").as_deref(), Some("p-q.example.p"));
    }

    #[test]
    fn libraries_of_build_scripts_are_those_in_the_target_folder() {
        let message = r#"{"reason": "build-script-executed", "linked_paths":
            ["native=/t/build/x/out", "/t/y", "/usr/lib", "native=/t/build/x/out"]}"#;
        let message: Message = serde_json::from_str(message).expect("it is JSON");
        let folders = library_folders(&[message], Path::new("/t"));
        assert_eq!(folders, [Path::new("/t/build/x/out"), Path::new("/t/y")]);
    }
}
