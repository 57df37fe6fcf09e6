//! The head of a request: parsed, and checked.

use super::answer::{Answer, Responder};

/// Most bytes of a head.
const MAX_HEAD: usize = 8 << 10;
/// Most headers of a request.
const MAX_HEADERS: usize = 64;

/// What is asked for.
pub struct Request {
    pub is_head: bool,
    pub target: String,
}

/// The request of a head, or its refusal; `None`: it is not whole.
pub fn parse(head: &[u8], responder: &impl Responder) -> Option<Result<Request, Answer>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => Some(check(&request, responder)),
        Ok(httparse::Status::Partial) if head.len() < MAX_HEAD => None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Some(Err(Answer::text(431, "the request's headers are too long")))
        }
        Err(_) => Some(Err(Answer::text(400, "this is no HTTP request"))),
    }
}

/// Checks a request whose head was parsed.
fn check(
    request: &httparse::Request<'_, '_>,
    responder: &impl Responder,
) -> Result<Request, Answer> {
    let mut hosts = request
        .headers
        .iter()
        .filter(|it| it.name.eq_ignore_ascii_case("host"));
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => std::str::from_utf8(host.value).ok(),
        (None, _) if request.version == Some(0) => Some("localhost"),
        _ => None,
    };
    let Some(host) = host else {
        return Err(Answer::text(400, "the request needs one Host header"));
    };
    if let Err(sentence) = responder.check_host(host) {
        return Err(Answer::text(403, sentence));
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Answer::text(405, "only GET and HEAD are answered")),
    };
    Ok(Request {
        is_head,
        target: request.path.unwrap_or_default().to_owned(),
    })
}
