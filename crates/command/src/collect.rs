//! The hidden subcommand `__collect`: the process that drains the rings and
//! writes the trace. `allotrope-collector` does all of it; this file connects it
//! to its two pipes and reports a panic as a message.

use std::io::Write;

use allotrope_collector::protocol::ToLauncher;

use crate::exit_status::{FAILED, FINE, Failure, WithStatus};

/// Collects until the recording is over.
pub fn run() -> Result<u8, Failure> {
    // Its stderr is closed: a panic is reported as a message, like any failure.
    std::panic::set_hook(Box::new(|panic| {
        let message = format!("the collector failed: {panic}; please report this");
        if let Ok(line) = serde_json::to_string(&ToLauncher::Failed { message }) {
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }));
    allotrope_collector::run(std::io::stdin(), std::io::stdout()).status(FAILED)?;
    Ok(FINE)
}
