//! The environment of the replayer's process.
//!
//! What a look-up of a variable costs depends on the number and the order of the variables, on
//! their lengths, and on how far a variable's name agrees with the one that is looked up. So the
//! recorded program's environment is rebuilt: its variables in their order with their lengths,
//! and with their names if the recording keeps them. It has no values; each value is as many `x`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use allotrope_text::numbers::{bytes, plural};
use allotrope_text::text_of_os;
use allotrope_trace::model::Variable;
use serde::{Deserialize, Serialize};

/// The variable that names the allocator.
const PRELOAD: &[u8] = b"LD_PRELOAD";
/// A byte of a name or a value that is not known.
const FILLER: u8 = b'x';

/// An environment, without `LD_PRELOAD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The entries in their order.
    entries: Vec<Entry>,
    /// Number of the entry before which `LD_PRELOAD` stands; the end if it is more.
    preload_at: usize,
    facts: EnvironmentRow,
}

/// An entry of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: Vec<u8>,
    /// `None`: an entry without `=`.
    value: Option<Vec<u8>>,
}

/// Where an environment is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The recorded program's.
    Recording,
    /// That of the command that measures.
    Own,
    /// Nothing but what the user set.
    None,
}

/// What a report says of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentRow {
    /// Where its variables are from.
    pub source: Source,
    /// Number of its variables, without the `LD_PRELOAD` of the allocator.
    pub variables: u64,
    /// Bytes of its variables, each with a zero byte.
    pub bytes: u64,
    /// Whether the variables have the program's own names; else names of the same lengths.
    pub names: bool,
    /// Names of which the last character is changed, because the loader or an allocator would
    /// take the unknown value for a setting.
    pub renamed: Vec<String>,
    /// Names of the variables that the user set.
    pub set: Vec<String>,
}

impl Environment {
    /// An environment without variables.
    pub fn none() -> Self {
        Self::new(Vec::new(), usize::MAX, Source::None)
    }

    /// The environment of this process, without what a recording adds to it.
    pub fn of_this_process() -> Self {
        let mut entries = Vec::new();
        let mut preload_at = usize::MAX;
        for (name, value) in std::env::vars_os() {
            if name == "ALLOTROPE_ARENA" {
                continue;
            }
            if name.as_bytes() == PRELOAD {
                preload_at = entries.len();
                continue;
            }
            entries.push(Entry {
                name: name.into_vec(),
                value: Some(value.into_vec()),
            });
        }
        Self::new(entries, preload_at, Source::Own)
    }

    /// Rebuilds the environment of a recorded program.
    pub fn of_recording(variables: &[Variable]) -> Self {
        let mut entries = Vec::new();
        let mut preload_at = usize::MAX;
        let mut renamed = Vec::new();
        let mut names = true;
        for variable in variables {
            let known = variable.name.as_ref().map(|it| it.as_bytes());
            if known == Some(PRELOAD) {
                preload_at = entries.len();
                continue;
            }
            names &= known.is_some();
            let name = match known {
                None => vec![FILLER; variable.name_bytes as usize],
                Some(name) if is_setting(name) && variable.value_bytes.is_some() => {
                    renamed.push(text_of_os(OsStr::from_bytes(name)).into_owned());
                    other_name(name)
                }
                Some(name) => name.to_owned(),
            };
            let filled = |bytes| vec![FILLER; bytes as usize];
            let value = variable.value_bytes.map(filled);
            entries.push(Entry { name, value });
        }
        let mut this = Self::new(entries, preload_at, Source::Recording);
        this.facts.names = names;
        this.facts.renamed = renamed;
        this
    }

    fn new(entries: Vec<Entry>, preload_at: usize, source: Source) -> Self {
        let mut this = Self {
            entries,
            preload_at,
            facts: EnvironmentRow {
                source,
                variables: 0,
                bytes: 0,
                names: true,
                renamed: Vec::new(),
                set: Vec::new(),
            },
        };
        this.count();
        this
    }

    /// This environment with these variables: one that it has gets the value, another one is
    /// appended.
    #[must_use]
    pub fn with(mut self, variables: &[(OsString, OsString)]) -> Self {
        for (name, value) in variables {
            self.set(name.as_bytes(), value.as_bytes());
            let name = text_of_os(name).into_owned();
            self.facts.renamed.retain(|it| *it != name);
            if !self.facts.set.contains(&name) {
                self.facts.set.push(name);
            }
        }
        self.count();
        self
    }

    /// The environment for stepping: symbols are bound before the replay, so that no step is the
    /// linker's. Without variables of another source, the loader and the C library find the same
    /// two everywhere.
    #[must_use]
    pub(crate) fn for_stepping(mut self) -> Self {
        if self.facts.source == Source::None {
            for (name, value) in [("LANG", "C"), ("PATH", "/usr/bin:/bin")] {
                if !self.entries.iter().any(|it| it.name == name.as_bytes()) {
                    self.set(name.as_bytes(), value.as_bytes());
                }
            }
        }
        self.set(b"LD_BIND_NOW", b"1");
        self
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let changed = other_name(name);
        let is_renamed = self.facts.renamed.iter().any(|it| it.as_bytes() == name);
        let same = |it: &&mut Entry| it.name == name || (is_renamed && it.name == changed);
        let value = Some(value.to_owned());
        let name = name.to_owned();
        match self.entries.iter_mut().find(same) {
            Some(entry) => *entry = Entry { name, value },
            None => self.entries.push(Entry { name, value }),
        }
    }

    fn count(&mut self) {
        let lengths = self.entries.iter().map(|it| it.to_bytes().len() as u64 + 1);
        self.facts.bytes = lengths.sum();
        self.facts.variables = self.entries.len() as u64;
    }

    /// What a report says of it.
    pub fn row(&self) -> &EnvironmentRow {
        &self.facts
    }

    /// The entries, each followed by a zero byte, with this allocator preloaded.
    pub(crate) fn to_bytes(&self, allocator: Option<&Path>) -> Vec<u8> {
        let mut all: Vec<Vec<u8>> = self.entries.iter().map(Entry::to_bytes).collect();
        if let Some(allocator) = allocator {
            let preload = Entry {
                name: PRELOAD.to_owned(),
                value: Some(allocator.as_os_str().as_bytes().to_owned()),
            };
            all.insert(self.preload_at.min(all.len()), preload.to_bytes());
        }
        let mut bytes = Vec::new();
        for entry in all {
            bytes.extend_from_slice(&entry);
            bytes.push(0);
        }
        bytes
    }
}

impl Entry {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.name.clone();
        if let Some(value) = &self.value {
            bytes.push(b'=');
            bytes.extend_from_slice(value);
        }
        bytes
    }
}

/// Whether the loader, the C library's allocator or a known other one takes the variable's value
/// for a setting: an unknown value would be a wrong setting.
fn is_setting(name: &[u8]) -> bool {
    let upper = name.to_ascii_uppercase();
    upper.starts_with(b"LD_")
        || upper == b"GLIBC_TUNABLES"
        || upper.windows(6).any(|part| part == b"MALLOC")
}

/// A name that agrees with this one up to the last character.
fn other_name(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_owned();
    if let Some(last) = name.last_mut() {
        *last = if *last == b'_' { FILLER } else { b'_' };
    }
    name
}

impl EnvironmentRow {
    /// The environment in words, for a list of facts.
    pub fn text(&self) -> String {
        let number = usize::try_from(self.variables).unwrap_or(usize::MAX);
        let variables = plural(number, "variable", "variables");
        let variables = format!("{variables}, {}", bytes(self.bytes));
        let mut text = match (self.source, self.names) {
            (Source::Recording, true) => format!(
                "environment of the recorded program ({variables}): names, order and lengths; values are not recorded"
            ),
            (Source::Recording, false) => format!(
                "environment of the recorded program ({variables}): order and lengths; where the allocator looks up variables, record --environment-names makes the time that of the program"
            ),
            (Source::Own, _) => format!("environment of this command ({variables})"),
            (Source::None, _) if self.variables == 0 => "no environment".to_owned(),
            (Source::None, _) => format!("no environment but {variables}"),
        };
        if !self.renamed.is_empty() {
            text += &format!(
                "; without the settings {}, whose values are not recorded (--env gives them)",
                self.renamed.join(", ")
            );
        }
        if !self.set.is_empty() {
            text += &format!("; set: {}", self.set.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, keeps_name: bool, value_bytes: Option<u32>) -> Variable {
        Variable {
            name_bytes: name.len() as u32,
            name: keeps_name.then(|| name.into()),
            value_bytes,
        }
    }

    fn text(environment: &Environment, allocator: Option<&str>) -> String {
        let bytes = environment.to_bytes(allocator.map(Path::new));
        String::from_utf8(bytes).unwrap().replace('\0', " ")
    }

    #[test]
    fn a_recorded_environment_has_the_same_order_and_lengths() {
        let recorded = [
            variable("HOME", false, Some(5)),
            variable("ODD", false, None),
            variable("A", false, Some(0)),
        ];
        let environment = Environment::of_recording(&recorded);
        assert_eq!(text(&environment, None), "xxxx=xxxxx xxx x= ");
        assert_eq!(
            text(&environment, Some("/a.so")),
            "xxxx=xxxxx xxx x= LD_PRELOAD=/a.so "
        );
        let row = environment.row();
        assert_eq!((row.variables, row.bytes, row.names), (3, 18, false));
    }

    #[test]
    fn an_allocator_takes_the_place_of_the_recorded_one() {
        let recorded = [
            variable("HOME", true, Some(2)),
            variable("LD_PRELOAD", true, Some(9)),
            variable("TERM", true, Some(1)),
        ];
        let environment = Environment::of_recording(&recorded);
        assert!(environment.row().names);
        assert_eq!(
            text(&environment, Some("m.so")),
            "HOME=xx LD_PRELOAD=m.so TERM=x "
        );
        assert_eq!(text(&environment, None), "HOME=xx TERM=x ");
        assert_eq!(environment.row().variables, 2);
    }

    #[test]
    fn an_unknown_value_is_no_setting() {
        let recorded = [
            variable("MALLOC_ARENA_MAX", true, Some(1)),
            variable("LD_LIBRARY_PATH", true, Some(3)),
            variable("LD_DEBUG_", true, Some(1)),
        ];
        let environment = Environment::of_recording(&recorded);
        assert_eq!(
            text(&environment, None),
            "MALLOC_ARENA_MA_=x LD_LIBRARY_PAT_=xxx LD_DEBUGx=x "
        );
        assert_eq!(environment.row().renamed.len(), 3);
        let given = [("MALLOC_ARENA_MAX".into(), "12".into())];
        let environment = environment.with(&given);
        assert_eq!(
            text(&environment, None),
            "MALLOC_ARENA_MAX=12 LD_LIBRARY_PAT_=xxx LD_DEBUGx=x "
        );
        assert_eq!(environment.row().renamed, ["LD_LIBRARY_PATH", "LD_DEBUG_"]);
        assert_eq!(environment.row().set, ["MALLOC_ARENA_MAX"]);
    }

    #[test]
    fn variables_are_set_in_their_place_or_appended() {
        let recorded = [variable("A", true, Some(4)), variable("B", true, Some(1))];
        let set = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let environment = Environment::of_recording(&recorded);
        let environment = environment.with(&[set("A", "1"), set("C", "2"), set("A", "3")]);
        assert_eq!(text(&environment, None), "A=3 B=x C=2 ");
        assert_eq!(environment.row().set, ["A", "C"]);
        let stepped = Environment::none()
            .with(&[set("LANG", "de")])
            .for_stepping();
        assert_eq!(
            text(&stepped, None),
            "LANG=de PATH=/usr/bin:/bin LD_BIND_NOW=1 "
        );
        assert_eq!(
            text(&environment.for_stepping(), None),
            "A=3 B=x C=2 LD_BIND_NOW=1 "
        );
    }
}
