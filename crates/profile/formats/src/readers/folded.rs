//! Folded ("collapsed") stacks, as `stackcollapse-*` scripts, inferno,
//! async-profiler and `heaptrack_print -F` write them: a line a stack,
//! outermost frame first.
//!
//! ```text
//! main;run;allocate 17
//! ```
//!
//! Read: the frames and the number after the last space; `module``function`;
//! heaptrack's file name in brackets after a function; the suffixes `_[i]`
//! (inlined), `_[k]`, `_[j]` of flame graph tools. The format does not name the
//! metric: the numbers are taken as allocations, and a note mentions that.
//! Ignored: blank lines and lines that begin with `#`.
//!
//! Source: Brendan Gregg's FlameGraph, `stackcollapse.pl` and `flamegraph.pl`.

use allotrope_demangle::Demangler;
use allotrope_profile::{Metric, MetricSet, StackFrame};

use crate::budget::check_depth;
use crate::error::{Fault, Problem};
use crate::format::Format;
use crate::function_names::{file_name, parse_name, split_offset};
use crate::lines::Lines;
use crate::readers::Parsed;
use crate::stack_set_builder::StackSetBuilder;

/// The number of lines that are inspected; all lines of a folded file have the
/// same form.
const INSPECTED_LINES: usize = 1000;

/// Whether all lines are stacks with a count, and at least one has two frames.
/// The last line may be cut off unless `complete` is set.
pub(crate) fn begins<'a>(lines: impl Iterator<Item = &'a str>, complete: bool) -> bool {
    let mut lines = lines.take(INSPECTED_LINES).peekable();
    let mut deep = false;
    while let Some(line) = lines.next() {
        if is_ignored(line) {
            continue;
        }
        match split(line) {
            Some((stack, _)) => deep |= stack.contains(';'),
            None if !complete && lines.peek().is_none() => {}
            None => return false,
        }
    }
    deep
}

fn is_ignored(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

/// The frames and the count.
fn split(line: &str) -> Option<(&str, &str)> {
    if line.starts_with([' ', '\t']) {
        return None;
    }
    let (stack, count) = line.trim_end().rsplit_once([' ', '\t'])?;
    (!count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())).then_some((stack, count))
}

/// Reads the whole file.
pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Parsed, Fault> {
    let mut builder = StackSetBuilder::new(lines.budget());
    let mut stack = Vec::new();
    while let Some(line) = lines.next_text()? {
        if !is_ignored(&line) {
            add(&mut builder, &line, &mut stack).map_err(|problem| lines.fault(problem))?;
        }
    }
    Ok(Parsed {
        set: builder.finish(String::new(), MetricSet::of(&[Metric::Allocations])),
        notes: vec![
            "folded stacks do not say what they count; the numbers are taken as allocations"
                .to_owned(),
        ],
    })
}

fn add(builder: &mut StackSetBuilder, line: &str, stack: &mut Vec<u32>) -> Result<(), Problem> {
    let malformed = |what: &str| Problem::Malformed {
        format: Format::Folded,
        what: what.to_owned(),
    };
    let (frames, count) =
        split(line).ok_or_else(|| malformed("the line does not end in a space and a count"))?;
    let count = count
        .parse()
        .map_err(|_| malformed("the count does not fit 64 bits"))?;
    stack.clear();
    // heaptrack writes a semicolon after the last frame too.
    for text in frames
        .split(';')
        .rev()
        .filter(|text| !text.trim().is_empty())
    {
        stack.push(builder.frame_of_text(text, frame)?);
        check_depth(stack.len())?;
    }
    builder.add_one(stack, Metric::Allocations, count)
}

fn frame(demangler: &Demangler, text: &str) -> StackFrame {
    let (text, inlined) = match text.strip_suffix("_[i]") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let text = ["_[k]", "_[j]"]
        .iter()
        .find_map(|mark| text.strip_suffix(mark))
        .unwrap_or(text);
    let (text, file) = without_file(text.trim());
    let (module, symbol) = text.split_once('`').unwrap_or(("", text));
    let (name, offset) = split_offset(symbol);
    let names = parse_name(demangler, name, file);
    StackFrame {
        function: names.function.into(),
        signature: names.signature.into(),
        module: file_name(module).into(),
        file: file.into(),
        offset,
        inlined,
        ..StackFrame::default()
    }
}

/// `f (a.c)` → `f`, `a.c`. C++ parameter lists have no space before them; file
/// names have neither spaces nor colons.
fn without_file(text: &str) -> (&str, &str) {
    let file = || {
        let (name, file) = text.strip_suffix(')')?.rsplit_once(" (")?;
        let dot = file.rfind('.')?;
        let plain = !file.contains([' ', ':', ',', '(', '`', '<', '*', '&']);
        (plain && dot > 0 && dot + 1 < file.len() && !name.is_empty()).then_some((name, file))
    };
    file().unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::readers::tests::{describe, parse};

    #[test]
    fn the_innermost_frame_is_the_last() {
        let text =
            "# a comment\nmain;run;f(int) 17\n\nmain;lib`g+0x3;operator+ 4\nmain;run;f(int) 3\n";
        let parsed = parse(text, read);
        assert_eq!(
            describe(&parsed.set),
            ["`f `run `main = 20", "`operator+ lib`g+3 `main = 4"]
        );
        assert_eq!(parsed.notes.len(), 1);
    }

    #[test]
    fn heaptracks_file_names_and_infernos_suffixes_are_read() {
        let parsed = parse("_start;main (p.c);in1_[i];a (b) c; 5\n", read);
        assert_eq!(describe(&parsed.set), ["`a (b) c `in1 `main `_start = 5"]);
        let by_name = |name: &str| {
            let mut frames = parsed.set.frames.iter();
            frames.find(|frame| &*frame.function == name).unwrap()
        };
        assert_eq!(&*by_name("main").file, "p.c");
        assert!(by_name("in1").inlined);
    }

    #[test]
    fn a_line_without_a_count_is_an_error_with_its_number() {
        for (text, line) in [("a;b 1\na;b\n", 2), ("a;b 99999999999999999999\n", 1)] {
            let mut input = text.as_bytes();
            let fault = read(&mut Lines::new(&mut input, &Budget::default())).unwrap_err();
            assert_eq!(fault.location, crate::error::Location::Line(line), "{text}");
        }
    }

    #[test]
    fn other_text_is_not_recognised() {
        let is_folded = |text: &str| begins(text.lines(), true);
        assert!(is_folded("a;b 1\nc 2\n"));
        assert!(!is_folded("a;b 1\nfor (;;) {\n"));
        assert!(!is_folded("count 5\n"));
        assert!(begins("a;b 1\na;b".lines(), false));
    }
}
