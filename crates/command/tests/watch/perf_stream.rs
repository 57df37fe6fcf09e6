//! `watch --perf-script -` reads what `perf trace` prints while it prints it: reports at their times,
//! lists at signals, poireau's lines.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::record::command;
use crate::support::{Started, Text, run, until};

/// A line of `perf trace`: milliseconds, who, probe, arguments.
fn line(milliseconds: u32, who: &str, probe: &str, arguments: &[(usize, i64)]) -> String {
    let arguments = arguments.iter().map(|(at, it)| format!(", arg{at}: {it}"));
    let arguments: String = arguments.collect();
    format!("{milliseconds:6}.000 {who}{probe}(__probe_ip: 139863{arguments})\n")
}

fn malloc(milliseconds: u32, id: i64, size: i64) -> String {
    let arguments = [(1, id), (2, id * 4096), (3, size)];
    let frame = "                                       grow (/usr/bin/server)\n";
    line(
        milliseconds,
        "server/7 ",
        "sdt_libpoireau:malloc",
        &arguments,
    ) + frame
}

fn free(milliseconds: u32, id: i64, size: i64) -> String {
    let arguments = [(1, id), (2, id * 4096), (3, size)];
    let frame = "                                       drop_all (/usr/bin/server)\n";
    line(milliseconds, "server/7 ", "sdt_libpoireau:free", &arguments) + frame
}

fn watch(options: &[&str]) -> Started {
    let mut watch = command();
    watch.args(["watch", "--perf-script", "-", "--period", "1"]);
    Started::new(watch.args(options))
}

fn report(text: &str, options: &[&str]) -> Value {
    let mut watch = command();
    watch.args([
        "watch",
        "--perf-script",
        "-",
        "--period",
        "1",
        "--format",
        "json",
    ]);
    run(watch.args(options), text.as_bytes()).ok().json()
}

/// Reported: "`perf trace` leaves out zeros: 754 MiB said, 34 MiB live". One block of 34 MiB is live; the
/// old size in our `realloc` is always 0, so that its address was taken for the size.
#[test]
fn zeros_that_perf_trace_leaves_out_shift_nothing() {
    let size = 34 << 20;
    let text = line(
        0,
        "server/7 ",
        "sdt_allotrope:realloc",
        &[
            (1, 789_979_136),
            (3, -7),
            (4, 790_000_000),
            (5, size),
            (6, size),
        ],
    );
    let report = report(&text, &[]);
    assert_eq!(report["live_bytes"], size, "{report:#}");
    assert_eq!(report["processes"][0]["pid"], 7, "{report:#}");
}

/// `perf trace -p` of a process with one thread prints neither name nor id.
#[test]
fn a_process_of_one_thread_has_no_name() {
    let text = malloc(5, 1, 100) + &malloc(6, 2, 30) + &free(7, 1, 100);
    let text = text.replace("server/7 ", "");
    let report = report(&text, &[]);
    assert_eq!(report["live_bytes"], 30, "{report:#}");
    assert_eq!(report["processes"][0]["pid"], 0, "{report:#}");
}

#[test]
fn the_name_of_the_thread_chooses_events() {
    let text = malloc(5, 1, 100) + &malloc(6, 2, 30).replace("server/7", "other/8");
    assert_eq!(report(&text, &["--comm", "oth.*"])["live_bytes"], 30);
    let mut none = command();
    none.args(["watch", "--perf-script", "-", "--comm", "third"]);
    run(&mut none, text.as_bytes()).fails(2, "of threads that --comm names");
}

#[test]
fn reports_come_while_perf_runs() {
    let mut watch = watch(&["--every", "100ms", "--format", "json"]);
    watch.write(malloc(1000, 1, 1000).as_bytes());
    // The end of an event is the next one, or half a second without a line.
    let live = |bytes: u64| move |it: &Value| it["kind"] == "report" && it["live_bytes"] == bytes;
    watch.object(live(1000));
    watch.write(malloc(1001, 2, 500).as_bytes());
    watch.write(free(1002, 1, 1000).as_bytes());
    let later = watch.object(live(500));
    // Since the first report, which had nothing.
    assert_eq!(later["grown_bytes"], 500, "{later:#}");
    // Time goes on, although perf prints nothing.
    let is_later = |it: &Value| it["sites"][0]["oldest_seconds"].as_f64() > Some(0.7);
    watch.object(is_later);
    watch.close_input();
    watch.end().ok();
}

/// Blocks 2 and 3 stay.
#[test]
fn signals_and_times_print_poireaus_lists() {
    let options = ["--format", "poireau", "--every", "100ms", "--old", "0s"];
    let mut watch = watch(&options);
    watch.write((malloc(1000, 1, 1000) + &malloc(1001, 2, 500)).as_bytes());
    watch.write((free(1002, 1, 1000) + &malloc(1003, 3, 70)).as_bytes());
    let list = |watch: &mut Started, head: &str, lines: usize| -> Vec<String> {
        while !watch.line().ends_with(head) {}
        (0..lines).map(|_| watch.line()).collect()
    };
    // The periodic list; what is not read yet is in a later one.
    while !watch.line().starts_with("\tsize=70 ") {}
    watch.signal(Signal::HUP);
    let live = list(&mut watch, " UTC live allocations", 2);
    live[0].has_all(["\tsize=500 c_age=", " alloc=grow"]);
    live[1].has_all(["\tsize=70 c_age=", " alloc=grow"]);
    watch.signal(Signal::USR2);
    let freed = list(&mut watch, " UTC recently freed regions", 1);
    let line = "\tptr=1000 size=1000 f_time=1.002000 free=drop_all alloc=grow ctime=1.000000";
    assert_eq!(freed, [line]);
    watch.signal(Signal::USR1);
    // The one of the signal is the last one with blocks.
    until("they are hidden", || {
        list(&mut watch, " UTC old allocations", 0);
        watch.line().ends_with(" UTC old allocations")
    });
    watch.close_input();
    // At the end all that are live, as poireau prints them.
    list(&mut watch, " UTC live allocations", 2);
    watch.end().ok();
}

#[test]
fn signals_print_json_and_the_end_has_a_report() {
    let mut watch = watch(&["--format", "json", "--every", "100ms"]);
    watch.write((malloc(1000, 1, 1000) + &free(1001, 1, 1000) + &malloc(1002, 2, 70)).as_bytes());
    watch.object(|it| it["live_bytes"] == 70);
    watch.signal(Signal::HUP);
    let block = watch.object(|it| it["kind"] == "live_block");
    assert_eq!((&block["size"], &block["pid"]), (&70.into(), &7.into()));
    watch.signal(Signal::USR2);
    let block = watch.object(|it| it["kind"] == "freed_block");
    assert_eq!(block["address"], "0x1000");
    assert_eq!(block["free_stack"][0]["function"], "drop_all");
    // The terminal's Ctrl-C reaches perf, too, which prints what it still has.
    watch.signal(Signal::INT);
    watch.write(malloc(1003, 3, 5).as_bytes());
    watch.object(|it| it["kind"] == "report" && it["live_bytes"] == 75);
    watch.end().code(128 + 2);
}
