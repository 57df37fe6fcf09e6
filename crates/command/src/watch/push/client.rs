//! One request to a collector, and what its answer means. The answer may be anything: what is
//! read of it is bounded, and so is the time.

use std::time::Duration;

use allotrope_formats::otlp;
use ureq::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use ureq::http::{Method, Request};
use ureq::{Agent, Error};

use super::endpoint::Endpoint;

/// How long a request with its answer may take; the exporters of OpenTelemetry have the same limit.
const SECONDS: u64 = 10;
/// Largest number of bytes of the headers, and of the body, of an answer.
const MAX_ANSWER: usize = 64 << 10;
/// Largest number of characters of a collector's words that are shown.
const MAX_WORDS: usize = 200;

/// A client of one collector.
pub struct Client {
    agent: Agent,
    endpoint: Endpoint,
}

/// An answer to a request that was understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Profiles that the collector did not take.
    pub rejected: u64,
    /// What it says; may be empty.
    pub words: String,
}

impl Client {
    pub fn new(endpoint: Endpoint) -> Self {
        let config = Agent::config_builder()
            .user_agent(concat!("allotrope/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(Duration::from_secs(SECONDS)))
            // A redirection would take the headers, and so passwords, elsewhere.
            .max_redirects(0)
            .max_response_header_size(MAX_ANSWER)
            .http_status_as_error(false);
        #[cfg(feature = "tls")]
        let config = {
            let trusted = ureq::tls::RootCerts::PlatformVerifier;
            let tls = ureq::tls::TlsConfig::builder().root_certs(trusted);
            config.tls_config(tls.build())
        };
        Self {
            agent: config.build().into(),
            endpoint,
        }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request, compressed with gzip. An error is the end of a sentence that begins with
    /// the collector: "cannot be reached: …".
    pub fn send(&self, body: Vec<u8>) -> Result<Accepted, String> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.url.clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.endpoint.headers);
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let mut response = self.agent.run(request).map_err(unreachable)?;
        let status = response.status();
        let body = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER as u64)
            .read_to_vec();
        match (status.as_u16(), body) {
            (200..=299, Ok(body)) => accepted(&body),
            (200..=299, Err(Error::BodyExceedsLimit(_))) => Err(NO_OTLP.to_owned()),
            (200..=299, Err(error)) => Err(unreachable(error)),
            (status, body) => Err(refused(status, &body.unwrap_or_default())),
        }
    }
}

const NO_OTLP: &str = "gives answers that are not OTLP's; is the URL that of a collector?";

fn accepted(body: &[u8]) -> Result<Accepted, String> {
    let answer = otlp::answer(body).ok_or_else(|| NO_OTLP.to_owned())?;
    Ok(Accepted {
        rejected: u64::try_from(answer.rejected_profiles).unwrap_or(0),
        words: short(&answer.error_message),
    })
}

fn refused(status: u16, body: &[u8]) -> String {
    let advice = match status {
        300..=399 => " (a redirection, which is not followed)",
        401 | 403 => " (OTEL_EXPORTER_OTLP_HEADERS can have credentials)",
        404 => " (does it take profiles?)",
        413 => " (too large)",
        _ => "",
    };
    let words = short(&otlp::refusal(body));
    let colon = if words.is_empty() { "" } else { ": " };
    format!("refuses profiles with status {status}{advice}{colon}{words}")
}

fn unreachable(error: Error) -> String {
    match error {
        Error::Timeout(_) => format!("has not answered within {SECONDS} s"),
        // Its text has the URL.
        Error::BadUri(_) => "cannot be reached: the URL cannot be used".to_owned(),
        error => format!("cannot be reached: {}", short(&error.to_string())),
    }
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_WORDS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
