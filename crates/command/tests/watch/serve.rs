//! `watch --pprof-listen` and `--prometheus`: what is served, and to whom. With a period of one
//! byte every block is sampled, so that figures are exact.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use flate2::read::GzDecoder;

use crate::support::compile::compiled;
use crate::support::http::{self, CONNECTIONS};
use crate::support::watched::Program;
use crate::support::{Ended, Started, Text, allotrope, command, run, skip, until};

/// A size and number of blocks that nothing but the test's own commands allocates.
const SIZE: u64 = 4321;
const BLOCKS: u64 = 100;

/// A program with [`BLOCKS`] blocks of [`SIZE`] bytes.
fn program() -> Program {
    let mut program = Program::new(&["--period", "1"]);
    program.tell(&format!("malloc {BLOCKS} {SIZE}"));
    program
}

/// A watcher that serves.
struct Server {
    address: SocketAddr,
    _watcher: Started,
    program: Started,
}

impl Server {
    fn new(options: &[&str]) -> Self {
        Self::of(program().0, options)
    }

    fn of(program: Started, options: &[&str]) -> Self {
        let process = program.id().to_string();
        let mut watch = command();
        watch
            .args(["watch", &process, "--every", "1h"])
            .args(options);
        let mut watcher = Started::new(&mut watch);
        let line = watcher.error_line();
        let (_, rest) = line.split_once("http://").expect("a URL");
        let (address, _) = rest.split_once('/').expect("a path");
        Self {
            address: address.parse().expect("an address"),
            _watcher: watcher,
            program,
        }
    }

    fn connect(&self) -> TcpStream {
        http::connect(self.address)
    }

    fn send(&self, request: &[u8]) -> http::Answer {
        http::send(self.address, request)
    }

    fn ask(&self, method: &str, target: &str, host: &str) -> http::Answer {
        http::ask(self.address, method, target, host)
    }

    /// The body of a page.
    fn page(&self, target: &str) -> Vec<u8> {
        let answer = self.ask("GET", target, "localhost");
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 200, "{text}");
        answer.body
    }
}

/// `figures resident_stacks` states its resident set when each of its 100 threads has called from
/// 4,096 stacks: plain 2.3 MiB, watched 68.
#[test]
fn the_recorders_memory_is_a_metric_of_its_own() {
    const MIB: f64 = 1024.0 * 1024.0;
    let program = || compiled("figures.c");
    let kib = |line: &str| {
        let number = line
            .split_whitespace()
            .next()
            .and_then(|it| it.parse().ok());
        let kib: f64 = number.expect("KiB");
        kib * 1024.0
    };
    let plain = run(Command::new(program()).arg("resident_stacks"), b"").text();
    let plain = kib(&plain);
    let mut standby = command();
    standby.args(["standby", "--no-holder", "--period", "1", "--"]);
    let mut watched = Started::new(standby.arg(program()).arg("resident_stacks"));
    let by_kernel = kib(&watched.line());
    let server = Server::of(watched, &["--prometheus", "127.0.0.1:0"]);
    let page = String::from_utf8(server.page("/metrics")).expect("UTF-8");
    let resident = metric(&page, "allotrope_resident_bytes");
    let recorder = metric(&page, "allotrope_recorder_bytes");
    let own = resident - recorder;
    let mib = [plain, by_kernel, resident, own].map(|it| it / MIB);
    let what = format!("plain, by the kernel, in the metric, without the recorder's: {mib:.1?}");
    eprintln!("{what}");
    assert!((resident - by_kernel).abs() <= MIB, "{what}");
    assert!(recorder >= 50.0 * MIB, "{what}");
    // The recorder's code and static data are not measured.
    assert!(own >= plain && own <= plain + 4.0 * MIB, "{what}");
}

fn metric(page: &str, name: &str) -> f64 {
    let mut lines = page.lines().filter_map(|it| it.split_once('{'));
    let (_, rest) = lines.find(|(it, _)| *it == name).expect(name);
    let (_, value) = rest.rsplit_once(' ').expect("a value");
    value.parse().expect("a number")
}

#[test]
fn metrics_have_the_figures_of_the_process() {
    let server = Server::new(&["--prometheus", "127.0.0.1:0", "--old", "0"]);
    let page = String::from_utf8(server.page("/metrics")).expect("UTF-8");
    // The program allocates nothing else; its C library may allocate a buffer or two.
    let bytes = (BLOCKS * SIZE) as f64;
    for suffix in ["", "_low", "_high"] {
        for (name, least) in [("live_bytes", bytes), ("live_blocks", BLOCKS as f64)] {
            let found = metric(&page, &format!("allotrope_{name}{suffix}"));
            assert!(
                (least..least + 100_000.0).contains(&found),
                "{name}: {found}"
            );
        }
    }
    let old = metric(&page, "allotrope_old_bytes");
    assert_eq!(old, metric(&page, "allotrope_live_bytes"));
    assert_eq!(metric(&page, "allotrope_period_bytes"), 1.0);
    assert_eq!(metric(&page, "allotrope_longest_period_bytes"), 1.0);
    assert_eq!(metric(&page, "allotrope_sampling_complete"), 1.0);
    assert!(metric(&page, "allotrope_sampled_since_seconds") > 1.7e9);
    assert_eq!(metric(&page, "allotrope_lost_samples_total"), 0.0);
    assert!(metric(&page, "allotrope_samples_total") >= BLOCKS as f64);
    assert!(metric(&page, "allotrope_allocated_bytes_total") >= bytes);
    assert!(metric(&page, "allotrope_resident_bytes") >= bytes);
    let labels = format!("{{pid=\"{}\",name=\"", server.program.id());
    page.has(&labels);
    // Each metric has one type and one line of the only process.
    let types = page.lines().filter(|it| it.starts_with("# TYPE")).count();
    let values = page.lines().filter(|it| !it.starts_with('#')).count();
    assert_eq!(types, values, "{page}");
    // Nothing else is served at this address.
    assert_eq!(
        server.ask("GET", "/debug/pprof/heap", "localhost").status,
        404
    );
}

/// Nothing is known of what it had before.
#[test]
fn a_process_whose_sampling_began_late_has_no_upper_end() {
    let mut program = Program::new(&["--period", "off"]);
    program.tell(&format!("malloc {BLOCKS} {SIZE}"));
    let options = ["--pprof-listen", "127.0.0.1:0", "--period", "1"];
    let mut server = Server::of(
        program.0,
        &[&options[..], &["--prometheus", "127.0.0.1:0"]].concat(),
    );
    let mut page = String::new();
    until("blocks are sampled", || {
        server.program.send("malloc 10 100000");
        page = String::from_utf8(server.page("/metrics")).expect("UTF-8");
        metric(&page, "allotrope_samples_total") >= 10.0
    });
    assert_eq!(metric(&page, "allotrope_sampling_complete"), 0.0);
    assert!(metric(&page, "allotrope_live_bytes_low") >= 1e6);
    let ends = ["live_bytes", "live_blocks", "old_bytes", "old_blocks"];
    for end in ends.map(|it| format!("allotrope_{it}_high")) {
        assert!(metric(&page, &end).is_infinite());
        let line = page.lines().find(|it| it.starts_with(&format!("{end}{{")));
        assert!(line.is_some_and(|it| it.ends_with(" +Inf")), "{page}");
    }
    let mut profile = Vec::new();
    GzDecoder::new(&*server.page("/debug/pprof/heap"))
        .read_to_end(&mut profile)
        .expect("gzip");
    let profile = String::from_utf8_lossy(&profile);
    profile.has_all([" was sampled since ", "nothing is known of blocks from"]);
}

#[test]
fn profiles_name_what_is_live() {
    let same = [
        "--pprof-listen",
        "127.0.0.1:0",
        "--prometheus",
        "127.0.0.1:0",
    ];
    let server = Server::new(&same);
    for target in [
        "/debug/pprof/heap",
        "/debug/pprof/allocs?debug=0",
        "/debug/pprof/heap?seconds=0",
    ] {
        let mut profile = Vec::new();
        GzDecoder::new(&*server.page(target))
            .read_to_end(&mut profile)
            .expect("gzip");
        for text in ["by_malloc", "inuse_space", "alloc_space"] {
            let found = profile.windows(text.len()).any(|it| it == text.as_bytes());
            assert!(found, "{text} in {target}");
        }
    }
    // One address serves both.
    assert!(!server.page("/metrics").is_empty());
    assert!(
        server
            .page("/debug/pprof/")
            .starts_with(b"allotrope watch serves")
    );
    let answer = server.ask("HEAD", "/debug/pprof/heap", "localhost");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
}

#[test]
fn go_reads_the_profiles() {
    let go = "go";
    if !crate::support::is_installed(go) {
        return skip("go is not installed");
    }
    let server = Server::new(&["--pprof-listen", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let pprof = |page: &str, option: &str| -> Ended {
        let mut command = Command::new(go);
        command
            .args(["tool", "pprof", "-symbolize=none", option])
            .arg(format!("http://{}/debug/pprof/{page}", server.address))
            .env("PPROF_TMPDIR", folder.path());
        run(&mut command, b"").ok()
    };
    for (page, kind) in [("heap", "inuse_space"), ("allocs", "alloc_space")] {
        let raw = pprof(page, "-raw").text();
        raw.has(format!("{kind}/bytes[dflt]"));
        let bytes = BLOCKS * SIZE;
        let values = [BLOCKS, bytes, BLOCKS, bytes].map(|it| it.to_string());
        let is_site = |line: &str| {
            let numbers = line.split_once(':').map(|(numbers, _)| numbers);
            numbers.is_some_and(|it| it.split_whitespace().eq(values.iter().map(String::as_str)))
        };
        assert!(raw.lines().any(is_site), "{raw}");
        pprof(page, "-top")
            .has(format!("Type: {kind}"))
            .has("by_malloc");
    }
}

#[test]
fn what_is_not_served_is_refused() {
    let server = Server::new(&["--pprof-listen", "127.0.0.1:0"]);
    let heap = "/debug/pprof/heap";
    for (method, target, host, status) in [
        ("GET", "/nothing", "localhost", 404),
        ("GET", "/metrics", "localhost", 404),
        ("GET", "/debug/pprof/heap/../../..", "localhost", 404),
        ("POST", heap, "localhost", 405),
        ("DELETE", heap, "127.0.0.1", 405),
        ("GET", "/debug/pprof/heap?seconds=5", "localhost", 400),
        ("GET", "/debug/pprof/heap?gc=1&debug=1", "localhost", 400),
        // A name that was made to lead here.
        ("GET", heap, "evil.example", 403),
        ("GET", heap, "localhost.evil.example:80", 403),
        ("GET", heap, "", 403),
        ("GET", heap, "127.0.0.1:1", 200),
        ("GET", heap, "[::1]:1", 200),
    ] {
        let answer = server.ask(method, target, host);
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, status, "{method} {target} {host}: {text}");
    }
    let without = server.send(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(without.status, 400, "no Host");
    let twice = server.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n");
    assert_eq!(twice.status, 400, "two Hosts");
}

#[test]
fn hostile_requests_stop_nobody() {
    let server = Server::new(&["--prometheus", "127.0.0.1:0"]);
    for garbage in [
        &b"\0\xff\x80garbage\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\r\n",
        b"GET\r\n\r\n",
    ] {
        assert_eq!(server.send(garbage).status, 400);
    }
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n",
        "x".repeat(20_000)
    );
    assert_eq!(server.send(long.as_bytes()).status, 431);
    let many = "A: b\r\n".repeat(500);
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n");
    assert_eq!(server.send(many.as_bytes()).status, 431);
    // Slow clients that take all but one place, and never end their requests.
    let slow: Vec<TcpStream> = (1..CONNECTIONS)
        .map(|_| {
            let mut stream = server.connect();
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost:")
                .expect("sent");
            stream
        })
        .collect();
    // Places may still be taken by the requests before: those are freed within their limits.
    while server.ask("GET", "/metrics", "localhost").status != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The server gives them up by itself.
    for mut stream in slow {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }
    // More connections than places: some are closed, and the server goes on.
    let many: Vec<TcpStream> = (0..4 * CONNECTIONS).map(|_| server.connect()).collect();
    drop(many);
    while server.ask("GET", "/metrics", "localhost").status != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reported: idle connections of another user make the page unreachable.
#[test]
fn idle_clients_of_another_user_hold_up_nobody() {
    if !crate::support::is_root() {
        return skip("only root starts a client of another user");
    }
    let servers = [
        ("--prometheus", "127.0.0.1:0", "/metrics"),
        ("--pprof-listen", "[::1]:0", "/debug/pprof/heap"),
    ];
    for (option, address, target) in servers {
        if std::net::TcpListener::bind(address).is_err() {
            // A machine may have no IPv6.
            continue;
        }
        let server = Server::new(&[option, address]);
        let idle = http::idle_clients(server.address, 70);
        for number in 0..50 {
            let answer = server.ask("GET", target, "localhost");
            assert_eq!(answer.status, 200, "{option} {address} {number}");
        }
        idle.end();
    }
}

#[test]
fn other_machines_are_served_only_where_that_is_wanted() {
    let program = program();
    let id = program.id().to_string();
    let refused = |option: &str, address: &str| {
        let words = ["watch", &id, option, address];
        allotrope(words).code(2)
    };
    for option in ["--pprof-listen", "--prometheus"] {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:6060"] {
            let refused = refused(option, address);
            refused.says("not a loopback address").error_lines(1);
        }
        for address in [
            "6060",
            "example.org:80",
            "127.0.0.1",
            "127.0.0.1:99999",
            "localhost:x",
        ] {
            refused(option, address);
        }
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    refused("--prometheus", &address).says("cannot listen at");
    drop(program);
    let server = Server::new(&["--prometheus", "0.0.0.0:0", "--listen-anywhere"]);
    let mut server = server;
    server.address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    // Other machines use the name of this one.
    assert_eq!(server.ask("GET", "/metrics", "server.example").status, 200);
}
