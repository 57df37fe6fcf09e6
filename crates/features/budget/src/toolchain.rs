//! The compilers, libraries and dependencies that a program was built with. If
//! one of them changed since the numbers were accepted, it may explain a
//! changed number.

mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use allotrope_files::read_stored;
use allotrope_profile::{Module, Profile};
use allotrope_symbols::Compilers;
use sha2::{Digest, Sha256};

use crate::paths::Project;

/// Larger modules are not read, in bytes.
const MAX_MODULE_BYTES: u64 = 1 << 30;
/// A larger file lists no dependencies, in bytes.
pub(crate) const MAX_DEPENDENCIES_BYTES: u64 = 64 << 20;
/// Hexadecimal digits of a hash or build id that are used.
const HASH_DIGITS: usize = 12;

/// The compilers, libraries and dependencies of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Toolchain {
    /// Architecture, system and C library, `x86_64-linux-gnu`.
    pub platform: String,
    /// Compilers and linkers, as the section `.comment` of the project's own
    /// modules names them.
    pub compilers: Vec<String>,
    /// The options of these compilers, each with its compiler, and the Cargo profile; as far
    /// as they are known. Sorted.
    pub options: Vec<String>,
    /// Whether all of these modules of which it is known were compiled with optimisation;
    /// `None` if it is not known.
    pub optimised: Option<bool>,
    /// Version and build id of each installed module that the measured stacks
    /// contain, by name.
    pub libraries: BTreeMap<String, String>,
    /// The files that list the versions of dependencies, by path.
    pub dependencies: BTreeMap<String, Dependencies>,
}

/// A file that lists dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dependencies {
    /// First digits of its SHA-256.
    pub hash: String,
    /// Versions by name; empty if the file format is unknown.
    pub versions: BTreeMap<String, String>,
}

/// Something that has changed since the numbers were accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// Name of what has changed: `compiler`, `library libc.so.6`, `serde (Cargo.lock)`.
    pub what: String,
    /// The value before; empty if there was none.
    pub was: String,
    /// The value now; empty if there is none.
    pub is: String,
}

impl Toolchain {
    /// The toolchain of the program in a recording; `lock_files` are below `folder`.
    pub fn of(profile: &Profile, lock_files: &[PathBuf], folder: &Path, project: &Project) -> Self {
        let mut toolchain = Self {
            platform: platform("{arch}-{os}-{libc}"),
            dependencies: dependencies(lock_files, folder),
            ..Self::default()
        };
        for module in on_stacks(profile) {
            let path = &module.path;
            if project.builds(path) {
                let compilers = Compilers::of(path).unwrap_or_default();
                toolchain.compilers.extend(compilers.names);
                toolchain.options.extend(compilers.with_options);
                let profile = options::cargo_profile(path);
                toolchain
                    .options
                    .extend(profile.map(|name| format!("cargo {name}")));
                if let Some(optimised) = options::is_optimised(module) {
                    toolchain.optimised = Some(optimised && toolchain.optimised != Some(false));
                }
            } else if path.is_absolute() {
                let version = version(path, &module.build_id);
                toolchain
                    .libraries
                    .insert(module.name().into_owned(), version);
            }
        }
        toolchain.compilers.sort();
        toolchain.compilers.dedup();
        toolchain.options.sort();
        toolchain.options.dedup();
        toolchain
    }

    /// Compares with the accepted toolchain.
    pub fn suspects(&self, accepted: &Self) -> Vec<Suspect> {
        let mut suspects = Vec::new();
        let mut compare = |what: &str, was: &str, is: &str| {
            if was != is {
                suspects.push(Suspect {
                    what: what.to_owned(),
                    was: was.to_owned(),
                    is: is.to_owned(),
                });
            }
        };
        compare("platform", &accepted.platform, &self.platform);
        // Compilers and libraries are those of the modules on the stacks. If the code that
        // allocates is another one, there may be more or fewer of them, or none at all;
        // that is no change of the toolchain.
        let includes = |a: &Self, b: &Self| b.compilers.iter().all(|it| a.compilers.contains(it));
        if !includes(self, accepted) && !includes(accepted, self) {
            let [was, is] = [accepted, self].map(|side| side.compilers.join("; "));
            compare("compiler", &was, &is);
        }
        let includes = |a: &Self, b: &Self| b.options.iter().all(|it| a.options.contains(it));
        if !includes(self, accepted) && !includes(accepted, self) {
            let [was, is] = [(accepted, self), (self, accepted)].map(|(side, other)| {
                // Only the words that differ: a command line is long.
                let [own, others] = [side, other].map(Self::words_of_options);
                let own: Vec<&str> = own.difference(&others).copied().collect();
                own.join(" ")
            });
            compare("compiler options", &was, &is);
        }
        if let (Some(was), Some(is)) = (accepted.optimised, self.optimised) {
            let [was, is] = [was, is].map(|is_on| if is_on { "on" } else { "off" });
            compare("optimisation", was, is);
        }
        for (name, was, is) in both(&accepted.libraries, &self.libraries) {
            if let (Some(was), Some(is)) = (was, is) {
                compare(&format!("library {name}"), was, is);
            }
        }
        for (file, was, is) in both(&accepted.dependencies, &self.dependencies) {
            let none = Dependencies::default();
            let (was, is) = (was.unwrap_or(&none), is.unwrap_or(&none));
            if was.hash == is.hash {
                continue;
            }
            let mut named = false;
            for (name, was, is) in both(&was.versions, &is.versions) {
                let text = |version: Option<&String>| version.cloned().unwrap_or_default();
                named |= was != is;
                compare(&format!("{name} ({file})"), &text(was), &text(is));
            }
            if !named {
                compare(&format!("contents of {file}"), &was.hash, &is.hash);
            }
        }
        suspects
    }

    fn words_of_options(&self) -> BTreeSet<&str> {
        let options = self.options.iter();
        options
            .flat_map(|text| text.split_ascii_whitespace())
            .collect()
    }

    /// A short hash that identifies the toolchain.
    pub fn fingerprint(&self) -> String {
        let mut text = format!("{}\n{}\n", self.platform, self.compilers.join("\n"));
        for options in &self.options {
            let _ = writeln!(text, "{options}");
        }
        if let Some(optimised) = self.optimised {
            let _ = writeln!(text, "optimised {optimised}");
        }
        for (name, version) in &self.libraries {
            let _ = writeln!(text, "{name} {version}");
        }
        for (file, dependencies) in &self.dependencies {
            let _ = writeln!(text, "{file} {}", dependencies.hash);
        }
        hash(text.as_bytes())
    }
}

/// The modules on the stacks of a profile. Without stacks, any module may be one that
/// allocated.
fn on_stacks(profile: &Profile) -> impl Iterator<Item = &Module> {
    let mut on_stacks = vec![profile.is_counts_only(); profile.modules.len()];
    for frame in &profile.frames {
        if let Some(seen) = on_stacks.get_mut(frame.module as usize) {
            *seen = true;
        }
    }
    let modules = profile.modules.iter().zip(on_stacks);
    modules.filter_map(|(module, seen)| seen.then_some(module))
}

/// The names of the project's own modules on the stacks that were compiled without
/// optimisation.
pub fn unoptimised_modules(profile: &Profile, project: &Project) -> Vec<String> {
    let modules = on_stacks(profile).filter(|module| {
        project.builds(&module.path) && options::is_optimised(module) == Some(false)
    });
    let name = |module: &Module| {
        let name = module.name().into_owned();
        // Cargo adds a hash to the names of tests.
        let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|it| it.is_ascii_hexdigit());
        let of_cargo = options::cargo_profile(&module.path).is_some();
        match name
            .rsplit_once('-')
            .filter(|(_, end)| of_cargo && is_hash(end))
        {
            Some((name, _)) => name.to_owned(),
            None => name,
        }
    };
    modules.map(name).collect()
}

/// The values of both maps for each key.
fn both<'a, T>(
    was: &'a BTreeMap<String, T>,
    is: &'a BTreeMap<String, T>,
) -> Vec<(&'a str, Option<&'a T>, Option<&'a T>)> {
    let mut keys: Vec<&String> = was.keys().chain(is.keys()).collect();
    keys.sort();
    keys.dedup();
    let keys = keys.into_iter();
    keys.map(|key| (key.as_str(), was.get(key), is.get(key)))
        .collect()
}

/// Inserts this platform's architecture, system and C library into `form`.
pub fn platform(form: &str) -> String {
    let libc = if cfg!(target_env = "musl") {
        "musl"
    } else {
        "gnu"
    };
    form.replace("{arch}", std::env::consts::ARCH)
        .replace("{os}", std::env::consts::OS)
        .replace("{libc}", libc)
}

fn hash(bytes: &[u8]) -> String {
    digits(&Sha256::digest(bytes))
}

fn digits(bytes: &[u8]) -> String {
    let bytes = bytes.iter().take(HASH_DIGITS / 2);
    bytes.fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn version(path: &Path, build_id: &[u8]) -> String {
    let mut parts = Vec::new();
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if name(&real) != name(path) {
        parts.push(name(&real));
    }
    if name(path).starts_with("libc.so") {
        parts.extend(glibc(path));
    }
    if !build_id.is_empty() {
        parts.push(format!("build id {}", digits(build_id)));
    }
    parts.join(", ")
}

/// glibc's version, from its text `GNU C Library (Debian GLIBC 2.36-9) …`.
fn glibc(path: &Path) -> Option<String> {
    const BEFORE: &[u8] = b"GNU C Library (";
    let bytes = read_stored(path, MAX_MODULE_BYTES).ok()?;
    let at = bytes
        .windows(BEFORE.len())
        .position(|part| part == BEFORE)?;
    let rest = &bytes[at + BEFORE.len()..];
    let end = rest.iter().take(200).position(|&byte| byte == b')')?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

fn dependencies(files: &[PathBuf], folder: &Path) -> BTreeMap<String, Dependencies> {
    let mut all = BTreeMap::new();
    for file in files {
        // A missing file counts as an empty one, so that its disappearance is a
        // change.
        let bytes = read_stored(&folder.join(file), MAX_DEPENDENCIES_BYTES);
        let bytes = bytes.unwrap_or_default();
        all.insert(
            file.to_string_lossy().into_owned(),
            Dependencies {
                hash: hash(&bytes),
                versions: versions(file, &bytes),
            },
        );
    }
    all
}

/// Names and versions of the packages in a `Cargo.lock`.
fn versions(file: &Path, bytes: &[u8]) -> BTreeMap<String, String> {
    #[derive(serde::Deserialize)]
    struct Lock {
        #[serde(default)]
        package: Vec<Package>,
    }
    #[derive(serde::Deserialize)]
    struct Package {
        name: String,
        version: String,
        source: Option<String>,
    }
    let mut versions: BTreeMap<String, String> = BTreeMap::new();
    if file.file_name().is_none_or(|name| name != "Cargo.lock") {
        return versions;
    }
    let lock = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| toml::from_str::<Lock>(text).ok());
    for package in lock.into_iter().flat_map(|lock| lock.package) {
        // Packages without a source are the project's own code.
        if package.source.is_some() {
            let known = versions.entry(package.name).or_default();
            let gap = if known.is_empty() { "" } else { ", " };
            let _ = write!(known, "{gap}{}", package.version);
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_lock(lock: &str) -> Toolchain {
        let dependencies = Dependencies {
            hash: hash(lock.as_bytes()),
            versions: versions(Path::new("Cargo.lock"), lock.as_bytes()),
        };
        Toolchain {
            compilers: vec!["GCC: 12".into()],
            dependencies: [("Cargo.lock".to_owned(), dependencies)].into(),
            ..Toolchain::default()
        }
    }

    #[test]
    fn a_dependency_is_named_with_its_versions() {
        let package = |name: &str, version: &str, source: &str| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}\n")
        };
        let source = "source = \"registry\"";
        let lock = |version| {
            package("own", version, "")
                + &package("serde", version, source)
                + &package("same", "1.0.0", source)
        };
        let suspects = with_lock(&lock("1.0.1")).suspects(&with_lock(&lock("1.0.0")));
        let expected = Suspect {
            what: "serde (Cargo.lock)".into(),
            was: "1.0.0".into(),
            is: "1.0.1".into(),
        };
        assert_eq!(suspects, [expected]);
    }

    #[test]
    fn an_unchanged_toolchain_has_no_suspects() {
        let toolchain = with_lock("");
        assert_eq!(toolchain.suspects(&toolchain), []);
        let other = with_lock("# a comment");
        let [suspect] = &toolchain.suspects(&other)[..] else {
            panic!("one");
        };
        assert_eq!(suspect.what, "contents of Cargo.lock");
        assert_ne!(toolchain.fingerprint(), other.fingerprint());
    }

    #[test]
    fn a_change_of_compiler_and_library_is_named() {
        let mut accepted = with_lock("");
        accepted.libraries.insert("libc.so.6".into(), "2.36".into());
        let mut now = accepted.clone();
        now.compilers = vec!["GCC: 13".into()];
        now.libraries.insert("libc.so.6".into(), "2.41".into());
        let suspects = now.suspects(&accepted);
        let names: Vec<&str> = suspects
            .iter()
            .map(|suspect| suspect.what.as_str())
            .collect();
        assert_eq!(names, ["compiler", "library libc.so.6"]);
        assert_eq!(
            (suspects[1].was.as_str(), suspects[1].is.as_str()),
            ("2.36", "2.41")
        );
    }

    #[test]
    fn changed_options_are_named() {
        let with = |options: &str, optimised| Toolchain {
            options: vec![format!("GNU C17 12.2.0 -g {options}")],
            optimised,
            ..Toolchain::default()
        };
        let (was, is) = (
            with("-O2 -fno-inline", Some(true)),
            with("-O0", Some(false)),
        );
        let suspects = is.suspects(&was);
        let parts = suspects
            .iter()
            .map(|it| (it.what.as_str(), it.was.as_str(), it.is.as_str()));
        assert_eq!(
            parts.collect::<Vec<_>>(),
            [
                ("compiler options", "-O2 -fno-inline", "-O0"),
                ("optimisation", "on", "off")
            ]
        );
        assert_ne!(is.fingerprint(), was.fingerprint());
        // A budget of an older version does not have them.
        assert_eq!(is.suspects(&Toolchain::default()), []);
    }

    #[test]
    fn what_is_on_the_stacks_of_one_side_only_is_no_suspect() {
        // No stacks at all: a budget of zero.
        let mut nothing = with_lock("");
        nothing.compilers.clear();
        let mut some = with_lock("");
        some.libraries.insert("libz.so.1".into(), "1.2".into());
        assert_eq!(some.suspects(&nothing), []);
        assert_eq!(nothing.suspects(&some), []);
        let mut more = with_lock("");
        more.compilers.push("rustc 1.95".into());
        assert_eq!(more.suspects(&some), []);
    }
}
