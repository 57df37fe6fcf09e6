//! `allotrope view`: serves the page of a recording, or of the comparison of two, on the loopback
//! address, and opens it in a browser. `page.rs` and `diff/page.rs` make the page, `http.rs` is the
//! server. This file says who gets the page, and how a browser is found.
//!
//! Other users of this machine, and web pages that a browser has open, can send requests to the
//! port. The page is at a path with a random token, and the `Host` header must be the address
//! that is served. While the browser starts, the URL is on its command line, which other users
//! can read: so connections of other users than this one and root are refused, too.

use std::borrow::Cow;
use std::env;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use allotrope_diff::Suppressions;
use allotrope_text::Shown;
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
use crate::message;
use crate::page::{self, PageOptions};
use crate::report;
use crate::signal_state;
use crate::standard_output;
use crate::suppressions::SuppressionArguments;
use crate::tcp_owner::Owner;

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
    /// A trace that `allotrope record` wrote, or a sampled profile; with OTHER whatever
    /// `allotrope diff` reads
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Show what changed from FILE to this one, which may be whatever `allotrope diff` reads
    #[arg(value_name = "OTHER", conflicts_with_all = ["source", "all_leaks", "off", "files"])]
    other: Option<PathBuf>,
    /// Listen at this port [default: a free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
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
    let page = page(arguments)?;
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
fn page(arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let glue = arguments.glue.read()?;
    let suppressions = match arguments.all_leaks {
        true => Suppressions::none(),
        false => arguments.suppressions.read()?,
    };
    if let Some(other) = &arguments.other {
        return diff::page_of(
            [&arguments.file, other],
            glue,
            suppressions,
            arguments.input.limits(),
        );
    }
    let options = PageOptions {
        glue,
        suppressions,
        findings: &arguments.findings,
        source: arguments.source.then_some(&*arguments.source_path),
        is_last: false,
        limits: arguments.input.limits(),
    };
    page::bytes(&arguments.file, &options)
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

/// A variable of the environment that is set and not empty.
fn variable(name: &str) -> Option<String> {
    let value = env::var_os(name).filter(|it| !it.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// Opens the page in a browser, or says how to.
fn open(url: &str, port: u16) {
    if let Some(session) = variable("SSH_CONNECTION") {
        message::print(
            "in an ssh session no browser is started; run this on your own machine and open the URL there:",
        );
        message::print(ssh_command(&session, port));
        return;
    }
    let started = commands(
        variable("BROWSER").as_deref(),
        variable("DISPLAY").is_some() || variable("WAYLAND_DISPLAY").is_some(),
        url,
    );
    match started.and_then(|all| start_first(&all)) {
        Ok((name, child)) => {
            message::print(format_args!(
                "opening the page with {}; Ctrl-C ends this command",
                name.shown()
            ));
            wait_for(name, child);
        }
        Err(why) => message::print(format_args!(
            "{why}, so no browser is started; open the URL in one; Ctrl-C ends this command"
        )),
    }
}

/// The command that forwards the port to the machine from which an ssh session came. `session`
/// is SSH_CONNECTION: the addresses and ports of the client and of the server (ssh(1)).
fn ssh_command(session: &str, port: u16) -> String {
    let words: Vec<&str> = session.split_whitespace().collect();
    let server = words.get(2).and_then(|it| it.parse::<IpAddr>().ok());
    let host = match server {
        Some(server) => server.to_string(),
        None => rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
    };
    let server_port = words.get(3).and_then(|it| it.parse::<u16>().ok());
    let option = match server_port {
        Some(other) if other != 22 => format!("-p {other} "),
        _ => String::new(),
    };
    format!("ssh {option}-L {port}:127.0.0.1:{port} {host}")
}

/// The commands that may open a URL, the best first, or why there are none.
fn commands(
    browser: Option<&str>,
    has_display: bool,
    url: &str,
) -> Result<Vec<Vec<String>>, String> {
    let Some(browser) = browser else {
        return match has_display {
            true => Ok(vec![vec!["xdg-open".to_owned(), url.to_owned()]]),
            false => Err("there is no display, and BROWSER is not set".to_owned()),
        };
    };
    let command = |text: &str| -> Vec<String> {
        let mut words: Vec<String> = text
            .split_whitespace()
            .map(|word| word.replace("%s", url))
            .collect();
        if !text.contains("%s") && !words.is_empty() {
            words.push(url.to_owned());
        }
        words
    };
    let all = browser.split(':').map(command);
    Ok(all.filter(|words| !words.is_empty()).collect())
}

/// Starts the first command that can be started. It gets nothing of this process that it could
/// hold on to: no standard streams, and a process group of its own, so that Ctrl-C does not end
/// the browser.
fn start_first(commands: &[Vec<String>]) -> Result<(String, Child), String> {
    use std::os::unix::process::CommandExt;
    for command in commands {
        let Some((program, arguments)) = command.split_first() else {
            continue;
        };
        let started = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        if let Ok(child) = started {
            return Ok((program.clone(), child));
        }
    }
    let names: Vec<_> = commands
        .iter()
        .filter_map(|command| command.first())
        .map(|name| name.shown())
        .collect();
    Err(match names.is_empty() {
        true => "BROWSER names no command".to_owned(),
        false => format!("{} cannot be started", names.join(" or ")),
    })
}

/// Waits for the browser in a thread, so that it does not stay a zombie, and says if it fails.
fn wait_for(name: String, mut child: Child) {
    let wait = move || {
        if let Ok(status) = child.wait()
            && !status.success()
        {
            message::print(format_args!(
                "{} failed ({status}); open the URL in a browser",
                name.shown()
            ));
        }
    };
    // Without a thread, nobody waits: nothing else is lost.
    let _ = thread::Builder::new()
        .name("allotrope-browser".to_owned())
        .spawn(wait);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ssh_command_names_the_server_and_its_port() {
        let command = |session| ssh_command(session, 4000);
        assert_eq!(
            command("198.51.100.7 50123 192.0.2.5 22"),
            "ssh -L 4000:127.0.0.1:4000 192.0.2.5"
        );
        assert_eq!(
            command("2001:db8::1 50123 2001:db8::2 2222"),
            "ssh -p 2222 -L 4000:127.0.0.1:4000 2001:db8::2"
        );
        // Nothing but an address is put into a command that people copy.
        let forged = command("x x $(reboot) 22");
        assert!(!forged.contains("reboot"), "{forged}");
        assert!(
            forged.starts_with("ssh -L 4000:127.0.0.1:4000 "),
            "{forged}"
        );
    }

    #[test]
    fn browsers_are_tried_in_their_order() {
        let url = "http://127.0.0.1:1/x/";
        let words = |all: Vec<Vec<String>>| -> Vec<String> {
            all.iter().map(|command| command.join(" ")).collect()
        };
        let of = |browser| words(commands(Some(browser), false, url).expect("commands"));
        assert_eq!(of("firefox"), [format!("firefox {url}")]);
        assert_eq!(
            of("a --new:b --url=%s -x::"),
            [format!("a --new {url}"), format!("b --url={url} -x")]
        );
        assert!(of(" : ").is_empty());
        let open = words(commands(None, true, url).expect("a command"));
        assert_eq!(open, [format!("xdg-open {url}")]);
        assert!(commands(None, false, url).is_err());
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(is_same(b"abc", b"abc"));
        for other in [&b""[..], b"ab", b"abcd", b"abd"] {
            assert!(!is_same(other, b"abc"));
        }
    }
}
