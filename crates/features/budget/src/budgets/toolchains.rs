//! Reads and writes the files `made-with/FINGERPRINT.toml`: the toolchains by the
//! fingerprint with which budgets refer to them. Each has a file of its own, which never
//! changes, so that branches with other toolchains do not conflict. Older versions wrote
//! all toolchains to one file, `made-with.toml`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

use super::BudgetError;
use super::file::{invalid, quoted};
use crate::toolchain::{Dependencies, Toolchain};

/// The name of the folder.
pub(super) const FOLDER: &str = "made-with";
/// The name of the file of older versions.
pub(super) const FILE: &str = "made-with.toml";

/// Whether a text is that of such a file.
pub(super) fn is_ours(text: &str) -> bool {
    Toolchains::parse(text, Path::new("")).is_ok_and(|known| !known.0.is_empty())
}

/// Toolchains by fingerprint.
#[derive(Debug, Default)]
pub(super) struct Toolchains(BTreeMap<String, Toolchain>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    #[serde(default)]
    toolchains: BTreeMap<String, ToolchainForm>,
    /// Hash of a dependency file to its versions by name.
    #[serde(default)]
    dependencies: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolchainForm {
    platform: String,
    compilers: Vec<String>,
    #[serde(default)]
    options: Vec<String>,
    optimised: Option<bool>,
    #[serde(default)]
    libraries: BTreeMap<String, String>,
    /// Dependency file to its hash.
    #[serde(default)]
    dependencies: BTreeMap<String, String>,
}

impl Toolchains {
    pub(super) fn parse(text: &str, file: &Path) -> Result<Self, BudgetError> {
        let form: FileForm = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            invalid(text, file, at, error.message().replace('\n', "; "))
        })?;
        let dependencies = |hash: String| Dependencies {
            versions: form.dependencies.get(&hash).cloned().unwrap_or_default(),
            hash,
        };
        let toolchains = form.toolchains.into_iter().map(|(name, form)| {
            let files = form.dependencies.into_iter();
            let toolchain = Toolchain {
                platform: form.platform,
                compilers: form.compilers,
                options: form.options,
                optimised: form.optimised,
                libraries: form.libraries,
                dependencies: files
                    .map(|(file, hash)| (file, dependencies(hash)))
                    .collect(),
            };
            (name, toolchain)
        });
        Ok(Self(toolchains.collect()))
    }

    pub(super) fn get(&self, fingerprint: &str) -> Option<Toolchain> {
        self.0.get(fingerprint).cloned()
    }

    /// The toolchains with the text of the file of each, by fingerprint.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        let toolchains = self.0.iter();
        toolchains.map(|(fingerprint, toolchain)| (&**fingerprint, text(fingerprint, toolchain)))
    }
}

/// The text of the file of a toolchain.
pub(super) fn text(fingerprint: &str, toolchain: &Toolchain) -> String {
    let mut text = "# What programs were built with when their numbers were accepted. If a number changes, changes of this\n\
                    # are shown first. `allotrope test --accept` writes this file.\n"
        .to_owned();
    let _ = writeln!(text, "\n[toolchains.{}]", quoted(fingerprint));
    let _ = writeln!(text, "platform = {}", quoted(&toolchain.platform));
    let mut list = |name: &str, items: &[String]| {
        let _ = writeln!(text, "{name} = [");
        for item in items {
            let _ = writeln!(text, "    {},", quoted(item));
        }
        text.push_str("]\n");
    };
    list("compilers", &toolchain.compilers);
    if !toolchain.options.is_empty() {
        list("options", &toolchain.options);
    }
    if let Some(optimised) = toolchain.optimised {
        let _ = writeln!(text, "optimised = {optimised}");
    }
    let mut table = |name: &str, lines: Vec<(&String, &String)>| {
        if lines.is_empty() {
            return;
        }
        let _ = writeln!(text, "\n[{name}]");
        for (key, value) in lines {
            let _ = writeln!(text, "{} = {}", quoted(key), quoted(value));
        }
    };
    let name = |part: &str| format!("toolchains.{}.{part}", quoted(fingerprint));
    table(&name("libraries"), toolchain.libraries.iter().collect());
    let files = toolchain.dependencies.iter();
    let hashes = files.clone().map(|(file, state)| (file, &state.hash));
    table(&name("dependencies"), hashes.collect());
    // Two files may have the same contents.
    let states: BTreeMap<_, _> = files.map(|(_, state)| (&state.hash, state)).collect();
    for (hash, state) in states {
        let name = format!("dependencies.{}", quoted(hash));
        table(&name, state.versions.iter().collect());
    }
    text
}
