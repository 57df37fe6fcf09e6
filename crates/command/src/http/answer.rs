//! Answers over HTTP, and what makes them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::tcp_owner::Owner;

/// What answers the requests. It is called by several threads at once.
pub trait Responder: Send + Sync + 'static {
    /// Refuses a client by its user, with a sentence.
    fn check_client(&self, _client: Owner) -> Result<(), &'static str> {
        Ok(())
    }

    /// Refuses a `Host` header, with a sentence that says what it must be: a web page whose name
    /// is made to lead here (DNS rebinding) sends its own name.
    fn check_host(&self, host: &str) -> Result<(), &'static str>;

    /// The answer to GET; of that to HEAD, the body is not sent.
    fn answer(&self, target: &str) -> Answer;

    /// How long a client may take to read an answer.
    fn write_time(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// An answer over HTTP.
#[derive(Debug, Clone)]
pub struct Answer {
    /// 200, or one of those that [`Answer::head`] has words for.
    pub status: u16,
    /// The content type.
    pub kind: &'static str,
    /// Further header lines, each with its end.
    pub more: Cow<'static, str>,
    /// Answers to several clients may share it.
    pub body: Arc<[u8]>,
}

impl Answer {
    /// A sentence.
    pub fn text(status: u16, text: impl fmt::Display) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            more: Cow::Borrowed(match status {
                405 => "Allow: GET, HEAD\r\n",
                _ => "",
            }),
            body: format!("{text}\n").into_bytes().into(),
        }
    }

    /// The status line and the headers.
    pub(super) fn head(&self) -> String {
        let words = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        };
        format!(
            "HTTP/1.1 {} {words}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len(),
            self.more,
        )
    }
}
