//! Isolation: other users cannot reach a recording, recorded programs cannot harm the
//! collector or one another, and the recorder accepts descriptors only from its own
//! collector. `programs/neighbours.c`.

use std::fs::{self, File};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use crate::support::record::command;
use crate::support::{Ended, Started, Text, compiled, is_root, record, run, skip};
use allotrope_shm::arena::{Arena, Settings};
use allotrope_shm::handshake::{PART, Side, proof};
use allotrope_shm::layout::{ARENA_BYTES, CONTROL_BYTES, Control, OnFull, image_state};
use allotrope_shm::layout::{ENVIRONMENT_VARIABLE, MAGIC, VERSION};
use allotrope_shm::location::Location;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

const SOURCE: &str = "neighbours.c";
/// Users that own nothing.
const NOBODY: u32 = 65_534;
const STRANGER: u32 = 54_321;

/// The location that a recorded program finds in its environment.
fn location_in(environment: &[u8]) -> Location {
    let value = environment
        .split(|byte| matches!(byte, 0 | b'\n'))
        .find_map(|entry| {
            entry
                .strip_prefix(ENVIRONMENT_VARIABLE.as_bytes())?
                .strip_prefix(b"=")
        });
    Location::parse(value.expect("it is in the environment")).expect("a location")
}

#[test]
fn the_secret_is_in_no_socket_name_and_no_argument() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("strace");
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-qq", "-s", "100000", "-e", "trace=execve", "-o"])
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_allotrope"))
        .args(["record", "-q", "-o", "trace", "sh", "-c"])
        .arg("env; cat /proc/net/unix")
        .current_dir(folder.path());
    if !crate::support::is_installed("strace") {
        return skip("strace is not here (Debian package strace)");
    }
    let output = run(&mut traced, b"");
    let location = location_in(&output.stdout);
    let shown = output.text();
    // The output of `env`, which is private, comes before the public list of sockets.
    let (_, sockets) = shown
        .split_once("Num       RefCount")
        .expect("it is listed");
    let name = location.socket_name();
    let name = std::str::from_utf8(&name).expect("ASCII");
    sockets.has(format!("@{name}"));
    let executed = fs::read_to_string(&log).expect("strace wrote it");
    executed.has("__exec");
    let secret = format!("{:032x}", location.secret);
    for half in [&secret[..16], &secret[16..]] {
        assert!(!executed.contains(half), "in an argument");
        assert!(!sockets.contains(half), "in a name");
    }
}

#[test]
fn another_user_gets_no_answer() {
    if !is_root() {
        return skip("only root can become two other users");
    }
    // Copies, because other users may not be able to enter the build folder.
    let folder = tempfile::tempdir().expect("a folder");
    let copy = |path: &Path, name: &str| {
        let copy = folder.path().join(name);
        // In a process of its own: a child that another test forks meanwhile would inherit
        // the open copy, which then could not be executed ("text file busy").
        let copied = Command::new("cp").arg(path).arg(&copy).status();
        assert!(copied.expect("cp starts").success());
        copy
    };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let allotrope = copy(Path::new(env!("CARGO_BIN_EXE_allotrope")), "allotrope");
    let program = copy(&compiled(SOURCE), "neighbours");
    let mut command = Command::new(allotrope);
    command
        .args(["record", "-q", "-o", "trace", "sh", "-c", "env; exec cat"])
        .env("HOME", folder.path())
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("XDG_CACHE_HOME")
        .current_dir(folder.path())
        .uid(NOBODY);
    let mut recording = Started::new(&mut command);
    let location = loop {
        let line = recording.line();
        if line.starts_with(ENVIRONMENT_VARIABLE) {
            break location_in(line.as_bytes());
        }
    };
    let name = String::from_utf8(location.socket_name().to_vec()).expect("ASCII");
    let ask = |user: u32| {
        let mut stranger = Command::new(&program);
        run(stranger.args(["connect", &name]).uid(user), b"").text()
    };
    assert_eq!(ask(STRANGER), "0\n");
    // The collector's own user gets its nonce and its proof, and no more.
    assert_eq!(ask(NOBODY), format!("{}\n", 2 * PART));
    recording.end().ok();
}

#[test]
fn a_program_that_overwrites_the_arena_harms_no_other() {
    let recording = record(compiled(SOURCE)).arg("besieged").run();
    // The status is the programs' own verdict; their recording is not evaluated.
    recording.code(7).text().has("sealed");
}

#[test]
fn only_memory_in_use_is_locked() {
    let described = record(compiled(SOURCE)).arg("locked");
    let plain = described.plain();
    if plain.status.code() == Some(96) {
        return skip("locking memory is not allowed here");
    }
    let kilobytes = |text: &[u8]| -> i64 {
        let text = String::from_utf8_lossy(text);
        text.trim().parse().expect("a number")
    };
    let before = kilobytes(&plain.stdout);
    let recording = described.run().ok();
    let more = kilobytes(&recording.stdout) - before;
    // The tables, four rings, a thread's state; and the recorder's code.
    assert!(more < 12 << 10, "{more} KiB more");
}

#[test]
fn a_program_that_limits_its_address_space_gets_its_memory() {
    record(compiled(SOURCE)).arg("limited").run().ok();
}

/// A ring's memory is committed before it is used, 8,192 words at a time: where
/// that fails events are lost, and the program does not get a SIGBUS.
#[test]
fn a_ring_whose_memory_cannot_be_committed_is_not_written_to() {
    let recording = record(compiled(SOURCE)).arg("uncommitted").run();
    if recording.status.code() == Some(96) {
        return skip("this kernel does not commit memory on request, or has no seccomp");
    }
    let recording = recording.code(7);
    let report = recording.report();
    let process = report.only();
    let recorded = process.under("refused_work").allocations;
    // An allocation takes two words, and the first words were committed before.
    assert!(recorded < 8192 / 2, "{recorded} recorded");
    // Each of the others is lost once, and so is the event of the exit.
    let lost = process.number("lost_events");
    assert_eq!(recorded + lost, 20_000 + 1, "{recorded} recorded");
}

#[test]
fn an_environment_of_sixty_thousand_variables() {
    for preload in [None, Some("libc.so.6")] {
        let mut described = record("sh").args(["-c", "test $V59999 = 59999"]);
        for number in 0..60_000 {
            described = described.env(&format!("V{number}"), number.to_string());
        }
        if let Some(library) = preload {
            // The order of the variables must be preserved, too.
            described = described.env("LD_PRELOAD", library);
        }
        described.run().ok();
    }
}

/// A false collector: it listens on the socket name that the program finds in its
/// environment.
struct Impostor {
    secret: u128,
    descriptors: [OwnedFd; 2],
}

/// How the impostor answers the recorder's nonce.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// The impostor answers with a proof by the right secret.
    RightSecret,
    /// The impostor answers with a proof by a wrong secret.
    WrongSecret,
    /// The impostor answers with the descriptors, at once.
    WithoutProof,
    /// The impostor does not answer.
    Silent,
}

impl Impostor {
    /// Runs `program` with an environment that leads to this socket. Returns whether the
    /// recorder asked for the descriptors, and how the program ended.
    fn serve(&self, manner: Manner, program: &Path) -> (bool, Ended) {
        let location = Location {
            // No process has this id, so the recorder must use the socket.
            process: i32::MAX as u32,
            arena: 3,
            control: 4,
            name: u64::from(std::process::id()) << 32 | self.secret as u64 & 0xffff,
            secret: self.secret,
        };
        let address = SocketAddrUnix::new_abstract_name(&location.socket_name()).expect("a name");
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let flags = SocketFlags::CLOEXEC;
        let listener = rustix::net::socket_with(family, kind, flags, None).expect("a socket");
        rustix::net::bind(&listener, &address).expect("the name is ours");
        rustix::net::listen(&listener, 4).expect("it can");
        let mut command = Command::new(program);
        command.arg("limited").env("LD_PRELOAD", recorder());
        let child = Started::new(command.env(ENVIRONMENT_VARIABLE, location.to_string()));
        let peer = rustix::net::accept_with(&listener, flags).expect("it asks");
        let asked = self.answer(&peer, manner);
        let output = child.end();
        drop(peer);
        (asked, output)
    }

    fn answer(&self, peer: &OwnedFd, manner: Manner) -> bool {
        let receive = || {
            let mut part = [0; PART];
            let received = rustix::net::recv(peer, &mut part, RecvFlags::empty());
            received
                .is_ok_and(|(length, _)| length == PART)
                .then_some(part)
        };
        let recorder = receive().expect("a nonce");
        let own = [9; PART];
        match manner {
            Manner::Silent => return false,
            Manner::WithoutProof => {
                self.send(peer);
                return receive().is_some();
            }
            Manner::RightSecret | Manner::WrongSecret => {}
        }
        let key = self.secret + u128::from(manner == Manner::WrongSecret);
        let message = [own, proof(key, Side::Collector, &recorder, &own)].concat();
        rustix::net::send(peer, &message, SendFlags::NOSIGNAL).expect("it listens");
        let Some(its) = receive() else {
            return false;
        };
        assert_eq!(its, proof(self.secret, Side::Recorder, &recorder, &own));
        self.send(peer);
        true
    }

    fn send(&self, peer: &OwnedFd) {
        let descriptors: Vec<BorrowedFd<'_>> = self.descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(&descriptors));
        let byte = [IoSlice::new(b"A")];
        // A recorder that asked for nothing may have closed its socket.
        let _ = rustix::net::sendmsg(peer, &byte, &mut rights, SendFlags::NOSIGNAL);
    }
}

/// The recorder's library as `record` preloads it.
fn recorder() -> PathBuf {
    let list = record("env").option("-q").run().ok().text();
    let list = list
        .lines()
        .find_map(|line| line.strip_prefix("LD_PRELOAD="));
    let first = list.and_then(|list| list.split(':').next());
    PathBuf::from(first.expect("the recorder is preloaded"))
}

const SECRET: u128 = 0x0102_0304_0506_0708_1112_1314_1516_0000;

fn arena(secret: u128) -> Arena {
    Arena::create(Settings {
        on_full: OnFull::Block,
        depth_limit: 4096,
        no_follow: false,
        frame_pointers: false,
        counts_only: false,
        free_stacks: false,
        reachability: false,
        filters: 0,
        key: (secret >> 64) as u64,
    })
    .expect("an arena can be made")
}

/// Whether some program has begun to record into the arena.
fn is_used(arena: &Arena) -> bool {
    let mut slots = arena.images().iter();
    slots.any(|slot| slot.state.load(Relaxed) != image_state::FREE)
}

#[test]
fn only_a_collector_that_proves_the_secret_is_accepted() {
    let program = compiled(SOURCE);
    for (number, manner) in [
        Manner::RightSecret,
        Manner::WrongSecret,
        Manner::WithoutProof,
        Manner::Silent,
    ]
    .into_iter()
    .enumerate()
    {
        let secret = SECRET + number as u128;
        let arena = arena(secret);
        let copy = |file: BorrowedFd<'_>| file.try_clone_to_owned().expect("a descriptor");
        let impostor = Impostor {
            secret,
            descriptors: [copy(arena.memory()), copy(arena.control_memory())],
        };
        let (asked, output) = impostor.serve(manner, &program);
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        let is_right = manner == Manner::RightSecret;
        assert_eq!((asked, is_used(&arena)), (is_right, is_right), "{number}");
    }
}

/// A memory file of this size. Without the seal SHRINK, anyone can shorten it.
fn file_of(bytes: usize, seals: SealFlags) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("allotrope", flags).expect("memory");
    rustix::fs::ftruncate(&file, bytes as u64).expect("it is ours");
    rustix::fs::fcntl_add_seals(&file, seals).expect("it is ours");
    File::from(file)
}

#[test]
fn memory_that_can_shrink_is_not_mapped() {
    let program = compiled(SOURCE);
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    let open = SealFlags::GROW;
    for (number, (arena_seals, control_seals, arena_bytes)) in [
        (sealed, sealed, ARENA_BYTES),
        (open, sealed, ARENA_BYTES),
        (sealed, open, ARENA_BYTES),
        (sealed, sealed, 4096),
    ]
    .into_iter()
    .enumerate()
    {
        let secret = SECRET + 100 + number as u128;
        let arena = file_of(arena_bytes, arena_seals);
        let control = file_of(CONTROL_BYTES, control_seals);
        let fields = [
            (std::mem::offset_of!(Control, magic), MAGIC),
            (std::mem::offset_of!(Control, version), VERSION),
            (std::mem::offset_of!(Control, key), (secret >> 64) as u64),
            (std::mem::offset_of!(Control, collector_alive), 1),
        ];
        for (offset, value) in fields {
            let bytes = value.to_le_bytes();
            control
                .write_all_at(&bytes, offset as u64)
                .expect("it is ours");
        }
        let memory = arena.try_clone().expect("a descriptor");
        let impostor = Impostor {
            secret,
            descriptors: [arena.into(), control.into()],
        };
        let (asked, output) = impostor.serve(Manner::RightSecret, &program);
        assert!(asked && output.status.success(), "{number}: {output:?}");
        let mut tables = vec![0; arena_bytes.min(1 << 20)];
        memory
            .read_exact_at(&mut tables, 0)
            .expect("it can be read");
        let is_used = tables.iter().any(|byte| *byte != 0);
        assert_eq!(is_used, number == 0, "{number}");
    }
}

#[test]
fn a_malformed_location_changes_nothing() {
    for value in ["", "1:2:3", "99999999999:1:1:0:0", "\u{1b}[31m"] {
        let mut plain = command();
        plain
            .args(["record", "-q", "-o", "/dev/null", "true"])
            .env(ENVIRONMENT_VARIABLE, value);
        // `record` itself is not recorded by another recording.
        let output = run(&mut plain, b"");
        assert!(
            !output.status.success(),
            "/dev/null is no place for a trace"
        );
        let mut program = Command::new("echo");
        program
            .arg("fine")
            .env("LD_PRELOAD", recorder())
            .env(ENVIRONMENT_VARIABLE, value);
        assert_eq!(run(&mut program, b"").ok().text(), "fine\n");
    }
}
