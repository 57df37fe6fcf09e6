//! The HTTP client of debuginfod.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use allotrope_files::NewFile;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::progress::{Progress, Work};

/// The largest debug file that is fetched.
const MAX_BYTES: u64 = 16 << 30;
/// Default of `DEBUGINFOD_MAXTIME`: seconds for one file.
const MAX_SECONDS: u64 = 300;

/// Whether there is a client.
pub(super) fn is_there() -> bool {
    true
}

/// The servers, each of which is asked for itself.
pub(super) fn groups(servers: &[String]) -> Vec<String> {
    servers.to_vec()
}

/// Fetches the debug file with a build id to `path`; until it is complete it has another name.
/// Returns `false` if the server does not have it.
pub(super) fn fetch(
    server: &str,
    build_id: &str,
    path: &Path,
    progress: &Progress,
) -> Result<bool, String> {
    let server = server.trim_end_matches('/');
    let url = format!("{server}/buildid/{build_id}/debuginfo");
    let seconds = std::env::var("DEBUGINFOD_MAXTIME")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|seconds| *seconds > 0)
        .unwrap_or(MAX_SECONDS);
    let trusted = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
    let agent: Agent = Agent::config_builder()
        .user_agent(concat!("allotrope/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(Duration::from_secs(seconds)))
        .max_redirects(8)
        .max_response_header_size(64 << 10)
        .http_status_as_error(false)
        .tls_config(trusted.build())
        .build()
        .into();
    let response = agent.get(url).call().map_err(|error| error.to_string())?;
    match response.status().as_u16() {
        200 => {}
        404 => return Ok(false),
        status => return Err(format!("the server answered with status {status}")),
    }
    let length = response.headers().get("content-length");
    let expected = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let response = response.into_body().into_reader();
    save(response, expected, path, progress).map_err(|error| error.to_string())?;
    Ok(true)
}

fn save(
    from: impl Read,
    expected: Option<u64>,
    path: &Path,
    progress: &Progress,
) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mut new = NewFile::in_folder(folder)?;
    copy(from, expected, &mut new, progress)?;
    new.finish(path)
}

fn copy(
    mut from: impl Read,
    expected: Option<u64>,
    file: &mut NewFile,
    progress: &Progress,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        length += count as u64;
        if length > MAX_BYTES {
            return Err(io::Error::other("the file has more than 16 GiB"));
        }
        file.write_all(&buffer[..count])?;
        progress.report(Work::Fetching, length, expected.unwrap_or(0));
    }
    match expected {
        Some(expected) if expected != length => Err(io::Error::other(format!(
            "the connection ended after {length} of {expected} bytes"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_file_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id/debuginfo");
        let error = save(&b"half"[..], Some(8), &path, &Progress::default()).unwrap_err();
        assert!(error.to_string().contains("after 4 of 8 bytes"), "{error}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        save(&b"the whole"[..], Some(9), &path, &Progress::default()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the whole");
    }
}
