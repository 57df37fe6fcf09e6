//! What was measured, when and on what: kept as JSON beside the build, so that
//! the text can be made anew from it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::machine;
use crate::standard::Measured;

/// The standard measurement.
#[derive(Debug, Serialize, Deserialize)]
pub struct Standard {
    /// Date and commit.
    pub when: String,
    /// What it was measured on.
    pub machine: String,
    /// How long it took.
    pub minutes: f64,
    /// The machine's load when it began.
    pub load_before: f64,
    /// And when it ended.
    pub load_after: f64,
    /// The rows.
    pub rows: Vec<Measured>,
}

/// Another measurement.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results<T> {
    /// Date and commit.
    pub when: String,
    /// What it was measured on.
    pub machine: String,
    /// The machine's load when it began.
    pub load_before: f64,
    /// What was measured.
    pub measured: T,
}

impl<T> Results<T> {
    /// Measures.
    pub fn of(measure: impl FnOnce() -> Result<T>) -> Result<Self> {
        let load_before = machine::load();
        Ok(Self {
            measured: measure()?,
            when: machine::when_and_what(),
            machine: machine::describe(),
            load_before,
        })
    }

    /// The sentence that stands above a table.
    pub fn head(&self) -> String {
        format!("{}; load before {:.1}", self.when, self.load_before)
    }
}

/// Where results lie.
pub struct Archive(PathBuf);

impl Archive {
    /// In a folder of the build's.
    pub fn in_folder(target: &Path) -> Result<Self> {
        let folder = target.join("bench-results");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }

    /// Keeps results.
    pub fn keep<T: Serialize>(&self, name: &str, results: &T) -> Result<()> {
        let path = self.0.join(name).with_extension("json");
        let text = serde_json::to_string_pretty(results)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// What was kept last, if anything was.
    pub fn last<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.0.join(name).with_extension("json");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let results = serde_json::from_str(&text);
        results
            .map(Some)
            .with_context(|| format!("{} is of another version; measure again", path.display()))
    }
}
