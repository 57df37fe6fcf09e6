//! A user's request to stop tests that are running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit_status::{Failure, stopped_by};

/// The first SIGINT, SIGTERM or SIGHUP asks to stop, so that the running test can be ended
/// with its children. The second such signal ends this process.
pub struct Stop {
    requested: Arc<AtomicBool>,
    /// The signal that came; 0 if none did.
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Handles the signals from now on.
    pub fn on_signals() -> anyhow::Result<Self> {
        let stop = Self {
            requested: Arc::default(),
            signal: Arc::default(),
        };
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            let (requested, number) = (&stop.requested, &stop.signal);
            let status = stopped_by(signal).into();
            flag::register_conditional_shutdown(signal, status, requested.clone())
                .and_then(|_| {
                    let signal_number = signal.unsigned_abs() as usize;
                    flag::register_usize(signal, number.clone(), signal_number)
                })
                .and_then(|_| flag::register(signal, requested.clone()))
                .context("cannot handle signals")?;
        }
        Ok(stop)
    }

    /// Set once a signal has come.
    pub fn requested(&self) -> &AtomicBool {
        &self.requested
    }

    /// The failure of a command that a signal stopped, if one did.
    pub fn failure(&self) -> Option<Failure> {
        let signal = self.signal.load(Ordering::Relaxed);
        let status = stopped_by(i32::try_from(signal).unwrap_or(0));
        let stopped = || Failure::new(status, anyhow!("stopped; nothing was compared"));
        self.requested.load(Ordering::Relaxed).then(stopped)
    }
}
