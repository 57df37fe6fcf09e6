//! The instructions of a function for people: below the lines of the source that they belong to, hot
//! ones marked.

use allotrope_text::document::Document;
use allotrope_text::numbers::{percent, plural};
use allotrope_text::shown_with_tabs;

use crate::cpu::annotation::{Annotated, AnnotatedInstruction, Annotation};
use crate::tables::{base, place};

/// Of more instructions in a row without samples, the inner ones are left out.
const MAX_COLD: usize = 10;
/// Of these, so many stay at each end.
const AROUND: usize = 3;
/// Columns of the bytes; longer ones move the text.
const BYTES: usize = 16;

/// Adds the functions.
pub(crate) fn sections(annotations: &[Annotation], document: &mut Document) {
    for Annotation {
        wanted,
        problem,
        function,
    } in annotations
    {
        match function {
            Some(function) => section(function, document),
            None => {
                document.heading(2, format!("instructions of {wanted}"));
                document.warning(problem.clone().unwrap_or_default());
            }
        }
    }
}

fn section(function: &Annotated, document: &mut Document) {
    document.heading(2, format!("instructions of {}", function.name));
    document.text(format!(
        "{} ({}) at {:#x}: {}, {} of all; shares are of these; > marks 5% and more",
        function.name,
        base(&function.module),
        function.address,
        plural(function.share.samples as usize, "sample", "samples"),
        percent(function.share.share),
    ));
    document.lines(lines(&function.instructions));
}

fn lines(instructions: &[AnnotatedInstruction]) -> String {
    let width = instructions.last().map_or(1, |it| hexadecimal(it).len());
    let mut lines: Vec<String> = Vec::new();
    let mut before = None;
    let mut at = 0;
    while at < instructions.len() {
        let cold = instructions[at..].iter();
        let cold = cold.take_while(|it| it.share.samples == 0).count();
        let skipped = match cold > MAX_COLD {
            true => AROUND..cold - AROUND,
            false => cold..cold,
        };
        for (number, it) in instructions[at..].iter().enumerate().take(cold.max(1)) {
            if skipped.contains(&number) {
                if number == skipped.start {
                    lines.push(format!(
                        "         … {} instructions without samples",
                        skipped.len()
                    ));
                    before = None;
                }
                continue;
            }
            let line = (&it.file, it.line);
            if it.line > 0 && before != Some(line) {
                lines.push(source(it));
                before = Some(line);
            }
            lines.push(instruction(it, width));
        }
        at += cold.max(1);
    }
    lines.join("\n") + "\n"
}

fn source(it: &AnnotatedInstruction) -> String {
    let inlined = it.inlined.as_ref();
    let inlined = inlined.map_or_else(String::new, |it| format!(" ({it})"));
    let text = it.source.as_deref().unwrap_or_default().trim();
    let place = place(&it.file, it.line);
    format!("{place}{inlined}  {}", shown_with_tabs(text))
        .trim_end()
        .to_owned()
}

fn instruction(it: &AnnotatedInstruction, width: usize) -> String {
    let mark = if it.hot { '>' } else { ' ' };
    let share = match it.share.samples {
        0 => String::new(),
        _ => percent(it.share.share),
    };
    let target = it.target.as_ref();
    let target = target.map_or_else(String::new, |it| format!(" <{it}>"));
    format!(
        "{mark} {share:>6}  {:>width$}  {:<BYTES$}  {}{target}",
        hexadecimal(it),
        it.bytes,
        it.text,
    )
}

fn hexadecimal(it: &AnnotatedInstruction) -> String {
    format!("{:x}", it.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::rows::share;
    use crate::cpu::session::Counts;

    fn instruction(address: u64, samples: u64, line: u32) -> AnnotatedInstruction {
        let counts = Counts {
            samples,
            ..Counts::default()
        };
        AnnotatedInstruction {
            address,
            bytes: "4156".to_owned(),
            text: "push r14".to_owned(),
            target: (samples == 20).then(|| "getenv".to_owned()),
            inlined: None,
            file: "/a/b.c".to_owned(),
            line,
            source: (line == 7).then(|| "\tint x;".to_owned()),
            hot: samples >= 5,
            share: share(&counts, 100),
        }
    }

    #[test]
    fn hot_ones_are_marked_and_long_parts_without_samples_are_cut() {
        let mut all = vec![instruction(0x505f, 20, 7), instruction(0x5061, 3, 7)];
        all.extend((0..12).map(|it| instruction(0x5070 + it, 0, 8)));
        all.push(instruction(0x5080, 1, 7));
        let cold = |at: &str| format!("          {at}  4156              push r14");
        let expected = [
            "b.c:7  int x;".to_owned(),
            ">  20.0%  505f  4156              push r14 <getenv>".to_owned(),
            "    3.0%  5061  4156              push r14".to_owned(),
            "b.c:8".to_owned(),
            cold("5070"),
            cold("5071"),
            cold("5072"),
            "         … 6 instructions without samples".to_owned(),
            "b.c:8".to_owned(),
            cold("5079"),
            cold("507a"),
            cold("507b"),
            "b.c:7  int x;".to_owned(),
            "    1.0%  5080  4156              push r14".to_owned(),
        ];
        let found = lines(&all);
        assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    }
}
