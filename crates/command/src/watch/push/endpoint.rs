//! Where profiles are sent, with which headers and attributes: the URL of `--otlp` and the
//! standard variables of OpenTelemetry's exporters.
//!
//! URL, headers and attributes may contain secrets, so no message has any of them but scheme,
//! host and port.
//!
//! Source: OpenTelemetry specification, "OpenTelemetry Protocol Exporter" and "Environment
//! Variable Specification".

use anyhow::{Context, anyhow, ensure};
use percent_encoding::percent_decode_str;
use ureq::http::Uri;
use ureq::http::header::{HeaderMap, HeaderName, HeaderValue};
use ureq::http::uri::PathAndQuery;

/// Added to a URL without a path.
const PATH: &str = "/v1development/profiles";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// Replaces [`HEADERS`] for profiles.
const PROFILES_HEADERS: &str = "OTEL_EXPORTER_OTLP_PROFILES_HEADERS";
const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SERVICE: &str = "OTEL_SERVICE_NAME";
const SERVICE_ATTRIBUTE: &str = "service.name";

/// A collector, and what the user says of all processes.
#[derive(Debug)]
pub struct Endpoint {
    pub url: Uri,
    /// Scheme, host and port, for messages.
    pub shown: String,
    pub headers: HeaderMap,
    /// Attributes of each process.
    pub attributes: Vec<(String, String)>,
}

impl Endpoint {
    /// Reads the endpoint from the option's value and the environment, in which an empty variable
    /// is unset.
    pub fn new(url: &str, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let variable = |name| variable(name).filter(|it| !it.trim().is_empty());
        let url = parsed(url)?;
        let port = url.port().map_or_else(String::new, |it| format!(":{it}"));
        let shown = format!(
            "{}://{}{port}",
            url.scheme_str().unwrap_or_default(),
            url.host().unwrap_or_default()
        );
        let (name, headers) = match variable(PROFILES_HEADERS) {
            Some(headers) => (PROFILES_HEADERS, Some(headers)),
            None => (HEADERS, variable(HEADERS)),
        };
        let mut attributes = pairs(ATTRIBUTES, variable(ATTRIBUTES))?;
        if let Some(service) = variable(SERVICE) {
            attributes.retain(|(key, _)| key != SERVICE_ATTRIBUTE);
            attributes.push((SERVICE_ATTRIBUTE.to_owned(), service));
        }
        Ok(Self {
            url,
            shown,
            headers: header_map(name, headers)?,
            attributes,
        })
    }
}

fn parsed(text: &str) -> anyhow::Result<Uri> {
    let wrong = || anyhow!("--otlp needs a URL such as http://127.0.0.1:4318");
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let scheme = url.scheme_str().ok_or_else(wrong)?;
    ensure!(
        ["http", "https"].contains(&scheme) && url.host().is_some_and(|it| !it.is_empty()),
        wrong()
    );
    // A port of more than 16 bits is none for `Uri`.
    let authority = url.authority().map_or("", |it| it.as_str());
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let has_port = host.rsplit(']').next().is_some_and(|it| it.contains(':'));
    ensure!(!has_port || url.port_u16().is_some(), wrong());
    ensure!(
        scheme == "http" || cfg!(feature = "tls"),
        "this allotrope was built without TLS (the feature tls), and sends to http:// only"
    );
    if !matches!(url.path(), "" | "/") {
        return Ok(url);
    }
    let path = match url.query() {
        Some(query) => format!("{PATH}?{query}"),
        None => PATH.to_owned(),
    };
    let mut parts = url.into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).map_err(|_| wrong())?);
    Uri::from_parts(parts).map_err(|_| wrong())
}

/// The pairs of a list `name=value,name=value`, whose values are percent-encoded.
fn pairs(variable: &str, text: Option<String>) -> anyhow::Result<Vec<(String, String)>> {
    let text = text.unwrap_or_default();
    let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    let pairs = parts.map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), value.into_owned()))
    });
    let pairs: Option<Vec<_>> = pairs.collect();
    pairs.with_context(|| {
        format!(
            "{variable} is no list such as `name=value,name2=value2` with percent-encoded values"
        )
    })
}

fn header_map(variable: &str, text: Option<String>) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs(variable, text)? {
        let wrong = || format!("{variable} has a name or value that is none of an HTTP header");
        let name = HeaderName::try_from(name).ok().with_context(wrong)?;
        let mut value = HeaderValue::try_from(value).ok().with_context(wrong)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str, variables: &[(&str, &str)]) -> anyhow::Result<Endpoint> {
        Endpoint::new(url, |name| {
            let mut variables = variables.iter();
            let found = variables.find(|(it, _)| *it == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_usual_path_is_added_where_there_is_none() {
        for (url, path) in [
            ("http://localhost:4318", "/v1development/profiles"),
            ("http://localhost", "/v1development/profiles"),
            ("http://localhost:4318/", "/v1development/profiles"),
            ("http://[::1]:4318/?a=b", "/v1development/profiles?a=b"),
            ("http://localhost/a/b?c", "/a/b?c"),
        ] {
            let endpoint = of(url, &[]).expect(url);
            let found = endpoint.url.path_and_query().expect(url);
            assert_eq!(found.as_str(), path, "{url}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_without_showing_it() {
        for url in [
            "",
            "localhost:4318",
            "localhost",
            "/v1development/profiles",
            "grpc://secret@localhost:4317",
            "http://secret@:4318",
            "http://",
            "http://secret:secret@localhost:99999",
            "http://localhost:x",
            "http://[::1",
            "http://secret host",
            "ftp://localhost",
        ] {
            let error = of(url, &[]).expect_err(url).to_string();
            assert!(error.contains("such as http://"), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn messages_have_host_and_port_only() {
        let endpoint = of(
            "http://user:secret@collector.example:4318/secret?secret",
            &[],
        );
        let endpoint = endpoint.expect("a URL");
        assert_eq!(endpoint.shown, "http://collector.example:4318");
        let endpoint = of("http://[::1]:4318", &[]).expect("a URL");
        assert_eq!(endpoint.shown, "http://[::1]:4318");
    }

    #[test]
    fn the_environment_has_headers_and_attributes() {
        let variables = [
            (HEADERS, "x-ignored=1"),
            (
                PROFILES_HEADERS,
                " Authorization = Bearer%20a%3D%2C , x-b=c=d,",
            ),
            (ATTRIBUTES, "service.name=first,deployment=a%20b"),
            (SERVICE, "second"),
        ];
        let endpoint = of("http://localhost", &variables).expect("a URL");
        assert_eq!(endpoint.headers.len(), 2);
        assert_eq!(endpoint.headers["authorization"], "Bearer a=,");
        assert_eq!(endpoint.headers["x-b"], "c=d");
        let attributes = [("deployment", "a b"), ("service.name", "second")];
        let found = endpoint.attributes.iter();
        assert!(found.map(|(key, value)| (&**key, &**value)).eq(attributes));
    }

    #[test]
    fn bad_variables_are_named_without_their_values() {
        for (name, value) in [
            (HEADERS, "secret"),
            (HEADERS, "a b=secret"),
            (HEADERS, "a=secret%0d%0aevil: 1"),
            (ATTRIBUTES, "=secret"),
            (ATTRIBUTES, "a=secret%ff"),
        ] {
            let error = of("http://localhost", &[(name, value)]).expect_err(value);
            let error = format!("{error:#}");
            assert!(error.contains(name) && !error.contains("secret"), "{error}");
        }
    }
}
