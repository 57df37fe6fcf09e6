//! Folded stacks of one metric, a line a stack, outermost frame first, for
//! `flamegraph.pl`, inferno, speedscope and others. Stacks without the metric
//! are omitted. Semicolons in names become `_`; newlines and unprintable
//! characters are escaped.

use std::io::Write;

use allotrope_profile::CountedStack;

use super::merged::Merged;
use super::naming::{NO_STACK, name, on_one_line};
use super::{ExportOptions, Exporter, Input, require};
use super::{complete_lines, is_number};
use crate::error::ExportError;

/// The exporter; see the module documentation.
pub(super) struct Folded;

impl Exporter for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn description(&self) -> &'static str {
        "folded stacks of one metric, for flame graph tools"
    }

    fn extension(&self) -> &'static str {
        "folded"
    }

    fn is_own(&self, head: &[u8]) -> bool {
        let text = String::from_utf8_lossy(head);
        let mut lines = complete_lines(&text).peekable();
        let is_stack = |line: &str| {
            let parts = line.rsplit_once(' ');
            parts.is_some_and(|(stack, number)| !stack.is_empty() && is_number(number))
        };
        lines.peek().is_some() && lines.all(is_stack)
    }

    fn write(
        &self,
        Input { set, .. }: &Input<'_>,
        options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        require(set, options.metric)?;
        let merged = Merged::by(set, |frame| {
            on_one_line(name(frame), Some(';')).into_owned()
        });
        for CountedStack {
            frames, figures, ..
        } in &merged.stacks
        {
            let figure = figures[options.metric as usize];
            if figure == 0 {
                continue;
            }
            if frames.is_empty() {
                write!(out, "{NO_STACK}")?;
            }
            for (at, frame) in frames.iter().rev().enumerate() {
                let separator = if at == 0 { "" } else { ";" };
                write!(out, "{separator}{}", merged.texts[*frame as usize])?;
            }
            writeln!(out, " {figure}")?;
        }
        Ok(())
    }
}
