//! Finds and opens the program that an exec is about to run, and asks
//! `allotrope-preflight` whether it can be recorded.

use core::ffi::CStr;

use allotrope_preflight::privileges::{self, CAPABILITY_ATTRIBUTE, CAPABILITY_BYTES, Credentials};
use allotrope_preflight::{Content, NotRecordable, ProgramFile, SCRIPT_DEPTH, Start, judge};

use crate::state::image;
use crate::sys::digits::Digits;
use crate::sys::system::{self, Descriptor};

/// Longest path that is searched for.
const PATH_BYTES: usize = 1024;
/// Number of bytes of `/proc/PID/status` that are read. If the user has very many groups the file
/// is longer; the capabilities are then not known.
const STATUS_BYTES: usize = 2048;

/// What became of judging a program.
pub enum Program {
    /// The exec will fail: the file is no program, or may not be executed.
    NotExecutable,
    /// The program's file allows a recording, or does not for this reason.
    Executable(Option<NotRecordable>),
}

/// Judges the program at `path`, relative to the folder open as `directory`; if
/// it is a script, its interpreter.
pub fn inspect(directory: i32, path: &CStr, start: &Start<'_>) -> Program {
    let mut found = inspect_file(directory, path, start);
    for _ in 1..SCRIPT_DEPTH {
        let Some(Content::Script(interpreter)) = found else {
            break;
        };
        found = inspect_file(libc::AT_FDCWD, interpreter.path(), start);
    }
    match found {
        None | Some(Content::Damaged) => Program::NotExecutable,
        Some(Content::Program(reason)) => Program::Executable(reason),
        Some(Content::Text | Content::Script(_)) => Program::Executable(None),
    }
}

/// `None` if the file may not be executed.
fn inspect_file(directory: i32, path: &CStr, start: &Start<'_>) -> Option<Content> {
    if !system::may_execute(directory, path) {
        return None;
    }
    if let Some(file) = OpenFile::open(directory, path, libc::O_RDONLY) {
        return Some(judge(&file, start));
    }
    // Some programs, as `sudo`, may be executed and not read.
    let file = OpenFile::open(directory, path, libc::O_PATH)?;
    Some(Content::Program(file.privileges()))
}

/// A program's file.
struct OpenFile {
    descriptor: Descriptor,
    is_readable: bool,
}

impl OpenFile {
    fn open(directory: i32, path: &CStr, flags: i32) -> Option<Self> {
        Some(Self {
            descriptor: Descriptor::open_at(directory, path, flags)?,
            is_readable: flags & libc::O_PATH == 0,
        })
    }
}

impl ProgramFile for OpenFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> usize {
        system::read_at(self.descriptor.number(), into, offset)
    }

    fn privileges(&self) -> Option<NotRecordable> {
        let descriptor = self.descriptor.number();
        let status = system::status_of(descriptor)?;
        let mut text = [0; STATUS_BYTES];
        let length = system::read_file(c"/proc/thread-self/status", &mut text);
        let Some(own) = Credentials::parse(&text[..length]) else {
            return privileges_by_mode(&status);
        };
        // Ordinary programs do not make the system calls for these: a seccomp
        // filter may kill the process for them.
        let may_ask = !own.is_filtered;
        let mut capabilities = [0; CAPABILITY_BYTES];
        let mut length = 0;
        if may_ask && self.is_readable {
            length = system::attribute(descriptor, CAPABILITY_ATTRIBUTE, &mut capabilities);
        }
        let file = privileges::File {
            mode: status.st_mode,
            user: status.st_uid,
            group: status.st_gid,
            capabilities: capabilities.get(..length).unwrap_or(&[]),
            is_nosuid: may_ask && system::is_nosuid(descriptor),
        };
        privileges::judge(&own, &file)
    }
}

/// The rule without the process's credentials, for where `/proc` is missing.
fn privileges_by_mode(status: &libc::stat) -> Option<NotRecordable> {
    const SET_USER_ID: u32 = 0o4000;
    const SET_GROUP_ID_AND_EXECUTE: u32 = 0o2010;
    let as_user = status.st_mode & SET_USER_ID != 0 && status.st_uid != system::effective_user();
    let as_group = status.st_mode & SET_GROUP_ID_AND_EXECUTE == SET_GROUP_ID_AND_EXECUTE
        && status.st_gid != system::effective_group();
    (as_user || as_group).then_some(NotRecordable::Privileged)
}

/// A path that ends with a zero byte.
pub struct Path([u8; PATH_BYTES]);

impl Path {
    /// The program that `execvp` would find under this name: the first one in
    /// the folders of `PATH` that may be executed. `None`: there is none, or
    /// its path is very long.
    pub fn search(name: &CStr) -> Option<Self> {
        let name = name.to_bytes();
        if name.contains(&b'/') {
            return Self::joined(b"", name);
        }
        let folders = image::environment_value(b"PATH").unwrap_or(b"/bin:/usr/bin");
        folders
            .split(|byte| *byte == b':')
            .filter_map(|folder| Self::joined(folder, name))
            .find(|path| system::may_execute(libc::AT_FDCWD, path.as_c_str()))
    }

    /// A path as it is.
    pub fn given(path: &CStr) -> Option<Self> {
        Self::joined(b"", path.to_bytes())
    }

    /// The file that a descriptor stands for.
    pub fn of_descriptor(descriptor: i32) -> Option<Self> {
        let mut digits = [0u8; 20];
        let mut writer = Digits {
            bytes: &mut digits,
            used: 0,
        };
        writer.number(u64::try_from(descriptor).ok()?);
        let used = writer.used;
        Self::joined(b"/proc/self/fd", &digits[..used])
    }

    fn joined(folder: &[u8], name: &[u8]) -> Option<Self> {
        let mut bytes = [0u8; PATH_BYTES];
        let separator: &[u8] = if folder.is_empty() { b"" } else { b"/" };
        if folder.len() + separator.len() + name.len() >= PATH_BYTES {
            return None;
        }
        let parts = [folder, separator, name];
        let text = parts.iter().flat_map(|part| part.iter());
        for (to, from) in bytes.iter_mut().zip(text) {
            *to = *from;
        }
        Some(Self(bytes))
    }

    /// Returns the path as a C string.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}
