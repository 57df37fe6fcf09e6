//! Whether a program that is about to be executed can be recorded, by what its
//! file says. Only what keeps the loader from loading a recorder is looked at.

use core::ffi::{CStr, c_char};

use allotrope_shm::layout::diagnostic;
use allotrope_shm::secure_execution::{
    self, CAPABILITY_ATTRIBUTE, CAPABILITY_BYTES, Credentials, Reason,
};

use crate::image;
use crate::system;

/// The kernel follows at most this many interpreter lines.
const SCRIPT_DEPTH: usize = 5;
/// As much of a script's first line as the kernel reads (`BINPRM_BUF_SIZE`).
const FIRST_LINE: usize = 256;
/// Longest path that is looked for.
const PATH_BYTES: usize = 1024;
/// More program headers than any linker makes.
const MOST_HEADERS: u64 = 256;

/// More entries of a dynamic section, and more libraries, than are looked at.
const MOST_ENTRIES: usize = 1024;
const MOST_LIBRARIES: usize = 64;
/// Entries that are read at once.
const ENTRIES: usize = 32;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;
const EM_X86_64: u64 = 62;
/// As much of `/proc/PID/status` as is read. With very many groups of the user
/// more is there; then less is known.
const STATUS_BYTES: usize = 2048;

/// What a program's file says.
pub enum Program {
    /// It is none, or may not be executed.
    NotExecutable,
    /// What keeps it from being recorded, one of [`diagnostic`].
    Obstacle(u32),
    /// Nothing does.
    Fine,
}

/// Looks at the program at `path`, taken from the folder open as `directory`,
/// and at its interpreters if it is a script.
pub fn look_at(directory: i32, path: &CStr) -> Program {
    let mut line = [0u8; FIRST_LINE + 1];
    let mut found = open(directory, path, &mut line);
    for _ in 1..SCRIPT_DEPTH {
        let Look::Script(length) = found else {
            break;
        };
        line[length] = 0;
        let mut interpreter = [0u8; FIRST_LINE + 1];
        interpreter[..=length].copy_from_slice(&line[..=length]);
        let Ok(interpreter) = CStr::from_bytes_until_nul(&interpreter) else {
            break;
        };
        found = open(libc::AT_FDCWD, interpreter, &mut line);
    }
    match found {
        Look::Obstacle(what) => Program::Obstacle(what),
        Look::Nothing => Program::NotExecutable,
        Look::Fine | Look::Script(_) => Program::Fine,
    }
}

/// What one file says.
enum Look {
    Obstacle(u32),
    /// A script; so many bytes of the line are its interpreter's path.
    Script(usize),
    Fine,
    /// It is no program.
    Nothing,
}

fn open(directory: i32, path: &CStr, line: &mut [u8; FIRST_LINE + 1]) -> Look {
    if !system::may_execute(directory, path) {
        return Look::Nothing;
    }
    let path = path.to_bytes_with_nul();
    let mut file = system::open_at(directory, path, libc::O_RDONLY);
    let is_readable = file >= 0;
    if !is_readable {
        // It may be executed all the same; of some, as `sudo`, that is all.
        file = system::open_at(directory, path, libc::O_PATH);
    }
    if file < 0 {
        return Look::Nothing;
    }
    let look = if is_readable {
        look_into(file, line)
    } else {
        distrusted(file, &mut []).map_or(Look::Fine, Look::Obstacle)
    };
    system::close(file);
    look
}

fn look_into(file: i32, line: &mut [u8; FIRST_LINE + 1]) -> Look {
    let mut header = [0u8; 64];
    let length = system::read_at(file, &mut header, 0);
    if header.starts_with(b"#!") {
        return interpreter(file, line);
    }
    if length < header.len() || !header.starts_with(b"\x7fELF") {
        // A text that a shell will run (execvp(3)), or something for binfmt_misc.
        return Look::Fine;
    }
    let mut capabilities = [0; CAPABILITY_BYTES];
    if let Some(what) = distrusted(file, &mut capabilities) {
        return Look::Obstacle(what);
    }
    if header[4] != 2 {
        return Look::Obstacle(diagnostic::THIRTY_TWO_BIT);
    }
    if number(&header[18..20]) != EM_X86_64 {
        return Look::Obstacle(diagnostic::OTHER_MACHINE);
    }
    if !has_loader(file, &header) {
        return Look::Obstacle(diagnostic::STATIC);
    }
    if needs_address_sanitizer(file, &header) {
        return Look::Obstacle(diagnostic::ADDRESS_SANITIZER);
    }
    Look::Fine
}

/// The path in a script's first line, put at the start of `line`.
fn interpreter(file: i32, line: &mut [u8; FIRST_LINE + 1]) -> Look {
    let length = system::read_at(file, &mut line[..FIRST_LINE], 0);
    let text = &line[2.min(length)..length];
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let blanks = text.iter().take_while(|byte| is_blank(byte)).count();
    let rest = &text[blanks..];
    let bytes = rest
        .iter()
        .take_while(|byte| !is_blank(byte) && **byte != b'\n');
    let (start, bytes) = (2 + blanks, bytes.count());
    if bytes == 0 {
        return Look::Nothing;
    }
    line.copy_within(start..start + bytes, 0);
    Look::Script(bytes)
}

/// Whether the loader will preload nothing, for the program gets rights that
/// who starts it does not have. `capabilities` is where those of the file are
/// read into; they are not looked at if it is empty.
fn distrusted(file: i32, capabilities: &mut [u8]) -> Option<u32> {
    let status = system::status_of(file)?;
    let mut text = [0; STATUS_BYTES];
    let length = system::read_file(b"/proc/thread-self/status\0", &mut text);
    let Some(own) = Credentials::parse(&text[..length]) else {
        return distrusted_by_mode(&status);
    };
    // The system calls for these are none that every program makes: a filter
    // may punish them.
    let may_ask = !own.is_filtered;
    let is_nosuid = may_ask && system::is_nosuid(file);
    let mut length = 0;
    if may_ask && !capabilities.is_empty() {
        length = system::attribute(file, CAPABILITY_ATTRIBUTE, capabilities);
    }
    let file = secure_execution::File {
        mode: status.st_mode,
        user: status.st_uid,
        group: status.st_gid,
        capabilities: capabilities.get(..length).unwrap_or(&[]),
        is_nosuid,
    };
    secure_execution::reason(&own, &file).map(|reason| match reason {
        Reason::User | Reason::Group => diagnostic::PRIVILEGED,
        Reason::Capabilities => diagnostic::CAPABILITIES,
    })
}

/// The same where `/proc` is not there to ask.
fn distrusted_by_mode(status: &libc::stat) -> Option<u32> {
    const SET_USER_ID: u32 = 0o4000;
    const SET_GROUP_ID_AND_EXECUTE: u32 = 0o2010;
    let as_user = status.st_mode & SET_USER_ID != 0 && status.st_uid != system::effective_user();
    let as_group = status.st_mode & SET_GROUP_ID_AND_EXECUTE == SET_GROUP_ID_AND_EXECUTE
        && status.st_gid != system::effective_group();
    (as_user || as_group).then_some(diagnostic::PRIVILEGED)
}

/// Whether a loader loads it, or it is one, which loads what it is told to as if
/// that had been executed.
fn has_loader(file: i32, header: &[u8; 64]) -> bool {
    let is_meant = |segment: &Segment| match segment.kind {
        PT_INTERP => true,
        // Of files without a loader only libraries have a name.
        PT_DYNAMIC => has_name(file, segment.offset, segment.file_size),
        _ => false,
    };
    segment(file, header, is_meant).is_some()
}

/// Whether a dynamic section holds the file's own name as a library.
fn has_name(file: i32, offset: u64, bytes: u64) -> bool {
    (0..(bytes / 16).min(MOST_ENTRIES as u64)).any(|index| {
        let mut tag = [0u8; 8];
        let offset = offset.wrapping_add(index * 16);
        system::read_at(file, &mut tag, offset) == tag.len() && number(&tag) == DT_SONAME
    })
}

/// A program header (ELF specification, figure 2-1).
struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    file_size: u64,
}

/// The first segment that is meant.
fn segment(file: i32, header: &[u8; 64], is_meant: impl Fn(&Segment) -> bool) -> Option<Segment> {
    let (table, size) = (number(&header[32..40]), number(&header[54..56]));
    let count = number(&header[56..58]).min(MOST_HEADERS);
    (0..count).find_map(|index| {
        let mut entry = [0u8; 56];
        let offset = table.wrapping_add(index * size);
        if system::read_at(file, &mut entry, offset) != entry.len() {
            return None;
        }
        let segment = Segment {
            kind: number(&entry[0..4]),
            offset: number(&entry[8..16]),
            address: number(&entry[16..24]),
            file_size: number(&entry[32..40]),
        };
        is_meant(&segment).then_some(segment)
    })
}

/// Whether AddressSanitizer's library is among those that the program names.
fn needs_address_sanitizer(file: i32, header: &[u8; 64]) -> bool {
    let Some(dynamic) = segment(file, header, |segment| segment.kind == PT_DYNAMIC) else {
        return false;
    };
    let mut libraries = [0u64; MOST_LIBRARIES];
    let mut count = 0;
    let mut strings = 0;
    let entries = (dynamic.file_size / 16).min(MOST_ENTRIES as u64) as usize;
    'read: for first in (0..entries).step_by(ENTRIES) {
        let mut bytes = [0u8; 16 * ENTRIES];
        let offset = dynamic.offset.wrapping_add(16 * first as u64);
        let length = system::read_at(file, &mut bytes, offset);
        for entry in bytes[..length].chunks_exact(16) {
            let (tag, value) = (number(&entry[..8]), number(&entry[8..]));
            match tag {
                DT_NULL => break 'read,
                DT_STRTAB => strings = value,
                DT_NEEDED if count < MOST_LIBRARIES => {
                    libraries[count] = value;
                    count += 1;
                }
                _ => {}
            }
        }
    }
    let holds = |segment: &Segment| {
        segment.kind == PT_LOAD && strings.wrapping_sub(segment.address) < segment.file_size
    };
    let Some(holder) = segment(file, header, holds) else {
        return false;
    };
    let strings = strings
        .wrapping_sub(holder.address)
        .wrapping_add(holder.offset);
    libraries[..count].iter().any(|library| {
        let mut name = [0u8; 24];
        let length = system::read_at(file, &mut name, strings.wrapping_add(*library));
        is_address_sanitizer(&name[..length])
    })
}

/// Whether the library of this name or path is AddressSanitizer's: gcc's or clang's.
pub fn is_address_sanitizer(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan")
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A path with its zero byte.
pub struct Path([u8; PATH_BYTES]);

impl Path {
    /// The program that `execvp` would find under this name: the first one in
    /// the folders of `PATH` that may be executed. `None`: there is none, or
    /// its path is very long.
    ///
    /// # Safety
    /// `name` is a C string; nobody changes the environment meanwhile, as with
    /// `execvp` itself.
    pub unsafe fn search(name: *const c_char) -> Option<Self> {
        // SAFETY: passed on.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
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
    ///
    /// # Safety
    /// `path` is a C string.
    pub unsafe fn given(path: *const c_char) -> Option<Self> {
        // SAFETY: passed on.
        Self::joined(b"", unsafe { CStr::from_ptr(path) }.to_bytes())
    }

    /// The file that a descriptor stands for.
    pub fn of_descriptor(descriptor: i32) -> Option<Self> {
        let mut digits = [0u8; 20];
        let mut writer = image::Digits {
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
        for (place, byte) in bytes.iter_mut().zip(text) {
            *place = *byte;
        }
        Some(Self(bytes))
    }

    /// As a C string.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}
