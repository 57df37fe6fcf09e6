//! Compiles the programs in `programs/` with a compiler and flags of the
//! test's choice, once for every text, compiler and set of flags.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: &[&str] = &[
    "-D_GNU_SOURCE",
    "-g",
    "-O1",
    "-fno-builtin",
    "-fno-optimize-sibling-calls",
    "-pthread",
    "-w",
];

/// A program or library about to be built.
pub struct Build {
    compiler: String,
    source: PathBuf,
    flags: Vec<String>,
    name: String,
}

/// A program named after its first source.
pub fn build(compiler: &str, source: &str) -> Build {
    let stem = Path::new(source).file_stem().expect("sources have names");
    Build {
        compiler: compiler.to_owned(),
        source: source_path(source),
        flags: FLAGS.iter().map(|&flag| flag.to_owned()).collect(),
        name: stem.to_str().expect("their names are ASCII").to_owned(),
    }
}

/// A C++ program of one source, built as usual.
pub fn cxx(source: &str) -> PathBuf {
    build("c++", source).run()
}

/// A C program of one source, built as usual.
pub fn c(source: &str) -> PathBuf {
    build("cc", source).run()
}

/// Whether a command can be run at all.
pub fn is_there(command: &str) -> bool {
    let version = Command::new(command).arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

fn source_path(source: &str) -> PathBuf {
    folder().join(source)
}

/// Where the sources are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/unwinding/programs")
}

impl Build {
    /// More flags; libraries among them come after the source.
    pub fn flags<S: AsRef<str>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        let flags = flags.into_iter().map(|flag| flag.as_ref().to_owned());
        self.flags.extend(flags);
        self
    }

    /// Makes a shared library of this name instead of a program.
    pub fn library(mut self, name: &str) -> Self {
        self.flags.extend(["-shared".into(), "-fPIC".into()]);
        name.clone_into(&mut self.name);
        self
    }

    /// The path of the result.
    pub fn run(self) -> PathBuf {
        self.try_run().unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// The path of the result, or the compiler's output.
    pub fn try_run(self) -> Result<PathBuf, String> {
        let result = self.destination();
        if result.exists() {
            return Ok(result);
        }
        let folder = result.parent().expect("it was joined");
        std::fs::create_dir_all(folder).expect("cargo's folder for tests is writable");
        // In a temporary folder, then renamed: another test may build the same now.
        let aside = tempfile::tempdir_in(folder).expect("cargo's folder for tests is writable");
        let made = aside.path().join(&self.name);
        // The linker needs libraries after the sources that use them.
        let (libraries, flags): (Vec<_>, Vec<_>) = self
            .flags
            .iter()
            .partition(|flag| flag.starts_with("-l") || flag.ends_with(".so"));
        let output = Command::new(&self.compiler)
            .args(flags)
            .arg(&self.source)
            .args(libraries)
            .arg("-o")
            .arg(&made)
            .current_dir(aside.path())
            .output()
            .map_err(|error| format!("{}: {error}", self.compiler))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "{} {}:\n{words}",
                self.compiler,
                self.source.display()
            ));
        }
        std::fs::rename(&made, &result).expect("both are in one folder");
        Ok(result)
    }

    /// Returns a folder named by a hash of everything that determines the result.
    fn destination(&self) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (&self.compiler, &self.flags, &self.name).hash(&mut hasher);
        let truth = source_path("truth.h");
        for source in [&self.source, &truth] {
            let text = std::fs::read(source)
                .unwrap_or_else(|error| panic!("{}: {error}", source.display()));
            (source, text).hash(&mut hasher);
        }
        Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{}-{:016x}", self.name, hasher.finish()))
            .join(&self.name)
    }
}
