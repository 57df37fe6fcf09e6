//! The pager: text for people that may be longer than the terminal goes through `$PAGER`,
//! as in git. Never if the standard output is not a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::exit_status::Failure;
use crate::standard_output;

/// What is run without `$PAGER`.
const DEFAULT: &str = "less";

/// Options of less if `$LESS` is not set, those of git: quit if the text fits the screen,
/// show colours, leave the text on the screen.
const LESS: &str = "FRX";

/// The option that turns the pager off.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct PagerArguments {
    /// Do not show the text with $PAGER on a terminal
    #[arg(long, hide_short_help = true)]
    no_pager: bool,
}

impl PagerArguments {
    /// Writes text for people to the pager, or to the standard output.
    pub fn print(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        match self.command() {
            Some(pager) => {
                let mut text = Vec::new();
                standard_output::render_text(&mut text, write)?;
                if show(&pager, &text) {
                    return Ok(());
                }
                standard_output::print_log(|output| output.write_all(&text))
            }
            None => standard_output::print_text(write),
        }
    }

    /// The command of the pager; `None` if none is to be used.
    fn command(self) -> Option<String> {
        let dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        if self.no_pager || dumb || !io::stdout().is_terminal() {
            return None;
        }
        let pager = std::env::var("PAGER").unwrap_or_else(|_| DEFAULT.to_owned());
        (!pager.trim().is_empty() && pager.trim() != "cat").then_some(pager)
    }
}

/// Runs the pager with the text. `false` if it could not be started, or not found: then
/// nothing was shown.
fn show(pager: &str, text: &[u8]) -> bool {
    /// The status of a shell that did not find a command (POSIX, 2.8.2).
    const NOT_FOUND: i32 = 127;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    // The interrupt key is the pager's: without this it would go on after allotrope.
    let interrupted = Arc::new(AtomicBool::new(false));
    let caught = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted);
    let Ok(mut child) = command.spawn() else {
        return false;
    };
    // A pager that is left before its input ends has shown what was wanted.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text);
    }
    let status = child.wait();
    if let Ok(caught) = caught {
        signal_hook::low_level::unregister(caught);
    }
    status.is_ok_and(|status| status.code() != Some(NOT_FOUND))
}
