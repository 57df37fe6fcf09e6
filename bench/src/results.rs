//! Results of measurements with date and machine. They are stored as JSON in the target
//! folder, from which `bench/run render` generates the document's tables again.

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
    /// A description of the machine.
    pub machine: String,
    /// Duration of the measurement in minutes.
    pub minutes: f64,
    /// The load average at its start.
    pub load_before: f64,
    /// The load average at its end.
    pub load_after: f64,
    /// The rows.
    pub rows: Vec<Measured>,
}

/// Another measurement.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results<T> {
    /// Date and commit.
    pub when: String,
    /// A description of the machine.
    pub machine: String,
    /// The load average at its start.
    pub load_before: f64,
    /// The results.
    pub measured: T,
}

impl<T> Results<T> {
    /// Performs the measurement.
    pub fn of(measure: impl FnOnce() -> Result<T>) -> Result<Self> {
        let load_before = machine::load();
        Ok(Self {
            measured: measure()?,
            when: machine::when_and_what(),
            machine: machine::describe(),
            load_before,
        })
    }

    /// The sentence above a table.
    pub fn head(&self) -> String {
        format!("{}; load before {:.1}", self.when, self.load_before)
    }
}

/// The folder of results.
pub struct Archive(PathBuf);

impl Archive {
    /// The folder `bench-results` in the target folder; creates it.
    pub fn in_folder(target: &Path) -> Result<Self> {
        let folder = target.join("bench-results");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }

    /// Stores results, in place of earlier ones with this name.
    pub fn keep<T: Serialize>(&self, name: &str, results: &T) -> Result<()> {
        let path = self.0.join(name).with_extension("json");
        let text = serde_json::to_string_pretty(results)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The results that were stored last; `None` if there are none.
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
