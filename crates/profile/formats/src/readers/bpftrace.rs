//! bpftrace's maps with a user stack as key, printed when the script ends:
//! `@malloc_calls[ustack()] = count()`.
//!
//! ```text
//! @malloc_calls[
//!     __libc_malloc+0
//!     _ZN3foo3barEv+32
//!     0x7f1200001234
//! , myprogram]: 17
//! ```
//!
//! Read: maps whose key begins with a stack, in bpftrace's own form or the
//! `perf` form (address, symbol, module in brackets), innermost frame first,
//! mangled or demangled. Further parts of the key are ignored. Values are
//! allocations, or bytes if the map's name contains `bytes` or `size`; several
//! maps are summed. Ignored: maps whose name contains `free`, maps without a
//! stack, values that are not a single number (histograms), all other lines.
//!
//! Source: bpftrace's manual, "Map printing" and `ustack`.

use std::collections::BTreeSet;

use allotrope_demangle::Demangler;
use allotrope_profile::{Metric, MetricSet, StackFrame};

use crate::budget::check_depth;
use crate::error::{Fault, Problem};
use crate::format::Format;
use crate::function_names::{file_name, parse_name, split_offset};
use crate::lines::Lines;
use crate::readers::Parsed;
use crate::stack_set_builder::StackSetBuilder;

/// The most ignored maps that are named.
const MAX_IGNORED: usize = 16;

/// The number of the first line that is characteristic of the format.
pub(crate) fn first_sign<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<usize> {
    lines.position(|line| opening(line).is_some())
}

/// The name of the map that begins on this line. A key of one line has no
/// stack.
fn opening(line: &str) -> Option<&str> {
    let name = line.trim_end().strip_prefix('@')?.strip_suffix('[')?;
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(word).then_some(name)
}

/// The end of a key: `]: 17`, `, other keys]: 17`; `None` for other lines.
fn closing(line: &str) -> Option<&str> {
    if !line.starts_with([']', ',']) {
        return None;
    }
    line.rsplit_once("]:").map(|(_, value)| value.trim())
}

/// The metric of a map's values.
fn metric(name: &str) -> Option<Metric> {
    let contains = |word: &str| name.to_ascii_lowercase().contains(word);
    if contains("free") || contains("dealloc") {
        None
    } else if contains("byte") || contains("size") {
        Some(Metric::Bytes)
    } else {
        Some(Metric::Allocations)
    }
}

#[derive(Default)]
struct Reader {
    builder: StackSetBuilder,
    known: BTreeSet<Metric>,
    /// Maps that count what is freed, the first few of them.
    ignored: BTreeSet<String>,
    /// The name of the map whose key is being read.
    map: Option<String>,
    stack: Vec<u32>,
    /// Number of stacks whose value is not a single number.
    not_numbers: u64,
}

/// Reads the whole file.
pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Parsed, Fault> {
    let mut reader = Reader {
        builder: StackSetBuilder::new(lines.budget()),
        ..Reader::default()
    };
    while let Some(line) = lines.next_text()? {
        reader.line(&line).map_err(|problem| lines.fault(problem))?;
    }
    Ok(reader.finish())
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Problem> {
        if let Some(name) = opening(line) {
            self.map = Some(name.to_owned());
            self.stack.clear();
            return Ok(());
        }
        let Some(map) = &self.map else {
            return Ok(());
        };
        if let Some(value) = closing(line) {
            let metric = metric(map);
            let map = self.map.take().unwrap_or_default();
            return match metric {
                Some(metric) => self.value(metric, value),
                None => {
                    if self.ignored.len() < MAX_IGNORED {
                        self.ignored.insert(map);
                    }
                    Ok(())
                }
            };
        }
        let text = line.trim();
        if line.starts_with([' ', '\t']) && !text.is_empty() {
            let index = self.builder.frame_of_text(text, frame)?;
            self.stack.push(index);
            check_depth(self.stack.len())?;
        }
        Ok(())
    }

    fn value(&mut self, metric: Metric, value: &str) -> Result<(), Problem> {
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
            self.not_numbers += 1;
            return Ok(());
        }
        let value = value.parse().map_err(|_| Problem::Malformed {
            format: Format::Bpftrace,
            what: "the value does not fit 64 bits".to_owned(),
        })?;
        self.known.insert(metric);
        self.builder.add_one(&self.stack, metric, value)
    }

    fn finish(self) -> Parsed {
        let mut notes = Vec::new();
        for map in &self.ignored {
            notes.push(format!(
                "the map @{map} counts what is freed and is left out"
            ));
        }
        if self.not_numbers > 0 {
            notes.push(format!(
                "{} stacks have a value that is no single number and are left out; use count() or sum()",
                self.not_numbers
            ));
        }
        if self.map.is_some() {
            notes.push("the file ends within a stack, which is left out".to_owned());
        }
        let known: Vec<Metric> = self.known.into_iter().collect();
        Parsed {
            set: self.builder.finish(String::new(), MetricSet::of(&known)),
            notes,
        }
    }
}

fn frame(demangler: &Demangler, text: &str) -> StackFrame {
    let (text, module) = without_perf_form(text);
    let (name, offset) = split_offset(text);
    let names = parse_name(demangler, name, "");
    StackFrame {
        function: names.function.into(),
        signature: names.signature.into(),
        module: file_name(module).into(),
        offset,
        ..StackFrame::default()
    }
}

/// `7f12 f+3 (/lib/x.so)` → `f+3`, `/lib/x.so`; other text unchanged.
fn without_perf_form(text: &str) -> (&str, &str) {
    let perf = || {
        let (address, rest) = text.split_once(' ')?;
        let hex = !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (symbol, module) = rest.strip_suffix(')')?.rsplit_once(" (")?;
        hex.then_some((symbol.trim(), module))
    };
    perf().unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::tests::{describe, parse};

    #[test]
    fn maps_with_stacks_are_read() {
        let text = "Attaching 3 probes...
hello from the program
@start[123]: 456
@total: 9

@malloc_calls[
    __libc_malloc+0
    _ZN3foo3barEv+32
    0x7f1200001234
]: 17
@calloc_calls[
    __libc_calloc+0
    operator+=+4
, myprogram]: 3
";
        let parsed = parse(text, read);
        assert_eq!(
            describe(&parsed.set),
            [
                "`__libc_malloc+0 `foo::bar+32 `0x7f1200001234 = 17",
                "`__libc_calloc+0 `operator+=+4 = 3",
            ]
        );
        assert_eq!(&*parsed.set.frames[1].signature, "foo::bar()");
        assert!(parsed.notes.is_empty());
    }

    #[test]
    fn names_of_maps_determine_the_metric() {
        let text = "@bytes[\n    f+1\n]: 640\n@[\n    f+1\n]: 10\n@free_calls[\n    g+1\n]: 5\n";
        let parsed = parse(text, read);
        let [stack] = &parsed.set.stacks[..] else {
            panic!("{:?}", parsed.set)
        };
        assert_eq!(stack.figures[Metric::Allocations as usize], 10);
        assert_eq!(stack.figures[Metric::Bytes as usize], 640);
        assert!(parsed.set.known.has(Metric::Bytes));
        assert_eq!(parsed.notes.len(), 1);
    }

    #[test]
    fn the_perf_form_gives_modules() {
        let text = "@[\n\t7f1234 malloc+3 (/usr/lib/libc.so.6)\n\t55aa [unknown] (/bin/x)\n]: 2\n";
        assert_eq!(
            describe(&parse(text, read).set),
            ["libc.so.6`malloc+3 x`[unknown] = 2"]
        );
    }

    #[test]
    fn a_histogram_and_an_incomplete_stack_are_in_the_notes() {
        let parsed = parse("@h[\n    f+1\n]: \n[1]  5 |@@@|\n@c[\n    g\n", read);
        assert!(parsed.set.stacks.is_empty());
        assert_eq!(parsed.notes.len(), 2);
    }
}
