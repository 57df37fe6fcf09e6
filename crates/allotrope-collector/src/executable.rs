//! Why an executable can not be recorded: what its file says about it.
//! Whether it really is not recorded is for others to notice.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use allotrope_shm::layout::diagnostic;
use allotrope_shm::secure_execution::{
    self, CAPABILITY_ATTRIBUTE, CAPABILITY_BYTES, Credentials, Reason,
};
use rustix::fs::StatVfsMountFlags;

/// Program header type that names the loader (ELF specification, figure 2-2).
const PT_INTERP: u32 = 3;
/// Program header type of the dynamic section, and its entry with the file's
/// own name as a library (figures 2-2 and 2-10).
const PT_DYNAMIC: u32 = 2;
const DT_SONAME: u64 = 14;
/// More entries than the dynamic section of a loader has.
const MOST_ENTRIES: u64 = 256;
const EM_X86_64: u16 = 62;
/// More program headers than any linker makes.
const MOST_HEADERS: u64 = 1024;

/// What keeps a program from being recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// It runs with more rights than who starts it; the loader ignores
    /// `LD_PRELOAD` in it.
    Privileged,
    /// Its file has capabilities, with the same effect.
    Capabilities,
    /// It is started with an environment that does not name the recorder.
    Cleared,
    /// It runs in other namespaces, and its recorder did not reach the collector.
    Elsewhere,
    /// It has no loader that could load the recorder.
    Static,
    /// Its loader is that of another C library; its path.
    OtherLoader(String),
    /// It is a 32-bit program.
    ThirtyTwoBit,
    /// It is made for another processor; its ELF machine number, where that
    /// is known.
    OtherMachine(Option<u16>),
    /// Its file may not be read.
    Unreadable,
    /// From where it runs, the recorder's file is not to be found.
    NoRecorder,
    /// It is not glibc that it is linked against.
    OtherLibc,
    /// It or a library of its own defines `malloc`; the module's path.
    OwnMalloc(String),
    /// It runs under a tool of valgrind's that has its own `malloc`.
    Valgrind,
    /// AddressSanitizer's library in it insists on being the first.
    AddressSanitizer,
    /// Its allocator defines C++'s operators; the module's path.
    Operators(String),
    /// It opened a library in a namespace of its own; the library's path.
    Namespace(String),
    /// It opens libraries with `RTLD_DEEPBIND`, which do not find the recorder.
    DeepBinding,
    /// Nothing in the file explains it.
    Unknown,
}

impl Obstacle {
    /// What a diagnostic of a recorder says (`allotrope_shm::layout::diagnostic`).
    pub fn of_diagnostic(what: u32, path: &[u8]) -> Self {
        let path = || String::from_utf8_lossy(path).into_owned();
        match what {
            diagnostic::STATIC => Self::Static,
            diagnostic::THIRTY_TWO_BIT => Self::ThirtyTwoBit,
            diagnostic::OTHER_MACHINE => Self::OtherMachine(None),
            diagnostic::NO_RECORDER => Self::NoRecorder,
            diagnostic::OTHER_LIBC => Self::OtherLibc,
            diagnostic::OWN_MALLOC => Self::OwnMalloc(path()),
            diagnostic::PRIVILEGED => Self::Privileged,
            diagnostic::CAPABILITIES => Self::Capabilities,
            diagnostic::CLEARED => Self::Cleared,
            diagnostic::ELSEWHERE => Self::Elsewhere,
            diagnostic::VALGRIND => Self::Valgrind,
            diagnostic::ADDRESS_SANITIZER => Self::AddressSanitizer,
            diagnostic::OPERATORS => Self::Operators(path()),
            diagnostic::NAMESPACE => Self::Namespace(path()),
            diagnostic::DEEP_BINDING => Self::DeepBinding,
            _ => Self::Unknown,
        }
    }

    /// What the reason for distrust means.
    pub fn of_distrust(reason: Reason) -> Self {
        match reason {
            Reason::User | Reason::Group => Self::Privileged,
            Reason::Capabilities => Self::Capabilities,
        }
    }

    /// Whether it is about a program that has a recorder, which sees nothing or
    /// not everything.
    pub fn is_within(&self) -> bool {
        matches!(self, Self::OwnMalloc(_) | Self::Valgrind) || self.is_partial()
    }

    /// Whether only a part of what the process allocates is not seen.
    pub fn is_partial(&self) -> bool {
        matches!(
            self,
            Self::Operators(_) | Self::Namespace(_) | Self::DeepBinding
        )
    }

    /// One sentence: why, and what to do.
    pub fn sentence(&self) -> String {
        match self {
            Self::Privileged => "it runs with another user's or group's rights than who starts it (it is setuid or setgid, or was started with only its effective user changed), so the loader does not load the recorder; record a copy without these rights, or as the user it switches to".into(),
            Self::Capabilities => "it has file capabilities, so the loader does not load the recorder; record a copy without them (cp makes one), or as root".into(),
            Self::Cleared => "it was started with an environment that does not name the recorder, nor is it in what it starts; let LD_PRELOAD and ALLOTROPE_ARENA reach it".into(),
            Self::Elsewhere => "it runs in namespaces of its own (a container or sandbox), from which its recorder does not reach the collector, nor does one in what it starts; give it the network namespace of its surroundings, or run `allotrope record` inside".into(),
            Self::Static => "it is statically linked, so no recorder can be loaded into it; link it dynamically against glibc".into(),
            Self::OtherLoader(loader) => format!("its loader is {loader}, not glibc's; build it for glibc (for example x86_64-unknown-linux-gnu)"),
            Self::ThirtyTwoBit => "it is a 32-bit program; build it for x86-64".into(),
            Self::OtherMachine(machine) => {
                let number = machine.map_or(String::new(), |it| format!(" (ELF machine {it})"));
                format!("it is made for another processor{number}; build it for x86-64")
            }
            Self::Unreadable => "its file may not be read by this user; give yourself read permission for it".into(),
            Self::NoRecorder => "the recorder's file cannot be read from where it runs (a chroot or a container); bind-mount the folder of the recorder there, or give one that it can read with --recorder".into(),
            Self::OtherLibc => "its C library is not glibc; build it for glibc (for example x86_64-unknown-linux-gnu)".into(),
            Self::OwnMalloc(path) => format!("a malloc of its own, in {path}, is called in the place of the recorder's; link the allocator as a shared library, report its blocks (allotrope.h in C and C++, allotrope-client's Recorded in Rust), or build without the sanitizer that brings it"),
            Self::Valgrind => "valgrind puts its own malloc before the recorder's; record the program without valgrind".into(),
            Self::AddressSanitizer => "it loads AddressSanitizer's library, which ends a program in which the recorder's is loaded before it; record a build without -fsanitize=address, or set ASAN_OPTIONS=verify_asan_link_order=0".into(),
            Self::Operators(path) => format!("its allocator {path} defines C++'s operators new and delete, which are recorded only where the recording's first program is linked against such an allocator; record the program directly"),
            Self::Namespace(path) => format!("{path} was opened with dlmopen, in a namespace with a C library of its own, whose allocations are not seen; open it with dlopen for the recording"),
            Self::DeepBinding => "libraries that it opened with RTLD_DEEPBIND call the C library's malloc, which is not this program's, so their allocations are not seen; record it without the allocator that was preloaded, or open them without the flag".into(),
            Self::Unknown => "its recorder did not report; perhaps its environment was cleared (LD_PRELOAD and ALLOTROPE_ARENA have to reach it) or it ended at once; run `allotrope doctor` on it".into(),
        }
    }
}

/// What keeps the program in `path` from being recorded; `None` if nothing in
/// the file does. A script or anything else that is no ELF file is not judged.
pub fn obstacle(path: &Path) -> io::Result<Option<Obstacle>> {
    let file = match allotrope_files::open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(Some(Obstacle::Unreadable));
        }
        file => file?,
    };
    elf_obstacle(&file)
}

/// Whether a process like this one gets rights by executing the file that it
/// does not have, and the recorder therefore is not loaded.
fn privilege(file: &File) -> Option<Obstacle> {
    let own = Credentials::parse(&std::fs::read("/proc/self/status").ok()?)?;
    let reason = distrust(file, &own).ok()?;
    reason.map(Obstacle::of_distrust)
}

/// Why the loader distrusts the program in `file` (an ELF file) if a process
/// with these credentials executes it; `None`: it does not.
pub fn distrust(file: &File, credentials: &Credentials) -> io::Result<Option<Reason>> {
    let metadata = file.metadata()?;
    let mount = rustix::fs::fstatvfs(file)?;
    let mut value = [0; CAPABILITY_BYTES];
    let length = rustix::fs::fgetxattr(file, CAPABILITY_ATTRIBUTE, &mut value[..]).unwrap_or(0);
    let file = secure_execution::File {
        mode: metadata.mode(),
        user: metadata.uid(),
        group: metadata.gid(),
        capabilities: &value[..length],
        is_nosuid: mount.f_flag.contains(StatVfsMountFlags::NOSUID),
    };
    Ok(secure_execution::reason(credentials, &file))
}

fn elf_obstacle(file: &File) -> io::Result<Option<Obstacle>> {
    let mut header = [0u8; 64];
    match file.read_exact_at(&mut header, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    if !header.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    if let Some(privilege) = privilege(file) {
        return Ok(Some(privilege));
    }
    if header[4] != 2 {
        return Ok(Some(Obstacle::ThirtyTwoBit));
    }
    let machine = u16::from_le_bytes([header[18], header[19]]);
    if machine != EM_X86_64 {
        return Ok(Some(Obstacle::OtherMachine(Some(machine))));
    }
    let Some(loader) = loader(file, &header)? else {
        // A loader that is run as a program loads the recorder as ever.
        let is_loader = has_name(file, &header);
        return Ok((!is_loader).then_some(Obstacle::Static));
    };
    // glibc's loader is ld-linux-x86-64.so.2 wherever it lies (glibc's
    // shlib-versions); musl's is ld-musl-x86_64.so.1.
    let is_glibc = loader.contains("ld-linux");
    Ok((!is_glibc).then_some(Obstacle::OtherLoader(loader)))
}

fn loader(file: &File, header: &[u8; 64]) -> io::Result<Option<String>> {
    let Some(entry) = program_header(file, header, PT_INTERP) else {
        return Ok(None);
    };
    let length = number(&entry[32..40]).min(PATH_LIMIT) as usize;
    let mut path = vec![0; length];
    let read = file.read_at(&mut path, number(&entry[8..16]))?;
    path.truncate(read);
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(read);
    Ok(Some(String::from_utf8_lossy(&path[..end]).into_owned()))
}

/// Whether the file has a name of its own as a library.
fn has_name(file: &File, header: &[u8; 64]) -> bool {
    let Some(entry) = program_header(file, header, PT_DYNAMIC) else {
        return false;
    };
    let (offset, bytes) = (number(&entry[8..16]), number(&entry[32..40]));
    (0..(bytes / 16).min(MOST_ENTRIES)).any(|index| {
        let mut tag = [0u8; 8];
        let offset = offset.saturating_add(index * 16);
        file.read_exact_at(&mut tag, offset).is_ok() && number(&tag) == DT_SONAME
    })
}

/// The first program header of this kind.
fn program_header(file: &File, header: &[u8; 64], kind: u32) -> Option<[u8; 56]> {
    let table = number(&header[32..40]);
    let size = number(&header[54..56]);
    let count = number(&header[56..58]).min(MOST_HEADERS);
    for index in 0..count {
        let mut entry = [0u8; 56];
        let offset = table.checked_add(index * size)?;
        file.read_exact_at(&mut entry, offset).ok()?;
        if number(&entry[0..4]) == u64::from(kind) {
            return Some(entry);
        }
    }
    None
}

/// `PATH_MAX`: no loader's path is longer.
const PATH_LIMIT: u64 = 4096;

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// An ELF file with one program header of `kind` that spans `content`.
    fn elf(class: u8, machine: u16, kind: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[4] = class;
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes[72..80].copy_from_slice(&120u64.to_le_bytes());
        bytes[96..104].copy_from_slice(&(content.len() as u64).to_le_bytes());
        bytes.extend_from_slice(content);
        bytes
    }

    fn judge(bytes: &[u8], mode: u32) -> Option<Obstacle> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        obstacle(file.path()).unwrap()
    }

    #[test]
    fn each_obstacle_is_told_from_the_others() {
        let glibc = b"/lib64/ld-linux-x86-64.so.2\0";
        let musl = "/lib/ld-musl-x86_64.so.1";
        assert_eq!(judge(&elf(2, EM_X86_64, PT_INTERP, glibc), 0o755), None);
        let thirty_two_bit = Some(Obstacle::ThirtyTwoBit);
        assert_eq!(judge(&elf(1, 3, PT_INTERP, glibc), 0o755), thirty_two_bit);
        let arm = Some(Obstacle::OtherMachine(Some(183)));
        assert_eq!(judge(&elf(2, 183, PT_INTERP, glibc), 0o755), arm);
        let load = elf(2, EM_X86_64, 1, b"");
        assert_eq!(judge(&load, 0o755), Some(Obstacle::Static));
        assert_eq!(
            judge(&elf(2, EM_X86_64, PT_INTERP, musl.as_bytes()), 0o755),
            Some(Obstacle::OtherLoader(musl.into()))
        );
    }

    /// Its own rights are none that its owner gains by it.
    #[test]
    fn rights_count_where_somebody_gains_them() {
        let glibc = elf(2, EM_X86_64, PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0");
        assert_eq!(judge(&glibc, 0o4755), None);
        let file = tempfile::tempfile().unwrap();
        file.set_permissions(Permissions::from_mode(0o4755))
            .unwrap();
        let other = b"Uid:\t7 7 7 7\nGid:\t7 7 7 7\nCapInh:\t0\nCapPrm:\t0\nCapBnd:\t0\n";
        let other = Credentials::parse(other).unwrap();
        let mount = rustix::fs::fstatvfs(&file).unwrap();
        let expected = match mount.f_flag.contains(StatVfsMountFlags::NOSUID) {
            true => None,
            false => Some(Reason::User),
        };
        assert_eq!(distrust(&file, &other).unwrap(), expected);
    }

    #[test]
    fn a_loader_as_a_program_is_no_static_program() {
        let mut bytes = elf(2, EM_X86_64, PT_DYNAMIC, &[0; 32]);
        assert_eq!(judge(&bytes, 0o755), Some(Obstacle::Static));
        bytes[120 + 16] = DT_SONAME as u8;
        assert_eq!(judge(&bytes, 0o755), None);
    }

    #[test]
    fn what_is_no_program_is_not_judged() {
        assert_eq!(judge(b"", 0o755), None);
        assert_eq!(judge(&[b'#'; 100], 0o755), None);
    }

    #[test]
    fn a_header_table_beyond_every_file_is_no_danger() {
        let mut bytes = elf(2, EM_X86_64, PT_INTERP, b"");
        bytes[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        bytes[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(judge(&bytes, 0o755), Some(Obstacle::Static));
    }
}
