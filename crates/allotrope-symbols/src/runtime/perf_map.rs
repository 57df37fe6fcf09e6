//! `/tmp/perf-PID.map`: lines of start, size (both hexadecimal) and name
//! (Linux, tools/perf/Documentation/jit-interface.txt). Written by Node with
//! `--perf-basic-prof`, .NET with `DOTNET_PerfMapEnabled`, Java with an agent
//! or `jcmd PID Compiler.perfmap`, Python with `-X perf`.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{MAX_NAME, MAX_PIECES, RuntimeCode};

/// Longer lines are no lines of a map.
const MAX_LINE: usize = MAX_NAME + 64;

/// The map of one process, as far as it was read.
#[derive(Debug)]
pub struct PerfMap {
    path: PathBuf,
    open: Option<Open>,
    /// By start; none overlaps another.
    pieces: BTreeMap<u64, (u64, Arc<str>)>,
}

#[derive(Debug)]
struct Open {
    file: File,
    identity: (u64, u64),
    read: u64,
    /// The beginning of a line whose end was not there yet.
    rest: Vec<u8>,
    /// What follows up to the next end of a line is part of one too long.
    skipping: bool,
}

impl PerfMap {
    /// The map of a process that runs now, seen through its own root folder
    /// and under the id that it has in its own namespace. Nothing is read yet.
    pub fn of_process(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own_id = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:"))
            .and_then(|ids| ids.split_ascii_whitespace().last())
            .and_then(|id| id.parse().ok())
            .unwrap_or(pid);
        Self::at(format!("/proc/{pid}/root/tmp/perf-{own_id}.map"))
    }

    /// The map at this path, which need not be there yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            open: None,
            pieces: BTreeMap::new(),
        }
    }

    /// Reads what was added since the last time; all of it if the file is
    /// another one or has become shorter. That there is no map is no error.
    ///
    /// # Errors
    /// Where a map that is there cannot be read; what was read before stays.
    pub fn refresh(&mut self) -> io::Result<()> {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) if metadata.is_file() => metadata,
            // The process may be gone, and its /proc folder with it.
            _ => return self.read_on(),
        };
        let is_same =
            |open: &Open| open.identity == identity(&metadata) && open.read <= metadata.len();
        if !self.open.as_ref().is_some_and(is_same) {
            self.open = Some(Open {
                file: File::open(&self.path)?,
                identity: identity(&metadata),
                read: 0,
                rest: Vec::new(),
                skipping: false,
            });
            self.pieces.clear();
        }
        self.read_on()
    }

    /// Reads the open file to its end.
    fn read_on(&mut self) -> io::Result<()> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let mut buffer = vec![0; 64 << 10];
        let result = loop {
            match open.file.read_at(&mut buffer, open.read) {
                Ok(0) => break Ok(()),
                Ok(count) => {
                    open.read += count as u64;
                    self.take_bytes(&mut open, &buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.open = Some(open);
        result
    }

    fn take_bytes(&mut self, open: &mut Open, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_end = part.ends_with(b"\n");
            if !open.skipping {
                open.rest.extend_from_slice(part);
            }
            if open.rest.len() > MAX_LINE {
                open.skipping = true;
                open.rest.clear();
            }
            if is_end {
                if !open.skipping {
                    self.take_line(&open.rest);
                }
                open.rest.clear();
                open.skipping = false;
            }
        }
    }

    fn take_line(&mut self, line: &[u8]) {
        let Some((start, end, name)) = parse_line(line) else {
            return;
        };
        // New code stands where old code was.
        let before = self.pieces.range(..start).next_back();
        let reaching = before.filter(|(_, (end, _))| *end > start).map(|it| *it.0);
        let covered: Vec<u64> = self.pieces.range(start..end).map(|it| *it.0).collect();
        for old in covered.into_iter().chain(reaching) {
            self.pieces.remove(&old);
        }
        if self.pieces.len() < MAX_PIECES {
            self.pieces.insert(start, (end, name));
        }
    }

    /// The code that holds `address` now.
    pub fn code(&self, address: u64) -> Option<RuntimeCode> {
        let (start, (end, name)) = self.pieces.range(..=address).next_back()?;
        (address < *end).then(|| RuntimeCode {
            start: *start,
            end: *end,
            name: name.clone(),
            file: Arc::default(),
            line: 0,
        })
    }

    /// Where the map is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn parse_line(line: &[u8]) -> Option<(u64, u64, Arc<str>)> {
    let text = String::from_utf8_lossy(line);
    let mut words = text.trim_end_matches(['\n', '\r']).splitn(3, ' ');
    let mut number = || {
        let word = words.next()?;
        u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim();
    let end = start.checked_add(size).filter(|end| *end > start)?;
    (!name.is_empty()).then(|| (start, end, name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn name(map: &PerfMap, address: u64) -> Option<String> {
        map.code(address).map(|code| code.name.to_string())
    }

    #[test]
    fn what_is_added_is_read_and_covers_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        let mut map = PerfMap::at(&path);
        map.refresh().unwrap();
        assert_eq!(name(&map, 0x1000), None, "there is no file yet");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"1000 10 first\n0x1010 0x20 with blanks (in it)\nnonsense\n1040 10 ha")
            .unwrap();
        map.refresh().unwrap();
        assert_eq!(name(&map, 0x100f).as_deref(), Some("first"));
        assert_eq!(name(&map, 0x102f).as_deref(), Some("with blanks (in it)"));
        assert_eq!(name(&map, 0x1030), None);
        assert_eq!(name(&map, 0x1040), None, "its line is not whole yet");
        file.write_all(b"lf\n1008 10 over both\n2000 0 empty\n")
            .unwrap();
        map.refresh().unwrap();
        assert_eq!(name(&map, 0x1040).as_deref(), Some("half"));
        assert_eq!(name(&map, 0x1008).as_deref(), Some("over both"));
        assert_eq!(name(&map, 0x1000), None);
        assert_eq!(name(&map, 0x1020), None);
        assert_eq!(name(&map, 0x2000), None);
    }

    #[test]
    fn a_map_that_is_written_anew_is_read_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        fs::write(&path, "1000 10 old\n3000 10 dropped\n").unwrap();
        let mut map = PerfMap::at(&path);
        map.refresh().unwrap();
        let other = folder.path().join("other");
        fs::write(
            &other,
            "1000 10 new, and longer than before was\n2000 10 more\n",
        )
        .unwrap();
        fs::rename(&other, &path).unwrap();
        map.refresh().unwrap();
        assert!(name(&map, 0x1000).unwrap().starts_with("new"));
        assert_eq!(name(&map, 0x3000), None);
        fs::remove_file(&path).unwrap();
        map.refresh().unwrap();
        assert!(name(&map, 0x1000).is_some(), "what was read stays");
    }

    #[test]
    fn lines_without_end_do_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        let mut bytes = b"1000 10 ".to_vec();
        bytes.resize(1 << 20, b'x');
        bytes.extend(b"\nffffffffffffffff 10 over the end\n2000 10 after\n\xff\xfe\n");
        fs::write(&path, bytes).unwrap();
        let mut map = PerfMap::at(&path);
        map.refresh().unwrap();
        assert_eq!(name(&map, 0x1000), None);
        assert_eq!(name(&map, 0x2000).as_deref(), Some("after"));
        assert_eq!(map.pieces.len(), 1);
    }
}
