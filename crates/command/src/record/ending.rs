//! The end of a recording: prints what was recorded, and chooses the exit status.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use allotrope_collector::protocol::LeftBehind;
use allotrope_text::{Shown, quoted};
use anyhow::{Context as _, anyhow};

use super::launcher::Launcher;
use super::{orphans, summary};
use crate::exit_status::{Failure, RECORD_FAILED, WithStatus};
use crate::message;
use crate::report;

impl Launcher {
    /// Names the processes that outlived the program, where the recording did not wait.
    fn report_left_behind(&self, processes: &[LeftBehind]) -> anyhow::Result<()> {
        let mut list = String::new();
        for process in processes {
            let name = process.executable.shown();
            let what = match process.signal {
                0 => "runs on after the program's end",
                _ => "ran on after the program's end, and was ended",
            };
            self.print_unless_quiet(&format!("process {} ({name}) {what}", process.pid));
            list += &format!("{} {name}\n", process.pid);
        }
        match &self.options.left_behind_list {
            Some(file) => {
                std::fs::write(file, list).with_context(|| format!("cannot write {}", file.shown()))
            }
            None => Ok(()),
        }
    }

    /// Prints what was recorded and returns the exit status.
    pub fn finish(mut self) -> Result<u8, Failure> {
        let status = self.status.map_or(RECORD_FAILED, own_status);
        let outcome = self.outcome.take();
        if let Some(Ok(done)) = &outcome {
            self.report_left_behind(&done.left_behind)
                .status(RECORD_FAILED)?;
        }
        self.collector.wait();
        orphans::stop();
        match outcome.unwrap_or_else(|| Err(anyhow!("the collector ended without a message"))) {
            Ok(done) if done.images == 0 => {
                self.output.remove();
                Err(Failure::new(
                    RECORD_FAILED,
                    summary::nothing_recorded(&done),
                ))
            }
            Ok(_) if self.options.first_screen => {
                self.progress.finish();
                // The recording itself succeeded: the status is the program's.
                if let Err(failure) = report::first_screen(self.output.path()) {
                    message::print(format_args!("{:#}", failure.error));
                }
                Ok(status)
            }
            Ok(done) => {
                if let Some(stat) = self.options.stat.take() {
                    (stat.finish)(&self.output.read()?)?;
                } else if !self.options.quiet {
                    let path = self.output.path();
                    summary::print(path, &done, self.progress);
                }
                Ok(status)
            }
            Err(error) => {
                let path = self.output.path().to_owned();
                let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
                let remains = if bytes == 0 {
                    self.output.remove();
                    "nothing of it is left".to_owned()
                } else {
                    let (path, word) = (path.shown(), quoted(path.as_os_str()));
                    format!(
                        "what was recorded before is in {path}; `allotrope symbolize {word}` adds the names of its functions"
                    )
                };
                // The collector's message names the file by its hidden name.
                let partial = self.output.partial().shown().into_owned();
                let reason = format!("{error:#}").replace(&partial, &path.shown());
                Err(Failure::new(
                    RECORD_FAILED,
                    anyhow!("the recording failed ({remains}): {reason}"),
                ))
            }
        }
    }
}

/// The status that a shell would show.
pub fn own_status(status: ExitStatus) -> u8 {
    let number = match status.signal() {
        Some(signal) => 128 + signal,
        None => status.code().unwrap_or_default(),
    };
    u8::try_from(number & 0xff).unwrap_or(RECORD_FAILED)
}
