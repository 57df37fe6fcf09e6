//! A signal that ends a command removes the files that it has not finished, so that Ctrl-C leaves
//! no half file under its hidden name. (`record`, `watch`, `view` and `test` handle signals
//! themselves.)

use std::io;
use std::sync::Once;

use allotrope_files::{Output, Target, remove_unfinished};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::signal_state;

/// Creates an output. A signal that ends the command from then on removes the output's file if
/// that has not been renamed by then.
pub fn create(target: Target) -> io::Result<Output> {
    if !matches!(target, Target::Stream(_)) {
        // A pipe may have to wait for its reader: without this a signal ends that at once.
        remove_at_signals();
    }
    Output::at(target)
}

/// Makes a signal that ends the command remove, from now on, the files that are not finished.
pub fn remove_at_signals() {
    static STARTED: Once = Once::new();
    STARTED.call_once(start);
}

fn start() {
    let ignored = signal_state::ignored();
    let ending = [SIGHUP, SIGINT, SIGTERM].into_iter();
    let Ok(mut signals) = Signals::new(ending.filter(|&signal| !ignored.contains(signal))) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in &mut signals {
            remove_unfinished();
            let _ = emulate_default_handler(signal);
        }
    });
}
