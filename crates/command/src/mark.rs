//! `allotrope mark`: names the present moment of a running recording. The recording's
//! collector writes the mark (`control` of `allotrope-collector`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use allotrope_collector::control::{self, MarkError, Target};
use allotrope_reading::{Moment, is_growing};
use allotrope_report::numbers::duration;
use allotrope_text::{Shown, shown};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure};
use crate::standard_output;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
When the command ends, the trace has the mark and everything before it, and
FILE@NAME stands for what was live at that moment, wherever FILE can stand:
  allotrope mark 1234 warm
  allotrope report prog.1234.allotrope@warm
  allotrope diff prog.1234.allotrope@warm prog.1234.allotrope@now
If several moments have one name, it stands for the last of them. Only the user who
records, and root, can name moments of a recording.

Exit status: 0 if the moment was named, 1 if allotrope failed, 2 if nothing that is
being recorded matches, or the name cannot be used.";

/// Arguments of `allotrope mark`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A process that is being recorded, or its `allotrope record`; or the trace that is
    /// being written
    #[arg(value_name = "PID|FILE")]
    target: OsString,
    /// The name of the moment; no time and not `now`, which are moments already
    #[arg(value_name = "NAME")]
    name: String,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// Names the moment.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let refuse = |sentence| Failure::new(BAD_INPUT, sentence);
    let name = &arguments.name;
    control::check_name(name)
        .map_err(|why| refuse(anyhow!("the name of the mark {why}: {}", shown(name))))?;
    if !matches!(Moment::of(name), Moment::Mark(_)) {
        let sentence = anyhow!("{name} is a moment already; choose a name that is no time");
        return Err(refuse(sentence));
    }
    let path = Path::new(&arguments.target);
    let target = match pid(&arguments.target) {
        Some(pid) => Target::Process(pid),
        None => file(path)?,
    };
    match control::mark(target, name) {
        Ok(ns) => {
            if !arguments.quiet {
                let at = duration(ns as f64 / 1e3);
                standard_output::print_log(|out| writeln!(out, "{} at {at}", shown(name)))?;
            }
            Ok(FINE)
        }
        Err(MarkError::NoRecording(others)) => {
            let others = match others {
                0 => "you record nothing now".to_owned(),
                1 => "you record another program now".to_owned(),
                others => format!("you record {others} other programs now"),
            };
            Err(refuse(match target {
                Target::Process(pid) => anyhow!(
                    "process {pid} is not being recorded ({others}); name a process that `allotrope record` started, or the trace"
                ),
                Target::File { .. } => {
                    anyhow!("nothing is being recorded into {} ({others})", path.shown())
                }
            }))
        }
        Err(error) => Err(Failure::new(FAILED, error)),
    }
}

/// The number of a process, if the word is one.
fn pid(word: &OsStr) -> Option<u32> {
    word.to_str()?.parse().ok()
}

fn file(path: &Path) -> Result<Target, Failure> {
    let metadata = fs::metadata(path).map_err(|error| {
        let error = anyhow::Error::new(error);
        Failure::new(
            BAD_INPUT,
            error.context(format!("cannot read {}", path.shown())),
        )
    })?;
    if !is_growing(path) {
        let sentence = anyhow!(
            "{} is not being written; a mark names a moment of a running recording",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    Ok(Target::File {
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}
