//! Tests the readers and writers with the tools themselves: reads files that heaptrack,
//! valgrind, bpftrace and Go write, and opens exported files with `go tool pprof` and
//! DHAT's viewer. Tests of tools that are not installed are skipped with a reason.
//!
//! The expected figures are derived from the sources of the recorded programs.

mod program;
mod tool;

use std::fs;
use std::path::Path;

use allotrope_formats::{ExportOptions, Format, Input, Read, exporter, read};
use allotrope_profile::{Metric, Module, StackSet};

use program::{LEAK_SIZE, LEAKS, PEAK_SIZE, PEAKS, TEMPORARY, TEMPORARY_SIZE};
use tool::{is_root, output, skip, tool};

/// The sum of a metric over the stacks that a function is part of.
fn figure(set: &StackSet, function: &str, metric: Metric) -> u64 {
    let has = |frame: &u32| &*set.frames[*frame as usize].function == function;
    let stacks = set
        .stacks
        .iter()
        .filter(|stack| stack.frames.iter().any(has));
    stacks.map(|stack| stack.figures[metric as usize]).sum()
}

/// Checks these metrics of the C program, which are the same from every tool.
fn check_truth(set: &StackSet, metrics: &[Metric]) {
    for (function, metric, expected) in [
        ("make_temporary", Metric::Allocations, TEMPORARY),
        ("make_temporary", Metric::Bytes, TEMPORARY * TEMPORARY_SIZE),
        ("make_temporary", Metric::Temporary, TEMPORARY),
        ("make_temporary", Metric::LeakedAllocations, 0),
        ("make_temporary", Metric::PeakBytes, 0),
        ("leak", Metric::Allocations, LEAKS),
        ("leak", Metric::LeakedAllocations, LEAKS),
        ("leak", Metric::LeakedBytes, LEAKS * LEAK_SIZE),
        ("leak", Metric::PeakBytes, LEAKS * LEAK_SIZE),
        ("hold", Metric::Allocations, PEAKS),
        ("hold", Metric::LeakedBytes, 0),
        ("hold", Metric::PeakAllocations, PEAKS),
        ("hold", Metric::PeakBytes, PEAKS * PEAK_SIZE),
    ] {
        if metrics.contains(&metric) {
            assert!(set.known.has(metric), "{metric:?}");
            assert_eq!(
                figure(set, function, metric),
                expected,
                "{function} {metric:?}"
            );
        }
    }
}

/// heaptrack's data file of the program.
fn heaptrack_file(folder: &Path, program: &Path) -> Option<std::path::PathBuf> {
    let mut heaptrack = tool("heaptrack")?;
    let file = folder.join("recorded");
    output(heaptrack.arg("-o").arg(&file).arg(program))?;
    let mut files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let found =
        files.find(|path| path.file_stem() == file.file_stem() && path.extension().is_some());
    found.or_else(|| skip("heaptrack wrote no file"))
}

fn heaptrack_read(folder: &Path) -> Option<(Read, std::path::PathBuf)> {
    let program = program::compiled(folder)?;
    let file = heaptrack_file(folder, &program)?;
    Some((read(&file).unwrap(), file))
}

#[test]
fn heaptrack_data_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some((read, _)) = heaptrack_read(folder.path()) else {
        return;
    };
    assert_eq!(read.format, Format::Heaptrack);
    assert!(read.notes.is_empty(), "{:?}", read.notes);
    check_truth(
        &read.set,
        &[
            Metric::Allocations,
            Metric::Bytes,
            Metric::Temporary,
            Metric::LeakedAllocations,
            Metric::LeakedBytes,
            Metric::PeakAllocations,
            Metric::PeakBytes,
        ],
    );
    let leaf = read
        .set
        .frames
        .iter()
        .find(|frame| &*frame.function == "allocate")
        .unwrap();
    assert_eq!(&*leaf.module, program::NAME);
    assert!(leaf.file.ends_with(program::SOURCE), "{leaf:?}");
    assert_eq!(leaf.line, program::line_of("malloc(size)"));
}

#[test]
fn heaptrack_print_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some((data, file)) = heaptrack_read(folder.path()) else {
        return;
    };
    let Some(print) = tool("heaptrack_print") else {
        return;
    };
    for merge in ["1", "0"] {
        let mut print = std::process::Command::new(print.get_program());
        let all = ["-n", "100000", "-s", "100000", "-l", "1", "-m", merge];
        let Some(text) = output(print.args(all).arg(&file)) else {
            return;
        };
        let path = folder.path().join("printed");
        fs::write(&path, &text).unwrap();
        let printed = read(&path).unwrap();
        assert_eq!(printed.format, Format::HeaptrackPrint);
        // The printed digits suffice for the program's sizes.
        check_truth(
            &printed.set,
            &[Metric::Allocations, Metric::LeakedBytes, Metric::PeakBytes],
        );
        assert_eq!(
            printed.set.total(Metric::Allocations),
            data.set.total(Metric::Allocations),
            "with -m {merge}:\n{text}"
        );
    }
}

#[test]
fn heaptracks_folded_stacks_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some((data, file)) = heaptrack_read(folder.path()) else {
        return;
    };
    let Some(mut print) = tool("heaptrack_print") else {
        return;
    };
    let path = folder.path().join("folded");
    if output(print.arg("-F").arg(&path).arg(&file)).is_none() {
        return;
    }
    let folded = read(&path).unwrap();
    assert_eq!(folded.format, Format::Folded);
    check_truth(&folded.set, &[Metric::Allocations]);
    assert_eq!(
        folded.set.total(Metric::Allocations),
        data.set.total(Metric::Allocations)
    );
}

#[test]
fn valgrinds_dhat_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(program), Some(mut valgrind)) = (program::compiled(folder.path()), tool("valgrind"))
    else {
        return;
    };
    let path = folder.path().join("dhat");
    let to = format!("--dhat-out-file={}", path.display());
    if output(valgrind.args(["--tool=dhat", &to]).arg(program)).is_none() {
        return;
    }
    let read = read(&path).unwrap();
    assert_eq!(read.format, Format::Dhat);
    check_truth(
        &read.set,
        &[
            Metric::Allocations,
            Metric::Bytes,
            Metric::LeakedAllocations,
            Metric::LeakedBytes,
            Metric::PeakAllocations,
            Metric::PeakBytes,
        ],
    );
    let inlined: Vec<_> = read
        .set
        .frames
        .iter()
        .filter(|frame| frame.inlined)
        .collect();
    assert!(
        inlined
            .iter()
            .any(|frame| &*frame.function == "inlined_one"),
        "{inlined:?}"
    );
}

#[test]
fn bpftrace_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(program), Some(mut bpftrace)) = (program::compiled(folder.path()), tool("bpftrace"))
    else {
        return;
    };
    if !is_root() {
        return skip("bpftrace needs root").unwrap_or_default();
    }
    let script = "uprobe:/lib/x86_64-linux-gnu/libc.so.6:malloc /pid == cpid/ { @malloc_calls[ustack()] = count(); }";
    let Some(text) = output(bpftrace.arg("-c").arg(program).args(["-e", script])) else {
        return;
    };
    if !text.contains("@malloc_calls[") {
        return skip("bpftrace counted nothing here").unwrap_or_default();
    }
    let path = folder.path().join("bpftrace");
    fs::write(&path, &text).unwrap();
    let read = read(&path).unwrap();
    assert_eq!(read.format, Format::Bpftrace);
    // bpftrace's stacks need frame pointers, and its names need a running process. So
    // only the number of calls is certain.
    assert!(
        read.set.total(Metric::Allocations) >= TEMPORARY + LEAKS + PEAKS,
        "{text}"
    );
}

/// The profiles of gperftools have no names: the program's stacks are found by their figures.
#[test]
fn gperftools_heap_profile_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4");
    if !library.exists() {
        return skip("gperftools' libtcmalloc is not installed").unwrap_or_default();
    }
    let Some(program) = program::compiled(folder.path()) else {
        return;
    };
    let prefix = folder.path().join("heap");
    let mut command = std::process::Command::new(&program);
    command
        .env("LD_PRELOAD", library)
        .env("HEAPPROFILE", &prefix);
    if output(&mut command).is_none() {
        return;
    }
    let files = fs::read_dir(folder.path()).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let Some(file) = files.find(|path| path.extension().is_some_and(|end| end == "heap")) else {
        return skip("gperftools wrote no file").unwrap_or_default();
    };
    let read = read(&file).unwrap();
    assert_eq!(read.format, Format::HeapProfile);
    let of_size = |metric: Metric, value: u64| {
        let mut stacks = read.set.stacks.iter();
        stacks.any(|stack| stack.figures[metric as usize] == value)
    };
    assert!(of_size(Metric::Bytes, PEAKS * PEAK_SIZE));
    assert!(of_size(Metric::LeakedBytes, LEAKS * LEAK_SIZE));
    assert!(of_size(Metric::Allocations, TEMPORARY));
    let prefix = format!("{}+0x", program::NAME);
    let mut frames = read.set.frames.iter();
    assert!(
        frames.any(|frame| frame.function.starts_with(&prefix) && &*frame.module == program::NAME)
    );
}

#[test]
fn gos_own_heap_profile_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut go) = tool("go") else {
        return;
    };
    let (source, profile) = (folder.path().join("main.go"), folder.path().join("heap"));
    fs::write(&source, program::GO).unwrap();
    go.arg("run").arg(&source).arg(&profile);
    for (debug, format) in [("0", Format::Pprof), ("1", Format::HeapProfile)] {
        let mut run = std::process::Command::new(go.get_program());
        if output(run.args(go.get_args()).arg(debug)).is_none() {
            return;
        }
        let read = read(&profile).unwrap();
        assert_eq!(read.format, format);
        let figure = |metric| figure(&read.set, "main.keep", metric);
        assert_eq!(figure(Metric::Allocations), program::GO_KEPT);
        assert_eq!(figure(Metric::Bytes), program::GO_KEPT * program::GO_SIZE);
        assert_eq!(
            figure(Metric::LeakedBytes),
            program::GO_KEPT * program::GO_SIZE
        );
    }
}

fn export(set: &StackSet, name: &str, path: &Path) {
    let mut out = fs::File::create(path).unwrap();
    let options = ExportOptions::default();
    exporter(name)
        .unwrap()
        .write(&Input::of_set(set), &options, &mut out)
        .unwrap();
}

/// A set to export: the one that heaptrack records, or if it is not installed, one
/// written by hand.
fn exported_set(folder: &Path) -> StackSet {
    heaptrack_read(folder).map_or_else(program::as_set, |(read, _)| read.set)
}

#[test]
fn pprof_opens_our_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let Some(go) = tool("go") else {
        return;
    };
    let path = folder.path().join("ours.pb.gz");
    export(&exported_set(folder.path()), "pprof", &path);
    let pprof = |arguments: &[&str]| {
        let mut command = std::process::Command::new(go.get_program());
        output(command.args(["tool", "pprof"]).args(arguments).arg(&path))
    };
    let Some(raw) = pprof(&["-raw"]) else {
        return;
    };
    assert!(
        raw.contains(
            "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes peak_objects/count peak_space/bytes[dflt]"
        ),
        "{raw}"
    );
    let leaked = [LEAKS, LEAKS * LEAK_SIZE];
    let values = [leaked, leaked, leaked].concat();
    let sample = |line: &str| {
        let (numbers, _) = line.split_once(':')?;
        let numbers: Result<Vec<u64>, _> = numbers.split_whitespace().map(str::parse).collect();
        numbers.ok()
    };
    assert!(
        raw.lines()
            .filter_map(sample)
            .any(|sample| sample == values),
        "{raw}"
    );
    let top = pprof(&["-top", "-cum", "-sample_index=alloc_objects"]).unwrap();
    let row = top
        .lines()
        .find(|line| line.ends_with(" make_temporary"))
        .unwrap();
    // flat flat% sum% cum cum% name
    let cumulative = row.split_whitespace().nth(3);
    assert_eq!(cumulative, Some(&*TEMPORARY.to_string()), "{top}");
}

/// The set of a program that runs 2 s, whose inner frames are those of an allocator.
#[test]
fn pprof_shows_the_run_and_drops_allocation_functions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(go) = tool("go") else {
        return;
    };
    let mut set = program::as_set();
    let allocator = set
        .frames
        .iter_mut()
        .find(|frame| &*frame.function == "allocate")
        .unwrap();
    allocator.function = "operator new[]".into();
    allocator.signature = "operator new[](unsigned long)".into();
    allocator.module = "libstdc++.so.6".into();
    set.run.executable = "/srv/truth".into();
    set.run.modules = vec![Module {
        path: "/srv/truth".into(),
        build_id: vec![0xab, 0xcd],
        ..Module::default()
    }];
    let path = folder.path().join("ours.pb.gz");
    export(&set, "pprof", &path);
    let mut command = std::process::Command::new(go.get_program());
    let Some(top) = output(command.args(["tool", "pprof", "-top"]).arg(&path)) else {
        return;
    };
    for line in ["File: truth", "Build ID: abcd", "Type: peak_space"] {
        assert!(top.lines().any(|shown| shown == line), "{line}: {top}");
    }
    assert!(top.contains("Duration: 2s"), "{top}");
    assert!(!top.contains("operator new"), "{top}");
    assert!(top.lines().any(|line| line.ends_with(" hold")), "{top}");
}

#[test]
fn inferno_draws_our_folded_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.folded");
    export(&program::as_set(), "folded", &path);
    let text = fs::read_to_string(&path).unwrap();
    let mut svg = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    let all = TEMPORARY + LEAKS + PEAKS;
    for (function, count) in [
        ("make_temporary", TEMPORARY),
        ("leak", LEAKS),
        ("hold", PEAKS),
        ("main", all),
    ] {
        let shown = format!("{function} ({count} samples, ");
        assert!(svg.contains(&shown), "{shown}: {svg}");
    }
}

/// The folder of DHAT's viewer.
fn viewer_folder() -> Option<&'static Path> {
    ["/usr/libexec/valgrind", "/usr/lib/valgrind"]
        .into_iter()
        .map(Path::new)
        .find(|folder| folder.join("dh_view.js").exists())
        .or_else(|| skip("dh_view.html is not installed"))
}

/// The viewer's script without a browser: what it shows of a run of 2 s whose peak is after
/// half a second, and of a set of which nearly nothing is known.
#[test]
fn dhats_viewer_shows_the_peak_if_it_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(node), Some(viewer)) = (tool("node"), viewer_folder()) else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_tools/dom.js");
    let path = folder.path().join("ours.json");
    let shown = |set: &StackSet| {
        export(set, "dhat", &path);
        let mut command = std::process::Command::new(node.get_program());
        // The viewer writes numbers as the locale does.
        command.env("LC_ALL", "C");
        output(
            command
                .arg(&script)
                .arg(viewer.join("dh_view.js"))
                .arg(&path),
        )
    };
    let (Some(known), Some(unknown)) = (shown(&program::as_set()), shown(&program::counted_set()))
    else {
        return;
    };
    for line in [
        "PID:     4711",
        "t-gmax: 500,000 \u{b5}s (25% of program duration)",
        "t-end:  2,000,000 \u{b5}s",
    ] {
        assert!(known.contains(line), "{line}: {known}");
        assert!(!unknown.contains(line), "{line}: {unknown}");
    }
    assert!(!unknown.contains("t-gmax:"), "{unknown}");
    for function in ["make_temporary", "leak", "hold"] {
        assert!(unknown.contains(function), "{function}: {unknown}");
    }
}

#[test]
fn dhats_viewer_opens_our_files() {
    let folder = tempfile::tempdir().unwrap();
    let Some(chromium) = tool("chromium") else {
        return;
    };
    let Some(viewer) = viewer_folder() else {
        return;
    };
    for set in [program::as_set(), program::counted_set()] {
        let path = folder.path().join("ours.json");
        export(&set, "dhat", &path);
        let page = folder.path().join("page.html");
        fs::write(
            &page,
            program::viewer_page(viewer, &fs::read_to_string(&path).unwrap()),
        )
        .unwrap();
        let mut command = std::process::Command::new(chromium.get_program());
        let profile = format!(
            "--user-data-dir={}",
            folder.path().join("chromium").display()
        );
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            &profile,
        ];
        let Some(shown) = output(
            command
                .args(flags)
                .arg(format!("file://{}", page.display())),
        ) else {
            return;
        };
        assert!(!shown.contains("class=\"error\""), "{shown}");
        for function in ["make_temporary", "leak", "hold"] {
            assert!(shown.contains(function), "{function}: {shown}");
        }
        assert!(shown.contains("Total:"), "{shown}");
    }
}
