//! Allocators of a program's own that `record --allocator` names: each call of their functions counts
//! once, what they take from `malloc` in such a call does not count besides, and a `reset` frees all that
//! was allocated for its owner (`programs/named_allocators.c`).

use std::path::Path;
use std::process::Command;

use allotrope_profile::{Options, Profile, aggregate};
use allotrope_trace::TraceReader;
use allotrope_trace::model::EntryPoint;

use crate::support::record::Record;
use crate::support::report::{Process, text};
use crate::support::{Text, allotrope, compiled_with, record, skip};

const SOURCE: &str = "named_allocators.c";
const POOLS: &str = "alloc=pool_alloc:2@1,alloc=pool_zalloc:2@1,free=pool_free:2,\
                     reset=pool_destroy:1,reset=pool_reset:1";
const OBJECTS: &str =
    "alloc=object_new:1*2,alloc=object_traced:1,realloc=object_resize:1:2,free=object_free:1";

/// The recording of a program with both allocators named.
fn named(program: &Path) -> Record {
    [POOLS, OBJECTS]
        .iter()
        .fold(record(program), |record, text| {
            record.option("--allocator").option(text)
        })
}

/// Where the program itself calls malloc.
const HEAP: [&str; 2] = ["pool_create", "note"];

/// Function, and of what it allocates: whether blocks of malloc are meant, how many, their bytes, and how
/// many stay.
const TRUTH: [(&str, bool, u64, u64, u64); 11] = [
    ("served", false, 129, 39_240, 0),
    ("served", true, 6, 3171, 0),
    ("kept", false, 7, 140, 7),
    ("kept", true, 1, 256, 1),
    ("cleared", false, 20, 200, 0),
    ("cleared", true, 1, 256, 0),
    ("objects", false, 59, 8520, 0),
    ("objects", true, 0, 0, 0),
    ("threaded", false, 8000, 96_000, 0),
    ("threaded", true, 400, 102_400, 0),
    ("inherited", false, 9, 144, 9),
];

/// What a function allocates: how many blocks, their bytes, and how many stay.
fn found(process: &Process<'_>, function: &str, is_heap: bool) -> (u64, u64, u64) {
    let found = process.where_stack(|stack| {
        let names = |name: &str| stack.iter().any(|frame| frame["function"] == name);
        names(function) && HEAP.contains(&text(stack[0], "function")) == is_heap
    });
    (found.allocations, found.bytes, found.leaked)
}

fn profiled(trace: &Path) -> Profile {
    let reader = TraceReader::open(trace).expect("it was just written");
    aggregate(&reader, &Options::default()).expect("it is whole")
}

/// Allocations by an entry point, in all processes, of which none has lost an event or freed an unknown
/// block.
fn through(trace: &Path, entry: EntryPoint) -> u64 {
    let profile = profiled(trace);
    for process in &profile.processes {
        assert_eq!(
            (process.lost_events, process.unmatched_deallocations),
            (0, 0)
        );
    }
    let entries = profile.processes.iter().flat_map(|it| &it.entries);
    let of_it = entries.filter(|it| it.entry == entry);
    of_it.map(|it| it.allocations).sum()
}

fn expect_truth(program: &Path) {
    let recording = named(program).run().ok();
    recording.stderr.lacks("warning");
    let report = recording.report();
    let processes = report.processes();
    assert_eq!(processes.len(), 2, "{}", report.summary());
    let (parent, child) = (&processes[0], &processes[1]);
    for (function, is_heap, allocations, bytes, leaked) in TRUTH {
        let seen = found(parent, function, is_heap);
        let summary = report.summary();
        let expected = (allocations, bytes, leaked);
        assert_eq!(seen, expected, "{function}, {is_heap}: {summary}");
    }
    assert_eq!(found(child, "child", false), (2, 34, 2));
    assert_eq!(found(child, "child", true), (1, 256, 1));
    let pools = TRUTH.iter().filter(|it| !it.1 && it.0 != "objects");
    let pools = 2 + pools.map(|it| it.2).sum::<u64>();
    assert_eq!(through(&recording.trace, EntryPoint::Pool), pools);
    assert_eq!(through(&recording.trace, EntryPoint::Reported), 59);
}

#[test]
fn functions_of_the_program() {
    expect_truth(&compiled_with(SOURCE, &[]));
}

#[test]
fn functions_of_an_optimised_program_at_a_fixed_address() {
    let flags = ["-O2", "-foptimize-sibling-calls", "-fno-pie", "-no-pie"];
    expect_truth(&compiled_with(SOURCE, &flags));
}

#[test]
fn functions_of_a_library() {
    let library = compiled_with(SOURCE, &["-DLIBRARY", "-shared", "-fPIC"]);
    let path = library.to_str().expect("it is UTF-8");
    let folder = library.parent().and_then(Path::to_str).expect("it has one");
    let needed = format!("-Wl,--no-as-needed,-rpath,{folder}");
    expect_truth(&compiled_with(SOURCE, &["-DPROGRAM", &needed, path]));
}

/// Bytes of the code of these functions of a file; `None`: it lacks a symbol.
fn sizes(file: &Path, names: &[&str]) -> Option<Vec<u64>> {
    let lines = |options: &[&str]| {
        let output = Command::new("nm").args(options).arg(file).output();
        let output = output.expect("binutils are installed").stdout;
        String::from_utf8(output).expect("nm prints names of C")
    };
    let text = lines(&["-D", "-S", "--defined-only"]) + &lines(&["-S", "--defined-only"]);
    let size = |name: &&str| {
        text.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, size, _, symbol] = words[..] else {
                return None;
            };
            let is_it = symbol.split('@').next() == Some(*name);
            is_it.then(|| u64::from_str_radix(size, 16).ok())?
        })
    };
    names.iter().map(size).collect()
}

/// Records a program under gdb, which counts the calls of these functions of `file`. Returns the
/// allocations by an entry point, and gdb's number; `None`: gdb cannot, and the reason was printed.
fn beside_gdb(
    command: &[&str],
    spec: &str,
    file: &Path,
    names: &[&str],
    entry: EntryPoint,
) -> Option<(u64, u64)> {
    if !crate::support::is_installed("gdb") {
        skip("gdb is not installed");
        return None;
    }
    let sizes = sizes(file, names)?;
    let script = crate::support::source_path("count_named.py");
    let mut record = record("gdb")
        .option("--allocator")
        .option(spec)
        .args(["-nx", "-q", "-batch", "-x"])
        .arg(script)
        .arg("--args")
        .args(command)
        .env("NAMED", names.join(" "));
    for (name, size) in names.iter().zip(sizes) {
        record = record.env(&format!("SIZE_{name}"), size.to_string());
    }
    let recording = record.run().ok();
    let printed = recording.ended.text();
    let Some(line) = printed
        .lines()
        .find_map(|line| line.strip_prefix("counted "))
    else {
        skip(&format!("the kernel refuses gdb its work: {printed}"));
        return None;
    };
    let count = |word: &str| word.split_once('=').and_then(|it| it.1.parse::<u64>().ok());
    let counted = line
        .split(' ')
        .map(|word| count(word).expect("a number"))
        .sum();
    let profile = profiled(&recording.trace);
    let mut processes = profile.processes.iter();
    // The first process is gdb, the last one the program.
    let process = processes.next_back().expect("it was recorded");
    assert_eq!(
        (process.lost_events, process.unmatched_deallocations),
        (0, 0)
    );
    let mut entries = process.entries.iter().filter(|it| it.entry == entry);
    let seen = entries.next().map_or(0, |it| it.allocations);
    Some((seen, counted))
}

/// nginx checks its configuration, in pools that it destroys.
#[test]
fn the_pools_of_nginx() {
    const NGINX: &str = "/usr/sbin/nginx";
    if !Path::new(NGINX).exists() {
        return skip("nginx is not installed");
    }
    let folder = tempfile::tempdir().expect("there is room");
    let text = "daemon off; error_log stderr; pid nginx.pid;\nevents {}\n\
                http { access_log off; server { listen 127.0.0.1:1; location / { return 204; } } }\n";
    std::fs::write(folder.path().join("nginx.conf"), text).expect("the folder is ours");
    let prefix = folder.path().to_str().expect("it is UTF-8");
    let spec = "alloc=ngx_palloc:2@1,alloc=ngx_pnalloc:2@1,alloc=ngx_pcalloc:2@1,\
                alloc=ngx_pmemalign:2@1,free=ngx_pfree:2,reset=ngx_destroy_pool:1,\
                reset=ngx_reset_pool:1";
    let names = ["ngx_palloc", "ngx_pnalloc", "ngx_pcalloc", "ngx_pmemalign"];
    let command = [NGINX, "-t", "-q", "-p", prefix, "-c", "nginx.conf"];
    let file = Path::new(NGINX);
    if let Some((seen, counted)) = beside_gdb(&command, spec, file, &names, EntryPoint::Pool) {
        assert!(counted > 100);
        assert_eq!(seen, counted);
    }
}

/// Python's objects, in a Python that has the symbols of its inner functions: the exported ones are only a
/// way to them, and compilers inline that.
#[test]
fn the_objects_of_python() {
    let lines = "import sys; print(sys.executable); print(open('/proc/self/maps').read())";
    let printed = Command::new("python3").args(["-c", lines]).output();
    let Ok(printed) = printed else {
        return skip("python3 is not installed");
    };
    let printed = String::from_utf8(printed.stdout).expect("UTF-8");
    let python = printed.lines().next().unwrap_or_default();
    let mut mapped = printed
        .lines()
        .filter_map(|line| Some(&line[line.find('/')?..]));
    let library = mapped.find(|path| path.contains("/libpython"));
    let file = Path::new(library.unwrap_or(python));
    let names = ["_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc"];
    if sizes(file, &names).is_none() {
        return skip("this python3 has no symbols");
    }
    let spec = "alloc=_PyObject_Malloc:2,alloc=_PyObject_Calloc:2*3,realloc=_PyObject_Realloc:2:3,\
                free=_PyObject_Free:2";
    let command = [python, "-S", "-c", "x = [str(i) * 90 for i in range(200)]"];
    let entry = EntryPoint::Reported;
    if let Some((seen, counted)) = beside_gdb(&command, spec, file, &names, entry) {
        // 200 strings, at the least.
        assert!(counted > 200);
        assert_eq!(seen, counted);
    }
}

#[test]
fn what_makes_no_sense_is_a_sentence() {
    let program = compiled_with(SOURCE, &[]);
    for (text, words) in [
        ("pool_alloc:2", "is none of alloc=NAME:SIZE"),
        (
            "alloc=pool_alloc",
            "needs the numbers of the function's arguments",
        ),
        ("alloc=pool_alloc:7", "arguments have numbers from 1 to 6"),
        ("free=pool_free:2", "names no function that allocates"),
        (
            "alloc=a:1;alloc=b:1",
            "give each allocator an option of its own",
        ),
    ] {
        let record = ["record", "--allocator", text, "--", "true"];
        allotrope(record).code(125).says(words);
    }
    for (text, words) in [
        (
            "alloc=pool_alloc:2@1,free=pool_fre:2",
            "have no function pool_fre in their symbol tables",
        ),
        (
            "alloc=malloc:1",
            "malloc is recorded without it: leave it out",
        ),
    ] {
        let recording = record(&program).option("--allocator").option(text).run();
        recording.fails(125, words);
    }
    let recording = record("true").option("--allocator").option(POOLS).run();
    recording
        .ok()
        .stderr
        .has("only programs that it starts are recorded with that allocator");
    let counts = record(&program).option("--counts-only");
    let counts = counts.option("--allocator").option(POOLS).run();
    counts.fails(125, "leave out one of the two");
}

/// A program that is started by another one, which has no such functions.
#[test]
fn a_program_that_another_one_starts() {
    let program = compiled_with(SOURCE, &[]);
    let script = format!("exec {}", program.display());
    let recording = named(Path::new("/bin/sh")).args(["-c", &script]).run().ok();
    assert_eq!(through(&recording.trace, EntryPoint::Reported), 59);
}

/// The recorder's table has 1,048,576 entries, one of them for the pool itself.
#[test]
fn blocks_for_which_there_is_no_space_are_lost_and_counted() {
    let program = compiled_with(SOURCE, &[]);
    let recording = named(&program).arg("many").run().ok();
    let profile = profiled(&recording.trace);
    let process = &profile.processes[0];
    let mut entries = process
        .entries
        .iter()
        .filter(|it| it.entry == EntryPoint::Pool);
    let pools = entries.next().expect("there are blocks of pools");
    assert_eq!(pools.allocations + process.lost_events, 1_100_000);
    assert!((1_000_000..1 << 20).contains(&pools.allocations));
    // Those that are known are freed with their pool.
    assert_eq!(pools.deallocations, pools.allocations);
    recording.stderr.has("events lost");
}
