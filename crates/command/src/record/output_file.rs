//! Creates the trace file and names it. The default name contains the
//! program's process id, which is unknown until the program runs, and the
//! collector must be ready before that. So the file begins under a random hidden
//! name (`.allotrope-….partial`) in its final folder and is renamed as soon as
//! the program has started. A failure before that leaves no file behind and
//! replaces no earlier trace.
//!
//! Until the trace is complete only its owner can read it. A file that is no
//! trace is replaced only with `--force`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use allotrope_collector::protocol::MadeFile;
use allotrope_files::NewFile;
use allotrope_formats::Limits;
use allotrope_reading::Recording;
use allotrope_text::shown_path;
use allotrope_trace::TraceReader;
use anyhow::{Context, Result};

use crate::exit_status::{Failure, RECORD_FAILED, WithStatus};
use crate::progress::{Progress, reader};
use crate::replacing::replaceable;

/// The trace file, with its hidden and its final name.
#[derive(Debug)]
pub struct OutputFile {
    folder: PathBuf,
    /// The name that the user gave.
    given: Option<PathBuf>,
    /// The hidden name.
    partial: PathBuf,
    /// The file, until it is renamed.
    file: Option<NewFile>,
    /// The path that the user is shown, once the file was renamed (or could not be).
    published: Option<PathBuf>,
    /// Replace any regular file, not only a trace.
    force: bool,
    /// The open file, if it is a temporary one, which has no name once the program runs.
    temporary: Option<File>,
}

impl OutputFile {
    /// Creates the file, empty.
    pub fn create(given: Option<&Path>, force: bool) -> Result<Self> {
        let target = given.map(|given| replaceable(given, force)).transpose()?;
        let given = target.as_ref().map(|target| target.path().to_owned());
        let folder = match given.as_deref().map(Path::parent) {
            Some(Some(parent)) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let folder = fs::canonicalize(&folder)
            .with_context(|| format!("cannot write the trace into {}", shown_path(&folder)))?;
        let file = NewFile::in_folder(&folder).with_context(|| {
            format!(
                "cannot write the trace into {}; name another file by -o",
                shown_path(&folder)
            )
        })?;
        let file = match &target {
            Some(target) => file.for_target(target),
            None => file,
        };
        Ok(Self {
            folder,
            given,
            partial: file.path().to_owned(),
            file: Some(file),
            published: None,
            force,
            temporary: None,
        })
    }

    /// Creates a file that has no name as soon as the program runs, and is gone when it is
    /// closed.
    pub fn temporary() -> Result<Self> {
        let folder = std::env::temp_dir();
        let failed = || {
            format!(
                "cannot write a temporary trace into {}; name a file by -o, or a folder by TMPDIR",
                shown_path(&folder)
            )
        };
        let folder = fs::canonicalize(&folder).with_context(failed)?;
        let file = NewFile::in_folder(&folder).with_context(failed)?;
        let temporary = file.file().try_clone().with_context(failed)?;
        Ok(Self {
            given: None,
            partial: file.path().to_owned(),
            file: Some(file),
            published: None,
            force: false,
            temporary: Some(temporary),
            folder,
        })
    }

    /// Whether it is a temporary file.
    pub fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// Opens the complete trace.
    pub fn read(&self) -> Result<Recording, Failure> {
        let Some(file) = &self.temporary else {
            return Ok(reader(Limits::default()).open(self.path())?);
        };
        let file = file.try_clone().context("cannot read the trace");
        let read = file.and_then(|file| TraceReader::new(file).context("cannot read the trace"));
        let trace = read.status(RECORD_FAILED)?;
        let observer = Arc::new(Progress::new(false));
        Ok(Recording::new(Path::new("the recording"), trace, observer))
    }

    /// The path to which the collector writes.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// The file's identity: the collector writes into no other file of that name.
    pub fn made(&self) -> Result<Option<MadeFile>> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let id = file.id().context("cannot examine the trace file")?;
        Ok(Some(MadeFile {
            device: id.device,
            inode: id.inode,
            mode: file.mode(),
        }))
    }

    /// Renames the file to its final name, now that the program runs as `pid`. If that
    /// fails the file keeps its hidden name and the recording continues.
    pub fn publish(&mut self, program: &OsStr, pid: u32) -> Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        if self.temporary.is_some() {
            // The collector has the file open. Dropping this deletes its name.
            return Ok(());
        }
        let path = match &self.given {
            Some(path) => path.clone(),
            None => {
                let mut name = program.to_owned();
                name.push(format!(".{pid}.allotrope"));
                PathBuf::from(name)
            }
        };
        let target = match path.file_name() {
            Some(name) => self.folder.join(name),
            None => path.clone(),
        };
        // Another file may have appeared there since the recording began.
        let named = match replaceable(&target, self.force) {
            Ok(_) => file
                .name(&target)
                .map(drop)
                .map_err(|(error, file)| (anyhow::Error::new(error), file)),
            Err(error) => Err((error, file)),
        };
        let Err((error, file)) = named else {
            self.published = Some(path);
            return Ok(());
        };
        // The recording continues: dropping `file` must not delete it.
        file.keep().context("cannot keep the trace")?;
        self.published = Some(self.partial.clone());
        Err(error.context(format!(
            "cannot name the trace {}; it is {}",
            shown_path(&path),
            shown_path(&self.partial)
        )))
    }

    /// The file as the user would name it.
    pub fn path(&self) -> &Path {
        self.published.as_deref().unwrap_or(&self.partial)
    }

    /// Deletes a file in which nothing was recorded.
    pub fn remove(&mut self) {
        let _ = fs::remove_file(self.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    const EARLIER: &[u8] = b"ALLOTROP, an earlier one";

    #[test]
    fn an_earlier_trace_is_replaced_only_when_the_program_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        fs::write(&path, EARLIER).unwrap();
        drop(OutputFile::create(Some(&path), false).unwrap());
        assert_eq!(names(folder.path()), ["trace"]);
        assert_eq!(fs::read(&path).unwrap(), EARLIER);

        let mut output = OutputFile::create(Some(&path), false).unwrap();
        assert_eq!(
            fs::metadata(output.partial()).unwrap().mode() & 0o777,
            0o600
        );
        fs::write(output.partial(), "later").unwrap();
        output.publish(OsStr::new("program"), 7).unwrap();
        assert_eq!(output.path(), path);
        drop(output);
        assert_eq!(names(folder.path()), ["trace"]);
        assert_eq!(fs::read(&path).unwrap(), b"later");
    }

    #[test]
    fn what_is_no_trace_is_replaced_by_force_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious.c");
        fs::write(&path, "int main(void) {}").unwrap();
        let error = OutputFile::create(Some(&path), false).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        assert_eq!(names(folder.path()), ["precious.c"]);
        assert!(OutputFile::create(Some(&path), true).is_ok());

        // It may also appear while the recording is being started.
        fs::remove_file(&path).unwrap();
        let mut output = OutputFile::create(Some(&path), false).unwrap();
        fs::write(&path, "int main(void) {}").unwrap();
        let error = output.publish(OsStr::new("program"), 7).unwrap_err();
        assert!(format!("{error:#}").contains("--force"), "{error:#}");
        assert_eq!(output.path(), output.partial());
        drop(output);
        assert_eq!(names(folder.path()).len(), 2, "both are there");
        assert_eq!(fs::read(&path).unwrap(), b"int main(void) {}");
    }

    #[test]
    fn an_empty_file_is_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(OutputFile::create(Some(file.path()), false).is_ok());
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (link, path) = (folder.path().join("link"), folder.path().join("real"));
        fs::write(&path, "").unwrap();
        symlink("real", &link).unwrap();
        let mut output = OutputFile::create(Some(&link), false).unwrap();
        fs::write(output.partial(), "trace").unwrap();
        output.publish(OsStr::new("program"), 7).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"trace");
    }

    #[test]
    fn devices_folders_and_missing_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |path: &Path| {
            let error = OutputFile::create(Some(path), false).unwrap_err();
            format!("{error:#}")
        };
        assert!(refusal(Path::new("/dev/null")).contains("no regular file"));
        assert!(refusal(folder.path()).contains("is a folder"));
        assert!(refusal(&folder.path().join("missing/trace")).contains("missing"));
        assert!(names(folder.path()).is_empty());
    }
}
