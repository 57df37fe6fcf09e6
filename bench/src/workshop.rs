//! A temporary folder in which programs are compiled and inputs are generated. It is
//! removed at the end. A missing program is an error that names it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Programs, inputs and the files of runs.
pub struct Workshop {
    folder: TempDir,
    made: RefCell<HashMap<&'static str, PathBuf>>,
}

/// How the launcher is linked; its source explains why there are two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    Statically,
    Dynamically,
}

impl Workshop {
    /// Creates the folder.
    pub fn open() -> Result<Self> {
        let folder = TempDir::with_prefix("allotrope-bench-");
        Ok(Self {
            folder: folder.context("cannot create a temporary folder")?,
            made: RefCell::default(),
        })
    }

    /// A path for a file of a run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A program of `bench/programs`, compiled by the compiler for its suffix.
    pub fn program(&self, source: &'static str) -> Result<PathBuf> {
        self.once(source, |workshop| {
            let from = source_folder().join("programs").join(source);
            let to = workshop.path(source.split('.').next().unwrap_or(source));
            let mut compiler = match from.extension().and_then(OsStr::to_str) {
                Some("rs") => {
                    let mut rustc = Command::new("rustc");
                    rustc.args(["-O", "-g", "--edition", "2024"]);
                    rustc
                }
                Some("cc") => with_arguments("g++", &["-std=c++20", "-O2", "-g", "-pthread"]),
                _ => with_arguments("gcc", &["-O2", "-g", "-pthread"]),
            };
            compile(compiler.arg(&from).arg("-o").arg(&to))?;
            Ok(to)
        })
    }

    /// The launcher.
    pub fn launcher(&self, linked: Linked) -> Result<PathBuf> {
        let (name, flag) = match linked {
            Linked::Statically => ("launcher-static", "-static"),
            Linked::Dynamically => ("launcher-dynamic", "-O2"),
        };
        self.once(name, |workshop| {
            let to = workshop.path(name);
            let mut compiler = with_arguments("gcc", &["-O2", flag]);
            compile(
                compiler
                    .arg(source_folder().join("launcher.c"))
                    .arg("-o")
                    .arg(&to),
            )?;
            Ok(to)
        })
    }

    /// Generates a JSON document of about `bytes` bytes: a list of objects.
    pub fn json(&self, bytes: usize) -> Result<PathBuf> {
        self.once("data.json", |workshop| {
            let to = workshop.path("data.json");
            let mut file = BufWriter::new(std::fs::File::create(&to)?);
            let (mut written, mut number) = (0, 0_u64);
            file.write_all(b"[\n")?;
            while written < bytes {
                let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                let object = format!(
                    "{}{{\"id\":{number},\"kind\":\"kind {}\",\"value\":{},\"tags\":[\"a{}\",\"b\"],\
                     \"place\":{{\"x\":{},\"y\":null}}}}",
                    if number == 0 { "" } else { ",\n" },
                    scattered % 40,
                    scattered as f64 / 64.0,
                    scattered % 7,
                    scattered % 1000,
                );
                written += object.len();
                number += 1;
                file.write_all(object.as_bytes())?;
            }
            file.write_all(b"\n]\n")?;
            file.flush()?;
            Ok(to)
        })
    }

    /// The path of a source or input in `bench/programs`.
    pub fn source(&self, name: &str) -> PathBuf {
        source_folder().join("programs").join(name)
    }

    fn once(
        &self,
        name: &'static str,
        make: impl FnOnce(&Self) -> Result<PathBuf>,
    ) -> Result<PathBuf> {
        if let Some(path) = self.made.borrow().get(name) {
            return Ok(path.clone());
        }
        let path = make(self)?;
        self.made.borrow_mut().insert(name, path.clone());
        Ok(path)
    }
}

/// The folder `bench` of the repository.
pub fn source_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    source_folder().parent().unwrap_or(Path::new("/"))
}

/// The executable file with this name in the directories of `PATH`.
pub fn installed(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("{name} is not installed"))
}

/// The Python interpreter itself: `python3` in `PATH` may be a script that selects one.
pub fn python() -> Result<PathBuf> {
    let output = Command::new(installed("python3")?)
        .args([
            "-c",
            "import os, sys; print(os.path.realpath(sys.executable))",
        ])
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "python3 does not run");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn with_arguments(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn compile(compiler: &mut Command) -> Result<()> {
    let output = compiler
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {:?}", compiler.get_program()))?;
    ensure!(
        output.status.success(),
        "{compiler:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
