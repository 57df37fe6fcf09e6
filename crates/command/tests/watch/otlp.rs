//! `watch --otlp`: what a collector gets, and how answers of all kinds are taken. With a period of
//! one byte every block is sampled, so that figures are exact. Most tests are the collector
//! themselves; one runs a real one (`scripts/otlp-collector`).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use allotrope_formats::otlp::messages::{
    Attribute, PartialSuccess, Request, Response, Status, Value,
};
use flate2::read::GzDecoder;
use prost::Message;
use rustix::process::Signal;

use crate::support::watched::Program;
use crate::support::{Started, Text, command, run, skip, until};

/// A size and number of blocks that nothing but the test's own commands allocates.
const SIZE: u64 = 4321;
const BLOCKS: u64 = 100;
/// Time after which a test has hung.
const LIMIT: Duration = Duration::from_secs(120);

/// A sampled program with `blocks` blocks of [`SIZE`] bytes.
fn sampled(blocks: u64) -> Program {
    let mut program = Program::new(&["--period", "1"]);
    program.tell(&format!("malloc {blocks} {SIZE}"));
    program
}

/// `allotrope watch` without what the environment says of proxies and exporters.
fn watch() -> Command {
    let mut command = command();
    command.arg("watch");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_lowercase();
        if text.ends_with("_proxy") || text.starts_with("otel_") {
            command.env_remove(name);
        }
    }
    command
}

/// A watcher that sends profiles. Reports come only at the end.
fn start_watch(processes: &[&Program], options: &[&str], variables: &[(&str, &str)]) -> Started {
    let mut watch = watch();
    watch.args(processes.iter().map(|it| it.id().to_string()));
    watch.args(["--headless", "--every", "1h"]).args(options);
    Started::new(watch.envs(variables.iter().copied()))
}

/// A request as it came.
struct Received {
    head: String,
    body: Vec<u8>,
}

impl Received {
    fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let end = all.windows(4).position(|it| it == b"\r\n\r\n");
            let head = end.map(|end| String::from_utf8_lossy(&all[..end]).into_owned());
            if let (Some(end), Some(head)) = (end, head) {
                let received = Self {
                    head,
                    body: all[end + 4..].to_vec(),
                };
                let length = received.header("content-length");
                let length: usize = length.and_then(|it| it.parse().ok()).expect("a length");
                if received.body.len() >= length {
                    return Some(received);
                }
            }
            match stream.read(&mut buffer).ok()? {
                0 => return None,
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|it| it.split_once(':'));
        let mut found = headers.filter(|(it, _)| it.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }

    /// The message.
    fn message(&self) -> Request {
        assert_eq!(self.header("content-encoding"), Some("gzip"));
        assert_eq!(self.header("content-type"), Some("application/x-protobuf"));
        let mut bytes = Vec::new();
        let mut unzipped = GzDecoder::new(&self.body[..]);
        unzipped.read_to_end(&mut bytes).expect("gzip");
        Request::decode(&bytes[..]).expect("a request")
    }
}

/// A collector that is this test. It answers each request by a function of its number.
struct Collector {
    address: SocketAddr,
    requests: Receiver<Received>,
}

impl Collector {
    fn new(answer: impl Fn(usize, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, requests) = channel();
        thread::spawn(move || {
            let mut number = 0;
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let Some(received) = Received::read(&mut stream) else {
                    continue;
                };
                answer(number, &mut stream);
                number += 1;
                if sender.send(received).is_err() {
                    return;
                }
            }
        });
        Self { address, requests }
    }

    /// Takes everything.
    fn willing() -> Self {
        Self::new(|_, stream| respond(stream, 200, &[]))
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn next(&self) -> Received {
        self.requests.recv_timeout(LIMIT).expect("a request")
    }
}

fn respond(stream: &mut TcpStream, status: u16, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status} Words\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
}

/// The sums of the samples with `by_malloc` in their stacks, by process and sample type.
fn sums(request: &Request) -> BTreeMap<(i64, String), i64> {
    let tables = request.dictionary.as_ref().expect("tables");
    let text = |index: i32| &tables.strings[index as usize];
    let is_ours = |location: &i32| {
        let lines = &tables.locations[*location as usize].lines;
        let functions = lines
            .iter()
            .map(|it| &tables.functions[it.function_index as usize]);
        functions
            .into_iter()
            .any(|it| text(it.name_strindex) == "by_malloc")
    };
    let mut sums = BTreeMap::new();
    for resource in &request.resource_profiles {
        let process = &resource.resource.as_ref().expect("a resource").attributes;
        let Some(Value::Int(process)) = value(process, "process.pid") else {
            panic!("no process id");
        };
        for profile in &resource.scope_profiles[0].profiles {
            let kind = profile.sample_type.expect("a type");
            let key = (
                process,
                format!("{}/{}", text(kind.type_strindex), text(kind.unit_strindex)),
            );
            let sum = sums.entry(key).or_insert(0);
            for sample in &profile.samples {
                let stack = &tables.stacks[sample.stack_index as usize];
                if stack.location_indices.iter().any(is_ours) {
                    *sum += sample.values.iter().sum::<i64>();
                }
            }
        }
    }
    sums
}

fn value(attributes: &[Attribute], key: &str) -> Option<Value> {
    let mut found = attributes.iter().filter(|it| it.key == key);
    found.next()?.value.clone()?.value
}

/// What [`sums`] gives for a process with so many blocks live, of those allocated.
fn expected(program: &Program, live: u64, allocated: u64) -> BTreeMap<(i64, String), i64> {
    let id = program.id().into();
    let sums = [
        ("inuse_space/bytes", live * SIZE),
        ("inuse_objects/count", live),
        ("alloc_space/bytes", allocated * SIZE),
        ("alloc_objects/count", allocated),
    ];
    let sums = sums.map(|(kind, sum)| ((id, kind.to_owned()), sum as i64));
    sums.into()
}

#[test]
fn a_collector_gets_what_is_live() {
    let collector = Collector::willing();
    let program = sampled(BLOCKS);
    let url = collector.url();
    let _watcher = start_watch(&[&program], &["--otlp", &url], &[]);
    let received = collector.next();
    let head = received.head.lines().next();
    assert_eq!(head, Some("POST /v1development/profiles HTTP/1.1"));
    let request = received.message();
    assert_eq!(sums(&request), expected(&program, BLOCKS, BLOCKS));

    let resource = request.resource_profiles[0].resource.as_ref();
    let resource = &resource.expect("a resource").attributes;
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    assert_eq!(
        value(resource, "service.name"),
        value(resource, "process.executable.name")
    );
    assert!(value(resource, "host.name").is_some());
    assert_eq!(value(resource, "os.type"), text("linux"));
    let is_complete = value(resource, "allotrope.sampling_is_complete");
    assert_eq!(is_complete, Some(Value::Bool(true)));
    // From its start on.
    let since = value(resource, "allotrope.sampled_since_unix_nano");
    assert!(since.is_some() && since == value(resource, "allotrope.start_time_unix_nano"));
    assert_eq!(value(resource, "allotrope.sampled_until_unix_nano"), None);

    // The interval of each sum is exact, since everything was sampled; other blocks of the
    // process make it larger than ours.
    let tables = request.dictionary.as_ref().expect("tables");
    for profile in &request.resource_profiles[0].scope_profiles[0].profiles {
        let sum: i64 = profile.samples.iter().flat_map(|it| &it.values).sum();
        for key in ["estimate", "low", "high"] {
            let key = format!("allotrope.sum.{key}");
            let attributes = profile.attribute_indices.iter();
            let mut attributes = attributes.map(|it| &tables.attributes[*it as usize]);
            let found = attributes.find(|it| tables.strings[it.key_strindex as usize] == key);
            let found = found.expect(&key).value.clone().expect("a value");
            let Some(Value::Double(found)) = found.value else {
                panic!("{key} is no number");
            };
            assert!((found - sum as f64).abs() < 100.0, "{key}: {found}, {sum}");
        }
        assert_eq!(profile.period, 1);
        assert_eq!(profile.profile_id.len(), 16);
    }
    // The module of the program has its build id, if the linker has written one.
    let path = crate::support::compiled("watched.c")
        .canonicalize()
        .expect("a path");
    let path = path.to_str().expect("UTF-8");
    assert!(tables.strings.iter().any(|it| it == path), "{path}");
}

#[test]
fn a_collector_learns_since_when_a_process_was_sampled() {
    let collector = Collector::willing();
    let mut program = Program::new(&["--period", "off"]);
    let url = collector.url();
    let options = ["--otlp", &url, "--otlp-every", "100ms", "--period", "1"];
    let _watcher = start_watch(&[&program], &options, &[]);
    until("it is sampled", || program.state().period.is_some());
    program.tell("malloc 1 100000");
    program.tell("malloc 10 1000");
    let request = collector.next().message();
    let resource = request.resource_profiles[0].resource.as_ref();
    let resource = &resource.expect("a resource").attributes;
    let is_complete = value(resource, "allotrope.sampling_is_complete");
    assert_eq!(is_complete, Some(Value::Bool(false)));
    let number = |key: &str| match value(resource, key) {
        Some(Value::Int(number)) => number,
        other => panic!("{key}: {other:?}"),
    };
    let since = number("allotrope.sampled_since_unix_nano");
    assert!(since > number("allotrope.start_time_unix_nano"));
    let tables = request.dictionary.as_ref().expect("tables");
    // In a comment.
    format!("{:?}", tables.attributes).has(" was sampled since ");
    // Live bytes and blocks have no upper end, allocated ones have.
    let profiles = &request.resource_profiles[0].scope_profiles[0].profiles;
    let key_of = |it: &i32| tables.attributes[*it as usize].key_strindex;
    let is_end = |it: &i32| tables.strings[key_of(it) as usize] == "allotrope.sum.high";
    let ends = profiles.iter();
    let ends: Vec<bool> = ends
        .map(|it| it.attribute_indices.iter().any(is_end))
        .collect();
    assert_eq!(ends.iter().filter(|it| **it).count(), 2, "{ends:?}");
}

#[test]
fn processes_are_resources_of_their_own() {
    let collector = Collector::willing();
    let (one, other) = (sampled(BLOCKS), sampled(2 * BLOCKS));
    let url = format!("{}/a/path", collector.url().replace("//", "//user:pw@"));
    let variables = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-token=a%20b"),
        ("OTEL_SERVICE_NAME", "the service"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment=test,process.pid=1"),
    ];
    let watcher = start_watch(&[&one, &other], &["--otlp", &url], &variables);
    let received = collector.next();
    let head = received.head.lines().next();
    assert_eq!(head, Some("POST /a/path HTTP/1.1"));
    assert_eq!(received.header("x-token"), Some("a b"));
    // RFC 7617: base64 of `user:pw`.
    assert_eq!(received.header("authorization"), Some("Basic dXNlcjpwdw=="));
    let request = received.message();
    let mut both = expected(&one, BLOCKS, BLOCKS);
    both.append(&mut expected(&other, 2 * BLOCKS, 2 * BLOCKS));
    assert_eq!(sums(&request), both);
    for resource in &request.resource_profiles {
        let attributes = &resource.resource.as_ref().expect("a resource").attributes;
        for (key, text) in [("service.name", "the service"), ("deployment", "test")] {
            assert_eq!(value(attributes, key), Some(Value::Text(text.to_owned())));
        }
    }
    watcher.signal(Signal::TERM);
    let errors = watcher.end().errors();
    errors.lacks("pw");
}

#[test]
fn the_last_state_is_sent() {
    let collector = Collector::willing();
    let url = collector.url();
    // A watcher that is ended.
    let mut program = sampled(BLOCKS);
    let watcher = start_watch(&[&program], &["--otlp", &url, "--otlp-every", "1h"], &[]);
    collector.next();
    program.tell(&format!("malloc {BLOCKS} {SIZE}"));
    watcher.signal(Signal::TERM);
    let all = 2 * BLOCKS;
    let last = sums(&collector.next().message());
    assert_eq!(last, expected(&program, all, all));
    watcher.end().code(128 + 15).errors();
    // A program that ends, and one that goes on.
    let other = sampled(BLOCKS);
    let options = ["--otlp", &url, "--otlp-every", "1h"];
    let watcher = start_watch(&[&program, &other], &options, &[]);
    collector.next();
    program.tell("free");
    program.send("exit 0");
    let last = sums(&collector.next().message());
    assert_eq!(last, expected(&program, 0, all));
    // It is not sent again.
    watcher.signal(Signal::TERM);
    let last = sums(&collector.next().message());
    assert_eq!(last, expected(&other, BLOCKS, BLOCKS));
    watcher.end();
}

/// How often the messages have these words.
fn count(errors: &str, words: &str) -> usize {
    errors.matches(words).count()
}

#[test]
fn failures_are_said_once() {
    let unavailable = Status {
        message: "come back later".to_owned(),
    };
    let rejected = Response {
        partial_success: Some(PartialSuccess {
            rejected_profiles: 3,
            error_message: "too many".to_owned(),
        }),
    };
    let collector = Collector::new(move |number, stream| match number {
        0..=2 => respond(stream, 503, &unavailable.encode_to_vec()),
        4..=5 => respond(stream, 200, &rejected.encode_to_vec()),
        _ => respond(stream, 200, &[]),
    });
    let program = sampled(BLOCKS);
    let url = collector.url();
    let options = ["--otlp", &url, "--otlp-every", "100ms"];
    let watcher = start_watch(&[&program], &options, &[]);
    for _ in 0..8 {
        collector.next();
    }
    watcher.signal(Signal::TERM);
    let errors = watcher.end().code(128 + 15).errors();
    let refused = "refuses profiles with status 503: come back later";
    assert_eq!(count(&errors, refused), 1, "{errors}");
    assert_eq!(
        count(&errors, "has rejected 3 profiles: too many"),
        1,
        "{errors}"
    );
    assert_eq!(count(&errors, "takes profiles again"), 2, "{errors}");
    assert_eq!(
        count(&errors, "requests with profiles: 3 of "),
        1,
        "{errors}"
    );
    let sum = "the collector has rejected 6 profiles";
    assert_eq!(count(&errors, sum), 1, "{errors}");
}

#[test]
fn a_collector_that_is_away_disturbs_nothing() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    };
    let mut program = sampled(BLOCKS);
    let url = format!("http://name:secret@{address}");
    let options = ["--otlp", &url, "--otlp-every", "100ms"];
    let mut watcher = start_watch(&[&program], &options, &[]);
    watcher.wait_for_error("cannot be reached");
    program.send("exit 7");
    let errors = watcher.end().ok().errors();
    assert_eq!(count(&errors, "cannot be reached"), 1, "{errors}");
    errors.lacks("secret");
}

#[test]
fn hostile_answers_end() {
    type Answer = fn(&mut TcpStream);
    let answers: [(Answer, &str); 6] = [
        (
            |stream| {
                let _ = stream.write_all(b"\0\xff\x80garbage\r\n\r\n");
            },
            "cannot be reached",
        ),
        (|_| {}, "cannot be reached"),
        (
            |stream| respond(stream, 200, b"<html>welcome</html>"),
            "not OTLP's",
        ),
        (
            |stream| respond(stream, 302, b"<html>elsewhere</html>"),
            "status 302",
        ),
        (
            // More than the client reads, until it closes the connection.
            |stream| {
                let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                let mut written = stream.write_all(head);
                while written.is_ok() {
                    written = stream.write_all(&[b'x'; 4096]);
                }
            },
            "not OTLP's",
        ),
        (
            |stream| {
                let mut written = stream.write_all(b"HTTP/1.1 200 OK\r\n");
                while written.is_ok() {
                    written = stream.write_all(b"X-Header: and another one\r\n");
                }
            },
            "cannot be reached",
        ),
    ];
    let program = sampled(BLOCKS);
    for (answer, words) in answers {
        let collector = Collector::new(move |_, stream| answer(stream));
        let url = collector.url();
        let options = ["--otlp", &url, "--otlp-every", "1h"];
        let watcher = start_watch(&[&program], &options, &[]);
        collector.next();
        watcher.signal(Signal::TERM);
        let errors = watcher.end().code(128 + 15).errors();
        assert_eq!(count(&errors, words), 1, "{words}: {errors}");
        assert_eq!(count(&errors, "2 of 2 failed"), 1, "{errors}");
    }
}

#[test]
fn a_collector_that_never_answers_holds_up_nobody() {
    // One byte now and then, for ever.
    let collector = Collector::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-Header: ");
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    let program = sampled(BLOCKS);
    let url = collector.url();
    let metrics = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    };
    let shown = metrics.to_string();
    let options = [
        "--otlp",
        &url,
        "--otlp-every",
        "100ms",
        "--prometheus",
        &shown,
    ];
    let mut watcher = start_watch(&[&program], &options, &[]);
    // The server of metrics answers meanwhile.
    for _ in 0..5 {
        let mut stream = loop {
            match TcpStream::connect(metrics) {
                Ok(stream) => break stream,
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // The first signal ends the watcher, the second its wait.
    watcher.signal(Signal::TERM);
    watcher.wait_for_error("Ctrl-C ends the wait");
    watcher.signal(Signal::TERM);
    let errors = watcher.end().code(128 + 15).errors();
    assert_eq!(
        count(&errors, "the last profile was not sent"),
        1,
        "{errors}"
    );
}

#[test]
fn what_cannot_be_sent_is_refused_at_once() {
    let program = sampled(1);
    let id = program.id().to_string();
    let refused = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = watch();
        command.args(arguments).envs(variables.iter().copied());
        let errors = run(&mut command, b"").code(2).errors();
        errors.lacks("secret");
        errors
    };
    for url in [
        "localhost:4318",
        "grpc://secret@localhost:4317",
        "http://",
        "",
        "http://user:secret@localhost:port",
    ] {
        let errors = refused(&[&id, "--otlp", url], &[]);
        assert_eq!(errors.lines().count(), 1, "{errors}");
        errors.has("--otlp needs a URL such as");
    }
    let url = "http://127.0.0.1:9";
    for variable in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES"] {
        let errors = refused(&[&id, "--otlp", url], &[(variable, "secret")]);
        assert_eq!(errors.lines().count(), 1, "{errors}");
        errors.has(variable);
    }
    for with in [&["--once"][..], &["--output", "file"]] {
        let errors = refused(&[&[&*id, "--otlp", url], with].concat(), &[]);
        errors.has("cannot be used with");
    }
    refused(&["--perf-script", "-", "--otlp", url], &[]);
    refused(&[&id, "--otlp-every", "1m"], &[]);
    refused(&[&id, "--otlp", url, "--otlp-every", "0"], &[]);
}

/// Returns a self-signed certificate for 127.0.0.1 and its key.
#[cfg(feature = "tls")]
fn certificate(folder: &std::path::Path) -> [std::path::PathBuf; 2] {
    let files = ["certificate.pem", "key.pem"].map(|it| folder.join(it));
    let made = run(
        Command::new("openssl")
            .args(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
                    .split(' '),
            )
            .args([
                "-subj",
                "/CN=collector",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
            ])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-out")
            .arg(&files[0])
            .arg("-keyout")
            .arg(&files[1]),
        b"",
    );
    assert!(made.status.success(), "{made:?}");
    files
}

#[cfg(feature = "tls")]
#[test]
fn https_needs_a_certificate_that_the_machine_trusts() {
    let folder = tempfile::tempdir().expect("a folder");
    let [certificate, key] = certificate(folder.path());
    let collector = Collector::willing();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/tls_proxy.py");
    let mut proxy = Command::new("/usr/bin/python3");
    proxy.arg(script).args([&certificate, &key]);
    let mut proxy = Started::new(proxy.arg(collector.address.port().to_string()));
    let url = format!("https://127.0.0.1:{}", proxy.line());
    let program = sampled(BLOCKS);

    let mut watcher = start_watch(&[&program], &["--otlp", &url], &[]);
    watcher.wait_for_error("cannot be reached: ");
    watcher.signal(Signal::TERM);
    let errors = watcher.end().errors();
    errors.has("certificate");

    let trusted = certificate.to_str().expect("UTF-8");
    let watcher = start_watch(
        &[&program],
        &["--otlp", &url],
        &[("SSL_CERT_FILE", trusted)],
    );
    assert_eq!(
        sums(&collector.next().message()),
        expected(&program, BLOCKS, BLOCKS)
    );
    watcher.signal(Signal::TERM);
    let errors = watcher.end().errors();
    errors.lacks("cannot be reached");
}

/// The configuration of a real collector: it writes what it receives to its log, and sends it on
/// as JSON.
fn configuration(next: &str) -> String {
    format!(
        "receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:0
exporters:
  debug:
    verbosity: detailed
  otlp_http:
    endpoint: {next}
    encoding: json
    compression: none
    retry_on_failure: {{enabled: false}}
    sending_queue: {{enabled: false}}
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    profiles:
      receivers: [otlp]
      exporters: [debug, otlp_http]
"
    )
}

/// The number in a JSON value, where 64-bit numbers are texts.
fn number(value: &serde_json::Value) -> u64 {
    let text = value.as_str().map(str::parse);
    text.map_or_else(|| value.as_u64().unwrap_or(0), |it| it.expect("a number"))
}

#[test]
fn a_real_collector_reads_the_profiles() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/otlp-collector");
    let built = run(Command::new(script).arg("--built"), b"");
    if !built.status.success() {
        return skip("no OpenTelemetry collector is built (scripts/otlp-collector)");
    }
    let path = built.text();
    let next = Collector::willing();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("collector.yaml");
    std::fs::write(&file, configuration(&next.url())).expect("a file");
    let mut real = Command::new(path.trim());
    real.arg("--config").arg(&file);
    real.arg("--feature-gates=service.profilesSupport");
    let mut real = Started::new(real.env("NO_PROXY", "127.0.0.1"));
    let before = real.wait_for_error("Everything is ready");
    let (_, rest) = before.rsplit_once("\"endpoint\": \"").expect(&before);
    let (address, _) = rest.split_once('"').expect(&before);
    let program = sampled(BLOCKS);
    let url = format!("http://{address}");
    let watcher = start_watch(&[&program], &["--otlp", &url], &[]);
    // What the collector has understood, in its own words.
    let received = next.next();
    assert_eq!(received.header("content-type"), Some("application/json"));
    let json: serde_json::Value = serde_json::from_slice(&received.body).expect("JSON");
    let tables = &json["dictionary"];
    // Fields with the value 0 are left out.
    let entry =
        |table: &str, index: &serde_json::Value| tables[table][number(index) as usize].clone();
    let text = |index: &serde_json::Value| {
        let text = entry("stringTable", index);
        text.as_str().expect("a text").to_owned()
    };
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let resource = &json["resourceProfiles"][0];
    let attributes = list(&resource["resource"]["attributes"]);
    // The collector moves the keys to the table of texts.
    let is_process = |it: &&serde_json::Value| text(&it["keyStrindex"]) == "process.pid";
    let process = attributes.iter().find(is_process);
    let process = process.unwrap_or_else(|| panic!("{json:#}"));
    let process = &process["value"]["intValue"];
    assert_eq!(number(process), u64::from(program.id()));
    let profiles = list(&resource["scopeProfiles"][0]["profiles"]);
    let bytes = BLOCKS * SIZE;
    let kinds = [
        ("inuse_space", "bytes", bytes),
        ("inuse_objects", "count", BLOCKS),
        ("alloc_space", "bytes", bytes),
        ("alloc_objects", "count", BLOCKS),
    ];
    assert_eq!(profiles.len(), kinds.len(), "{json:#}");
    let mut samples_sent = 0;
    for (profile, (kind, unit, expected)) in profiles.iter().zip(kinds) {
        let found = &profile["sampleType"];
        assert_eq!(text(&found["typeStrindex"]), kind);
        assert_eq!(text(&found["unitStrindex"]), unit);
        let samples = list(&profile["samples"]);
        samples_sent += samples.len();
        let is_ours = |sample: &&serde_json::Value| {
            let stack = entry("stackTable", &sample["stackIndex"]);
            let locations = list(&stack["locationIndices"]);
            let lines = locations
                .iter()
                .flat_map(|it| list(&entry("locationTable", it)["lines"]));
            let names = lines.map(|line| {
                let function = entry("functionTable", &line["functionIndex"]);
                text(&function["nameStrindex"])
            });
            let names: Vec<String> = names.take(2).collect();
            names == ["by_malloc", "main"]
        };
        let ours: Vec<_> = samples.iter().filter(is_ours).collect();
        assert_eq!(ours.len(), 1, "{kind}: {json:#}");
        assert_eq!(number(&ours[0]["values"][0]), expected, "{kind}");
    }
    // The last one at the end; the log is complete once the collector has ended.
    watcher.signal(Signal::TERM);
    let errors = watcher.end().errors();
    errors.lacks("the collector");
    next.next();
    real.signal(Signal::TERM);
    let log = real.end().errors();
    let times = |words: &str| log.lines().filter(|it| it.contains(words)).count();
    assert_eq!(times("Values: "), 2 * samples_sent, "{log}");
    for value in [bytes, BLOCKS] {
        assert!(times(&format!("Values: [{value}]")) >= 4, "{log}");
    }
}
