//! dtrace's aggregated stacks: the output of `agg[ustack()] = count()`, as in
//! SwiftNIO's `malloc-aggregation.d`.
//!
//! ```text
//!               libsystem_malloc.dylib`malloc
//!               libswiftCore.dylib`swift_slowAlloc+0x19
//!               app`closure #3 in SelectableEventLoop.run()+0x166
//!            231000
//! ```
//!
//! Read: indented lines with a module before a backtick, or with a bare `0x…`,
//! innermost frame first; then an indented line with a number, the allocations.
//! A trailing `+0xHEX` or `+DEC` is the offset. An address without a name is `0xHEX` after the
//! backtick; earlier exports of Allotrope have `module+0xHEX+0x0` there, which is read, too. Ignored: lines without
//! indentation and indented lines before the first frame of a stack, which are
//! output of the program or other keys of the aggregation; stacks without a
//! number.
//!
//! Source: the dtrace manual, "Output formatting" and `ustack`; SwiftNIO's
//! "How to debug allocation regressions".

use allotrope_demangle::Demangler;
use allotrope_profile::{Metric, MetricSet, StackFrame};

use crate::error::{Fault, Problem};
use crate::format::Format;
use crate::function_names::{file_name, is_raw_address, parse_name, split_offset};
use crate::lines::Lines;
use crate::readers::Parsed;
use crate::stack_set_builder::StackSetBuilder;

/// The module of frames without one, as the exporter writes it.
pub(crate) const NO_MODULE: &str = "??";

/// The number of the first line that is characteristic of the format: a count
/// after frames.
pub(crate) fn first_sign<'a>(lines: impl Iterator<Item = &'a str>) -> Option<usize> {
    let mut frames = false;
    for (number, line) in lines.enumerate() {
        match kind(line, frames) {
            Kind::Blank => frames = false,
            Kind::Frame(_) => frames = true,
            Kind::Count(_) if frames => return Some(number),
            Kind::Count(_) | Kind::Noise => {}
        }
    }
    None
}

enum Kind<'a> {
    Blank,
    Frame(&'a str),
    Count(&'a str),
    Noise,
}

fn kind(line: &str, within_stack: bool) -> Kind<'_> {
    let text = line.trim();
    if text.is_empty() {
        Kind::Blank
    } else if !line.starts_with([' ', '\t']) {
        Kind::Noise
    } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
        Kind::Count(text)
    } else if is_frame(text) || within_stack && is_bare_symbol(text) {
        Kind::Frame(text)
    } else {
        Kind::Noise
    }
}

fn is_frame(text: &str) -> bool {
    text.find('`').is_some_and(|at| at > 0) || is_raw_address(text)
}

/// A frame without a module, as `jstack()` prints it: one word, with or without
/// an offset.
fn is_bare_symbol(text: &str) -> bool {
    !text.contains(char::is_whitespace) || split_offset(text).1.is_some()
}

/// Reads the whole file.
pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Parsed, Fault> {
    let mut builder = StackSetBuilder::new(lines.budget());
    let mut stack: Vec<u32> = Vec::new();
    let mut uncounted = 0_u64;
    while let Some(line) = lines.next_text()? {
        let added = match kind(&line, !stack.is_empty()) {
            Kind::Blank => {
                uncounted += u64::from(!stack.is_empty());
                stack.clear();
                Ok(())
            }
            Kind::Noise => Ok(()),
            Kind::Frame(text) => builder
                .frame_of_text(text, frame)
                .map(|index| stack.push(index)),
            Kind::Count(_) if stack.is_empty() => Ok(()),
            Kind::Count(text) => count(text).and_then(|count| {
                builder.add_one(&stack, Metric::Allocations, count)?;
                stack.clear();
                Ok(())
            }),
        };
        added
            .and_then(|()| crate::budget::check_depth(stack.len()))
            .map_err(|problem| lines.fault(problem))?;
    }
    uncounted += u64::from(!stack.is_empty());
    let mut notes = Vec::new();
    if uncounted > 0 {
        notes.push(format!(
            "{uncounted} stacks have no count behind them and are left out; was the output cut?"
        ));
    }
    Ok(Parsed {
        set: builder.finish(String::new(), MetricSet::of(&[Metric::Allocations])),
        notes,
    })
}

fn count(text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| Problem::Malformed {
        format: Format::Dtrace,
        what: "the count does not fit 64 bits".to_owned(),
    })
}

fn frame(demangler: &Demangler, text: &str) -> StackFrame {
    let (module, symbol) = text.split_once('`').unwrap_or(("", text));
    let module = file_name(if module == NO_MODULE { "" } else { module });
    if is_raw_address(symbol) && !module.is_empty() {
        // As a recording has it, so that the two can be compared.
        return StackFrame {
            function: format!("{module}+{symbol}").into(),
            module: module.into(),
            offset: Some(0),
            ..StackFrame::default()
        };
    }
    let (name, offset) = split_offset(symbol);
    let names = parse_name(demangler, name, "");
    StackFrame {
        function: names.function.into(),
        signature: names.signature.into(),
        module: module.into(),
        offset,
        ..StackFrame::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::readers::tests::{describe, parse};

    fn described(text: &str) -> Vec<String> {
        describe(&parse(text, read).set)
    }

    #[test]
    fn stacks_are_indented_and_end_with_their_count() {
        let text = "dtrace: script matched 4 probes
[...]
              libsystem_malloc.dylib`malloc
              libswiftCore.dylib`swift_slowAlloc+0x19
              app`closure #3 in SelectableEventLoop.run()+0x166
              app`0x1
           231000

              libsystem_malloc.dylib`malloc
              0x7fff1234
                7
";
        assert_eq!(
            described(text),
            [
                "libsystem_malloc.dylib`malloc libswiftCore.dylib`swift_slowAlloc+25 app`closure #3 in SelectableEventLoop.run()+358 app`app+0x1+0 = 231000",
                "libsystem_malloc.dylib`malloc `0x7fff1234 = 7",
            ]
        );
    }

    #[test]
    fn an_address_without_a_name_is_read_in_both_spellings() {
        let read = "libc.so.6`libc.so.6+0x29ca8+0 a`main+2 = 5";
        for text in ["libc.so.6`0x29ca8", "libc.so.6`libc.so.6+0x29ca8+0x0"] {
            let text = format!("   {text}\n   a`main+0x2\n   5\n");
            assert_eq!(described(&text), [read], "{text}");
        }
    }

    #[test]
    fn a_programs_own_indented_number_is_no_stack() {
        let text = "  Result:
     42
    99

   lib`f
 progress 5
   app`main+0x2
     3
     8
";
        assert_eq!(described(text), ["lib`f app`main+2 = 3"]);
    }

    #[test]
    fn operators_and_swift_names_stay_unchanged() {
        let text = "
   app`operator+
   app`vec::operator+=
   app`vec::operator+(vec const&)+0x10
   app`doRequests(group:number:)+0x1c4
   app`$s3NIO7Channel_pTRTA.18+0x9
      2
";
        assert_eq!(
            described(text),
            [
                "app`operator+ app`vec::operator+= app`vec::operator++16 app`doRequests(group:number:)+452 app`$s3NIO7Channel_pTRTA.18+9 = 2"
            ]
        );
    }

    #[test]
    fn an_incomplete_stack_is_left_out_with_a_note() {
        let parsed = parse("   a`f\n   1\n   a`g\n\n   a`h\n", read);
        assert_eq!(describe(&parsed.set), ["a`f = 1"]);
        assert!(parsed.notes[0].starts_with("2 stacks have no count"));
    }

    #[test]
    fn a_hostile_count_is_an_error_with_its_line() {
        let mut input: &[u8] = b"\n   a`f\n   99999999999999999999999\n";
        let fault = read(&mut Lines::new(&mut input, &Budget::default())).unwrap_err();
        assert_eq!(fault.location, crate::error::Location::Line(3));
    }
}
