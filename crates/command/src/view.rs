//! `allotrope view`: serves the page of a recording, or of the comparison of two, on the loopback
//! address, and opens it in a browser. `page.rs` and `diff/page.rs` make the page, `http.rs` is the
//! server. This file says who gets the page, and how a browser is found.
//!
//! Other users of this machine, and web pages that a browser has open, can send requests to the
//! port. The page is at a path with a random token, and the `Host` header must be the address
//! that is served. While the browser starts, the URL is on its command line, which other users
//! can read: so connections of other users than this one and root are refused, too.

mod browser;
mod chooser;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use allotrope_attribution::Suppressions;
use anyhow::{Context, anyhow};
use rustix::rand::{GetRandomFlags, getrandom};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::diff;
use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus, stopped_by};
use crate::findings::FindingArguments;
use crate::glue::GlueArguments;
use crate::http::{self, Answer, Responder};
use crate::input_limit::InputLimit;
use crate::page::{self, PageOptions};
use crate::report;
use crate::signal_state;
use crate::standard_output;
use crate::suppressions::SuppressionArguments;
use crate::tcp_owner::Owner;
use crate::values;
use browser::open;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The page is that of `allotrope report FILE --html`, and with OTHER that of
`allotrope diff FILE OTHER --html` (docs/page.md). It is served at 127.0.0.1
only, at a URL that cannot be guessed, until Ctrl-C, SIGTERM or SIGHUP ends the
command. The URL goes to the standard output, everything else to stderr.

The browser is the first that starts of BROWSER (commands separated by colons;
%s in one stands for the URL), or xdg-open. In an ssh session none is started;
the command to run on your own machine is printed instead.

Exit status: 128+N after signal N (130 after Ctrl-C), 1 if allotrope failed, 2
if a file cannot be read or the port is taken.";

/// Arguments of `allotrope view`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A recording, or what another tool wrote: whatever `allotrope report` reads [default: asks
    /// which recording of the current folder]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show what changed from FILE to this one, which may be whatever `allotrope diff` reads
    #[arg(value_name = "OTHER", conflicts_with_all = ["source", "all_leaks", "off", "files"])]
    other: Option<PathBuf>,
    /// Listen at this port [default: a free one]
    #[arg(long, value_name = "PORT", value_parser = values::whole::<u16>(1..=65_535))]
    port: Option<u16>,
    /// Print the URL and do nothing else with it
    #[arg(long)]
    no_open: bool,
    /// Show the code around the lines of each stack, if their files are on this machine
    #[arg(long)]
    source: bool,
    /// Look below DIR for the source files whose recorded paths begin with PREFIX
    #[arg(long, value_name = "PREFIX=DIR", requires = "source", hide_short_help = true,
          value_parser = report::parse_source_path)]
    source_path: Vec<(PathBuf, PathBuf)>,
    #[command(flatten)]
    glue: GlueArguments,
    #[command(flatten)]
    suppressions: SuppressionArguments,
    /// Rank suppressed leaks like all others, also those of the built-in list
    #[arg(long, conflicts_with = "suppressions", hide_short_help = true)]
    all_leaks: bool,
    #[command(flatten)]
    findings: FindingArguments,
    #[command(flatten)]
    pub input: InputLimit,
}

/// Serves the page until a signal comes.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let inherited = inherited_descriptors();
    let file = match &arguments.file {
        Some(file) => file.clone(),
        None => chooser::choose()?,
    };
    // A port that is taken is noticed before the recording is read, which may take long.
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port.unwrap_or(0)));
    let cannot = || match arguments.port {
        Some(_) => format!("cannot listen at {wanted}"),
        None => format!("cannot listen at {}", wanted.ip()),
    };
    let listener = TcpListener::bind(wanted)
        .with_context(cannot)
        .status(BAD_INPUT)?;
    let port = listener
        .local_addr()
        .with_context(cannot)
        .status(FAILED)?
        .port();
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let page = page(arguments, &file)?;
    let mut signals = ending_signals()?;
    let view = View::new(page, token()?, address);
    let url = view.url();
    http::start(listener, view)
        .with_context(cannot)
        .status(FAILED)?;
    standard_output::print(|output| writeln!(output, "{url}"))?;
    if !arguments.no_open {
        // The browser would inherit them, and may run for days: whoever waits for the end of
        // such a pipe would wait for the browser. Nothing here uses them any more.
        for number in inherited {
            let _ = nix::unistd::close(number);
        }
        open(&url, port);
    }
    loop {
        if let Some(signal) = signals.forever().next() {
            return Ok(stopped_by(signal));
        }
    }
}

/// The page of the recording, or of the comparison of two.
fn page(arguments: &Arguments, file: &PathBuf) -> Result<Vec<u8>, Failure> {
    let glue = arguments.glue.read()?;
    let suppressions = match arguments.all_leaks {
        true => Suppressions::none(),
        false => arguments.suppressions.read()?,
    };
    if let Some(other) = &arguments.other {
        return diff::page_of([file, other], glue, suppressions, arguments.input.limits());
    }
    let options = PageOptions {
        glue,
        suppressions,
        findings: &arguments.findings,
        source: arguments.source.then_some(&*arguments.source_path),
        is_last: false,
        limits: arguments.input.limits(),
    };
    page::bytes(file, &options)
}

/// Signals that end the command, but for those that were ignored when it was started: nohup(1)
/// ignores `SIGHUP`.
fn ending_signals() -> Result<Signals, Failure> {
    let ignored = signal_state::ignored();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter();
    Signals::new(signals.filter(|it| !ignored.contains(*it)))
        .context("cannot handle signals")
        .status(FAILED)
}

/// The descriptors beyond the standard streams that this process was started with. It must be
/// called before any is opened.
fn inherited_descriptors() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers: Vec<i32> = entries
        .flatten()
        .filter_map(|it| it.file_name().to_str()?.parse().ok())
        .collect();
    // The one of the folder that was read is closed now.
    let is_open = |number: &i32| Path::new(&format!("/proc/self/fd/{number}")).is_symlink();
    let inherited = numbers.into_iter().filter(|it| *it > 2 && is_open(it));
    inherited.collect()
}

/// 128 random bits in hexadecimal.
fn token() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let length = getrandom(&mut bytes[..], GetRandomFlags::empty())
        .ok()
        .filter(|&length| length == bytes.len());
    if length.is_none() {
        return Err(Failure::new(
            FAILED,
            anyhow!("the kernel gives no random numbers"),
        ));
    }
    let mut text = String::new();
    for byte in bytes {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// The page, and where it is.
struct View {
    page: Answer,
    address: SocketAddrV4,
    token: String,
}

impl View {
    fn new(page: Vec<u8>, token: String, address: SocketAddrV4) -> Self {
        let policy = allotrope_page::content_security_policy();
        Self {
            page: Answer {
                status: 200,
                kind: "text/html; charset=utf-8",
                more: Cow::Owned(format!(
                    "Content-Security-Policy: {policy}\r\nCross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n"
                )),
                body: page.into(),
            },
            address,
            token,
        }
    }

    fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }
}

impl Responder for View {
    fn check_client(&self, client: Owner) -> Result<(), &'static str> {
        let own = rustix::process::geteuid().as_raw();
        match client {
            Owner::User(user) if user == own || user == 0 => Ok(()),
            // The token decides alone.
            Owner::Unknown => Ok(()),
            Owner::User(_) | Owner::Gone => Err("the page is for the user who serves it only"),
        }
    }

    fn check_host(&self, host: &str) -> Result<(), &'static str> {
        let port = self.address.port();
        let is_this = host == self.address.to_string()
            || host.eq_ignore_ascii_case(&format!("localhost:{port}"));
        match is_this {
            true => Ok(()),
            false => Err("the Host header must be the address and port that allotrope printed"),
        }
    }

    fn answer(&self, target: &str) -> Answer {
        let path = target.split('?').next().unwrap_or_default();
        let path = path.strip_prefix('/').unwrap_or_default();
        let token = path.strip_suffix('/').unwrap_or(path);
        match is_same(token.as_bytes(), self.token.as_bytes()) {
            true => self.page.clone(),
            false => Answer::text(
                404,
                "there is no such page; open the URL that allotrope printed",
            ),
        }
    }

    fn write_time(&self) -> Duration {
        // 5 MB through an ssh tunnel at a few hundred kilobits a second.
        Duration::from_secs(300)
    }
}

/// Whether two texts are equal, in a time that depends on their lengths alone.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(is_same(b"abc", b"abc"));
        for other in [&b""[..], b"ab", b"abcd", b"abd"] {
            assert!(!is_same(other, b"abc"));
        }
    }
}
