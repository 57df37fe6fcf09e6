//! Programs that a recorded one starts and that cannot be recorded, however short-lived,
//! and parts of a program that are not recorded: the report names each, with the reason
//! and what to do; the program's output does not change.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Recording, Text, allotrope, compiled, compiled_with, record, run, skip};

/// Every way to start a program in a child, see `starting.c`.
const WAYS: [&str; 12] = [
    "execve",
    "execv",
    "execvp",
    "execvpe",
    "execl",
    "execlp",
    "execle",
    "fexecve",
    "execveat",
    "vfork",
    "posix_spawn",
    "posix_spawnp",
];

/// The text report of a recording, as one line.
fn printed(recording: &Recording) -> String {
    let text = allotrope([
        "report".as_ref(),
        "--lists".as_ref(),
        recording.trace.as_os_str(),
    ])
    .text();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Starts `program` in this way; `record -q` must print nothing.
fn started(way: &str, program: &Path) -> Recording {
    let recording = record(compiled("starting.c"))
        .option("-q")
        .args([way, "-"])
        .arg(program)
        .run()
        .code(5);
    assert_eq!(recording.stderr, "", "{way}");
    recording
}

fn expect_reported(way: &str, program: &Path, why: &str) {
    let printed = printed(&started(way, program));
    assert!(
        printed.contains(&format!("({}) was not recorded: {why}", program.display())),
        "{way}: {printed}"
    );
}

#[test]
fn a_static_child() {
    let program = compiled_with("showing.c", &["-static"]);
    for way in WAYS.into_iter().filter(|way| *way != "fexecve") {
        expect_reported(way, &program, "it is statically linked");
    }
    // With fexecve only a descriptor is known, not the path.
    let printed = printed(&started("fexecve", &program));
    printed.has("it is statically linked");
}

/// The command, the recorder and `doctor` have one answer: this program has the
/// section by which a Go program is known.
#[test]
fn a_static_go_program() {
    let folder = tempfile::tempdir().expect("there is room");
    let program = folder.path().join("go");
    let section = folder.path().join("section");
    std::fs::write(&section, "go").expect("the folder is ours");
    let made = Command::new("objcopy")
        .arg("--add-section")
        .arg(format!(".go.buildinfo={}", section.display()))
        .arg(compiled_with("showing.c", &["-static"]))
        .arg(&program)
        .status();
    assert!(made.expect("objcopy is installed").success());
    let why = "it is a static Go program, whose memory does not come from malloc; use the Go \
               run-time system's own heap profile (runtime/pprof)";
    for way in ["execv", "vfork", "posix_spawn"] {
        expect_reported(way, &program, why);
    }
    let refused = record(&program).run().code(125);
    refused.stderr.has(why);
    allotrope(["doctor".as_ref(), program.as_os_str()]).has("it is a static Go program");
}

/// The image before the exec is recorded, that of the static program is not.
#[test]
fn a_program_that_execs_a_static_one() {
    let program = compiled_with("showing.c", &["-static"]);
    expect_reported("replace", &program, "it is statically linked");
}

#[test]
fn a_32_bit_child() {
    let folder = tempfile::tempdir().expect("there is room");
    let program = folder.path().join("small");
    let text = ".globl _start\n_start: mov $1, %eax\nmov $5, %ebx\nint $0x80\n";
    let source = folder.path().join("small.s");
    std::fs::write(&source, text).expect("the folder is ours");
    let made = Command::new("gcc")
        .args(["-m32", "-nostdlib", "-static", "-o"])
        .args([&program, &source])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return skip("gcc makes no 32-bit programs here");
    }
    if Command::new(&program).status().is_err() {
        return skip("this kernel runs no 32-bit programs");
    }
    for way in ["execv", "vfork", "posix_spawn"] {
        expect_reported(way, &program, "it is a 32-bit program");
    }
}

/// It runs as without a recording.
#[test]
fn a_child_with_address_sanitizers_shared_library() {
    let program = compiled_with("showing.c", &["-fsanitize=address"]);
    for way in WAYS.into_iter().filter(|way| *way != "fexecve") {
        let recording = record(compiled("starting.c"))
            .option("-q")
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .args([way, "-"])
            .arg(&program)
            .run()
            .code(5);
        assert_eq!(recording.stderr, "", "{way}");
        let printed = printed(&recording);
        let why = "was not recorded: it loads AddressSanitizer's library";
        assert!(printed.contains(why), "{way}: {printed}");
    }
}

/// With an option that lets the library be loaded later, the child is recorded.
#[test]
fn a_child_with_address_sanitizers_library_that_may_come_later() {
    let program = compiled_with("showing.c", &["-fsanitize=address"]);
    let recording = record(compiled("starting.c"))
        .option("-q")
        .env("ASAN_OPTIONS", "verify_asan_link_order=0,detect_leaks=0")
        .args(["vfork", "-"])
        .arg(&program)
        .run()
        .code(5);
    assert_eq!(recording.stderr, "");
    assert!(!printed(&recording).contains("not recorded"));
    assert_eq!(recording.report().processes().len(), 2);
}

#[test]
fn a_child_of_another_c_library() {
    const LOADER: &str = "/lib/ld-musl-x86_64.so.1";
    if !Path::new(LOADER).exists() {
        return skip("musl's loader is not here (Debian package musl)");
    }
    // The program needs only what both C libraries have.
    let program = compiled_with("showing.c", &[&format!("-Wl,--dynamic-linker={LOADER}")]);
    for way in ["execv", "vfork", "posix_spawn"] {
        expect_reported(way, &program, "its C library is not glibc");
    }
}

/// A copy of the recorder's library.
fn own_recorder(folder: &Path) -> PathBuf {
    let shown = record("env").option("-q").run().ok().text();
    let list = shown
        .lines()
        .find_map(|line| line.strip_prefix("LD_PRELOAD="))
        .expect("the recorder is preloaded");
    let library = folder.join("recorder.so");
    let first = list.split(':').next().expect("it stands first");
    std::fs::copy(first, &library).expect("the folder is ours");
    library
}

/// The child is as in a chroot: the program runs without an error of its loader, and its arguments
/// and the rest of its environment are unchanged.
#[test]
fn a_child_that_cannot_read_the_recorder() {
    let program = compiled("showing.c");
    let words = ["1", "2", "3", "4", "5"];
    for way in WAYS {
        let folder = tempfile::tempdir().expect("there is room");
        let library = own_recorder(folder.path());
        let recording = record(compiled("starting.c"))
            .option("-q")
            .option("--recorder")
            .option(&library)
            .env("FIRST", "a")
            .arg(way)
            .arg(&library)
            .arg(&program)
            .args(words)
            .run()
            .code(5);
        assert_eq!(recording.stderr, "", "{way}");
        let shown = recording.text();
        let lines_with = |prefix: &str| -> Vec<&str> {
            let lines = shown.lines();
            lines.filter_map(|line| line.strip_prefix(prefix)).collect()
        };
        let mut arguments = vec![program.to_str().expect("it is ASCII")];
        arguments.extend(words);
        assert_eq!(lines_with("argument "), arguments, "{way}");
        let variables = lines_with("variable ");
        assert!(variables.contains(&"FIRST=a"), "{way}: {variables:?}");
        assert!(
            !variables.iter().any(|it| it.starts_with("LD_PRELOAD")),
            "{way}: {variables:?}"
        );
        let printed = printed(&recording);
        assert!(
            printed.contains("the recorder's file cannot be read from where it runs"),
            "{way}: {printed}"
        );
    }
}

/// What the user preloads beside the recorder stays.
#[test]
fn only_the_recorder_is_taken_out_of_the_list() {
    let folder = tempfile::tempdir().expect("there is room");
    let library = own_recorder(folder.path());
    let users = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if !Path::new(users).exists() {
        return skip("jemalloc is not here (Debian package libjemalloc2)");
    }
    let shown = record(compiled("starting.c"))
        .option("-q")
        .option("--recorder")
        .option(&library)
        .env("LD_PRELOAD", users)
        .arg("execl")
        .arg(&library)
        .arg(compiled("showing.c"))
        .run()
        .code(5)
        .text();
    let expected = format!("variable LD_PRELOAD={users}");
    assert!(shown.lines().any(|line| line == expected), "{shown}");
}

/// An allocator linked into a child, which exports its `malloc` and no `free`.
#[test]
fn a_child_with_a_malloc_of_its_own() {
    let program = compiled_with("own_malloc.c", &["-rdynamic", "-DONLY_MALLOC"]);
    let recording = started("execv", &program);
    let printed = printed(&recording);
    printed.has_all(["a malloc of its own", "own_malloc"]);
}

/// An executable at a fixed address that takes the address of `malloc` has a
/// symbol of that name with an address, which is no definition.
///
/// Reported: node and python3 are said not to be recorded.
#[test]
fn a_program_that_takes_the_address_of_malloc() {
    let program = compiled_with("address_taken.c", &["-fno-pie", "-no-pie"]);
    let entries = run(
        Command::new("readelf")
            .args(["--dyn-syms", "--wide"])
            .arg(&program),
        b"",
    )
    .text();
    let of_malloc = entries.lines().find(|line| line.contains(" malloc"));
    let of_malloc: Vec<&str> = of_malloc.expect("it uses malloc").split(' ').collect();
    assert!(
        of_malloc.contains(&"UND") && !of_malloc.contains(&"0000000000000000"),
        "this compiler makes no such symbol: {of_malloc:?}"
    );
    let recording = record(&program).run().ok();
    recording.stderr.lacks("warning");
    let report = recording.report();
    let process = report.only();
    let sums = ["through_pointer", "direct"].map(|function| process.under(function));
    assert_eq!(
        sums.map(|it| (it.allocations, it.bytes)),
        [(30, 300), (20, 400)]
    );
    let printed = printed(&recording);
    printed.lacks("not recorded");
    allotrope(["doctor".as_ref(), program.as_os_str()]).lacks("of its own");
}

/// Another program at a fixed address, which does define it.
#[test]
fn a_program_at_a_fixed_address_with_a_malloc_of_its_own() {
    let flags = ["-rdynamic", "-fno-pie", "-no-pie", "-DONLY_MALLOC"];
    let program = compiled_with("own_malloc.c", &flags);
    let printed = printed(&started("execv", &program));
    printed.has("a malloc of its own");
}

/// Interpreters at fixed addresses that take the address of `malloc`.
#[test]
fn interpreters_have_no_malloc_of_their_own() {
    for (interpreter, option) in [("python3", "-c"), ("node", "-e")] {
        if !crate::support::is_installed(interpreter) {
            skip(&format!("{interpreter} is not here"));
            continue;
        }
        let recording = record(interpreter).args([option, "1"]).run();
        let recording = recording.ok();
        recording.stderr.lacks("a malloc of its own");
    }
}

/// The first program uses the C library's allocator, its child one that
/// defines C++'s operators as well.
#[test]
fn a_child_whose_allocator_defines_the_operators() {
    let allocator = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if !Path::new(allocator).exists() {
        return skip("jemalloc is not here (Debian package libjemalloc2)");
    }
    let recording = record("sh")
        .args(["-c", "LD_PRELOAD=$LD_PRELOAD:$1 $2", "sh", allocator])
        .arg(compiled("showing.c"))
        .run()
        .code(5);
    let printed = printed(&recording);
    printed.has_all(["was recorded only in part: its allocator", "libjemalloc"]);
}

#[test]
fn a_program_under_valgrind() {
    if !crate::support::is_installed("valgrind") {
        return skip("valgrind is not here");
    }
    let run = |tool: &str| {
        let recording = record("valgrind").args(["-q", tool, "--log-file=/dev/null"]);
        let out = format!(
            "--{}-out-file=/dev/null",
            tool.trim_start_matches("--tool=")
        );
        let recording = if tool == "--tool=memcheck" {
            recording
        } else {
            recording.arg(out)
        };
        let recording = recording.arg(compiled("showing.c")).run().code(5);
        printed(&recording)
    };
    let printed = run("--tool=memcheck");
    printed.has("valgrind puts its own malloc before");
    let printed = run("--tool=callgrind");
    printed.lacks("valgrind puts its own malloc before");
}

#[test]
fn a_namespace_of_its_own() {
    let recording = record(compiled("namespace.c")).run().ok();
    let printed = printed(&recording);
    printed.has_all(["was recorded only in part:", "opened with dlmopen"]);
    assert_eq!(
        printed.matches("opened with dlmopen").count(),
        2,
        "{printed}"
    );
}

/// A copy of `trusted.c` with these capabilities, which every user may execute.
fn capable(folder: &Path, capabilities: &str) -> Option<PathBuf> {
    let everybody = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, everybody).expect("the folder is ours");
    let program = folder.join("trusted");
    // By another process: a child of another test could inherit our descriptor, open
    // for writing, and then the copy could not be executed.
    let copied = Command::new("cp")
        .arg(compiled("trusted.c"))
        .arg(&program)
        .status();
    assert!(copied.expect("cp runs").success());
    let set = Command::new("setcap")
        .arg(capabilities)
        .arg(&program)
        .output();
    if !set.is_ok_and(|set| set.status.success()) {
        skip("file capabilities cannot be set here (root only; Debian package libcap2-bin)");
        return None;
    }
    Some(program)
}

/// Runs a command as nobody.
const AS_NOBODY: [&str; 4] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

/// A program whose environment the loader distrusts (AT_SECURE) is reported, once,
/// with `why`; any other is recorded. The program itself prints which of them it is.
#[track_caller]
fn expect_recorded_or_named(what: &str, command: &[&str], why: &str) -> bool {
    let recording = record(command[0]).args(&command[1..]).run();
    let recording = recording.code(5);
    let shown = recording.text();
    let distrusted = match shown.trim() {
        "distrusted" => true,
        "trusted" => false,
        _ => panic!("{what}: {shown}"),
    };
    let report = recording.report();
    let program = *command.last().expect("it is not empty");
    let images = report.processes();
    let recorded = images.iter().any(|it| it.command() == [program]);
    assert_eq!(recorded, !distrusted, "{what}: {}", report.summary());
    let named = recording.stderr.matches("was not recorded").count();
    assert_eq!(
        named,
        usize::from(distrusted),
        "{what}: {}",
        recording.stderr
    );
    assert!(
        !distrusted || recording.stderr.contains(why),
        "{what}: {}",
        recording.stderr
    );
    distrusted
}

#[test]
fn a_child_with_file_capabilities() {
    let why = "it has file capabilities";
    for (capabilities, confined, expected) in [
        ("cap_net_raw+ep", None, true),
        ("cap_net_raw+p", None, true),
        ("cap_net_raw+i", None, false),
        ("cap_net_raw+ep", Some("--no-new-privs"), true),
        ("cap_net_raw+p", Some("--no-new-privs"), false),
    ] {
        let folder = tempfile::tempdir().expect("there is room");
        let Some(program) = capable(folder.path(), capabilities) else {
            return;
        };
        let program = program.to_str().expect("it is ASCII");
        let starting = compiled("starting.c");
        let starting = starting.to_str().expect("it is ASCII");
        for way in ["replace", "execv", "vfork", "posix_spawn"] {
            let mut command = AS_NOBODY.to_vec();
            command.extend(confined);
            command.extend([starting, way, "-", program]);
            let what = format!("{capabilities} {confined:?} {way}");
            let distrusted = expect_recorded_or_named(&what, &command, why);
            let mount = rustix::fs::statvfs(program).expect("it exists");
            let nosuid = rustix::fs::StatVfsMountFlags::NOSUID;
            if !mount.f_flag.contains(nosuid) {
                assert_eq!(distrusted, expected, "{what}");
            }
        }
        // Root gains no rights by them, so the loader trusts the environment.
        let command = [starting, "execv", "-", program];
        assert!(!expect_recorded_or_named(capabilities, &command, why));
    }
}

/// `record` itself refuses such a program.
#[test]
fn a_first_program_with_file_capabilities() {
    let folder = tempfile::tempdir().expect("there is room");
    let Some(program) = capable(folder.path(), "cap_net_raw+ep") else {
        return;
    };
    let run = record(&program);
    let inner = run.command();
    let mut command = Command::new(AS_NOBODY[0]);
    command.args(&AS_NOBODY[1..]).arg(inner.get_program());
    command.args(inner.get_args()).current_dir("/");
    let output = crate::support::run(&mut command, b"");
    let printed = output.errors();
    if matches!(output.status.code(), Some(126 | 127)) {
        return skip("the command under test is not for others");
    }
    assert_eq!(output.status.code(), Some(125), "{printed}");
    printed.has("has file capabilities");
}

/// The child is as in a server that runs as root and acts as a user.
#[test]
fn a_child_of_a_process_that_acts_as_another_user() {
    if !crate::support::is_root() {
        return skip("only root can act as another user");
    }
    let program = compiled("trusted.c");
    let program = program.to_str().expect("it is ASCII");
    let why = "with another user's or group's rights";
    let command = ["setpriv", "--euid=65534", program];
    assert!(expect_recorded_or_named("seteuid", &command, why));
}

/// Each is reported, however short it lives and whatever call starts it.
#[test]
fn a_child_whose_environment_was_cleared() {
    let program = compiled("showing.c");
    let program = program.to_str().expect("it is ASCII");
    let spawn = format!(
        "import os; p={program:?}; os._exit(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(p,[p],{{}}),0)[1]))"
    );
    let cases: [&[&str]; 6] = [
        &["env", "-i", program],
        &["sh", "-c", "env -i \"$1\"; exit 5", "sh", program],
        &["env", "-u", "LD_PRELOAD", program],
        &["env", "LD_PRELOAD=libm.so.6", program],
        &["env", "-u", "ALLOTROPE_ARENA", program],
        &["python3", "-c", &spawn],
    ];
    for command in cases {
        let recording = record(command[0]).args(&command[1..]).run();
        let recording = recording.code(5);
        let printed = printed(&recording);
        let named = format!("({program}) was not recorded: it was started with an environment");
        assert_eq!(printed.matches(&named).count(), 1, "{command:?}: {printed}");
        assert_eq!(printed.matches("was not recorded").count(), 1, "{printed}");
    }
}

/// A loader with a program as its argument is not taken for a static program.
#[test]
fn a_program_that_a_loader_starts() {
    const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
    for way in ["execv", "vfork", "posix_spawn"] {
        let recording = record(compiled("starting.c"))
            .args([way, "-", LOADER])
            .arg(compiled("showing.c"))
            .run()
            .code(5);
        assert!(
            !recording.stderr.contains("not recorded"),
            "{way}: {}",
            recording.stderr
        );
        let report = recording.report();
        assert_eq!(report.processes().len(), 2, "{way}: {}", report.summary());
    }
}
