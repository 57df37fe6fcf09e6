//! Process trees of real programs: a build, nginx, redis. Their counts do not follow
//! from a source of ours; a second library, preloaded after the recorder
//! (`programs/counting.c`), counts independently, process by process.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::matrix::{Outcome, case};
use super::targets::{expect_complete, target_with};
use crate::support::{Record, Report, is_installed, record};

const GROUP: &str = "Process trees";
const EXPECTED: &str = "every image is in the trace; its allocations equal an independent count";
/// Name of the file in which the counting library counts.
const COUNTS: &str = "counts";
/// Process ids that Linux knows.
const IDS: u64 = 1 << 22;

/// A recording in which the counting library is preloaded after the recorder.
fn counted(program: &str) -> Record {
    let library = target_with("counting.c", &["-shared", "-fPIC"]);
    let described = record(program);
    let counts = described.folder().join(COUNTS);
    std::fs::File::create(&counts)
        .and_then(|file| file.set_len(IDS * 8))
        .expect("a sparse file of 32 MiB");
    described
        .env("LD_PRELOAD", library)
        .env("COUNTED_ALLOCATIONS", counts)
}

/// Fails unless the images of each process id made as many allocations as were
/// counted for it; returns what was seen.
#[track_caller]
fn expect_counted(report: &Report, folder: &Path) -> String {
    expect_complete(report);
    let counts = std::fs::File::open(folder.join(COUNTS)).expect("it was made");
    let mut recorded = BTreeMap::new();
    for process in report.processes() {
        *recorded.entry(process.number("pid")).or_insert(0) += process.total("allocations");
    }
    for (pid, recorded) in &recorded {
        let mut number = [0; 8];
        counts
            .read_exact_at(&mut number, pid * 8)
            .expect("it is that long");
        assert_eq!(
            *recorded,
            u64::from_le_bytes(number),
            "process {pid}: {}",
            report.summary()
        );
    }
    format!(
        "{} images in {} processes, {} allocations, all equal",
        report.processes().len(),
        recorded.len(),
        recorded.values().sum::<u64>()
    )
}

/// How many images ran this program.
fn images_of(report: &Report, program: &str) -> usize {
    let is = |command: &[&str]| {
        command
            .first()
            .is_some_and(|word| word.rsplit('/').next() == Some(program))
    };
    report
        .processes()
        .iter()
        .filter(|process| is(&process.command()))
        .count()
}

#[test]
fn build() {
    case(GROUP, "make -j4 of four C++ files", EXPECTED, || {
        if !is_installed("make") || !is_installed("g++") {
            return Outcome::Skipped("no make or no g++".to_owned());
        }
        let described = counted("make").args(["-j4", "program"]);
        let folder = described.folder();
        let mut rules =
            "OBJECTS = 0.o 1.o 2.o 3.o\nprogram: $(OBJECTS)\n\tg++ -o $@ $^\n".to_owned();
        rules += "%.o: %.cc\n\tg++ -c -o $@ $<\n";
        std::fs::write(folder.join("Makefile"), rules).expect("it is ours");
        for number in 0..4 {
            let function = if number == 0 {
                "main".to_owned()
            } else {
                format!("f{number}")
            };
            let text = format!(
                "#include <string>\nint {function}() {{ return std::string(\"x\").size() - 1; }}\n"
            );
            std::fs::write(folder.join(format!("{number}.cc")), text).expect("it is ours");
        }
        let recording = described.run().ok();
        let folder = recording.folder.path();
        let program = Command::new(folder.join("program")).status();
        assert!(program.expect("it was built").success());
        let report = recording.report();
        let seen = expect_counted(&report, folder);
        for (program, images) in [("make", 1), ("cc1plus", 4), ("as", 4), ("ld", 1)] {
            // A forked make is an image of make until it execs g++.
            assert!(
                images_of(&report, program) >= images,
                "{program}: {}",
                report.summary()
            );
        }
        Outcome::Seen(seen)
    });
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a port");
    listener.local_addr().expect("it is bound").port()
}

/// Sends a request to a server that is about to listen, and reads until the answer
/// contains `until`.
fn ask(port: u16, request: &[u8], until: &str) -> String {
    let start = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) if start.elapsed() > Duration::from_secs(60) => panic!("no server: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("it is above 0");
    stream.write_all(request).expect("it reads");
    let (mut printed, mut piece) = (String::new(), [0; 4096]);
    while !printed.contains(until) {
        let count = stream.read(&mut piece).expect("it answers");
        assert_ne!(count, 0, "it printed {printed}");
        printed += &String::from_utf8_lossy(&piece[..count]);
    }
    printed
}

#[test]
fn nginx() {
    case(GROUP, "nginx and its two workers", EXPECTED, || {
        if !is_installed("nginx") {
            return Outcome::Skipped("no nginx".to_owned());
        }
        let port = free_port();
        let described = counted("nginx");
        let folder = described.folder().to_owned();
        let root = folder.display();
        let settings = format!(
            "daemon off; worker_processes 2; pid {root}/pid; error_log {root}/errors;\n\
             events {{ worker_connections 32; }}\n\
             http {{ access_log off; client_body_temp_path {root}/1; proxy_temp_path {root}/2;\n\
             fastcgi_temp_path {root}/3; uwsgi_temp_path {root}/4; scgi_temp_path {root}/5;\n\
             server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"fine\"; }} }} }}\n"
        );
        std::fs::write(folder.join("settings"), settings).expect("it is ours");
        let described = described
            .arg("-c")
            .arg(folder.join("settings"))
            .arg("-p")
            .arg(&folder);
        let child = described.start();
        for _ in 0..20 {
            ask(port, b"GET / HTTP/1.0\r\n\r\n", "fine");
        }
        let pid = std::fs::read_to_string(folder.join("pid")).expect("nginx wrote it");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("above 0");
        kill_process(pid, Signal::QUIT).expect("it lives");
        let recording = described.recorded(child.end()).ok();
        let report = recording.report();
        assert_eq!(report.processes().len(), 3, "{}", report.summary());
        Outcome::Seen(expect_counted(&report, &folder))
    });
}

#[test]
fn redis() {
    case(GROUP, "redis and the child of its BGSAVE", EXPECTED, || {
        if !is_installed("redis-server") {
            return Outcome::Skipped("no redis-server".to_owned());
        }
        let port = free_port();
        let described = counted("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--port"])
            .arg(port.to_string());
        let folder = described.folder().to_owned();
        let child = described.start();
        for number in 0..200 {
            ask(
                port,
                format!("SET key{number} {number}\r\n").as_bytes(),
                "+OK",
            );
        }
        ask(port, b"BGSAVE\r\n", "started");
        let start = Instant::now();
        while !ask(port, b"INFO persistence\r\n", "aof_enabled")
            .contains("rdb_bgsave_in_progress:0")
        {
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        // redis closes the connection without an answer.
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(b"SHUTDOWN NOSAVE\r\n").expect("it reads");
        let recording = described.recorded(child.end()).ok();
        let report = recording.report();
        assert_eq!(report.processes().len(), 2, "{}", report.summary());
        Outcome::Seen(expect_counted(&report, &folder))
    });
}
