//! heaptrack's data file, read by `heaptrack_print`, by `heaptrack_gui` and by our own reader.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exports::{METRICS, exported, fine, folder, steps};
use crate::support::{Recording, Started, Text, compiled, is_installed, record, run, skip};

/// Blocks of the same kind that are freed by chance; the first one is freed, too.
static THREADS: LazyLock<Recording> = LazyLock::new(|| {
    let record = record(compiled("figures.c")).args(["threads", "3", "2000"]);
    record.run().ok()
});

fn traces() -> [PathBuf; 3] {
    [METRICS.trace.clone(), steps(), THREADS.trace.clone()]
}

fn exported_to(folder: &Path, trace: &Path) -> PathBuf {
    let path = folder.join("ours.zst");
    std::fs::write(&path, exported(trace, "heaptrack", &[])).expect("the folder is ours");
    path
}

/// What `heaptrack_print` prints; `None` if it is not installed.
fn printed(file: &Path) -> Option<String> {
    let arguments = ["-n", "100", "-s", "100", "-l", "1"];
    if !is_installed("heaptrack_print") {
        skip("heaptrack_print is not installed");
        return None;
    }
    let mut print = Command::new("heaptrack_print");
    Some(run(print.args(arguments).arg(file), b"").ok().text())
}

#[test]
fn heaptrack_print_has_the_totals_of_the_program() {
    let folder = folder();
    let Some(text) = printed(&exported_to(folder.path(), &METRICS.trace)) else {
        return;
    };
    text.has_all([
        "calls to allocation functions: 12 (",
        "temporary memory allocations: 1 (",
        "peak heap memory consumption: 30.00K",
        "total memory leaked: 15.00K",
        "1 calls with 20.00K peak consumption from:",
        "10 calls with 10.00K peak consumption from:",
    ]);
    text.has_all(["first", "second", "third", "peak_in_between", "main"]);
}

#[test]
fn heaptrack_print_has_the_blocks_of_two_steps() {
    let folder = folder();
    let Some(text) = printed(&exported_to(folder.path(), &steps())) else {
        return;
    };
    // 10 × 1000 and 20 × 300 bytes, of which 4 × 1000 are freed before the second step ends.
    text.has_all([
        "calls to allocation functions: 30 (",
        "total memory leaked: 12.00K",
    ]);
}

/// Our reader computes the figures from the single events.
#[test]
fn the_file_read_again_has_the_same_sums() {
    let folder = folder();
    let path = exported_to(folder.path(), &METRICS.trace);
    let json = fine(&[
        "export",
        path.to_str().expect("a plain name"),
        "--format",
        "json",
    ]);
    let json: Value = serde_json::from_slice(&json).expect("it is JSON");
    let names = json["metrics"].as_array().expect("a list");
    let sum = |metric: &str| -> u64 {
        let at = names
            .iter()
            .position(|it| it == metric)
            .expect("it is known");
        let stacks = json["stacks"].as_array().expect("a list").iter();
        stacks
            .map(|it| it["figures"][at].as_u64().expect("a number"))
            .sum()
    };
    for (metric, expected) in [
        ("allocations", 12),
        ("allocated_bytes", 35_000),
        ("temporary_allocations", 1),
        ("leaked_allocations", 11),
        ("leaked_bytes", 15_000),
        ("bytes_at_peak", 30_000),
        ("allocations_at_peak", 11),
    ] {
        assert_eq!(sum(metric), expected, "{metric}");
    }
}

/// The lines of a file, without the compression.
fn lines(file: &Path) -> Vec<String> {
    let zipped = std::fs::File::open(file).expect("it was written");
    let text = zstd::decode_all(zipped).expect("zstd");
    let text = String::from_utf8(text).expect("text");
    text.lines().map(str::to_owned).collect()
}

/// `heaptrack_gui` counts the allocations of each info in an array that it extends by one for the
/// next index (`ParserData::handleAllocation`, heaptrack 1.4): other orders crash it.
#[test]
fn allocation_infos_are_first_allocated_in_the_order_of_their_numbers() {
    let folder = folder();
    for trace in traces() {
        let (mut known, mut counted, mut events) = (0, 0, 0);
        for line in lines(&exported_to(folder.path(), &trace)) {
            let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
            let info = || u64::from_str_radix(rest.trim(), 16).expect("a number");
            match kind {
                "a" => known += 1,
                "+" => {
                    events += 1;
                    assert!(info() < known && info() <= counted, "{line}: {counted}");
                    counted = counted.max(info() + 1);
                }
                "-" => assert!(info() < counted, "{line}: {counted}"),
                _ => {}
            }
        }
        assert!(events > 0 && known == counted, "{events} {known} {counted}");
    }
}

/// What heaptrack takes for temporary: a deallocation of the info of the event before it, an
/// allocation. Of a program with one thread these are Allotrope's; and what is freed is what was
/// allocated, by size and stack.
#[test]
fn temporary_allocations_are_those_of_the_program() {
    let folder = folder();
    let record = record(compiled("figures.c")).args(["work", "20000"]);
    let recording = record.run().ok();
    let truth = recording.report().only().total("temporary_allocations");
    let leaked = recording.report().only().total("leaked_bytes");
    let (mut temporary, mut last) = (0, 0);
    let mut infos = Vec::new();
    let mut live: BTreeMap<(u64, u64), i64> = BTreeMap::new();
    for line in lines(&exported_to(folder.path(), &recording.trace)) {
        let numbers = line.split(' ').skip(1);
        let numbers: Vec<u64> = numbers
            .filter_map(|it| u64::from_str_radix(it, 16).ok())
            .collect();
        match line.split(' ').next().unwrap_or_default() {
            "a" => infos.push((numbers[0], numbers[1])),
            "+" => {
                last = numbers[0];
                *live.entry(infos[numbers[0] as usize]).or_default() += 1;
            }
            "-" => {
                temporary += u64::from(last == numbers[0]);
                last = 0;
                let blocks = live.entry(infos[numbers[0] as usize]).or_default();
                *blocks -= 1;
                assert!(*blocks >= 0, "{line}");
            }
            _ => {}
        }
    }
    // The first block, if it is the only one of its kind, may be taken for one.
    assert!(
        (truth..=truth + 1).contains(&temporary),
        "{temporary} of {truth}"
    );
    let bytes: u64 = live
        .iter()
        .map(|((size, _), blocks)| size * *blocks as u64)
        .sum();
    assert_eq!(bytes, leaked);
}

/// A display without a screen, and its name; `None` if it cannot be had.
fn display() -> Option<(Started, String)> {
    if !is_installed("Xvfb") {
        skip("Xvfb is not installed");
        return None;
    }
    let mut server = Command::new("Xvfb");
    server.args(["-displayfd", "1", "-screen", "0", "1024x768x24"]);
    let mut server = Started::new(&mut server);
    let display = format!(":{}", server.line());
    Some((server, display))
}

/// Processor time that a process has used, in clock ticks, and whether all of its threads wait.
fn work(pid: u32) -> Option<(u64, bool)> {
    let fields = |path: &Path| -> Option<Vec<String>> {
        let text = std::fs::read_to_string(path).ok()?;
        let (_, rest) = text.rsplit_once(')')?;
        Some(rest.split_whitespace().map(str::to_owned).collect())
    };
    let process = PathBuf::from(format!("/proc/{pid}"));
    let own = fields(&process.join("stat"))?;
    let ticks = own.get(11)?.parse::<u64>().ok()? + own.get(12)?.parse::<u64>().ok()?;
    let threads = std::fs::read_dir(process.join("task")).ok()?;
    let waits = threads.flatten().all(|thread| {
        let fields = fields(&thread.path().join("stat"));
        fields.is_none_or(|fields| fields[0] == "S")
    });
    Some((ticks, waits))
}

/// Opened files are read to the end: the program ends neither then nor when it has nothing left to
/// do.
///
/// Reported: heaptrack_gui crashes when it opens an exported file.
#[test]
fn heaptrack_gui_opens_the_file() {
    const IDLE: Duration = Duration::from_secs(2);
    const LIMIT: Duration = Duration::from_secs(120);
    let Some((_server, display)) = display() else {
        return;
    };
    let folder = folder();
    for trace in traces() {
        let file = exported_to(folder.path(), &trace);
        let mut gui = Command::new("heaptrack_gui");
        gui.arg(&file).env("DISPLAY", &display);
        gui.env("QT_QPA_PLATFORM", "xcb").env("HOME", folder.path());
        gui.env_remove("WAYLAND_DISPLAY");
        if !is_installed("heaptrack_gui") {
            return skip("heaptrack_gui is not installed");
        }
        let mut gui = Started::new(&mut gui);
        let began = Instant::now();
        let (mut idle_since, mut before) = (Instant::now(), 0);
        while idle_since.elapsed() < IDLE && began.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(100));
            assert!(!gui.has_ended(), "{}: {}", trace.display(), gui.end());
            let (ticks, waits) = work(gui.id()).unwrap_or_default();
            if ticks > before + 2 || !waits || before == 0 {
                idle_since = Instant::now();
                before = ticks;
            }
        }
    }
}
