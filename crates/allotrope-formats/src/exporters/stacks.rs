//! Stacks of one metric in the form of dtrace's `agg[ustack()] = count()`,
//! which `stackdiff-dtrace.py` and its kin read: innermost frame first, then
//! the number. Stacks without the metric are left out. Where the module is not
//! known, `??` stands for it.

use std::io::Write;

use allotrope_profile::{StackFrame, StackSet};

use super::merged::Merged;
use super::naming::{NO_STACK, on_one_line};
use super::{ExportOptions, Exporter, require};
use crate::error::ExportError;
use crate::readers::dtrace::NO_MODULE;

/// See the module.
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

    fn write(
        &self,
        set: &StackSet,
        options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        require(set, options.metric)?;
        let merged = Merged::by(set, text);
        for (frames, figures) in &merged.stacks {
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
            // The blank before the number is what makes it one of ours.
            writeln!(out, " {figure:>16}")?;
        }
        Ok(())
    }
}

/// ``module`function+0xOFFSET``; a place in a module without a function is
/// ``module`0xOFFSET``, as dtrace writes it.
fn text(frame: &StackFrame) -> String {
    let module = if frame.module.is_empty() {
        NO_MODULE
    } else {
        &frame.module
    };
    let text = match (frame.function.is_empty(), frame.offset) {
        (true, offset) => format!("{module}`{:#x}", offset.unwrap_or(0)),
        (false, Some(offset)) => format!("{module}`{}+{offset:#x}", frame.function),
        (false, None) => format!("{module}`{}", frame.function),
    };
    on_one_line(text.into(), None).into_owned()
}
