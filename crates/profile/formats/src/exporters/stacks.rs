//! Stacks of one metric in the format of dtrace's `agg[ustack()] = count()`,
//! for `stackdiff-dtrace.py` and similar tools: innermost frame first, then the
//! number. Stacks without the metric are omitted. An unknown module is written
//! as `??`.

use std::io::Write;

use allotrope_profile::{CountedStack, StackFrame, nameless_address};

use super::merged::Merged;
use super::naming::{NO_STACK, on_one_line};
use super::{ExportOptions, Exporter, Input, require};
use super::{complete_lines, is_number};
use crate::error::ExportError;
use crate::readers::dtrace::NO_MODULE;

/// The exporter; see the module documentation.
pub(super) struct Stacks;

impl Exporter for Stacks {
    fn name(&self) -> &'static str {
        "stacks"
    }

    fn description(&self) -> &'static str {
        "aggregated stacks of one metric, in dtrace's form"
    }

    fn extension(&self) -> &'static str {
        "stacks"
    }

    fn is_own(&self, head: &[u8]) -> bool {
        let text = String::from_utf8_lossy(head);
        let mut lines = complete_lines(&text);
        let is_number = |line: &str| line.starts_with(' ') && is_number(line.trim_start());
        let is_frame = |line: &str| line.starts_with("              ") && line.contains('`');
        lines.next() == Some("")
            && lines.next().is_some_and(is_frame)
            && lines.all(|line| line.is_empty() || is_number(line) || is_frame(line))
    }

    fn write(
        &self,
        Input { set, .. }: &Input<'_>,
        options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        require(set, options.metric)?;
        let merged = Merged::by(set, text);
        for CountedStack {
            frames, figures, ..
        } in &merged.stacks
        {
            let figure = figures[options.metric as usize];
            if figure == 0 {
                continue;
            }
            writeln!(out)?;
            if frames.is_empty() {
                writeln!(out, "              {NO_MODULE}`{NO_STACK}")?;
            }
            for frame in frames {
                writeln!(out, "              {}", merged.texts[*frame as usize])?;
            }
            // Readers recognise the number by the blank before it.
            writeln!(out, " {figure:>16}")?;
        }
        Ok(())
    }
}

/// ``module`function+0xOFFSET``; without a function, dtrace's
/// ``module`0xOFFSET``.
fn text(frame: &StackFrame) -> String {
    let module = if frame.module.is_empty() {
        NO_MODULE
    } else {
        &frame.module
    };
    let nameless = match frame.function.is_empty() {
        true => Some(frame.offset.unwrap_or(0)),
        false => nameless_address(frame),
    };
    let text = match (nameless, frame.offset) {
        (Some(address), _) => format!("{module}`{address:#x}"),
        (None, Some(offset)) => format!("{module}`{}+{offset:#x}", frame.function),
        (None, None) => format!("{module}`{}", frame.function),
    };
    on_one_line(text.into(), None).into_owned()
}
