//! `allotrope view`: what is served, to whom, how a browser is started, and how it ends. The page
//! itself is tested in a browser, in `ui/tests`.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::compile::compiled;
use crate::support::http::{self, Answer, CONNECTIONS};
use crate::support::record::{Recording, command, record};
use crate::support::{Started, Text, allotrope, is_root, run, skip, until};

/// What decides how a browser is started.
const VARIABLES: [&str; 4] = ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"];

fn recording() -> Recording {
    record(compiled("phases.c")).run().ok()
}

/// `allotrope view`.
struct View {
    started: Started,
    url: String,
    address: SocketAddr,
    /// The path of the page.
    path: String,
}

impl View {
    /// Starts the view with these variables of [`VARIABLES`], without the others.
    fn with(trace: &Path, options: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = command();
        command.arg("view").arg(trace).args(options);
        Self::of(&mut command, variables)
    }

    fn of(command: &mut Command, variables: &[(&str, &str)]) -> Self {
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        // As a job of a shell.
        let mut started = Started::new(command.process_group(0));
        let url = started.line();
        let rest = url.strip_prefix("http://").expect(&url);
        let (address, path) = rest.split_once('/').expect("a path");
        Self {
            address: address.parse().expect("an address"),
            path: format!("/{path}"),
            started,
            url,
        }
    }

    fn quiet(trace: &Path) -> Self {
        Self::with(trace, &["--no-open"], &[])
    }

    fn ask(&self, method: &str, target: &str, host: &str) -> Answer {
        http::ask(self.address, method, target, host)
    }

    /// The answer to the request of a browser.
    fn page(&self) -> Answer {
        self.ask("GET", &self.path, &self.address.to_string())
    }

    fn error_line(&mut self) -> String {
        self.started.error_line()
    }
}

#[test]
fn the_page_is_that_of_report() {
    let recording = recording();
    let view = View::quiet(&recording.trace);
    let file = recording.folder.path().join("page.html");
    allotrope([
        OsStr::new("report"),
        recording.trace.as_os_str(),
        OsStr::new("--html"),
        file.as_os_str(),
    ])
    .ok();
    let page = view.page();
    assert_eq!(page.status, 200, "{}", page.head);
    assert_eq!(page.body, fs::read(file).expect("it was written"));
    for (name, value) in [
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", &*page.body.len().to_string()),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}: {}", page.head);
    }
    let policy = page.header("Content-Security-Policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    policy.has("frame-ancestors 'none'");
    policy.lacks("unsafe");
    let head = view.ask("HEAD", &view.path, &view.address.to_string());
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("Content-Length"), page.header("Content-Length"));
}

#[test]
fn the_page_of_two_files_is_that_of_diff() {
    let recording = recording();
    let folder = recording.folder.path();
    let stacks = folder.join("before.stacks");
    allotrope([
        OsStr::new("export"),
        recording.trace.as_os_str(),
        OsStr::new("--format"),
        OsStr::new("stacks"),
        OsStr::new("-o"),
        stacks.as_os_str(),
    ])
    .ok();
    for before in [&recording.trace, &stacks] {
        let file = folder.join("comparison.html");
        allotrope([
            OsStr::new("diff"),
            before.as_os_str(),
            recording.trace.as_os_str(),
            OsStr::new("--html"),
            file.as_os_str(),
        ])
        .ok();
        let after = recording.trace.to_str().expect("plain names");
        let view = View::with(before, &["--no-open", after], &[]);
        let page = view.page();
        assert_eq!(page.status, 200, "{}", page.head);
        assert_eq!(page.body, fs::read(file).expect("it was written"));
    }
}

#[test]
fn without_the_token_and_with_other_hosts_there_is_no_page() {
    let recording = recording();
    let view = View::quiet(&recording.trace);
    assert!(view.address.ip().is_loopback());
    let token = view.path.trim_matches('/');
    // 128 bits in hexadecimal.
    assert_eq!(token.len(), 32, "{token}");
    assert!(token.bytes().all(|it| it.is_ascii_hexdigit()), "{token}");
    let port = view.address.port();
    let own = format!("127.0.0.1:{port}");
    let local = format!("localhost:{port}");
    let with = |target: &str, host: &str| view.ask("GET", target, host).status;
    assert_eq!(with(&view.path, &local), 200);
    let zeros = format!("/{}/", "0".repeat(32));
    let upper = view.path.to_uppercase();
    let short = format!("/{}/", &token[..31]);
    let long = format!("/{token}0/");
    let twice = format!("/{token}//");
    let query = format!("/?{token}");
    for target in ["/", "", "*", &zeros, &upper, &short, &long, &twice, &query] {
        // A token may have no letters.
        if target != view.path {
            let status = with(target, &own);
            assert!(matches!(status, 400 | 404), "{target}: {status}");
        }
    }
    assert_eq!(with("/favicon.ico", &own), 404);
    let other_port = format!("127.0.0.1:{}", port ^ 1);
    let longer = format!("127.0.0.1:{port}0");
    let suffix = format!("127.0.0.1.evil.example:{port}");
    let name = format!("evil.example:{port}");
    let any = format!("0.0.0.0:{port}");
    for host in [
        "evil.example",
        &name,
        &suffix,
        "127.0.0.1",
        "localhost",
        &other_port,
        &longer,
        &any,
        "[::1]",
        "",
    ] {
        assert_eq!(with(&view.path, host), 403, "{host}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"] {
        let answer = view.ask(method, &view.path, &own);
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("Allow"), Some("GET, HEAD"));
    }
    let of = |request: &str| http::send(view.address, request.as_bytes()).status;
    let path = &view.path;
    assert_eq!(of(&format!("GET {path} HTTP/1.1\r\n\r\n")), 400, "no Host");
    let two = format!("GET {path} HTTP/1.1\r\nHost: {own}\r\nHost: {own}\r\n\r\n");
    assert_eq!(of(&two), 400, "two Hosts");
    assert_eq!(of(&format!("GET {path} HTTP/1.0\r\n\r\n")), 403, "HTTP/1.0");
    // Each time another token.
    let second = View::quiet(&recording.trace);
    assert_ne!(second.path, view.path);
    assert_eq!(
        second.ask("GET", path, &second.address.to_string()).status,
        404
    );
}

#[test]
fn other_users_get_no_page() {
    if !is_root() {
        return skip("only root starts a client of another user");
    }
    let recording = recording();
    let view = View::quiet(&recording.trace);
    let port = view.address.port();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n' >&3; head -n 1 <&3",
        view.path
    );
    let status_for = |user: u32| {
        let mut bash = Command::new("bash");
        run(bash.args(["-c", &script]).current_dir("/").uid(user), b"").text()
    };
    // Root's client may read the page of root.
    status_for(0).has(" 200 ");
    status_for(65_534).has(" 403 ");
}

#[test]
fn slow_and_hostile_clients_stop_nobody_and_take_no_memory() {
    let recording = recording();
    let view = View::quiet(&recording.trace);
    assert_eq!(view.page().status, 200);
    let before = view.started.resident_kib();
    for garbage in [
        &b"\0\xff\x80garbage\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\r\n",
        b"GET\r\n\r\n",
    ] {
        assert_eq!(http::send(view.address, garbage).status, 400);
    }
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000));
    assert_eq!(http::send(view.address, long.as_bytes()).status, 431);
    // Clients that take all but one place: some never end their requests, some never read.
    let own = view.address.to_string();
    let whole = format!("GET {} HTTP/1.1\r\nHost: {own}\r\n\r\n", view.path);
    let slow: Vec<TcpStream> = (1..CONNECTIONS)
        .map(|number| {
            let mut stream = http::connect(view.address);
            let request = if number % 2 == 0 { &*whole } else { "GET /" };
            stream.write_all(request.as_bytes()).expect("sent");
            stream
        })
        .collect();
    // Places may still be taken by the requests before: those are freed within their limits.
    while view.page().status != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(slow);
    for _ in 0..200 {
        let mut stream = http::connect(view.address);
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nX: ");
    }
    while view.page().status != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The heads of all connections, stacks of threads and glibc's arenas are far below this.
    let after = view.started.resident_kib();
    assert!(after < before + 16 * 1024, "{before} KiB, then {after} KiB");
}

/// Reported: idle connections of another user make the page unreachable.
#[test]
fn idle_clients_of_another_user_hold_up_nobody() {
    if !is_root() {
        return skip("only root starts a client of another user");
    }
    let recording = recording();
    let view = View::quiet(&recording.trace);
    let idle = http::idle_clients(view.address, 70);
    for number in 0..50 {
        assert_eq!(view.page().status, 200, "{number}");
    }
    idle.end();
}

#[test]
fn signals_end_it() {
    let recording = recording();
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let view = View::quiet(&recording.trace);
        // Also while a client is connected.
        let client = http::connect(view.address);
        view.started.signal(signal);
        view.started.end().code(status).error_lines(0);
        drop(client);
    }
    // nohup(1): the end of the terminal does not end it.
    let mut nohup = Command::new("nohup");
    let program = command().get_program().to_owned();
    nohup
        .arg(program)
        .arg("view")
        .arg(&recording.trace)
        .arg("--no-open");
    let view = View::of(&mut nohup, &[]);
    view.started.signal(Signal::HUP);
    assert_eq!(view.page().status, 200);
    view.started.signal(Signal::TERM);
    view.started.end().code(143);
}

/// A program that stands for a browser: it reads its input to the end, writes down its process
/// group, its descriptors and its arguments, and ends as `end` says.
fn browser(folder: &Path, name: &str, end: &str) -> (PathBuf, PathBuf) {
    let (path, seen) = (folder.join(name), folder.join(format!("{name}.seen")));
    let text = format!(
        "#!/bin/bash\ncat\n{{ ps -o pgid= -p $$; ls -l /proc/$$/fd; echo \"$@\"; }} >{0}.part\nmv {0}.part {0}\n{end}\n",
        seen.display()
    );
    fs::write(&path, text).expect("the folder is ours");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    (path, seen)
}

/// The lines of a file that somebody writes.
fn lines_of(path: &Path) -> Vec<String> {
    let name = path.display().to_string();
    until(&name, || path.exists());
    let text = fs::read_to_string(path).expect("it is there");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_browser_gets_the_url_and_nothing_to_hold_on_to() {
    let recording = recording();
    let folder = recording.folder.path();
    let (path, seen) = browser(folder, "browser", "sleep 1000");
    // The first one does not exist.
    let variable = format!("/none/browser:{} --tab=%s", path.display());
    let mut view = View::with(&recording.trace, &[], &[("BROWSER", &variable)]);
    let message = view.error_line();
    message.has("opening the page");
    assert!(message.contains(path.to_str().expect("plain")), "{message}");
    let mut lines = lines_of(&seen);
    assert_eq!(lines.pop(), Some(format!("--tab={}", view.url)));
    // Not that of the command, to which a terminal sends Ctrl-C.
    let group: u32 = lines.remove(0).trim().parse().expect("a group");
    assert_ne!(group, view.started.id());
    let open = lines.iter().filter_map(|line| line.split_once(" -> "));
    let open: Vec<&str> = open.map(|(_, file)| file).collect();
    assert!(open.len() >= 3, "{lines:?}");
    // bash has its script open, and what it writes.
    let is_own = |it: &&&str| it.ends_with("/browser") || it.ends_with(".part");
    let others: Vec<_> = open.iter().filter(|it| !is_own(it)).collect();
    assert!(others.iter().all(|it| **it == "/dev/null"), "{others:?}");
    // Ctrl-C ends the command, and the browser runs on.
    kill_process_group(view.started.pid(), Signal::INT).expect("it runs");
    view.started.end().code(130);
    let browser = Pid::from_raw(group as i32).expect("a process");
    kill_process_group(browser, Signal::KILL).expect("it still runs");
}

#[test]
fn a_browser_that_fails_is_named() {
    let recording = recording();
    let folder = recording.folder.path();
    let (path, seen) = browser(folder, "failing", "exit 3");
    let variable = path.to_str().expect("plain");
    let mut view = View::with(&recording.trace, &[], &[("BROWSER", variable)]);
    assert!(view.error_line().contains("opening the page"));
    let message = view.error_line();
    message.has("failed (exit status: 3)");
    assert_eq!(lines_of(&seen).last(), Some(&view.url));
    assert_eq!(view.page().status, 200);

    let none = [("BROWSER", "/none/a:/none/b %s")];
    let mut view = View::with(&recording.trace, &[], &none);
    let message = view.error_line();
    message.has("/none/a or /none/b cannot be started");
    assert_eq!(view.page().status, 200);
}

#[test]
fn xdg_open_is_used_on_a_display_only() {
    let recording = recording();
    let folder = recording.folder.path();
    let (_, seen) = browser(folder, "xdg-open", "");
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", folder.display());
    let variables = [("DISPLAY", ":7"), ("PATH", &path), ("BROWSER", "")];
    let view = View::with(&recording.trace, &[], &variables);
    assert_eq!(lines_of(&seen).last(), Some(&view.url));
    drop(view);
    fs::remove_file(&seen).expect("it is ours");

    let mut view = View::with(&recording.trace, &[], &[("PATH", &path)]);
    let message = view.error_line();
    message.has_all(["there is no display", "open the URL"]);
    assert_eq!(view.page().status, 200);
    assert!(!seen.exists());
}

#[test]
fn in_an_ssh_session_the_tunnel_is_named() {
    let recording = recording();
    let (path, seen) = browser(recording.folder.path(), "remote", "");
    // ssh(1): the addresses and ports of the client and of the server.
    let session = [
        ("SSH_CONNECTION", "198.51.100.7 50123 192.0.2.5 22"),
        ("BROWSER", path.to_str().expect("plain")),
    ];
    let mut view = View::with(&recording.trace, &[], &session);
    let port = view.address.port();
    assert!(view.error_line().contains("ssh session"));
    assert_eq!(
        view.error_line(),
        format!("allotrope: ssh -L {port}:127.0.0.1:{port} 192.0.2.5")
    );
    assert_eq!(view.page().status, 200);
    view.started.signal(Signal::TERM);
    view.started.end();
    assert!(!seen.exists(), "no browser is started");
}

#[test]
fn no_open_prints_the_url_and_nothing_else() {
    let recording = recording();
    let session = [("SSH_CONNECTION", "198.51.100.7 50123 192.0.2.5 22")];
    for variables in [&[][..], &session] {
        let view = View::with(&recording.trace, &["--no-open"], variables);
        assert_eq!(view.page().status, 200);
        view.started.signal(Signal::TERM);
        let ended = view.started.end().error_lines(0);
        assert_eq!(ended.text(), format!("{}\n", view.url));
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_a_sentence() {
    let recording = recording();
    let folder = recording.folder.path();
    let trace = recording.trace.to_str().expect("plain names");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let damaged = folder.join("damaged.allotrope");
    let mut bytes = fs::read(&recording.trace).expect("it was written");
    bytes.truncate(20);
    bytes.fill(b'x');
    fs::write(&damaged, bytes).expect("the folder is ours");
    let damaged = damaged.to_str().expect("plain names");
    let cases: [(&[&str], &str); 6] = [
        (&[trace, "--port", &port], "cannot listen at 127.0.0.1:"),
        (&["/none/x.allotrope"], "/none/x.allotrope"),
        (&[damaged], "damaged.allotrope"),
        (&[trace, damaged], "damaged.allotrope"),
        (&[folder.to_str().expect("plain names")], "folder"),
        (&[trace, "--glue", "/none/list.txt"], "/none/list.txt"),
    ];
    for (words, part) in cases {
        let output = allotrope(["view", "--no-open"].iter().chain(words)).code(2);
        let said = output.errors();
        assert_eq!(said.lines().count(), 1, "{said}");
        said.has(part);
        assert!(output.stdout.is_empty());
        assert_eq!(output.status.signal(), None);
    }
    for words in [
        &["--port", "0"][..],
        &[trace, "--source"],
        &[trace, "--no-finding", "queue"],
        &["--port", "65536"],
        &["--source-path", "a=b"],
    ] {
        allotrope(["view", "--no-open", trace].iter().chain(words)).code(2);
    }
    // The port is the one that was asked for, once it is free.
    drop(taken);
    let view = View::with(&recording.trace, &["--no-open", "--port", &port], &[]);
    assert_eq!(view.address.port().to_string(), port);
}

#[test]
fn without_a_file_the_newest_recording_of_the_folder_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let view = || run(command().arg("view").current_dir(folder.path()), b"");
    view().fails(2, "no recording is named, and this folder has none");
    for (name, age) in [("old.allotrope", 100), ("new.allotrope", 1)] {
        let file = fs::File::create(folder.path().join(name)).expect("writable");
        let then = std::time::SystemTime::now() - Duration::from_secs(age);
        file.set_modified(then).expect("its time can be set");
    }
    view().fails(
        2,
        "the newest of 2 in this folder is new.allotrope: allotrope view new.allotrope",
    );
    allotrope(["record"]).fails(125, "no program is named; type it after record");
}
