//! Checks that the machine has what a recording needs. Where possible, a check tries
//! the operation itself instead of comparing a version.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use allotrope_collector::file_limit::with_file_size;
use allotrope_shm::layout::ARENA_BYTES;
use allotrope_text::Shown;
use allotrope_text::numbers::bytes;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use crate::limits;
use crate::recorder_library;

/// The first glibc with `dlsym` in `libc.so.6`, which the recorder needs.
const OLDEST_GLIBC: (u32, u32) = (2, 34);

/// Makes all checks.
pub fn check() -> Vec<Finding> {
    let mut findings = vec![
        system(),
        c_library(),
        proc(),
        shared_memory(),
        address_space(),
        file_size(),
        watching(),
        recorder(),
    ];
    findings.extend(preloaded());
    findings.extend(tracer());
    findings.extend(seccomp());
    findings
}

fn system() -> Finding {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // The command can be built only for systems that can be recorded.
    let text = format!("Linux {} on {}", release.trim(), env::consts::ARCH);
    Finding::ok("system", text)
}

fn c_library() -> Finding {
    let topic = "C library";
    let (major, minor) = OLDEST_GLIBC;
    let Some(path) = c_library_path() else {
        return Finding::problem(
            topic,
            "no glibc was found (libc.so.6)",
            format!("record on a system with glibc {major}.{minor} or newer"),
        );
    };
    match fs::read(&path).ok().and_then(|bytes| glibc_version(&bytes)) {
        Some(version) if version >= OLDEST_GLIBC => {
            Finding::ok(topic, format!("glibc {}.{}", version.0, version.1))
        }
        Some(version) => Finding::problem(
            topic,
            format!("glibc {}.{} is too old", version.0, version.1),
            format!(
                "record on a system with glibc {major}.{minor} or newer, in a container perhaps"
            ),
        ),
        None => Finding::note(
            topic,
            format!("the version of {} is unknown", path.shown()),
            format!("the recorder needs glibc {major}.{minor} or newer"),
        ),
    }
}

/// The file of the C library: the one that this process has loaded, else the first of
/// the paths where distributions put it.
fn c_library_path() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let own = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])))
        .find(|path| path.file_name().is_some_and(|name| name == "libc.so.6"));
    let usual = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/libc.so.6",
        "/usr/lib64/libc.so.6",
        "/usr/lib/libc.so.6",
    ];
    own.or_else(|| usual.iter().map(PathBuf::from).find(|path| path.exists()))
}

/// glibc's version: the newest symbol version `GLIBC_2.N` in the bytes of its file.
fn glibc_version(library: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"GLIBC_2.";
    let number = |start: usize| {
        let digits = library
            .get(start..)?
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        let text: String = digits.take(4).map(|byte| char::from(*byte)).collect();
        text.parse().ok()
    };
    let newest = library
        .windows(PREFIX.len())
        .enumerate()
        .filter(|(_, window)| *window == PREFIX)
        .filter_map(|(at, _)| number(at + PREFIX.len()))
        .max()?;
    Some((2, newest))
}

fn proc() -> Finding {
    match fs::read_link("/proc/self/exe") {
        Ok(_) => Finding::ok("/proc", "is mounted"),
        Err(error) => Finding::problem(
            "/proc",
            format!("cannot be read: {error}"),
            "mount it (mount -t proc proc /proc)",
        ),
    }
}

fn shared_memory() -> Finding {
    let topic = "shared memory";
    match try_memfd() {
        Ok(()) => Finding::ok(topic, "memfd_create and its seals work"),
        Err(error) => Finding::problem(
            topic,
            format!("memfd_create does not work: {error}"),
            "allow it in the seccomp filter of the container or service",
        ),
    }
}

/// Creates a sealed memory file as the collector does for its arena, but an empty one.
fn try_memfd() -> std::io::Result<()> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("allotrope-doctor", flags)?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(())
}

/// The most bytes of address space that recording takes for a thread of the program:
/// the thread's state and its ring.
const THREAD_BYTES: u64 = 4 << 20;

fn address_space() -> Finding {
    /// Enough for a hundred threads, and for the collector.
    const MODEST: u64 = 100 * THREAD_BYTES;
    let topic = "address space";
    match getrlimit(Resource::As).current {
        Some(limit) if limit < MODEST => Finding::problem(
            topic,
            format!("is limited to {}", bytes(limit)),
            format!(
                "raise the limit (ulimit -v); each recorded thread takes up to {} of it",
                bytes(THREAD_BYTES)
            ),
        ),
        _ => Finding::ok(topic, "has no limit that is too low"),
    }
}

fn file_size() -> Finding {
    let topic = "file size";
    match getrlimit(Resource::Fsize).current {
        Some(limit) if with_file_size(ARENA_BYTES as u64, || ()).is_err() => Finding::problem(
            topic,
            format!("is limited to {}", bytes(limit)),
            "raise the limit (ulimit -f); it applies to shared memory, too",
        ),
        Some(limit) => Finding::note(
            topic,
            format!("is limited to {}, where a trace ends", bytes(limit)),
            "raise the limit (ulimit -f)",
        ),
        None => Finding::ok(topic, "has no limit that is too low"),
    }
}

fn watching() -> Finding {
    let topic = "watching";
    match limits::against_watching() {
        Some(limit) => {
            let text = format!("{limit}, so processes cannot be watched");
            Finding::note(topic, text, "raise the limit")
        }
        None => Finding::ok(topic, "no limit prevents it"),
    }
}

fn recorder() -> Finding {
    match recorder_library::provide(None) {
        Ok(path) => Finding::ok("recorder", format!("is unpacked at {}", path.shown())),
        Err(error) => Finding::problem(
            "recorder",
            format!("{error:#}"),
            "name a library by --recorder, or set XDG_CACHE_HOME",
        ),
    }
}

fn preloaded() -> Option<Finding> {
    let list = env::var_os("LD_PRELOAD").filter(|list| !list.is_empty())?;
    let list = Path::new(&list).shown().into_owned();
    if list.contains("vgpreload") {
        return Some(Finding::problem(
            "LD_PRELOAD",
            "valgrind runs this process and replaces the allocator itself",
            "record without valgrind",
        ));
    }
    Some(Finding::note(
        "LD_PRELOAD",
        format!("is set: {list}"),
        "the recorder is loaded before it; allocators in it are recorded",
    ))
}

fn tracer() -> Option<Finding> {
    let tracer = status_field("TracerPid:")?;
    (tracer != "0").then(|| {
        Finding::note(
            "debugger",
            format!("process {tracer} traces this one"),
            "the program will be slower, and stops whenever the tracer stops it",
        )
    })
}

fn seccomp() -> Option<Finding> {
    (status_field("Seccomp:")? == "2").then(|| {
        Finding::note(
            "seccomp",
            "a filter is active, as in most containers",
            "the checks above tried what a recording needs; start the program and allotrope in the same container",
        )
    })
}

fn status_field(name: &str) -> Option<String> {
    let status = File::open("/proc/self/status").ok()?;
    let status = std::io::read_to_string(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_library_is_its_newest_symbol_version() {
        let names = b"\0GLIBC_2.2.5\0GLIBC_2.36\0GLIBC_PRIVATE\0GLIBC_2.4\0";
        assert_eq!(glibc_version(names), Some((2, 36)));
        assert_eq!(glibc_version(b"GLIBC_2."), None);
        assert_eq!(glibc_version(b""), None);
    }

    #[test]
    fn this_machine_has_a_c_library() {
        let version = c_library_path()
            .and_then(|path| fs::read(path).ok())
            .and_then(|bytes| glibc_version(&bytes));
        assert!(version.is_some());
    }
}
