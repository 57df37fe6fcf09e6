//! What cannot be recorded: a clear message, the documented status, no file.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::{
    Recording, Text, allotrope, compiled, compiled_with, is_root, record, run, skip,
};

/// Expects at most three lines, with `what` in them, and nothing left in the folder.
fn expect_refusal(recording: &Recording, status: i32, what: &str) {
    assert_eq!(
        recording.status.code(),
        Some(status),
        "{}",
        recording.stderr
    );
    assert!(
        recording.stderr.contains(what),
        "{what} in {}",
        recording.stderr
    );
    assert!(recording.stdout.is_empty());
    recording.stderr.lacks("panicked");
    let paragraphs = recording.stderr.trim().lines().count();
    assert!((1..=3).contains(&paragraphs), "{}", recording.stderr);
    assert!(!recording.trace.exists(), "a file was left behind");
    let left = std::fs::read_dir(recording.folder.path()).expect("it exists");
    let left: Vec<_> = left
        .map(|entry| entry.expect("it can be read").file_name())
        .filter(|name| name != "kept")
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn a_missing_program() {
    let recording = record("no-such-program-anywhere").run();
    expect_refusal(&recording, 127, "no-such-program-anywhere");
    let recording = record("/no/such/folder/program").run();
    expect_refusal(&recording, 127, "/no/such/folder/program");
}

#[test]
fn a_file_that_is_not_executable() {
    let run = record("./kept");
    std::fs::write(run.folder().join("kept"), "just text\n").expect("the folder is ours");
    expect_refusal(&run.run(), 126, "kept");
}

#[test]
fn a_folder_is_not_executable() {
    let run = record("./kept");
    std::fs::create_dir(run.folder().join("kept")).expect("the folder is ours");
    expect_refusal(&run.run(), 126, "kept");
}

#[test]
fn a_static_program() {
    let program = compiled_with("stream.c", &["-static"]);
    let recording = record(&program).arg("10").run();
    expect_refusal(&recording, 125, "static");
}

/// `doctor` reports the same about the program.
fn expect_doctor_reports(program: &Path, what: &str) {
    let printed = allotrope(["doctor".as_ref(), program.as_os_str()]).text();
    let line = printed.lines().find(|line| line.contains("  program  "));
    let line = line.unwrap_or_else(|| panic!("no program in {printed}"));
    assert!(line.starts_with("problem"), "{line}");
    printed.has(what);
}

const SANITIZED: &str = "sanitized.c";

#[test]
fn address_sanitizers_shared_library() {
    let program = compiled_with(SANITIZED, &["-fsanitize=address"]);
    let why = "was built with AddressSanitizer";
    expect_refusal(&record(&program).run(), 125, why);
    expect_doctor_reports(&program, why);
}

/// With an option that lets it be loaded after others, it is an allocator library
/// like others.
#[test]
fn address_sanitizers_shared_library_that_may_come_later() {
    let options = "detect_leaks=0:verify_asan_link_order=0";
    let recording = record(compiled_with(SANITIZED, &["-fsanitize=address"]))
        .env("ASAN_OPTIONS", options)
        .run()
        .ok();
    expect_sanitized(&recording);
}

/// The counts of `sanitized.c`.
fn expect_sanitized(recording: &Recording) {
    let report = recording.report();
    let made = report.only().under("make_blocks");
    assert_eq!((made.allocations, made.bytes), (100, 1_000));
    assert_eq!((made.leaked, made.leaked_bytes), (7, 70));
}

#[test]
fn address_sanitizers_library_that_is_preloaded() {
    let library = run(Command::new("cc").arg("-print-file-name=libasan.so"), b"");
    let library = library.text().trim().to_owned();
    if !library.starts_with('/') {
        return skip("this compiler has no libasan.so");
    }
    let recording = record(compiled(SANITIZED)).env("LD_PRELOAD", library).run();
    expect_refusal(
        &recording,
        125,
        "is started with AddressSanitizer in LD_PRELOAD",
    );
}

/// The shared libraries of the other sanitizers may be loaded after others.
#[test]
fn other_sanitizers_shared_libraries() {
    for sanitizer in ["leak", "thread", "undefined"] {
        let program = compiled_with(SANITIZED, &[&format!("-fsanitize={sanitizer}")]);
        // They may not work in a sandbox, recorded or not.
        let run = record(&program).env("LSAN_OPTIONS", "detect_leaks=0");
        if run.plain().status.code() != Some(0) {
            skip(&format!("-fsanitize={sanitizer} does not work here"));
            continue;
        }
        expect_sanitized(&run.run().ok());
    }
}

#[test]
fn sanitizers_that_are_linked_in() {
    for (flags, name) in [
        (
            ["-fsanitize=address", "-static-libasan"],
            "AddressSanitizer",
        ),
        (["-fsanitize=leak", "-static-liblsan"], "LeakSanitizer"),
        (["-fsanitize=thread", "-static-libtsan"], "ThreadSanitizer"),
    ] {
        let program = compiled_with(SANITIZED, &flags);
        let why = format!("has {name} linked into it");
        expect_refusal(&record(&program).run(), 125, &why);
        expect_doctor_reports(&program, &why);
    }
}

/// clang links its own libraries into the program, unless an option says otherwise.
#[test]
fn clangs_sanitizers() {
    let folder = tempfile::tempdir().expect("there is room");
    for (flags, why) in [
        (&["address"][..], "has AddressSanitizer linked into it"),
        (&["leak"], "has LeakSanitizer linked into it"),
        (&["memory"], "has MemorySanitizer linked into it"),
        (&["thread"], "has ThreadSanitizer linked into it"),
        (&["dataflow"], "has DataFlowSanitizer linked into it"),
        (
            &["address", "-shared-libasan"],
            "was built with AddressSanitizer",
        ),
    ] {
        let program = folder.path().join(flags.join(""));
        let made = Command::new("clang")
            .arg(format!("-fsanitize={}", flags[0]))
            .args(&flags[1..])
            .arg(crate::support::compile::source_path(SANITIZED))
            .arg("-o")
            .arg(&program)
            .output();
        if !made.is_ok_and(|made| made.status.success()) {
            skip(&format!("clang cannot link -fsanitize={}", flags[0]));
            continue;
        }
        expect_refusal(&record(&program).run(), 125, why);
        expect_doctor_reports(&program, why);
    }
}

#[test]
fn a_setuid_program() {
    let run = record("./kept");
    let program = run.folder().join("kept");
    // By another process: a child of another test could inherit our descriptor, open
    // for writing, and then the copy could not be executed.
    let copied = Command::new("cp")
        .arg(compiled("stream.c"))
        .arg(&program)
        .status()
        .expect("cp runs");
    assert!(copied.success());
    if !is_root() {
        return skip("only root can make another user's setuid program");
    }
    let nobody = 65_534;
    std::os::unix::fs::chown(&program, Some(nobody), None).expect("we are root");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).expect("we are root");
    let mount = rustix::fs::statvfs(&program).expect("it exists");
    if mount.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID) {
        return skip("the temporary folder is mounted nosuid");
    }
    expect_refusal(&run.run(), 125, "setuid");
}

#[test]
fn a_missing_output_folder() {
    let recording = record(compiled("stream.c"))
        .arg("10")
        .output(Path::new("/no/such/folder/x.allotrope"))
        .run();
    expect_refusal(&recording, 125, "/no/such/folder");
}

#[test]
fn an_output_folder_that_is_not_writable() {
    // Not even root writes here.
    let recording = record(compiled("stream.c"))
        .arg("10")
        .output(Path::new("/proc/self/x.allotrope"))
        .run();
    expect_refusal(&recording, 125, "/proc/");
    if is_root() {
        return skip("every folder is writable for root");
    }
    let run = record(compiled("stream.c")).arg("10");
    let closed = run.folder().join("kept");
    std::fs::create_dir(&closed).expect("the folder is ours");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).expect("it is ours");
    let trace = closed.join("x.allotrope");
    let recording = run.output(&trace).run();
    expect_refusal(&recording, 125, "kept");
}

/// The program must not have run when the recording could not begin.
#[test]
fn nothing_runs_before_the_output_is_there() {
    let run = record("touch").arg("ran");
    let folder = run.folder().to_owned();
    run.output(Path::new("/no/such/folder/x.allotrope"))
        .run()
        .code(125);
    assert!(!folder.join("ran").exists());
}

#[test]
fn a_malformed_command_line() {
    for arguments in [
        &["record"][..],
        &["record", "--"],
        &["record", "--no-such-option", "--", "true"],
        &["record", "--on-full", "explode", "--", "true"],
    ] {
        let output = allotrope(arguments).code(125);
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    for arguments in [&["report"][..], &["report", "--metric", "x", "y"]] {
        let output = allotrope(arguments).code(2);
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    // Neither a subcommand nor a program: as if a shell had started it.
    allotrope(["reprot", "x"])
        .code(127)
        .says("did you mean `allotrope report`?");
}
