//! JIT code: a frame has the name that its code had when it allocated, and with
//! `--frame-pointers` stacks go on beyond it.

use std::path::PathBuf;
use std::process::Command;

use crate::support::report::Sums;
use crate::support::{Process, Record, compiled, record, skip};

const C: &str = "jit_code.c";

fn sums(allocations: u64, bytes: u64) -> (u64, u64) {
    (allocations, bytes)
}

fn of(found: Sums) -> (u64, u64) {
    (found.allocations, found.bytes)
}

/// Removes the perf map that the program leaves in /tmp.
fn remove_map(process: &Process<'_>) {
    let pid = process.number("pid");
    let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
}

/// A perf map has no timestamps: the collector notices a change within some 10 ms,
/// on a loaded machine later. The test retries with longer pauses of the program.
#[test]
fn a_map_names_code_as_it_was_when_it_allocated() {
    let mut pause = 200;
    loop {
        let run = record(compiled(C)).args(["map", &pause.to_string()]);
        let report = run.run().ok().report();
        let process = report.only();
        remove_map(&process);
        let found = (
            of(process.under("first version")),
            of(process.under("second version")),
        );
        if found == (sums(50, 50 * 7), sums(30, 30 * 9)) {
            return;
        }
        assert!(pause < 20_000, "{found:?}");
        // However late the change is noticed, every allocation has one of the names.
        assert_eq!(found.0.0 + found.1.0, 80, "{found:?}");
        pause *= 5;
    }
}

/// A jitdump file has timestamps of its own.
#[test]
fn a_dump_names_code_as_it_was_when_it_allocated() {
    let run = record(compiled(C)).args(["dump", "20"]);
    let report = run.run().ok().report();
    let process = report.only();
    assert_eq!(of(process.under("first version")), sums(50, 50 * 7));
    assert_eq!(of(process.under("second version")), sums(30, 30 * 9));
}

#[test]
fn jit_code_ends_a_stack_unless_frame_pointers_are_followed() {
    let plain = record(compiled(C)).arg("between").run().ok();
    let report = plain.report();
    let process = report.only();
    remove_map(&process);
    let site = process.site_under("allocates");
    assert_eq!(process.functions(site), ["allocates", "jit between"]);

    let run = record(compiled(C))
        .option("--frame-pointers")
        .arg("between");
    let report = run.run().ok().report();
    let process = report.only();
    remove_map(&process);
    let site = process.site_under("allocates");
    let functions = process.functions(site);
    assert_eq!(functions[..3], ["allocates", "jit between", "main"]);
    assert_eq!(functions.last(), Some(&"_start"));
    assert_eq!(of(process.under("allocates")), sums(20, 20 * 11));
}

/// The program is in a container that ends with it: the map is in a folder that only the process
/// has, under the id that only its own namespace has, and is gone when the process has ended.
///
/// Reported: JIT code of a container that ends at once has no names.
#[test]
fn a_map_in_a_container_that_is_gone_at_once_names_code() {
    let unshare = if crate::support::is_root() {
        "-mpf"
    } else {
        "-Urmpf"
    };
    let script = "mount -t tmpfs tmpfs /tmp && exec \"$0\" map 0";
    let can = Command::new("unshare")
        .args([
            unshare,
            "--mount-proc",
            "mount",
            "-t",
            "tmpfs",
            "tmpfs",
            "/tmp",
        ])
        .output();
    if !can.is_ok_and(|it| it.status.success()) {
        return skip("users may make no namespaces here");
    }
    // On a machine under load the process may be gone before the collector has seen it.
    let named = (0..10).map(|_| {
        // The recorder must not be in the folder that is hidden.
        let recorder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let run = record("unshare")
            .env("XDG_CACHE_HOME", recorder.path())
            .env("TMPDIR", recorder.path())
            .args([unshare, "--mount-proc", "sh", "-c", script])
            .arg(compiled(C));
        let report = run.run().ok().report();
        let sums = report.processes().into_iter().map(|process| {
            let versions = ["first version", "second version"];
            versions.map(|it| process.under(it).allocations)
        });
        // How late the change of the code is noticed is not certain, but all has a name.
        sums.flatten().sum::<u64>()
    });
    assert!(named.into_iter().any(|named| named == 80));
}

/// Whether an interpreter is installed and takes these options; skips if not.
fn runtime(program: &str, options: &[&str], package: &str) -> bool {
    // Interpreters leave files in their working folder.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(program)
        .args(options)
        .current_dir(folder.path())
        .output();
    let works = output.is_ok_and(|output| output.status.success());
    if !works {
        skip(&format!(
            "no {program} that takes {options:?} (package {package})"
        ));
    }
    works
}

const SCRIPT: &str = "
function allocatesOften(n) {
  let kept = [];
  for (let i = 0; i < n; i++) kept.push(Buffer.alloc(20000));
  return kept.length;
}
let total = 0;
for (let i = 0; i < 40; i++) total += allocatesOften(50);
console.log(total);
";

fn script(run: &Record, name: &str, text: &str) -> PathBuf {
    let path = run.folder().join(name);
    std::fs::write(&path, text).expect("the folder is ours");
    path
}

#[test]
fn functions_of_node_are_on_the_stacks_of_what_they_allocate() {
    let options = ["--perf-basic-prof", "--interpreted-frames-native-stack"];
    let probe = [&options[..], &["-e", "0"]].concat();
    if !runtime("node", &probe, "nodejs") {
        return;
    }
    let run = record("node").option("--frame-pointers").args(options);
    let script = script(&run, "script.js", SCRIPT);
    let report = run.arg(script).run().ok().report();
    let process = report.only();
    remove_map(&process);
    let found = process.under("allocatesOften");
    // Each buffer is a block of its own; the engine allocates more.
    assert!(
        found.allocations >= 2000 && found.bytes >= 2000 * 20_000,
        "{found:?}"
    );
    let sites = process.sites_under("allocatesOften");
    let most = |site: &&&serde_json::Value| site["allocations"].as_u64();
    let site = sites.iter().max_by_key(most).expect("it was found by them");
    let stack = process.stack(site);
    let frame = stack.iter().find(|it| it["function"] == "allocatesOften");
    let frame = frame.expect("it was found by it");
    assert!(
        crate::support::report::text(frame, "file").ends_with("script.js"),
        "{frame}"
    );
    assert_eq!(process.functions(site).last(), Some(&"_start"));
}

#[test]
fn functions_of_python_are_on_the_stacks_of_what_they_allocate() {
    // Without frame pointers, a trampoline of Python cannot be unwound.
    let probe = "import sys, sysconfig; \
        flags = sysconfig.get_config_var('PY_CORE_CFLAGS') or ''; \
        sys.exit(not ('-fno-omit-frame-pointer' in flags and sys.activate_stack_trampoline('perf') is None))";
    if !runtime(
        "python3",
        &["-c", probe],
        "python3 3.12 with frame pointers",
    ) {
        return;
    }
    let run = record("python3")
        .option("--frame-pointers")
        .env("PYTHONMALLOC", "malloc");
    let text =
        "def allocates_often():\n    return [bytes(3000) for _ in range(500)]\nallocates_often()\n";
    let script = script(&run, "script.py", text);
    let recording = run.args(["-X", "perf"]).arg(script).run().ok();
    let report = recording.report();
    let process = report.only();
    remove_map(&process);
    let named = process.where_stack(|stack| {
        let functions = stack
            .iter()
            .map(|it| crate::support::report::text(it, "function"));
        functions
            .into_iter()
            .any(|it| it.contains("allocates_often"))
    });
    assert!(named.allocations >= 500, "{named:?}");
}
