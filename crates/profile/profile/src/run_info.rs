//! The run that a set of stacks comes from: process, times and modules. Exporters write
//! what is known of it; nothing here is guessed.

use std::collections::{BTreeMap, BTreeSet};

use allotrope_text::text_of_path;

use crate::model::{Module, Process, Profile};

/// The samples from which figures were estimated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SamplingInfo {
    /// The longest period, in bytes.
    pub period: u64,
    /// Sentences on how far the estimates can be trusted.
    pub notes: Vec<String>,
}

/// The run that stacks come from. What is unknown is `None` or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunInfo {
    /// Number of process images whose stacks are added up; 0 if unknown.
    pub images: usize,
    /// Process id, if all images have the same one.
    pub pid: Option<u32>,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_unix_ns: Option<u64>,
    /// Microseconds from the start of the first image to the end of the last one.
    pub duration_us: Option<u64>,
    /// Time of the peak, in microseconds since the start. `None` for several images: each
    /// has its peak at a time of its own.
    pub peak_time_us: Option<u64>,
    /// Path of the executable; for several images, of the one that allocated the most
    /// bytes. Empty if unknown.
    pub executable: String,
    /// The samples, if the figures are estimates from them.
    pub sampling: Option<SamplingInfo>,
    /// The modules that are known; frames refer to them by file name.
    pub modules: Vec<Module>,
}

impl RunInfo {
    /// Returns the info of these processes of a profile. Images without allocations, such as a
    /// launcher that only calls `exec`, are left out if others allocated.
    pub(crate) fn of_processes(profile: &Profile, processes: &[Process]) -> Self {
        let mut images: Vec<&Process> = processes.iter().collect();
        if images.iter().any(|image| !image.sites.is_empty()) {
            images.retain(|image| !image.sites.is_empty());
        }
        let Some(first) = images.iter().map(|image| image.started_us).min() else {
            return Self::default();
        };
        let end = |image: &&Process| image.started_us.saturating_add(image.duration_us);
        let last = images.iter().map(end).max().unwrap_or(first);
        let largest = images
            .iter()
            .max_by_key(|image| image.totals.allocated_bytes);
        let same_pid = images.iter().all(|image| image.pid == images[0].pid);
        let started = profile.recording.started_unix_ns;
        Self {
            images: images.len(),
            pid: same_pid.then_some(images[0].pid),
            started_unix_ns: (started != 0)
                .then(|| started.saturating_add(first.saturating_mul(1_000))),
            duration_us: Some(last - first),
            peak_time_us: match images[..] {
                [only] => Some(only.totals.peak_time_us),
                _ => None,
            },
            executable: largest.map_or_else(String::new, |image| {
                text_of_path(&image.executable).into_owned()
            }),
            sampling: None,
            modules: profile.modules.clone(),
        }
    }

    /// What else than the program differs from another run, `before` this one, in words:
    /// installed libraries of another build, the compilers of the program and of its own
    /// libraries, and whether they optimised. Empty if nothing does, or one of them is not
    /// known.
    pub fn differences(&self, before: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let (was, is) = (before.installed(), self.installed());
        for (name, build_id) in &is {
            if was.get(name).is_some_and(|earlier| earlier != build_id) {
                differences.push(format!("{name} is another build"));
            }
        }
        differences.extend(self.other_compilers(before));
        match (before.unoptimised(), self.unoptimised()) {
            (Some(true), Some(false)) => {
                differences
                    .push("only the program after was compiled with optimisation".to_owned());
            }
            (Some(false), Some(true)) => {
                differences
                    .push("only the program before was compiled with optimisation".to_owned());
            }
            _ => {}
        }
        differences
    }

    /// Which compilers made only the modules of one run: those of the executables and of
    /// libraries of the user's that both runs have.
    fn other_compilers(&self, before: &Self) -> Option<String> {
        let (was, is) = (before.built(), self.built());
        let (mut only_before, mut only_after) = (BTreeSet::new(), BTreeSet::new());
        for (name, is) in &is {
            let Some(was) = was.get(name) else { continue };
            only_before.extend(was.iter().filter(|it| !is.contains(*it)));
            only_after.extend(is.iter().filter(|it| !was.contains(*it)));
        }
        let sides = [(only_before, "before"), (only_after, "after")];
        let sides = sides.into_iter().filter(|(only, _)| !only.is_empty());
        let sides = sides.map(|(only, side)| {
            let names: Vec<&str> = only.into_iter().map(String::as_str).collect();
            format!("{} {side}", names.join(", "))
        });
        let sides: Vec<String> = sides.collect();
        (!sides.is_empty()).then(|| format!("compilers: {}", sides.join(", ")))
    }

    /// The compilers of the modules that the user built, by file name; the executable's
    /// has none, because a version may be in it. Only modules whose compilers are known.
    fn built(&self) -> BTreeMap<String, &[String]> {
        let modules = self.modules.iter().filter(|module| {
            let is_built = !is_installed(module) || self.is_executable(module);
            is_built && !module.compilers.is_empty()
        });
        let named = modules.map(|module| match self.is_executable(module) {
            true => (String::new(), &module.compilers[..]),
            false => (module.name().into_owned(), &module.compilers[..]),
        });
        named.collect()
    }

    /// Build ids of the modules that belong to the system, by file name.
    fn installed(&self) -> BTreeMap<String, &[u8]> {
        let modules = self.modules.iter().filter(|module| {
            is_installed(module) && !module.build_id.is_empty() && !self.is_executable(module)
        });
        modules
            .map(|module| (module.name().into_owned(), &module.build_id[..]))
            .collect()
    }

    fn unoptimised(&self) -> Option<bool> {
        let mut modules = self.modules.iter();
        modules
            .find(|module| self.is_executable(module))?
            .unoptimised
    }

    fn is_executable(&self, module: &Module) -> bool {
        text_of_path(&module.path) == self.executable
    }
}

/// Whether a module belongs to the system.
fn is_installed(module: &Module) -> bool {
    const FOLDERS: [&str; 6] = ["/usr", "/lib", "/lib64", "/nix", "/gnu", "/snap"];
    FOLDERS.iter().any(|folder| module.path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(modules: &[(&str, u8, Option<bool>)]) -> RunInfo {
        let module = |&(path, build, unoptimised): &(&str, u8, _)| Module {
            path: path.into(),
            build_id: vec![build; 20],
            unoptimised,
            ..Module::default()
        };
        RunInfo {
            executable: "/home/me/app".to_owned(),
            modules: modules.iter().map(module).collect(),
            ..RunInfo::default()
        }
    }

    #[test]
    fn other_libraries_and_optimisation_are_differences() {
        let before = run(&[
            ("/home/me/app", 1, Some(true)),
            ("/home/me/libmine.so", 1, None),
            ("/usr/lib/libc.so.6", 1, None),
            ("/usr/lib/libstdc++.so.6", 1, None),
            ("/usr/lib/libonly.so", 1, None),
        ]);
        let after = run(&[
            ("/home/me/app", 2, Some(false)),
            ("/home/me/libmine.so", 2, None),
            ("/usr/lib/libc.so.6", 1, None),
            ("/lib/libstdc++.so.6", 2, None),
        ]);
        assert_eq!(
            after.differences(&before),
            [
                "libstdc++.so.6 is another build",
                "only the program after was compiled with optimisation",
            ]
        );
        assert!(after.differences(&after).is_empty());
        assert!(after.differences(&RunInfo::default()).is_empty());
        assert!(RunInfo::default().differences(&before).is_empty());
    }

    #[test]
    fn other_compilers_of_the_users_modules_are_a_difference() {
        let run = |executable: &str, compilers: &[(&str, &[&str])]| {
            let module = |&(path, compilers): &(&str, &[&str])| Module {
                path: path.into(),
                compilers: compilers.iter().map(|&it| it.to_owned()).collect(),
                ..Module::default()
            };
            RunInfo {
                executable: executable.to_owned(),
                modules: compilers.iter().map(module).collect(),
                ..RunInfo::default()
            }
        };
        let before = run(
            "/home/me/app-1",
            &[
                ("/home/me/app-1", &["GCC: 11.3.0", "rustc 1.90.0"]),
                ("/home/me/libmine.so", &["GCC: 11.3.0"]),
                ("/home/me/libold.so", &["clang 14"]),
                ("/usr/lib/libc.so.6", &["GCC: 10"]),
            ],
        );
        let after = run(
            "/home/me/app-2",
            &[
                ("/home/me/app-2", &["GCC: 12.2.0", "rustc 1.90.0"]),
                ("/home/me/libmine.so", &[]),
                ("/usr/lib/libc.so.6", &["GCC: 12"]),
            ],
        );
        assert_eq!(
            after.differences(&before),
            ["compilers: GCC: 11.3.0 before, GCC: 12.2.0 after"]
        );
        assert!(before.differences(&before).is_empty());
        // Stripped: nothing is known.
        let stripped = run("/home/me/app-3", &[("/home/me/app-3", &[])]);
        assert!(stripped.differences(&before).is_empty());
    }
}
