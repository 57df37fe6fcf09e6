//! `allotrope report --site N`: one site in full and, with `--events`, its blocks.

use std::io::{self, ErrorKind, Write};

use allotrope_attribution::Attributed;
use allotrope_profile::{AggregateError, Block, Options, blocks_of_sites};
use allotrope_reading::Recording;
use allotrope_report::text::{self, BlockList, TextOptions};
use allotrope_report::{BlockRecords, sites_of_row};
use allotrope_trace::TraceReader;
use anyhow::Context;

use super::request::{BlockOptions, Request};
use crate::exit_status::{FAILED, FINE, Failure, WithStatus};
use crate::show::no_site;
use crate::standard_output;

/// Prints one site in full and, with `--events`, its blocks.
pub fn print(
    recording: &Recording,
    request: &Request<'_>,
    (number, blocks): (u32, Option<BlockOptions>),
    attributed: &Attributed<'_>,
    options: &TextOptions,
) -> Result<(), Failure> {
    let sites = sites_of_row(attributed, number, options);
    if sites.is_empty() {
        return Err(no_site(number, recording.path(), attributed.profile));
    }
    if blocks.is_none_or(|it| it.format.is_none()) {
        standard_output::print_text(|output| {
            request.write_newest(output)?;
            text::write_site(attributed, number, options, output)?;
            if blocks.is_some() {
                writeln!(output)?;
            }
            Ok(())
        })?;
    }
    if let Some(BlockOptions { format, limit }) = blocks {
        let trace = recording.trace();
        let mut output = io::BufWriter::new(io::stdout().lock());
        let printed = match format {
            None => BlockList::new(attributed, options, &mut output).and_then(|mut list| {
                let write = &mut |block: &Block| list.write(block);
                let (written, aggregated) = events(trace, &sites, limit, write);
                written.and_then(|()| list.finish()).map(|()| aggregated)
            }),
            Some(format) => BlockRecords::new(attributed.profile, format, &mut output).and_then(
                |mut records| {
                    let write = &mut |block: &Block| records.write(block);
                    let (written, aggregated) = events(trace, &sites, limit, write);
                    written.map(|()| aggregated)
                },
            ),
        };
        let printed = printed.and_then(|aggregated| output.flush().map(|()| aggregated));
        leave_if_closed(&printed);
        let aggregated = printed.context("cannot write to the standard output");
        let aggregated = aggregated.status(FAILED)?;
        aggregated.map_err(|error| recording.error(error))?;
    }
    Ok(())
}

/// Calls `write` with the blocks of the sites, at most `limit` of them, while the trace is
/// aggregated: there may be millions, so they are not collected first. Returns the results of
/// writing and of the aggregation.
fn events(
    trace: &TraceReader,
    sites: &[(u32, u32)],
    limit: u64,
    write: &mut dyn FnMut(&Block) -> io::Result<()>,
) -> (io::Result<()>, Result<(), AggregateError>) {
    let mut left = limit;
    let mut printed = Ok(());
    let aggregated = blocks_of_sites(trace, &Options::default(), sites, &mut |block| {
        if printed.is_ok() && left > 0 {
            left -= 1;
            printed = write(block);
            leave_if_closed(&printed);
        }
    });
    (printed, aggregated)
}

/// Ends the process once the reader of the output has gone (`| head`): nobody would
/// read the result of an aggregation that may take long.
fn leave_if_closed<T>(printed: &io::Result<T>) {
    if let Err(error) = printed
        && error.kind() == ErrorKind::BrokenPipe
    {
        std::process::exit(FINE.into());
    }
}
