//! What was run, when and where: the head of a report.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{SystemTime, UNIX_EPOCH};

use allotrope_text::numbers::{bytes, moment};
use allotrope_text::{text_of_os, word};
use serde::{Deserialize, Serialize};

/// Variables that tell allocators and the loader what to do, by the starts of their names. Only
/// of these a report has the values; of all others, not even the names.
const TOLD: &[&str] = &[
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_BIND_NOW",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "_RJEM_MALLOC_CONF",
    "JE_MALLOC_CONF",
    "TCMALLOC_",
    "MIMALLOC_",
];

/// What was run, when and where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Start of the sampling, `2026-11-21 21:05:38 UTC`.
    pub date: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The process, if a running one was sampled.
    pub process: Option<u32>,
    /// The machine.
    pub machine: Machine,
    /// The program's environment.
    pub environment: Environment,
}

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor; empty if the kernel does not tell.
    pub processor: String,
    /// Number of processors.
    pub processors: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
}

/// The environment of the program. What it costs to look something up in it depends on its size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Number of variables.
    pub variables: u64,
    /// Bytes of all names and values.
    pub bytes: u64,
    /// Variables of allocators and the loader with their values.
    pub of_allocators: Vec<String>,
}

impl Origin {
    /// That of a program that this process is about to start.
    pub fn of_program(command: &[OsString]) -> Self {
        let variables = std::env::vars_os().map(|(name, value)| {
            let mut variable = name;
            variable.push("=");
            variable.push(value);
            variable
        });
        Self {
            command: command.iter().map(|it| shown(it)).collect(),
            environment: Environment::of(variables),
            ..Self::now()
        }
    }

    /// That of a running process, as far as this user may see it.
    pub fn of_process(process: u32) -> Self {
        let words = |file: &str| {
            let bytes = fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
            let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
            let words = bytes.split(|it| *it == 0).filter(|it| !it.is_empty());
            words
                .map(|it| OsString::from_vec(it.to_vec()))
                .collect::<Vec<_>>()
        };
        Self {
            command: words("cmdline").iter().map(|it| shown(it)).collect(),
            process: Some(process),
            environment: Environment::of(words("environ").into_iter()),
            ..Self::now()
        }
    }

    /// The command as a shell would take it.
    pub(crate) fn command_text(&self) -> String {
        let words = self.command.iter().map(|it| word(it.as_ref()));
        words.collect::<Vec<_>>().join(" ")
    }

    fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |it| u64::try_from(it.as_nanos()).unwrap_or(0));
        Self {
            date: moment(now),
            machine: Machine::this(),
            ..Self::default()
        }
    }
}

impl Machine {
    /// The machine in words.
    pub(crate) fn text(&self) -> String {
        format!(
            "{}, {} processors, {} of memory, Linux {}",
            match &*self.processor {
                "" => "unknown processor",
                name => name,
            },
            self.processors,
            bytes(self.memory_bytes),
            self.kernel,
        )
    }

    fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|it| it.starts_with(name));
            let value = line.and_then(|it| it.split_once(':'));
            value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kibibytes = memory
            .split(' ')
            .next()
            .and_then(|it| it.parse::<u64>().ok());
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name"),
            processors: std::thread::available_parallelism().map_or(0, |it| it.get() as u64),
            memory_bytes: kibibytes.unwrap_or(0) << 10,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

impl Environment {
    /// Its size and what of it is known, in words.
    pub(crate) fn text(&self) -> String {
        let size = format!("{} variables of {}", self.variables, bytes(self.bytes));
        let told = self.of_allocators.iter().map(String::as_str);
        let parts = std::iter::once(&*size).chain(told);
        parts.collect::<Vec<_>>().join(", ")
    }

    fn of(variables: impl Iterator<Item = OsString>) -> Self {
        let mut environment = Self::default();
        for variable in variables {
            environment.variables += 1;
            environment.bytes += variable.len() as u64;
            let is_told = |it: &&str| variable.as_bytes().starts_with(it.as_bytes());
            if TOLD.iter().any(is_told) {
                environment.of_allocators.push(shown(&variable));
            }
        }
        environment
    }
}

fn shown(text: &OsStr) -> String {
    text_of_os(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_allocators_alone() {
        let variables = ["TOKEN=secret", "LD_PRELOAD=/a.so", "MALLOC_ARENA_MAX=1"];
        let found = Environment::of(variables.into_iter().map(OsString::from));
        assert_eq!((found.variables, found.bytes), (3, 12 + 16 + 18));
        assert_eq!(
            found.of_allocators,
            ["LD_PRELOAD=/a.so", "MALLOC_ARENA_MAX=1"]
        );
    }
}
