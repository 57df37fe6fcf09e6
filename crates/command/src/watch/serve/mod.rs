//! Export while running: `watch --pprof-listen` and `--prometheus` serve what is live over HTTP.
//!
//! The server is that of `http.rs`: each connection has a thread of its own, with limits of
//! number, size and time. These threads never touch the watched processes: the session owns them.
//! A thread that needs a snapshot asks for it over a channel, which the session polls in its loop, and
//! makes the answer itself (`answers.rs`). A lock lets one thread at a time do so. So at most one
//! set of snapshots is under way, whoever asks how often, and a slow client holds up nobody else.

mod answers;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use allotrope_symbols::Locator;
use allotrope_watch::snapshot::Snapshot;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::http::{self, Answer, Responder};
use crate::message;
use answers::{Answers, Page};

/// Options of `watch`.
#[derive(Debug, clap::Args)]
pub struct ServeArguments {
    /// Serve heap profiles for `go tool pprof` over HTTP
    ///
    /// At /debug/pprof/heap and /debug/pprof/allocs of this address. Port 0 takes a free port,
    /// which is printed.
    #[arg(long, hide_short_help = true, value_name = "ADDR:PORT", value_parser = address,
          conflicts_with_all = ["once", "save", "perf_script"])]
    pprof_listen: Option<SocketAddr>,
    /// Serve metrics for Prometheus over HTTP
    ///
    /// At /metrics of this address, which may be that of --pprof-listen.
    #[arg(long, hide_short_help = true, value_name = "ADDR:PORT", value_parser = address,
          conflicts_with_all = ["once", "save", "perf_script"])]
    prometheus: Option<SocketAddr>,
    /// Allow addresses that other machines can reach
    ///
    /// There is no password: whoever reaches the port sees the names of functions and files.
    #[arg(long, hide_short_help = true)]
    listen_anywhere: bool,
}

/// `127.0.0.1:6060`, `[::1]:6060` or `localhost:6060`.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").map(str::parse) {
        let port = port.map_err(|_| "the port is a number up to 65535".to_owned())?;
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse()
        .map_err(|_| "write an IP address and a port such as `127.0.0.1:6060`".to_owned())
}

/// What an address serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Served {
    pprof: bool,
    prometheus: bool,
}

/// The pages of an address.
struct Pages {
    served: Served,
    is_loopback: bool,
    answers: Arc<Mutex<Answers>>,
}

impl Responder for Pages {
    fn check_host(&self, host: &str) -> Result<(), &'static str> {
        match self.is_loopback && !is_local_host(host) {
            true => Err("the Host header must be an IP address or localhost"),
            false => Ok(()),
        }
    }

    fn answer(&self, target: &str) -> Answer {
        let page = match Page::of(target, self.served) {
            Ok(page) => page,
            Err(refusal) => return refusal,
        };
        // A panic in another answer has broken nothing: it keeps no state.
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.answer(page)
    }
}

/// The session's end of the server.
pub struct Serving {
    requests: Receiver<SyncSender<Vec<Snapshot>>>,
}

impl Serving {
    /// Listens at the wanted addresses. `None`: nothing is to be served.
    pub fn start(
        arguments: &ServeArguments,
        locator: &Locator,
        old_age: u64,
    ) -> Result<Option<Self>, Failure> {
        let addresses = wanted(arguments);
        if addresses.is_empty() {
            return Ok(None);
        }
        for (address, _) in &addresses {
            if !address.ip().is_loopback() && !arguments.listen_anywhere {
                let sentence = anyhow!(
                    "{address} is not a loopback address, so other machines could read the profiles; listen at 127.0.0.1, or add --listen-anywhere"
                );
                return Err(Failure::new(BAD_INPUT, sentence));
            }
        }
        let (sender, requests) = sync_channel(1);
        let answers = Arc::new(Mutex::new(Answers::new(sender, locator.clone(), old_age)));
        for (address, served) in addresses {
            let cannot = || format!("cannot listen at {address}");
            let listener = TcpListener::bind(address)
                .with_context(cannot)
                .status(BAD_INPUT)?;
            let address = listener.local_addr().with_context(cannot).status(FAILED)?;
            let pages = Pages {
                served,
                is_loopback: address.ip().is_loopback(),
                answers: Arc::clone(&answers),
            };
            http::start(listener, pages)
                .with_context(cannot)
                .status(FAILED)?;
            if served.pprof {
                message::print(format_args!("serving http://{address}/debug/pprof/heap"));
            }
            if served.prometheus {
                message::print(format_args!("serving http://{address}/metrics"));
            }
        }
        Ok(Some(Self { requests }))
    }

    /// Who waits for a snapshot, if anybody does.
    pub fn waiting(&self) -> Option<SyncSender<Vec<Snapshot>>> {
        self.requests.try_recv().ok()
    }
}

/// The addresses: one if both options name the same.
fn wanted(arguments: &ServeArguments) -> Vec<(SocketAddr, Served)> {
    let (pprof, prometheus) = (arguments.pprof_listen, arguments.prometheus);
    let mut all = Vec::new();
    if let Some(address) = pprof {
        let served = Served {
            pprof: true,
            prometheus: prometheus == pprof,
        };
        all.push((address, served));
    }
    if let Some(address) = prometheus.filter(|_| prometheus != pprof) {
        let served = Served {
            pprof: false,
            prometheus: true,
        };
        all.push((address, served));
    }
    all
}

/// Whether a Host header is an IP address or `localhost`, with a port or without.
fn is_local_host(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|it| it.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.ends_with(':') => name,
        _ => host,
    };
    if let Some(address) = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        return matches!(address.parse(), Ok(IpAddr::V6(_)));
    }
    name.eq_ignore_ascii_case("localhost") || matches!(name.parse(), Ok(IpAddr::V4(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_host_is_an_address_or_localhost() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:6060",
            "[::1]",
            "[::1]:0",
            "10.0.0.1",
        ] {
            assert!(is_local_host(host), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example:6060",
            "127.0.0.1.evil.example",
            "[::1",
            "::1",
            "localhost:80:80",
            "localhost:x",
            "[127.0.0.1]",
            "[localhost]",
        ] {
            assert!(!is_local_host(host), "{host}");
        }
    }
}
