//! Programs and libraries that are replaced on disk while they run, or that another file
//! hides: what `watch`, `watch --output` and a live look at a recording name, they name by the
//! file that runs. No name of another file appears; where the right file cannot be reached, a
//! warning says so. Each situation is tried with and without build ids.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::record::command;
use crate::support::watched::Program;
use crate::support::{Started, allotrope, compiled, compiled_with, is_root, record, run, skip};
use serde_json::Value;

const BUILD_IDS: [&str; 2] = ["-Wl,--build-id=sha1", "-Wl,--build-id=none"];
const ANOTHER_BUILD: &str = "another build, or not proven to be the one that ran";

/// The watched program, of which another build has another name for a function.
fn program(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    copy(compiled_with("watched.c", more), folder.join(name))
}

fn plugin(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    let flags: Vec<&str> = ["-shared", "-fPIC", "-DKEEP"]
        .iter()
        .chain(more)
        .copied()
        .collect();
    copy(compiled_with("module_plugin.c", &flags), folder.join(name))
}

fn copy(from: PathBuf, to: PathBuf) -> PathBuf {
    fs::copy(from, &to).expect("the folder is ours");
    to
}

fn standby() -> Command {
    let mut command = command();
    command.args(["standby", "--quiet", "--no-holder", "--period", "1", "--"]);
    command
}

/// Writes another build into the file of a library that is mapped.
fn overwrite(path: &Path, new: &Path) {
    let bytes = fs::read(new).expect("ours");
    let mut file = File::options().write(true).open(path).expect("ours");
    file.write_all(&bytes).expect("ours");
    file.set_len(bytes.len() as u64).expect("ours");
}

fn json(bytes: &[u8]) -> Value {
    let line = bytes.split(|&byte| byte == b'\n').next();
    serde_json::from_slice(line.expect("a line")).expect("JSON")
}

/// What the commands that look at a process show: the frames and the warnings, of `watch`
/// and of the profile that `watch --output` writes.
fn shown(process: u32, folder: &Path) -> [(Vec<Value>, String); 2] {
    let process = process.to_string();
    let run = |arguments: &[&str]| run(command().args(arguments), b"").ok().stdout;
    let watch = run(&[
        "watch", &process, "--once", "--format", "json", "--top", "999",
    ]);
    let watch = json(&watch);
    let sites = watch["sites"].as_array().expect("sites").iter();
    let stacks = sites.flat_map(|site| site["stack"].as_array().expect("a stack"));
    let watched = (stacks.cloned().collect(), watch["warnings"].to_string());
    let profile = folder.join("profile");
    let profile = profile.to_str().expect("plain names");
    run(&["watch", &process, "--output", profile]);
    let saved = json(&run(&["report", profile, "--format", "json"]));
    crate::support::schema::check_sampled(&saved);
    let frames = saved["frames"].as_array().expect("frames").clone();
    // Text has the warning, too.
    let text = run(&["report", profile]);
    let text = String::from_utf8_lossy(&text).into_owned();
    let is_warned = saved["warnings"].to_string().contains(ANOTHER_BUILD);
    assert_eq!(text.contains("another build"), is_warned, "{text}");
    fs::remove_file(profile).expect("it is there");
    [watched, (frames, saved["warnings"].to_string())]
}

fn has(frames: &[Value], function: &str) -> bool {
    frames.iter().any(|frame| frame["function"] == function)
}

/// The functions, and a warning about a nameless module, or none.
#[track_caller]
fn expect(shown: &[(Vec<Value>, String); 2], functions: &[&str], not: &str, warned: bool) {
    for (how, (frames, warnings)) in ["watch", "watch --output"].iter().zip(shown) {
        for function in functions {
            assert!(has(frames, function), "{how}, {function}: {frames:#?}");
        }
        assert!(!has(frames, not), "{how}, {not}: {frames:#?}");
        let is_warned = warnings.contains(ANOTHER_BUILD);
        assert_eq!(is_warned, warned, "{how}: {warnings}");
    }
}

/// Reported: after an upgrade, functions have names of the new file.
#[test]
fn a_program_that_was_upgraded_has_the_names_of_the_file_that_runs() {
    for build_id in BUILD_IDS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = program(folder.path(), "program", &[build_id]);
        let new = program(folder.path(), "new", &[build_id, "-Dby_malloc=new_malloc"]);
        let mut program = Program::start_as(standby().arg(&path));
        program.tell("malloc 30 4321");
        fs::rename(new, &path).expect("ours");
        let shown = shown(program.id(), folder.path());
        expect(&shown, &["by_malloc", "main"], "new_malloc", false);
        // Also if nothing is at its path any more.
        fs::remove_file(&path).expect("ours");
        let shown = self::shown(program.id(), folder.path());
        expect(&shown, &["by_malloc", "main"], "new_malloc", false);
    }
}

/// A host that is watched and has the library open.
fn host(path: &Path) -> Program {
    Program::start_as(
        standby()
            .arg(compiled("module_host.c"))
            .arg("asked")
            .arg(path),
    )
}

/// Only root of the initial namespace may follow `/proc/PID/map_files`, which leads to a
/// library that has no name any more.
#[test]
fn a_library_that_was_upgraded_has_its_own_names_or_none() {
    for build_id in BUILD_IDS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = plugin(folder.path(), "plugin.so", &[build_id]);
        let new = plugin(folder.path(), "new", &[build_id, "-DOTHER"]);
        let mut program = host(&path);
        program.tell("");
        fs::rename(new, &path).expect("ours");
        let shown = shown(program.id(), folder.path());
        let is_named = has(&shown[0].0, "plugin_block");
        let functions = ["plugin_block", "plugin_work", "work", "main"];
        let functions = &functions[if is_named { 0 } else { 2 }..];
        expect(&shown, functions, "other_block", !is_named);
    }
}

#[test]
fn a_library_that_was_overwritten_has_no_names() {
    for build_id in BUILD_IDS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = plugin(folder.path(), "plugin.so", &[build_id]);
        let new = plugin(folder.path(), "new", &[build_id, "-DOTHER"]);
        let mut program = host(&path);
        program.tell("");
        overwrite(&path, &new);
        let shown = shown(program.id(), folder.path());
        expect(&shown, &["work", "main"], "other_block", true);
        assert!(!has(&shown[0].0, "plugin_block"), "{shown:#?}");
    }
}

/// Reported: a library that is upgraded while `watch` runs loses its names.
#[test]
fn a_watcher_that_saw_the_library_before_it_was_upgraded_names_it() {
    for build_id in BUILD_IDS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = plugin(folder.path(), "plugin.so", &[build_id]);
        let new = plugin(folder.path(), "new", &[build_id, "-DOTHER"]);
        let mut program = host(&path);
        let id = program.id().to_string();
        let mut watch = command();
        watch.args(["watch", &id, "--every", "100ms", "--format", "json"]);
        let mut watcher = Started::new(watch.args(["--top", "999"]));
        let mut report = || watcher.object(|_| true);
        report();
        fs::rename(new, &path).expect("ours");
        program.tell("");
        let stack = loop {
            let report = report();
            let sites = report["sites"].as_array().expect("sites").clone();
            let of_plugin = sites.into_iter().find(|site| {
                let stack = site["stack"].as_array().expect("a stack").iter();
                let path = path.to_str().expect("plain names");
                stack.clone().any(|frame| frame["module"] == path)
            });
            if let Some(site) = of_plugin {
                break site["stack"].clone();
            }
        };
        let functions = |at: usize| stack[at]["function"].as_str().expect("text").to_owned();
        assert_eq!(functions(0), "plugin_block", "{build_id} {stack:#}");
        assert_eq!(functions(1), "plugin_work", "{build_id} {stack:#}");
    }
}

/// The process is as in a container: it has another file at the path than the host.
#[test]
fn a_path_that_leads_to_another_file_in_the_process_gives_that_files_names() {
    let unshare = if is_root() { "-m" } else { "-Urm" };
    let script = "mount --bind \"$0\" \"$1\" && exec \"$1\"";
    let can = Command::new("unshare").args([unshare, "true"]).output();
    if !can.is_ok_and(|it| it.status.success()) {
        return skip("users may make no namespaces here");
    }
    for build_id in BUILD_IDS {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = program(folder.path(), "inside", &[build_id]);
        let path = program(
            folder.path(),
            "program",
            &[build_id, "-Dby_malloc=new_malloc"],
        );
        let mut command = standby();
        command.args(["unshare", unshare, "sh", "-c", script]);
        let mut program = Program::start_as(command.arg(&inside).arg(&path));
        program.tell("malloc 30 4321");
        // No other name leads to the file that runs.
        fs::remove_file(&inside).expect("ours");
        let shown = shown(program.id(), folder.path());
        expect(&shown, &["by_malloc", "main"], "new_malloc", false);
    }
}

/// Short-lived processes that have another file at their path than the host.
#[test]
fn recorded_processes_have_the_names_of_the_file_that_they_see() {
    let unshare = if is_root() { "-m" } else { "-Urm" };
    let script = "mount --bind \"$0\" \"$1\" && \
                  for i in 1 2 3 4 5 6 7 8 9 10; do \"$1\" chain || exit 1; done";
    let can = Command::new("unshare").args([unshare, "true"]).output();
    if !can.is_ok_and(|it| it.status.success()) {
        return skip("users may make no namespaces here");
    }
    for build_id in BUILD_IDS {
        // On a machine under load a process may be gone before its file could be opened. It has no
        // names then, and no other file's.
        let mut named = 0;
        for _ in 0..10 {
            let run = record("unshare").args([unshare, "sh", "-c", script]);
            let right = compiled_with("attribution.c", &[build_id]);
            let other = compiled_with("attribution.c", &[build_id, "-Dleaf=other_leaf"]);
            let inside = copy(right, run.folder().join("inside"));
            let path = copy(other, run.folder().join("program"));
            let recording = run.arg(&inside).arg(&path).run().ok();
            let report = recording.report();
            named = 0;
            for process in report.processes() {
                assert!(process.sites_under("other_leaf").is_empty(), "{build_id}");
                named += usize::from(!process.sites_under("leaf").is_empty());
            }
            if named == 10 {
                break;
            }
            let is_warned = recording.stderr.contains("/program: ");
            assert!(is_warned, "{named} {}", recording.stderr);
        }
        assert_eq!(named, 10, "{build_id}");
    }
}

/// `report` of a recording that goes on finds the names itself.
#[test]
fn a_look_at_a_running_recording_names_nothing_by_a_new_file() {
    for build_id in BUILD_IDS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = program(folder.path(), "program", &[build_id]);
        let new = program(folder.path(), "new", &[build_id, "-Dby_malloc=new_malloc"]);
        let trace = folder.path().join("trace");
        let mut command = command();
        command.args(["record", "-o"]).arg(&trace).arg("--");
        let mut program = Program::start_as(command.arg(&path));
        program.tell("malloc 30 4321");
        fs::rename(new, &path).expect("ours");
        let mut functions = Vec::new();
        // What was drained is in the file some time later.
        while !functions.iter().any(|it| it == "main") {
            let mut report = crate::support::record::command();
            report.args(["report", "--format", "json"]).arg(&trace);
            let output = run(&mut report, b"");
            let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
                continue;
            };
            let frames = report["frames"].as_array().expect("frames");
            let names = frames.iter().map(|frame| frame["function"].to_string());
            functions = names.map(|it| it.trim_matches('"').to_owned()).collect();
            assert!(
                !functions.iter().any(|it| it == "new_malloc"),
                "{functions:?}"
            );
            if functions.iter().any(|it| it.starts_with("program+0x")) {
                break;
            }
        }
        program.end().ok();
        let output = allotrope(["report", "--format", "json", trace.to_str().unwrap()]);
        let report = json(&output.stdout);
        let frames = report["frames"].as_array().expect("frames");
        assert!(has(frames, "by_malloc"), "{build_id}");
        assert!(!has(frames, "new_malloc"), "{build_id}");
    }
}
