//! Debug files from debuginfod: from its client's cache, from a stand-in for a server,
//! and from Debian's own server, which the test starts.

mod fixture;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use allotrope_symbols::{Locator, ModuleSymbols, Ran};
use fixture::{C_SOURCE, Program, compile, run};

/// A stripped program, its debug file in another folder, and its build id.
struct Stripped {
    program: Program,
    debug: PathBuf,
    mark: u64,
    build_id: String,
}

fn stripped() -> Option<Stripped> {
    if !Locator::can_fetch() {
        println!("skipped: cannot run debuginfod-find (package debuginfod)");
        return None;
    }
    let options = ["-O2", "-g", "-Wl,--build-id=0x0123456789abcdef"];
    let program = compile("cc", &options, "truth.c", C_SOURCE)?;
    let mark = program.address("mark_inner");
    let debug = program.path.parent()?.join("elsewhere").join("p.debug");
    std::fs::create_dir_all(debug.parent()?).unwrap();
    let (path, debug_text) = (program.path.to_str()?, debug.to_str()?);
    run("objcopy", &["--only-keep-debug", path, debug_text])?;
    run("objcopy", &["--strip-all", path])?;
    Some(Stripped {
        program,
        debug,
        mark,
        build_id: "0123456789abcdef".to_owned(),
    })
}

impl Stripped {
    fn functions(&self, locator: &Locator) -> Vec<String> {
        let symbols =
            ModuleSymbols::load(locator, &self.program.path, &Ran::unverified(), None).unwrap();
        let resolved = symbols.resolve(&[(self.mark, true)]);
        let frames = resolved[0].frames.iter();
        frames.map(|frame| frame.function.to_string()).collect()
    }
}

const FULL: [&str; 3] = ["inner", "middle", "outer"];

#[test]
fn the_clients_cache_is_used_without_a_server() {
    let Some(stripped) = stripped() else { return };
    let cache = tempfile::tempdir().unwrap();
    let locator = Locator::new().with_debuginfod_cache(cache.path());
    assert!(stripped.functions(&locator).is_empty());
    let folder = cache.path().join(&stripped.build_id);
    std::fs::create_dir(&folder).unwrap();
    // The client stores an empty file if no server has the debug file.
    std::fs::write(folder.join("debuginfo"), "").unwrap();
    assert!(stripped.functions(&locator).is_empty());
    std::fs::copy(&stripped.debug, folder.join("debuginfo")).unwrap();
    assert_eq!(stripped.functions(&locator), FULL);
}

/// Starts a server that sends `answer` to each request. Returns its URL and a counter of
/// requests.
fn serve(answer: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for connection in listener.incoming().take(16).flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = respond(connection, &answer);
        }
    });
    (address, count)
}

fn respond(mut connection: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    connection.write_all(answer)
}

fn response(status: &str, body: &[u8], claimed: usize) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {claimed}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[test]
fn a_file_is_fetched_once_and_then_read_from_the_cache() {
    let Some(stripped) = stripped() else { return };
    let body = std::fs::read(&stripped.debug).unwrap();
    let (address, requests) = serve(response("200 OK", &body, body.len()));
    let cache = tempfile::tempdir().unwrap();
    let locator = Locator::new().with_debuginfod_cache(cache.path());
    let with_server = locator.clone().with_debuginfod_servers([address]);
    assert_eq!(stripped.functions(&with_server), FULL);
    assert_eq!(stripped.functions(&with_server), FULL);
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    assert_eq!(stripped.functions(&locator), FULL, "from the cache");
    assert_eq!(with_server.take_complaints(), [""; 0]);
}

#[test]
fn what_the_first_server_lacks_comes_from_the_second() {
    let Some(stripped) = stripped() else { return };
    let body = std::fs::read(&stripped.debug).unwrap();
    let (lacking, requests) = serve(response("404 Not Found", b"", 0));
    let (having, _) = serve(response("200 OK", &body, body.len()));
    let cache = tempfile::tempdir().unwrap();
    let locator = Locator::new()
        .with_debuginfod_cache(cache.path())
        .with_debuginfod_servers([lacking, having]);
    assert_eq!(stripped.functions(&locator), FULL);
    assert!(requests.load(Ordering::SeqCst) <= 1);
}

#[test]
fn failing_and_wrong_servers_lose_only_names() {
    let Some(stripped) = stripped() else { return };
    let body = std::fs::read(&stripped.debug).unwrap();
    let mut other = body.clone();
    let at = other
        .windows(8)
        .position(|it| it == [1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
    other[at.unwrap()] = 0x77;
    for (answer, complaint) in [
        (response("404 Not Found", b"", 0), None),
        (response("500 Broken", b"", 0), Some("status 500")),
        (
            response("200 OK", &body[..1000], body.len()),
            Some("cannot fetch"),
        ),
        (response("200 OK", b"no ELF file", 11), None),
        (response("200 OK", &other, other.len()), None),
        (b"nonsense".to_vec(), Some("cannot fetch")),
        (Vec::new(), Some("cannot fetch")),
    ] {
        // debuginfod-find does not tell such answers from that there is no file.
        let complaint = complaint.filter(|_| cfg!(feature = "debuginfod"));
        let (address, requests) = serve(answer);
        let cache = tempfile::tempdir().unwrap();
        let locator = Locator::new()
            .with_debuginfod_cache(cache.path())
            .with_debuginfod_servers([address]);
        assert!(stripped.functions(&locator).is_empty());
        let complaints = locator.take_complaints();
        match complaint {
            None => assert_eq!(complaints, [""; 0]),
            Some(text) => assert!(complaints[0].contains(text), "{complaints:?}"),
        }
        let before = requests.load(Ordering::SeqCst);
        if complaint.is_some() {
            assert!(stripped.functions(&locator).is_empty());
            assert_eq!(
                requests.load(Ordering::SeqCst),
                before,
                "a second request was sent"
            );
        }
    }
    // No server listens on this port.
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let cache = tempfile::tempdir().unwrap();
    let locator = Locator::new()
        .with_debuginfod_cache(cache.path())
        .with_debuginfod_servers([format!("http://{closed}")]);
    assert!(stripped.functions(&locator).is_empty());
    assert_eq!(locator.take_complaints().len(), 1);
}

/// Ends the server when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn debuginfod(folder: &Path) -> Option<(Server, String)> {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let server = Command::new("debuginfod")
        .args(["-d", ":memory:", "-p", &port.to_string(), "-F"])
        .arg(folder)
        .env_remove("DEBUGINFOD_URLS")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match server {
        Ok(server) => Some((Server(server), format!("http://127.0.0.1:{port}"))),
        Err(error) => {
            println!("skipped: cannot run debuginfod (package debuginfod): {error}");
            None
        }
    }
}

#[test]
fn a_debug_file_is_fetched_from_a_real_server() {
    let Some(stripped) = stripped() else { return };
    let folder = stripped.debug.parent().unwrap();
    let Some((_server, address)) = debuginfod(folder) else {
        return;
    };
    let start = Instant::now();
    loop {
        let cache = tempfile::tempdir().unwrap();
        let locator = Locator::new()
            .with_debuginfod_cache(cache.path())
            .with_debuginfod_servers([address.clone()]);
        let found = stripped.functions(&locator);
        if found == FULL {
            return;
        }
        // The server needs time to start and to index the folder.
        assert!(
            found.is_empty() && start.elapsed() < Duration::from_secs(30),
            "{found:?}"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}
