//! The hidden subcommand `__collect`: the process that drains the rings and
//! writes the trace. All of it is `allotrope-collector`; here it is only given
//! its two pipes, and a voice if it fails.

use std::io::Write;

use allotrope_collector::protocol::ToFront;

use crate::exit_status::{FAILED, FINE, Failure, WithStatus};

/// Collects until the recording is over.
pub fn run() -> Result<u8, Failure> {
    // Its stderr leads nowhere: a failure inside is told like any other.
    std::panic::set_hook(Box::new(|panic| {
        let message = format!("the collector failed: {panic}; please report this");
        if let Ok(line) = serde_json::to_string(&ToFront::Failed { message }) {
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }));
    allotrope_collector::run(std::io::stdin(), std::io::stdout()).status(FAILED)?;
    Ok(FINE)
}
