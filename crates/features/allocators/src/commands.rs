//! The commands that reproduce the sections of a report.

use std::ffi::OsString;

use allotrope_profile::ImageId;
use allotrope_text::{quoted, word};

use crate::report::CommandRow;

/// What the report was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The recording.
    pub file: OsString,
    /// The allocators, as `--alloc` takes them.
    pub alloc: Vec<String>,
    /// Earlier versions, as `--earlier` takes them.
    pub earlier: Vec<String>,
    /// The process image.
    pub process: ImageId,
    /// Timed runs.
    pub runs: u32,
    /// Operations to step through, about.
    pub sample: u64,
    /// How often they are stepped.
    pub stepped_runs: u32,
    /// The recorded allocator, if the user named it.
    pub recorded_with: Option<String>,
    /// The options that choose the environment.
    pub environment: Vec<OsString>,
}

impl Invocation {
    /// The commands, by section.
    pub(crate) fn commands(&self) -> Vec<CommandRow> {
        let replay = self.replay();
        let paths = self.paths(&self.alloc);
        let row = |section: &str, command: String| CommandRow {
            section: section.to_owned(),
            command,
        };
        let mut rows = vec![
            row("time and memory, switching", replay.clone()),
            row("functions, lines, paths, callees, what-if", paths.clone()),
            row("counters: page faults", format!("{replay} --format json")),
            row("counters: the processor's", self.itself()),
        ];
        if !self.earlier.is_empty() {
            let before = self.paths(&self.earlier);
            rows.extend([
                row("before and after", format!("{before} -q -o before.paths")),
                row("before and after", format!("{paths} -q -o after.paths")),
                row(
                    "before and after",
                    "allotrope diff before.paths after.paths".to_owned(),
                ),
                row("before and after", self.itself()),
            ]);
        }
        rows
    }

    fn itself(&self) -> String {
        let mut command = format!("allotrope allocators {}", self.common(&self.alloc));
        if !self.earlier.is_empty() {
            command += &format!(" --earlier {}", word(self.earlier.join(",").as_ref()));
        }
        command + &self.with() + &self.timed() + &self.stepped("--stepped-runs")
    }

    fn replay(&self) -> String {
        let common = self.common(&self.alloc);
        format!("allotrope replay {common}{}{}", self.with(), self.timed())
    }

    fn paths(&self, alloc: &[String]) -> String {
        let common = self.common(alloc);
        format!("allotrope paths {common}{}", self.stepped("--runs"))
    }

    fn common(&self, alloc: &[String]) -> String {
        let (file, alloc) = (quoted(&self.file), word(alloc.join(",").as_ref()));
        let mut common = format!("{file} --alloc {alloc} --process {}", self.process);
        for option in &self.environment {
            common += &format!(" {}", word(option));
        }
        common
    }

    fn timed(&self) -> String {
        format!(" --runs {}", self.runs)
    }

    fn stepped(&self, runs: &str) -> String {
        format!(" --sample {} {runs} {}", self.sample, self.stepped_runs)
    }

    fn with(&self) -> String {
        let with = self.recorded_with.as_ref();
        with.map_or_else(String::new, |it| {
            format!(" --recorded-with {}", word(it.as_ref()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_complete_and_quoted() {
        let invocation = Invocation {
            file: "my app.allotrope".into(),
            alloc: vec!["glibc".to_owned(), "mine=./new.so".to_owned()],
            earlier: vec!["mine=./old.so".to_owned()],
            process: 7,
            runs: 3,
            sample: 100,
            stepped_runs: 2,
            recorded_with: Some("glibc".to_owned()),
            environment: ["--env", "A=1 2"].map(OsString::from).to_vec(),
        };
        let commands = invocation.commands();
        let all: Vec<&str> = commands.iter().map(|it| &*it.command).collect();
        assert_eq!(
            all[0],
            "allotrope replay 'my app.allotrope' --alloc glibc,mine=./new.so --process 7 --env 'A=1 2' --recorded-with glibc --runs 3"
        );
        assert_eq!(
            all[1],
            "allotrope paths 'my app.allotrope' --alloc glibc,mine=./new.so --process 7 --env 'A=1 2' --sample 100 --runs 2"
        );
        assert!(all[3].contains("--earlier mine=./old.so"), "{}", all[3]);
        assert!(all[4].contains("--alloc mine=./old.so") && all[4].ends_with("-o before.paths"));
        assert_eq!(all[6], "allotrope diff before.paths after.paths");
        // The time of both versions.
        assert_eq!(all[7], all[3]);
    }
}
