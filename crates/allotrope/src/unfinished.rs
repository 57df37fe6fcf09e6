//! Removes an unfinished output file if a signal ends the command, so that Ctrl-C leaves no
//! half file under its hidden name. (`record` handles signals itself.)

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, Once, PoisonError};

use allotrope_files::{Output, Target};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::signal_state;

/// The hidden name of the file that is being written; one at a time is.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Creates an output. A signal that ends the command from then on removes the output's file if
/// that has not been renamed by then.
pub fn create(target: Target) -> io::Result<Output> {
    static STARTED: Once = Once::new();
    if matches!(target, Target::Stream(_)) {
        // A pipe may have to wait for its reader: a signal ends that at once.
        return Output::at(target);
    }
    STARTED.call_once(start);
    // The signal's thread waits until the path of a file that was created is known.
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Output::at(target)?;
    if let Output::File(file, _) = &output {
        *unfinished = Some(file.path().to_owned());
    }
    Ok(output)
}

fn start() {
    let ignored = signal_state::ignored();
    let ending = [SIGHUP, SIGINT, SIGTERM].into_iter();
    let Ok(mut signals) = Signals::new(ending.filter(|&signal| !ignored.contains(signal))) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in &mut signals {
            let path = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(path) = &*path {
                // Fails if the file has its final name already.
                let _ = std::fs::remove_file(path);
            }
            let _ = emulate_default_handler(signal);
        }
    });
}
