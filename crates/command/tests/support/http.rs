//! HTTP requests as bytes, also such as no client sends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::started::Started;

/// Answers that the command gives at once, see its `http.rs`.
pub const CONNECTIONS: usize = 16;

/// An answer.
pub struct Answer {
    /// 0: there was none.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(it, _)| it.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    // A hang fails.
    let limit = Some(Duration::from_secs(120));
    stream.set_read_timeout(limit).expect("a limit");
    stream
}

/// The whole answer to these bytes.
pub fn send(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = connect(address);
    // The server may refuse before it has read everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n");
    let body = end.map_or(Vec::new(), |end| answer.split_off(end + 4));
    let head = String::from_utf8_lossy(&answer).into_owned();
    let status = head.get(9..12).and_then(|it| it.parse().ok()).unwrap_or(0);
    Answer { status, head, body }
}

/// A process of another user with so many connections that never end their requests, once they are
/// there; it ends when its standard input is closed. Only root can start it.
pub fn idle_clients(address: SocketAddr, number: usize) -> Started {
    let (host, port) = (address.ip(), address.port());
    let script = format!(
        "for it in $(seq {number}); do exec {{fd}}<>/dev/tcp/{host}/{port}; printf 'GET /' >&$fd; done; echo there; cat"
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir("/");
    let mut clients = Started::new(bash.uid(65_534).gid(65_534));
    assert_eq!(clients.line(), "there");
    clients
}

/// The answer to an ordinary request.
pub fn ask(address: SocketAddr, method: &str, target: &str, host: &str) -> Answer {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    send(address, request.as_bytes())
}
