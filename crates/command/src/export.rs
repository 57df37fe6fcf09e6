//! `allotrope export`: writes a recording, or the stacks of another tool, in a format
//! that other tools open. `allotrope-formats` implements the formats.

use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use allotrope_text::document::{Table, left, write_lines};
use allotrope_text::{Shown, Style};

use allotrope_formats::{
    EXPORTERS, ExportError, ExportOptions, Exporter, Input, Recorded, Wanted, exporter,
};
use allotrope_profile::{CountedStack, ImageId, Metric};
use allotrope_report::numbers::count;
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FINE, Failure, WithStatus};
use crate::filter::FilterArguments;
use crate::input_limit::InputLimit;
use crate::message;
use crate::metric;
use crate::per;
use crate::progress::reader;
use crate::replacing::{ForceArguments, Kind};
use crate::sampled;
use crate::standard_output;
use crate::to_write::{ToWrite, is_standard_output};
use crate::values;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Reads recordings and everything that `allotrope diff` reads. A recording that was
cut off or is damaged is read up to that point, with a warning.

The page docs/exports.md says what each format keeps and loses. firefox and
perfetto have allocations over time, heaptrack has every single one, the others
have sums. firefox and heaptrack need a recording; heaptrack's file has one
process, and its name must end in .zst.

pprof shows what was live at the peak (peak_space); -sample_index=alloc_space
shows all allocations, inuse_space what was live at the end. Allocation functions
such as malloc are dropped. In DHAT's viewer, a maximum of 0 means that it is
unknown. Several processes become one set of sums, in DHAT without t-gmax;
--process chooses one.

Exit status: 0 if the file was written, 1 if it could not be, 2 if FILE
cannot be read or does not have what the format consists of.";

/// Arguments of `allotrope export`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A recording, or stacks that another tool wrote
    #[arg(value_name = "FILE", required_unless_present = "list")]
    file: Option<PathBuf>,
    /// The format to write
    #[arg(long, alias = "to", value_name = "FORMAT", required_unless_present = "list",
          value_parser = clap::builder::PossibleValuesParser::new(names()))]
    format: Option<String>,
    /// The metric of formats that have one number per stack
    #[arg(long, value_name = "METRIC", default_value_t = Metric::Allocations,
          value_parser = metric::parser())]
    metric: Metric,
    #[command(flatten)]
    filter: FilterArguments,
    /// Write only the process image with this id
    ///
    /// `allotrope report --by process` shows ids.
    #[arg(long, value_name = "ID", value_parser = values::whole::<ImageId>(..))]
    process: Option<ImageId>,
    /// Divide all figures by N, rounded to whole numbers
    #[arg(long, value_name = "N", value_parser = per::parse)]
    per: Option<f64>,
    /// With dhat: keep the frames that start the program or a thread
    ///
    /// As dhat-rs does, dhat leaves out what Rust's and C's libraries have above `main`.
    #[arg(long)]
    all_frames: bool,
    /// Write to this file; `-` is the standard output [default: -]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArguments,
    /// List the formats and what opens them
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    pub input: InputLimit,
}

fn names() -> impl Iterator<Item = &'static str> {
    EXPORTERS.iter().map(|exporter| exporter.name())
}

/// Writes the file.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if arguments.list {
        standard_output::print(list)?;
        return Ok(FINE);
    }
    let (Some(file), Some(name)) = (&arguments.file, &arguments.format) else {
        let sentence = anyhow!("name a file to export and a format; --list shows the formats");
        return Err(Failure::new(BAD_INPUT, sentence));
    };
    let exporter = exporter(name)
        .ok_or_else(|| anyhow!("there is no format {name}; --list shows the formats"))
        .status(BAD_INPUT)?;
    let is_own = |head: &[u8]| exporter.is_own(head);
    let output = ToWrite {
        path: arguments.output.as_deref().unwrap_or(Path::new("-")),
        kind: Kind {
            what: "earlier export in this format",
            is_own: &is_own,
        },
        force: arguments.force,
    };
    output.check([file])?;
    if exporter.is_binary() {
        output.refuse_terminal(name)?;
    }
    let wanted = allotrope_reading::Wanted {
        times: (exporter.wanted() == Wanted::Times).then_some(&[]),
        ..allotrope_reading::Wanted::default()
    };
    let mut source = reader(arguments.input.limits()).recorded_stacks(file, wanted)?;
    if let Some(id) = arguments.process {
        source.keep_process(file, id)?;
    }
    arguments.filter.check_sets(std::iter::once(&source.set))?;
    if let Some(filter) = arguments.filter.filter() {
        source.filter(&filter);
    }
    if source.sampled.is_some() {
        sampled::refuse(file, &[(arguments.per.is_some(), "--per")])?;
    }
    if arguments.per.is_some() && exporter.wanted() != Wanted::Stacks {
        let sentence = anyhow!(
            "--per divides sums, and {name} has times or single allocations; leave --per out"
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let sums = sampled::describe_sums(&mut source);
    if arguments.all_frames && name != "dhat" {
        let sentence = anyhow!("--all-frames is for dhat; {name} has all frames");
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let options = ExportOptions {
        metric: arguments.metric,
        all_frames: arguments.all_frames,
    };
    let lost = arguments.per.map(|per| {
        let is_counted = |stack: &&CountedStack| stack.figures[options.metric as usize] > 0;
        let before = source.set.stacks.iter().filter(is_counted).count();
        source.set.divide(per);
        before - source.set.stacks.iter().filter(is_counted).count()
    });
    let input = Input {
        set: &source.set,
        recorded: source.recorded.as_deref().map(|recorded| Recorded {
            profile: &recorded.profile,
            events: recorded,
        }),
        samples: source.sampled.as_deref(),
    };
    let checked = match input.set.known.has(options.metric) {
        true => exporter.check(&input),
        false => Err(ExportError::Unknown(options.metric)),
    };
    if let Err(error) = checked {
        let sentence = anyhow!("{}: {error}", file.shown());
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    source.notes.iter().for_each(message::print);
    if let Some(lost) = lost.filter(|&lost| lost > 0) {
        message::print(format_args!(
            "note: {}: divided and rounded, {} of {} stacks are 0",
            file.shown(),
            options.metric.words(),
            count(lost as u64),
        ));
    }
    for note in sums {
        message::print(format_args!("note: {}: {note}", file.shown()));
    }
    for note in exporter.notes(&input) {
        message::print(format_args!("note: {}: {note}", file.shown()));
    }
    if let (Some(output), Some(suffix)) = (&arguments.output, exporter.suffix())
        && !is_standard_output(output)
        && !output.as_os_str().as_bytes().ends_with(suffix.as_bytes())
    {
        message::print(format_args!(
            "note: {}: {name} opens files only whose names end in {suffix}",
            output.shown()
        ));
    }
    output.create([file], |out| write(exporter, &input, &options, out))?;
    Ok(FINE)
}

fn list(output: &mut dyn Write) -> io::Result<()> {
    let rows = EXPORTERS.iter();
    let rows = rows.map(|exporter| [exporter.name(), exporter.description()]);
    let table = Table::new([left(""), left("")]).indent(0).rows(rows);
    write_lines(output, table.lines(Style::plain(usize::MAX)))
}

/// Writes in a format, with the error that caused it if the output cannot be written.
pub fn write(
    exporter: &dyn Exporter,
    input: &Input<'_>,
    options: &ExportOptions,
    output: &mut dyn Write,
) -> io::Result<()> {
    match exporter.write(input, options, output) {
        Ok(()) => Ok(()),
        Err(ExportError::Io(error)) => Err(error),
        Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error)),
    }
}
