//! Reads and writes the file `made-with.toml`: the toolchains by the fingerprint with
//! which budgets refer to them, and the versions in dependency files by the file's
//! hash. Each is stored once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

use super::BudgetError;
use super::file::{invalid, quoted};
use crate::toolchain::{Dependencies, Toolchain};

/// The name of the file.
pub(super) const FILE: &str = "made-with.toml";

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

    /// Adds a toolchain and returns its fingerprint.
    pub(super) fn add(&mut self, toolchain: &Toolchain) -> String {
        let fingerprint = toolchain.fingerprint();
        self.0.insert(fingerprint.clone(), toolchain.clone());
        fingerprint
    }

    /// Removes toolchains that no budget refers to.
    pub(super) fn keep(&mut self, used: &BTreeSet<String>) {
        self.0.retain(|fingerprint, _| used.contains(fingerprint));
    }

    pub(super) fn text(&self) -> String {
        let mut text = "# What programs were built with when their numbers were accepted. If a number changes, \
                        changes of this\n# are shown first. `allotrope test --accept` writes this file.\n"
            .to_owned();
        let mut states: BTreeMap<&str, &Dependencies> = BTreeMap::new();
        for (fingerprint, toolchain) in &self.0 {
            let _ = writeln!(text, "\n[toolchains.{}]", quoted(fingerprint));
            let _ = writeln!(text, "platform = {}", quoted(&toolchain.platform));
            text.push_str("compilers = [\n");
            for compiler in &toolchain.compilers {
                let _ = writeln!(text, "    {},", quoted(compiler));
            }
            text.push_str("]\n");
            let mut table = |name: &str, lines: Vec<(&String, &String)>| {
                if lines.is_empty() {
                    return;
                }
                let _ = writeln!(text, "\n[toolchains.{}.{name}]", quoted(fingerprint));
                for (key, value) in lines {
                    let _ = writeln!(text, "{} = {}", quoted(key), quoted(value));
                }
            };
            table("libraries", toolchain.libraries.iter().collect());
            let files = toolchain.dependencies.iter();
            table(
                "dependencies",
                files.map(|(file, state)| (file, &state.hash)).collect(),
            );
            states.extend(
                toolchain
                    .dependencies
                    .values()
                    .map(|state| (&*state.hash, state)),
            );
        }
        for (hash, state) in states {
            if !state.versions.is_empty() {
                let _ = writeln!(text, "\n[dependencies.{}]", quoted(hash));
                for (name, version) in &state.versions {
                    let _ = writeln!(text, "{} = {}", quoted(name), quoted(version));
                }
            }
        }
        text
    }
}
