//! The folder of budgets while it is open: its files are read, written and removed without
//! following a link of the repository.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use allotrope_files::Folder;

use super::BudgetError;

/// Larger files are no budgets, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Recognises the text of a kind of file of ours.
pub(super) type IsOurs = fn(&str) -> bool;

/// An open folder of budgets.
#[derive(Debug)]
pub(super) struct OpenFolder {
    folder: Folder,
    /// Path of the folder in messages: as it was named, unless that leads through a link.
    path: PathBuf,
}

impl OpenFolder {
    /// `named`: the path by which messages name it, if it is its real path.
    pub(super) fn new(folder: Folder, named: &Path) -> Self {
        let is_real = std::path::absolute(named).is_ok_and(|it| it == folder.path());
        let path = match is_real {
            true => named.to_owned(),
            false => folder.path().to_owned(),
        };
        Self { folder, path }
    }

    /// The path of a file of it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names in it, as far as they are UTF-8: ours are.
    pub(super) fn names(&self) -> Result<Vec<String>, BudgetError> {
        let names = self.folder.names().map_err(cannot("read", &self.path))?;
        let names = names.into_iter();
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
    }

    /// A folder in it; `None` if there is none.
    pub(super) fn subfolder(&self, name: &str) -> Result<Option<Self>, BudgetError> {
        let found = self.folder.folder(Path::new(name));
        let found = found.map_err(cannot("read", &self.file(name)))?;
        Ok(found.map(|folder| Self {
            folder,
            path: self.file(name),
        }))
    }

    /// Opens a folder in it; it is created if there is none.
    pub(super) fn created_subfolder(&self, name: &str) -> Result<Self, BudgetError> {
        let created = self.folder.create_folder(Path::new(name));
        Ok(Self {
            folder: created.map_err(cannot("write", &self.file(name)))?,
            path: self.file(name),
        })
    }

    /// Whether something has this name, whatever it is.
    pub(super) fn has(&self, name: &str) -> Result<bool, BudgetError> {
        let has = self.folder.has(OsStr::new(name));
        has.map_err(cannot("read", &self.file(name)))
    }

    /// The text of a file; `None` if it does not exist.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, BudgetError> {
        let text = self.text(name);
        text.map_err(cannot("read", &self.file(name)))
    }

    fn text(&self, name: &str) -> io::Result<Option<String>> {
        let Some(bytes) = self.folder.read(OsStr::new(name), MAX_BYTES)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes);
        let no_text = |_| io::Error::new(ErrorKind::InvalidData, "it is no UTF-8");
        text.map(Some).map_err(no_text)
    }

    /// Fails if a file of this name cannot be written because of what has the name.
    pub(super) fn check_writable(&self, name: &str) -> Result<(), BudgetError> {
        let there = self.folder.has_file(OsStr::new(name));
        there.map_err(cannot("write", &self.file(name))).map(drop)
    }

    /// Writes a file, unless it has that text already. Returns the path if it changed.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<Option<PathBuf>, BudgetError> {
        if matches!(self.text(name), Ok(Some(before)) if before == text) {
            return Ok(None);
        }
        let written = self.folder.replace(OsStr::new(name), text.as_bytes());
        written.map_err(cannot("write", &self.file(name)))?;
        Ok(Some(self.file(name)))
    }

    /// Removes a file of ours.
    pub(super) fn remove(&self, name: &str) -> Result<(), BudgetError> {
        let removed = self.folder.remove_file(OsStr::new(name));
        removed.map_err(cannot("remove", &self.file(name)))
    }

    /// Why a file is none of ours, as its text says; `None` if it is.
    pub(super) fn why_not_ours(&self, name: &str, is_ours: IsOurs) -> Option<String> {
        match self.text(name) {
            Ok(Some(text)) if is_ours(&text) => None,
            Ok(_) => Some("it is no budget".to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }
}

pub(super) fn cannot(
    verb: &'static str,
    file: &Path,
) -> impl FnOnce(io::Error) -> BudgetError + use<> {
    let file = file.to_owned();
    move |source| match source.kind() {
        ErrorKind::InvalidInput => BudgetError::InTheWay {
            verb,
            file,
            why: source,
        },
        _ => BudgetError::Io { verb, file, source },
    }
}
