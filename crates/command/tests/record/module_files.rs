//! Which file names a module's code: the one that was mapped, wherever it is by now; and
//! never another one that lies at its path. Each situation is tried with and without build
//! ids.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Process, Record, Recording, Report, Text, allotrope, compiled, compiled_with, line_of, record,
};

const BUILD_IDS: [&str; 2] = ["-Wl,--build-id=sha1", "-Wl,--build-id=none"];
const LIBRARY: [&str; 2] = ["-shared", "-fPIC"];

/// A build of the plugin, in `folder` under this name.
fn plugin(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    let flags: Vec<&str> = LIBRARY.iter().chain(more).copied().collect();
    let path = folder.join(name);
    fs::copy(compiled_with("module_plugin.c", &flags), &path).expect("the folder is ours");
    path
}

/// The host, about to be recorded.
fn host(how: &str) -> Record {
    record(compiled("module_host.c")).arg(how)
}

/// The names of the stack with so many allocations, innermost first, without the folder of
/// a module.
#[track_caller]
fn names(process: Process<'_>, allocations: u64) -> Vec<String> {
    let found: Vec<_> = (process.sites().iter())
        .filter(|site| site["allocations"] == allocations)
        .collect();
    assert_eq!(found.len(), 1, "stacks with {allocations} allocations");
    let names = process.functions(found[0]);
    names.into_iter().map(str::to_owned).collect()
}

#[track_caller]
fn expect_names(recording: &Recording, allocations: u64, expected: [&str; 3]) {
    let report = Report::of(&recording.trace);
    let names = names(report.processes()[0], allocations);
    assert_eq!(names[..3], expected, "{names:?}");
}

const OWN: [&str; 3] = ["plugin_block", "plugin_work", "work"];

/// Reported: a library that is deleted once it is open has no names.
#[test]
fn a_library_that_is_deleted_as_soon_as_it_is_open_is_named() {
    for build_id in BUILD_IDS {
        let run = host("deleted");
        let path = plugin(run.folder(), "unpacked-1.so", &[build_id]);
        let recording = run.arg(&path).run().ok();
        expect_names(&recording, 300, OWN);
        let report = Report::of(&recording.trace);
        let lines = report.json["frames"].as_array().expect("checked");
        let line = line_of("module_plugin.c", "block");
        assert!(lines.iter().any(|it| it["line"] == line), "{build_id}");
    }
}

/// Reported: a library that exists in memory only has no names.
#[test]
fn a_library_in_memory_is_named() {
    for build_id in BUILD_IDS {
        let run = host("memory");
        let path = plugin(run.folder(), "plugin.so", &[build_id]);
        let recording = run.arg(&path).run().ok();
        expect_names(&recording, 300, OWN);
    }
}

/// Reported: a library that was opened by a relative path has no names.
#[test]
fn a_relative_path_leads_to_the_file_that_the_program_opened() {
    for build_id in BUILD_IDS {
        let run = host("relative");
        let data = run.folder().join("data");
        fs::create_dir(&data).expect("the folder is ours");
        plugin(&data, "plugin.so", &[build_id]);
        // Another one, where the program was started.
        plugin(run.folder(), "plugin.so", &[build_id, "-DOTHER"]);
        let recording = run.arg(&data).run().ok();
        expect_names(&recording, 300, OWN);
    }
}

#[test]
fn two_builds_at_one_path_are_two_modules() {
    for build_id in BUILD_IDS {
        let run = host("replaced");
        let path = run.folder().join("plugin.so");
        let first = plugin(run.folder(), "first", &[build_id]);
        let second = plugin(run.folder(), "second", &[build_id, "-DOTHER"]);
        let recording = run.arg(&path).args([&first, &second]).run();
        let recording = recording.ok();
        expect_names(&recording, 300, OWN);
        expect_names(&recording, 400, ["other_block", "plugin_work", "work"]);
    }
}

#[test]
fn a_file_that_replaces_a_mapped_one_names_nothing() {
    for build_id in BUILD_IDS {
        let run = host("upgraded");
        let path = plugin(run.folder(), "plugin.so", &[build_id]);
        let new = plugin(run.folder(), "new", &[build_id, "-DOTHER"]);
        let recording = run.arg(&path).arg(&new).run().ok();
        expect_names(&recording, 300, OWN);
        let trace = recording.trace.to_str().expect("plain names");
        allotrope(["symbolize", trace]).ok();
        expect_names(&recording, 300, OWN);
    }
}

#[test]
fn a_child_that_begins_after_the_file_was_replaced_has_the_old_names() {
    for build_id in BUILD_IDS {
        let run = host("forked");
        let path = plugin(run.folder(), "plugin.so", &[build_id]);
        let new = plugin(run.folder(), "new", &[build_id, "-DOTHER"]);
        let recording = run.arg(&path).arg(&new).run().ok();
        let report = Report::of(&recording.trace);
        let processes = report.processes();
        assert_eq!(names(processes[0], 300)[..3], OWN, "{build_id}");
        assert_eq!(names(processes[1], 400)[..3], OWN, "{build_id}");
    }
}

/// Another build is written into the file that is mapped, so that no file is left that is
/// the one that was. (A build id is read from memory, where it is the other one then, and so
/// is the code.)
#[test]
fn without_proof_only_unverified_takes_the_file_at_the_path() {
    let without = BUILD_IDS[1];
    let run = host("overwritten");
    let path = plugin(run.folder(), "plugin.so", &[without]);
    let new = plugin(run.folder(), "new", &[without, "-DOTHER"]);
    let recording = run.arg(&path).arg(&new).run().ok();
    let trace = recording.trace.to_str().expect("plain names");
    let expect_nameless = || {
        let report = Report::of(&recording.trace);
        let found = names(report.only(), 300);
        assert!(found[0].starts_with("plugin.so+0x"), "{found:?}");
        assert!(found[1].starts_with("plugin.so+0x"), "{found:?}");
    };
    expect_nameless();
    allotrope(["symbolize", trace])
        .ok()
        .says("no file is proven");
    expect_nameless();
    let text = allotrope(["report", "--lists", trace]).text();
    text.has("2 addresses have no names");
    // The code without a name heads the stack of 300 allocations, not its caller.
    let heads = |line: &&str| line.contains("#1") && line.contains("plugin.so+0x");
    assert!(text.lines().any(|line| heads(&line)), "{text}");
    allotrope(["symbolize", "--unverified", trace]).ok();
    expect_names(&recording, 300, ["other_block", "plugin_work", "work"]);
}

/// Reported: a program that ld-linux.so was executed for has no names.
#[test]
fn a_program_that_the_loader_was_executed_for_is_named() {
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    if !loader.exists() {
        eprintln!("skipped: no {}", loader.display());
        return;
    }
    for build_id in BUILD_IDS {
        let program = compiled_with("attribution.c", &[build_id]);
        let recording = record(loader).arg(&program).arg("chain").run();
        let recording = recording.ok();
        let report = Report::of(&recording.trace);
        let frames = report.json["frames"].as_array().expect("checked");
        for function in ["leaf", "middle", "outer"] {
            assert!(
                frames.iter().any(|it| it["function"] == function),
                "{build_id} {function}"
            );
        }
    }
}

/// On overlayfs `/proc/PID/maps` has another device than stat(2), in most configurations, and
/// containers run from it.
#[test]
fn a_program_on_overlayfs_is_named() {
    let unshare = if crate::support::is_root() {
        "-m"
    } else {
        "-Urm"
    };
    let script = "mount -t overlay overlay -o lowerdir=\"$0:$1\" \"$2\"";
    let folder = tempfile::tempdir().expect("a folder");
    let [lower, empty, mount] = ["lower", "empty", "mount"].map(|it| folder.path().join(it));
    for folder in [&lower, &empty, &mount] {
        fs::create_dir(folder).expect("the folder is ours");
    }
    let can = Command::new("unshare")
        .args([unshare, "sh", "-c", script])
        .args([&lower, &empty, &mount])
        .output();
    if !can.is_ok_and(|it| it.status.success()) {
        return crate::support::skip("the kernel refuses overlayfs here");
    }
    for build_id in BUILD_IDS {
        let program = compiled_with("attribution.c", &[build_id]);
        fs::copy(program, lower.join("program")).expect("the folder is ours");
        let script = format!("{script} && \"$2/program\" chain");
        // On a machine under load the mount may be gone before the file could be opened.
        let is_named = (0..10).any(|_| {
            let run = record("unshare").args([unshare, "sh", "-c", &script]);
            let recording = run.args([&lower, &empty, &mount]).run().ok();
            let report = Report::of(&recording.trace);
            let mut processes = report.processes().into_iter();
            processes.any(|process| !process.sites_under("leaf").is_empty())
        });
        assert!(is_named, "{build_id}");
    }
}

/// Test suites build a program, run it and remove it, many times: rustdoc and
/// Bazel among them.
#[test]
fn programs_in_folders_that_are_removed_at_once_are_named() {
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do \
                  mkdir d$i && cp \"$0\" d$i/short && d$i/short chain; rm -rf d$i; done";
    for build_id in BUILD_IDS {
        let program = compiled_with("attribution.c", &[build_id]);
        let recording = record("sh").args(["-c", script]).arg(&program).run();
        let report = Report::of(&recording.trace);
        let short: Vec<Process<'_>> = report.processes();
        let short = short.iter().filter(|process| {
            let executable = process.json["executable"].as_str().expect("checked");
            executable.ends_with("/short")
        });
        let mut count = 0;
        for process in short {
            count += 1;
            assert!(!process.sites_under("leaf").is_empty(), "{build_id}");
        }
        assert_eq!(count, 10, "{}", recording.stderr);
    }
}

#[test]
fn a_stripped_plugin_is_reported_with_the_share_of_its_allocations() {
    let run = host("deleted");
    let path = plugin(run.folder(), "plugin.so", &[BUILD_IDS[0]]);
    let done = Command::new("strip").arg("--strip-all").arg(&path).status();
    assert!(done.expect("binutils come with the compiler").success());
    // Without the dynamic symbols' addresses nothing names `plugin_block`.
    let recording = run.arg(&path).run().ok();
    let report = Report::of(&recording.trace);
    let names = names(report.only(), 300);
    assert!(names[0].starts_with("plugin.so+0x"), "{names:?}");
    assert_eq!(names[1], "plugin_work");
    // The code without a name heads the stack, not the host that calls it.
    let trace = recording.trace.to_str().expect("plain names");
    allotrope(["report", "--lists", trace]).has("plugin.so+0x");
}

/// That a system's program is stripped is usual: it is worth a line only if enough of the
/// allocations pass through it.
#[test]
fn little_code_without_names_is_a_warning_in_json_only() {
    // The host makes 300 of some 300 allocations, and then 300 of some 30,300.
    let warning = |line: &str| {
        line.contains("/host: ") && line.contains("of the allocations: its file has no symbols.")
    };
    for (others, is_warned) in [(0, true), (30_000, false)] {
        let script = "\"$0\" deleted \"$1\" && \"$2\" chain";
        let run = record("sh").args(["-c", script]);
        let host = run.folder().join("host");
        let stripped = compiled_with("module_host.c", &["-s", "-Wl,--build-id=none"]);
        fs::copy(stripped, &host).expect("the folder is ours");
        let path = plugin(run.folder(), "plugin.so", &[BUILD_IDS[0]]);
        let others = format!("-DTIMES={others}");
        let other = compiled_with("many_blocks.c", &[&others]);
        let recording = run.arg(&host).arg(&path).arg(&other).run();
        let recording = recording.ok();
        let is_printed = recording.stderr.lines().any(warning);
        assert_eq!(is_printed, is_warned, "{}", recording.stderr);
        let report = Report::of(&recording.trace);
        let all = report.json["warnings"].as_array().expect("checked");
        let mut all = all.iter().filter_map(|it| it.as_str());
        assert!(all.any(warning), "{others} {}", recording.stderr);
    }
}
