//! Reads the text of `allotrope.toml` into a [`Configuration`]: all keys, their
//! bounds and their defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::document::{Document, Section, below};
use super::{Configuration, ConfigurationError, Protocol, ProtocolOverrides, Test};
use crate::tolerance::Tolerance;
use allotrope_diff::{Glue, Suppressions};
use allotrope_profile::Metric;

/// Keys of the document.
const ROOT: &[&str] = &[
    "build",
    "build-timeout",
    "budgets",
    "platform",
    "dependencies",
    "profile-stacks",
    "glue",
    "suppressions",
    "defaults",
    "tests",
    "cargo-tests",
];
/// Keys of tests, defaults and platforms.
const PROTOCOL: &[&str] = &[
    "runs",
    "warmup",
    "iterations",
    "gate",
    "tolerance",
    "timeout",
    "counts-only",
];
/// Keys of tests only.
const TEST: &[&str] = &["command", "environment", "folder", "platforms"];
/// The same for tests of Cargo.
const CARGO_TEST: &[&str] = &["environment", "platforms"];

/// The files that `dependencies` defaults to, if they exist.
const USUAL_DEPENDENCIES: &[&str] = &[
    "Cargo.lock",
    "conan.lock",
    "vcpkg.json",
    "Package.resolved",
    "package-lock.json",
    "poetry.lock",
    "requirements.txt",
    "go.sum",
];

/// The longest timeout: a week, in seconds.
const MAX_SECONDS: u64 = 7 * 24 * 3600;

/// Reads the text of a file. Unless `has_tests`, it need not have any.
pub(super) fn configuration(
    text: &str,
    file: &Path,
    has_tests: bool,
) -> Result<Configuration, ConfigurationError> {
    let document = Document::new(text, file);
    let table = document.parse()?;
    let root = document.root(&table);
    root.reject_unknown_keys(ROOT)?;
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut defaults = Protocol {
        glue: glue(&root)?,
        suppressions: suppressions(&root, &folder)?,
        ..Protocol::default()
    };
    let mut gate_is_given = false;
    if let Some(section) = root.table("defaults")? {
        section.reject_unknown_keys(PROTOCOL)?;
        let changes = changes(&section)?;
        gate_is_given = changes.gate.is_some();
        changes.apply(&mut defaults);
    }
    let tests = |key: &str, has_command: bool| match root.table(key)? {
        Some(section) => section
            .tables()?
            .into_iter()
            .map(|(name, section)| {
                test(
                    name,
                    &section,
                    (&defaults, gate_is_given),
                    &folder,
                    has_command,
                )
            })
            .collect::<Result<Vec<Test>, _>>(),
        None => Ok(Vec::new()),
    };
    let cargo_tests = tests("cargo-tests", false)?;
    let tests = tests("tests", true)?;
    if tests.is_empty() && has_tests {
        return Err(root.table_error("there is no test; add one as [tests.NAME] with a `command`"));
    }
    if defaults.counts_only && !gate_is_given {
        defaults.gate.retain(|metric| metric.is_counted());
    }
    Ok(Configuration {
        build: root.words("build", true)?,
        build_timeout: seconds(&root, "build-timeout")?.unwrap_or(Duration::from_secs(3600)),
        budget_folder: root.text("budgets")?.map(|path| below(&folder, &path)),
        platform: platform(&root)?,
        dependencies: dependencies(&root, &folder)?,
        profile_stacks: root
            .number("profile-stacks", 0..1_000_001)?
            .map_or(500, |number| usize::try_from(number).unwrap_or(usize::MAX)),
        file: file.to_owned(),
        folder,
        tests,
        cargo_tests: cargo_tests
            .into_iter()
            .map(|test| (test.name.clone(), test))
            .collect(),
        cargo: None,
        defaults,
    })
}

fn platform(root: &Section<'_>) -> Result<String, ConfigurationError> {
    let Some(platform) = root.text("platform")? else {
        return Ok("{arch}-{os}-{libc}".to_owned());
    };
    let plain = ["{arch}", "{os}", "{libc}"]
        .iter()
        .fold(platform.clone(), |text, part| text.replace(part, "x"));
    if is_name(&plain) {
        return Ok(platform);
    }
    let problem = "it is part of a file's name: use letters, digits, `-`, `_`, `.`, and the parts \
                   {arch}, {os} and {libc}";
    Err(root.value_error("platform", problem))
}

fn glue(root: &Section<'_>) -> Result<Glue, ConfigurationError> {
    let mut glue = Glue::default();
    for (pattern, _) in root.texts("glue")?.unwrap_or_default() {
        let added = glue.add(&pattern);
        added.map_err(|error| root.value_error("glue", error.to_string()))?;
    }
    Ok(glue)
}

/// The rules that are listed, and those of the files that are named, relative to
/// `folder`.
fn suppressions(root: &Section<'_>, folder: &Path) -> Result<Suppressions, ConfigurationError> {
    let key = "suppressions";
    let mut suppressions = Suppressions::default();
    for (text, at) in root.texts(key)?.unwrap_or_default() {
        let error = |problem: String| root.error_at(at.clone(), key, problem);
        let added = if text.starts_with("leak:") {
            suppressions.add(key, &text)
        } else {
            let list = std::fs::read_to_string(below(folder, &text))
                .map_err(|source| error(format!("cannot read the list {text}: {source}")))?;
            suppressions.add(&text, &list)
        };
        added.map_err(|problem| error(problem.to_string()))?;
    }
    Ok(suppressions)
}

fn dependencies(root: &Section<'_>, folder: &Path) -> Result<Vec<PathBuf>, ConfigurationError> {
    let Some(named) = root.texts("dependencies")? else {
        let usual = USUAL_DEPENDENCIES.iter().map(PathBuf::from);
        return Ok(usual.filter(|path| folder.join(path).is_file()).collect());
    };
    Ok(named.into_iter().map(|(path, _)| path.into()).collect())
}

fn test(
    name: &str,
    section: &Section<'_>,
    (defaults, gate_is_given): (&Protocol, bool),
    folder: &Path,
    has_command: bool,
) -> Result<Test, ConfigurationError> {
    let own_keys = if has_command { TEST } else { CARGO_TEST };
    let known: Vec<&str> = own_keys.iter().chain(PROTOCOL).copied().collect();
    section.reject_unknown_keys(&known)?;
    if !is_name(name) {
        let problem =
            "a test's name is part of a file's name: use letters, digits, `-`, `_` and `.`";
        return Err(section.table_error(problem));
    }
    let command = section.words("command", false)?;
    if has_command && command.is_none() {
        let problem = "it has no `command`, the program and its arguments";
        return Err(section.table_error(problem));
    }
    let mut protocol = defaults.clone();
    let own = changes(section)?;
    own.apply(&mut protocol);
    if protocol.counts_only && !gate_is_given && own.gate.is_none() {
        // Of the default metrics, only those that are recorded without stacks.
        protocol.gate.retain(|metric| metric.is_counted());
    }
    check(section, &own, &protocol)?;
    let platforms = platforms(section, &protocol)?;
    Ok(Test {
        name: name.to_owned(),
        command: command.unwrap_or_default(),
        environment: environment(section)?,
        folder: section
            .text("folder")?
            .map_or_else(|| folder.to_owned(), |path| below(folder, &path)),
        protocol,
        platforms,
    })
}

fn platforms(
    section: &Section<'_>,
    protocol: &Protocol,
) -> Result<BTreeMap<String, ProtocolOverrides>, ConfigurationError> {
    let Some(section) = section.table("platforms")? else {
        return Ok(BTreeMap::new());
    };
    let mut platforms = BTreeMap::new();
    for (name, section) in section.tables()? {
        section.reject_unknown_keys(PROTOCOL)?;
        let changes = changes(&section)?;
        let mut changed = protocol.clone();
        changes.apply(&mut changed);
        check(&section, &changes, &changed)?;
        platforms.insert(name.to_owned(), changes);
    }
    Ok(platforms)
}

fn environment(section: &Section<'_>) -> Result<BTreeMap<String, String>, ConfigurationError> {
    let Some(table) = section.table("environment")? else {
        return Ok(BTreeMap::new());
    };
    let mut environment = BTreeMap::new();
    for name in table.keys() {
        let value = table.text(name)?.unwrap_or_default();
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(table.value_error(name, "no variable can have this name or value"));
        }
        environment.insert(name.to_owned(), value);
    }
    Ok(environment)
}

fn changes(section: &Section<'_>) -> Result<ProtocolOverrides, ConfigurationError> {
    let small = |key, bounds| -> Result<Option<u32>, ConfigurationError> {
        let number = section.number(key, bounds)?;
        Ok(number.and_then(|number| number.try_into().ok()))
    };
    Ok(ProtocolOverrides {
        runs: small("runs", 1..10_001)?,
        warmup: small("warmup", 0..10_001)?,
        iterations: section.number("iterations", 1..u64::from(u32::MAX))?,
        gate: gate(section)?,
        tolerance: tolerance(section)?,
        timeout: seconds(section, "timeout")?,
        counts_only: section.flag("counts-only")?,
    })
}

fn seconds(section: &Section<'_>, key: &str) -> Result<Option<Duration>, ConfigurationError> {
    let seconds = section.number(key, 1..MAX_SECONDS + 1)?;
    Ok(seconds.map(Duration::from_secs))
}

fn gate(section: &Section<'_>) -> Result<Option<Vec<Metric>>, ConfigurationError> {
    let Some(names) = section.texts("gate")? else {
        return Ok(None);
    };
    if names.is_empty() {
        return Err(section.value_error("gate", "it names no metric: such a test cannot fail"));
    }
    let mut gate = Vec::new();
    for (name, at) in names {
        let metric = Metric::named(&name, &Metric::OF_RUNS).ok_or_else(|| {
            let known = Metric::OF_RUNS.map(Metric::name).join(", ");
            let problem = format!("\"{name}\" is no metric; there are {known}");
            section.error_at(at.clone(), "gate", problem)
        })?;
        if gate.contains(&metric) {
            return Err(section.error_at(at, "gate", format!("\"{name}\" is listed twice")));
        }
        gate.push(metric);
    }
    Ok(Some(gate))
}

fn tolerance(
    section: &Section<'_>,
) -> Result<Option<BTreeMap<Metric, Tolerance>>, ConfigurationError> {
    let Some(table) = section.table("tolerance")? else {
        return Ok(None);
    };
    table.reject_unknown_keys(&Metric::OF_RUNS.map(Metric::name))?;
    let mut tolerances = BTreeMap::new();
    for metric in Metric::OF_RUNS {
        if let Some(text) = table.text(metric.name())? {
            let tolerance = Tolerance::parse(&text)
                .map_err(|error| table.value_error(metric.name(), error.to_string()))?;
            tolerances.insert(metric, tolerance);
        }
    }
    Ok(Some(tolerances))
}

/// Checks that the keys of a test are consistent with each other. A tolerance in the
/// defaults may be for a metric that the test does not check.
fn check(
    section: &Section<'_>,
    own: &ProtocolOverrides,
    protocol: &Protocol,
) -> Result<(), ConfigurationError> {
    let counted = |metric: &&Metric| !protocol.counts_only || metric.is_counted();
    if let Some(metric) = protocol.gate.iter().find(|metric| !counted(metric)) {
        let known = Metric::OF_RUNS
            .into_iter()
            .filter(|metric| metric.is_counted());
        let known: Vec<&str> = known.map(Metric::name).collect();
        let problem = format!(
            "`counts-only` does not record {metric}; it records {}",
            known.join(", ")
        );
        return Err(section.value_error(
            if own.gate.is_some() {
                "gate"
            } else {
                "counts-only"
            },
            problem,
        ));
    }
    let mut tolerated = own.tolerance.iter().flatten().map(|(metric, _)| *metric);
    match tolerated.find(|metric| !protocol.gate.contains(metric)) {
        Some(metric) => Err(section.value_error(
            "tolerance",
            format!("{metric} has a tolerance, but is not in `gate`: nothing checks it"),
        )),
        None => Ok(()),
    }
}

/// Whether a name can be part of a file name.
fn is_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(fine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::STARTING_FILE;

    fn parse(text: &str) -> Result<Configuration, ConfigurationError> {
        Configuration::parse(text, Path::new("dir/allotrope.toml"))
    }

    #[track_caller]
    fn error(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    #[test]
    fn every_key_is_read() {
        let text = r#"
build = "make -j2"
platform = "{arch}-ci"
dependencies = ["Cargo.lock"]
profile-stacks = 10
[defaults]
runs = 3
[tests.encode]
command = ["./bench", "encode"]
environment = { LANG = "C" }
folder = "sub"
warmup = 0
iterations = 1000
gate = ["allocations", "net"]
tolerance = { allocations = "+0 -1%", net = "±5" }
timeout = 9
counts-only = true
[tests.encode.platforms.other]
runs = 7
"#;
        let configuration = parse(text).expect("it is right");
        assert_eq!(
            configuration.build.as_deref(),
            Some(&["sh".into(), "-c".into(), "make -j2".into()][..])
        );
        let [test] = &configuration.tests[..] else {
            panic!("one test");
        };
        assert_eq!(test.command, ["./bench", "encode"]);
        assert_eq!(test.folder, Path::new("dir/sub"));
        assert_eq!(test.environment["LANG"], "C");
        let protocol = test.protocol_on("this");
        assert_eq!((protocol.runs, protocol.warmup), (3, 0));
        assert_eq!(protocol.iterations, Some(1000));
        assert_eq!(protocol.timeout, Duration::from_secs(9));
        assert!(protocol.counts_only);
        let net = protocol.tolerance_of(Metric::Net);
        assert_eq!(net, Tolerance::absolute(5, 5));
        assert!(protocol.tolerance_of(Metric::PeakBytes).is_exact());
        assert_eq!(test.protocol_on("other").runs, 7);
    }

    #[test]
    fn suppressions_are_rules_or_files() {
        let with = |line: &str| parse(&format!("{line}\n[tests.a]\ncommand = [\"x\"]\n"));
        let configuration = with("suppressions = [\"leak:^known$\"]").expect("it is right");
        let suppressions = &configuration.tests[0].protocol.suppressions;
        assert_ne!(*suppressions, Suppressions::default());
        let error = |line| with(line).expect_err(line).to_string();
        let missing = error("\nsuppressions = [\n\"leak:x\",\n\"none.supp\"]");
        assert!(
            missing.starts_with(
                "dir/allotrope.toml:4: suppressions: cannot read the list none.supp: "
            ),
            "{missing}"
        );
        assert!(error("suppressions = [\"leak:\"]").contains("`leak:` suppresses no leak"));
    }

    #[test]
    fn the_starting_file_is_right_and_names_every_key() {
        let configuration = parse(STARTING_FILE).expect("it is right");
        assert_eq!(configuration.tests.len(), 1);
        for key in ROOT.iter().chain(PROTOCOL).chain(TEST) {
            assert!(STARTING_FILE.contains(key), "{key}");
        }
        for metric in Metric::OF_RUNS {
            assert!(STARTING_FILE.contains(metric.name()), "{metric}");
        }
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
        assert_eq!(
            error("build = \"make\"\n[tests.a]\ncomand = [\"x\"]\n"),
            "dir/allotrope.toml:3: tests.a.comand: there is no such key; did you mean `command`?"
        );
        assert!(error("[test.a]\n").contains("did you mean `tests`?"));
        assert!(error("[tests.a]\nzzz = 1").contains("the keys here are command, environment"));
        let wrong = "[tests.a]\ncommand = [\"x\"]\ntolerance = { allocation = \"+0\" }";
        assert!(error(wrong).contains(":3: tests.a.tolerance.allocation: "));
        assert!(error(wrong).contains("did you mean `allocations`?"));
    }

    #[test]
    fn tests_of_cargo_have_no_command_and_the_budgets_may_be_elsewhere() {
        let text = "budgets = \"../numbers\"\n[defaults]\nruns = 3\n\
                    [cargo-tests.\"a.b\"]\nwarmup = 2\n";
        let file = Path::new("dir/allotrope.toml");
        let configuration = Configuration::parse_for_cargo(text, file).expect("it is right");
        assert_eq!(configuration.budgets().path(), Path::new("dir/../numbers"));
        let protocol = &configuration.cargo_tests["a.b"].protocol;
        assert_eq!((protocol.runs, protocol.warmup), (3, 2));
        assert_eq!(configuration.defaults.runs, 3);
        assert!(error(text).contains("there is no test"));
        let wrong = "[cargo-tests.a]\ncommand = [\"x\"]\n";
        let error = Configuration::parse_for_cargo(wrong, file).expect_err("it has a command");
        assert!(
            error
                .to_string()
                .contains("cargo-tests.a.command: there is no such key")
        );
    }

    #[test]
    fn counts_only_checks_the_metrics_it_records() {
        let with = |line: &str| parse(&format!("{line}\n[tests.a]\ncommand = [\"x\"]\n"));
        let configuration = with("[defaults]\ncounts-only = true").expect("it is right");
        assert_eq!(configuration.tests[0].protocol.gate, [Metric::Allocations]);
        let error = with("[defaults]\ncounts-only = true\ngate = [\"peak\"]");
        let error = error.expect_err("peak is not counted").to_string();
        assert!(
            error
                .contains("`counts-only` does not record peak; it records allocations, bytes, net"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line() {
        let with = |line: &str| error(&format!("[tests.a]\ncommand = [\"x\"]\n{line}\n"));
        for (line, what) in [
            (
                "runs = 0",
                ":3: tests.a.runs: it must be a whole number from 1 to 10000",
            ),
            ("runs = \"3\"", "tests.a.runs: it must be a whole number"),
            (
                "warmup = -1",
                "tests.a.warmup: it must be a whole number from 0",
            ),
            (
                "gate = [\"alocations\"]",
                "\"alocations\" is no metric; there are allocations",
            ),
            ("gate = []", "tests.a.gate: it names no metric"),
            ("gate = [\"net\", \"net\"]", "\"net\" is listed twice"),
            (
                "tolerance = { peak = \"+0\" }",
                "peak has a tolerance, but is not in `gate`",
            ),
            (
                "tolerance = { allocations = \"5\" }",
                "tests.a.tolerance.allocations: \"5\" is no tolerance",
            ),
            (
                "environment = { A = 1 }",
                "tests.a.environment.A: it must be a text",
            ),
            (
                "platforms = { x = { folder = \"y\" } }",
                "tests.a.platforms.x.folder: there is no such key",
            ),
        ] {
            assert!(with(line).contains(what), "{line}: {}", with(line));
        }
        assert!(error("").contains("there is no test"));
        assert!(error("[tests.a]").contains(":1: tests.a: it has no `command`"));
        assert!(error("[tests.\"a/b\"]\ncommand = [\"x\"]").contains("a file's name"));
        assert!(error("[tests.a]\ncommand = \"x y\"").contains("a shell in between"));
        assert!(error("[tests.a]\ncommand = []").contains("it must name a program"));
        assert!(error("tests = 1").contains("tests: it must be a table"));
        assert!(error("\n[tests").contains("dir/allotrope.toml:2: this is no TOML"));
    }
}
