//! Reads the text of `allotrope.toml` into a [`Configuration`]: all keys, their
//! bounds and their defaults.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use allotrope_files::{open_stored_at_most, read_stored_text};

use super::document::{Document, Section, below};
use super::{
    Configuration, ConfigurationError, LeftBehind, MAX_BYTES, Protocol, ProtocolOverrides, Test,
};
use crate::allowance::Allowance;
use crate::limit;
use crate::location::is_contents;
use crate::paths::Project;
use crate::tolerance::Tolerance;
use crate::toolchain::MAX_DEPENDENCIES_BYTES;
use allotrope_attribution::{Glue, ListError, Suppressions};
use allotrope_profile::{Filter, Metric};

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
    "limit",
    "watch",
    "timeout",
    "left-behind",
    "counts-only",
];
/// Keys of a rule of an allow-list.
const ALLOWANCE: &[&str] = &["stack", "metric", "up-to", "reason"];
/// Keys of windows.
const WINDOW: &[&str] = &["gate", "tolerance", "limit"];
/// Keys of tests only.
const TEST: &[&str] = &[
    "command",
    "environment",
    "folder",
    "stdin",
    "platforms",
    "windows",
    "allow",
];
/// Keys of tests of Cargo.
const CARGO_TEST: &[&str] = &["environment", "stdin", "platforms", "windows", "allow"];

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

/// The names of the tests of a file that may be a configuration; none if it is another one.
pub(super) fn names_of_tests(text: &str, file: &Path) -> Result<Vec<String>, ConfigurationError> {
    let document = Document::new(text, file);
    let table = document.parse()?;
    let tests = document.root(&table).table("tests");
    let names = tests.ok().flatten();
    let names = names.map(|tests| tests.keys().map(str::to_owned).collect());
    Ok(names.unwrap_or_default())
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
/// `folder`. The message about a bad line quotes it only if the file is one of the repository's:
/// who wrote the configuration may not be allowed to read others.
fn suppressions(root: &Section<'_>, folder: &Path) -> Result<Suppressions, ConfigurationError> {
    let key = "suppressions";
    let mut suppressions = Suppressions::default();
    for (text, at) in root.texts(key)?.unwrap_or_default() {
        let error = |problem: String| root.error_at(at.clone(), key, problem);
        let added = if text.starts_with("leak:") {
            suppressions.add(key, &text)
        } else {
            let file = below(folder, &text);
            let list = read_stored_text(&file, MAX_BYTES)
                .map_err(|source| error(format!("cannot read the list {text}: {source}")))?;
            let is_contents = is_contents(Project::containing(folder).root(), &file);
            let added = suppressions.add(&text, &list);
            added.map_err(|problem| match problem {
                ListError::Suppression { list, line, .. } if !is_contents => error(format!(
                    "{list}:{line}: this line suppresses no leak; it is not shown, because the file \
                     is outside of the repository"
                )),
                problem => error(problem.to_string()),
            })?;
            continue;
        };
        added.map_err(|problem| error(problem.to_string()))?;
    }
    Ok(suppressions)
}

/// The files that list dependencies. One that is missing may have been there before.
fn dependencies(root: &Section<'_>, folder: &Path) -> Result<Vec<PathBuf>, ConfigurationError> {
    let key = "dependencies";
    let check = |path: &Path| open_stored_at_most(&folder.join(path), MAX_DEPENDENCIES_BYTES);
    let Some(named) = root.texts(key)? else {
        let usual = USUAL_DEPENDENCIES.iter().map(PathBuf::from);
        return Ok(usual.filter(|path| check(path).is_ok()).collect());
    };
    let mut files = Vec::new();
    for (text, at) in named {
        let file = PathBuf::from(&text);
        match check(&file) {
            Err(problem) if problem.kind() != ErrorKind::NotFound => {
                return Err(root.error_at(at, key, format!("cannot read {text}: {problem}")));
            }
            _ => files.push(file),
        }
    }
    Ok(files)
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
    protocol.allow = allow(section, &protocol)?;
    protocol.windows = overrides(section, "windows", WINDOW, &protocol)?;
    let folder = section
        .text("folder")?
        .map_or_else(|| folder.to_owned(), |path| below(folder, &path));
    let platforms = overrides(section, "platforms", PROTOCOL, &protocol)?;
    Ok(Test {
        name: name.to_owned(),
        command: command.unwrap_or_default(),
        environment: environment(section)?,
        stdin: section.text("stdin")?.map(|path| below(&folder, &path)),
        folder,
        protocol,
        platforms,
    })
}

/// What other values apply to platforms or windows, by name.
fn overrides(
    section: &Section<'_>,
    key: &str,
    known: &[&str],
    protocol: &Protocol,
) -> Result<BTreeMap<String, ProtocolOverrides>, ConfigurationError> {
    let Some(section) = section.table(key)? else {
        return Ok(BTreeMap::new());
    };
    let mut all = BTreeMap::new();
    for (name, section) in section.tables()? {
        section.reject_unknown_keys(known)?;
        let changes = changes(&section)?;
        let mut changed = protocol.clone();
        changes.apply(&mut changed);
        check(&section, &changes, &changed)?;
        all.insert(name.to_owned(), changes);
    }
    Ok(all)
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
        limit: limit(section)?,
        watch: metrics(section, "watch")?,
        timeout: seconds(section, "timeout")?,
        left_behind: left_behind(section)?,
        counts_only: section.flag("counts-only")?,
    })
}

fn left_behind(section: &Section<'_>) -> Result<Option<LeftBehind>, ConfigurationError> {
    const KEY: &str = "left-behind";
    let Some(name) = section.text(KEY)? else {
        return Ok(None);
    };
    let found = LeftBehind::ALL.into_iter().find(|it| it.name() == name);
    let wrong = || section.value_error(KEY, "it is \"end\" or \"leave\"");
    found.map(Some).ok_or_else(wrong)
}

fn seconds(section: &Section<'_>, key: &str) -> Result<Option<Duration>, ConfigurationError> {
    let seconds = section.number(key, 1..MAX_SECONDS + 1)?;
    Ok(seconds.map(Duration::from_secs))
}

fn gate(section: &Section<'_>) -> Result<Option<Vec<Metric>>, ConfigurationError> {
    let gate = metrics(section, "gate")?;
    if gate.as_ref().is_some_and(Vec::is_empty) {
        return Err(section.value_error("gate", "it names no metric: such a test cannot fail"));
    }
    Ok(gate)
}

/// A list of metrics, each once.
fn metrics(section: &Section<'_>, key: &str) -> Result<Option<Vec<Metric>>, ConfigurationError> {
    let Some(names) = section.texts(key)? else {
        return Ok(None);
    };
    let mut metrics = Vec::new();
    for (name, at) in names {
        let metric = Metric::named(&name, &Metric::OF_RUNS).ok_or_else(|| {
            let known = Metric::OF_RUNS.map(Metric::name).join(", ");
            let problem = format!("\"{name}\" is no metric; there are {known}");
            section.error_at(at.clone(), key, problem)
        })?;
        if metrics.contains(&metric) {
            return Err(section.error_at(at, key, format!("\"{name}\" is listed twice")));
        }
        metrics.push(metric);
    }
    Ok(Some(metrics))
}

/// The rules of the allow-list of a test.
fn allow(section: &Section<'_>, protocol: &Protocol) -> Result<Vec<Allowance>, ConfigurationError> {
    let mut rules = Vec::new();
    for rule in section.list("allow")? {
        rule.reject_unknown_keys(ALLOWANCE)?;
        if protocol.counts_only {
            return Err(rule.table_error("it needs stacks, which `counts-only` does not record"));
        }
        let text = |key: &str, what: &str| {
            let text = rule.text(key)?.filter(|text| !text.trim().is_empty());
            text.ok_or_else(|| rule.table_error(format!("it has no `{key}`, {what}")))
        };
        let pattern = text(
            "stack",
            "a part of a function, file or module of the stacks",
        )?;
        let name = rule.text("metric")?;
        let name = name.as_deref().unwrap_or(Metric::Allocations.name());
        let metric = Metric::named(name, &Metric::OF_RUNS);
        let metric = metric.filter(|&metric| Allowance::is_possible(metric));
        let metric = metric.ok_or_else(|| {
            let possible = Metric::OF_RUNS.into_iter();
            let possible = possible.filter(|&metric| Allowance::is_possible(metric));
            let possible: Vec<&str> = possible.map(Metric::name).collect();
            let problem = format!(
                "\"{name}\" is no metric of stacks; there are {}",
                possible.join(", ")
            );
            rule.value_error("metric", problem)
        })?;
        let up_to = rule.number("up-to", 1..1 << 62)?;
        rules.push(Allowance {
            stacks: Filter::new(&pattern, false),
            metric,
            up_to: up_to.ok_or_else(|| {
                rule.table_error("it has no `up-to`, the largest number that it allows")
            })?,
            reason: text("reason", "which the log shows")?,
        });
    }
    Ok(rules)
}

/// Another name of [`Metric::Remaining`] in limits.
const LEAKED: &str = "leaked";

fn limit(section: &Section<'_>) -> Result<Option<BTreeMap<Metric, i64>>, ConfigurationError> {
    let Some(table) = section.table("limit")? else {
        return Ok(None);
    };
    let names = Metric::OF_RUNS.map(Metric::name);
    let names: Vec<&str> = names.into_iter().chain([LEAKED]).collect();
    table.reject_unknown_keys(&names)?;
    if table.has(LEAKED) && table.has(Metric::Remaining.name()) {
        let problem = "this is another name of `remaining`, which has a limit, too";
        return Err(table.value_error(LEAKED, problem));
    }
    let mut limits = BTreeMap::new();
    for key in table.keys() {
        let metric = match key {
            LEAKED => Metric::Remaining,
            key => Metric::named(key, &Metric::OF_RUNS)
                .ok_or_else(|| table.value_error(key, "it is no metric"))?,
        };
        let limit = if table.is_text(key) {
            let text = table.text(key)?.unwrap_or_default();
            let limit = limit::parse(&text, metric);
            limit.map_err(|error| table.value_error(key, error.to_string()))?
        } else {
            let limit = table.number(key, 0..1 << 62)?.unwrap_or_default();
            i64::try_from(limit).unwrap_or(i64::MAX)
        };
        limits.insert(metric, limit);
    }
    Ok(Some(limits))
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
    let mut checked = protocol.gate.iter().chain(protocol.limit.keys());
    if let Some(metric) = checked.find(|metric| !counted(metric)) {
        let known = Metric::OF_RUNS
            .into_iter()
            .filter(|metric| metric.is_counted());
        let known: Vec<&str> = known.map(Metric::name).collect();
        let problem = format!(
            "`counts-only` does not record {metric}; it records {}",
            known.join(", ")
        );
        return Err(section.value_error(
            match own {
                own if own
                    .limit
                    .iter()
                    .flatten()
                    .any(|(limited, _)| limited == metric) =>
                {
                    "limit"
                }
                own if own.gate.is_some() => "gate",
                _ => "counts-only",
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
mod tests;
