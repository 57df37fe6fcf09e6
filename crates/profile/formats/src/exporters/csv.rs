//! A comma-separated table, a row a stack, for spreadsheets, SQL and data frames.
//!
//! The first row names the columns, which are the same for every source; what a source does
//! not give is empty:
//!
//! | column | meaning |
//! | --- | --- |
//! | `process` | number of the process image in the recording |
//! | `pid` | process id |
//! | `site` | number of the stack, as `allotrope show FILE site:N` takes it |
//! | `allocations` … `reallocations` | the metrics, by their names in JSON reports; bytes, and microseconds for `lifetime_us` |
//! | `max_bytes`, `max_allocations` | what was live when the stack itself had most live bytes |
//! | `allocations_low`, `allocations_high`, … | of a sampled profile: the ends of the 95 % intervals of its four metrics |
//! | `function`, `module`, `file`, `line` | the innermost frame |
//! | `stack` | the functions, outermost first, separated by `;`, which is `_` in names |
//!
//! Text is quoted as in RFC 4180; unprintable characters are escaped. A spreadsheet may take a
//! name that begins with `=`, `+`, `-` or `@` for a formula, so a space precedes it.

use std::borrow::Cow;
use std::io::Write;

use allotrope_profile::sampled::SampledFigures;
use allotrope_profile::{CountedStack, Metric, StackFrame};

use super::naming::{NO_STACK, name, on_one_line};
use super::{ExportOptions, Exporter, Input};
use crate::error::ExportError;

/// The exporter; see the module documentation.
pub(super) struct Csv;

impl Exporter for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn description(&self) -> &'static str {
        "a table with a row for each stack, for spreadsheets and data frames"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn is_own(&self, head: &[u8]) -> bool {
        head.starts_with(b"process,pid,site,allocations,")
    }

    fn write(
        &self,
        input: &Input<'_>,
        _options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let set = input.set;
        let keys = Metric::OF_STACKS.map(Metric::key).join(",");
        write!(out, "process,pid,site,{keys},max_bytes,max_allocations,")?;
        for metric in SampledFigures::METRICS.map(Metric::key) {
            write!(out, "{metric}_low,{metric}_high,")?;
        }
        write!(out, "function,module,file,line,stack\r\n")?;
        let processes = input.recorded.iter().flat_map(|it| &it.profile.processes);
        let mut sites = processes.flat_map(|process| {
            let sites = process.sites.iter();
            sites.map(|site| format!("{},{},{}", process.id, process.pid, site.number))
        });
        let mut estimates = input.samples.iter().flat_map(|it| &it.stacks);
        for stack in &set.stacks {
            write!(out, "{}", sites.next().as_deref().unwrap_or(",,"))?;
            for metric in Metric::OF_STACKS {
                out.write_all(b",")?;
                if set.known.has(metric) {
                    write!(out, "{}", stack.figures[metric as usize])?;
                }
            }
            match stack.maximum {
                Some(maximum) => write!(out, ",{},{}", maximum.bytes, maximum.allocations)?,
                None => out.write_all(b",,")?,
            }
            let estimates = estimates.next();
            for metric in SampledFigures::METRICS {
                match estimates.and_then(|it| it.ends(metric)) {
                    Some((low, Some(high))) => write!(out, ",{low},{high}")?,
                    Some((low, None)) => write!(out, ",{low},")?,
                    None => out.write_all(b",,")?,
                }
            }
            frames(stack, &set.frames, out)?;
            out.write_all(b"\r\n")?;
        }
        Ok(())
    }
}

/// The columns of the innermost frame, and the stack.
fn frames(stack: &CountedStack, frames: &[StackFrame], out: &mut dyn Write) -> std::io::Result<()> {
    let none = StackFrame {
        function: NO_STACK.into(),
        ..StackFrame::default()
    };
    let innermost = stack.frames.first();
    let innermost = innermost.map_or(&none, |&frame| &frames[frame as usize]);
    write!(
        out,
        ",{},{},{},",
        quoted(&name(innermost)),
        quoted(&innermost.module),
        quoted(&innermost.file)
    )?;
    if innermost.line > 0 {
        write!(out, "{}", innermost.line)?;
    }
    let functions = stack.frames.iter().rev().map(|&frame| {
        let name = name(&frames[frame as usize]);
        on_one_line(name, Some(';')).into_owned()
    });
    let functions: Vec<String> = functions.collect();
    let text = match functions.is_empty() {
        true => NO_STACK.to_owned(),
        false => functions.join(";"),
    };
    write!(out, ",{}", quoted(&text))
}

/// The text as a field.
fn quoted(text: &str) -> Cow<'_, str> {
    let text = on_one_line(text.into(), None);
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    if !is_formula && !text.contains([',', '"']) {
        return Cow::Owned(text.into_owned());
    }
    let space = if is_formula { " " } else { "" };
    Cow::Owned(format!("\"{space}{}\"", text.replace('"', "\"\"")))
}
