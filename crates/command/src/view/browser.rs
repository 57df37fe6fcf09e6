//! Opens a URL in the user's browser, or says how to.

use std::env;
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::thread;

use allotrope_text::Shown;

use crate::message;

/// A variable of the environment that is set and not empty.
fn variable(name: &str) -> Option<String> {
    let value = env::var_os(name).filter(|it| !it.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// Opens the page in a browser, or says how to.
pub fn open(url: &str, port: u16) {
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
}
