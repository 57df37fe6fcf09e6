//! poireau's README: a sampling allocation debugger for programs in production. The numbers are those of
//! `documents-lines.md`. One program plays the service: `programs/watched.c`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::watched::{Program, wait_for_holder};
use crate::support::{
    Started, Text, allotrope, command, compiled, is_installed, is_root, run, skip, until,
};

/// A size that nothing but the tests' own commands allocates.
const SIZE: u64 = 4321;

/// The file that is shipped.
static LIBRARY: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("liballotrope.so");
    allotrope(["recorder".as_ref(), "-o".as_ref(), path.as_os_str()]).ok();
    (folder, path)
});

fn library() -> &'static str {
    LIBRARY.1.to_str().expect("UTF-8")
}

/// The service, prepared by the environment alone, as in a unit file.
fn service(preload: &str, value: &str) -> Program {
    let mut service = Command::new(compiled("watched.c"));
    Program::start_as(
        service
            .env("LD_PRELOAD", preload)
            .env("ALLOTROPE_WATCH", value),
    )
}

fn watch(process: u32, options: &[&str]) -> Command {
    let mut watch = command();
    watch.args(["watch", &process.to_string()]).args(options);
    watch
}

/// A report on the service, which is sampled with a period of one byte.
fn report(process: u32) -> Value {
    let options = ["--once", "--format", "json", "--top", "1000"];
    run(&mut watch(process, &options), b"").ok().json()
}

/// The live blocks and bytes of the sites below a function.
fn live(report: &Value, function: &str) -> (u64, u64) {
    let sites = report["sites"].as_array().expect("sites").iter();
    let sites = sites.filter(|it| it["stack"].to_string().contains(function));
    let figure = |it: &Value, key: &str| it[key].as_u64().expect("a number");
    let figures = sites.map(|it| (figure(it, "live_blocks"), figure(it, "live_bytes")));
    figures.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
}

/// An event as `perf trace` prints it.
fn event(seconds: u32, who: &str, probe: &str, arguments: &[u64]) -> String {
    let numbered = (1..).zip(arguments).filter(|(_, it)| **it != 0);
    let arguments: String = numbered
        .map(|(at, it)| format!(", arg{at}: {it}"))
        .collect();
    let frame = "                                       serve (/usr/bin/server)\n";
    format!("{seconds}000.000 {who}sdt_libpoireau:{probe}(__probe_ip: 139863{arguments})\n{frame}")
}

/// The report on what perf has printed.
fn of_perf(text: &str, options: &[&str]) -> Value {
    let mut watch = command();
    watch
        .args(["watch", "--perf-script", "-", "--format", "json"])
        .args(options);
    run(&mut watch, text.as_bytes()).ok().json()
}

/// One block of this many bytes, sampled as poireau does it: its estimate, the inverse of p.
fn inverse_probability(size: u64) -> f64 {
    let text = event(1, "server/7 ", "malloc", &[1, 4096, size]);
    of_perf(&text, &[])["live_bytes"]
        .as_f64()
        .expect("a number")
        / size as f64
}

#[test]
fn line_53_one_small_shared_library_to_ship() {
    let size = fs::metadata(library()).expect("it is written").len();
    assert!((100_000..1_000_000).contains(&size), "{size}");
}

#[test]
fn line_54_the_platform_is_stated_by_doctor() {
    allotrope(["doctor"]).ok().has("glibc").has("x86_64");
}

/// `LD_PRELOAD="$LD_PRELOAD:$path_to_libpoireau.so"`.
#[test]
fn line_55_append_to_ld_preload_before_executing_the_program() {
    let mut service = service(&format!("libm.so.6:{}", library()), "1");
    service.tell(&format!("malloc 5 {SIZE}"));
    assert_eq!(live(&report(service.id()), "by_malloc"), (5, 5 * SIZE));
}

#[test]
fn line_56_over_another_allocator_that_overrides_malloc() {
    const OTHER: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if !std::path::Path::new(OTHER).exists() {
        return skip("jemalloc is not installed");
    }
    let mut service = service(&format!("{}:{OTHER}", library()), "1");
    service.tell(&format!("malloc 5 {SIZE}"));
    assert_eq!(live(&report(service.id()), "by_malloc"), (5, 5 * SIZE));
}

/// The notes are in the file: perf may register them before a program starts, or after.
#[test]
fn line_57_and_58_probes_that_perf_registers_before_or_after_and_perf_top_shows() {
    let text = run(Command::new("readelf").args(["-n", library()]), b"")
        .ok()
        .text();
    for probe in [
        "malloc",
        "calloc",
        "realloc",
        "realloc_from_tracked",
        "realloc_to_regular",
        "free",
    ] {
        text.has(format!("Name: {probe}\n"));
    }
    text.has("Provider: allotrope");
}

/// `poireau.sh $PID`: of a process with one thread `perf trace -p` prints neither name nor id.
#[test]
fn line_59_trace_a_pid() {
    let text = event(1, "", "malloc", &[1, 4096, 34 << 20])
        + &event(2, "", "malloc", &[2, 8192, 720 << 20]);
    let text = text + &event(3, "", "free", &[2, 8192, 720 << 20]);
    let report = of_perf(&text, &["--period", "1"]);
    assert_eq!(report["live_bytes"], 34 << 20, "{report:#}");
}

#[test]
fn line_60_system_wide_tracing_tells_processes_apart() {
    let of = |process: u32| {
        format!(
            "server {process} [000] 5.0: sdt_libpoireau:malloc: (7f) arg1=1 arg2=4096 arg3={process}\n\n"
        )
    };
    let freed = "server 12 [000] 6.0: sdt_libpoireau:free: (7f) arg1=1 arg2=4096 arg3=12\n";
    let report = of_perf(&(of(11) + &of(12) + freed), &["--period", "1"]);
    assert_eq!(report["live_bytes"], 11, "{report:#}");
    assert_eq!(report["processes"].as_array().map(Vec::len), Some(2));
}

/// The COMM pattern of poireau.py.
#[test]
fn line_61_only_programs_whose_name_matches() {
    let text = event(1, "coronerd/0/7 ", "malloc", &[1, 4096, 10])
        + &event(1, "cat/8 ", "malloc", &[1, 4096, 20]);
    let report = of_perf(&text, &["--period", "1", "--comm", "coronerd.*"]);
    assert_eq!(report["live_bytes"], 10, "{report:#}");
}

/// A watcher of perf's events in poireau's format: one block is ten minutes old, one a second.
fn poireau(options: &[&str]) -> Started {
    let mut watch = command();
    watch.args(["watch", "--perf-script", "-", "--format", "poireau"]);
    let mut watch = Started::new(watch.args(options));
    let blocks = event(1, "server/7 ", "malloc", &[1, 4096, 1000])
        + &event(2, "server/7 ", "malloc", &[2, 8192, 500])
        + &event(
            600,
            "server/7 ",
            "realloc_from_tracked",
            &[2, 8192, 500, 2, 8192, 900],
        )
        + &event(601, "server/7 ", "malloc", &[3, 12288, 70])
        + &event(602, "server/7 ", "free", &[3, 12288, 70])
        + &event(603, "server/7 ", "malloc", &[4, 16384, 60]);
    watch.write(blocks.as_bytes());
    watch
}

/// The lines of the next list with this head that has some.
fn list(watch: &mut Started, head: &str, lines: usize) -> Vec<String> {
    while !watch.line().ends_with(head) {}
    (0..lines).map(|_| watch.line()).collect()
}

/// Waits until all events were read: the old block is in the regular list.
fn wait_for_list(watch: &mut Started) {
    while !watch.line().starts_with("\tsize=1000 ") {}
}

#[test]
fn line_62_at_regular_times_the_blocks_that_are_old() {
    let mut watch = poireau(&["--every", "100ms"]);
    wait_for_list(&mut watch);
    // The reallocated block is new again, and the last one, too.
    let [line] = &list(&mut watch, " UTC old allocations", 1)[..] else {
        panic!("one line");
    };
    assert!(
        line.starts_with("\tsize=1000 c_age=60") && line.ends_with(" alloc=serve"),
        "{line}"
    );
    let help = allotrope(["watch", "--help"]).ok().text();
    let words: Vec<&str> = help.split_whitespace().collect();
    words
        .join(" ")
        .has("With --format poireau 10m, the first after 330s");
    words.join(" ").has("[default: 5m]");
}

#[test]
fn line_63_hup_lists_all_live_blocks() {
    let mut watch = poireau(&["--every", "100ms"]);
    wait_for_list(&mut watch);
    until("the last event has ended", || {
        watch.signal(Signal::HUP);
        let lines = list(&mut watch, " UTC live allocations", 2);
        assert!(lines[0].starts_with("\tsize=1000 "), "{lines:?}");
        lines[1].has_all([
            "\tsize=900 c_age=60",
            " alloc=serve m_age=",
            " realloc=serve",
        ]);
        watch.line().starts_with("\tsize=60 ")
    });
}

#[test]
fn line_64_usr1_lists_the_old_ones_and_hides_them() {
    let mut watch = poireau(&["--every", "100ms"]);
    wait_for_list(&mut watch);
    watch.signal(Signal::USR1);
    until("they are hidden", || {
        list(&mut watch, " UTC old allocations", 0);
        watch.line().ends_with(" UTC old allocations")
    });
    watch.signal(Signal::HUP);
    list(&mut watch, " UTC live allocations", 2);
}

#[test]
fn line_65_usr2_lists_recent_frees_and_reallocations() {
    let mut watch = poireau(&["--every", "100ms"]);
    wait_for_list(&mut watch);
    watch.signal(Signal::USR2);
    let lines = list(&mut watch, " UTC recently freed regions", 2);
    lines[0].has_all([
        "\tptr=2000 size=500 f_time=600",
        " free=serve alloc=serve ctime=2.",
    ]);
    lines[1].has_all([
        "\tptr=3000 size=70 f_time=602",
        " free=serve alloc=serve ctime=601.",
    ]);
    // At the end, poireau's script lists what is live.
    watch.close_input();
    list(&mut watch, " UTC live allocations", 3);
    watch.end().ok();
}

/// As far as it goes today: what was live. The analysis is out of the process, which is gone.
#[test]
fn line_66_information_after_a_crash() {
    let name = format!("document-{}", std::process::id());
    let holder = |command: &mut Command| {
        command.env("ALLOTROPE_HOLDER", &name);
    };
    let mut standby = command();
    holder(standby.args(["standby", "--quiet", "--period", "1"]));
    let mut service = Program::start(&mut standby);
    service.tell(&format!("malloc 9 {SIZE}"));
    let process = service.id().to_string();
    let postmortem = || {
        let mut postmortem = command();
        holder(postmortem.args(["postmortem", &process, "--format", "json", "--top", "1000"]));
        run(&mut postmortem, b"")
    };
    let full = format!("{}/{name}", env!("CARGO_PKG_VERSION"));
    wait_for_holder(&full, service.id());
    assert!(postmortem().errors().contains("runs; look at it"));
    service.signal(Signal::SEGV);
    until("it has ended", || service.has_ended());
    until("its end is known", || postmortem().status.success());
    assert_eq!(live(&postmortem().ok().json(), "by_malloc"), (9, 9 * SIZE));
    for holder in allotrope_shm::samples::file::holders(&full) {
        let _ = Command::new("kill").arg(holder.to_string()).status();
    }
}

/// `sudo perf … | poireau.py`: the reader needs no rights.
#[test]
fn line_67_only_perf_runs_as_root() {
    if !is_root() || !is_installed("setpriv") {
        return skip("this test is not root, and the others run as this user");
    }
    let mut watch = Command::new("setpriv");
    watch
        .args(["--reuid=61234", "--regid=61234", "--clear-groups"])
        .arg(command().get_program());
    watch.args([
        "watch",
        "--perf-script",
        "-",
        "--period",
        "1",
        "--format",
        "json",
    ]);
    let text = event(1, "server/7 ", "malloc", &[1, 4096, 10]);
    let report = run(&mut watch, text.as_bytes()).ok().json();
    assert_eq!(report["live_bytes"], 10);
}

/// The service is as it was when the watcher has gone.
#[test]
fn line_68_nothing_is_left_when_the_watcher_ends() {
    let mut service = service(library(), "off");
    let mut watcher = Started::new(&mut watch(
        service.id(),
        &["--headless", "--period", "1", "--every", "100ms"],
    ));
    until("it is sampled", || service.state().period.is_some());
    service.tell(&format!("malloc 5 {SIZE}"));
    watcher.line();
    watcher.signal(Signal::INT);
    watcher.end().code(128 + 2);
    assert!(service.state().period.is_none());
}

#[test]
fn line_69_a_reallocation_is_a_deallocation_and_an_allocation() {
    let mut service = service(library(), "1");
    service.tell(&format!("malloc 5 {SIZE}"));
    let before = service.state().counters;
    service.tell(&format!("realloc {}", 2 * SIZE));
    let after = service.state().counters;
    assert_eq!(
        (after.sampled - before.sampled, after.freed - before.freed),
        (5, 5)
    );
    assert_eq!(live(&report(service.id()), "by_realloc"), (5, 10 * SIZE));
}

/// With a period of a TiB nothing is sampled, and no deallocation is noticed.
#[test]
fn line_70_free_is_diverted_only_for_blocks_that_are_tracked() {
    let mut service = service(library(), "1TiB");
    service.tell(&format!("malloc 5000 {SIZE}"));
    service.tell("free");
    let counters = service.state().counters;
    assert_eq!((counters.sampled, counters.freed), (0, 0));
}

/// p = 1 − e^(−Z/R) with R = 32 MB: 3.08 % for 1 MB (the document rounds Z/R to 3.2 %), 0.049 % for
/// 16 KB, 0.00038 % for 128 B.
#[test]
fn line_71_the_probabilities_of_the_document() {
    let period = f64::from(32 << 20);
    for (size, percent, error) in [
        (1 << 20, 3.08, 0.01),
        (16 << 10, 0.049, 0.0005),
        (128, 0.000_38, 0.000_005),
    ] {
        let exact = 1.0 - (-(size as f64) / period).exp();
        let shown = 1.0 / inverse_probability(size);
        assert!(
            (shown - exact).abs() < exact * 0.02,
            "{size}: {shown} {exact}"
        );
        assert!((shown * 100.0 - percent).abs() < error, "{size}: {shown}");
    }
}

/// Sizes that alternate around the period: a rule without memory prefers none. The expected numbers of
/// samples are 2,000 × (1 − e^−1) = 1,264 and 2,000 × (1 − e^(−1/64)) = 31; six standard deviations are
/// allowed.
#[test]
fn line_72_an_adversarial_pattern_is_not_preferred() {
    let mut service = service(library(), "64KiB");
    for _ in 0..20 {
        service.tell("malloc 100 65536");
        service.tell("malloc 100 1024");
    }
    let state = service.state();
    let count = |size: u64| state.samples.iter().filter(|it| it.size == size).count() as f64;
    assert!(
        (count(65536) - 1264.0).abs() < 6.0 * 21.6,
        "{}",
        count(65536)
    );
    assert!((count(1024) - 31.0).abs() < 6.0 * 5.5, "{}", count(1024));
}

/// The address of a block is that of the next one; the id is not.
#[test]
fn line_73_events_are_paired_by_the_id_of_the_sample() {
    let text = event(1, "server/7 ", "malloc", &[1, 4096, 10])
        + &event(2, "server/7 ", "free", &[1, 4096, 10])
        + &event(3, "server/7 ", "malloc", &[2, 4096, 20])
        + &event(4, "server/7 ", "calloc", &[5, 6, 3, 4096, 30])
        // Zeros are left out: a block of no bytes.
        + &event(5, "server/7 ", "malloc", &[4, 8192, 0])
        + &event(6, "server/7 ", "realloc_to_regular", &[3, 4096, 30, 12288, 60])
        // Another thread frees what this one has allocated.
        + &event(7, "worker/8 ", "free", &[4, 8192, 0]);
    let report = of_perf(&text, &["--period", "1"]);
    assert_eq!(
        (&report["live_bytes"], &report["samples"]),
        (&20.into(), &1.into()),
        "{report:#}"
    );
}

/// The page has the table for the same sizes, and says what the default costs for large blocks.
#[test]
fn line_74_and_75_the_table_of_the_overhead_and_its_bounds() {
    let page = include_str!("../../../../docs/watch.md");
    page.has_all([
        "| 64 B | 8.39 |",
        "| 1 MiB, 86 % sampled at 512 KiB | 15.7 |",
        "88.9",
    ]);
    // Beside the default period stands the one that costs less.
    let (_, costs) = page
        .split_once("**What a period costs.**")
        .expect("a paragraph");
    let words: Vec<&str> = costs
        .split("\n\n")
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    words.join(" ").has_all([
        "88.9 ns in place of 15.7 ns",
        "ALLOTROPE_WATCH=32MiB",
        "25.7 ns",
    ]);
}

/// A list that is not cleared is reachable, and is found by its growth.
#[test]
fn line_76_slow_growth_of_reachable_memory() {
    let mut service = service(library(), "1");
    let options = [
        "--headless",
        "--every",
        "100ms",
        "--format",
        "json",
        "--top",
        "1000",
    ];
    let mut watcher = Started::new(&mut watch(service.id(), &options));
    let is_growing = |it: &Value| {
        let sites = it["sites"].as_array().into_iter().flatten();
        let mut sites = sites.filter(|it| it["stack"].to_string().contains("by_malloc"));
        sites.any(|it| it["trend"] == "growing")
    };
    let mut seen = false;
    for _ in 0..100 {
        service.tell(&format!("malloc 20 {SIZE}"));
        seen = is_growing(&watcher.object(|it| it["kind"] == "report"));
        if seen {
            break;
        }
    }
    assert!(seen);
}

/// Planned in poireau as here.
#[test]
fn line_77_guard_pages_are_in_neither() {
    allotrope(["watch", "--help"]).ok().lacks("guard");
}

/// What is preloaded needs the C library alone.
#[test]
fn line_78_small_enough_to_audit() {
    let text = run(Command::new("readelf").args(["-d", library()]), b"")
        .ok()
        .text();
    let needed = text.lines().filter(|it| it.contains("(NEEDED)"));
    for line in needed {
        let known = ["[libc.so.6]", "[ld-linux-x86-64.so.2]"];
        assert!(known.iter().any(|it| line.contains(it)), "{line}");
    }
}
