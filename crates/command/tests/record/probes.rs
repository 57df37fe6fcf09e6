//! The static probes of a program that is sampled: who looks counts as many hits as the program
//! has calls.

use std::fs;
use std::process::Command;

use crate::support::record::command;
use crate::support::watched::Program;
use crate::support::{Started, Text, is_installed, run, until};
use rustix::process::Signal;

/// `programs/watched.c`, all blocks of which are sampled; below another program, if one is given.
fn watched(below: Option<&[&str]>) -> Program {
    let standby = command();
    let mut start = match below {
        Some(words) => {
            let mut start = Command::new(words[0]);
            start.args(&words[1..]).arg(standby.get_program());
            start
        }
        None => standby,
    };
    Program::start(start.args(["standby", "--no-holder", "--period", "1"]))
}

/// The path of the recorder that the program has loaded.
fn recorder(program: &Program) -> String {
    let maps = fs::read_to_string(format!("/proc/{}/maps", program.id()));
    let maps = maps.expect("our child");
    let mut paths = maps.lines().filter_map(|it| it.split_whitespace().nth(5));
    let recorder = paths.find(|it| it.contains("liballotrope_recorder"));
    recorder.expect("the recorder").to_owned()
}

/// 7 and 5 blocks, a reallocation of each, all freed: by each of the probes' names, its hits.
fn calls(program: &mut Program) -> Vec<(&'static str, u64)> {
    program.tell("malloc 7 4321");
    program.tell("calloc 5 4321");
    program.tell("realloc 8642");
    program.tell("free");
    vec![
        ("malloc", 7),
        ("calloc", 5),
        ("realloc_from_tracked", 12),
        ("free", 12),
    ]
}

#[test]
fn the_library_has_a_note_for_each_probe() {
    let program = watched(None);
    let text = run(
        Command::new("readelf").args(["-n", &recorder(&program)]),
        b"",
    )
    .text();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (name, arguments) in [
        ("malloc", 4),
        ("calloc", 6),
        ("realloc", 6),
        ("realloc_from_tracked", 7),
        ("realloc_to_regular", 5),
        ("free", 4),
    ] {
        let is_it = |at: &usize| lines[*at] == format!("Name: {name}");
        let places: Vec<usize> = (0..lines.len()).filter(is_it).collect();
        assert!(!places.is_empty(), "{name}: {text}");
        for at in places {
            assert_eq!(lines[at - 1], "Provider: allotrope");
            let found = lines[at + 2].strip_prefix("Arguments: ");
            let found = found.expect("arguments").split_whitespace().count();
            assert_eq!(found, arguments, "{name}: {text}");
        }
    }
}

#[test]
fn bpftrace_counts_every_sample() {
    if !is_installed("bpftrace") {
        return println!("skipped: bpftrace is not installed");
    }
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root may use bpftrace");
    }
    let mut program = watched(None);
    let recorder = recorder(&program);
    // The sizes tell the test's blocks from others; a sample at this period stands for itself.
    let probe = |name: &str, size: &str, filter: &str| {
        format!(
            "usdt:{recorder}:allotrope:{name} /pid == {} && {filter}/ \
             {{ @{name} = count(); @bytes_{name} = sum({size}); }}\n",
            program.id()
        )
    };
    let script = [
        "interval:ms:200 { printf(\"attached\\n\"); }\n".to_owned(),
        probe("malloc", "arg3", "arg2 == 4321"),
        probe("calloc", "arg5", "arg0 * arg1 == 4321 && arg4 == 4321"),
        probe(
            "realloc_from_tracked",
            "arg5",
            "arg2 == 4321 && arg5 == 8642",
        ),
        probe("free", "arg3", "arg2 == 8642"),
    ];
    let mut command = Command::new("bpftrace");
    command.args(["-e", &script.concat(), "-p"]);
    let mut bpftrace = Started::new(command.arg(program.id().to_string()));
    // It fails if the kernel does not let it attach itself.
    until("it is attached", || {
        bpftrace.has_ended() || bpftrace.has_written("attached")
    });
    if !bpftrace.has_written("attached") {
        bpftrace.end().says("permitted");
        return println!("skipped: the kernel refuses bpftrace");
    }
    let calls = calls(&mut program);
    bpftrace.signal(Signal::INT);
    let text = bpftrace.end().text();
    let text: Vec<&str> = text.lines().collect();
    for (name, hits) in calls {
        let size = if name.starts_with("realloc") || name == "free" {
            8642
        } else {
            4321
        };
        for line in [
            format!("@{name}: {hits}"),
            format!("@bytes_{name}: {}", hits * size),
        ] {
            assert!(text.contains(&&*line), "{line}: {text:#?}");
        }
    }
}

#[test]
fn perf_counts_every_sample() {
    if !is_installed("perf") {
        return println!("skipped: perf is not installed");
    }
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root may make probes");
    }
    let home = tempfile::tempdir().expect("a folder");
    let recorder = recorder(&watched(None));
    let perf = |arguments: &[&str]| {
        let mut perf = Command::new("perf");
        perf.arg("--buildid-dir").arg(home.path()).args(arguments);
        let output = run(&mut perf, b"");
        let errors = output.errors();
        (output.status.success(), errors)
    };
    let (is_added, errors) = perf(&["buildid-cache", "--add", &recorder]);
    assert!(is_added, "{errors}");
    let events = ["malloc", "calloc", "realloc_from_tracked", "free"];
    let events = events.map(|name| format!("sdt_allotrope:{name}"));
    // They are the machine's: an earlier run may have left them, for another library.
    let delete = || perf(&["probe", "--del", "sdt_allotrope:*"]);
    delete();
    for event in &events {
        let (is_made, errors) = perf(&["probe", event]);
        if !is_made {
            return println!("skipped: the kernel refuses perf's probes: {errors}");
        }
    }
    let counts = home.path().join("counts");
    let counts = counts.to_str().expect("UTF-8");
    let stat = [
        "perf",
        "stat",
        "-x,",
        "-o",
        counts,
        "-e",
        &events.join(","),
        "--",
    ];
    let mut program = watched(Some(&stat));
    let calls = calls(&mut program);
    program.end();
    record_and_report(home.path());
    delete();
    let text = fs::read_to_string(counts).expect("perf wrote it");
    for (name, hits) in calls {
        // `free` and what the C library does: blocks of the test and no others.
        let line = format!("{hits},,sdt_allotrope:{name},");
        assert!(
            text.lines().any(|it| it.starts_with(&line)),
            "{line}: {text}"
        );
    }
}

/// What perf has recorded becomes a report: 12 blocks stay.
fn record_and_report(folder: &std::path::Path) {
    let data = folder.join("data").to_string_lossy().into_owned();
    let events = "sdt_allotrope:malloc,sdt_allotrope:calloc,sdt_allotrope:free";
    let record = [
        "perf",
        "record",
        "-q",
        "--call-graph",
        "dwarf",
        "-e",
        events,
        "-o",
        &data,
    ];
    let mut program = watched(Some(&[&record[..], &["--"]].concat()));
    program.tell("malloc 2 1000");
    program.tell("free");
    program.tell("malloc 7 4321");
    program.tell("calloc 5 1000");
    program.end();
    let script = run(Command::new("perf").args(["script", "-i", &data]), b"");
    let path = folder.join("script");
    fs::write(&path, &script.stdout).expect("our folder");
    let mut watch = command();
    watch.arg("watch").arg("--perf-script").arg(&path);
    let output = run(watch.args(["--period", "1", "--format", "json"]), b"");
    let text = output.text();
    assert!(output.status.success(), "{}", output.errors());
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["live_blocks"], 12, "{report:#}");
    assert_eq!(report["live_bytes"], 7 * 4321 + 5 * 1000, "{report:#}");
    let first = report["sites"][0]["stack"].to_string();
    first.has_all(["by_malloc", "main"]);
}

#[test]
fn what_is_no_output_of_perf_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("text");
    fs::write(&path, "nothing of the kind\n\0\u{7f}\n").expect("our folder");
    for (file, part) in [
        (path.as_path(), "has no events"),
        (folder.path(), "cannot read"),
        (std::path::Path::new("/no/such/file"), "cannot read"),
    ] {
        let mut watch = command();
        watch.arg("watch").arg("--perf-script").arg(file);
        run(&mut watch, b"").code(2).says(part);
    }
}

/// What the shell names for `<(perf script)`. One block of 4,321 bytes stays, sampled with one byte.
#[test]
fn the_output_of_perf_comes_through_a_pipe() {
    let lines = "     0.000 watched/22263 sdt_allotrope:malloc(__probe_ip: 139863, arg1: -2, arg2: 4096, arg3: 4321, arg4: 4321)
     0.100 watched/22263 sdt_allotrope:malloc(__probe_ip: 139863, arg1: -3, arg2: 8192, arg3: 99, arg4: 99)
     0.134 watched/22263 sdt_allotrope:free(__probe_ip: 139863, arg1: -3, arg2: 8192, arg3: 99, arg4: 99)
";
    let script = "exec \"$0\" watch --perf-script <(printf %s \"$1\") --period 1 --format json";
    let report: serde_json::Value = run(
        Command::new("bash")
            .args(["-c", script])
            .arg(command().get_program())
            .arg(lines),
        b"",
    )
    .ok()
    .json();
    assert_eq!(report["live_blocks"], 1, "{report:#}");
    assert_eq!(report["live_bytes"], 4321, "{report:#}");
}
