//! `integrations/github/comment-on-pull-request` against a server that behaves as GitHub's
//! interface for comments.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::build_systems::files::repository;
use crate::support::{Ended, run, skip};

/// The comments of pull request 7, and the requests that came.
#[derive(Default)]
struct State {
    comments: Vec<(u64, String)>,
    requests: Vec<String>,
    forbidden: bool,
}

struct Server {
    address: String,
    state: Arc<Mutex<State>>,
}

const TOKEN: &str = "Bearer the-token";

impl Server {
    fn start(state: State) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &mut shared.lock().expect("no thread panics"));
            }
        });
        Self {
            address: format!("http://{address}"),
            state,
        }
    }

    fn post(&self, markdown: &str, change: impl FnOnce(&mut Command) -> &mut Command) -> Ended {
        let mut command = Command::new("python3");
        command
            .arg(repository().join("integrations/github/comment-on-pull-request"))
            .env("GITHUB_TOKEN", "the-token")
            .env("GITHUB_REPOSITORY", "owner/name")
            .env("GITHUB_API_URL", &self.address)
            .env("GITHUB_REF", "refs/pull/7/merge")
            .env_remove("GITHUB_EVENT_PATH")
            .env_remove("PULL_REQUEST")
            .env("no_proxy", "*");
        change(&mut command);
        run(&mut command, markdown.as_bytes())
    }

    fn comments(&self) -> Vec<(u64, String)> {
        self.state
            .lock()
            .expect("no thread panics")
            .comments
            .clone()
    }

    /// The requests since the last call.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().expect("no thread panics").requests)
    }
}

/// Answers one request.
fn answer(mut stream: TcpStream, state: &mut State) {
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor is free"));
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let mut lines = lines.iter().filter_map(|line| line.split_once(": "));
        lines.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then(|| value.to_owned()))
    };
    let length = header("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).expect("the body is that long");
    let authorised = header("authorization").as_deref() == Some(TOKEN);
    let request = lines
        .first()
        .map_or("", |line| line.trim_end_matches(" HTTP/1.1"));
    state.requests.push(request.to_owned());
    let (status, content) = if authorised {
        respond(request, &body, state)
    } else {
        (401, json!({"message": "Bad credentials"}))
    };
    let content = content.to_string();
    let _ = write!(
        stream,
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{content}",
        content.len()
    );
}

fn respond(request: &str, body: &[u8], state: &mut State) -> (u16, Value) {
    const COMMENTS: &str = "/repos/owner/name/issues/7/comments";
    let (method, path) = request.split_once(' ').unwrap_or_default();
    if method == "GET" {
        let Some((COMMENTS, query)) = path.split_once('?') else {
            return (404, json!({"message": "Not Found"}));
        };
        let page = query.split_once("&page=").map_or("1", |(_, page)| page);
        let page: usize = page.parse().expect("a number");
        let comments = state.comments.iter().skip((page - 1) * 100).take(100);
        let comments = comments.map(|(id, body)| json!({"id": id, "body": body}));
        return (200, comments.collect());
    }
    if state.forbidden {
        return (
            403,
            json!({"message": "Resource not accessible by integration"}),
        );
    }
    let body: Value = serde_json::from_slice(body).expect("it is JSON");
    let text = body["body"].as_str().expect("it is a text").to_owned();
    if method == "POST" && path == COMMENTS {
        let id = 1000 + state.comments.len() as u64;
        state.comments.push((id, text));
        return (
            201,
            json!({"id": id, "html_url": format!("https://example.com/{id}")}),
        );
    }
    let id = path.strip_prefix("/repos/owner/name/issues/comments/");
    let id: Option<u64> = id
        .filter(|_| method == "PATCH")
        .and_then(|id| id.parse().ok());
    match state
        .comments
        .iter_mut()
        .find(|(known, _)| Some(*known) == id)
    {
        Some((id, old)) => {
            *old = text;
            (
                200,
                json!({"id": id, "html_url": format!("https://example.com/{id}")}),
            )
        }
        None => (404, json!({"message": "Not Found"})),
    }
}

fn has_python() -> bool {
    crate::support::is_installed("python3")
}

#[test]
fn the_first_run_posts_and_the_second_updates() {
    if !has_python() {
        return skip("install Debian's python3");
    }
    // More comments of people than a page has; one quotes the marker.
    let mut comments: Vec<(u64, String)> = (0..100).map(|id| (id, "hello".to_owned())).collect();
    comments.push((
        100,
        "> <!-- comment-on-pull-request: allotrope -->".to_owned(),
    ));
    let server = Server::start(State {
        comments,
        ..State::default()
    });
    server
        .post("### Allocations: 1 test\n| ✅ |\n", |command| command)
        .ok()
        .has("https://example.com/1101");
    assert_eq!(
        server.requests(),
        [
            "GET /repos/owner/name/issues/7/comments?per_page=100&page=1",
            "GET /repos/owner/name/issues/7/comments?per_page=100&page=2",
            "POST /repos/owner/name/issues/7/comments",
        ]
    );
    server.post("second\n", |command| command).ok();
    let last = server.requests().pop();
    assert_eq!(
        last.as_deref(),
        Some("PATCH /repos/owner/name/issues/comments/1101")
    );
    // Another key is another comment; the number may come from the event.
    let event = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(event.path(), r#"{"pull_request": {"number": 7}}"#).expect("it is ours");
    server
        .post("third", |command| {
            command
                .args(["--key", "benches"])
                .env("GITHUB_EVENT_PATH", event.path())
                .env("GITHUB_REF", "refs/heads/main")
        })
        .ok();
    let texts: Vec<String> = server
        .comments()
        .into_iter()
        .skip(101)
        .map(|it| it.1)
        .collect();
    assert_eq!(
        texts,
        [
            "<!-- comment-on-pull-request: allotrope -->\nsecond\n",
            "<!-- comment-on-pull-request: benches -->\nthird\n",
        ]
    );
}

#[test]
fn a_long_text_is_cut_at_a_line() {
    if !has_python() {
        return skip("install Debian's python3");
    }
    let server = Server::start(State::default());
    let line = "é".repeat(99) + "\n";
    let text = format!(
        "<details><summary>x</summary>\n\n````\n```\n{}",
        line.repeat(1000)
    );
    server.post(&text, |command| command).ok();
    let comments = server.comments();
    let comment = &comments[0].1;
    let characters = comment.chars().count();
    assert!((60_000..=65_536).contains(&characters), "{characters}");
    let (kept, rest) = comment.rsplit_once("é\n").expect("whole lines are kept");
    assert!(kept.ends_with(&"é".repeat(98)));
    let rest: Vec<&str> = rest.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(rest[..2], ["````", "</details>"]);
    assert!(rest[2].contains("was cut"), "{rest:?}");
}

#[test]
fn a_refusal_is_one_sentence() {
    if !has_python() {
        return skip("install Debian's python3");
    }
    let server = Server::start(State {
        forbidden: true,
        ..State::default()
    });
    let refused = server.post("text", |command| command).code(1);
    let refused = refused.says("GitHub answered 403 (Resource not accessible by integration)");
    let refused = refused.says("permissions: pull-requests: write");
    assert_eq!(refused.errors().lines().count(), 1, "{}", refused.errors());
    server
        .post("text", |command| command.env("GITHUB_TOKEN", "other"))
        .code(1)
        .says("GitHub answered 401 (Bad credentials): GITHUB_TOKEN is not valid");
    server
        .post("text", |command| command.env_remove("GITHUB_TOKEN"))
        .code(2)
        .says("the environment variable GITHUB_TOKEN is not set");
    server
        .post("text", |command| {
            command.env("GITHUB_REF", "refs/heads/main")
        })
        .code(2)
        .says("set PULL_REQUEST");
    server.post(" \n", |command| command).code(2);
    server
        .post("text", |command| {
            command.env("GITHUB_API_URL", "http://127.0.0.1:1")
        })
        .code(1)
        .says("cannot reach GitHub");
}
