//! `allotrope symbolize`: adds function names to a trace, from debug files that were
//! not on the machine where it was recorded. It replaces the trace, or writes another
//! file, once the new trace is complete. `symbolize` of `allotrope-symbols` finds and writes the
//! names.
//!
//! Only files of the build that ran are used: a wrong name is worse than none.

use std::io::{BufWriter, IntoInnerError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use allotrope_files::{Output, Target};
use allotrope_reading::{is_growing, show_naming};
use allotrope_symbols::symbolize::{Candidates, Contents, Naming, Warning, rewrite};
use allotrope_symbols::{IndexCache, Locator};
use allotrope_text::Shown;
use allotrope_trace::TraceReader;
use allotrope_trace::model::{Module, Symbols};
use anyhow::{Context, anyhow};

use crate::debug_files::DebugFiles;
use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::input_limit::InputLimit;
use crate::message;
use crate::progress::{Progress, reader};
use crate::replacing::replaceable;
use crate::unfinished;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Debug files are searched for where GDB searches for them, in the debuginfod client's
cache and, with --debuginfod, on the servers that DEBUGINFOD_URLS names. A file whose
build id is not that of the recorded module is not used. A name that the trace has
already is replaced only by one that is at least as detailed.

Exit status: 0 if the trace was written, 1 if allotrope failed, 2 if a file cannot
be used.";

/// Arguments of `allotrope symbolize`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A trace that `allotrope record` wrote
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Write to FILE [default: replace the trace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace FILE even if it is no trace
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    debug_files: DebugFiles,
    /// Use this file for the module of its build id
    ///
    /// A module or its debug file.
    #[arg(long, value_name = "FILE")]
    module: Vec<PathBuf>,
    /// Use files that are not proven to be the ones that ran
    ///
    /// For modules that were recorded without a build id.
    #[arg(long)]
    unverified: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    pub input: InputLimit,
}

/// Finds the names and writes the trace with them.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let path = &arguments.trace;
    if is_growing(path) {
        let sentence = anyhow!(
            "{} is still being recorded, and gets its names at the end; wait for that",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let mut recording = reader(arguments.input.limits()).open(path)?;
    let trace = recording.trace_mut();
    let locator = locator(arguments)?;
    let progress = Arc::new(Progress::new(arguments.quiet));
    let damaged = |error| Failure::new(BAD_INPUT, anyhow!("{}: {error}", path.shown()));
    progress.show("reading the trace", 0, 1);
    trace.verify().map_err(damaged)?;
    let contents = Contents::read(trace).map_err(damaged)?;
    check_given(&locator, &contents, path)?;
    let total = contents.modules().len() as u64;
    let shown = Arc::clone(&progress);
    let candidates = Candidates {
        unverified: arguments.unverified,
        of_processes: false,
    };
    let mut naming = contents.name(&locator, candidates, move |done, work| {
        show_naming(&*shown, done as u64, total, work);
    });
    let output = arguments.output.as_deref().unwrap_or(path);
    let symbols = std::mem::take(&mut naming.symbols);
    write(trace, symbols, output, arguments.force, &progress)?;
    progress.finish();
    if !arguments.quiet {
        let cut = trace.cut_at().map(|cut| cut.to_string());
        print_result(&naming, &locator.take_complaints(), output, cut);
    }
    Ok(FINE)
}

fn locator(arguments: &Arguments) -> Result<Locator, Failure> {
    let locator = arguments
        .debug_files
        .locator(arguments.input.limits())
        .status(BAD_INPUT)?;
    let mut locator = locator.with_index_cache(IndexCache::of_user());
    for file in &arguments.module {
        locator = locator.with_file(file).status(BAD_INPUT)?;
    }
    Ok(locator)
}

/// Refuses a file that belongs to none of the trace's modules.
fn check_given(locator: &Locator, contents: &Contents, trace: &Path) -> Result<(), Failure> {
    for (build_id, file) in locator.given_files() {
        if contents.modules().iter().any(|it| it.build_id == build_id) {
            continue;
        }
        let same_name = |module: &&Module| {
            let name = module.path.file_name();
            name.is_some() && name == file.file_name()
        };
        let ran = match contents.modules().iter().find(same_name) {
            Some(module) => format!(
                "{} ran with {}",
                module.path.shown(),
                if module.build_id.is_empty() {
                    "none".to_owned()
                } else {
                    hexadecimal(&module.build_id)
                }
            ),
            None => "no module in it has that build id".to_owned(),
        };
        let sentence = anyhow!(
            "{} has build id {} and does not belong to the recording {}: {ran}; name the file that ran, or its debug file",
            file.shown(),
            hexadecimal(build_id),
            trace.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    Ok(())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn print_result(naming: &Naming, complaints: &[String], output: &Path, cut: Option<String>) {
    for warning in &naming.warnings {
        match warning {
            Warning::NoBuildId(path) => message::print(format_args!(
                "warning: {} was recorded without a build id, and no file is proven to be the one that ran; --unverified uses the file that is there",
                path.shown()
            )),
            Warning::Unreadable(error) => message::print(format_args!("warning: {error}")),
        }
    }
    for complaint in complaints {
        message::print(format_args!("warning: {complaint}"));
    }
    if let Some(cut) = cut {
        message::print(format_args!(
            "warning: {} is not whole: {cut}",
            output.shown()
        ));
    }
    message::print(format_args!(
        "{} of {} addresses have names now, {} had before: {}",
        naming.named,
        naming.addresses,
        naming.named_before,
        output.shown()
    ));
}

/// Writes the trace with `symbols` in place of its own names. The file is renamed to
/// `output` once it is complete.
fn write(
    trace: &TraceReader,
    symbols: Vec<Symbols>,
    output: &Path,
    force: bool,
    progress: &Progress,
) -> Result<(), Failure> {
    let target = match Target::of(output) {
        Ok(stream @ Target::Stream(_)) => stream,
        _ => replaceable(output, force).status(BAD_INPUT)?,
    };
    let write_to = |output: Output| -> anyhow::Result<()> {
        let show = |done, total| progress.show("writing the trace", done, total);
        let output = rewrite(trace, symbols, BufWriter::new(output), show)?;
        let output = output.into_inner().map_err(IntoInnerError::into_error)?;
        output.sync()?;
        output.finish()?;
        Ok(())
    };
    unfinished::create(target)
        .map_err(anyhow::Error::from)
        .and_then(write_to)
        .with_context(|| format!("cannot write {}; it is unchanged", output.shown()))
        .status(FAILED)
}
