//! The trace's place. Its default name holds the program's process id, which
//! is not known before the program runs, and the collector must be ready by
//! then. So the file begins as `.allotrope-PID.partial` (PID: of `allotrope
//! record`) in the folder where it will lie, and gets its name as soon as the
//! program has started: long before anything can happen to the recording, and
//! not before it is certain that there is one. What fails earlier leaves
//! nothing behind and destroys no earlier trace.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Where the trace is, and where it will be.
#[derive(Debug)]
pub struct OutputFile {
    folder: PathBuf,
    /// The name that the user gave.
    given: Option<PathBuf>,
    partial: PathBuf,
    published: Option<PathBuf>,
}

impl OutputFile {
    /// Makes the file, empty.
    pub fn create(given: Option<&Path>) -> Result<Self> {
        let given = given.map(resolve).transpose()?;
        let folder = match given.as_deref().map(Path::parent) {
            Some(Some(parent)) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let folder = fs::canonicalize(&folder)
            .with_context(|| format!("cannot write the trace into {}", folder.display()))?;
        let partial = folder.join(format!(".allotrope-{}.partial", std::process::id()));
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&partial)
            .with_context(|| {
                format!(
                    "cannot write the trace into {}; name another file by -o",
                    folder.display()
                )
            })?;
        Ok(Self {
            folder,
            given,
            partial,
            published: None,
        })
    }

    /// Where the collector is to write.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Gives the file its name, now that the program runs.
    pub fn publish(&mut self, program: &OsStr, pid: u32) -> Result<()> {
        let path = match &self.given {
            Some(path) => path.clone(),
            None => {
                let mut name = program.to_owned();
                name.push(format!(".{pid}.allotrope"));
                PathBuf::from(name)
            }
        };
        let place = match path.file_name() {
            Some(name) => self.folder.join(name),
            None => path.clone(),
        };
        fs::rename(&self.partial, &place).with_context(|| {
            format!(
                "cannot name the trace {}; it is {}",
                path.display(),
                self.partial.display()
            )
        })?;
        self.published = Some(path);
        Ok(())
    }

    /// The file as the user would name it.
    pub fn path(&self) -> &Path {
        self.published.as_deref().unwrap_or(&self.partial)
    }

    /// Takes a file away in which nothing was recorded.
    pub fn remove(&mut self) {
        let _ = fs::remove_file(self.path());
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.published.is_none() {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// The file that is meant: a link's target, for the link is to stay one.
fn resolve(given: &Path) -> Result<PathBuf> {
    let Ok(metadata) = fs::metadata(given) else {
        if given.file_name().is_none() {
            bail!("{} names no file; name one by -o", given.display());
        }
        return Ok(given.to_owned());
    };
    if metadata.is_dir() {
        bail!(
            "the trace cannot be written to {}, which is a folder; name a file in it by -o",
            given.display()
        );
    }
    if !metadata.is_file() {
        bail!(
            "the trace cannot be written to {}, which is no regular file",
            given.display()
        );
    }
    if fs::symlink_metadata(given).is_ok_and(|link| link.is_symlink()) {
        return fs::canonicalize(given)
            .with_context(|| format!("cannot follow the link {}", given.display()));
    }
    Ok(given.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_earlier_trace_is_replaced_only_when_the_program_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        fs::write(&path, "earlier").unwrap();
        drop(OutputFile::create(Some(&path)).unwrap());
        assert_eq!(names(folder.path()), ["trace"]);
        assert_eq!(fs::read(&path).unwrap(), b"earlier");

        let mut output = OutputFile::create(Some(&path)).unwrap();
        fs::write(output.partial(), "later").unwrap();
        output.publish(OsStr::new("program"), 7).unwrap();
        assert_eq!(output.path(), path);
        drop(output);
        assert_eq!(names(folder.path()), ["trace"]);
        assert_eq!(fs::read(&path).unwrap(), b"later");
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (link, path) = (folder.path().join("link"), folder.path().join("real"));
        fs::write(&path, "").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let mut output = OutputFile::create(Some(&link)).unwrap();
        fs::write(output.partial(), "trace").unwrap();
        output.publish(OsStr::new("program"), 7).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"trace");
    }

    #[test]
    fn devices_folders_and_missing_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |path: &Path| OutputFile::create(Some(path)).unwrap_err().to_string();
        assert!(refusal(Path::new("/dev/null")).contains("no regular file"));
        assert!(refusal(folder.path()).contains("is a folder"));
        assert!(refusal(&folder.path().join("missing/trace")).contains("missing"));
        assert!(names(folder.path()).is_empty());
    }
}
