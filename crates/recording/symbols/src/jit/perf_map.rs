//! `/tmp/perf-PID.map`: lines of start, size (both hexadecimal) and name
//! (Linux, tools/perf/Documentation/jit-interface.txt). Written by Node with
//! `--perf-basic-prof`, .NET with `DOTNET_PerfMapEnabled`, Java with an agent
//! or `jcmd PID Compiler.perfmap`, Python with `-X perf`.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::{JitCode, MAX_NAME, MAX_PIECES};

/// Longest line in bytes; a longer one is skipped.
const MAX_LINE: usize = MAX_NAME + 64;
/// Largest number of bytes of names of one map.
const MAX_NAME_BYTES: usize = 256 << 20;
/// Largest number of changed ranges that are reported one by one; more become one range.
const MAX_CHANGES: usize = 1 << 16;
/// `O_NOFOLLOW | O_NONBLOCK` of x86-64 Linux (`asm-generic/fcntl.h`).
const NEITHER_LINK_NOR_FIFO: i32 = 0o400_000 | 0o4_000;
/// `O_PATH | O_DIRECTORY | O_NOFOLLOW`.
const FOLDER_ITSELF: i32 = 0o10_000_000 | 0o200_000 | 0o400_000;

/// The map of one process, with the lines read so far.
#[derive(Debug)]
pub struct PerfMap {
    path: PathBuf,
    open: Option<Open>,
    /// Pieces of code by start: end and name; none overlaps another.
    pieces: BTreeMap<u64, (u64, Arc<str>)>,
    name_bytes: usize,
    /// The process's root folder, and the map's path after that folder is gone.
    after_end: Option<(PathBuf, PathBuf)>,
    /// The folder of the map if the process has another one at this path than we have. It
    /// stays reachable through this descriptor when the process has ended.
    folder: Option<File>,
    /// The user that must own the file, if not root.
    owner: Option<u32>,
    /// A file that was last written before this belongs to an earlier process.
    not_before: Option<SystemTime>,
    changes: Vec<Range<u64>>,
    written: Option<SystemTime>,
}

#[derive(Debug)]
struct Open {
    file: File,
    identity: (u64, u64),
    read: u64,
    /// The beginning of a line whose end was not yet written.
    rest: Vec<u8>,
    /// The rest of the current line is skipped because the line is too long.
    skipping: bool,
}

impl PerfMap {
    /// The map of a running process. Its path is below the process's own root folder and
    /// contains the process's id in its own namespace. Nothing is read yet. If the process
    /// has mounts of its own, as in a container, which end with it, its folder is opened:
    /// call this while it runs.
    pub fn of_process(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = |name: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let words = line.unwrap_or_default().split_ascii_whitespace();
            words.filter_map(|word| word.parse().ok()).collect()
        };
        let own_id = numbers("NSpid:").last().copied().unwrap_or(pid);
        let mut map = Self::at(format!("/proc/{pid}/root/tmp/perf-{own_id}.map"));
        let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let is_elsewhere = space(&pid.to_string()).is_some_and(|it| Some(it) != space("self"));
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let path = if is_elsewhere {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(FOLDER_ITSELF);
            map.folder = options.open(root.join("tmp")).ok();
            let folder = map.folder.as_ref().map(AsRawFd::as_raw_fd);
            folder.map(|folder| format!("/proc/self/fd/{folder}/perf-{own_id}.map"))
        } else {
            Some(format!("/tmp/perf-{pid}.map"))
        };
        map.after_end = path.map(|path| (root, path.into()));
        // Any user may create a file in /tmp: the owner must be the process's
        // effective user.
        let own = || fs::metadata("/proc/self").map(|own| own.uid()).ok();
        map.owner = numbers("Uid:").get(1).copied().or_else(own);
        map
    }

    /// Ignores a map that was not written since `time`: process ids are reused, and
    /// runtimes do not delete their maps.
    pub fn written_since(mut self, time: SystemTime) -> Self {
        self.not_before = Some(time);
        self
    }

    /// The map at this path, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            open: None,
            pieces: BTreeMap::new(),
            name_bytes: 0,
            after_end: None,
            folder: None,
            owner: None,
            not_before: None,
            changes: Vec::new(),
            written: None,
        }
    }

    /// Reads what was added since the last call; all of it if the file was replaced
    /// or has become shorter. A missing map is no error.
    ///
    /// # Errors
    /// Fails if an existing map cannot be read. Lines read before stay.
    pub fn refresh(&mut self) -> io::Result<()> {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) if self.is_its_own(&metadata) => metadata,
            Ok(_) => return self.read_on(),
            // The process may have ended, and its /proc folder with it.
            Err(_) => {
                let is_gone = |(root, _): &mut (PathBuf, PathBuf)| fs::metadata(root).is_err();
                let Some((_, path)) = self.after_end.take_if(is_gone) else {
                    return self.read_on();
                };
                if self.open.is_some() {
                    return self.read_on();
                }
                self.path = path;
                return self.refresh();
            }
        };
        let is_same =
            |open: &Open| open.identity == identity(&metadata) && open.read <= metadata.len();
        if !self.open.as_ref().is_some_and(is_same) {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(NEITHER_LINK_NOR_FIFO);
            let file = options.open(&self.path)?;
            // The path may name another file by now.
            let metadata = file.metadata()?;
            if !self.is_its_own(&metadata) {
                return self.read_on();
            }
            self.open = Some(Open {
                file,
                identity: identity(&metadata),
                read: 0,
                rest: Vec::new(),
                skipping: false,
            });
            self.pieces.clear();
            self.name_bytes = 0;
        }
        self.read_on()
    }

    fn is_its_own(&self, metadata: &Metadata) -> bool {
        let owner = metadata.uid();
        let since = self.not_before;
        metadata.is_file()
            && (owner == 0 || self.owner.is_none_or(|it| it == owner))
            && since.is_none_or(|since| metadata.modified().is_ok_and(|at| at >= since))
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
        if let Ok(metadata) = open.file.metadata() {
            self.written = metadata.modified().ok();
        }
        self.open = Some(open);
        result
    }

    /// The address ranges that got names since the last call, unsorted. Earlier code in
    /// them no longer exists.
    pub fn take_changes(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.changes)
    }

    /// The modification time of the file when it was last read.
    pub fn written(&self) -> Option<SystemTime> {
        self.written
    }

    /// The number of pieces of code with names.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether no code has a name.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
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
        // New code replaces the old code in its range.
        let before = self.pieces.range(..start).next_back();
        let reaching = before.filter(|(_, (end, _))| *end > start).map(|it| *it.0);
        let covered: Vec<u64> = self.pieces.range(start..end).map(|it| *it.0).collect();
        for old in covered.into_iter().chain(reaching) {
            if let Some((_, name)) = self.pieces.remove(&old) {
                self.name_bytes -= name.len();
            }
        }
        self.record_change(start..end);
        if self.pieces.len() < MAX_PIECES && self.name_bytes + name.len() <= MAX_NAME_BYTES {
            self.name_bytes += name.len();
            self.pieces.insert(start, (end, name));
        }
    }

    fn record_change(&mut self, range: Range<u64>) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.push(range);
        } else if let Some(last) = self.changes.last_mut() {
            *last = last.start.min(range.start)..last.end.max(range.end);
        }
    }

    /// The code at `address` now.
    pub fn code(&self, address: u64) -> Option<JitCode> {
        let (start, (end, name)) = self.pieces.range(..=address).next_back()?;
        (address < *end).then(|| JitCode {
            start: *start,
            end: *end,
            name: name.clone(),
            file: Arc::default(),
            line: 0,
        })
    }

    /// The path of the map.
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
    fn added_lines_are_read_and_replace_earlier_code() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        let mut map = PerfMap::at(&path);
        map.refresh().unwrap();
        assert_eq!(name(&map, 0x1000), None, "the file does not exist yet");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"1000 10 first\n0x1010 0x20 with blanks (in it)\nnonsense\n1040 10 ha")
            .unwrap();
        map.refresh().unwrap();
        assert_eq!(name(&map, 0x100f).as_deref(), Some("first"));
        assert_eq!(name(&map, 0x102f).as_deref(), Some("with blanks (in it)"));
        assert_eq!(name(&map, 0x1030), None);
        assert_eq!(name(&map, 0x1040), None, "its line is incomplete");
        file.write_all(b"lf\n1008 10 over both\n2000 0 empty\n")
            .unwrap();
        map.refresh().unwrap();
        assert_eq!(name(&map, 0x1040).as_deref(), Some("half"));
        assert_eq!(name(&map, 0x1008).as_deref(), Some("over both"));
        assert_eq!(name(&map, 0x1000), None);
        assert_eq!(name(&map, 0x1020), None);
        assert_eq!(name(&map, 0x2000), None);
        let changes = map.take_changes();
        assert_eq!(changes[0], 0x1000..0x1010);
        assert_eq!(changes.last(), Some(&(0x1008..0x1018)));
        assert_eq!(map.len(), 2);
        map.refresh().unwrap();
        assert_eq!(map.take_changes(), []);
    }

    #[test]
    fn maps_of_other_users_and_processes_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        fs::write(&path, "1000 10 name\n").unwrap();
        let own = fs::metadata(&path).unwrap().uid();
        let read = |map: &mut PerfMap| {
            map.refresh().unwrap();
            map.len()
        };
        let mut map = PerfMap::at(&path);
        map.owner = Some(own + 1);
        assert_eq!(
            read(&mut map),
            usize::from(own == 0),
            "a map of root is accepted"
        );
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        let mut stale = PerfMap::at(&path).written_since(later);
        assert_eq!(read(&mut stale), 0, "it was left by an earlier process");
        let link = folder.path().join("perf-2.map");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read(&mut PerfMap::at(&link)), 0);
        let mut own = PerfMap::of_process(std::process::id());
        assert!(own.path().starts_with("/proc"), "{:?}", own.path());
        own.refresh().unwrap();
    }

    #[test]
    fn a_replaced_map_is_read_from_its_start() {
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
        assert!(name(&map, 0x1000).is_some(), "lines that were read stay");
    }

    #[test]
    fn overlong_and_damaged_lines_are_skipped() {
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
