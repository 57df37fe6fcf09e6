//! Where the reports of `watch` go, and in which form.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use allotrope_files::{Whose, append};
use allotrope_text::{LogWriter, Shown};
use allotrope_watch::blocks::Which;
use allotrope_watch::report::Report;
use allotrope_watch::snapshot::{Snapshot, real_now};
use allotrope_watch::watch::Watch;
use allotrope_watch::{json, poireau, text};
use anyhow::Context;

use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::message;
use crate::standard_output;
use crate::style::{Color, style};

/// The form of the reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One object a line
    Json,
    /// The lines that poireau prints
    Poireau,
}

/// What happens to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Found,
    Ended,
    Executed,
    /// The process executed a program that is not prepared.
    Left,
    TakenOver,
}

/// The columns of the text.
fn width() -> usize {
    style(Color::Never).width
}

/// Writes the reports.
pub struct Output {
    format: Format,
    log: Option<File>,
    name: String,
    /// Nobody reads the standard output any more.
    pub is_closed: bool,
}

impl Output {
    /// Opens the log, if one is wanted.
    pub fn open(format: Format, log: Option<&Path>) -> Result<Self, Failure> {
        let name = log.map_or_else(
            || "the standard output".to_owned(),
            |path| path.shown().into_owned(),
        );
        let log = log
            .map(|path| append(path, Whose::Own))
            .transpose()
            .with_context(|| format!("cannot append to {name}"))
            .status(BAD_INPUT)?;
        Ok(Self {
            format,
            log,
            name,
            is_closed: false,
        })
    }

    /// The form.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Writes a report that does not come from snapshots.
    pub fn print(&mut self, report: &Report) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.write(|out| json::write(report, out)),
            Format::Text | Format::Poireau => self.text(|out| text::write(report, width(), out)),
        }
    }

    /// Writes a report of these snapshots.
    pub fn report(&mut self, watch: &mut Watch, snapshots: &[Snapshot]) -> Result<(), Failure> {
        let report = watch.report(snapshots);
        match self.format {
            Format::Text => self.text(|out| text::write(&report, width(), out)),
            Format::Json => self.write(|out| json::write(&report, out)),
            Format::Poireau => {
                let is_new = report.high_water.as_ref().is_some_and(|it| it.is_new);
                self.text(|out| {
                    poireau::write(watch, snapshots, Which::Old, out)?;
                    if is_new {
                        poireau::write_high_water(watch, true, out)?;
                    }
                    Ok(())
                })
            }
        }
    }

    /// Writes single blocks; all live ones with those of the high-water mark.
    pub fn blocks(
        &mut self,
        watch: &mut Watch,
        snapshots: &[Snapshot],
        which: Which,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.write(|out| {
                json::write_blocks(watch, snapshots, which, out)?;
                match which {
                    Which::Live => json::write_high_water(watch, out),
                    _ => Ok(()),
                }
            }),
            Format::Text | Format::Poireau => self.text(|out| {
                poireau::write(watch, snapshots, which, out)?;
                match which {
                    Which::Live => poireau::write_high_water(watch, false, out),
                    _ => Ok(()),
                }
            }),
        }
    }

    /// Writes blocks that do not come from snapshots, as text or as JSON.
    pub fn list(
        &mut self,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        json: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.write(json),
            Format::Text | Format::Poireau => self.text(text),
        }
    }

    /// Writes what has happened to a process. `how`: more words of the sentence for people.
    pub fn event(&mut self, event: Event, process: u32, how: &str) -> Result<(), Failure> {
        let (kind, words) = match event {
            Event::Found => ("process_found", "is watched from now on"),
            Event::Ended => ("process_ended", "has ended"),
            Event::Executed => ("process_executed", "has executed another program"),
            Event::Left => (
                "process_left",
                "has executed a program that is not prepared, and is not watched any more",
            ),
            Event::TakenOver => ("process_taken_over", "was taken over by another watcher"),
        };
        message::print(format_args!("process {process} {words}{how}"));
        match self.format {
            Format::Json => self.write(|out| json::write_event(kind, process, real_now(), out)),
            _ => Ok(()),
        }
    }

    fn text(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut text = Vec::new();
        standard_output::render_text(&mut text, write)?;
        self.write(|out| LogWriter::new(out).write_all(&text))
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let written = match &mut self.log {
            Some(log) => {
                let mut out = io::BufWriter::new(log);
                write(&mut out).and_then(|()| out.flush())
            }
            None => {
                let mut out = io::BufWriter::new(io::stdout().lock());
                write(&mut out).and_then(|()| out.flush())
            }
        };
        match written {
            Err(error) if self.log.is_none() && error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            written => written
                .with_context(|| format!("cannot write to {}", self.name))
                .status(FAILED),
        }
    }
}
