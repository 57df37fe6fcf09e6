//! Lines of source code. Files are read from the paths of the debug information,
//! or from other folders that the user names. Files that are missing, not those that
//! were compiled, or no source code are collected for one warning each.
//!
//! A recording may be from a stranger: what it names is read only if it is a regular file that
//! some file system stores, and none by which the kernel shows secrets (`/proc/self/environ`).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use allotrope_files::open_stored;
use allotrope_profile::{Frame, Profile};
use rustc_hash::FxHashMap;

use crate::numbers::count;
use crate::shorten::clean;

/// Larger files are not read: they are not source code.
const MAX_BYTES: u64 = 16 << 20;
/// The most bytes of all files together.
const MAX_BYTES_IN_ALL: u64 = 512 << 20;
/// The most characters of a line.
const MAX_COLUMNS: usize = 400;

/// The source files that were read, and where to find others.
#[derive(Debug, Default)]
pub struct SourceLines {
    /// Path prefixes and the folders that replace them, longest prefix first.
    moved: Vec<(PathBuf, PathBuf)>,
    /// When the program ran: a file modified later may differ.
    recorded: Option<SystemTime>,
    /// By path: the file as it was compiled.
    compiled: FxHashMap<Arc<str>, Compiled>,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    files: FxHashMap<String, Option<String>>,
    bytes: u64,
    missing: BTreeSet<String>,
    newer: BTreeSet<String>,
    refused: BTreeSet<String>,
    changed: BTreeSet<String>,
}

/// What is known of a source file as it was compiled.
#[derive(Debug, Default, Clone, Copy)]
struct Compiled {
    /// MD5 sum of the file. Several modules may have been compiled from it; then that of one.
    md5: Option<[u8; 16]>,
    /// When the first module with code of it was linked: a file modified later may differ.
    linked: Option<SystemTime>,
}

impl SourceLines {
    /// `moved`: pairs of a path prefix and the folder that replaces it; the
    /// longest matching prefix counts. `recorded`: when the program ran.
    pub fn new(mut moved: Vec<(PathBuf, PathBuf)>, recorded: Option<SystemTime>) -> Self {
        moved.sort_by_key(|(from, _)| std::cmp::Reverse(from.as_os_str().len()));
        Self {
            moved,
            recorded,
            compiled: FxHashMap::default(),
            state: RefCell::default(),
        }
    }

    /// Compares the files with those that the profile's modules were compiled from, as far as
    /// the recording says: by their MD5 sums or, without one, by when the module was linked.
    #[must_use]
    pub fn compared_with_build(mut self, profile: &Profile) -> Self {
        for frame in profile.frames.iter().filter(|it| !it.file.is_empty()) {
            let Some(module) = profile.modules.get(frame.module as usize) else {
                continue;
            };
            if module.modified_ns == 0 {
                continue;
            }
            let linked =
                SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(module.modified_ns));
            let compiled = self.compiled.entry(frame.file.clone()).or_default();
            compiled.linked = match (compiled.linked, linked) {
                (Some(known), Some(new)) => Some(known.min(new)),
                (known, new) => known.or(new),
            };
        }
        for (file, md5) in profile.modules.iter().flat_map(|it| &it.sources) {
            self.compiled.entry((&**file).into()).or_default().md5 = Some(*md5);
        }
        self
    }

    /// The frame's line of code, trimmed; `None` if the file or the line is
    /// missing.
    pub fn line(&self, frame: &Frame) -> Option<String> {
        if frame.file.is_empty() || frame.line == 0 {
            return None;
        }
        self.with_text(&frame.file, |text| {
            let line = text.lines().nth(frame.line as usize - 1)?.trim();
            let line: String = line.chars().take(MAX_COLUMNS).collect();
            // Replaces tabs and escapes control characters.
            let line = clean(&line.replace('\t', " "));
            (!line.is_empty()).then_some(line)
        })?
    }

    /// The lines of a file with these numbers, in their order, with their indentation: to show a
    /// line among those around it. Control characters are escaped. Lines that the file does not
    /// have are left out.
    pub fn lines(&self, file: &str, numbers: &BTreeSet<u32>) -> Vec<(u32, String)> {
        let Some(&last) = numbers.last() else {
            return Vec::new();
        };
        let lines = self.with_text(file, |text| {
            let lines = (1..=last).zip(text.lines());
            let wanted = lines.filter(|(number, _)| numbers.contains(number));
            let wanted = wanted.map(|(number, line)| {
                let line: String = line.chars().take(MAX_COLUMNS).collect();
                (number, clean(expand_tabs(&line).trim_end()))
            });
            wanted.collect()
        });
        lines.unwrap_or_default()
    }

    /// Calls `use_text` with the text of a file, if it can be read; the file is read once.
    fn with_text<T>(&self, file: &str, use_text: impl FnOnce(&str) -> T) -> Option<T> {
        let mut state = self.state.borrow_mut();
        if !state.files.contains_key(file) {
            let text = self.read(file, &mut state);
            state.files.insert(file.to_owned(), text);
        }
        state.files.get(file)?.as_deref().map(use_text)
    }

    fn read(&self, file: &str, state: &mut State) -> Option<String> {
        match self.text(file, state) {
            Ok(text) => Some(text),
            Err(error) => {
                let reason = match error.kind() {
                    ErrorKind::InvalidInput | ErrorKind::FileTooLarge => &mut state.refused,
                    _ => &mut state.missing,
                };
                reason.insert(file.to_owned());
                None
            }
        }
    }

    fn text(&self, file: &str, state: &mut State) -> io::Result<String> {
        let path = self.current_path(Path::new(file));
        let opened = open_stored(&path)?;
        let metadata = opened.metadata()?;
        let room = MAX_BYTES.min(MAX_BYTES_IN_ALL - state.bytes);
        if metadata.len() > room {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        opened.take(room).read_to_end(&mut bytes)?;
        state.bytes += bytes.len() as u64;
        let compiled = self.compiled.get(file).copied().unwrap_or_default();
        match compiled.md5 {
            Some(md5) if *md5::compute(&bytes) != md5 => {
                state.changed.insert(file.to_owned());
            }
            Some(_) => {}
            None => {
                let built = compiled.linked.or(self.recorded);
                if built.is_some() && metadata.modified().ok() > built {
                    state.newer.insert(file.to_owned());
                }
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn current_path(&self, file: &Path) -> PathBuf {
        let moved = self.moved.iter();
        let mut moved = moved.filter_map(|(from, to)| Some(to.join(file.strip_prefix(from).ok()?)));
        moved.next().unwrap_or_else(|| file.to_owned())
    }

    /// Sentences about the files that are missing, not those that were compiled, or no source code.
    pub fn warnings(&self) -> Vec<String> {
        let state = self.state.borrow();
        let files = |files: &BTreeSet<String>| {
            let first = files.first().map(|file| clean(file))?;
            Some(match files.len() {
                1 => first,
                many => format!("{} files, such as {first}", count(many as u64)),
            })
        };
        let mut warnings = Vec::new();
        if let Some(files) = files(&state.missing) {
            warnings.push(format!(
                "The source of {files} was not found; --source-path PREFIX=DIR names its folder."
            ));
        }
        if let Some(files) = files(&state.newer) {
            warnings.push(format!(
                "Written after {}, so that lines may differ: {files}.",
                match self.compiled.is_empty() {
                    true => "the recording",
                    false => "the program was built",
                }
            ));
        }
        if let Some(files) = files(&state.changed) {
            warnings.push(format!(
                "Not the source that was compiled, so that lines may differ: {files}."
            ));
        }
        if let Some(files) = files(&state.refused) {
            warnings.push(format!(
                "Not read, because it is no regular file, one of the kernel or too large: {files}."
            ));
        }
        warnings
    }
}

/// Replaces tabs by spaces up to the next column that is a multiple of 8.
fn expand_tabs(line: &str) -> String {
    let mut expanded = String::new();
    let mut column = 0;
    for character in line.chars() {
        let width = match character {
            '\t' => 8 - column % 8,
            _ => 1,
        };
        column += width;
        match character {
            '\t' => expanded.extend(std::iter::repeat_n(' ', width)),
            _ => expanded.push(character),
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::time::Duration;

    use super::*;

    fn frame(file: &Path, line: u32) -> Frame {
        Frame {
            file: file.to_string_lossy().into(),
            line,
            ..Frame::default()
        }
    }

    #[test]
    fn lines_are_read_from_the_file_or_its_new_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/a.c");
        fs::create_dir(folder.path().join("new")).unwrap();
        fs::write(&path, "int a;\n\n\tint \x1b[31mb;  \nlast").unwrap();
        let here = SourceLines::default();
        let line = |lines: &SourceLines, path: &Path, number| lines.line(&frame(path, number));
        assert_eq!(line(&here, &path, 1).as_deref(), Some("int a;"));
        assert_eq!(line(&here, &path, 2), None, "empty");
        assert!(!line(&here, &path, 3).unwrap().contains('\x1b'));
        assert_eq!(line(&here, &path, 4).as_deref(), Some("last"));
        assert_eq!(line(&here, &path, 5), None);
        assert_eq!(line(&here, &path, 0), None);
        assert_eq!(here.warnings(), Vec::<String>::new());

        let built = Path::new("/build/src/a.c");
        assert_eq!(line(&here, built, 1), None);
        assert_eq!(line(&here, built, 2), None);
        assert_eq!(here.warnings().len(), 1, "one warning for both lines");
        assert!(here.warnings()[0].contains("/build/src/a.c"));
        let moved = vec![
            (PathBuf::from("/build"), folder.path().join("elsewhere")),
            (PathBuf::from("/build/src"), folder.path().join("new")),
        ];
        let moved = SourceLines::new(moved, None);
        assert_eq!(line(&moved, built, 1).as_deref(), Some("int a;"));
        assert_eq!(line(&moved, Path::new("/building/a.c"), 1), None);
    }

    #[test]
    fn several_lines_keep_their_indentation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        fs::write(&path, "{\n\tint a;\n  \tint\x1b b;  \r\n}\n").unwrap();
        let file = path.to_string_lossy();
        let source = SourceLines::default();
        let of = |numbers: &[u32]| source.lines(&file, &numbers.iter().copied().collect());
        let found = of(&[1, 2, 4, 5, 9]);
        let expected = [(1, "{"), (2, "        int a;"), (4, "}")];
        assert_eq!(
            found,
            expected.map(|(number, line)| (number, line.to_owned()))
        );
        let hostile = of(&[3]);
        assert!(hostile[0].1.starts_with("        int"), "{hostile:?}");
        assert!(!hostile[0].1.contains(['\x1b', '\r', '\t']), "{hostile:?}");
        assert!(of(&[]).is_empty());
        let none: BTreeSet<u32> = [1].into();
        assert!(source.lines("/none.c", &none).is_empty());
        assert_eq!(source.warnings().len(), 1);
    }

    /// A recording may name a file with secrets of the process, a device or a pipe.
    #[test]
    fn what_is_no_stored_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("a.c");
        std::os::unix::fs::symlink("/proc/self/environ", &link).unwrap();
        let pipe = folder.path().join("pipe.c");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        for path in [
            &link,
            &pipe,
            Path::new("/proc/self/environ"),
            Path::new("/sys/kernel/uevent_seqnum"),
            Path::new("/dev/zero"),
        ] {
            if !path.exists() {
                println!("skipped: this kernel has no {}", path.display());
                continue;
            }
            let lines = SourceLines::default();
            assert_eq!(lines.line(&frame(path, 1)), None, "{path:?}");
            let first: BTreeSet<u32> = [1].into();
            assert_eq!(lines.lines(path.to_str().unwrap(), &first), []);
            let warnings = lines.warnings();
            assert!(warnings[0].starts_with("Not read, because"), "{warnings:?}");
        }
    }

    #[test]
    fn there_is_a_warning_for_a_file_newer_than_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        fs::write(&path, "int a;").unwrap();
        let before = SystemTime::now() - Duration::from_secs(60);
        let lines = SourceLines::new(Vec::new(), Some(before));
        assert!(lines.line(&frame(&path, 1)).is_some());
        assert!(lines.warnings()[0].contains("Written after"));
    }
}
