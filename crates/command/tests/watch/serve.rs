//! `watch --pprof-listen` and `--prometheus`: what is served, and to whom. With a period of one
//! byte every block is sampled, so that figures are exact.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use flate2::read::GzDecoder;

use crate::support::compile::compiled;
use crate::support::http::{self, CONNECTIONS};
use crate::support::record::command;
use crate::support::skip;

/// A size and number of blocks that nothing but the test's own commands allocates.
const SIZE: u64 = 4321;
const BLOCKS: u64 = 100;

/// A child that is killed at the end of the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `programs/watched.c` with [`BLOCKS`] blocks of [`SIZE`] bytes.
fn program() -> Ended {
    let mut child = command()
        .args(["standby", "--period", "1", "--"])
        .arg(compiled("watched.c"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut answer = || {
        let mut line = String::new();
        answers.read_line(&mut line).expect("an answer");
        line
    };
    assert_eq!(answer(), "ready\n");
    let commands = child.stdin.as_mut().expect("a pipe");
    writeln!(commands, "malloc {BLOCKS} {SIZE}").expect("a command");
    assert_eq!(answer(), "ok\n");
    Ended(child)
}

/// A watcher that serves.
struct Server {
    address: SocketAddr,
    _errors: BufReader<ChildStderr>,
    _watcher: Ended,
    program: Ended,
}

impl Server {
    fn new(options: &[&str]) -> Self {
        Self::of(program(), options)
    }

    fn of(program: Ended, options: &[&str]) -> Self {
        let mut watcher = command()
            .args(["watch", &program.0.id().to_string(), "--every", "1h"])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command");
        let mut errors = BufReader::new(watcher.stderr.take().expect("a pipe"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("the address");
        let (_, rest) = line.split_once("http://").expect("a URL");
        let (address, _) = rest.split_once('/').expect("a path");
        Self {
            address: address.parse().expect("an address"),
            _errors: errors,
            _watcher: Ended(watcher),
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
    let plain = Command::new(program()).arg("resident_stacks").output();
    let plain = kib(&String::from_utf8_lossy(&plain.expect("it ran").stdout));
    let mut child = command()
        .args(["standby", "--no-holder", "--period", "1", "--"])
        .arg(program())
        .arg("resident_stacks")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    let read = BufReader::new(output).read_line(&mut line);
    read.expect("its resident set");
    let by_kernel = kib(&line);
    let server = Server::of(Ended(child), &["--prometheus", "127.0.0.1:0"]);
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
    assert_eq!(metric(&page, "allotrope_lost_samples_total"), 0.0);
    assert!(metric(&page, "allotrope_samples_total") >= BLOCKS as f64);
    assert!(metric(&page, "allotrope_allocated_bytes_total") >= bytes);
    assert!(metric(&page, "allotrope_resident_bytes") >= bytes);
    let labels = format!("{{pid=\"{}\",name=\"", server.program.0.id());
    assert!(page.contains(&labels), "{page}");
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
    if Command::new(go).arg("version").output().is_err() {
        return skip("go is not installed");
    }
    let server = Server::new(&["--pprof-listen", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let pprof = |page: &str, option: &str| -> Output {
        Command::new(go)
            .args(["tool", "pprof", "-symbolize=none", option])
            .arg(format!("http://{}/debug/pprof/{page}", server.address))
            .env("PPROF_TMPDIR", folder.path())
            .output()
            .expect("it ran")
    };
    for (page, kind) in [("heap", "inuse_space"), ("allocs", "alloc_space")] {
        let raw = pprof(page, "-raw");
        let errors = String::from_utf8_lossy(&raw.stderr);
        assert!(raw.status.success(), "{errors}");
        let raw = String::from_utf8(raw.stdout).expect("UTF-8");
        assert!(raw.contains(&format!("{kind}/bytes[dflt]")), "{raw}");
        let bytes = BLOCKS * SIZE;
        let values = [BLOCKS, bytes, BLOCKS, bytes].map(|it| it.to_string());
        let is_site = |line: &str| {
            let numbers = line.split_once(':').map(|(numbers, _)| numbers);
            numbers.is_some_and(|it| it.split_whitespace().eq(values.iter().map(String::as_str)))
        };
        assert!(raw.lines().any(is_site), "{raw}");
        let top = pprof(page, "-top");
        let top = String::from_utf8_lossy(&top.stdout).into_owned();
        assert!(
            top.contains(&format!("Type: {kind}")) && top.contains("by_malloc"),
            "{top}"
        );
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
        let mut idle = http::idle_clients(server.address, 70);
        for number in 0..50 {
            let answer = server.ask("GET", target, "localhost");
            assert_eq!(answer.status, 200, "{option} {address} {number}");
        }
        drop(idle.stdin.take());
        idle.wait().expect("it ends");
    }
}

#[test]
fn other_machines_are_served_only_where_that_is_wanted() {
    let program = program();
    let id = program.0.id().to_string();
    for option in ["--pprof-listen", "--prometheus"] {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:6060"] {
            let refused =
                crate::support::record::run(command().args(["watch", &id, option, address]), b"");
            let errors = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{errors}");
            assert!(errors.contains("not a loopback address"), "{errors}");
            assert_eq!(errors.lines().count(), 1, "{errors}");
        }
        for address in [
            "6060",
            "example.org:80",
            "127.0.0.1",
            "127.0.0.1:99999",
            "localhost:x",
        ] {
            let refused =
                crate::support::record::run(command().args(["watch", &id, option, address]), b"");
            assert_eq!(refused.status.code(), Some(2), "{address}");
        }
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = crate::support::record::run(
        command().args(["watch", &id, "--prometheus", &address]),
        b"",
    );
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("cannot listen at"), "{errors}");
    drop(program);
    let server = Server::new(&["--prometheus", "0.0.0.0:0", "--listen-anywhere"]);
    let mut server = server;
    server.address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    // Other machines use the name of this one.
    assert_eq!(server.ask("GET", "/metrics", "server.example").status, 200);
}
